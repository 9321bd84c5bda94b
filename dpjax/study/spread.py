"""The parts of a study, played by workers into one store."""

import io
import os
import pickle
import sys
from collections import deque
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import ExitStack
from contextvars import ContextVar
from pkgutil import resolve_name
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from dpjax.engine.progress import Bar

if TYPE_CHECKING:
    from dpjax.study.study import Study

# A part is abandoned after this many workers died on it.
_ATTEMPTS = 4


def check_executor(executor: object) -> None:
    """Refuse an executor without ``submit``, and one that forks processes, in which JAX hangs.

    Raises:
      TypeError, ValueError: the executor cannot be used.
    """
    if not hasattr(executor, "submit"):
        raise TypeError(f"executor must have a method submit, got {type(executor).__name__}")
    context = getattr(executor, "_mp_context", None)
    if context is not None and context.get_start_method() == "fork":
        raise ValueError(
            "executor: it forks processes, and JAX hangs in them; make it as "
            "ProcessPoolExecutor(mp_context=multiprocessing.get_context('spawn'))"
        )


def spread(
    packed: bytes,
    store: str | os.PathLike,
    executor: object,
    parts: int,
    chunk: int | None,
    bar: Bar,
) -> None:
    """Play all parts of a study into a store on the workers of an executor.

    Args:
      packed: the study, from :func:`pack`.
      store, chunk: as in :meth:`dpjax.Study.run`.
      executor: has a method ``submit(function, *arguments)``, which returns an object with
        ``result()``.
      parts: the number of parts.
      bar: counts the rounds x trials of finished parts.

    Raises:
      RuntimeError: a part was lost with its worker ``_ATTEMPTS`` times.
      Exception: a worker raised it.
    """
    if "://" not in str(store):
        store = os.path.abspath(store)  # Workers may run in another folder.
    with ExitStack() as stack:

        def submitted(part):
            nonlocal executor
            try:
                return executor.submit(_play, packed, store, part, chunk)
            except BrokenExecutor:  # If one process of a pool dies, the pool takes no more work.
                executor = _anew(executor)
                stack.callback(executor.shutdown, cancel_futures=True)
                return executor.submit(_play, packed, store, part, chunk)

        waiting = deque((i, 1, submitted((i, parts))) for i in range(1, parts + 1))
        stack.callback(lambda: [job.cancel() for _, _, job in waiting])
        while waiting:
            i, attempt, job = waiting[0]
            try:
                error = job.result()
            except Exception as lost:
                if attempt == _ATTEMPTS:
                    guard = (
                        "; a possible cause: the script starts the pool outside "
                        "'if __name__ == \"__main__\":'"
                    )
                    raise RuntimeError(
                        f"executor: part {i} of {parts} was lost with its worker {_ATTEMPTS} "
                        f"times, the last time by {type(lost).__name__}: {lost}"
                        f"{guard if isinstance(lost, BrokenExecutor) else ''}; all finished "
                        f"blocks are in {store}, and the same call continues from them"
                    ) from lost
                waiting.append((i, attempt + 1, submitted((i, parts))))
            else:
                if error is not None:
                    raise error
                bar.update(bar.total / parts)
            waiting.popleft()


def _play(packed, store, part, chunk) -> Exception | None:
    """Play a part in a worker and return its error; an exception here means a lost worker."""
    try:
        pickle.loads(packed).run(store, part=part, chunk=chunk, progress=False)
    except Exception as error:
        return error
    return None


def _anew(executor) -> ProcessPoolExecutor:
    """A new pool with the settings of a broken one."""
    if not isinstance(executor, ProcessPoolExecutor):
        raise RuntimeError("executor: it is broken and accepts no work; make another and run again")
    old: Any = executor
    return ProcessPoolExecutor(old._max_workers, old._mp_context, old._initializer, old._initargs)


def shares(weights: list[int], part: tuple[int, int]) -> list[tuple[float, float]]:
    """The share (from, to), in [0, 1], of each program's blocks that a part of a study plays.

    Args:
      weights: the rounds of each program, summed over its points. All parts have equally many
        rounds, up to one block.
      part: (i, n), the i-th of n.
    """
    ends = np.cumsum(weights)
    i, n = part
    first, last = (
        np.clip((ends[-1] * j / n - ends) / weights + 1.0, 0.0, 1.0).tolist() for j in (i - 1, i)
    )
    return list(zip(first, last, strict=True))


def pack(study: "Study") -> bytes:
    """The bytes of a study, from which another process restores it by ``pickle.loads``.

    Named objects of dpjax are sent by name. The user's own functions and closures need cloudpickle.

    Raises:
      TypeError: it cannot be sent; the message gives the reason and a remedy.
    """
    try:
        import cloudpickle
    except ImportError:
        remedy, pickler = "install cloudpickle, which sends functions and closures", pickle.Pickler
    else:
        remedy = "start the processes yourself and call run(store, part=(i, n)) in each"
        pickler = cloudpickle.Pickler
    named = {
        id(value): f"{module}:{name}"
        for module, loaded in sys.modules.copy().items()
        if module.split(".")[0] == "dpjax"
        for name, value in vars(loaded).copy().items()
        if isinstance(value, FunctionType | ContextVar)
    }

    class Pickler(pickler):  # type: ignore[misc, valid-type]
        def reducer_override(self, thing):
            if id(thing) in named and thing is not resolve_name:
                return resolve_name, (named[id(thing)],)
            return getattr(super(), "reducer_override", lambda _: NotImplemented)(thing)

    written = io.BytesIO()
    try:
        Pickler(written).dump(study)
    except Exception as error:
        raise TypeError(
            f"executor: the study cannot be sent to its workers ({error}); {remedy}"
        ) from error
    return written.getvalue()
