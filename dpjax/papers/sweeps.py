"""Sweeps and studies of an experiment, on the devices and in the stores that the user asks for."""

import re
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count

from dpjax.study.sweep import sweep as _sweep

_STORES = ContextVar("stores", default=None)  # (folder or URL, iterator of the next numbers)
_MESH = ContextVar("mesh", default=None)
_PROGRESS = ContextVar("progress", default=True)


@contextmanager
def _within(variable, value):
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def kept_in(folder):
    """Within the block, each sweep and study of an experiment has a store below a folder or URL.

    The stores are called 001-name, 002-name and so on. The number is the place in the order of
    calls, which an experiment never changes. The name is "study", or that of a sweep's game. With
    None nothing is kept.
    """
    stores = None if folder is None else (str(folder).rstrip("/"), count(1))
    return _within(_STORES, stores)


def on_devices(mesh):
    """Within the block, sweeps and studies of experiments run on a mesh; None changes nothing."""
    return _within(_MESH, mesh)


def showing(progress):
    """Within the block, studies show bars of progress or do not."""
    return _within(_PROGRESS, progress)


def sweep(game, points, seeds, key, **options):
    """Calls :func:`dpjax.sweep` with the mesh and the store of the blocks around the call."""
    options["mesh"] = _MESH.get()
    if kept := _next_store(re.sub(r"[^\w.]+", "-", game.__name__)):
        options["store"] = kept
    return _sweep(game, points, seeds, key, **options)


def play(study, **options):
    """Runs a study as the blocks around the call say: in a store, on a mesh, with progress."""
    shown = _PROGRESS.get()
    return study.run(_next_store("study"), mesh=_MESH.get(), progress=shown, **options)


def _next_store(name):
    """The next store of the block around the call; None where nothing is kept."""
    stores = _STORES.get()
    if stores is None:
        return None
    folder, numbers = stores
    return f"{folder}/{next(numbers):03d}-{name}"
