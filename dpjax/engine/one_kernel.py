"""Compiling a function as one kernel of a CPU core, its loops and conditions inside.

XLA runs a program on CPU as a list of kernels, one for each operation that it does not fuse with
another, and going from one to the next costs as much as some hundred numbers do. A round of a
bandit is twenty kernels. Loops that touch next to no memory XLA compiles as a whole by itself; an
attribute of a call asks for the same. The numbers are those of the program in kernels, but for the
last bits of sums that a library makes there.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.errors import JaxRuntimeError
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import jaxprs_in_params

_OPTIONS = {
    # Calls into a library and forks into threads cannot stand within a kernel.
    "xla_cpu_experimental_ynn_fusion_type": "",
    "xla_disable_hlo_passes": "cpu-parallel-task-assigner",
    # The compiler's choice of narrower vectors is for mixed work: here they are all that there is.
    "xla_cpu_prefer_vector_width": 512,
}
_OPTIONS_OF_MANY = {"xla_cpu_prefer_vector_width": 512}

# What XLA has no code for that could stand within a kernel.
_APART = {
    "approx_top_k", "cholesky", "conv_general_dilated", "debug_callback", "debug_print", "eig",
    "eigh", "fft", "ffi_call", "geqrf", "hessenberg", "householder_product", "io_callback", "lu",
    "pure_callback", "qr", "schur", "sort", "svd", "top_k", "triangular_solve",
    "tridiagonal_solve",
}  # fmt: skip


# Trials with which a core goes through the whole program before it turns to the next ones. In one
# kernel: few enough that their state stays in the innermost caches, enough to fill the vectors. In
# many: enough to hide what it costs to start one.
_TRIALS, _TRIALS_OF_MANY = 128, 1024
# Trials at least. LLVM takes loops over fewer apart and then contracts the products and sums of
# some of them only, so that last bits of a trial would depend on how many play beside it.
_FEWEST = 8


def in_pieces(function, batched, length):
    """``function`` of last axes that are longer than ``length``, a piece of them after the other.

    Args:
      function: of pytrees of arrays; what it returns has the common last axis too.
      batched: for each argument whether its leaves have the axis.
      length: of a piece, at most; all have the same, the last one by repetition.
    """

    def in_turn(*arguments):
        flagged = [x for x, flag in zip(arguments, batched, strict=True) if flag]
        size = jax.tree.leaves(flagged)[0].shape[-1]
        count = -(-size // length)
        if count == 1:
            return function(*arguments)
        places = np.arange(count * -(-size // count)).reshape(count, -1)

        def piece(places):
            own = [
                jax.tree.map(lambda leaf: jnp.asarray(leaf)[..., places], x) if flag else x
                for x, flag in zip(arguments, batched, strict=True)
            ]
            return function(*own)

        def joined(leaf):
            leaf = jnp.moveaxis(leaf, 0, -2)
            return leaf.reshape(*leaf.shape[:-2], places.size)[..., :size]

        return jax.tree.map(joined, lax.map(piece, np.minimum(places, size - 1)))

    return in_turn


def _of_enough(function, batched):
    """``function`` of at least ``_FEWEST`` trials, the last one repeated where there are fewer."""

    def filled(*arguments):
        flagged = [x for x, flag in zip(arguments, batched, strict=True) if flag]
        size = jax.tree.leaves(flagged)[0].shape[-1]
        missing = _FEWEST - size
        if missing <= 0:
            return function(*arguments)

        def fill(leaf):
            last = jnp.broadcast_to(leaf[..., -1:], (*leaf.shape[:-1], missing))
            return jnp.concatenate([leaf, last], axis=-1)

        own = [
            jax.tree.map(fill, x) if flag else x for x, flag in zip(arguments, batched, strict=True)
        ]
        return jax.tree.map(lambda leaf: leaf[..., :size], function(*own))

    return filled


def compile_for_cpu(function, arguments, batched, *, spread=None):
    """The compiled program of a function for CPU: one kernel, where it can be that.

    Args:
      function: of pytrees of arrays, some of which have the trials as their last axis, as what it
        returns has. What it computes of a trial does not depend on the others.
      arguments: of the program, arrays or jax.ShapeDtypeStruct.
      batched: for each argument whether its leaves have that axis.
      spread: makes the program of the function, as ``jax.shard_map`` does; by default they are the
        same.
    """

    function = _of_enough(function, batched)

    def compiled(function, options):
        program = spread(function) if spread else function
        return jax.jit(program).lower(*arguments).compile(options)

    try:
        return compiled(_one_kernel(in_pieces(function, batched, _TRIALS)), _OPTIONS)
    except (_NeedsKernels, JaxRuntimeError):
        # The second of a compiler that does not know these options, or that refuses.
        return compiled(in_pieces(function, batched, _TRIALS_OF_MANY), _OPTIONS_OF_MANY)


class _NeedsKernels(Exception):
    """A function has an operation that no kernel can hold."""


def _one_kernel(function):
    """The function as a call that the compiler neither inlines nor takes apart."""

    def called(*arguments):
        closed, output = jax.make_jaxpr(jax.jit(function), return_shape=True)(*arguments)
        if _needs_kernels(closed.jaxpr):
            raise _NeedsKernels
        (call,) = closed.jaxpr.eqns
        values = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
        values.update(zip(closed.jaxpr.invars, jax.tree.leaves(arguments), strict=True))
        operands = [values[atom] for atom in call.invars]
        # Bound here and not traced again, so that the attributes are the call's alone.
        with set_xla_metadata(xla_cpu_small_call="true", inlineable="false"):
            results = call.primitive.bind(*operands, **call.params)
        return jax.tree.unflatten(jax.tree.structure(output), results)

    return called


def _needs_kernels(jaxpr) -> bool:
    return any(
        eqn.primitive.name in _APART
        or eqn.primitive.name.startswith("scatter")
        or any(map(_needs_kernels, jaxprs_in_params(eqn.params)))
        for eqn in jaxpr.eqns
    )
