"""The settings of JAX under which the package computes, whatever the caller's settings are.

The package changes no setting outside of its own calls.
"""

import contextlib
import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import jax

P = ParamSpec("P")
R = TypeVar("R")


def in_float32(function: Callable[P, R]) -> Callable[P, R]:
    """``function``, run with the 32-bit types that JAX has by default.

    Under ``jax_enable_x64`` sums, indices and constants would have other types, and so other
    values.
    """

    @functools.wraps(function)
    def narrow(*arguments: P.args, **keywords: P.kwargs) -> R:
        with jax.enable_x64(False):
            return function(*arguments, **keywords)

    return narrow


@contextlib.contextmanager
def own():
    """The settings of a sweep, which compiles and moves arrays between host and devices.

    It ignores the caller's ambient mesh. A sweep gets its own mesh as an argument.
    """
    nowhere = jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), ()))
    with nowhere, jax.enable_x64(False), jax.disable_jit(False), jax.transfer_guard("allow"):
        yield


@contextlib.contextmanager
def of_program(partitionable, precision):
    """The settings under which a program was traced. Threads need them, since they inherit none."""
    with own(), jax.threefry_partitionable(partitionable), jax.default_matmul_precision(precision):
        yield
