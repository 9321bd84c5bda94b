"""The time limit and the progress of an attack, whose blocks run in parallel threads."""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from dpjax.engine.devices import cores

# Both hold for the work that the current thread starts.
_end: ContextVar[float] = ContextVar("end", default=math.inf)
_report: ContextVar[Callable[[str], None]] = ContextVar("report", default=lambda words: None)


class OutOfTime(RuntimeError):
    """The time limit was reached before the work was done."""


@contextmanager
def limited(seconds: float):
    """Within the block, :func:`in_threads` raises OutOfTime after this time."""
    before = _end.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _end.reset(before)


@contextmanager
def watched(report: Callable[[str], None]):
    """Within the block, :func:`report` and :func:`in_threads` pass their words to ``report``."""
    before = _report.set(report)
    try:
        yield
    finally:
        _report.reset(before)


def report(words: str) -> None:
    """Say which part of an audit begins now."""
    _report.get()(words)


def in_threads(function: Callable, blocks: Iterable) -> Iterator[Any]:
    """Yield ``function(block)`` of each block in order, computed with one thread per core.

    Raises:
      OutOfTime: the time limit was reached. Only a block that is already running is finished.
    """
    with ThreadPoolExecutor(cores()) as pool:
        futures = [pool.submit(function, block) for block in blocks]
        try:
            for done, future in enumerate(futures):
                if time.monotonic() > _end.get():
                    raise OutOfTime
                report(f"attack, {done} of {len(futures)} blocks of this step")
                yield future.result()
        except BaseException:
            for future in futures:
                future.cancel()
            raise
