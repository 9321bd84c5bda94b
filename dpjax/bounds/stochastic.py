"""Upper bounds on pseudo-regret over stochastic arms.

``means`` (K,) are mean losses. Sums run over the suboptimal arms.
"""

import numpy as np

from dpjax.bounds._host import suboptimal
from dpjax.core import Compare, Numbers


def successive_elimination(
    horizon: Numbers, means: Numbers, epsilon: Numbers, failure: Numbers | None = None
) -> np.ndarray:
    """sum Delta_a min(T, sum_{e <= max(1, ceil(log2(1 / Delta_a)))} ceil(R_e)), + beta T: DP-SE.

    An arm with Delta_a >= 2^-e is eliminated by the end of epoch e. So an arm with a gap of 1 is in
    one epoch. R_e is the length of epoch e with all K arms active
    (:func:`dpjax.learners.successive_elimination`). With probability 1 - beta no arm is pulled more
    often (Sajed & Sheffet 2019 with our constants). Otherwise regret is at most T. ``failure`` is
    beta, by default 1 / T.

    Examples:
      >>> means = [0.3, 0.5, 0.5, 0.5]
      >>> bounds.successive_elimination(10**6, means, [0.01, 0.1, np.inf]).round(1).tolist()
      [122575.0, 31265.8, 31000.0]
    """
    horizon, epsilon = np.broadcast_arrays(horizon, epsilon)
    _, gaps, _ = suboptimal(means)
    arms = len(means)
    beta = 1.0 / horizon if failure is None else failure

    def length(epoch):
        inverse = arms * epoch**2 / beta
        size = 2.0**-epoch
        sampling = 32.0 * np.log(8.0 * inverse) / size**2
        privacy = 8.0 * np.log(4.0 * inverse) / (epsilon * size)
        return np.maximum(sampling, privacy) + 1.0

    return beta * horizon + _eliminated(horizon, gaps, length)


def _eliminated(horizon, gaps, length) -> np.ndarray:
    """The regret of each arm in the epochs that it can survive, for epochs of length(epoch)."""
    total = np.zeros(horizon.shape)
    for gap in gaps:
        pulls = np.zeros(horizon.shape)
        for epoch in range(1, max(int(np.ceil(-np.log2(gap))), 1) + 1):
            if np.all(pulls >= horizon):
                break
            pulls = pulls + np.ceil(length(epoch))
        total = total + gap * np.minimum(pulls, horizon)
    return total


def dueling_elimination(
    horizon: Numbers,
    means: Numbers,
    epsilon: Numbers,
    failure: Numbers | None = None,
    compare: Compare = "scores",
) -> np.ndarray:
    """sum (Delta_i / 2) min(T, N_i) + beta T max Delta: elimination by counts of lost duels.

    It bounds the regret "condorcet" of :func:`dpjax.environments.dueling` with the linear link of
    ``means``, so Delta_i = (means_i - min means) / 2. An arm pays half of its gap in each of its
    duels. With probability 1 - beta it has at most N_i = sum_e (K - 1) (m_e + 1) duels, for e up to
    max(1, ceil(log2(1 / (2 Delta_i)))). Here m_e is the number of duels of a pair in phase e of
    :func:`dpjax.learners.dueling_elimination` if all K arms are active. With fewer active arms an
    arm has fewer duels (ours). ``failure`` is beta, by default 1 / T.

    Examples:
      >>> means = [0.1, 0.5, 0.7, 0.9]
      >>> bounds.dueling_elimination(10**6, means, [0.01, 0.1, np.inf]).round().tolist()
      [32740.0, 4983.0, 1071.0]
    """
    horizon, epsilon = np.broadcast_arrays(horizon, epsilon)
    _, gaps, _ = suboptimal(means)
    arms = len(means)
    beta = 1.0 / horizon if failure is None else failure
    scale = (1.0 if compare == "pairs" else 2.0) / epsilon

    def length(epoch):
        x, width = np.log(5.0 * arms * epoch**2 / beta), 2.0**-epoch / 4.0
        if compare == "scores":
            width = width / 2.0 * arms / (arms - 1)
        rounds = x * ((np.sqrt(0.5) + np.sqrt(0.5 + 4.0 * scale * width)) / (2.0 * width)) ** 2
        return (rounds if compare == "scores" else (arms - 1) * rounds) + arms - 1

    failed = 0.5 * beta * horizon * np.max(gaps, initial=0.0)
    return failed + 0.25 * _eliminated(horizon, gaps, length)


def adap_ucb(
    horizon: Numbers, means: Numbers, epsilon: Numbers, exploration: float = 3.1
) -> np.ndarray:
    """sum (16 alpha ln T / min(Delta_a, epsilon) + alpha / (alpha - 3)), alpha > 3: AdaP-UCB.

    Azize & Basu 2022.

    Examples:
      >>> means = [0.3, 0.5, 0.5, 0.5]
      >>> bounds.adap_ucb(10_000, means, [0.01, 0.1, np.inf]).round(1).tolist()
      [137142.9, 13798.0, 6945.5]
    """
    _, gaps, _ = suboptimal(means)
    smaller = np.minimum(gaps, epsilon[..., None])
    leading = 16.0 * exploration * np.log(horizon)[..., None] / smaller
    wrong = exploration / (exploration - 3.0) if exploration > 3.0 else np.inf
    return np.sum(leading + wrong, axis=-1)


def ucb1(horizon: Numbers, means: Numbers) -> np.ndarray:
    """8 sum ln T / Delta_a + (1 + pi^2 / 3) sum Delta_a: Auer et al. 2002, Theorem 1.

    Examples:
      >>> means = [0.3, 0.5, 0.5, 0.5]
      >>> [round(float(bounds.ucb1(T, means)), 1) for T in (10**4, 10**8)]
      [1107.8, 2213.1]
    """
    _, gaps, _ = suboptimal(means)
    return 8.0 * np.log(horizon) * np.sum(1.0 / gaps) + (1.0 + np.pi**2 / 3.0) * np.sum(gaps)


def lazy_ucb(
    horizon: Numbers, means: Numbers, epsilon: Numbers, exploration: Numbers = 3.0
) -> np.ndarray:
    """sum Delta_a (4 O_a + 1), O_a the smallest O with 2 r(O) < Delta_a: Anytime-Lazy-UCB.

    r(O) = sqrt(alpha log2(T) / O) + alpha log2(T) / (epsilon O) is the confidence radius of a mean
    of O losses. The constants are ours, for alpha = 3. An arm whose mean is over O_a losses is not
    played again unless a radius fails. Before that it has at most 4 O_a pulls, since O doubles. The
    expected cost of all failures is below one pull of each arm.

    Examples:
      >>> means = [0.3, 0.5, 0.5, 0.5]
      >>> bounds.lazy_ucb(10_000, means, [0.1, 1.0, np.inf]).round(1).tolist()
      [25049.4, 11403.0, 9569.4]
    """
    horizon, epsilon = np.broadcast_arrays(horizon, epsilon)
    _, gaps, _ = suboptimal(means)
    level = exploration * np.log2(horizon)
    total = np.zeros(horizon.shape)
    for gap in gaps:
        # x = 1 / sqrt(O) solves (level / epsilon) x^2 + sqrt(level) x = gap / 2.
        root = np.sqrt(level + 2.0 * gap * level / epsilon)
        needed = ((np.sqrt(level) + root) / gap) ** 2
        total = total + gap * (4.0 * np.ceil(needed) + 1.0)
    return total


def explore_then_commit_error(gap: Numbers, rounds: Numbers, epsilon: Numbers) -> np.ndarray:
    """e^(-m gap^2 / 4) + (2 + y) e^-y / 4, y = epsilon m gap / 2, at most 1: error with two arms.

    It is for m rounds of each arm and Laplace noise of scale 1 / epsilon on their sums. If the
    worse arm wins, the difference of the sums or that of the draws deviates from its mean by at
    least m gap / 2. Hoeffding's inequality bounds the former, and the tail of the latter is exact.
    The derivation is our own.

    Examples:
      >>> bounds.explore_then_commit_error(0.2, [100, 400], 1.0).round(4).tolist()
      [0.368, 0.0183]
      >>> bounds.explore_then_commit_error(0.2, 400, [0.1, np.inf]).round(4).tolist()
      [0.0458, 0.0183]
    """
    # Beyond 1000 the second term is 0. Without a gap any y gives 1, but inf * 0 would be nan.
    y = np.minimum(0.5 * np.minimum(epsilon, 1e100) * rounds * gap, 1e3)
    return np.minimum(np.exp(-0.25 * rounds * gap**2) + 0.25 * (2.0 + y) * np.exp(-y), 1.0)


def explore_then_commit(
    horizon: Numbers, means: Numbers, epsilon: Numbers, rounds: Numbers
) -> np.ndarray:
    """sum Delta_a (m + (T - K m) P_a): Explore-then-commit with m ``rounds`` of each arm.

    P_a is :func:`explore_then_commit_error` at the gap of arm a. The learner rounds m down, and
    cuts it to T / K if it is larger.

    Examples:
      >>> means = [0.3, 0.5, 0.5, 0.5]
      >>> bounds.explore_then_commit(10_000, means, 1.0, rounds=[100, 400, 1600]).round(1).tolist()
      [2179.8, 332.3, 960.0]
    """
    _, gaps, _ = suboptimal(means)
    most = np.maximum(np.floor(horizon / len(means)), 1.0)
    rounds = np.minimum(np.floor(rounds), most)
    wrong = explore_then_commit_error(gaps, rounds[..., None], epsilon[..., None])
    left = horizon - len(means) * rounds
    return np.sum(gaps * (rounds[..., None] + np.maximum(left, 0.0)[..., None] * wrong), axis=-1)
