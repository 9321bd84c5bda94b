"""Rare collections of cyclic garbage, while modules are imported and programs are compiled."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_THRESHOLDS = 50_000, 20, 10


@contextmanager
def rarely_collected() -> Iterator[None]:
    """Collect rarely. Imports and traces make many objects and little garbage.

    By default Python visits new objects after every 700 of them, and all objects now and then. That
    is a large part of the time of an import. Thresholds of users who collect still more rarely, or
    never (0), stay. So do thresholds that are set meanwhile.
    """
    before = gc.get_threshold()
    if not 0 < before[0] < _THRESHOLDS[0]:
        yield
        return
    try:
        gc.set_threshold(*_THRESHOLDS)
        yield
    finally:
        if gc.get_threshold()[:2] == _THRESHOLDS[:2]:
            gc.set_threshold(*before)
