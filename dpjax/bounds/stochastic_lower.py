"""Lower bounds over stochastic arms, on pseudo-regret and on pulls.

``means`` (K,) are mean losses. Sums run over the suboptimal arms.
"""

import numpy as np

from dpjax.bounds._host import log_gap, suboptimal
from dpjax.core import Numbers


def kl(x: Numbers, y: Numbers) -> np.ndarray:
    """kl of Bernoulli laws of means x and y.

    It is x g((y - x) / x) + (1 - x) g((x - y) / (1 - x)) with g(r) = r - ln(1 + r). Both terms are
    positive. At x = 0 the first one is y, and at x = 1 the second one is 1 - y.

    Examples:
      >>> bounds.kl(0.5, [0.3, 0.4, 0.5]).round(4).tolist()
      [0.0872, 0.0204, 0.0]
    """
    change, low, high = x - y, np.where(x > 0.0, x, 1.0), np.where(x < 1.0, 1.0 - x, 1.0)
    with np.errstate(over="ignore"):
        first = low * log_gap(np.maximum(-change / low, -1.0))
        second = high * log_gap(np.maximum(change / high, -1.0))
    return np.where(x > 0.0, first, y) + np.where(x < 1.0, second, 1.0 - y)


def d_epsilon_divergence(x: Numbers, y: Numbers, epsilon: Numbers) -> np.ndarray:
    """inf over z between x and y of epsilon |z - x| + kl(z, y), for x >= y, in closed form.

    It is kl(x, y) if the slope of kl(., y) at x is at most epsilon, otherwise epsilon
    x - ln(1 - y + y e^epsilon). Azize et al. 2025, from a secondary text.

    Examples:
      >>> bounds.d_epsilon_divergence(0.5, 0.3, [0.1, 1.0, np.inf]).round(4).tolist()
      [0.0189, 0.0872, 0.0872]
      >>> round(float(bounds.kl(0.5, 0.3)), 4)
      0.0872
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        odds = np.log(x) - np.log1p(-x) - np.log(y) + np.log1p(-y)  # the slope at x
        linear = _linear(x, y, epsilon)
    return np.where((odds <= epsilon) | (x <= y), kl(x, y), linear)


def _linear(x, y, epsilon):
    """epsilon x - ln(1 - y + y e^epsilon), without cancellation for small or large epsilon."""
    up, down = epsilon * (1.0 - y), -epsilon * y
    small = epsilon < 1.0
    # e^a - 1 - a for the two values a of epsilon (B - y): their linear terms sum to 0.
    rest = [np.where(small, a, 0.0) for a in (up, down)]
    rest = [
        np.where(np.abs(a) < 1e-3, a * a * (0.5 + a / 6.0 * (1.0 + a / 4.0)), np.expm1(a) - a)
        for a in rest
    ]
    near = epsilon * (x - y) - np.log1p(y * rest[0] + (1.0 - y) * rest[1])
    far = -epsilon * (1.0 - x) - np.log(y + (1.0 - y) * np.exp(-epsilon))
    return np.where(small, near, far)


def lai_robbins(horizon: Numbers, means: Numbers) -> np.ndarray:
    """sum Delta_a ln T / kl(mu_a, mu*): asymptotic lower bound, Lai & Robbins 1985.

    Examples:
      >>> means = [0.3, 0.5, 0.5, 0.5]
      >>> [round(float(bounds.lai_robbins(T, means)), 1) for T in (10**4, 10**8)]
      [63.4, 126.8]
    """
    mean, gap, best = suboptimal(means)
    return np.log(horizon) * np.sum(gap / kl(mean, best))


def shariff_sheffet(horizon: Numbers, arms: Numbers, epsilon: Numbers) -> np.ndarray:
    """(K - 1) ln T / (200 epsilon): asymptotic lower bound, Shariff & Sheffet 2018, Corollary 15.

    It is printed for rewards in {-1, 1}, whose regret is twice that of losses in [0, 1].

    Examples:
      >>> bounds.shariff_sheffet(10_000, 4, [0.01, 0.1, 1.0]).round(2).tolist()
      [13.82, 1.38, 0.14]
    """
    return (arms - 1.0) * np.log(horizon) / (200.0 * epsilon)


def shariff_sheffet_pulls(horizon: Numbers, means: Numbers, epsilon: Numbers) -> np.ndarray:
    """ln T / (200 epsilon Delta_a) for each suboptimal arm: asymptotic lower bound on its pulls.

    Shariff & Sheffet 2018, Claim 14: for rewards in {-1, 1} and large T, an epsilon-DP learner with
    a regret of at most T^(3/4) pulls arm a at least ln T / (100 epsilon gap_a) times with
    probability 1 / 2. The gap of these rewards is twice that of losses in [0, 1].

    Returns:
      (..., suboptimal arms), in the order of ``means``.

    Examples:
      >>> bounds.shariff_sheffet_pulls(10_000, [0.3, 0.5, 0.6], [0.01, 0.1]).round(2).tolist()
      [[23.03, 15.35], [2.3, 1.54]]
    """
    _, gap, _ = suboptimal(means)
    return np.log(horizon)[..., None] / (200.0 * epsilon[..., None] * gap)


def d_epsilon_pulls(horizon: Numbers, means: Numbers, epsilon: Numbers) -> np.ndarray:
    """ln T / d_epsilon(mu_a, mu*) for each suboptimal arm: asymptotic lower bound on mean pulls.

    Azize et al. 2025, whose bound on regret is :func:`d_epsilon`. It is at least
    ln T / (epsilon Delta_a), 200 times :func:`shariff_sheffet_pulls`.

    Returns:
      (..., suboptimal arms), in the order of ``means``.

    Examples:
      >>> bounds.d_epsilon_pulls(10_000, [0.3, 0.5, 0.6], [0.1, 1.0]).round(1).tolist()
      [[486.4, 318.3], [105.7, 50.0]]
    """
    mean, _, best = suboptimal(means)
    return np.log(horizon)[..., None] / d_epsilon_divergence(mean, best, epsilon[..., None])


def azize_basu_minimax(horizon: Numbers, arms: Numbers, epsilon: Numbers) -> np.ndarray:
    """max(sqrt(T (K - 1)) / 27, (K - 1) / (131 epsilon)): minimax lower bound.

    Azize & Basu 2022, Theorem 2, with the constants of the submitted version. It requires T to be
    at least K - 1 and at least 2 (K - 1) / (3 epsilon). For smaller T, K is set to at most T + 1,
    and the second term is 3 T / 262. This is our reading of the proof: its second term maximizes
    (T D / 8) e^(-6 epsilon D T / (K - 1)) over gaps D, which are at most 1/4 for means in [0, 1].

    Examples:
      >>> bounds.azize_basu_minimax(10_000, 4, [0.001, 0.1, 1.0]).round(2).tolist()
      [22.9, 6.42, 6.42]
    """
    plain = np.sqrt(horizon * np.minimum(arms - 1.0, horizon)) / 27.0
    return np.maximum(plain, np.minimum((arms - 1.0) / (131.0 * epsilon), 3.0 * horizon / 262.0))


def d_epsilon(horizon: Numbers, means: Numbers, epsilon: Numbers) -> np.ndarray:
    """sum Delta_a ln T / d_epsilon(mu_a, mu*): asymptotic lower bound, Azize et al. 2025.

    It is at least :func:`lai_robbins`, since d_epsilon is at most kl.

    Examples:
      >>> means = [0.3, 0.5, 0.5, 0.5]
      >>> bounds.d_epsilon(10_000, means, [0.1, 1.0]).round(1).tolist()
      [291.8, 63.4]
      >>> round(float(bounds.lai_robbins(10_000, means)), 1)
      63.4
    """
    mean, gap, best = suboptimal(means)
    information = d_epsilon_divergence(mean, best, epsilon[..., None])
    return np.log(horizon) * np.sum(gap / information, axis=-1)
