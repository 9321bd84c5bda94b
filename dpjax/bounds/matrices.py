"""Bounds for online PCA: gram losses of a Fantope of rank k in R^(n x n), oblivious.

Regret is in expectation. The bounds are ours, and their derivations are in the docstrings.
"""

import numpy as np

from dpjax.core import Numbers


def ftpl_gram_perturbation(horizon: Numbers, size: Numbers, rank: Numbers) -> np.ndarray:
    """sqrt(T / (4 sqrt(pi) k sqrt(n))): the best standard deviation of a perturbation.

    It is for ``ftpl(perturbation=)``, whose noise has n^2 independent entries. The leader depends
    only on its symmetric part. Off the diagonal this has standard deviation sigma, the returned
    value divided by sqrt 2. This sigma minimizes 2 k sigma sqrt(n) + T / (4 sqrt(pi) sigma), which
    bounds the regret.

    Examples:
      >>> bounds.ftpl_gram_perturbation([10_000, 40_000], 16, 1).round(2).tolist()
      [18.78, 37.56]
    """
    return np.sqrt(horizon / (4.0 * np.sqrt(np.pi) * rank * np.sqrt(size)))
