"""A cache of compiled programs on disk, shared by processes.

A file contains the compressed pickle of an executable for one device. The file's name is a digest
of everything that determines the machine code: the traced program, the package's source code, JAX,
the device and the settings. It is loaded for the default device. Other files contain the numbers of
a program that :mod:`dpjax.study.horizons` makes arguments. Loading a pickle can run any code.
So files are read only from a folder that belongs to the user, never from a store of results.
"""

import hashlib
import logging
import os
import pickle
import tempfile
import warnings
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import local

import jax
import jaxlib
from jax.experimental.serialize_executable import deserialize_and_load, serialize
from jax.sharding import Mesh

from dpjax.core import generators
from dpjax.core._version import __version__
from dpjax.engine import devices, settings

_log = logging.getLogger(__name__)
# The largest size of the folder in bytes. The least recently used files are removed first.
_MOST = 2**30


def path_of(traced, size: tuple[int, int], mesh: Mesh | None) -> Path | None:
    """The file of a block's program; None if it is not kept.

    Programs for several devices, programs that call Python functions, and programs with a generator
    that is not part of the package are not kept.
    """
    if mesh is not None or traced.callbacks or not traced.key_types <= generators.OWN:
        return None
    device = devices.default()
    return _file_of(
        traced.compiled_as, traced.point, size, traced.settings, device.device_kind,
        device.client.platform_version, devices.cores(), os.environ.get("XLA_FLAGS"),
    )  # fmt: skip


def path_of_differences(traced, horizons: Sequence[int]) -> Path | None:
    """The file of the numbers in which a program differs at other horizons; None if not kept."""
    return _file_of("horizons", traced.digest, traced.text, traced.settings, *horizons)


def _file_of(*decisive) -> Path | None:
    folder = settings.cache_folder("executables")
    decisive = *decisive, _sources(), jax.__version__, jaxlib.__version__
    return folder / hashlib.sha256(repr(decisive).encode()).hexdigest() if folder else None


_compiling = local()


def _listen(event, **_):
    if event == "/jax/compilation_cache/cache_hits":
        _compiling.read = True


jax.monitoring.register_event_listener(_listen)


def watched(function: Callable, *arguments: Sequence):
    """(result of the function, whether JAX read an executable from JAX's own cache meanwhile).

    An executable from that cache can be serialized, but the copy fails when it is run (jaxlib
    0.10.2).
    """
    _compiling.read = False
    return function(*arguments), _compiling.read


@cache
def _sources() -> str:
    """A digest of the version and of all modules, since draws and releases are compiled in."""
    digest = hashlib.sha256(__version__.encode())
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def load(path: Path):
    """(compiled program, bytes needed, bytes held) of a file; None if it cannot be used."""

    def loaded(executable, inputs, outputs, needed, held):
        places = [devices.default()]
        run = deserialize_and_load(executable, inputs, outputs, execution_devices=places)
        return run, needed, held

    return read(path, lambda content: loaded(*content))


def read(path: Path, use: Callable = lambda content: content):
    """The use of the content of a file; None if there is no file, or if it cannot be used."""
    try:
        if not _belongs_to_user(path):
            return None
        # zlib raises an error if the file is damaged.
        content = use(pickle.loads(zlib.decompress(path.read_bytes())))
        with suppress(OSError):
            os.utime(path)
        return content
    except (FileNotFoundError, NotADirectoryError):
        return None
    except Exception as error:  # A file can contain anything, and jaxlib raises many kinds of error
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        warnings.warn(
            f"the compiled program {path} is not used ({reason}); compiling it again",
            RuntimeWarning,
            stacklevel=3,
        )
        return None


def _belongs_to_user(path) -> bool:
    """True if a file and its folder belong to the user, and no one else can write to them."""
    for place in (path.parent, path):
        status = place.stat()
        if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o022):
            raise PermissionError("it belongs to another user, or others can write to it")
    return True


def save(path: Path, run, needed: int, held: int) -> None:
    """Write a compiled program to a file. If this is not possible, log why."""
    write(path, lambda: (*serialize(run), needed, held))


def write(path: Path, content: Callable) -> None:
    """Write what the function ``content`` returns to a file. If this is not possible, log why."""
    try:
        packed = zlib.compress(pickle.dumps(content()), level=1)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, scratch = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(packed)
            os.replace(scratch, path)
        finally:
            with suppress(FileNotFoundError):  # it has its final name
                os.unlink(scratch)
        _make_room(path.parent)
    except Exception as error:  # A program cannot be serialized, or a disk is full.
        _log.info("a compiled program is not kept: %s: %s", type(error).__name__, error)


def _make_room(folder) -> None:
    """Remove the least recently used files until the folder is small enough."""
    status = {path: path.stat() for path in folder.iterdir()}
    held = sum(entry.st_size for entry in status.values())
    for path in sorted(status, key=lambda entry: status[entry].st_mtime):
        if held <= _MOST:
            return
        held -= status[path].st_size
        path.unlink()
