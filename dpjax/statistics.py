"""Estimators over trials, in NumPy on the host. The trials are the first axis: (n, ...)."""

from typing import NamedTuple

import numpy as np
from scipy import stats


class Band(NamedTuple):
    """A mean and its confidence interval, each of the shape of one trial."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


class Spread(NamedTuple):
    """Gini mean differences of the trials below and above a centre."""

    below: np.ndarray
    above: np.ndarray


def median_of_means(trials, groups) -> np.ndarray:
    """Median over ``groups`` equal groups of consecutive trials of the group's mean.

    With probability at least 1 - exp(-groups / 4.5) it is within sigma sqrt(6 groups / n) of the
    mean, for any law of variance sigma^2 (Hsu & Sabato 2016, as recalled).

    Args:
      trials: (n, ...), n a multiple of groups.
      groups: number of groups.

    Returns:
      The estimate, of shape (...).

    Raises:
      ValueError: the number of trials is not a multiple of groups.
    """
    trials = np.asarray(trials, np.float64)
    if groups < 1 or len(trials) == 0 or len(trials) % groups:
        raise ValueError(f"trials: {len(trials)} do not divide into {groups} equal groups")
    means = trials.reshape(groups, len(trials) // groups, *trials.shape[1:]).mean(axis=1)
    return np.median(means, axis=0)


def gini_mean_difference(trials) -> np.ndarray:
    """Mean of |x - x'| over all pairs of distinct trials; 0 for a single trial.

    2 / (n (n - 1)) sum_j (2j - n - 1) x_(j) over the order statistics x_(1) <= ... <= x_(n).
    """
    ordered = np.sort(np.asarray(trials, np.float64), axis=0)
    n = len(ordered)
    if n < 2:
        return np.zeros(ordered.shape[1:])
    weights = 2.0 * np.arange(1, n + 1) - n - 1
    return np.tensordot(weights, ordered, axes=1) * 2.0 / (n * (n - 1))


def gini_spread(trials, centre) -> Spread:
    """Gini mean difference of the trials below the centre, and of those above, separately.

    Asymmetric error bars, as in Tossou & Dimitrakakis 2017. A trial at the centre counts on
    both sides; a side with fewer than two trials has spread 0.

    Args:
      trials: (n, ...).
      centre: (...), as median_of_means returns it.
    """
    trials = np.asarray(trials, np.float64)
    flat = trials.reshape(len(trials), -1)
    centres = np.reshape(centre, -1)
    below = [gini_mean_difference(x[x <= c]) for x, c in zip(flat.T, centres, strict=True)]
    above = [gini_mean_difference(x[x >= c]) for x, c in zip(flat.T, centres, strict=True)]
    shape = trials.shape[1:]
    return Spread(np.reshape(below, shape), np.reshape(above, shape))


def mean_band(trials, confidence=0.95) -> Band:
    """Mean over trials with a normal confidence interval at each point, not simultaneous.

    Args:
      trials: (n, ...), n at least 2.
      confidence: of each interval, in (0, 1).
    """
    trials = np.asarray(trials, np.float64)
    mean, error = trials.mean(axis=0), standard_error(trials)
    width = stats.norm.ppf(0.5 + confidence / 2) * error
    return Band(mean, mean - width, mean + width)


def standard_error(trials) -> np.ndarray:
    """Standard error of the mean over trials, (n, ...) -> (...); nan for a single trial."""
    trials = np.asarray(trials, np.float64)
    if len(trials) < 2:
        return np.full(trials.shape[1:], np.nan)
    return trials.std(axis=0, ddof=1) / np.sqrt(len(trials))


def paired_difference(trials, others, confidence=0.95) -> Band:
    """Mean of trials - others with its band, trial by trial: both faced the same nature."""
    return mean_band(np.asarray(trials, np.float64) - np.asarray(others, np.float64), confidence)


def resampled(trials, statistic, *, draws=400, seed=2017):
    """A statistic and its 95 % interval over resampled trials (bootstrap percentiles).

    Args:
      trials: their number.
      statistic: function of an array of indices of trials.
      draws: how many resamples.
      seed: of the resampling.

    Returns:
      (value, low, high), floats; infinite where the statistic is.
    """
    generator = np.random.default_rng(seed)
    values = [statistic(generator.integers(trials, size=trials)) for _ in range(draws)]
    # Of the draws themselves: between a number and infinity there is nothing to interpolate.
    low, high = np.quantile(values, [0.025, 0.975], method="nearest")
    return statistic(np.arange(trials)), float(low), float(high)


def free_epsilon(epsilons, regret) -> float:
    """The smallest epsilon from which on mean regret is within 10 % of that without privacy.

    Interpolated on the logarithm of epsilon; inf beyond the largest one, 0 below the smallest.

    Args:
      epsilons: (P,), increasing, the last one inf.
      regret: (P, n).
    """
    ratio = regret.mean(axis=1) / regret[-1].mean()
    above = np.flatnonzero(ratio[:-1] > 1.1)
    if not len(above):
        return 0.0
    last = above[-1]
    if last == len(epsilons) - 2:
        return float("inf")
    share = (ratio[last] - 1.1) / (ratio[last] - ratio[last + 1])
    logs = np.log(epsilons[[last, last + 1]])
    return float(np.exp(logs[0] + share * (logs[1] - logs[0])))
