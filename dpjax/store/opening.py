"""Opens a store: creates, checks, repairs or extends it for a sweep."""

import os
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from dpjax.core import Result
from dpjax.store import layout as layouts
from dpjax.store.blocks import Store
from dpjax.store.layout import ROOT
from dpjax.store.objects import Files, digest, together, warn


def open_store(url: str | os.PathLike, plan: Any, about: Callable[[], dict]) -> Store:
    """Create the store of a sweep, or open, check, repair and extend it.

    Args:
      url: a folder, or an fsspec URL.
      plan: a :class:`dpjax.engine.blocks.Plan`. Its blocks are used if the store is created.
      about: returns a description of the points for JSON; each field is a list with an entry for
        each point. It is called if the store is created or extended. The root stores the
        description.

    Raises:
      ValueError: the store is of another sweep (the message names the field and both values); the
        root is damaged or missing; or the folder contains other files.
      OSError: the store cannot be read or written.
    """
    files = Files(url)
    files.sweep_up()
    new = layouts.describe(plan)
    # Another process may create or extend the store meanwhile. So this repeats until the root fits
    # this sweep and all objects match the root.
    while True:
        if (text := files.read(ROOT)) is None:
            _create(files, layouts.described(new, plan, about))
            continue
        found = layouts.read(text, files.url)
        if wrong := _wrong(files, found):
            _warn_of(files, wrong, "they are written again")
            _mend(files, found, wrong)
            continue
        layouts.compare(found, new, files.url, plan)
        grown = layouts.grow(found, new, files.url)
        if grown.shape[0] > found.shape[0] or "about" not in found.attributes:
            grown = layouts.described(grown, plan, about)
        if grown == found:
            return Store(files, grown, *new.shape)
        _write(files, layouts.write(grown))


def check(url: str | os.PathLike, plan: Any) -> np.ndarray:
    """Check that a folder or URL can store a sweep, and write nothing.

    Returns:
      (P,) the place of each point in the store.

    Raises:
      ValueError, OSError: as in :func:`open_store`.
    """
    files, new = Files(url), layouts.describe(plan)
    if (text := files.read(ROOT)) is None:
        _refuse_others(files, new)
        return np.arange(plan.count)
    found = layouts.read(text, files.url)
    places = layouts.places(found.points(), new.points())
    new = layouts.describe(plan.moved(places))
    layouts.compare(found, new, files.url, plan)
    layouts.grow(found, new, files.url)
    return places


def read(url: str | os.PathLike) -> Result:
    """The Result of a stored sweep, as NumPy arrays.

    Unfinished cells are NaN (the least integer in arrays of integers, False in arrays of booleans),
    and a warning counts them. Another warning names damaged metadata and coordinates. Such damage
    affects only other readers of Zarr. To repair it, run the sweep again.

    Raises:
      ValueError: there is no store of a sweep, or an object of the store is damaged; the message
        names the object.
      OSError: an object cannot be read; the message names it.

    Examples:
      >>> def game(rate):
      ...     return learners.exp3(4, 2, mixing=rate), environments.bernoulli([0.1, 0.9])
      >>> played = dpjax.sweep(
      ...     game, [0.1, 0.5], 3, jax.random.key(0), store="swept", progress=False)
      >>> bool((store.read("swept").regret == played.regret).all())
      True
    """
    found = existing(url)
    if found is None:
        raise ValueError(f"store: there is no store of a sweep in {os.fspath(url)}")
    return found.result()


def existing(url: str | os.PathLike) -> Store | None:
    """The store of a sweep, with all its points and seeds; None if there is none.

    Raises:
      ValueError, OSError: the store is damaged or cannot be read; the message names the object.
    """
    files = Files(url)
    text = files.read(ROOT)
    if text is None:
        _refuse_blocks(files)
        return None
    layout = layouts.read(text, files.url)
    if wrong := _wrong(files, layout):
        _warn_of(files, wrong, "run the sweep again to write them again")
    return Store(files, layout, *layout.shape)


def is_empty(url: str | os.PathLike) -> bool:
    """Whether a folder or URL contains nothing.

    Examples:
      >>> store.is_empty("a_folder_that_is_not_there")
      True
    """
    return not Files(url).keys()


def _wrong(files, layout) -> list[str]:
    """The names of objects that do not match their digests in the root."""
    expected = layout.objects()
    found = together(files.read, expected)
    pairs = zip(expected.items(), found, strict=True)
    return [key for (key, known), data in pairs if data is None or digest(data) != known]


def _warn_of(files, wrong, remedy) -> None:
    names = ", ".join(map(files.path, wrong[:3]))
    rest = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
    warn(
        f"store: damaged, missing, or not as recorded in {files.path(ROOT)}: {names}{rest}; "
        f"{remedy}"
    )


def _mend(files, layout, wrong) -> None:
    """Rewrite the damaged objects, or all objects if the root changes."""
    objects = layouts.write(layout)
    written = layouts.read(objects[ROOT], files.url)
    if written.attributes["digest"] == layout.attributes.get("digest"):
        objects = {key: objects[key] for key in wrong}
    _write(files, objects)


def _refuse_blocks(files) -> None:
    """Raise an error if there are finished blocks without a root."""
    # The root is read last, since another process may just have written the root and then blocks.
    blocks = any(key.startswith("done/c/") for key in files.keys())  # noqa: SIM118
    if blocks and files.read(ROOT) is None:
        raise layouts.refusal(files.url, "does not exist")


def _create(files, new) -> None:
    """Create a store if there is none, or if there is one without a finished block."""
    _refuse_others(files, new)
    _write(files, layouts.write(new), create=True)


def _refuse_others(files, new) -> None:
    """Refuse finished blocks without a root, and files that do not belong to a store."""
    _refuse_blocks(files)
    names = new.names()
    for key in sorted(files.keys()):
        name, _, rest = key.partition("/")
        if name not in names or not re.fullmatch(r"zarr\.json|c(/\d+)*|", rest):
            raise ValueError(
                f"store: {files.url} must be empty or the store of a sweep, but it contains "
                f"{files.path(key)}; use another folder"
            )


def _write(files, objects, *, create=False) -> None:
    """Write objects, the root last. With ``create``, an existing root is not replaced."""
    for key, value in objects.items():
        if key == ROOT:
            files.write(key, value, create=create, durable=True)
        else:
            files.write(key, value)
