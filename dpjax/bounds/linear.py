"""Bounds for linear bandits, with a fixed set of actions or features in each round."""

import numpy as np
import scipy

from dpjax.core import Model, Numbers, Read, _check
from dpjax.maths.designs import core_set_steps
from dpjax.maths.logistic import gradient_ball


def linear_elimination(
    horizon: Numbers, arms: int, dim: int, epsilon: Numbers, *, model: Model = "central"
) -> np.ndarray:
    """Worst-case regret of linear elimination by phases, with radius "exact" or "chernoff".

    It is 1 + sum_i (q^i + B d) min(1, 4 gamma_(i-1)), plus, for each later round, 4 gamma of the
    last phase that certainly fits into T. Here gamma is the radius "chernoff" of
    :func:`dpjax.learners.linear_elimination` with all arms active, and B d = min(K,
    d + core_set_steps(d)). Hanna et al. 2022, with our constants.

    Examples:
      >>> bounds.linear_elimination(10**8, 20, 5, [0.1, 1.0, np.inf]).round().tolist()
      [4261253.0, 3747241.0, 3684015.0]
      >>> bounds.linear_elimination(10**8, 20, 5, [1.0, np.inf], model="local").round().tolist()
      [8774172.0, 3684015.0]
    """
    horizon, epsilon = np.broadcast_arrays(horizon, epsilon)
    _check.one_of("central", "local", model=model)
    core = min(arms, dim + core_set_steps(int(dim)))
    log_horizon = np.log(np.maximum(horizon, 2.0))
    term = np.log(4.0 * arms) + 2.0 * np.log(horizon)
    regret, left, gap = np.ones(horizon.shape), horizon, np.ones(horizon.shape)
    fits = np.ones(horizon.shape, bool)
    for phase in range(1, int(np.max(log_horizon, initial=1.0)) + 1):
        length = np.exp(phase * (1.0 + np.log(2.0) / log_horizon))
        fits = fits & (length + core <= left)
        rounds = np.where(fits, length + core, 0.0)
        regret, left = regret + rounds * gap, left - rounds
        largest = 2.0 * dim / length
        count = 1.0 / largest if model == "local" else core
        tilt = np.sqrt(term / (term + count))
        noise = largest * (term - count * np.log1p(-(tilt**2))) / tilt / epsilon
        radius = np.sqrt(2.0 * largest * term) + noise
        gap = np.where(fits, np.minimum(1.0, 4.0 * radius), gap)
    return regret + left * gap


def linear_elimination_printed(horizon: Numbers, epsilon: Numbers) -> np.ndarray:
    """sqrt(T ln T) + ln^2 T / epsilon: Hanna et al. 2022 in Chari's survey, with constant 1.

    It is printed up to constants, including powers of the dimension.

    Examples:
      >>> bounds.linear_elimination_printed(10_000, [0.1, 1.0, np.inf]).round(1).tolist()
      [1151.8, 388.3, 303.5]
    """
    return np.sqrt(horizon * np.log(horizon)) + np.log(horizon) ** 2 / epsilon


def semi_bandit_ftrl(
    horizon: Numbers,
    dim: Numbers,
    ones: Numbers,
    epsilon: Numbers,
    *,
    read: Read = "one",
    model: Model = "local",
    paths: Numbers | None = None,
) -> np.ndarray:
    """5.66 sqrt(d k T V) on sets of k of d entries, 2.83 sqrt(d ln N T V) on N paths.

    V is that of :func:`dpjax.learners.semi_bandit_ftrl` for Laplace noise, and ``ones`` is k. In
    the central model with batches of tau rounds, T / tau replaces T and epsilon tau replaces
    epsilon, and regret is multiplied by tau. A batch cut short by the horizon adds at most k tau.
    The constants are ours. A step of rate eta costs at most 2 eta V sqrt(d k), or eta V d on paths.
    Skipped estimates cost the same again. The entropy adds 2 sqrt(d k) / eta, or ln N / eta.

    Examples:
      >>> bounds.semi_bandit_ftrl(6000, 9, 3, [1.0, 2.0, np.inf]).round().tolist()
      [6831.0, 4830.0, 3944.0]
      >>> bounds.semi_bandit_ftrl(6000, 9, 3, [0.1, 1.0], model="central").round().tolist()
      [21036.0, 6837.0]
    """
    _check.one_of("one", "all", read=read)
    _check.one_of("central", "local", model=model)
    change = np.where(read == "one", 1.0, ones)
    tau = 1.0
    if model == "central":
        tau = np.clip(np.ceil(np.sqrt(2.0) * change / epsilon), 1.0, horizon)
    second_moment = np.where(read == "one", ones, 1.0) * (1.0 + 2.0 * (change / epsilon / tau) ** 2)
    terms = 32.0 * ones if paths is None else 8.0 * np.log(paths)
    cut_short = np.where(tau > 1.0, tau * ones, 0.0)
    return np.sqrt(terms * dim * horizon * tau * second_moment) + cut_short


def azize_basu_linear(horizon: Numbers, dim: Numbers, epsilon: Numbers) -> np.ndarray:
    """max(e^-2, e^(-6 epsilon sqrt(T))) d sqrt(T) / 8: minimax lower bound, actions [-1, 1]^d.

    Azize & Basu 2022, Theorem 4, in units of rewards with Gaussian noise of variance 1. Privacy
    contributes at most a factor e^2, and nothing for epsilon >= 1 / (3 sqrt(T)).

    Examples:
      >>> bounds.azize_basu_linear(10_000, 5, [0.0, 0.001, 1.0]).round(2).tolist()
      [62.5, 34.3, 8.46]
    """
    factor = np.maximum(np.exp(-2.0), np.exp(-6.0 * epsilon * np.sqrt(horizon)))
    return factor * dim * np.sqrt(horizon) / 8.0


def _linucb_logs(horizon, dim, smallest, largest, feature_bound):
    """Upper bounds on ln det V - d ln rho_min, and on half the sum of the squared widths."""
    visits = horizon * feature_bound**2 / (dim * smallest)
    return dim * np.log(largest / smallest + visits), dim * np.log1p(visits)


def linucb(
    horizon: Numbers, dim: Numbers, smallest: Numbers, largest: Numbers, tilt: Numbers, *,
    gap: Numbers | None = None, mean_bound: Numbers = 1.0, parameter_bound: Numbers = 1.0,
    feature_bound: Numbers = 1.0, deviation: Numbers = 1.0, failure: Numbers | None = None,
) -> np.ndarray:  # fmt: skip
    """B sqrt(8 T) W, or 8 B W^2 / gap if the best arm of each round leads by that gap.

    W = sigma (2 ln(2 / alpha) + ln det) + (S sqrt(rho_max) + gamma) sqrt(widths), with

        ln det = d ln(rho_max / rho + T L^2 / (d rho)),    widths = d ln(1 + T L^2 / (d rho)),

    with rho = ``smallest``, rho_max = ``largest`` and gamma = ``tilt`` of a regularizer
    (:class:`dpjax.learners.parts.gram_calibration.Regularizer`), and B = ``mean_bound``. It holds
    with probability 1 - alpha, by default 1 - 1 / T. Shariff & Sheffet 2018, Theorems 5 and 6.
    Examples:
      >>> bounds.linucb(10**6, 5, 1.0, 1.0, tilt=[0.0, 10.0]).round().tolist()  # any gaps
      [276790.0, 497752.0]
      >>> bounds.linucb(10**6, 5, 1.0, 1.0, tilt=[0.0, 10.0], gap=0.5).round().tolist()
      [153225.0, 495514.0]
    """
    alpha = 1.0 / horizon if failure is None else failure
    growth, widths = _linucb_logs(horizon, dim, smallest, largest, feature_bound)
    bias = parameter_bound * np.sqrt(largest) + tilt
    w = deviation * (2.0 * np.log(2.0 / alpha) + growth) + bias * np.sqrt(widths)
    if gap is None:
        return mean_bound * np.sqrt(8.0 * horizon) * w
    return 8.0 * mean_bound * w**2 / gap


def federated_linucb(
    horizon: Numbers, dim: Numbers, users: Numbers, smallest: Numbers, largest: Numbers,
    tilt: Numbers, *, gap: Numbers | None = None, mean_bound: Numbers = 1.0,
    parameter_bound: Numbers = 1.0, feature_bound: Numbers = 1.0, deviation: Numbers = 1.0,
    failure: Numbers | None = None,
) -> np.ndarray:  # fmt: skip
    """sqrt(2) times :func:`linucb`, or 2 times with a gap, + 2 B n d log2(1 + T L^2 / (d rho)).

    n = ``users`` is the number of rounds of a batch, and the regularizer is that of the sum over
    silos. The policy of a batch uses the matrix at its start. If the determinant at most doubles
    within the batch, the widths are at most sqrt(2) times those of a policy renewed in every round.
    The determinant more than doubles in at most d log2(1 + T L^2 / (d rho)) batches. The constants
    are ours.

    Examples:
      >>> bounds.federated_linucb(10**6, 5, [1, 1000], 1.0, 1.0, tilt=0.0).round().tolist()
      [391616.0, 567536.0]
    """
    every_round = linucb(
        horizon, dim, smallest, largest, tilt, gap=gap, mean_bound=mean_bound,
        parameter_bound=parameter_bound, feature_bound=feature_bound, deviation=deviation,
        failure=failure,
    )  # fmt: skip
    _, widths = _linucb_logs(horizon, dim, smallest, largest, feature_bound)
    factor = np.sqrt(2.0) if gap is None else 2.0
    return factor * every_round + 2.0 * mean_bound * users * widths / np.log(2.0)


def _gradient_radius(length):
    """Half of the diameter of all logistic gradients at parameters of that length."""
    return np.asarray(gradient_ball(length)[1], np.float64)


def _of_steps(horizon, variance, m, n, bound):
    """The bound on the regret of SGD in batches of n, with ``variance`` / n of each estimate."""
    steps = np.ceil(horizon / n) - 1.0
    start = 0.5 * n * bound * (1.0 + np.log1p(4.0 * m * steps) / (4.0 * m))
    offset = 1.0 + 0.25 / m
    return start + np.sqrt(n * variance) / m * (np.sqrt(steps + offset) - np.sqrt(offset))


def glm_sgd(
    horizon: Numbers, dim: Numbers, epsilon: Numbers, strength: Numbers, *,
    parameter_bound: Numbers = 1.0,
) -> np.ndarray:  # fmt: skip
    """Expected regret of logistic SGD with strength m in the local model, one coin a user.

    The bound on :func:`dpjax.learners.glm_sgd` is

        (S / 2) (1 + ln(1 + 4 m J) / 4 m) + (R B / m) (sqrt(J + j_0) - sqrt(j_0)),
        B = sqrt(pi) Gamma((d + 1) / 2) / (Gamma(d / 2) tanh(epsilon / 2)), and 1 without privacy,

    for J = T - 1 and j_0 = 1 + 1 / 4 m. R is half of the diameter of the gradients at parameters of
    length S. The strength m must be at most kappa lambda / 2. Here kappa is mu'(S), and lambda is
    the smallest eigenvalue of E[x x'] over the features that any greedy policy plays.

    The derivation is ours. Let E be the mean squared distance from theta_j to theta*. By convexity
    a step of length s <= 4 reduces it to at most (1 - 2 s m) E + s^2 (R B)^2. So the root of E is
    at most S / (1 + 4 m j) + R B / (m sqrt(j + j_0)) after j steps. The regret of a round is at
    most half of this distance.

    Examples:
      >>> bounds.glm_sgd(10**6, 2, [1.0, 10.0, np.inf], strength=0.05).round().tolist()
      [37299.0, 17255.0, 10995.0]
    """
    horizon, dim, epsilon = np.broadcast_arrays(horizon, dim, epsilon)
    log_gamma = scipy.special.gammaln
    stretch = np.exp(0.5 * np.log(np.pi) + log_gamma(0.5 * (dim + 1.0)) - log_gamma(0.5 * dim))
    stretch = np.where(epsilon < np.inf, stretch / np.tanh(0.5 * epsilon), 1.0)
    radius = _gradient_radius(parameter_bound)
    return _of_steps(horizon, (radius * stretch) ** 2, strength, 1.0, parameter_bound)


def glm_sgd_batched(
    horizon: Numbers, dim: Numbers, inverse_mu: Numbers, strength: Numbers, *,
    batch: Numbers | None = None, parameter_bound: Numbers = 1.0,
) -> np.ndarray:  # fmt: skip
    """Expected regret of logistic SGD in batches of n rounds, in the joint or shuffle model.

    As in :func:`glm_sgd`, but with J = ceil(T / n) - 1 and w = R^2 (1 + 4 d sigma^2 / n) it is

        (n S / 2) (1 + ln(1 + 4 m J) / 4 m) + sqrt(n w) (sqrt(J + j_0) - sqrt(j_0)) / m.

    Gaussian noise of scale sigma = ``inverse_mu`` hides a change by 1. By default n = 4 sigma
    T^(1/4) sqrt(d R / S), at least 1, as in the learner. For n >= 4 d sigma^2 privacy at most
    doubles w.

    Examples:
      >>> sigma = [4.22, 0.54, 0.0]  # epsilon = 1, 10 and inf at delta = 1e-6
      >>> bounds.glm_sgd_batched(10**6, 2, sigma, strength=0.05).round().tolist()
      [20116.0, 12387.0, 10995.0]
    """
    radius = _gradient_radius(parameter_bound)
    if batch is None:
        batch = 4.0 * inverse_mu * horizon**0.25 * np.sqrt(dim * radius / parameter_bound)
    n = np.clip(np.floor(batch), 1.0, horizon)
    variance = radius**2 * (1.0 + 4.0 * dim * inverse_mu**2 / n)
    return _of_steps(horizon, variance, strength, n, parameter_bound)
