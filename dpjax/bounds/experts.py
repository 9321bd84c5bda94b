"""Bounds for private experts with i.i.d. losses, or with one lossless expert."""

import numpy as np

from dpjax.bounds._host import suboptimal
from dpjax.core import Numbers, Selector


def limited_updates(
    horizon: Numbers, arms: Numbers, epsilon: Numbers, *, selector: Selector = "exponential"
) -> np.ndarray:
    """1 + 3.42 sqrt(T ln K) + 4 (ln K + c) log2(T) / epsilon: i.i.d. losses, pseudo-regret.

    The constants are ours, for limited updates of Asi et al. 2023, Algorithm 2. 3.42 is
    sqrt(2) / (sqrt(2) - 1), rounded up. c is 1 - ln 2 for Laplace noise, and 0 otherwise.

    Examples:
      >>> bounds.limited_updates(10_000, 4, [0.1, 1.0, np.inf]).round(1).tolist()
      [1140.5, 477.4, 403.7]
      >>> round(float(bounds.limited_updates(10_000, 4, 0.1, selector="laplace")), 1)
      1303.6
    """
    log_arms = np.log(arms) + (1.0 - np.log(2.0) if selector == "laplace" else 0.0)
    noise = 4.0 * log_arms * np.log2(horizon) / epsilon
    return 1.0 + 3.42 * np.sqrt(horizon * np.log(arms)) + noise


def limited_updates_prefix(horizon: Numbers, means: Numbers, epsilon: Numbers) -> np.ndarray:
    """1 + 4 (A + B) for every T, at most T times the largest gap: i.i.d. losses, pseudo-regret.

    With eta = epsilon / 2 and the smallest positive gap D, of a random prefix with the exponential
    mechanism,

        A = (8 (1 + 1 / K) ln K + 5 / K) / D    if D < eta, and otherwise 0,
        B = ln K / ((1 - e^(-1/2)) eta)         if the largest gap is at least eta, otherwise 0.

    The bound is O(ln K / D + ln K / epsilon), the rate of Cesari & Colomboni 2026. The constants
    are ours: the proof is in the learner's docstring.

    Examples:
      >>> means = [0.3, 0.5, 0.5, 0.5]
      >>> bounds.limited_updates_prefix(10**6, means, [0.1, 0.3, 1.0, np.inf]).round().tolist()
      [283.0, 95.0, 303.0, 303.0]
    """
    horizon, epsilon = np.broadcast_arrays(horizon, epsilon)
    _, gaps, _ = suboptimal(means)
    if not len(gaps):
        return np.zeros(horizon.shape)
    arms, eta = len(means), 0.5 * epsilon
    sampling = (8.0 * (1.0 + 1.0 / arms) * np.log(arms) + 5.0 / arms) / gaps.min()
    private = np.log(arms) / (-np.expm1(-0.5) * eta)
    total = np.where(gaps.min() < eta, sampling, 0.0) + np.where(gaps.max() >= eta, private, 0.0)
    return np.minimum(1.0 + 4.0 * total, horizon * gaps.max())


def sparse_vector_experts(horizon: Numbers, arms: Numbers, epsilon: Numbers) -> np.ndarray:
    """2 (N + 1) (2 alpha + 4 M ln(4) / epsilon + 1) + 2: oblivious losses, one lossless expert.

    N = ln K / ln(8/5), alpha = (4 / epsilon) ln(2 T^2), and M is the learner's number of draws. The
    bound is O(ln K (ln K + ln T) / epsilon). Its proof is in the learner's docstring. Two events
    are added, each with probability 1 / T: noise above its bound, and draws that run out.

    Examples:
      >>> bounds.sparse_vector_experts([10**6, 10**8], 4, 1.0).round(1).tolist()
      [3639.5, 4659.5]
      >>> bounds.sparse_vector_experts(10**6, 4, [0.1, 10.0]).round(1).tolist()
      [36305.4, 372.9]
    """
    good = np.log(arms) / np.log(1.6)
    half = 0.5 * np.log(horizon)
    draws = np.ceil((np.sqrt(half) + np.sqrt(half + 2.0 * (good + 1.0))) ** 2)
    width = 4.0 / epsilon * np.log(2.0 * horizon**2)
    least = 4.0 * np.minimum(draws, horizon) * np.log(4.0) / epsilon
    interval = 2.0 * width + least + 1.0
    return np.minimum(2.0 * (good + 1.0) * interval + 2.0, horizon)
