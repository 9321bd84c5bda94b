"""Bounds on pseudo-regret over stochastic arms.

``means`` (K,) are mean losses. Sums run over the arms that are not the best.
"""

import numpy as np
from scipy.special import rel_entr

from dpjax.analysis.bounds.host import float64
from dpjax.maths.clipped_means import epoch_plan


def _gaps(means):
    """(means, gaps) of the suboptimal arms, and the mean of the best arm."""
    means = np.asarray(means, np.float64)
    if means.ndim != 1 or len(means) < 2 or not np.all((means >= 0.0) & (means <= 1.0)):
        raise ValueError("means must be at least two mean losses in [0, 1], of shape (K,)")
    best = means.min()
    suboptimal = means[means > best]
    return suboptimal, suboptimal - best, best


def kl(x, y):
    """kl of Bernoulli laws of means x and y."""
    x, y = float64(x, y)
    return rel_entr(x, y) + rel_entr(1.0 - x, 1.0 - y)


def d_epsilon_divergence(x, y, epsilon):
    """inf over z between x and y of epsilon |z - x| + kl(z, y), for x >= y, in closed form.

    It is kl(x, y) where the slope of kl(., y) at x is at most epsilon, and else
    epsilon x - ln(1 - y + y e^epsilon). Azize et al. 2025, from a secondary text.
    """
    x, y, epsilon = float64(x, y, epsilon)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        odds = np.log(x) - np.log1p(-x) - np.log(y) + np.log1p(-y)  # the slope at x
        linear = epsilon * x - np.logaddexp(np.log1p(-y), np.log(y) + epsilon)
    return np.where((odds <= epsilon) | (x <= y), kl(x, y), linear)


def lai_robbins(horizon, means):
    """sum Delta_a ln T / kl(mu_a, mu*): asymptotic lower bound, Lai & Robbins 1985."""
    (horizon,) = float64(horizon)
    mean, gap, best = _gaps(means)
    return np.log(horizon) * np.sum(gap / kl(mean, best))


def lai_robbins_local(horizon, means, epsilon):
    """sum Delta_a ln T / kl(q(mu_a), q(mu*)), q(m) = p + (1 - 2 p) m: local asymptotic lower bound.

    Here p = 1 / (1 + e^epsilon). Every local randomizer of one bit is randomized response with flip
    probability p, followed by a function of its result (Kairouz, Oh & Viswanath 2016). So no
    learner in the local model sees more of Bernoulli losses than losses of the means q. The
    derivation is ours. Near means of 1/2 it is ((e^epsilon + 1) / (e^epsilon - 1))^2 times
    :func:`lai_robbins`.
    """
    horizon, epsilon = float64(horizon, epsilon)
    mean, gap, best = _gaps(means)
    kept = np.tanh(0.5 * epsilon)[..., None]  # 1 - 2 p
    information = kl(0.5 + kept * (mean - 0.5), 0.5 + kept * (best - 0.5))
    return np.log(horizon) * np.sum(gap / information, axis=-1)


def shariff_sheffet(horizon, arms, epsilon):
    """(K - 1) ln T / (200 epsilon): asymptotic lower bound, Shariff & Sheffet 2018, Corollary 15.

    It is printed for rewards in {-1, 1}, whose regret is twice that of losses in [0, 1].
    """
    horizon, arms, epsilon = float64(horizon, arms, epsilon)
    return (arms - 1.0) * np.log(horizon) / (200.0 * epsilon)


def shariff_sheffet_pulls(horizon, means, epsilon):
    """ln T / (200 epsilon Delta_a) for each suboptimal arm: asymptotic lower bound on its pulls.

    Shariff & Sheffet 2018, Claim 14: for rewards in {-1, 1} an epsilon-DP learner with a regret of
    at most T^(3/4) pulls arm a at least ln T / (100 epsilon gap_a) times with probability 1 / 2,
    for T large enough. The gap of these rewards is twice that of losses in [0, 1].

    Returns:
      (..., arms that are not the best), in the order of ``means``.
    """
    horizon, epsilon = float64(horizon, epsilon)
    _, gap, _ = _gaps(means)
    return np.log(horizon)[..., None] / (200.0 * epsilon[..., None] * gap)


def d_epsilon_pulls(horizon, means, epsilon):
    """ln T / d_epsilon(mu_a, mu*) for each suboptimal arm: asymptotic lower bound on mean pulls.

    Azize et al. 2025, whose bound on regret is :func:`d_epsilon`. It is at least
    ln T / (epsilon Delta_a), 200 times :func:`shariff_sheffet_pulls`.

    Returns:
      (..., arms that are not the best), in the order of ``means``.
    """
    horizon, epsilon = float64(horizon, epsilon)
    mean, _, best = _gaps(means)
    return np.log(horizon)[..., None] / d_epsilon_divergence(mean, best, epsilon[..., None])


def azize_basu(horizon, means, epsilon):
    """sum Delta_a ln T / min(kl(mu_a, mu*), 6 epsilon Delta_a): asymptotic lower bound.

    Azize & Basu 2022, Theorem 3, for Bernoulli losses.
    """
    horizon, epsilon = float64(horizon, epsilon)
    mean, gap, best = _gaps(means)
    information = np.minimum(kl(mean, best), 6.0 * epsilon[..., None] * gap)
    return np.log(horizon) * np.sum(gap / information, axis=-1)


def azize_basu_minimax(horizon, arms, epsilon):
    """max(sqrt(T (K - 1)) / 27, (K - 1) / (131 epsilon)): minimax lower bound.

    Azize & Basu 2022, Theorem 2, with the constants of the submission.
    """
    horizon, arms, epsilon = float64(horizon, arms, epsilon)
    return np.maximum(np.sqrt(horizon * (arms - 1.0)) / 27.0, (arms - 1.0) / (131.0 * epsilon))


def d_epsilon(horizon, means, epsilon):
    """sum Delta_a ln T / d_epsilon(mu_a, mu*): asymptotic lower bound, Azize et al. 2025.

    It is at least :func:`azize_basu` and :func:`lai_robbins`, since d_epsilon is at most kl and at
    most epsilon Delta.
    """
    horizon, epsilon = float64(horizon, epsilon)
    mean, gap, best = _gaps(means)
    information = d_epsilon_divergence(mean, best, epsilon[..., None])
    return np.log(horizon) * np.sum(gap / information, axis=-1)


def successive_elimination(horizon, means, epsilon, failure=None):
    """sum Delta_a min(T, sum_{e <= ceil(log2(1 / Delta_a))} ceil(R_e)), + beta T: DP-SE.

    R_e is the length of epoch e with all K arms active
    (:func:`dpjax.learners.successive_elimination`). With probability 1 - beta no arm is pulled
    more often (Sajed & Sheffet 2019 with our constants). Otherwise regret is at most T. ``failure``
    is beta, by default 1 / T.
    """
    horizon, epsilon = np.broadcast_arrays(*float64(horizon, epsilon))
    _, gaps, _ = _gaps(means)
    arms = len(np.asarray(means))
    beta = np.asarray(1.0 / horizon if failure is None else failure, np.float64)
    total = beta * horizon
    for gap in gaps:
        pulls = np.zeros(horizon.shape)
        for epoch in range(1, int(np.ceil(np.log2(1.0 / gap))) + 1):
            inverse = arms * epoch**2 / beta
            size = 2.0**-epoch
            sampling = 32.0 * np.log(8.0 * inverse) / size**2
            privacy = 8.0 * np.log(4.0 * inverse) / (epsilon * size)
            pulls = pulls + np.ceil(np.maximum(sampling, privacy) + 1.0)
        total = total + gap * np.minimum(pulls, horizon)
    return total


def robust_elimination(
    horizon,
    means,
    epsilon,
    *,
    moment=1.0,
    order=2.0,
    largest_gap=1.0,
    model="central",
    failure=None,
):
    """sum Delta_a min(T, sum_{e <= ceil(log2(largest_gap / Delta_a))} ceil(R_e))
    + beta T largest_gap.

    R_e is the length of epoch e of :func:`dpjax.learners.robust_elimination` with all K arms
    active, and the arguments are that learner's. With probability 1 - beta no arm is pulled more
    often (ours). ``failure`` is beta, by default 1 / T.
    """
    horizon, epsilon = np.broadcast_arrays(*float64(horizon, epsilon))
    _, gaps, _ = _gaps(means)
    arms = len(np.asarray(means))
    beta = np.asarray(1.0 / horizon if failure is None else failure, np.float64)
    total = beta * horizon * largest_gap
    for gap in gaps:
        pulls = np.zeros(horizon.shape)
        for epoch in range(1, max(int(np.ceil(np.log2(largest_gap / gap))), 1) + 1):
            length = np.vectorize(
                lambda b, e, epoch=epoch: epoch_plan(
                    epoch, arms, b, largest_gap, moment, order, e, model
                )[1]
            )
            pulls = pulls + np.ceil(length(beta, epsilon))
        total = total + gap * np.minimum(pulls, horizon)
    return total


def adap_ucb(horizon, means, epsilon, exploration=3.1):
    """sum (16 alpha ln T / min(Delta_a, epsilon) + alpha / (alpha - 3)), alpha > 3: AdaP-UCB.

    Azize & Basu 2022.
    """
    horizon, epsilon = float64(horizon, epsilon)
    _, gaps, _ = _gaps(means)
    smaller = np.minimum(gaps, epsilon[..., None])
    leading = 16.0 * exploration * np.log(horizon) * np.sum(1.0 / smaller, axis=-1)
    return leading + len(gaps) * exploration / (exploration - 3.0)


def adac_ucb(horizon, means, rho, exploration=3.1):
    """sum (max(16 beta ln T / Delta_a, 8 sqrt(2 beta ln T / rho)) + beta / (beta - 3)), beta > 3.

    This is for AdaC-UCB, with our own constants. Let n be the number of losses in the mean of an
    arm, and w the width of its bound. While no mean is off by more than its w, an arm begins an
    episode only if Delta_a <= 2 w. So n < max(4 beta ln T / Delta_a^2, sqrt(8 beta ln T / rho) /
    Delta_a), and the arm has at most 4 n pulls after the episode. At round t a mean is off with
    probability at most t^-beta for each n = 1, 2, 4, ..., and a wrong episode then has at most t
    rounds. All of them together cost at most beta / (beta - 3).
    """
    horizon, rho = float64(horizon, rho)
    _, gaps, _ = _gaps(means)
    level = exploration * np.log(horizon)[..., None]
    leading = np.maximum(16.0 * level / gaps, 8.0 * np.sqrt(2.0 * level / rho[..., None]))
    return np.sum(leading, axis=-1) + len(gaps) * exploration / (exploration - 3.0)


def ucb1(horizon, means):
    """8 sum ln T / Delta_a + (1 + pi^2 / 3) sum Delta_a: Auer et al. 2002, Theorem 1."""
    (horizon,) = float64(horizon)
    _, gaps, _ = _gaps(means)
    return 8.0 * np.log(horizon) * np.sum(1.0 / gaps) + (1.0 + np.pi**2 / 3.0) * np.sum(gaps)


def lazy_ucb(horizon, means, epsilon, exploration=3.0):
    """sum Delta_a (4 O_a + 1), with O_a the least O for which 2 r(O) < Delta_a: Anytime-Lazy-UCB.

    r(O) = sqrt(alpha log2(T) / O) + alpha log2(T) / (epsilon O) is the confidence radius of a mean
    of O losses. The constants are ours, for alpha = 3. An arm with such a mean is played no more
    unless a radius fails. Until then it has at most 4 O_a pulls, since O doubles. All failures of
    radii together are expected to cost less than one pull of each arm.
    """
    horizon, epsilon = np.broadcast_arrays(*float64(horizon, epsilon))
    _, gaps, _ = _gaps(means)
    level = exploration * np.log2(horizon)
    total = np.zeros(horizon.shape)
    for gap in gaps:
        # x = 1 / sqrt(O) solves (level / epsilon) x^2 + sqrt(level) x = gap / 2.
        root = np.sqrt(level + 2.0 * gap * level / epsilon)
        needed = ((np.sqrt(level) + root) / gap) ** 2
        total = total + gap * (4.0 * np.ceil(needed) + 1.0)
    return total


def explore_then_commit_error(gap, rounds, epsilon):
    """e^(-m gap^2 / 4) + (2 + y) e^-y / 4, y = epsilon m gap / 2, at most 1: the wrong one of two.

    It is for m rounds of each arm and Laplace noise of scale 1 / epsilon on their sums. If the
    worse arm wins, either the losses favour it by m gap / 2 (Hoeffding), or the difference of the
    two draws does, whose tail is exact. It is our own derivation.
    """
    gap, rounds, epsilon = float64(gap, rounds, epsilon)
    y = np.minimum(0.5 * epsilon * rounds * gap, 1e3)
    return np.minimum(np.exp(-0.25 * rounds * gap**2) + 0.25 * (2.0 + y) * np.exp(-y), 1.0)


def explore_then_commit(horizon, means, epsilon, rounds):
    """sum Delta_a (m + (T - K m) P_a): Explore-then-commit with m ``rounds`` of each arm.

    P_a is :func:`explore_then_commit_error` at the gap of arm a. Where T < K m, regret is at most
    T times the largest gap.
    """
    horizon, epsilon, rounds = float64(horizon, epsilon, rounds)
    _, gaps, _ = _gaps(means)
    wrong = explore_then_commit_error(gaps, rounds[..., None], epsilon[..., None])
    left = horizon - len(np.asarray(means)) * rounds
    total = np.sum(gaps * (rounds[..., None] + np.maximum(left, 0.0)[..., None] * wrong), axis=-1)
    return np.where(left < 0.0, horizon * np.max(gaps, initial=0.0), total)
