"""Compiles a function as one CPU kernel, with its loops and conditions inside.

On CPU XLA runs a program as a list of kernels, one for each operation that it does not fuse with
another. Starting a kernel costs as much as computing a few hundred numbers, and a round of a bandit
is twenty kernels. By default XLA compiles only loops that use little memory as one kernel. An
attribute of a call makes XLA compile any program as one kernel. The results are the same,
except for the last bits of some sums: a library computes these if there are many kernels.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.errors import JaxRuntimeError
from jax.experimental.xla_metadata import set_xla_metadata

from dpjax.engine.evaluate import equations
from dpjax.engine.settings import FIRST_LEVEL

_OPTIONS_OF_MANY: dict[str, Any] = {
    # By default the compiler chooses narrower vectors, which suit programs with mixed work.
    "xla_cpu_prefer_vector_width": 512,
    **FIRST_LEVEL,
}
_OPTIONS: dict[str, Any] = {
    **_OPTIONS_OF_MANY,
    # A kernel can neither call a library nor start threads.
    **(
        {"xla_cpu_use_xnnpack": False}
        if jax.__version_info__ < (0, 8, 1)
        else {"xla_cpu_experimental_ynn_fusion_type": ""}
    ),
    "xla_disable_hlo_passes": "cpu-parallel-task-assigner",
}

# Primitives that XLA cannot compile within a kernel.
_NOT_IN_A_KERNEL = {
    "approx_top_k", "cholesky", "conv_general_dilated", "debug_callback", "debug_print", "eig",
    "eigh", "fft", "ffi_call", "geqrf", "hessenberg", "householder_product", "io_callback", "lu",
    "pure_callback", "qr", "schur", "sort", "svd", "top_k", "triangular_solve",
    "tridiagonal_solve",
}  # fmt: skip


# The number of trials that a core computes at once. For one kernel, the trials fill the vectors but
# are few, so that their state stays in the innermost caches. For many kernels, the number is large
# enough to hide the cost of starting a kernel.
_TRIALS, _TRIALS_OF_MANY = 128, 1024
# The least number of trials. LLVM unrolls loops over fewer trials, and then contracts products and
# sums of only some of them. A trial's last bits would then depend on the number of trials.
_FEWEST = 8


def in_pieces(function: Callable, batched: Sequence[bool], length: int, fewest: int = 1):
    """Apply ``function`` to pieces of its arguments' last axis, one after another.

    Args:
      function: takes pytrees of arrays; its result also has the common last axis.
      batched: for each argument, whether its leaves have this axis.
      length: the largest number of entries of a piece. All pieces have the same number of entries;
        the last piece is padded by repetition.
      fewest: the least number of entries of a piece. A shorter piece is padded by repetition.
    """

    def in_turn(*arguments):
        flagged = [x for x, flag in zip(arguments, batched, strict=True) if flag]
        size = jax.tree.leaves(flagged)[0].shape[-1]
        count = -(-size // length)
        if count == 1 and size >= fewest:
            return function(*arguments)
        places = np.arange(count * max(-(-size // count), fewest)).reshape(count, -1)
        places = np.minimum(places, size - 1)

        def piece(places):
            part = [
                jax.tree.map(lambda leaf: jnp.asarray(leaf)[..., places], x) if flag else x
                for x, flag in zip(arguments, batched, strict=True)
            ]
            return function(*part)

        def joined(leaf):
            leaf = jnp.moveaxis(leaf, 0, -2)
            return leaf.reshape(*leaf.shape[:-2], places.size)[..., :size]

        if count == 1:
            return jax.tree.map(lambda leaf: leaf[..., :size], piece(places[0]))
        return jax.tree.map(joined, lax.map(piece, places))

    return in_turn


class Unfit(Exception):
    """A program cannot be compiled by this layout or compiler. The message gives the reason."""


def as_one_kernel(function, arguments, batched: Sequence[bool], spread):
    """Compile a function for CPU as one kernel.

    The arguments are those of :func:`dpjax.engine.compile.compile_for`.

    Raises:
      Unfit: the function has an operation that cannot be in a kernel, or XLA refuses the program.
    """
    function = _one_kernel(in_pieces(function, batched, _TRIALS, _FEWEST))
    try:
        return jax.jit(spread(function)).lower(*arguments).compile(_OPTIONS)
    except JaxRuntimeError as error:  # XLA refuses the program, or does not know the options.
        raise Unfit(str(error)) from error


def as_many_kernels(function, arguments, batched: Sequence[bool], spread):
    """Compile a function for CPU as a list of kernels, with the arguments of as_one_kernel."""
    function = in_pieces(function, batched, _TRIALS_OF_MANY, _FEWEST)
    return jax.jit(spread(function)).lower(*arguments).compile(_OPTIONS_OF_MANY)


def _one_kernel(function):
    """The function as a call that the compiler neither inlines nor splits."""

    def called(*arguments):
        closed, output = jax.make_jaxpr(jax.jit(function), return_shape=True)(*arguments)
        if name := _not_in_a_kernel(closed.jaxpr):
            raise Unfit(f"XLA cannot compile {name} within a kernel")
        (call,) = closed.jaxpr.eqns
        values = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
        values.update(zip(closed.jaxpr.invars, jax.tree.leaves(arguments), strict=True))
        operands = [values[atom] for atom in call.invars]
        # The call is bound, not traced again, so that no other equation has its attributes.
        with set_xla_metadata(xla_cpu_small_call="true", inlineable="false"):
            results = call.primitive.bind(*operands, **call.params)
        return jax.tree.unflatten(jax.tree.structure(output), results)

    return called


def _not_in_a_kernel(jaxpr) -> str | None:
    """The name of an operation that cannot be in a kernel; None if the program has none."""
    names = (eqn.primitive.name for eqn in equations(jaxpr))
    return next(
        (name for name in names if name in _NOT_IN_A_KERNEL or name.startswith("scatter")), None
    )
