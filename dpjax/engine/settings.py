"""The settings of JAX under which the package computes, whatever the caller's settings are.

The package changes no setting outside of its own calls, but for :func:`keep_compiled`.
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

# Options of the compiler. The later levels of LLVM compile for twice as long, into the same bits.
FIRST_LEVEL = {"xla_backend_optimization_level": 1}

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
def own() -> Iterator[None]:
    """The settings of a sweep, which compiles and moves arrays between host and devices.

    It ignores the caller's ambient mesh. A sweep gets its own mesh as an argument.
    """
    nowhere = jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), ()))
    with nowhere, jax.enable_x64(False), jax.disable_jit(False), jax.transfer_guard("allow"):
        yield


@contextlib.contextmanager
def of_program(partitionable: bool, precision: str | None) -> Iterator[None]:
    """The settings under which a program was traced. Threads need them, since they inherit none."""
    with own(), jax.threefry_partitionable(partitionable), jax.default_matmul_precision(precision):
        yield


def keep_compiled() -> None:
    """Has JAX keep on disk what this process compiles, and read what earlier ones compiled.

    Call it before anything is computed. The command line does. The folder is ``dpjax/compiled`` of
    ``$XDG_CACHE_HOME``, or of ``~/.cache``. It may be deleted at any time. Numbers do not depend on
    it. A ``JAX_COMPILATION_CACHE_DIR`` of the user's own is left as it is, and
    ``JAX_ENABLE_COMPILATION_CACHE=false`` keeps nothing.

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
        return  # Without a place to write, everything is compiled anew.
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
    """A word for what this processor can execute, since machines may share a home folder."""
    features = platform.processor()
    try:
        with open("/proc/cpuinfo") as lines:
            features = next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        pass
    return hashlib.sha256(f"{platform.machine()} {features}".encode()).hexdigest()[:16]
