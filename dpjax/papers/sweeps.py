"""The sweeps of an experiment: on which devices, and each in a store of its own, if asked for."""

import re
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count

from dpjax.sweep import sweep as _sweep

_STORES = ContextVar("stores", default=None)  # (folder or URL, numbers still to be given)
_MESH = ContextVar("mesh", default=None)


@contextmanager
def kept_in(folder):
    """All sweeps of experiments within the block go into stores below a folder or URL.

    They are called 001-name, 002-name and so on: the order of the calls, which an experiment does
    not change, and the name of the game. With None nothing is kept.
    """
    token = _STORES.set(None if folder is None else (str(folder).rstrip("/"), count(1)))
    try:
        yield
    finally:
        _STORES.reset(token)


@contextmanager
def on_devices(mesh):
    """All sweeps of experiments within the block use a mesh; None is as without the block."""
    token = _MESH.set(mesh)
    try:
        yield
    finally:
        _MESH.reset(token)


def sweep(game, points, seeds, key, **options):
    """As :func:`dpjax.sweep`."""
    options["mesh"] = _MESH.get()
    if stores := _STORES.get():
        folder, numbers = stores
        name = re.sub(r"[^\w.]+", "-", game.__name__)
        options["store"] = f"{folder}/{next(numbers):03d}-{name}"
    return _sweep(game, points, seeds, key, **options)
