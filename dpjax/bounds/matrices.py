"""Bounds for online PCA: gram losses of a Fantope of rank k in R^(n x n), oblivious.

Regret is in expectation. The bounds are ours, and their derivations are in the docstrings.
"""

import numpy as np

from dpjax.core import Numbers


def ftpl_gram_perturbation(horizon: Numbers, size: Numbers, rank: Numbers) -> np.ndarray:
    """sqrt(T / (4 sqrt(pi) k sqrt(n))): the best standard deviation of a perturbation.

    It is for ``ftpl(perturbation=)``, whose noise has n^2 independent entries. The leader depends
    only on its symmetric part. Off the diagonal this has standard deviation sigma, the returned
    value divided by sqrt 2. This sigma minimizes :func:`ftpl_gram`.

    Examples:
      >>> bounds.ftpl_gram_perturbation([10_000, 40_000], 16, 1).round(2).tolist()
      [18.78, 37.56]
    """
    return np.sqrt(horizon / (4.0 * np.sqrt(np.pi) * rank * np.sqrt(size)))


def ftpl_gram(horizon: Numbers, size: Numbers, rank: Numbers, noise: Numbers = 0.0) -> np.ndarray:
    """2 k sigma sqrt(n) + T / (4 sqrt(pi) sigma) for follow the perturbed leader.

    With sigma = :func:`ftpl_gram_perturbation` / sqrt 2 this is 1.062 sqrt(k T) n^(1/4). Let N be a
    symmetric Gaussian matrix with standard deviation sigma off the diagonal and sqrt(2) sigma on
    it. Let Phi be the expected support function of the Fantope at S + N. Regret is at most Phi(0)
    plus the sum of the second-order remainders of Phi. Phi(0) is at most k times the expected
    largest eigenvalue of N, which is at most 2 sigma sqrt(n). For a loss -M the second derivative
    along M is E[<X, M> <N, M>] / (2 sigma^2), where <X, M> is in [0, 1] and <N, M> is normal with
    standard deviation at most sqrt(2) sigma. So this derivative is at most 1 / (2 sqrt(pi) sigma),
    and a remainder is at most half of that.

    Args:
      horizon: T.
      size: n.
      rank: k.
      noise: the standard deviation of an entry of a prefix's privacy noise, the same for all
        prefixes. If this noise exceeds the perturbation that the leader needs, it replaces the
        perturbation.

    Examples:
      >>> enough = bounds.ftpl_gram_perturbation(10_000, 16, 1)
      >>> bounds.ftpl_gram(10_000, 16, 1, noise=[0.0, enough, 4 * enough]).round(1).tolist()
      [212.5, 212.5, 451.5]
    """
    entry = np.maximum(ftpl_gram_perturbation(horizon, size, rank), noise)
    sigma = entry / np.sqrt(2.0)
    stability = 1.0 / (4.0 * np.sqrt(np.pi) * sigma)
    return 2.0 * rank * sigma * np.sqrt(size) + horizon * stability


def matrix_ftrl(horizon: Numbers, size: Numbers, noise: Numbers = 0.0) -> np.ndarray:
    """sqrt(T ln(n) / 2) + 2 s sqrt(2 n): FTRL with the von Neumann entropy, rank 1.

    The rate is sqrt(8 ln(n) / T), and s = ``noise`` is the standard deviation of an entry of a
    prefix's Gaussian noise, with the same law for all prefixes. The noise enters once, by the
    spread of the eigenvalues of its symmetric part, whose mean is at most 4 sqrt(n) s / sqrt(2).

    Examples:
      >>> bounds.matrix_ftrl(10_000, 16, noise=[0.0, 10.0]).round(1).tolist()
      [117.7, 230.9]
      >>> round(float(bounds.ftpl_gram(10_000, 16, 1, noise=10.0)), 1)
      212.5
    """
    return np.sqrt(0.5 * horizon * np.log(size)) + 2.0 * noise * np.sqrt(2.0 * size)
