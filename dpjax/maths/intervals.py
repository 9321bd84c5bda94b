"""Confidence intervals of probabilities."""

import numpy as np
import scipy

from dpjax.core import Numbers


def clopper_pearson(hits: Numbers, runs: int, error: float) -> tuple:
    """Lower and upper bound on a probability, each missed with probability at most ``error``.

    Clopper & Pearson 1934. The arguments are NumPy arrays that broadcast.

    Examples:
      >>> [round(float(end), 3) for end in audit.clopper_pearson(5, 100, 0.025)]
      [0.016, 0.113]
    """
    hits = np.asarray(hits, np.float64)
    low = np.where(hits > 0, scipy.stats.beta.ppf(error, hits, runs - hits + 1.0), 0.0)
    high = np.where(hits < runs, scipy.stats.beta.isf(error, hits + 1.0, runs - hits), 1.0)
    return low, high
