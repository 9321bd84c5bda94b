"""Settings of JAX under which everything here is computed, whatever the caller's are.

The package changes no setting outside of its own calls.
"""

import contextlib
import functools

import jax


def in_float32(function):
    """``function`` with the types that JAX has by default: under ``jax_enable_x64`` sums, indices
    and constants would be others, and so would the numbers."""

    @functools.wraps(function)
    def narrow(*arguments, **keywords):
        with jax.enable_x64(False):
            return function(*arguments, **keywords)

    return narrow


@contextlib.contextmanager
def own():
    """Of a sweep, whose work it is to compile and to move arrays between host and devices.

    An ambient mesh is its caller's; a sweep is told of its own.
    """
    nowhere = jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), ()))
    with nowhere, jax.enable_x64(False), jax.disable_jit(False), jax.transfer_guard("allow"):
        yield


@contextlib.contextmanager
def of_program(partitionable, precision):
    """Those of a program that was traced: threads do not inherit the contexts of their maker."""
    with own(), jax.threefry_partitionable(partitionable), jax.default_matmul_precision(precision):
        yield
