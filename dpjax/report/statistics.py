"""Estimates of NumPy arrays, for callers that hold no labelled data; see dpjax.report.estimates."""

from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from dpjax.core import Numbers
from dpjax.report.trends import first_within


class Band(NamedTuple):
    """A mean and its confidence interval, each of the shape of one trial."""

    mean: Any
    low: Any
    high: Any


def mean_band(trials: Numbers, confidence: float = 0.95, *, axis: int = 0) -> Band:
    """Mean over the trials of an axis, with a normal interval at each point; nan for one trial."""
    mean, error = np.mean(trials, axis=axis, dtype=np.float64), standard_error(trials, axis=axis)
    width = stats.norm.ppf(0.5 + confidence / 2) * error
    return Band(mean, mean - width, mean + width)


def standard_error(trials: Numbers, *, axis: int = 0) -> np.ndarray:
    """Standard error of the mean over the trials of an axis; nan for one trial."""
    trials = np.asarray(trials, np.float64)
    if trials.shape[axis] < 2:
        return np.full(np.delete(trials.shape, axis), np.nan)
    return stats.sem(trials, axis=axis)


def free_epsilon(epsilons: np.ndarray, regret: np.ndarray) -> float:
    """``crossing(1.1, of=inf)`` of the regret (P, n) at increasing epsilons, the last one inf."""
    ratio = regret.mean(axis=1) / regret[-1].mean()
    return float(first_within(np.log(epsilons[:-1]), ratio[:-1], 1.1))
