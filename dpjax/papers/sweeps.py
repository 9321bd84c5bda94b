"""Studies of an experiment, on the user's devices and in the user's stores."""

from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from pathlib import Path
from typing import Any

import jax

from dpjax.study import Study

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


def kept_in(folder: str | Path | None):
    """Within the block, each study of an experiment has a store below a folder or URL.

    The stores are called 001-study, 002-study and so on, in the order of calls, which an experiment
    never changes. With None nothing is stored.
    """
    stores = None if folder is None else (str(folder).rstrip("/"), count(1))
    return _within(_STORES, stores)


def on_devices(mesh: jax.sharding.Mesh | None):
    """Within the block, studies of experiments run on a mesh; None changes nothing."""
    return _within(_MESH, mesh)


def showing(progress: bool):
    """Within the block, studies show progress bars if ``progress`` is true."""
    return _within(_PROGRESS, progress)


def play(study: Study, **options: Any):
    """Run a study with the store, mesh and progress of the enclosing blocks."""
    kept, store = _STORES.get(), None
    if kept is not None:
        folder, numbers = kept
        store = f"{folder}/{next(numbers):03d}-study"
    return study.run(store, mesh=_MESH.get(), progress=_PROGRESS.get(), **options)
