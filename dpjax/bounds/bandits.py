"""Bounds against adversaries with bandit feedback, on arms and on convex sets."""

import math
from typing import Literal

import numpy as np

from dpjax.bounds._host import Shape
from dpjax.core import Numbers, _check


def exp3(horizon: Numbers, arms: Numbers) -> np.ndarray:
    """2 sqrt(e - 1) sqrt(T K ln K): Auer et al. 2002, Corollary 3.2.

    Examples:
      >>> bounds.exp3([10_000, 40_000], 4).round(1).tolist()  # four times the rounds
      [617.4, 1234.7]
    """
    return 2.0 * np.sqrt((math.e - 1.0) * horizon * arms * np.log(arms))


def dp_exp3_lap(horizon: Numbers, arms: Numbers, epsilon: Numbers) -> np.ndarray:
    """(2b + 1) 2 sqrt((e - 1) T K ln K) + 2 T K e^(-b epsilon) + sqrt(32 T) / epsilon.

    b = ln T / epsilon, so the middle term is 2K. It is the theorem of Tossou & Dimitrakakis 2017
    with the full length 2b + 1 of the interval that is scaled to [0, 1].

    Examples:
      >>> bounds.dp_exp3_lap(10_000, 4, [0.1, 1.0, np.inf]).round(1).tolist()
      [120003.2, 12563.1, 625.4]
      >>> round(float(bounds.exp3(10_000, 4)), 1)
      617.4
    """
    width = 2.0 * np.log(horizon) / epsilon + 1.0
    return width * exp3(horizon, arms) + 2.0 * arms + np.sqrt(32.0 * horizon) / epsilon


def dp_exp3_lap_printed(horizon: Numbers, arms: Numbers, epsilon: Numbers) -> np.ndarray:
    """(4 ln T / epsilon) sqrt((e - 1) T K ln K) + 2K + sqrt(32 T) / epsilon.

    The corollary of Tossou & Dimitrakakis 2017, as reconstructed. It has 2b instead of 2b + 1,
    which understates the regret if epsilon is large.

    Examples:
      >>> epsilon = np.array([0.1, 1.0, 10.0])
      >>> printed = bounds.dp_exp3_lap_printed(10_000, 4, epsilon)
      >>> (printed / bounds.dp_exp3_lap(10_000, 4, epsilon)).round(2).tolist()
      [0.99, 0.95, 0.66]
    """
    width = 2.0 * np.log(horizon) / epsilon
    return width * exp3(horizon, arms) + 2.0 * arms + np.sqrt(32.0 * horizon) / epsilon


def exp3_minibatch(horizon: Numbers, arms: Numbers, tau: Numbers, memory: Numbers) -> np.ndarray:
    """sqrt(7 T tau K ln K) + T m / tau + tau, against memory m < tau; nan for m >= tau.

    It bounds policy regret: Arora, Dekel & Tewari 2012 for EXP3, and the theorem of Tossou &
    Dimitrakakis 2017, as reconstructed.

    Examples:
      >>> bounds.exp3_minibatch(10**6, 4, tau=[1, 20, 400], memory=1).round(1).tolist()
      [nan, 77882.6, 127505.4]
    """
    value = np.sqrt(7.0 * horizon * tau * arms * np.log(arms)) + horizon * memory / tau + tau
    return np.where(np.less(memory, tau), value, np.nan)


def switching_cost_lower(horizon: Numbers, arms: Numbers) -> np.ndarray:
    """K^(1/3) T^(2/3) / (50 log2 T): lower bound for any learner, Dekel et al. 2014.

    At T = 1 the logarithm is set to 1. If there are more than T + 1 arms, K is set to T + 1.

    Examples:
      >>> bounds.switching_cost_lower([10**6, 8 * 10**6], 4).round(2).tolist()  # 8 times the rounds
      [15.93, 55.38]
    """
    arms = np.minimum(arms, horizon + 1.0)
    logs = np.log2(np.maximum(horizon, 2.0))
    return np.cbrt(arms) * np.cbrt(horizon) ** 2 / (50.0 * logs)


def exp2(horizon: Numbers, arms: Numbers, epsilon: Numbers) -> np.ndarray:
    """sqrt(T K ln K (3 + 8 / epsilon^2 + 8 ln T / epsilon)) + 1, losses in [0, 1].

    Agarwal & Singh 2017, Theorem 4.1, with corrected parameters, our constants and noise of scale
    1 / epsilon. For losses in [-1, 1] and noise of scale 2 / epsilon the bound is twice as large.

    Examples:
      >>> bounds.exp2(10_000, 4, [0.1, 1.0, np.inf]).round(1).tolist()
      [9241.5, 2168.0, 408.9]
    """
    return exp4(horizon, arms, arms, epsilon)


def exp4(horizon: Numbers, arms: Numbers, experts: Numbers, epsilon: Numbers) -> np.ndarray:
    """sqrt(T K ln N (3 + 8 / epsilon^2 + 8 ln T / epsilon)) + 1, against the best of N experts.

    Losses are in [0, 1] and the noise has scale 1 / epsilon. The proof is that of :func:`exp2` with
    an estimated loss for each expert; see :func:`dpjax.learners.exp4`. The constants are ours.

    Examples:
      >>> bounds.exp4(2**18, 4, 16, [0.1, 1.0, np.inf]).round(-1).tolist()
      [72360.0, 17950.0, 2950.0]
    """
    noise = 8.0 / epsilon**2 + 8.0 * np.log(horizon) / epsilon
    return np.sqrt(horizon * arms * np.log(experts) * (3.0 + noise)) + 1.0


def exp2_rate(horizon: Numbers, arms: Numbers, epsilon: Numbers) -> np.ndarray:
    """sqrt(N T ln T ln N) / epsilon: Agarwal & Singh 2017, Theorem 4.1, with constant 1.

    It is printed up to constants, for epsilon <= 1. Table 2 omits the logarithm of T.

    Examples:
      >>> bounds.exp2_rate(10_000, 4, [0.1, 1.0]).round(1).tolist()
      [7146.5, 714.7]
    """
    return np.sqrt(arms * horizon * np.log(horizon) * np.log(arms)) / epsilon


def scrible(
    horizon: Numbers,
    dim: Numbers,
    epsilon: Numbers,
    *,
    domain: Shape,
    noise: Literal["scalar", "vector"] = "scalar",
) -> np.ndarray:
    """2 n sqrt(2 nu T ln T (M^2 + s^2)) + 2M: "simplex", "ball" or "cube", with their own losses.

    Losses are in [0, 1] on the simplex, have length at most 1 on the ball, and absolute values with
    sum at most 1 on the cube. So half the width of the range of <l, x> is M = 1/2, 1 and 1. The
    noise has variance s^2 = 8 M^2 / epsilon^2 ("scalar"), or at most 8 |X|_2^2 |Y|_1^2 / epsilon^2
    ("vector"). Agarwal & Singh 2017, Theorem 4.5, with the constants of its proof. It holds for
    rates with eta n |f| <= 1/4, which is true if T is at least a few hundred.

    Examples:
      >>> bounds.scrible(10**6, 4, [1.0, np.inf], domain="ball").round(1).tolist()
      [126158.5, 42054.2]
      >>> bounds.scrible(10**6, 4, [1.0, np.inf], domain="ball", noise="vector").round(1).tolist()
      [241573.3, 42054.2]
    """
    _check.one_of("simplex", "ball", "cube", domain=domain)
    _check.one_of("scalar", "vector", noise=noise)
    # n, nu, M, |X|_2, |Y|_1
    n, parameter, bound, farthest, norm = {
        "simplex": (dim - 1.0, dim, 0.5, 1.0, dim),
        "ball": (dim, 1.0, 1.0, 1.0, np.sqrt(dim)),
        "cube": (dim, dim, 1.0, np.sqrt(dim), 1.0),
    }[domain]
    size = bound if noise == "scalar" else farthest * norm
    return _with_barrier(horizon, n, parameter, bound, 8.0 * size**2 / epsilon**2)


def scrible_polytope(
    horizon: Numbers, dim: Numbers, epsilon: Numbers, *, rows: Numbers, bound: Numbers
) -> np.ndarray:
    """2 n sqrt(2 m T ln T (M^2 + 8 M^2 / epsilon^2)) + 2M on a polytope with m facets in R^n.

    Agarwal & Singh 2017, Theorem 4.5, with the constants of its proof, scalar noise and the
    logarithmic barrier, whose parameter is m. It holds for rates with eta n |f| <= 1/4.

    Args:
      horizon: T.
      dim: n, of the affine hull of the polytope.
      epsilon: privacy parameter.
      rows: m.
      bound: M, half the width of the range of <l, x>.

    Examples:
      >>> round(float(bounds.scrible_polytope(10_000, 3, 1.0, rows=4, bound=0.5)), 1)
      7726.5
      >>> round(float(bounds.scrible(10_000, 4, 1.0, domain="simplex")), 1)  # a simplex of 4 facets
      7726.5
    """
    return _with_barrier(horizon, dim, rows, bound, 8.0 * bound**2 / epsilon**2)


def _with_barrier(horizon, dim, parameter, bound, variance):
    moment = bound**2 + variance
    return 2.0 * dim * np.sqrt(2.0 * parameter * horizon * np.log(horizon) * moment) + 2.0 * bound


def before_bandits(
    horizon: Numbers, epsilon: Numbers, *, arms: Numbers | None = None
) -> np.ndarray:
    """N T^(2/3) / epsilon over arms, T^(2/3) / epsilon over convex sets, with constant 1.

    Table 2 of Agarwal & Singh 2017 lists it as the best previous regret (Smith & Thakurta 2013).

    Examples:
      >>> horizon = 10.0 ** np.array([4, 6, 8])
      >>> before = bounds.before_bandits(horizon, 0.1, arms=4)
      >>> (bounds.exp2_rate(horizon, 4, 0.1) / before).round(2).tolist()
      [0.38, 0.22, 0.12]
    """
    return (1.0 if arms is None else arms) * np.cbrt(horizon) ** 2 / epsilon


def tsallis_inf(horizon: Numbers, arms: Numbers) -> np.ndarray:
    """4 sqrt(K T) + 1: Zimmert & Seldin 2021, Theorem 1; losses in [0, 1].

    Examples:
      >>> bounds.tsallis_inf(10_000, [4, 64]).round(1).tolist()
      [801.0, 3201.0]
      >>> bounds.exp3(10_000, [4, 64]).round(1).tolist()
      [617.4, 4277.2]
    """
    return 4.0 * np.sqrt(arms * horizon) + 1.0


def batched_bandit(
    horizon: Numbers, arms: Numbers, epsilon: Numbers, *, base: Literal["htinf", "exp2"] = "htinf"
) -> np.ndarray:
    """tau R(T / tau) + tau, tau = ceil(1 / epsilon): Asi, Raman & Talwar 2025.

    R bounds the regret of the base on losses with noise of scale lambda = 1 / (epsilon tau). For
    HTINF it is 30 sigma sqrt(K (T / tau + 1)) with sigma^2 = 1 + 2 lambda^2 (Huang, Dai & Huang
    2022, constant as recalled). For EXP2 it is :func:`exp2` at 1 / lambda.

    Examples:
      >>> bounds.batched_bandit(10**6, 4, [0.1, 1.0, np.inf]).round(1).tolist()
      [328645.2, 103924.1, 60001.0]
      >>> bounds.batched_bandit(10**6, 4, [0.1, 1.0, np.inf], base="exp2").round(1).tolist()
      [75632.6, 25961.1, 4080.7]
    """
    _check.one_of("htinf", "exp2", base=base)
    tau = np.clip(np.ceil(1.0 / epsilon), 1.0, horizon)
    batches = np.floor(horizon / tau)
    if base == "exp2":
        return tau * exp2(batches, arms, epsilon * tau) + tau
    sigma = np.sqrt(1.0 + 2.0 / (epsilon * tau) ** 2)
    return tau * 30.0 * sigma * np.sqrt(arms * (batches + 1.0)) + tau
