"""Estimators over trials, in NumPy on the host.

Where an array has several axes, ``axis`` says which one counts the trials, since no shape shows it.
It is 1 for the regret of a sweep, (points, seeds, rounds), and for ``regret[..., -1]``.
"""

from typing import NamedTuple

import numpy as np
from scipy import stats

from dpjax.core import Numbers


class Band(NamedTuple):
    """A mean and its confidence interval, each of the shape of one trial."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


class Spread(NamedTuple):
    """Gini mean differences of the trials below a centre, and of those above it."""

    below: np.ndarray
    above: np.ndarray


def _first(axis, **arrays):
    """Arrays in float64 with their trials first.

    Raises:
      ValueError: there are no trials, or ``axis`` is out of range, or missing where it is needed.
    """
    found = []
    for name, array in arrays.items():
        array = np.asarray(array, np.float64)
        if array.ndim == 0 or array.size == 0:
            raise ValueError(f"{name} must be an array of trials, got the shape {array.shape}")
        if axis is None and array.ndim > 1:
            raise ValueError(
                f"axis must be given, since {name} has {array.ndim} of them, {array.shape}; it is "
                "the axis of the trials, such as axis=1 for the regret of a sweep, (points, seeds, "
                "rounds)"
            )
        if not -array.ndim <= (axis or 0) < array.ndim:
            raise ValueError(f"axis: {name} has the shape {array.shape}, and no axis {axis}")
        found.append(np.moveaxis(array, axis or 0, 0))
    return found[0] if len(found) == 1 else found


def median_of_means(trials: Numbers, groups: int, *, axis: int | None = None) -> np.ndarray:
    """Median over ``groups`` equal groups of consecutive trials of the group's mean.

    With probability at least 1 - exp(-groups / 4.5) it is within sigma sqrt(6 groups / n) of the
    mean, for any law of variance sigma^2 (Hsu & Sabato 2016, as recalled).

    Args:
      trials: (n,), or an array with an axis of n trials, n a multiple of groups.
      groups: number of groups.
      axis: the axis of the trials; it must be given where there are several.

    Returns:
      The estimate, of the shape of one trial.

    Raises:
      ValueError: the number of trials is not a multiple of groups, or bad axes.

    Examples:
      >>> trials = np.array([1.0, 2.0, 3.0, 4.0, 90.0, 98.0])
      >>> [float(statistics.median_of_means(trials, groups)) for groups in (1, 3)]
      [33.0, 3.5]
    """
    trials = _first(axis, trials=trials)
    if groups < 1 or len(trials) % groups:
        raise ValueError(f"trials: {len(trials)} do not divide into {groups} equal groups")
    means = trials.reshape(groups, len(trials) // groups, *trials.shape[1:]).mean(axis=1)
    return np.median(means, axis=0)


def gini_mean_difference(trials: Numbers, *, axis: int | None = None) -> np.ndarray:
    """Mean of |x - x'| over all pairs of distinct trials; 0 for a single trial.

    It is 2 / (n (n - 1)) sum_j (2j - n - 1) x_(j) for the order statistics x_(1) <= ... <= x_(n).
    ``axis`` is that of the trials; it must be given where there are several.

    Examples:
      >>> float(statistics.gini_mean_difference([1.0, 2.0, 4.0]))  # the mean of 1, 2 and 3
      2.0
    """
    return _gini(_first(axis, trials=trials))


def _gini(trials):
    ordered = np.sort(trials, axis=0)
    n = len(ordered)
    if n < 2:
        return np.zeros(ordered.shape[1:])
    weights = 2.0 * np.arange(1, n + 1) - n - 1
    return np.tensordot(weights, ordered, axes=1) * 2.0 / (n * (n - 1))


def gini_spread(trials: Numbers, centre: Numbers, *, axis: int | None = None) -> Spread:
    """Gini mean difference of the trials below the centre, and of those above, separately.

    Tossou & Dimitrakakis 2017 draw them as asymmetric error bars. A trial at the centre counts on
    both sides. A side with fewer than two trials has spread 0.

    Args:
      trials: (n,), or an array with an axis of n trials.
      centre: of the shape of one trial, as median_of_means returns it.
      axis: the axis of the trials; it must be given where there are several.

    Examples:
      >>> below, above = statistics.gini_spread([1.0, 2.0, 4.0, 9.0], 3.0)
      >>> float(below), float(above)
      (1.0, 5.0)
    """
    trials = _first(axis, trials=trials)
    flat = trials.reshape(len(trials), -1)
    centres = np.reshape(centre, -1)
    below = [_gini(x[x <= c]) for x, c in zip(flat.T, centres, strict=True)]
    above = [_gini(x[x >= c]) for x, c in zip(flat.T, centres, strict=True)]
    shape = trials.shape[1:]
    return Spread(np.reshape(below, shape), np.reshape(above, shape))


def mean_band(trials: Numbers, confidence: float = 0.95, *, axis: int | None = None) -> Band:
    """Mean over trials with a normal confidence interval at each point; they are not simultaneous.

    Args:
      trials: (n,), or an array with an axis of n trials. The interval of a single trial is nan.
      confidence: level of each interval, in (0, 1).
      axis: the axis of the trials; it must be given where there are several.

    Returns:
      A Band, each of the shape of one trial.

    Raises:
      ValueError: there are no trials, or ``axis`` is not given where it must be.

    Examples:
      >>> trials = np.array([1.0, 2.0, 6.0])
      >>> [round(float(x), 2) for x in statistics.mean_band(trials)]
      [3.0, 0.01, 5.99]
    """
    trials = _first(axis, trials=trials)
    mean, error = trials.mean(axis=0), standard_error(trials, axis=0)
    width = stats.norm.ppf(0.5 + confidence / 2) * error
    return Band(mean, mean - width, mean + width)


def standard_error(trials: Numbers, *, axis: int | None = None) -> np.ndarray:
    """Standard error of the mean over trials, of the shape of one; nan for a single trial.

    ``axis`` is that of the trials; it must be given where there are several.

    Examples:
      >>> trials = np.array([1.0, 2.0, 6.0])
      >>> round(float(statistics.standard_error(trials)), 2)
      1.53
    """
    trials = _first(axis, trials=trials)
    if len(trials) < 2:
        return np.full(trials.shape[1:], np.nan)
    return stats.sem(trials, axis=0)


def paired_difference(
    trials: Numbers, others: Numbers, confidence: float = 0.95, *, axis: int | None = None
) -> Band:
    """Mean and band of the differences trials - others, where trials of a pair share their nature.

    Both have the same shape. ``axis`` is as in :func:`mean_band`.

    Examples:
      >>> trials, others = np.array([11.0, 52.0, 96.0]), np.array([10.0, 50.0, 93.0])
      >>> [round(float(x), 2) for x in statistics.paired_difference(trials, others)]
      [2.0, 0.87, 3.13]
    """
    if np.shape(trials) != np.shape(others):
        raise ValueError(
            f"others must have the shape of trials, {np.shape(trials)}, got {np.shape(others)}"
        )
    trials, others = _first(axis, trials=trials, others=others)
    return mean_band(trials - others, confidence, axis=0)


def free_epsilon(epsilons: np.ndarray, regret: np.ndarray) -> float:
    """The smallest epsilon from which on mean regret is within 10 % of that without privacy.

    It is interpolated on the logarithm of epsilon. It is inf if the largest finite epsilon is too
    small, and 0 if the smallest is large enough.

    Args:
      epsilons: (P,), increasing, the last one inf.
      regret: (P, n) of n trials.

    Raises:
      ValueError: regret has another shape.

    Examples:
      >>> regret = np.array([[40.0, 44.0], [24.0, 24.0], [21.0, 21.0], [20.0, 20.0]])
      >>> round(statistics.free_epsilon(np.array([0.1, 1.0, 10.0, np.inf]), regret), 2)
      4.64
    """
    if np.ndim(regret) != 2 or len(regret) != len(epsilons):
        raise ValueError(
            f"regret must be of (points, seeds), {len(epsilons)} points, got {np.shape(regret)}"
        )
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
