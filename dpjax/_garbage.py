"""Rare collections of cyclic garbage, while modules are imported and programs are compiled."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_THRESHOLDS = 50_000, 20, 10


@contextmanager
def rarely_collected() -> Iterator[None]:
    """Collect rarely. Imports and traces make many objects and little garbage.

    Python visits new objects at each 700 of them by default, and all objects now and then. This
    took a seventh of the CPU time of a first figure.
    """
    before = gc.get_threshold()
    if before == _THRESHOLDS or not gc.isenabled():
        yield
        return
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
