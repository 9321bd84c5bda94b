"""Everything that is played: games, sweeps, studies, comparisons, theorems.

``Study`` lays out a grid and plays it. What comes out is an ``xarray.Dataset``, and the accessor
``.dpjax`` holds what one asks of it: means with intervals, paired differences, slopes, crossings,
the best setting, tables and figures.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpjax.study.cost import Cost
    from dpjax.study.study import Study

__all__ = ["Cost", "Study"]


def __getattr__(name):
    """Studies, whose libraries for labelled data take a second to load."""
    if name in __all__:
        return getattr(import_module(f"dpjax.study.{name.lower()}"), name)
    raise AttributeError(f"module 'dpjax.study' has no attribute {name!r}")
