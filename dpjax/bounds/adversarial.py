"""Bounds against adversaries, for experts and online linear optimization."""

from typing import Literal

import numpy as np
import scipy

from dpjax.bounds._host import Shape
from dpjax.core import Numbers, _check


def ftrl(horizon: Numbers, dim: Numbers, epsilon: Numbers, *, domain: Shape) -> np.ndarray:
    """FTRL on the Laplace tree with ``identical_law``: "simplex", "ball" or "cube".

    This is the theorem of Agarwal & Singh 2017 with our constants, for replacement of a round.
    Losses have norm at most 1: the largest entry on the simplex, the length on the ball, the sum of
    absolute values on the cube. With N = ``dim`` and D = ceil(log2 T), nodes have scale
    2 N D / epsilon, 2 sqrt(N) D / epsilon and 2 D / epsilon respectively. The bounds are

        simplex   sqrt(2 T ln N) + (8 N D^1.5 sqrt(ln N) + 4 N D ln N) / epsilon
        ball      sqrt(T) + 4 sqrt(2) N D^1.5 / epsilon
        cube      sqrt(N T) + 4 sqrt(2) N D^1.5 / epsilon

    The first term is 2 sqrt(D_R S T) by strong convexity. The second bounds
    E[max <Z, x> - min <Z, x>]. The notation is that of :func:`dpjax.learners.ftrl`.

    Examples:
      >>> bounds.ftrl(10_000, 4, [0.1, 1.0, np.inf], domain="ball").round(1).tolist()
      [11953.0, 1285.3, 100.0]
      >>> bounds.ftrl(1e8, 4, [0.1, 1.0, np.inf], domain="ball").round(1).tolist()
      [41745.4, 13174.5, 10000.0]
    """
    _check.one_of("simplex", "ball", "cube", domain=domain)
    nodes = np.ceil(np.log2(horizon))
    log_dim = np.log(dim)
    if domain == "simplex":
        noise = 8.0 * dim * nodes**1.5 * np.sqrt(log_dim) + 4.0 * dim * nodes * log_dim
        return np.sqrt(2.0 * horizon * log_dim) + noise / epsilon
    plain = np.sqrt(horizon if domain == "ball" else dim * horizon)
    return plain + 4.0 * np.sqrt(2.0) * dim * nodes**1.5 / epsilon


def ftrl_printed(horizon: Numbers, dim: Numbers, epsilon: Numbers, *, domain: Shape) -> np.ndarray:
    """:func:`ftrl` with sqrt(D_R S' T) as its first term: Agarwal & Singh 2017, Theorem 3.4.

    S' is the largest squared dual norm of a loss in the local norm of R. So the first term is
    sqrt(T ln N), sqrt(T / 2) or sqrt(N T / 2), below that of :func:`ftrl` by a factor of sqrt(2).
    The noise term is that of :func:`ftrl`.

    Examples:
      >>> bounds.ftrl_printed(10_000, 4, [1.0, np.inf], domain="cube").round(1).tolist()
      [1326.7, 141.4]
      >>> bounds.ftrl(10_000, 4, [1.0, np.inf], domain="cube").round(1).tolist()
      [1385.3, 200.0]
    """
    whole, plain = (ftrl(horizon, dim, budget, domain=domain) for budget in (epsilon, np.inf))
    return whole - plain + plain / np.sqrt(2.0)


def ftrl_local_rate(
    horizon: Numbers, dim: Numbers, epsilon: Numbers, *, domain: Shape
) -> np.ndarray:
    """The rate eta of FTRL on :func:`dpjax.mechanisms.per_item` with Laplace noise.

    It is sqrt(D_R / (T m)) for a second moment m of a message that includes the noise. The domain
    is "simplex", "ball" or "cube", and losses are those of :func:`ftrl`.

    Examples:
      >>> bounds.ftrl_local_rate(10_000, 4, [0.1, 1.0, np.inf], domain="simplex").round(5).tolist()
      [0.00013, 0.00127, 0.01665]
    """
    _check.one_of("simplex", "ball", "cube", domain=domain)
    if domain == "simplex":
        scale = 2.0 * dim / epsilon
        rate = np.sqrt(np.log(dim) / (horizon * (0.5 + 4.0 * scale**2 / 3.0)))
        with np.errstate(divide="ignore"):
            return np.minimum(rate, 0.5 / scale)
    scale, width = (2.0 * np.sqrt(dim), 1.0) if domain == "ball" else (2.0, dim)
    return np.sqrt(4.0 * width / (horizon * (1.0 + 2.0 * dim * (scale / epsilon) ** 2)))


def hedge(horizon: Numbers, arms: Numbers, rate: Numbers) -> np.ndarray:
    """ln K / eta + eta T / 8, losses in [0, 1]: Cesa-Bianchi & Lugosi 2006, Theorem 2.2.

    Examples:
      >>> best = np.sqrt(8 * np.log(4) / 10_000)  # the rate that minimizes it
      >>> bounds.hedge(10_000, 4, [best / 4, best, 4 * best]).round(1).tolist()
      [176.9, 83.3, 176.9]
    """
    return np.log(arms) / rate + rate * horizon / 8.0


def shrinking_dartboard(
    horizon: Numbers,
    arms: Numbers,
    rate: Numbers,
    restart: Numbers,
    batch: Numbers = 1,
) -> np.ndarray:
    """eta T + B ln K / eta + 2 T exp(-n p / 3) for eta <= p, otherwise nan.

    n is floor(T / B). Asi, Feldman, Koren & Talwar 2023, Theorems 2 and 5, for oblivious losses in
    [0, 1] in batches of B rounds. Without a budget of switches, as at epsilon = inf, the last term
    does not apply.

    Examples:
      >>> bounds.shrinking_dartboard(10_000, 4, 0.01, restart=[0.005, 0.01, 0.02]).round(1).tolist()
      [nan, 238.6, 238.6]
    """
    steps = np.floor(horizon / batch)
    ran_out = 2.0 * horizon * np.exp(-steps * restart / 3.0)
    value = rate * horizon + batch * np.log(arms) / rate + ran_out
    return np.where(rate <= restart, value, np.nan)


def shrinking_dartboard_batched(horizon: Numbers, arms: Numbers, epsilon: Numbers) -> np.ndarray:
    """(4 ln K + 1/2) sqrt(T / epsilon) + 2 T exp(-sqrt(epsilon T) / 12): pure epsilon, batches.

    It is :func:`shrinking_dartboard` at p = eta = 1 / (2 sqrt(epsilon T)) and B = 2 / epsilon, up
    to rounding. To first order in eta, these values are epsilon-DP. If epsilon is above 2 there are
    no batches, and the bound is infinite. The constants are ours.

    Examples:
      >>> bounds.shrinking_dartboard_batched(10**6, 4, [0.1, 1.0]).round(1).tolist()
      [19116.5, 6045.2]
      >>> bounds.shrinking_dartboard_pure(10**6, 4, [0.1, 1.0]).round(1).tolist()
      [78452.2, 8020.2]
    """
    ran_out = 2.0 * horizon * np.exp(-np.sqrt(epsilon * horizon) / 12.0)
    value = (4.0 * np.log(arms) + 0.5) * np.sqrt(horizon / epsilon) + ran_out
    return np.where(epsilon <= 2.0, value, np.inf)


def probing_experts(
    horizon: Numbers,
    arms: Numbers,
    experts: Numbers,
    rate: Numbers,
    restart: Numbers,
    batch: Numbers,
    mixing: Numbers,
) -> np.ndarray:
    """B ln N / eta + eta T (1 + K / (gamma B)) / 2 + gamma T + T exp(M - m - M ln(M / m)).

    It is against the best of N experts who advise on K arms, for oblivious losses in [0, 1]. The
    first three terms are those of Hedge on means of B estimates y with E[y^2] <= 1 + K / (gamma B),
    and the cost of probes. The last one bounds the cost if the draws run out. In
    n = floor(T / B) batches the learner has at most M = floor(4 n p) draws. In each batch a coin
    calls for a draw with probability at most p + eta, so their mean number is at most
    m = n (p + eta). The last term is 0 if M is no restriction, and T if m > M. The proof and its
    constants are ours.

    Examples:
      >>> bounds.probing_experts(2**18, 4, 16, 0.022, 1 / 64, [96, 192], 1 / 16).round(1).tolist()
      [33288.5, 44452.8]
    """
    steps, begun = np.floor(horizon / batch), np.ceil(horizon / batch)
    mean = np.maximum(steps, 1.0) * (restart + rate)
    budget = np.clip(np.floor(4.0 * steps * restart), 1.0, begun)
    above = np.maximum(budget / mean, 1.0)
    ran_out = np.exp(mean * (above - 1.0 - above * np.log(above)))
    moment = 1.0 + arms / (mixing * batch)
    lost = 0.5 * rate * moment + mixing + np.where(budget >= begun, 0.0, ran_out)
    return batch * np.log(experts) / rate + horizon * lost


def shrinking_dartboard_pure(horizon: Numbers, arms: Numbers, epsilon: Numbers) -> np.ndarray:
    """:func:`shrinking_dartboard` at an eta that pure epsilon always allows.

    With p_0 = 1 / sqrt(8 T) this eta is min(sqrt(ln K / T), p_0, epsilon p_0 / (2 + p_0)), since
    ln(1 + eta / p_0) + 8 T p_0 ln(1 / (1 - eta)) <= eta sqrt(8 T) (2 + eta). The learner's eta is
    at least this one and at most sqrt(ln K / T), and the bound decreases in eta up to the latter.
    The learner's p is at least p_0.

    Examples:
      >>> bounds.shrinking_dartboard_pure(10**6, 4, [0.1, 1.0, np.inf]).round(1).tolist()
      [78452.2, 8020.2, 2354.8]
    """
    plain, restart = np.sqrt(np.log(arms) / horizon), 1.0 / np.sqrt(8.0 * horizon)
    allowed = np.minimum(restart, restart * epsilon / (2.0 + restart))
    private = shrinking_dartboard(horizon, arms, np.minimum(plain, allowed), restart)
    return np.where(np.isinf(epsilon), 2.0 * np.sqrt(horizon * np.log(arms)), private)


def random_losses(
    horizon: Numbers, size: Numbers, *, domain: Shape | Literal["arms"]
) -> np.ndarray:
    """Minimax lower bound from random losses, for any learner with or without privacy.

    Losses have a random sign in each round, so all actions have the same mean loss. With K or
    d = ``size``, regret to the best action in hindsight is

        arms, simplex  T/2 - E[min_i B_i], losses that are fair coins, B_i ~ Bin(T, 1/2)
        cube           d E|S_n|, n = floor(T / d), random signs of one coordinate in each round
        ball           sqrt(T), a unit vector orthogonal to the sum before, or E|S_T| for d = 1

    in expectation, for a random walk S_n. On the ball it is the minimax regret if d is at least 3
    (Abernethy et al. 2008). Losses are those of :func:`ftrl`, and any feedback is allowed.

    Examples:
      >>> [round(float(bounds.random_losses(10_000, 4, domain=d)), 1)
      ...  for d in ("arms", "cube", "ball")]
      [51.5, 159.6, 100.0]
      >>> round(float(bounds.hedge(10_000, 4, np.sqrt(8 * np.log(4) / 10_000))), 1)
      83.3
    """
    _check.one_of("arms", "simplex", "ball", "cube", domain=domain)

    def one(rounds, size):
        if domain == "ball" and size > 1.0:
            return np.sqrt(rounds)
        if domain in ("ball", "cube"):
            steps = rounds // size
            rest = max(steps - 1.0, 0.0)
            return size * steps * scipy.stats.binom.pmf(rest // 2, rest, 0.5)
        far = np.floor(20.0 * np.sqrt(rounds))  # 40 standard deviations
        counts = np.arange(max(rounds // 2 - far, 0.0), min(rounds // 2 + far, rounds))
        least = counts[0] + np.sum(scipy.stats.binom.sf(counts, rounds, 0.5) ** size)
        return rounds / 2.0 - least

    return np.vectorize(one, otypes=[np.float64])(horizon, size)
