"""The number type of the curves, and the gaps of arms."""

import numpy as np


def float64(*values):
    """The values as float64 arrays of NumPy, in a list."""
    return [np.asarray(value, np.float64) for value in values]


def suboptimal(means):
    """(means, gaps) of the suboptimal arms, and the mean of the best arm."""
    means = np.asarray(means, np.float64)
    if means.ndim != 1 or len(means) < 2 or not np.all((means >= 0.0) & (means <= 1.0)):
        raise ValueError("means must be at least two mean losses in [0, 1], of shape (K,)")
    best = means.min()
    worse = means[means > best]
    return worse, worse - best, best
