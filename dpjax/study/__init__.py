"""Games, sweeps, studies, comparisons and the measurement of theorems.

``Study`` plays learners and environments on a grid and returns an ``xarray.Dataset``. The accessor
``.dpjax`` computes means with intervals, paired differences, slopes, crossings and the best
setting, and makes tables and figures.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpjax.study.cost import Cost
    from dpjax.study.study import Study

__all__ = ["Cost", "Study"]
_MODULES = ["compare", "in_python", "sweep", "theorems", "worst_case"]


def __getattr__(name):
    """Import studies on first use, because their libraries take a second to load."""
    if name in _MODULES:
        return import_module(f"dpjax.study.{name}")
    if name in __all__:
        return getattr(import_module(f"dpjax.study.{name.lower()}"), name)
    raise AttributeError(f"module 'dpjax.study' has no attribute {name!r}")


def __dir__():
    return {*(name for name in globals() if name.startswith("__")), *__all__, *_MODULES}
