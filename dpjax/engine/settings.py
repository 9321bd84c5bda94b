"""The JAX settings under which the package computes, independent of the caller's settings.

The package changes no setting outside of its own calls, except in :func:`keep_compiled`.
"""

import contextlib
import functools
import hashlib
import os
import platform
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ParamSpec, TypeVar

import jax

from dpjax.core._versions import enable_x64

# Compiler options. Higher levels of LLVM take twice as long to compile and give the same bits.
FIRST_LEVEL = {"xla_backend_optimization_level": 1}
# For programs that run a few times: faster to compile than the first level, and slower to run.
# Products and sums are not contracted, so last bits differ.
LOWEST_LEVEL = {"xla_backend_optimization_level": 0}

P = ParamSpec("P")
R = TypeVar("R")


def in_float32(function: Callable[P, R]) -> Callable[P, R]:
    """Run ``function`` with JAX's default 32-bit types.

    Under ``jax_enable_x64`` sums, indices and constants would have other types and therefore other
    values.
    """

    @functools.wraps(function)
    def narrow(*arguments: P.args, **keywords: P.kwargs) -> R:
        with enable_x64(False):
            return function(*arguments, **keywords)

    return narrow


@contextlib.contextmanager
def of_sweep() -> Iterator[None]:
    """The settings of a sweep, which compiles and moves arrays between host and devices.

    The caller's ambient mesh is ignored, since a sweep has its own argument ``mesh``.
    """
    nowhere = jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), ()))
    with nowhere, enable_x64(False), jax.disable_jit(False), jax.transfer_guard("allow"):
        yield


@contextlib.contextmanager
def of_program(partitionable: bool, precision: str | None) -> Iterator[None]:
    """The settings under which a program was traced. Threads do not inherit them."""
    with (
        of_sweep(),
        jax.threefry_partitionable(partitionable),
        jax.default_matmul_precision(precision),
    ):
        yield


def keep_compiled() -> None:
    """Enable JAX's persistent compilation cache.

    Call it before anything is computed. The command line does this. The folder is
    ``dpjax/compiled`` in ``$XDG_CACHE_HOME`` or ``~/.cache``. It may be deleted at any time, and
    results do not depend on it. If the user has set ``JAX_COMPILATION_CACHE_DIR``, that folder is
    used. ``JAX_ENABLE_COMPILATION_CACHE=false`` disables the cache.

    Examples:
      >>> folder = jax.config.jax_compilation_cache_dir
      >>> jax.config.update("jax_compilation_cache_dir", "mine")
      >>> dpjax.keep_compiled()  # a folder of one's own stays
      >>> jax.config.jax_compilation_cache_dir
      'mine'
      >>> jax.config.update("jax_compilation_cache_dir", folder)
    """
    folder = cache_folder("compiled")
    if jax.config.values["jax_compilation_cache_dir"] is not None or folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return  # Nothing is cached.
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def cache_folder(kind: str) -> Path | None:
    """The folder for compiled programs of one kind, for this processor.

    It is ``dpjax`` in ``$XDG_CACHE_HOME``, or in ``~/.cache``. None if ``DPJAX_CACHE`` is ``off``.
    """
    if os.environ.get("DPJAX_CACHE") == "off":
        return None
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "dpjax" / kind / _processor()


@functools.cache
def _processor() -> str:
    """A digest of the processor's features, since machines may share a home folder."""
    features = platform.processor()
    try:
        with open("/proc/cpuinfo") as lines:
            features = next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        pass
    return hashlib.sha256(f"{platform.machine()} {features}".encode()).hexdigest()[:16]
