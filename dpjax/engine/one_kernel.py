"""Compiles a function into a single CPU kernel that holds its loops and conditions.

On CPU, XLA runs a program as a list of kernels, one for each operation that it does not fuse with
another. Going from one kernel to the next costs as much time as some hundred numbers take, and a
round of a bandit is twenty kernels. XLA compiles a loop as a whole where it touches next to no
memory; an attribute of a call asks it to do the same elsewhere. The single kernel computes the same
numbers as the list, except for the last bits of sums that a library computes in the list.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.errors import JaxRuntimeError
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import jaxprs_in_params

_OPTIONS = {
    # A kernel can neither call a library nor fork into threads.
    "xla_cpu_experimental_ynn_fusion_type": "",
    "xla_disable_hlo_passes": "cpu-parallel-task-assigner",
    # By default the compiler prefers narrower vectors, which suit mixed work. All work here is in
    # vectors.
    "xla_cpu_prefer_vector_width": 512,
}
_OPTIONS_OF_MANY = {"xla_cpu_prefer_vector_width": 512}

# Operations for which XLA has no code that could stand within a kernel.
_APART = {
    "approx_top_k", "cholesky", "conv_general_dilated", "debug_callback", "debug_print", "eig",
    "eigh", "fft", "ffi_call", "geqrf", "hessenberg", "householder_product", "io_callback", "lu",
    "pure_callback", "qr", "schur", "sort", "svd", "top_k", "triangular_solve",
    "tridiagonal_solve",
}  # fmt: skip


# A core takes this many trials through the whole program before it turns to the next ones. For a
# single kernel their state has to stay in the innermost caches, and they have to fill the vectors.
# For a list of kernels they have to be enough to hide what it costs to start a kernel.
_TRIALS, _TRIALS_OF_MANY = 128, 1024
# A kernel runs at least this many trials. LLVM unrolls loops over fewer and then contracts products
# and sums of only some of them, so that the last bits of a trial would depend on how many play
# beside it.
_FEWEST = 8


def in_pieces(function, batched, length):
    """``function``, applied to its last axis piece by piece where that is longer than ``length``.

    Args:
      function: takes and returns pytrees of arrays. What it returns has the common last axis too.
      batched: for each argument, whether its leaves have the last axis.
      length: the longest piece. All pieces have one length; the last trial is repeated to fill the
        last piece.
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
    """``function``, with the last trial repeated where there are fewer than ``_FEWEST``."""

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
    """Compiles a function for CPU, into a single kernel where that is possible.

    Args:
      function: takes pytrees of arrays. Trials are the last axis of some of these and of what it
        returns. What it computes for a trial does not depend on the others.
      arguments: the arguments of the program, arrays or jax.ShapeDtypeStruct.
      batched: for each argument, whether its leaves have the axis of trials.
      spread: makes a program of the function, as ``jax.shard_map`` does; by default the function is
        the program.
    """

    function = _of_enough(function, batched)

    def compiled(function, options):
        program = spread(function) if spread else function
        return jax.jit(program).lower(*arguments).compile(options)

    try:
        return compiled(_one_kernel(in_pieces(function, batched, _TRIALS)), _OPTIONS)
    except (_NeedsKernels, JaxRuntimeError):
        # JaxRuntimeError: the compiler does not know these options, or it refuses.
        return compiled(in_pieces(function, batched, _TRIALS_OF_MANY), _OPTIONS_OF_MANY)


class _NeedsKernels(Exception):
    """The function has an operation that no kernel can hold."""


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
        # The call is bound here and not traced again, so that it alone gets the attributes.
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
