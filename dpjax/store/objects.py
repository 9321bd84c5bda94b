"""Reads and writes objects: named bytes in a folder or at an fsspec URL, with checksums.

Zarr writes files without fsync, and the names of its unfinished files do not identify the writing
process. So the objects of a store are written here.
"""

import contextlib
import hashlib
import os
import re
import socket
import sys
import uuid
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from dpjax.core import optional

_READERS = 16  # threads; at a URL even a small object takes long to read
_PARTIAL = ".partial"


class Damaged(ValueError):
    """An object is missing or does not contain the written bytes; the message names it.

    Examples:
      >>> issubclass(store.Damaged, ValueError)
      True
    """


def check_url(url: str) -> None:
    """Refuse a blank URL and a root, such as ``/`` or ``s3://``.

    Raises:
      ValueError: the URL names no folder.
    """
    if not url.rpartition("://")[2].strip().strip("/"):
        raise ValueError(
            f"store: must name a folder or URL, got {url!r}; pass a path such as 'results/mine'"
        )


class Files:
    """The objects in a folder or at a URL. Each object is written atomically."""

    def __init__(self, url):
        try:
            self.url = os.fspath(url)
            check_url(self.url)
        except TypeError:
            raise TypeError(f"store must be a path or an fsspec URL, got {url!r}") from None
        self.system, self.root = optional("fsspec").core.url_to_fs(self.url)
        protocol = self.system.protocol
        self.local = "file" in ((protocol,) if isinstance(protocol, str) else protocol)

    def path(self, key) -> str:
        return f"{self.root}/{key}"

    def keys(self) -> list[str]:
        """The names of all objects, except unfinished ones."""
        return [key for key in self._listed() if not key.endswith(_PARTIAL)]

    def read(self, key) -> bytes | None:
        """The bytes of an object; None if it does not exist.

        Raises:
          OSError: the object exists and cannot be read; the message names it.
        """
        path = self.path(key)
        try:
            return self.system.cat_file(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise OSError(f"store: cannot read {path}: {error.strerror or error}") from error

    def write(self, key, data, *, create=False, durable=False) -> bool:
        """Write an object, and return whether it was written.

        Args:
          key: the object's name.
          data: the object's bytes.
          create: whether an existing object is kept (on a local disk only).
          durable: whether the bytes must be on disk when the function returns, not only in system
            memory.
        """
        path = self.path(key)
        try:
            if self.local:
                return _write_file(path, data, create, durable)
            try:
                self.system.pipe_file(path, data)
            except FileNotFoundError:
                self.system.makedirs(path.rpartition("/")[0], exist_ok=True)
                self.system.pipe_file(path, data)
        except OSError as error:
            raise OSError(f"store: cannot write {path}: {error.strerror or error}") from error
        return True

    def sweep_up(self) -> None:
        """Remove the unfinished files of killed processes that ran on this machine."""
        if self.local:
            for key in self._listed():
                if key.endswith(_PARTIAL) and _is_left_behind(key.split(".")[-2]):
                    _remove(self.path(key))

    def _listed(self) -> list[str]:
        if self.local:
            # fsspec would skip a folder that cannot be listed, so folders are walked here.
            if os.path.isfile(self.root):
                return [""]
            walked = os.walk(self.root, onerror=self._refuse_to_list)
            paths = [os.path.join(folder, name) for folder, _, names in walked for name in names]
            return [path[len(self.root) :].replace(os.sep, "/").lstrip("/") for path in paths]
        self.system.invalidate_cache()
        try:
            paths = self.system.find(self.root)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [path[len(self.root) :].lstrip("/") for path in paths]

    def _refuse_to_list(self, error):
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            raise OSError(f"store: cannot list {error.filename}: {error.strerror}") from error


def warn(message: str) -> None:
    """Issue a RuntimeWarning for the line outside dpjax that led to it."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == "dpjax":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, RuntimeWarning, stacklevel=level)


def together(function: Callable, items: Iterable) -> list:
    """The results of a function for all items, computed in parallel threads."""
    with ThreadPoolExecutor(_READERS) as pool:
        return list(pool.map(function, items))


def digest(data: bytes) -> str:
    """A digest of an object.

    A crc32c is not used, because it is the same for all objects that end with their own crc32c.
    """
    return hashlib.sha256(data).hexdigest()[:16]


def encode(array: np.ndarray) -> bytes:
    """An array as bytes, in the format of Zarr's codecs "bytes" (little-endian) and "crc32c"."""
    data = array.astype(array.dtype.newbyteorder("<")).tobytes()
    return data + _crc32c(data)


def decode(encoded: bytes | None, shape: tuple[int, ...], dtype: np.dtype, path: str) -> np.ndarray:
    """The array of an encoded object.

    Raises:
      Damaged: the object does not exist, or its length or checksum is wrong.
    """
    if encoded is None:
        raise Damaged(f"store: {path} does not exist")
    data, end = encoded[:-4], encoded[-4:]
    size = int(np.prod(shape)) * dtype.itemsize
    if len(data) != size or _crc32c(data) != end:
        raise Damaged(f"store: {path} is damaged")
    return np.frombuffer(data, dtype.newbyteorder("<")).reshape(shape)


def _crc32c(data) -> bytes:
    return optional("google_crc32c").value(data).to_bytes(4, "little")


def _write_file(path, data, create, durable) -> bool:
    folder, name = os.path.split(path)
    os.makedirs(folder, exist_ok=True)
    partial = os.path.join(folder, f".{name}.{uuid.uuid4().hex}.{process_mark()}{_PARTIAL}")
    try:
        with open(partial, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        written = _appear(partial, path, create)
    finally:
        _remove(partial)
    if durable:
        _sync_folder(folder)
        _sync_folder(os.path.dirname(folder))
    return written


def _appear(partial, path, create) -> bool:
    """Rename a complete file to its final name; False if ``create`` and the name exists."""
    if create:
        # Unlike a rename, a link does not replace a file. Not all file systems support links.
        try:
            os.link(partial, path)
            return True
        except OSError:
            if os.path.exists(path):
                return False
    os.replace(partial, path)
    return True


def _sync_folder(folder) -> None:
    # Windows cannot open folders, and some file systems cannot fsync them.
    with contextlib.suppress(OSError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def _remove(path) -> None:
    with contextlib.suppress(OSError):
        os.remove(path)


def process_mark() -> str:
    """The machine and the number of this process, for use in file names."""
    machine = re.sub(r"[^A-Za-z0-9]", "", socket.gethostname())
    return f"{machine}-{os.getpid()}"


def _is_left_behind(mark) -> bool:
    """Whether a mark's process ran on this machine and has ended."""
    machine, _, number = mark.rpartition("-")
    if os.name != "posix" or not number.isdigit() or machine != process_mark().rpartition("-")[0]:
        return False
    try:
        os.kill(int(number), 0)
    except OSError as error:
        return isinstance(error, ProcessLookupError)
    return False
