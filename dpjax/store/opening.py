"""Opens a store: creates, checks, repairs or extends it for a sweep."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from dpjax.core import Result
from dpjax.store import layout as layouts
from dpjax.store.blocks import Store
from dpjax.store.layout import ROOT
from dpjax.store.objects import Files, together, warn


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
    new, grew = layouts.describe(plan), False
    # Another process may create or extend the store meanwhile. So this repeats until the root fits
    # this sweep.
    while True:
        if (text := files.read(ROOT)) is None:
            _refuse_others(files)
            root = layouts.write(layouts.described(new, plan, about))[ROOT]
            files.write(ROOT, root, create=True, durable=True)
            continue
        stored = layouts.read(text, files.url)
        layouts.compare(stored, new, files.url, plan)
        grown = layouts.grow(stored, new, files.url)
        if grown.shape[0] > stored.shape[0]:
            grown = layouts.described(grown, plan, about)
        objects = layouts.write(grown)
        if grown == stored:
            _complete(files, objects, grew)
            return Store(files, grown, *new.shape)
        files.write(ROOT, objects[ROOT], durable=True)
        grew = True


def check(url: str | os.PathLike, plan: Any) -> np.ndarray:
    """Check that a folder or URL can store a sweep, and write nothing.

    Returns:
      (P,) the place of each point in the store.

    Raises:
      ValueError, OSError: as in :func:`open_store`.
    """
    files, new = Files(url), layouts.describe(plan)
    if (text := files.read(ROOT)) is None:
        _refuse_others(files)
        return np.arange(plan.count)
    stored = layouts.read(text, files.url)
    places = layouts.places(stored.points(), new.points())
    new = layouts.describe(plan.moved(places))
    layouts.compare(stored, new, files.url, plan)
    layouts.grow(stored, new, files.url)
    return places


def read(url: str | os.PathLike) -> Result:
    """The Result of a stored sweep, as NumPy arrays.

    Unfinished cells are NaN (the least integer in arrays of integers, False in arrays of booleans),
    and a warning counts them.

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
    stored = existing(url)
    if stored is None:
        raise ValueError(f"store: there is no store of a sweep in {os.fspath(url)}")
    return stored.result()


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
    return Store(files, layout, *layout.shape)


def is_empty(url: str | os.PathLike) -> bool:
    """Whether a folder or URL contains nothing.

    Examples:
      >>> store.is_empty("a_folder_that_is_not_there")
      True
    """
    return not Files(url).keys()


def _complete(files, objects, grew) -> None:
    """Write metadata and coordinates that are missing, and those that are damaged, with a warning.

    There is no warning if the store ``grew``, because they are then of fewer points or seeds.
    """
    stored = dict(zip(objects, together(files.read, objects), strict=True))
    wrong = [key for key, data in objects.items() if key != ROOT and stored[key] != data]
    damaged = [files.path(key) for key in wrong if stored[key] is not None]
    if damaged and not grew:
        rest = f" and {len(damaged) - 3} more" if len(damaged) > 3 else ""
        warn(
            f"store: damaged, or of another version of zarr: {', '.join(damaged[:3])}{rest}; "
            "they are written again"
        )
    for key in wrong:
        files.write(key, objects[key])


def _refuse_blocks(files) -> None:
    """Raise an error if there are finished blocks without a root."""
    # The root is read last, since another process may just have written the root and then blocks.
    blocks = any(key.startswith("done/c/") for key in files.keys())  # noqa: SIM118
    if blocks and files.read(ROOT) is None:
        raise layouts.refusal(files.url, "does not exist")


def _refuse_others(files) -> None:
    """Refuse a folder that contains files, but no root."""
    _refuse_blocks(files)
    keys = sorted(files.keys())
    if keys and files.read(ROOT) is None:
        raise ValueError(
            f"store: {files.url} must be empty or the store of a sweep, but it contains "
            f"{files.path(keys[0])} and no {ROOT}; use another folder"
        )
