"""Sweeps on disk, or behind any fsspec URL, as Zarr stores that outlive the process.

A store is a Zarr group (format 3) that ``xarray.open_zarr`` reads. Its arrays have the axes
(point, seed, ...), cut into blocks that are computed and written as a whole, each array of a block
as one object. What makes a store safe to kill, and to share between processes:

- An object appears at once or not at all (local files by a rename), and never changes its values.
- ``done`` of a block is written last. Where it is false the other arrays may hold anything.
- All that identifies the sweep, and the shape of the arrays, is in one object, ``zarr.json`` at the
  root, written after the objects that it describes. Growing a store replaces it.
- Each object ends with a checksum. A block with a damaged object counts as not done.

Nothing else is ever changed, so processes need no lock: two that compute the same block write the
same bytes.
"""

import contextlib
import inspect
import itertools
import json
import os
import re
import socket
import uuid
import warnings
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import random as jr

from dpjax.core import Result, coordinate_name, leaf_axes, leaf_names, optional

_FORMAT = "dpjax sweep 1"
_COORDINATE_CHUNK = 1024
_ROOT = "zarr.json"
_READERS = 16  # threads; behind a URL an object takes long to come, however small


class Damaged(ValueError):
    """An object of a store whose checksum or length is wrong; the message names it."""


class Store(NamedTuple):
    """An open store, and which of its cells are asked for: the first points and seeds."""

    files: "_Files"
    attributes: dict
    arrays: dict[str, Any]  # name -> (shape of a cell, dtype, fill value)
    shape: tuple[int, int]  # points and seeds that it has room for
    block: tuple[int, int]  # points and seeds of a block
    points: int
    seeds: int

    def missing(self) -> list[tuple[int, int]]:
        """First point and first seed of each block that is not done, or damaged (with a warning).

        Reads every finished block, one at a time.
        """
        keys = set(self.files.keys())
        corners = self._corners()
        missing = []
        with ThreadPoolExecutor(_READERS) as pool:
            states = pool.map(lambda corner: self._is_done(*corner, keys), corners)
            for corner, done in zip(corners, states, strict=True):
                if isinstance(done, Damaged):
                    message = f"{done}; its block is computed again"
                    warnings.warn(message, RuntimeWarning, stacklevel=3)
                if done is not True:
                    missing.append(corner)
        return missing

    def write(self, point, seed, cells) -> None:
        """Keeps a block; its ``done`` comes last.

        Args:
          point: the first point of the block.
          seed: the first seed of the block.
          cells: a Result's (regret, tally, report) with leading axes (points, seeds) of a block.
            Points past the last one are dropped. Seeds past the last one are kept, and show when
            the store grows.

        Raises:
          OSError: it cannot be written; the message names the object.
        """
        rows = min(self.block[0], self.points - point)
        leaves = [*jax.tree.leaves(cells), np.ones(self.block, bool)]
        for (name, (_, dtype, fill)), leaf in zip(self.arrays.items(), leaves, strict=True):
            block = np.full(leaf.shape, fill, dtype)
            block[:rows] = leaf[:rows]
            self.files.write(self._key(name, point, seed), _encode(block))

    def result(self, structure=None) -> Result:
        """All that was asked for, read back.

        Args:
          structure: pytree like (regret, tally, report). Then all must be done. By default named
            tuples, tuples and dicts as they were when the store was made, with NaN or a fill value
            in cells that are not done.

        Raises:
          ValueError: an object is damaged, or a cell is not done.
        """
        output = [
            np.full((self.points, self.seeds, *tail), fill, dtype)
            for tail, dtype, fill in self.arrays.values()
        ]
        keys = set(self.files.keys())

        def place(corner):
            if not self._exists(*corner, keys):
                return
            parts = [self._read(name, *corner) for name in self.arrays]
            here = tuple(slice(i, i + n) for i, n in zip(corner, self.block, strict=True))
            rows, columns = output[-1][here].shape
            done = parts[-1][:rows, :columns]
            for whole, part in zip(output, parts, strict=True):
                whole[here][done] = part[:rows, :columns][done]

        with ThreadPoolExecutor(_READERS) as pool:
            list(pool.map(place, self._corners()))
        if structure is not None and not output[-1].all():
            point, seed = np.argwhere(~output[-1])[0]
            raise ValueError(
                f"store: seed {seed} of point {point} is gone from {self.files.url}: another "
                "process, with fewer points, has written its block anew; run the sweep again"
            )
        leaves = output[:-1]
        if structure is None:
            leaves = iter(leaves)
            trees = json.loads(self.attributes["structure"])
            regret, tally, report = (_unflatten(tree, leaves) for tree in trees)
        else:
            regret, tally, report = jax.tree.unflatten(jax.tree.structure(structure), leaves)
        rounds = np.array(self.attributes["checkpoints"], np.int32)
        return Result(rounds, regret, tally, report)

    def _corners(self):
        starts = (
            range(0, n, b) for n, b in zip((self.points, self.seeds), self.block, strict=True)
        )
        return list(itertools.product(*starts))

    def _key(self, name, point, seed) -> str:
        rest = [0] * len(self.arrays[name][0])
        place = [point // self.block[0], seed // self.block[1], *rest]
        return "/".join([name, "c", *map(str, place)])

    def _read(self, name, point, seed):
        tail, dtype, _ = self.arrays[name]
        key = self._key(name, point, seed)
        return _decode(self.files.read(key), (*self.block, *tail), dtype, self.files.path(key))

    def _exists(self, point, seed, keys) -> bool:
        return all(self._key(name, point, seed) in keys for name in self.arrays)

    def _is_done(self, point, seed, keys) -> "bool | Damaged":
        if not self._exists(point, seed, keys):
            return False
        try:
            *_, done = (self._read(name, point, seed) for name in self.arrays)
        except Damaged as error:
            return error
        return bool(done[: self.points - point, : self.seeds - seed].all())


def open_store(url, game, points, seeds, key, *, play, rounds, traced, block) -> Store:
    """The store of a sweep: created, or opened, compared with the sweep, and grown if need be.

    Args:
      url: a folder, or an fsspec URL.
      game, points, seeds, key, play: as of :func:`dpjax.sweep`.
      rounds: (n,) the checkpoints.
      traced: the game, as :func:`dpjax.engine.programs.trace` returns it.
      block: (points, seeds) of a block, for a store that is yet to be made.

    Returns:
      The store.

    Raises:
      ValueError: the store is of another sweep (the message names the field and both values), was
        damaged, or the folder holds something else.
      OSError: it cannot be read, or cannot be written to.
    """
    files = _Files(url)
    files.sweep_up()
    structure = traced.output
    attributes = _describe(game, key, play, rounds, structure) | {
        "program": traced.digest,
        "points": json.dumps(_point_values(game, points)),
        "arrays": " ".join(_names(structure)),
    }
    arrays = {
        name: (leaf.shape, leaf.dtype, _fill(leaf.dtype))
        for name, leaf in zip(_names(structure), jax.tree.leaves(structure), strict=True)
    }
    count = len(jax.tree.leaves(points)[0])
    new = Store(files, attributes, arrays, (count, seeds), block, count, seeds)
    new.arrays["done"] = ((), np.dtype(bool), False)
    while (found := _load(files)) is None:
        present = {*files.keys()}
        if strangers := present and sorted(present - {*_layout(new)}):
            raise ValueError(f"store: there is something else, {files.path(strangers[0])}")
        if not _write_layout(new, create=True):
            # Another process has created it meanwhile. What stands beside its root may be ours.
            _write_layout(_load(files))
    _compare(found, new)
    shape = (max(found.shape[0], count), max(found.shape[1], seeds))
    grown = found._replace(shape=shape, points=count, seeds=seeds)
    if shape[0] > found.shape[0]:
        if found.block[0] == 1:
            raise ValueError(
                f"store: {files.url} was made with one point, which has a program of its own; "
                "points can only be added to a store that was made with several"
            )
        grown = grown._replace(attributes=found.attributes | {"points": attributes["points"]})
    if shape != found.shape:
        _write_layout(grown)
    return grown


def read(url) -> Result:
    """The Result of a sweep that was stored, as NumPy arrays.

    Cells that are not done hold NaN (of integers the least one, of truth values False).

    Raises:
      ValueError: there is no store of a sweep, or one of its objects is damaged; the message
        names it.
    """
    files = _Files(url)
    store = _load(files)
    if store is None:
        raise ValueError(f"store: there is no store of a sweep in {files.url}")
    return store.result()


def is_empty(url) -> bool:
    """Whether nothing is stored there."""
    return not _Files(url).keys()


def _describe(game, key, play, rounds, structure) -> dict:
    from dpjax import __version__

    return {
        "format": _FORMAT,
        "dpjax": __version__,
        "jax": jax.__version__,
        "backend": jax.default_backend(),
        "key": f"{jr.key_impl(key)} {jr.key_data(key).tolist()}",
        "horizon": int(rounds[-1]),
        "checkpoints": rounds.tolist(),
        "play": _name(play),
        "game": _name(game),
        "learner": _name(game).split(".")[-1],
        "structure": json.dumps([_flatten(tree) for tree in structure]),
    }


def _name(function) -> str:
    while hasattr(function, "func"):  # of functools.partial
        function = function.func
    # What a caller has renamed has a new __name__ and its old __qualname__.
    parts = getattr(function, "__qualname__", type(function).__qualname__).split(".")
    parts[-1] = getattr(function, "__name__", parts[-1])
    return ".".join(filter(None, [function.__module__, *parts]))


def _point_values(game, points) -> dict:
    """Named leaves of the points, as lists."""
    if isinstance(points, np.ndarray):
        return {next(iter(inspect.signature(game).parameters)): points.tolist()}
    names = leaf_names("", points)
    return dict(zip(names, (leaf.tolist() for leaf in jax.tree.leaves(points)), strict=True))


def _compare(found, new) -> None:
    """Refuses a store of another sweep."""

    def refuse(field, there, here):
        raise ValueError(
            f"store: {found.files.url} was made with another {field}: {there} there, {here} here"
        )

    there, here = found.attributes, new.attributes
    for field, text in [
        ("format", "format"),
        ("dpjax", "version of dpjax"),
        ("jax", "version of jax"),
        ("key", "key"),
        ("horizon", "horizon"),
        ("checkpoints", "checkpoints"),
        ("play", "play"),
    ]:
        if there[field] != here[field]:
            refuse(text, there[field], here[field])
    if there["program"] != here["program"]:
        both = (f"{each['game']} (program {each['program']})" for each in (there, here))
        refuse("game", *both)
    there, here = (json.loads(each["points"]) for each in (there, here))
    if list(there) != list(here):
        refuse("points", f"{', '.join(there)}", f"{', '.join(here)}")
    for name in there:
        for index, pair in enumerate(zip(there[name], here[name], strict=False)):
            if pair[0] != pair[1]:
                refuse(f"points: {name} of point {index}", *pair)


def _names(structure) -> list[str]:
    """Of the arrays, in the order of the leaves of (regret, tally, report)."""
    trees = zip(("regret", "tally", "report"), structure, strict=True)
    return [name for prefix, tree in trees for name in leaf_names(prefix, tree)]


def _flatten(tree):
    """What kind of containers a pytree is made of, for JSON; leaves are null."""
    if hasattr(tree, "_fields"):
        fields = {name: _flatten(getattr(tree, name)) for name in tree._fields}
        return {"type": type(tree).__name__, "fields": fields}
    if isinstance(tree, dict):
        return {"type": "dict", "fields": {str(k): _flatten(tree[k]) for k in sorted(tree)}}
    if isinstance(tree, tuple | list):
        return [_flatten(part) for part in tree]
    if jax.tree.structure(tree) == jax.tree.structure(0):
        return None
    return [None] * len(jax.tree.leaves(tree))


def _unflatten(kind, leaves):
    if kind is None:
        return next(leaves)
    if isinstance(kind, list):
        return tuple(_unflatten(part, leaves) for part in kind)
    fields = {name: _unflatten(part, leaves) for name, part in kind["fields"].items()}
    return fields if kind["type"] == "dict" else namedtuple(kind["type"], fields)(**fields)


def _fill(dtype):
    """What stands where nothing is yet: NaN, or what xarray shows as NaN."""
    dtype = np.dtype(dtype)
    if dtype.kind in "fc":
        return dtype.type(np.nan)
    if dtype.kind == "b":
        return False
    return np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max


def _layout(store) -> dict[str, bytes]:
    """All objects of a store but the blocks: metadata and coordinates."""
    zarr = optional("zarr")
    objects: dict[str, Any] = {}
    memory = zarr.storage.MemoryStore(objects)
    checksum = (zarr.codecs.Crc32cCodec(),)
    points = json.loads(store.attributes["points"])
    coordinates = {
        "point": (("point",), np.arange(store.shape[0], dtype=np.int32)),
        "seed": (("seed",), np.arange(store.shape[1], dtype=np.int32)),
        "round": (("round",), np.array(store.attributes["checkpoints"], np.int32)),
    }
    for name, values in points.items():
        label = coordinate_name(name, store.arrays)
        values = np.array(values, np.float32)
        coordinates[label] = (("point", *leaf_axes(label, values.shape[1:])), values)
    labels = " ".join(["done", "learner", *coordinates])
    group = zarr.create_group(memory, attributes=store.attributes | {"coordinates": labels})
    learner = group.create_array("learner", shape=(), dtype=str, dimension_names=())
    learner[...] = store.attributes["learner"]
    for name, (axes, values) in coordinates.items():
        array = group.create_array(
            name,
            shape=values.shape,
            chunks=(_COORDINATE_CHUNK, *values.shape[1:]),
            dtype=values.dtype,
            fill_value=_fill(values.dtype),
            compressors=checksum,
            dimension_names=axes,
        )
        array[...] = values
    for name, (tail, dtype, fill) in store.arrays.items():
        rest = ("round",) if name == "regret" else leaf_axes(name, tail)
        group.create_array(
            name,
            shape=(*store.shape, *tail),
            chunks=(*store.block, *tail),
            dtype=dtype,
            fill_value=fill,
            compressors=checksum,
            dimension_names=("point", "seed", *rest),
            attributes={"_FillValue": fill} if np.dtype(dtype).kind in "iu" else {},
        )
    with warnings.catch_warnings():
        # Consolidated metadata is an extension of format 3: one object that all readers know.
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(memory)
    return {key: value.to_bytes() for key, value in objects.items()}


def _write_layout(store, *, create=False) -> bool:
    """Writes it, the root last; False if ``create`` and another process was faster."""
    objects = _layout(store)
    root = objects.pop(_ROOT)
    for key, value in objects.items():
        store.files.write(key, value)
    return store.files.write(_ROOT, root, create=create)


def _load(files) -> Store | None:
    """The store that the root describes, all of it; None where there is none."""
    text = files.read(_ROOT)
    if text is None:
        return None
    try:
        document = json.loads(text)
    except ValueError:
        raise Damaged(f"store: {files.path(_ROOT)} is damaged") from None
    attributes = document.get("attributes", {})
    if attributes.get("format") != _FORMAT:
        raise ValueError(f"store: {files.url} is a Zarr group, but not the store of a sweep")
    described = document["consolidated_metadata"]["metadata"]
    arrays = {}
    for name in [*attributes["arrays"].split(), "done"]:
        dtype = np.dtype(described[name]["data_type"])
        arrays[name] = (tuple(described[name]["shape"][2:]), dtype, _fill(dtype))
    shape = tuple(described["done"]["shape"])
    block = tuple(described["done"]["chunk_grid"]["configuration"]["chunk_shape"])
    return Store(files, attributes, arrays, shape, block, *shape)


def _encode(array) -> bytes:
    """As Zarr's codecs "bytes", little-endian, and "crc32c" do."""
    data = array.astype(array.dtype.newbyteorder("<")).tobytes()
    return data + optional("google_crc32c").value(data).to_bytes(4, "little")


def _decode(encoded, shape, dtype, path) -> np.ndarray:
    if encoded is None:
        raise Damaged(f"store: {path} is gone")
    data, checksum = encoded[:-4], encoded[-4:]
    size = int(np.prod(shape)) * dtype.itemsize
    if len(data) != size or optional("google_crc32c").value(data).to_bytes(4, "little") != checksum:
        raise Damaged(f"store: {path} is damaged")
    return np.frombuffer(data, dtype.newbyteorder("<")).reshape(shape)


class _Files:
    """Objects under a folder or URL, each written at once or not at all."""

    def __init__(self, url):
        try:
            self.url = os.fspath(url)
        except TypeError:
            raise TypeError(f"store must be a path or an fsspec URL, got {url!r}") from None
        self.system, self.root = optional("fsspec").core.url_to_fs(self.url)
        protocol = self.system.protocol
        self.local = "file" in ((protocol,) if isinstance(protocol, str) else protocol)

    def path(self, key) -> str:
        return f"{self.root}/{key}"

    def keys(self) -> list[str]:
        """Of all objects, but not of those that are being written."""
        return [key for key in self._found() if not key.endswith(_PARTIAL)]

    def read(self, key) -> bytes | None:
        """None where there is no such object."""
        try:
            return self.system.cat_file(self.path(key))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, key, data, *, create=False) -> bool:
        """False if the object is to be created and is there already (on a local disk only)."""
        path = self.path(key)
        try:
            if self.local:
                return _write_file(path, data, create)
            try:
                self.system.pipe_file(path, data)
            except FileNotFoundError:
                self.system.makedirs(path.rpartition("/")[0], exist_ok=True)
                self.system.pipe_file(path, data)
        except OSError as error:
            raise OSError(f"store: cannot write {path}: {error.strerror or error}") from error
        return True

    def sweep_up(self) -> None:
        """Removes what processes of this machine that were killed have left half written."""
        if self.local:
            for key in self._found():
                if key.endswith(_PARTIAL) and is_left_behind(key.split(".")[-2]):
                    _remove(self.path(key))

    def _found(self):
        self.system.invalidate_cache()
        try:
            paths = self.system.find(self.root)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [path[len(self.root) :].lstrip("/") for path in paths]


_PARTIAL = ".partial"


def _write_file(path, data, create) -> bool:
    folder, name = os.path.split(path)
    os.makedirs(folder, exist_ok=True)
    partial = os.path.join(folder, f".{name}.{uuid.uuid4().hex}.{process_mark()}{_PARTIAL}")
    try:
        with open(partial, "wb") as file:
            file.write(data)
        if create:
            # A link does not replace what is there, as a rename does. Not all file systems have it.
            try:
                os.link(partial, path)
                return True
            except FileExistsError:
                return False
            except OSError:
                if os.path.exists(path):
                    return False
        os.replace(partial, path)
        return True
    finally:
        _remove(partial)


def _remove(path) -> None:
    with contextlib.suppress(OSError):
        os.remove(path)


def process_mark() -> str:
    """This process, as part of a file's name: machine and number."""
    machine = re.sub(r"[^A-Za-z0-9]", "", socket.gethostname())
    return f"{machine}-{os.getpid()}"


def is_left_behind(mark) -> bool:
    """Whether the process of a mark was on this machine and is no more."""
    machine, _, number = mark.rpartition("-")
    if os.name != "posix" or not number.isdigit() or machine != process_mark().rpartition("-")[0]:
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
