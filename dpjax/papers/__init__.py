"""Papers: each module rebuilds the figures and tables of one paper.

``__all__`` is the registry that the command line reads. A paper has the sizes ``HORIZON``,
``TRIALS``, ``QUICK_HORIZON`` and ``QUICK_TRIALS``, and a generator ``reproduce(horizon,
trials, short)`` that plays the experiment part by part. A decorator turns it into a function
``reproduce(out, *, horizon, trials, main_only, progress)`` that writes tables (CSV), figures (PNG
and PDF) and parameters.json.

Args:
  out: folder, created if missing; by default ``results/`` and the paper's name.
  horizon: T, rounds; by default ``HORIZON``.
  trials: number of trials per cell; by default ``TRIALS``.
  main_only: whether to play only the first part, which has the main table; False by default.
  progress: whether to show progress bars; True by default.

Returns:
  The printed text: the tables of at most 100 rows.

Raises:
  OSError: the folder cannot be written to; nothing is played.
  ValueError: the horizon or the trials are outside the range that the paper's function states.
"""

import lazy_loader

__all__ = [
    "agarwal2017",
    "agarwal2017_bandits",
    "azize2023",
    "ene2021",
    "hanna2022",
    "sajed2019",
    "shariff2018",
    "tossou2017",
    "trust",
]

__getattr__, __dir__, _ = lazy_loader.attach(__name__, __all__)
