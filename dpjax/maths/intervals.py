"""Confidence intervals of probabilities, and of means of numbers in [0, 1]."""

import numpy as np
import scipy

from dpjax.core import Numbers


def clopper_pearson(hits: Numbers, runs: int, error: float) -> tuple:
    """Lower and upper bounds on a probability, each wrong with probability at most ``error``.

    Clopper & Pearson 1934. The arguments are NumPy arrays that broadcast.

    Examples:
      >>> [round(float(end), 3) for end in audit.clopper_pearson(5, 100, 0.025)]
      [0.016, 0.113]
    """
    hits = np.asarray(hits, np.float64)
    low = np.where(hits > 0, scipy.special.betaincinv(hits, runs - hits + 1.0, error), 0.0)
    high = np.where(hits < runs, scipy.special.betainccinv(hits + 1.0, runs - hits, error), 1.0)
    return low, high


# Bets, as fractions of the largest bet that keeps the wealth positive, and their shares of the
# wealth. The best bet is unknown. If the mean is near 0, the largest bet is the best.
_BETS = np.append(np.geomspace(1e-3, 0.8, 15), 0.99)
_SHARES = np.append(np.full(15, 0.5 / 15), 0.5)


def mean_interval(values: Numbers, error: float) -> tuple:
    """Bounds on the mean of numbers in [0, 1], each wrong with probability at most ``error``.

    For a candidate mean m, the wealth is the mean over bets k of the product over the values x of
    1 + k (m - x) / (1 - m). m is rejected as too large if the wealth is at least 1 / error. If the
    true mean is at least m, the expected wealth is at most 1. So a wrong rejection has probability
    at most ``error`` (Markov). The wealth increases in m. The lower bound is found from 1 - x.

    Args:
      values: (n,) independent draws from one law.
      error: in (0, 1).

    Reference: Waudby-Smith & Ramdas, "Estimating means of bounded random variables by betting",
    2024.

    Examples:
      >>> from dpjax.maths.intervals import mean_interval
      >>> low, high = mean_interval(np.linspace(0.0, 0.2, 1000), 0.025)
      >>> bool(low < 0.1 < high)
      True
    """
    values, counts = np.unique(np.asarray(values, np.float64), return_counts=True)
    return 1.0 - _largest_mean(1.0 - values, counts, error), _largest_mean(values, counts, error)


def _largest_mean(values, counts, error):
    low, high = float(counts @ values / counts.sum()), 1.0
    for _ in range(30):
        mean = 0.5 * (low + high)
        gains = np.log1p(_BETS[:, None] * (mean - values) / max(1.0 - mean, 1e-300))
        wealth = scipy.special.logsumexp(gains @ counts, b=_SHARES)
        low, high = (low, mean) if wealth >= -np.log(error) else (mean, high)
    return high
