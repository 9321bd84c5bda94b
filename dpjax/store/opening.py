"""Opening a store: created, compared with the sweep that asks for it, mended, grown, rebuilt."""

import re
import warnings

import numpy as np

from dpjax.core import Result
from dpjax.store import layout as layouts
from dpjax.store.blocks import Store
from dpjax.store.layout import ROOT, Layout
from dpjax.store.objects import Damaged, Files, decode, digest, together


def open_store(url, game, points, seeds, key, *, play, rounds, traced, block) -> Store:
    """The store of a sweep: created, or opened, compared with the sweep, mended, and grown.

    Args:
      url: a folder, or an fsspec URL.
      game, points, seeds, key, play: as of :func:`dpjax.sweep`.
      rounds: (n,) the checkpoints.
      traced: the game, as :func:`dpjax.engine.programs.trace` returns it.
      block: (points, seeds) of a block, for a store that is yet to be made.

    Returns:
      The store.

    Raises:
      ValueError: the store is of another sweep (the message names the field and both values), is
        damaged beyond what this sweep can prove to be its own, or the folder holds something else.
      OSError: it cannot be read, or cannot be written to.
    """
    files = Files(url)
    files.sweep_up()
    new = layouts.describe(
        game, points, seeds, key, play=play, rounds=rounds, traced=traced, block=block
    )
    # Until all is as the root says: another process may be creating or growing the store as well.
    while True:
        found, wrong = _find(files, new)
        if found is None:
            _create(files, new)
        elif wrong:
            _warn_of(files, wrong, "written again", stacklevel=5)
            _mend(files, found, wrong)
        else:
            layouts.compare(found, new, files.url)
            grown = layouts.grow(found, new, files.url)
            if grown.shape == found.shape:
                return Store(files, grown, *new.shape)
            _write(files, layouts.write(grown))


def read(url) -> Result:
    """The Result of a sweep that was stored, as NumPy arrays.

    Cells that are not done hold NaN (of integers the least one, of truth values False), and a
    warning counts them. Another names what only readers of Zarr will find damaged: metadata and
    coordinates, which the sweep writes again.

    Raises:
      ValueError: there is no store of a sweep, or one of its objects is damaged; the message
        names it.
      OSError: an object cannot be read; the message names it.
    """
    files = Files(url)
    text = files.read(ROOT)
    if text is None:
        gone = f", {files.path(ROOT)} is gone" if files.keys() else ""
        raise ValueError(f"store: there is no store of a sweep in {files.url}{gone}")
    layout = layouts.read(text, files.url)
    if wrong := _wrong(files, layout):
        _warn_of(files, wrong, "the sweep, called again, writes them again", stacklevel=3)
    return Store(files, layout, *layout.shape).result()


def is_empty(url) -> bool:
    """Whether nothing is stored there."""
    return not Files(url).keys()


def _find(files, new) -> tuple[Layout | None, list[str]]:
    """The layout of what is there, and the names of its objects that are not what they should be.

    A root that is gone or damaged is made anew from a sweep, if the blocks prove to be its own.
    None where there is no store.
    """
    complaint = None
    if (text := files.read(ROOT)) is not None:
        try:
            found = layouts.read(text, files.url)
        except ValueError as error:
            complaint = error
        else:
            return found, _wrong(files, found)
    try:
        found = _rebuilt(files, new)
    except ValueError:
        if complaint is None or isinstance(complaint, Damaged):
            raise
        found = None
    if found is None and complaint is not None:
        raise complaint
    return found, [ROOT] if found else []


def _wrong(files, layout) -> list[str]:
    """The objects beside the root that are not what it says."""
    expected = layout.objects()
    found = together(files.read, expected)
    pairs = zip(expected.items(), found, strict=True)
    return [key for (key, known), data in pairs if data is None or digest(data) != known]


def _warn_of(files, wrong, remedy, stacklevel) -> None:
    names = ", ".join(map(files.path, wrong[:3]))
    rest = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
    warnings.warn(
        f"store: damaged, gone, or not what {files.path(ROOT)} says: {names}{rest}; {remedy}",
        RuntimeWarning,
        stacklevel=stacklevel,
    )


def _rebuilt(files, new) -> Layout | None:
    """The layout of a sweep, with the blocks that are there; None where no block is done.

    How many points and seeds a block has is not written in it: of the ways to divide its cells the
    right one gives each cell the place that is in its checksum.

    Raises:
      ValueError: there are blocks, and not all of them are of this sweep.
    """
    found = re.findall(r"^(done/c/(\d+)/(\d+))$", "\n".join(files.keys()), re.MULTILINE)
    if not found:
        return None
    tried = []
    for size in {_size(files, key) for key, *_ in found}:
        for points in (n for n in range(1, size + 1) if size % n == 0):
            layout = new._replace(block=(points, size // points))
            corners = [(int(i) * points, int(j) * layout.block[1]) for _, i, j in found]
            known = [corner for corner in corners if corner[0] < layout.shape[0]]
            proven, strange = Store(files, layout, *layout.shape).evidence(known)
            tried.append((proven, strange is None, strange, layout))
    proven, all_fit, strange, layout = max(
        tried, key=lambda each: each[:2], default=(0, True, None, new)
    )
    if proven and all_fit:
        return layouts.grow(layout, new, files.url)
    what = f"{strange} is" if proven else "its blocks are"
    raise ValueError(
        f"store: {files.path(ROOT)} is damaged or gone, and {what} not of this sweep, or damaged; "
        "only the sweep that made the store can write it again"
    )


def _size(files, key) -> int:
    """How many cells a block has, by its ``done``; 0 where that is damaged."""
    data = files.read(key) or b""
    try:
        return decode(data, (len(data) - 4,), np.dtype(bool), key).size
    except Damaged:
        return 0


def _mend(files, layout, wrong) -> None:
    """Writes objects again that are not what the root says, or all of them with a new root."""
    objects = layouts.write(layout)
    written = layouts.read(objects[ROOT], files.url)
    if written.attributes["digest"] == layout.attributes.get("digest"):
        objects = {key: objects[key] for key in wrong}
    _write(files, objects)


def _create(files, new) -> None:
    """Makes a store where there is none, or where one was begun and has no finished block."""
    objects = layouts.write(new)
    names = {key.partition("/")[0] for key in objects}
    for key in sorted(files.keys()):
        name, _, rest = key.partition("/")
        if name not in names or not re.fullmatch(r"zarr\.json|c(/\d+)*|", rest):
            raise ValueError(f"store: there is something else, {files.path(key)}")
    _write(files, objects, create=True)


def _write(files, objects, *, create=False) -> None:
    """Writes objects, the root last; not over another root if it is to be created."""
    for key, value in objects.items():
        if key == ROOT:
            files.write(key, value, create=create, durable=True)
        else:
            files.write(key, value)
