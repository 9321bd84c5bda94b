"""Studies: learners x environments x a grid, played as sweeps, and returned as labelled arrays.

A user comes in here. ``Study`` lays out the grid and plays it. What comes out is an
``xarray.Dataset``, and the accessor ``.dpjax`` holds what one asks of it: means with intervals,
paired differences, slopes, crossings, the best setting, tables and figures.
"""

from dpjax.study.accessor import Accessor
from dpjax.study.study import Cost, Study

__all__ = ["Accessor", "Cost", "Study"]
