"""The root of a store, and the metadata and coordinates that follow from it."""

import hashlib
import inspect
import itertools
import json
import warnings
from collections import namedtuple
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import random as jr
from numpy.typing import DTypeLike

from dpjax.core import PyTree, Result, coordinate_name, leaf_axes, leaf_names, optional
from dpjax.core._version import __version__
from dpjax.store.contents import contents, difference
from dpjax.store.objects import Damaged, digest

ROOT = "zarr.json"
_FORMAT = "dpjax sweep 3"
_COORDINATE_CHUNK = 1024

# JAX settings that affect numbers and are not part of a traced program.
_SETTINGS = ("jax_threefry_partitionable", "jax_default_matmul_precision")

# The attributes that identify a sweep together with its points, and their names in messages.
_COMPARED = {
    "format": "format",
    "dpjax": "version of dpjax",
    "jax": "version of jax",
    "key": "key",
    "horizon": "horizon",
    "checkpoints": "checkpoints",
    "play": "play",
    **{name: f"setting {name}" for name in _SETTINGS},
    "program": "game",
}


class Layout(NamedTuple):
    """The contents of a store's root."""

    attributes: dict
    arrays: dict[str, tuple]  # name -> (shape of a cell, dtype); checksum and done last
    shape: tuple[int, int]  # points and seeds of the store
    block: tuple[int, int]  # points and seeds of a block

    def identity(self) -> bytes:
        """Bytes that identify the sweep, except for its points and seeds."""
        return _sha256([self.attributes[field] for field in _COMPARED])

    def about(self) -> dict:
        """The description of the points."""
        return json.loads(self.attributes["about"])

    def points(self) -> dict[str, list]:
        """The leaves of the points by name."""
        return json.loads(self.attributes["points"])

    def point_words(self) -> np.ndarray:
        """(points, 2) uint32, a digest of the number and the values of each point."""
        return _point_words(self.attributes["points"])


def arrays_of(output: tuple) -> dict[str, Any]:
    """The leaves of a Result, without its rounds, by their names in a store."""
    return {
        name: leaf
        for prefix, tree in zip(Result._fields[1:], output, strict=True)
        for name, leaf in zip(leaf_names(prefix, tree), jax.tree.leaves(tree), strict=True)
    }


def describe(plan: Any) -> Layout:
    """The layout of a new store for a plan of a sweep."""
    leaves = arrays_of(plan.traced.output)
    attributes = {
        "format": _FORMAT,
        "dpjax": __version__,
        "jax": jax.__version__,
        "backend": jax.default_backend(),
        "key": f"{jr.key_impl(plan.key)} {jr.key_data(plan.key).tolist()}",
        "horizon": int(plan.rounds[-1]),
        "checkpoints": plan.rounds.tolist(),
        "play": _name(plan.play),
        "game": _name(plan.game),
        "learner": _name(plan.game).split(".")[-1],
        **{name: getattr(jax.config, name) for name in _SETTINGS},
        "program": plan.traced.digest,
        "points": json.dumps(point_values(plan.game, plan.points)),
        "arrays": " ".join(leaves),
    }
    arrays = {name: (leaf.shape, leaf.dtype) for name, leaf in leaves.items()}
    return Layout(attributes, arrays | _BESIDE, (plan.count, plan.seeds), plan.block)


def described(layout: Layout, plan: Any, about: Callable[[], dict]) -> Layout:
    """The layout with a description of its points and of the program of a plan."""
    more = {"about": about(), "contents": contents(plan.traced.program)}
    texts = {name: json.dumps(text) for name, text in more.items()}
    return layout._replace(attributes=layout.attributes | texts)


def compare(stored: Layout, new: Layout, url: str, plan: Any) -> None:
    """Check that a store is of the same sweep as a plan. ``new`` is the layout of the plan.

    Raises:
      ValueError: the sweeps differ; the message names the difference with both values.
    """

    def refuse(field, there, current):
        raise ValueError(
            f"store: {url} was made with another {field}: {there} in the store, {current} now"
        )

    there, current = stored.attributes, new.attributes
    for field, text in _COMPARED.items():
        if there[field] != current[field]:
            if field == "program":
                now = [current["game"], *current["arrays"].split(), *contents(plan.traced.program)]
                old = [there["game"], *there["arrays"].split(), *json.loads(there["contents"])]
                refuse(text, *difference(old, now))
            refuse(text, there[field], current[field])
    there, current = stored.points(), new.points()
    if list(there) != list(current):
        refuse("points", ", ".join(there), ", ".join(current))
    for name in there:
        for index, pair in enumerate(zip(there[name], current[name], strict=False)):
            if pair[0] != pair[1]:
                # The shortest decimals that equal these numbers in float32.
                numbers = [str(np.array(value, np.float32)) for value in pair]
                refuse(f"points: {name} of point {index}", *numbers)


def places(stored: dict[str, list], points: dict[str, list]) -> np.ndarray:
    """The place of each point in a store, (P,). Points that are not in the store come last.

    Points are found by their values. They keep their order if they neither include all points of
    the store nor are its first points in another order.
    """
    known, rows = (
        [json.dumps(row) for row in zip(*leaves.values(), strict=True)]
        for leaves in (stored, points)
    )
    free: dict[str, list[int]] = {}
    for place, row in enumerate(known):
        free.setdefault(row, []).insert(0, place)
    last = itertools.count(len(known))
    order = [free[row].pop() if free.get(row) else next(last) for row in rows]
    same = list(stored) == list(points) and sorted(order) == list(range(len(rows)))
    return np.array(order) if same else np.arange(len(rows))


def moved(about: Any, order: np.ndarray) -> Any:
    """A description of points, a list or a dict of such, with the points in another order."""
    if isinstance(about, dict):
        return {name: moved(column, order) for name, column in about.items()}
    return [about[i] for i in order]


def refusal(url: str, trouble: str) -> Damaged:
    """The error for a root that is damaged or missing. Without a root the store is not used."""
    return Damaged(
        f"store: {url}/{ROOT} {trouble}; restore it from a copy, or delete {url} and run the "
        "sweep again, which computes all blocks again"
    )


def grow(stored: Layout, new: Layout, url: str) -> Layout:
    """The layout of a store, extended to all points and seeds of a new layout of its sweep.

    Raises:
      ValueError: points would be added to a store with a single point.
    """
    points, seeds = map(max, stored.shape, new.shape)
    if stored.block[0] == 1 and points > 1:
        raise ValueError(
            f"store: {url} was made with one point, so no points can be added; use another folder "
            "for several points"
        )
    attributes = stored.attributes
    if points > stored.shape[0]:
        attributes = attributes | {"points": new.attributes["points"]}
    return stored._replace(shape=(points, seeds), attributes=attributes)


def write(layout: Layout) -> dict[str, bytes]:
    """The bytes of all objects of a store except its blocks."""
    zarr = optional("zarr")
    objects: dict[str, Any] = {}
    memory = zarr.storage.MemoryStore(objects)
    options = {"compressors": (zarr.codecs.Crc32cCodec(),)}
    coordinates = _coordinates(layout)
    labels = " ".join([*_BESIDE, "learner", *coordinates])
    group = zarr.create_group(memory, attributes=layout.attributes | {"coordinates": labels})
    learner = group.create_array("learner", shape=(), dtype=str, dimension_names=(), **options)
    learner[...] = layout.attributes["learner"]
    for name, (axes, values) in coordinates.items():
        array = group.create_array(
            name,
            shape=values.shape,
            chunks=(_COORDINATE_CHUNK, *values.shape[1:]),
            dtype=values.dtype,
            fill_value=fill(values.dtype),
            dimension_names=axes,
            **options,
        )
        array[...] = values
    for name, (tail, dtype) in layout.arrays.items():
        rest = ("round",) if name == "regret" else leaf_axes(name, tail)
        masked = np.dtype(dtype).kind in "iu" and name not in _BESIDE
        group.create_array(
            name,
            shape=(*layout.shape, *tail),
            chunks=(*layout.block, *tail),
            dtype=dtype,
            fill_value=fill(dtype),
            dimension_names=("point", "seed", *rest),
            attributes={"_FillValue": fill(dtype)} if masked else {},
            **options,
        )
    with warnings.catch_warnings():
        # Zarr warns that consolidated metadata is an extension of format 3. All readers support it.
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(memory)
    objects = {key: value.to_bytes() for key, value in objects.items()}
    root = json.loads(objects[ROOT])
    root["attributes"]["digest"] = _digest(root)
    return objects | {ROOT: json.dumps(root, indent=2).encode()}


def read(text: bytes, url: str) -> Layout:
    """The layout that a root describes.

    Raises:
      Damaged: the root is damaged.
      ValueError: the root does not belong to a sweep, or belongs to an older store.
    """
    try:
        root = json.loads(text)
    except (ValueError, RecursionError):
        raise refusal(url, "is damaged") from None
    attributes = root.get("attributes") if isinstance(root, dict) else None
    attributes = attributes if isinstance(attributes, dict) else {}
    written = str(attributes.get("format"))
    if not written.startswith("dpjax sweep"):
        raise ValueError(
            f"store: {url}/{ROOT} does not belong to a sweep; use another folder, or restore "
            "this file from a copy"
        )
    if written != _FORMAT:
        raise ValueError(
            f"store: {url} is of another version of dpjax: its format is {written!r}, and this "
            f"version reads {_FORMAT!r}; use another folder, or that version"
        )
    if attributes.get("digest") != _digest(root):
        raise refusal(url, "is damaged")
    metadata = root["consolidated_metadata"]["metadata"]
    arrays = {
        name: (tuple(metadata[name]["shape"][2:]), np.dtype(metadata[name]["data_type"]))
        for name in [*attributes["arrays"].split(), *_BESIDE]
    }
    shape, grid = metadata["done"]["shape"], metadata["done"]["chunk_grid"]
    block = grid["configuration"]["chunk_shape"]
    return Layout(attributes, arrays, tuple(shape), tuple(block))


def fields(arrays: dict[str, np.ndarray]) -> Iterator[Any]:
    """The fields of a Result without its rounds: an array, or a named tuple of several."""
    for field in Result._fields[1:]:
        parts = {name: leaf for name, leaf in arrays.items() if name.startswith(f"{field}_")}
        names = [name.removeprefix(f"{field}_") for name in parts]
        several = namedtuple(field.capitalize(), names, rename=True)  # type: ignore[misc]
        yield arrays[field] if field in arrays else several(*parts.values())


def _digest(root) -> str:
    """A digest of a root's contents other than the digest itself."""
    attributes = {name: value for name, value in root["attributes"].items() if name != "digest"}
    return digest(json.dumps({**root, "attributes": attributes}, sort_keys=True).encode())


def _sha256(values) -> bytes:
    return hashlib.sha256(json.dumps(values).encode()).digest()


@lru_cache(maxsize=16)
def _point_words(points) -> np.ndarray:
    named = json.loads(points)
    rows = enumerate(zip(*named.values(), strict=True))
    return np.array([np.frombuffer(_sha256([[*named], *row])[:8], "<u4") for row in rows])


def _coordinates(layout) -> dict:
    """The coordinates of a store: name -> (axes, values)."""
    coordinates: dict[str, tuple] = {
        "point": (("point",), np.arange(layout.shape[0], dtype=np.int32)),
        "seed": (("seed",), np.arange(layout.shape[1], dtype=np.int32)),
        "round": (("round",), np.array(layout.attributes["checkpoints"], np.int32)),
    }
    for name, values in layout.points().items():
        label = coordinate_name(name, layout.arrays)
        values = np.array(values, np.float32)
        coordinates[label] = (("point", *leaf_axes(label, values.shape[1:])), values)
    return coordinates


def _name(function) -> str:
    """The name of a function with its module, or with ``dpjax`` if it is one of the package."""
    while hasattr(function, "func"):  # a functools.partial
        function = function.func
    # A function that was renamed has a new __name__ but its old __qualname__.
    parts = getattr(function, "__qualname__", type(function).__qualname__).split(".")
    parts[-1] = getattr(function, "__name__", parts[-1])
    module = function.__module__ or ""
    return ".".join(filter(None, ["dpjax" if module.startswith("dpjax.") else module, *parts]))


def point_values(game: Callable, points: PyTree) -> dict[str, list]:
    """The leaves of the points by name, as lists."""
    if isinstance(points, np.ndarray):
        return {next(iter(inspect.signature(game).parameters)): points.tolist()}
    names = leaf_names("", points)
    return dict(zip(names, (leaf.tolist() for leaf in jax.tree.leaves(points)), strict=True))


def fill(dtype: DTypeLike) -> Any:
    """The value of an unfinished cell: NaN, or a value that xarray shows as NaN."""
    dtype = np.dtype(dtype)
    if dtype.kind in "fc":
        return np.array(np.nan, dtype)[()]
    if dtype.kind == "b":
        return False
    return np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max


# Additional arrays: the checksum of each cell, and whether it is done.
_BESIDE = {"checksum": ((), np.dtype(np.uint32)), "done": ((), np.dtype(bool))}
