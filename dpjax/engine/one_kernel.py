"""Compiles a function as one kernel of a CPU core, with its loops and conditions inside.

XLA runs a program on CPU as a list of kernels, one for each operation that it does not fuse with
another. Going from one kernel to the next costs as much as computing some hundred numbers, and a
round of a bandit is twenty kernels. XLA compiles loops that touch little memory as one kernel of
its own accord, and an attribute of a call asks it to do so for any program. The numbers are those
of the program in many kernels, except for the last bits of sums for which that one calls a library.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.errors import JaxRuntimeError
from jax.experimental.xla_metadata import set_xla_metadata

from dpjax.engine.evaluate import equations
from dpjax.engine.settings import FIRST_LEVEL

_OPTIONS_OF_MANY = {
    # By default the compiler chooses narrower vectors, which suit programs that do other work too.
    "xla_cpu_prefer_vector_width": 512,
    **FIRST_LEVEL,
}
_OPTIONS = {
    **_OPTIONS_OF_MANY,
    # A kernel can neither call a library nor fork into threads.
    "xla_cpu_experimental_ynn_fusion_type": "",
    "xla_disable_hlo_passes": "cpu-parallel-task-assigner",
}

# Primitives for which XLA has no code that can be a part of a kernel.
_NOT_IN_A_KERNEL = {
    "approx_top_k", "cholesky", "conv_general_dilated", "debug_callback", "debug_print", "eig",
    "eigh", "fft", "ffi_call", "geqrf", "hessenberg", "householder_product", "io_callback", "lu",
    "pure_callback", "qr", "schur", "sort", "svd", "top_k", "triangular_solve",
    "tridiagonal_solve",
}  # fmt: skip


# How many trials a core takes through the whole program before it turns to the next ones. For one
# kernel they are few, so that their state stays in the innermost caches, and fill the vectors. For
# many kernels they are as many as hide what it costs to start a kernel.
_TRIALS, _TRIALS_OF_MANY = 128, 1024
# The least number of trials. LLVM unrolls loops over fewer and then contracts the products and
# sums of some trials only, so that a trial's last bits would depend on how many play beside it.
_FEWEST = 8


def in_pieces(function, batched, length, fewest=1):
    """``function``, applied to one piece of its arguments' last axis after the other.

    Args:
      function: of pytrees of arrays; what it returns has the common last axis too.
      batched: for each argument whether its leaves have that axis.
      length: the most entries of a piece. All pieces have the same number; the last one is filled
        by repetition.
      fewest: the least entries of a piece, which is filled likewise.
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
            own = [
                jax.tree.map(lambda leaf: jnp.asarray(leaf)[..., places], x) if flag else x
                for x, flag in zip(arguments, batched, strict=True)
            ]
            return function(*own)

        def joined(leaf):
            leaf = jnp.moveaxis(leaf, 0, -2)
            return leaf.reshape(*leaf.shape[:-2], places.size)[..., :size]

        if count == 1:
            return jax.tree.map(lambda leaf: leaf[..., :size], piece(places[0]))
        return jax.tree.map(joined, lax.map(piece, places))

    return in_turn


class Unfit(Exception):
    """A way to compile cannot serve a program. The message says why."""


def as_one_kernel(function, arguments, batched, spread):
    """Compiles a function for CPU as one kernel.

    Arguments are those of :func:`dpjax.engine.compile.compile_for`.

    Raises:
      Unfit: the function has an operation that no kernel can hold, or XLA refuses the program.
    """
    function = _one_kernel(in_pieces(function, batched, _TRIALS, _FEWEST))
    try:
        return jax.jit(spread(function)).lower(*arguments).compile(_OPTIONS)
    except JaxRuntimeError as error:  # XLA refuses the program, or does not know the options.
        raise Unfit(str(error)) from error


def as_many_kernels(function, arguments, batched, spread):
    """Compiles a function for CPU as a list of kernels, with arguments like those above."""
    function = in_pieces(function, batched, _TRIALS_OF_MANY, _FEWEST)
    return jax.jit(spread(function)).lower(*arguments).compile(_OPTIONS_OF_MANY)


def _one_kernel(function):
    """The function as a call that the compiler neither inlines nor takes apart."""

    def called(*arguments):
        closed, output = jax.make_jaxpr(jax.jit(function), return_shape=True)(*arguments)
        if name := _not_in_a_kernel(closed.jaxpr):
            raise Unfit(f"XLA has no code for {name} that can be a part of a kernel")
        (call,) = closed.jaxpr.eqns
        values = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
        values.update(zip(closed.jaxpr.invars, jax.tree.leaves(arguments), strict=True))
        operands = [values[atom] for atom in call.invars]
        # The call is bound and not traced again, so that no other equation has its attributes.
        with set_xla_metadata(xla_cpu_small_call="true", inlineable="false"):
            results = call.primitive.bind(*operands, **call.params)
        return jax.tree.unflatten(jax.tree.structure(output), results)

    return called


def _not_in_a_kernel(jaxpr) -> str | None:
    """The name of an operation in a program that no kernel can hold; None where there is none."""
    names = (eqn.primitive.name for eqn in equations(jaxpr))
    return next(
        (name for name in names if name in _NOT_IN_A_KERNEL or name.startswith("scatter")), None
    )
