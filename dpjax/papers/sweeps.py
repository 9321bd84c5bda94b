"""Sweeps of a paper's experiment, on the devices and in the stores that the user asked for."""

import re
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count

from dpjax.sweep import sweep as _sweep

_STORES = ContextVar("stores", default=None)  # (folder or URL, iterator of the next numbers)
_MESH = ContextVar("mesh", default=None)


@contextmanager
def kept_in(folder):
    """Within the block, each sweep of an experiment has a store below a folder or URL.

    The stores are called 001-name, 002-name and so on. The number is the sweep's place in the order
    of calls, which an experiment never changes, and the name is that of its game. With None nothing
    is kept.
    """
    token = _STORES.set(None if folder is None else (str(folder).rstrip("/"), count(1)))
    try:
        yield
    finally:
        _STORES.reset(token)


@contextmanager
def on_devices(mesh):
    """Within the block, all sweeps of experiments run on a mesh; None changes nothing."""
    token = _MESH.set(mesh)
    try:
        yield
    finally:
        _MESH.reset(token)


def sweep(game, points, seeds, key, **options):
    """Calls :func:`dpjax.sweep` with the mesh and the store of the blocks around the call."""
    options["mesh"] = _MESH.get()
    if stores := _STORES.get():
        folder, numbers = stores
        name = re.sub(r"[^\w.]+", "-", game.__name__)
        options["store"] = f"{folder}/{next(numbers):03d}-{name}"
    return _sweep(game, points, seeds, key, **options)
