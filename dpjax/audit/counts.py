"""What counts of an event under two worlds say about epsilon, with confidence."""

from typing import NamedTuple

import numpy as np
from scipy import stats


class Bound(NamedTuple):
    """An empirical lower bound. No violation is found above it; that is all it says."""

    epsilon: float  # at ``delta``; 0 where nothing was found
    delta: float
    confidence: float  # of the bound, for this pair and this statistic
    runs: int  # counted, of each sequence
    hits: int  # of the event, among the runs of the sequence that it is more likely under
    misses: int  # among those of the other one
    event: str  # in words


def clopper_pearson(hits, runs, error):
    """Lower and upper bound on a probability, each missed with probability at most ``error``.

    Clopper & Pearson 1934. Arrays of NumPy broadcast.
    """
    hits = np.asarray(hits, np.float64)
    low = np.where(hits > 0, stats.beta.ppf(error, hits, runs - hits + 1.0), 0.0)
    high = np.where(hits < runs, stats.beta.ppf(1.0 - error, hits + 1.0, runs - hits), 1.0)
    return low, high


def bound_from_counts(hits, misses, runs, *, delta=0.0, confidence=0.95):
    """The epsilon at delta below which an event's counts under both sequences cannot be explained.

    (epsilon, delta)-privacy says P(event) <= e^epsilon P'(event) + delta. With the probability
    ``confidence`` ln((p - delta) / p') is no more than epsilon, for the lower bound p and the upper
    bound p' of Clopper and Pearson, each missed by half of the rest. 0 where that is negative.

    Args:
      hits: runs with the event, under the sequence where it is more likely.
      misses: the same under the other sequence.
      runs: of each.
      delta: in [0, 1).
      confidence: in (0, 1), for an event chosen beforehand.
    """
    error = (1.0 - confidence) / 2.0
    low, _ = clopper_pearson(hits, runs, error)
    _, high = clopper_pearson(misses, runs, error)
    with np.errstate(divide="ignore"):
        ratio = np.log(np.maximum(low - delta, 0.0)) - np.log(high)
    return np.maximum(ratio, 0.0)


def gaussian_from_counts(hits, misses, runs, *, confidence=0.95):
    """The mu of Gaussian differential privacy that an event's counts show; for Gaussian noise only.

    Under mu-GDP the probabilities p and p' of an event have Phi^-1(p) - Phi^-1(p') <= mu (Dong,
    Roth & Su 2022). Arguments as of :func:`bound_from_counts`.
    """
    error = (1.0 - confidence) / 2.0
    low, _ = clopper_pearson(hits, runs, error)
    _, high = clopper_pearson(misses, runs, error)
    return np.maximum(stats.norm.ppf(low) - stats.norm.ppf(high), 0.0)
