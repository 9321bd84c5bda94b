"""Bounds on the unit ball of R^N, for convex losses whose slope is at most 1.

Linear losses of length at most 1 are included. Regret is in expectation. Docstrings give the
derivation of bounds that are ours. In them c is the centre of the ball.
"""

import numpy as np

from dpjax.core import Numbers


def _tree_levels(horizon: Numbers) -> np.ndarray:
    """ceil(log2 T): the levels of a binary tree that releases the prefixes 0 .. T - 1."""
    return np.ceil(np.log2(horizon))


def _tree_noise(
    horizon: Numbers, dim: Numbers, change: Numbers, epsilon: Numbers
) -> tuple[np.ndarray, np.ndarray]:
    """(largest, mean) root mean square length of the Laplace noise of a tree's prefixes 0 .. T - 1.

    A node has scale h ``change`` / epsilon, with h the number of levels. Prefix t has as many nodes
    as t has one bits. For the mean, the squared lengths are averaged over all prefixes.
    """
    levels = _tree_levels(horizon)
    bits = np.zeros(horizon.shape)
    for bit in range(41):
        half = 2.0**bit
        whole, rest = np.divmod(horizon, 2.0 * half)
        bits = bits + whole * half + np.maximum(rest - half, 0.0)
    one_node = np.sqrt(2.0 * dim) * levels * change / epsilon
    return one_node * np.sqrt(levels), one_node * np.sqrt(bits / horizon)


def online_gradient(horizon: Numbers) -> np.ndarray:
    """1.5 D G sqrt(T) = 3 sqrt(T), without privacy: Hazan 2016, Theorem 3.1.

    Examples:
      >>> bounds.online_gradient([10_000, 40_000]).tolist()  # four times the rounds
      [300.0, 600.0]
    """
    return 3.0 * np.sqrt(horizon)


def ftpl_private(horizon: Numbers, dim: Numbers, inverse_mu: Numbers) -> np.ndarray:
    """s sqrt(N) + T / (s sqrt(2 pi)) for follow the perturbed leader, linear oblivious losses.

    s is the larger of sqrt(T) (2 pi N)^(-1/4), which the learner needs without privacy, and the
    noise of a prefix of the Gaussian tree with ``identical_law``, 2 ceil(log2 T) / mu for mu-GDP.
    Abernethy et al. 2014, in Agarwal & Singh 2017, Theorem 3.5.

    Examples:
      >>> bounds.ftpl_private(10_000, 4, inverse_mu=[0.0, 1.0, 10.0]).round(1).tolist()
      [178.6, 178.6, 574.2]
    """
    leader = np.sqrt(horizon) / (2.0 * np.pi * dim) ** 0.25
    levels = _tree_levels(horizon)
    # At T = 1 there is no release and therefore no noise.
    s = np.maximum(leader, 2.0 * levels * np.where(levels > 0.0, inverse_mu, 0.0))
    return s * np.sqrt(dim) + horizon / (s * np.sqrt(2.0 * np.pi))


def ftpl_rate(horizon: Numbers, dim: Numbers, epsilon: Numbers, delta: Numbers) -> np.ndarray:
    """N^(1/4) sqrt(T) + N ln(T)^1.5 ln(ln(T) / delta) / epsilon, with constant 1.

    Agarwal & Singh 2017, Theorem 3.5, which is printed up to constants.

    Examples:
      >>> bounds.ftpl_rate(10_000, 4, [0.1, 1.0, np.inf], 1e-8).round(1).tolist()
      [23219.8, 2449.3, 141.4]
    """
    log = np.log(horizon)
    private = dim * log**1.5 * np.log(np.maximum(log, 1.0) / delta) / epsilon
    return dim**0.25 * np.sqrt(horizon) + private


def private_ftal(horizon: Numbers, dim: Numbers, epsilon: Numbers) -> np.ndarray:
    """2 H T + ((1 + 2 H)^2 / 2 + z)(1 + ln T) / H for private FTAL with Laplace noise on the tree.

    The bound is ours, for linear losses and the H of :func:`dpjax.learners.private_ftal`. Let
    h_s(w) = <l_s, w> + (H / 2) |w - w_s|^2, and let v_s be the leader of h_1 .. h_(s-1) without
    noise. Then regret is at most the regret on h plus H D^2 T / 2. Playing the leader costs at most
    |grad h_s(v_s)|^2 / (2 s H) in round s, with a gradient of length at most 1 + D H, and w_s is
    within z / (H (s - 1)) of v_s. Here D = 2, and z is the largest length of a prefix's noise.

    Examples:
      >>> bounds.private_ftal(10_000, 4, [0.1, 1.0, np.inf]).round(1).tolist()
      [70933.4, 22452.8, 659.8]
    """
    largest, mean = _tree_noise(horizon, dim, 2.0 * np.sqrt(dim), epsilon)
    logs = 1.0 + np.log(horizon)
    convexity = np.sqrt((0.5 + mean) * logs / (2.0 * horizon))
    stability = 0.5 * (1.0 + 2.0 * convexity) ** 2 + largest
    return 2.0 * convexity * horizon + stability * logs / convexity


def private_giga(
    horizon: Numbers, dim: Numbers, inverse_mu: Numbers, drift: Numbers = 0.0
) -> np.ndarray:
    """a T / 2 + ((1 + a)^2 / (2 a) + sqrt(N) b)(1 + ln T) for private GIGA, linear losses.

    The bound is ours. a is the alpha of :func:`dpjax.learners.private_giga`. The noise of round
    t + 1 has standard deviation b / t with b = 2 sqrt(T - 1) / (mu a), times 1 + ``drift`` for
    rounding. On the losses plus (a / 2) |x - c|^2 the hidden points have the regret of gradient
    steps of length 1 / (a t), with gradients of length at most 1 + a. The noise moves the point of
    round t + 1 by at most sqrt(N) b / t.

    Examples:
      >>> bounds.private_giga(10_000, 4, inverse_mu=[0.0, 1.0, 10.0]).round(1).tolist()
      [329.9, 9058.1, 28606.1]
    """
    logs = 1.0 + np.log(horizon)
    infinite = np.isinf(inverse_mu) & (horizon > 1.0)
    size = 2.0 * np.sqrt(horizon - 1.0) * np.where(np.isinf(inverse_mu), 0.0, inverse_mu)
    alpha = np.sqrt(2.0 * (0.5 + np.sqrt(dim) * size) * logs / horizon)
    steps = 0.5 * (1.0 + alpha) ** 2 + np.sqrt(dim) * size * (1.0 + drift)
    return np.where(infinite, np.inf, 0.5 * alpha * horizon + steps * logs / alpha)


def flaxman_printed(horizon: Numbers, dim: Numbers) -> np.ndarray:
    """2 T^(3/4) sqrt(3 R n C (L + C / r)), C = 2: Flaxman et al. 2005, Theorem 2, as recalled.

    Examples:
      >>> bounds.flaxman_printed([10_000, 160_000], 4).round(1).tolist()  # 16 times the rounds
      [16970.6, 135764.5]
    """
    return 2.0 * horizon**0.75 * np.sqrt(18.0 * dim)


def _estimates(horizon, dim):
    """(zeta, M) of the one-point learners: sampling radius, and largest length of an estimate.

    The loss range is [-2, 2], for losses that are 0 somewhere on the ball.
    """
    zeta = np.minimum(np.sqrt(2.0 * dim / 9.0) / horizon**0.25, 0.5)
    return zeta, 2.0 * dim / zeta


def one_point_gradient(horizon: Numbers, dim: Numbers) -> np.ndarray:
    """M sqrt(T) + 3 zeta T with M = 2 N / zeta, for :func:`dpjax.learners.one_point_gradient`.

    The bound is ours. Gradient steps of length 1 / (M sqrt(T)) on the smoothed losses give the
    first term. Smoothing costs 2 zeta in a round, and the shrunk ball has a point within zeta of
    the best point.

    Examples:
      >>> bounds.one_point_gradient([10_000, 160_000], 4).round(1).tolist()  # 16 times the rounds
      [11313.7, 90509.7]
    """
    zeta, longest = _estimates(horizon, dim)
    return longest * np.sqrt(horizon) + 3.0 * zeta * horizon


def private_one_point(horizon: Numbers, dim: Numbers, epsilon: Numbers) -> np.ndarray:
    """:func:`one_point_gradient`, plus T min(2, z / (M sqrt(T))) for Laplace noise on the tree.

    The bound is ours. With steps of length 1 / (M sqrt(T)) the noise of a prefix, of length at most
    z, moves the base by at most z / (M sqrt(T)), and losses have slope 1.

    Examples:
      >>> bounds.private_one_point(10**8, 4, [1.0, 10.0, np.inf]).round().tolist()
      [27186402.0, 12900978.0, 11313708.0]
    """
    _, longest = _estimates(horizon, dim)
    noise, _ = _tree_noise(horizon, dim, 2.0 * np.sqrt(dim) * longest, epsilon)
    moved = np.minimum(2.0, noise / (longest * np.sqrt(horizon)))
    return one_point_gradient(horizon, dim) + horizon * moved


def two_point_gradient(horizon: Numbers, dim: Numbers, epsilon: Numbers) -> np.ndarray:
    """sqrt(T (S + 2 z)) + 3 zeta T with S = N^2 / max(N - 1, 1), Laplace noise on the tree.

    The bound is ours, for :func:`dpjax.learners.two_point_gradient` with R = r = G = 1. z is the
    root mean square length of a prefix's noise for a change by 2 N in L2, and zeta = 1 / T, at
    least 1 / 2000 and at most 1 / 2.

    Examples:
      >>> bounds.two_point_gradient(10_000, 4, [0.1, 1.0, np.inf]).round(1).tolist()
      [17963.1, 5694.9, 245.9]
      >>> round(float(bounds.one_point_gradient(10_000, 4)), 1)  # from one loss a round
      11313.7
    """
    _, mean = _tree_noise(horizon, dim, 2.0 * dim**1.5, epsilon)
    square = dim**2 / np.maximum(dim - 1.0, 1.0)
    zeta = np.minimum(1.0 / np.minimum(horizon, 2000.0), 0.5)
    return np.sqrt(horizon * (square + 2.0 * mean)) + 3.0 * zeta * horizon


def projection_free(horizon: Numbers, dim: Numbers, epsilon: Numbers) -> np.ndarray:
    """PRIVATEBANDIT with Laplace noise, calibrated to a single change, in m batches of b rounds.

    The bound is ours:

        1 / (2 eta) + eta m kappa^2 / 2 + m b min(2, eta (kappa + z) + 4 / sqrt(b + 2)) + 2 zeta T

    with eta and zeta of :func:`dpjax.learners.projection_free`, kappa^2 = b M^2 + b^2 the bound on
    the mean squared length of a batch's estimate, M = N (2 + zeta) / zeta, and z the largest length
    of a prefix's noise. The first two terms are the regret of follow the regularized leader on the
    sums of the estimates. A batch's base differs from that leader for three reasons: eta times the
    noise, one batch that it does not include, and the error that remains after b conditional
    gradient steps (Jaggi 2013). Smoothing costs 2 zeta in a round.

    Examples:
      >>> bounds.projection_free(10**8, 4, [1.0, 10.0, np.inf]).round().tolist()
      [27482518.0, 17903797.0, 16839494.0]
    """
    batch = np.floor(np.sqrt(horizon))
    batches = np.ceil(horizon / batch)
    zeta = 2.0 * np.sqrt(dim) / horizon**0.25
    longest = dim * (2.0 + zeta) / zeta
    kappa = np.sqrt(batch * longest**2 + batch**2)
    eta = 2.0 / (kappa * np.sqrt(batches))
    prefixes = np.maximum(batches - 1.0, 2.0)
    noise, _ = _tree_noise(prefixes, dim, 2.0 * np.sqrt(dim) * longest, epsilon)
    away = np.minimum(2.0, eta * (kappa + noise) + 4.0 / np.sqrt(batch + 2.0))
    leader = 0.5 / eta + 0.5 * eta * batches * kappa**2
    return leader + batches * batch * away + 2.0 * zeta * horizon


def projection_free_rate(horizon: Numbers, dim: Numbers, epsilon: Numbers) -> np.ndarray:
    """D T^(3/4) (sqrt(n) + n^1.5 ln(T)^2 / epsilon) with constant 1: Ene et al. 2021, Lemma 8.

    It is printed up to constants, for the printed Laplace noise.

    Examples:
      >>> horizon = [10_000, 160_000]  # 16 times the rounds
      >>> bounds.projection_free_rate(horizon, 4, np.inf).round().tolist()
      [4000.0, 32000.0]
      >>> bounds.projection_free_rate(horizon, 4, 1.0).round().tolist()
      [1361286.0, 18411595.0]
    """
    private = dim**1.5 * np.log(horizon) ** 2 / epsilon
    return 2.0 * horizon**0.75 * (np.sqrt(dim) + private)
