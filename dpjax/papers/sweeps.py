"""Studies of an experiment, on the user's devices and in the user's stores."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count, repeat
from types import MappingProxyType
from typing import Any

from dpjax.study import Study

_OPTIONS: ContextVar[Mapping[str, Any]] = ContextVar("_OPTIONS", default=MappingProxyType({}))


@contextmanager
def playing(*, stores: str | None = None, **options: Any) -> Iterator[None]:
    """Within the block, each study of an experiment is run with these options.

    Args:
      stores: a folder or URL, in which the studies have the stores 001-study, 002-study and so on,
        in the order of calls, which an experiment never changes. With None nothing is stored.
      **options: as in :meth:`dpjax.Study.run`.
    """
    if stores is not None:
        options["store"] = (f"{stores.rstrip('/')}/{i:03d}-study" for i in count(1))
    token = _OPTIONS.set({**_OPTIONS.get(), **options})
    try:
        yield
    finally:
        _OPTIONS.reset(token)


def play(study: Study, **options: Any) -> Any:
    """Run a study with the options of the enclosing blocks."""
    options = {**_OPTIONS.get(), **options}
    return study.run(next(options.pop("store", repeat(None))), **options)
