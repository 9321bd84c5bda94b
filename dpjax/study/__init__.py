"""Games, sweeps, studies, comparisons and the measurement of theorems.

``Study`` plays learners and environments on a grid and returns an ``xarray.Dataset``. The accessor
``.dpjax`` computes means with intervals, paired differences, slopes, crossings and the best
setting, and makes tables and figures.
"""

import lazy_loader

# Studies are imported on first use, because their libraries take a second to load.
__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
__all__ = ["Cost", "Study"]
