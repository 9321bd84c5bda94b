"""Each file rebuilds the figures and tables of one paper; authors of further papers come in.

``__all__`` is the registry that the command line reads. A paper has the sizes ``HORIZON``,
``TRIALS``, ``QUICK_HORIZON`` and ``QUICK_TRIALS``, and a function ``reproduce(out, *, horizon,
trials, progress)``, which plays everything and writes tables (CSV), figures (PNG and PDF) and
parameters.json.

Args:
  out: folder, created if missing.
  horizon: T, rounds.
  trials: how many each cell has.
  progress: whether to show progress bars.

Returns:
  The printed summary.

Raises:
  OSError: the folder cannot be written to. Nothing is played then.
  ValueError: the horizon or the trials are out of the range that the paper's function names.
"""

from dpjax.papers import (
    agarwal2017,
    agarwal2017_bandits,
    azize2023,
    ene2021,
    hanna2022,
    sajed2019,
    shariff2018,
    tossou2017,
    trust,
)

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
