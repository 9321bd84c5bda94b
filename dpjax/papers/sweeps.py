"""Studies of an experiment, on the devices and in the stores that the user asks for."""

from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count

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
    """Within the block, each study of an experiment has a store below a folder or URL.

    The stores are called 001-study, 002-study and so on. The number is the place in the order of
    calls, which an experiment never changes. With None nothing is kept.
    """
    stores = None if folder is None else (str(folder).rstrip("/"), count(1))
    return _within(_STORES, stores)


def on_devices(mesh):
    """Within the block, studies of experiments run on a mesh; None changes nothing."""
    return _within(_MESH, mesh)


def showing(progress):
    """Within the block, studies show bars of progress or do not."""
    return _within(_PROGRESS, progress)


def play(study, **options):
    """Runs a study as the blocks around the call say: in a store, on a mesh, with progress."""
    kept, store = _STORES.get(), None
    if kept is not None:
        folder, numbers = kept
        store = f"{folder}/{next(numbers):03d}-study"
    return study.run(store, mesh=_MESH.get(), progress=_PROGRESS.get(), **options)
