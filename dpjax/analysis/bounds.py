"""The papers' bounds on regret as curves, to draw beside what was measured.

NumPy on the host, in float64 whatever comes in. Arguments broadcast; regret is in units of one
round's loss.
"""

import numpy as np
from scipy.special import rel_entr

from dpjax.maths.designs import core_set_steps


def _float64(*values):
    return [np.asarray(value, np.float64) for value in values]


def exp3(horizon, arms):
    """2 sqrt(e - 1) sqrt(T K ln K): Auer et al. 2002, Corollary 3.2."""
    horizon, arms = _float64(horizon, arms)
    return 2.0 * np.sqrt((np.e - 1.0) * horizon * arms * np.log(arms))


def dp_exp3_lap(horizon, arms, epsilon):
    """(2b + 1) 2 sqrt((e - 1) T K ln K) + 2 T K e^(-b epsilon) + sqrt(32 T) / epsilon.

    b = ln T / epsilon, so the middle term is 2K. The theorem of Tossou & Dimitrakakis 2017 with
    the full length 2b + 1 of the interval that is scaled to [0, 1].
    """
    horizon, arms, epsilon = _float64(horizon, arms, epsilon)
    width = 2.0 * np.log(horizon) / epsilon + 1.0
    return width * exp3(horizon, arms) + 2.0 * arms + np.sqrt(32.0 * horizon) / epsilon


def dp_exp3_lap_printed(horizon, arms, epsilon):
    """(4 ln T / epsilon) sqrt((e - 1) T K ln K) + 2K + sqrt(32 T) / epsilon.

    The corollary of Tossou & Dimitrakakis 2017, as reconstructed: 2b stands for 2b + 1, which
    understates the regret where epsilon is large.
    """
    horizon, arms, epsilon = _float64(horizon, arms, epsilon)
    width = 2.0 * np.log(horizon) / epsilon
    return width * exp3(horizon, arms) + 2.0 * arms + np.sqrt(32.0 * horizon) / epsilon


def exp3_minibatch(horizon, arms, tau, memory):
    """sqrt(7 T tau K ln K) + T m / tau + tau, against memory m < tau; nan where m >= tau.

    Policy regret. Arora, Dekel & Tewari 2012 for EXP3; theorem of Tossou & Dimitrakakis 2017, as
    reconstructed.
    """
    horizon, arms, tau, memory = _float64(horizon, arms, tau, memory)
    value = np.sqrt(7.0 * horizon * tau * arms * np.log(arms)) + horizon * memory / tau + tau
    return np.where(np.less(memory, tau), value, np.nan)


def switching_cost_lower(horizon, arms):
    """K^(1/3) T^(2/3) / (50 log2 T): Dekel, Ding, Koren & Peres 2014, any learner."""
    horizon, arms = _float64(horizon, arms)
    return np.cbrt(arms) * np.cbrt(horizon) ** 2 / (50.0 * np.log2(horizon))


def ftrl(horizon, dim, epsilon, *, domain):
    """FTRL on the Laplace tree with ``identical_law``: "simplex", "ball" or "cube".

    The theorem of Agarwal & Singh 2017 for their losses (of norm at most 1: largest entry, length,
    sum of absolute values) and replaced rounds, with our constants. With N = ``dim``,
    D = ceil(log2 T) and nodes of scale 2 N D / epsilon, 2 sqrt(N) D / epsilon, 2 D / epsilon:

        simplex   sqrt(2 T ln N) + (8 N D^1.5 sqrt(ln N) + 4 N D ln N) / epsilon
        ball      sqrt(T) + 4 sqrt(2) N D^1.5 / epsilon
        cube      sqrt(N T) + 4 sqrt(2) N D^1.5 / epsilon

    The first term is 2 sqrt(D_R S T) by strong convexity, the second bounds E[max <Z, x> -
    min <Z, x>].
    """
    horizon, dim, epsilon = _float64(horizon, dim, epsilon)
    nodes = np.ceil(np.log2(horizon))
    log_dim = np.log(dim)
    if domain == "simplex":
        noise = 8.0 * dim * nodes**1.5 * np.sqrt(log_dim) + 4.0 * dim * nodes * log_dim
        return np.sqrt(2.0 * horizon * log_dim) + noise / epsilon
    if domain not in ("ball", "cube"):
        raise ValueError(f"domain must be simplex, ball or cube, got {domain!r}")
    plain = np.sqrt(horizon if domain == "ball" else dim * horizon)
    return plain + 4.0 * np.sqrt(2.0) * dim * nodes**1.5 / epsilon


def before_ftrl(horizon, dim, epsilon, *, domain):
    """sqrt(T ln N) / epsilon on the simplex, sqrt(N T) / epsilon on ball and cube.

    What Agarwal & Singh 2017 print as the best regret known before (Table 1), up to logarithms and
    with constant 1: Dwork et al. 2014; Smith & Thakurta 2013.
    """
    horizon, dim, epsilon = _float64(horizon, dim, epsilon)
    if domain not in ("simplex", "ball", "cube"):
        raise ValueError(f"domain must be simplex, ball or cube, got {domain!r}")
    return np.sqrt(horizon * (np.log(dim) if domain == "simplex" else dim)) / epsilon


def ftpl(horizon, dim):
    """1.263 N^(1/4) sqrt(T): follow the perturbed leader on a ball, as long as privacy is free.

    (8 / pi)^(1/4) N^(1/4) |X|_2 |Y|_2 sqrt(T) with unit norms: Abernethy et al. 2014, in Agarwal &
    Singh 2017, Theorem 3.5.
    """
    horizon, dim = _float64(horizon, dim)
    return (8.0 / np.pi * dim) ** 0.25 * np.sqrt(horizon)


def hedge(horizon, arms, rate):
    """ln K / eta + eta T / 8, losses in [0, 1]: Cesa-Bianchi & Lugosi 2006, Theorem 2.2."""
    horizon, arms, rate = _float64(horizon, arms, rate)
    return np.log(arms) / rate + rate * horizon / 8.0


def shrinking_dartboard(horizon, arms, rate, restart):
    """eta T + ln K / eta + 2 T exp(-T p / 3) for eta <= p, nan elsewhere.

    Asi, Feldman, Koren & Talwar 2023, as recalled; oblivious losses in [0, 1]. Without a budget
    of switches, as at epsilon = inf, the last term drops.
    """
    horizon, arms, rate, restart = _float64(horizon, arms, rate, restart)
    ran_out = 2.0 * horizon * np.exp(-horizon * restart / 3.0)
    value = rate * horizon + np.log(arms) / rate + ran_out
    return np.where(rate <= restart, value, np.nan)


def limited_updates(horizon, arms, epsilon):
    """1 + 3.42 sqrt(T ln K) + 4 ln K log2(T) / epsilon: i.i.d. losses, pseudo-regret.

    Our constants, for limited updates by the exponential mechanism (Asi et al. 2023, Algorithm 2);
    3.42 is sqrt(2) / (sqrt(2) - 1), rounded up.
    """
    horizon, arms, epsilon = _float64(horizon, arms, epsilon)
    noise = 4.0 * np.log(arms) * np.log2(horizon) / epsilon
    return 1.0 + 3.42 * np.sqrt(horizon * np.log(arms)) + noise


# Stochastic arms. ``means`` (K,) are mean losses; sums run over the arms that are not the best.


def _gaps(means):
    """Means, gaps and the smallest mean of the suboptimal arms, or of arms as good as the best."""
    means = np.asarray(means, np.float64)
    if means.ndim != 1 or len(means) < 2 or not np.all((means >= 0.0) & (means <= 1.0)):
        raise ValueError("means must be at least two mean losses in [0, 1], of shape (K,)")
    best = means.min()
    suboptimal = means[means > best]
    return suboptimal, suboptimal - best, best


def kl(x, y):
    """kl of Bernoulli laws of means x and y."""
    x, y = _float64(x, y)
    return rel_entr(x, y) + rel_entr(1.0 - x, 1.0 - y)


def d_epsilon_divergence(x, y, epsilon):
    """inf over z between x and y of epsilon |z - x| + kl(z, y), for x >= y: in closed form.

    kl(x, y) where the slope of kl(., y) at x is at most epsilon, else
    epsilon x - ln(1 - y + y e^epsilon). Azize et al. 2025, from a secondary text.
    """
    x, y, epsilon = _float64(x, y, epsilon)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        odds = np.log(x) - np.log1p(-x) - np.log(y) + np.log1p(-y)  # the slope at x
        linear = epsilon * x - np.logaddexp(np.log1p(-y), np.log(y) + epsilon)
    return np.where((odds <= epsilon) | (x <= y), kl(x, y), linear)


def lai_robbins(horizon, means):
    """sum Delta_a ln T / kl(mu_a, mu*): asymptotic lower bound, Lai & Robbins 1985."""
    (horizon,) = _float64(horizon)
    mean, gap, best = _gaps(means)
    return np.log(horizon) * np.sum(gap / kl(mean, best))


def shariff_sheffet(horizon, arms, epsilon):
    """(K - 1) ln T / (200 epsilon): asymptotic lower bound, Shariff & Sheffet 2018, Corollary 15.

    Printed for rewards in {-1, 1}, whose regret counts double in units of losses in [0, 1].
    """
    horizon, arms, epsilon = _float64(horizon, arms, epsilon)
    return (arms - 1.0) * np.log(horizon) / (200.0 * epsilon)


def azize_basu(horizon, means, epsilon):
    """sum Delta_a ln T / min(kl(mu_a, mu*), 6 epsilon Delta_a): asymptotic lower bound.

    Azize & Basu 2022, Theorem 3, for Bernoulli losses.
    """
    horizon, epsilon = _float64(horizon, epsilon)
    mean, gap, best = _gaps(means)
    information = np.minimum(kl(mean, best), 6.0 * epsilon[..., None] * gap)
    return np.log(horizon) * np.sum(gap / information, axis=-1)


def azize_basu_minimax(horizon, arms, epsilon):
    """max(sqrt(T (K - 1)) / 27, (K - 1) / (131 epsilon)): minimax lower bound.

    Azize & Basu 2022, Theorem 2, with the constants of the submission.
    """
    horizon, arms, epsilon = _float64(horizon, arms, epsilon)
    return np.maximum(np.sqrt(horizon * (arms - 1.0)) / 27.0, (arms - 1.0) / (131.0 * epsilon))


def d_epsilon(horizon, means, epsilon):
    """sum Delta_a ln T / d_epsilon(mu_a, mu*): asymptotic lower bound, Azize et al. 2025.

    At least :func:`azize_basu` and :func:`lai_robbins`, for d_epsilon is at most kl and
    epsilon Delta.
    """
    horizon, epsilon = _float64(horizon, epsilon)
    mean, gap, best = _gaps(means)
    information = d_epsilon_divergence(mean, best, epsilon[..., None])
    return np.log(horizon) * np.sum(gap / information, axis=-1)


def successive_elimination(horizon, means, epsilon, failure=None):
    """sum Delta_a min(T, sum_{e <= ceil(log2(1 / Delta_a))} ceil(R_e)), + beta T: DP-SE.

    R_e is the length of epoch e with all K arms active
    (:func:`dpjax.learners.successive_elimination`). With probability 1 - beta no arm is pulled
    more often, Sajed & Sheffet 2019 with our constants; else regret is at most T. failure is
    beta, by default 1 / T.
    """
    horizon, epsilon = np.broadcast_arrays(*_float64(horizon, epsilon))
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


def adap_ucb(horizon, means, epsilon, confidence=3.1):
    """sum (16 alpha ln T / min(Delta_a, epsilon) + alpha / (alpha - 3)), alpha > 3: AdaP-UCB.

    Azize & Basu 2022.
    """
    horizon, epsilon = _float64(horizon, epsilon)
    _, gaps, _ = _gaps(means)
    smaller = np.minimum(gaps, epsilon[..., None])
    leading = 16.0 * confidence * np.log(horizon) * np.sum(1.0 / smaller, axis=-1)
    return leading + len(gaps) * confidence / (confidence - 3.0)


def linear_elimination(horizon, arms, dim, epsilon, *, model="central"):
    """Worst case of linear elimination with radius "exact" or "chernoff", summed over its phases.

    1 + sum_i (q^i + B d) min(1, 4 gamma_(i-1)), and 4 gamma of the last phase that surely fits for
    the rounds after it: our constants, gamma = :func:`dpjax.learners.linear_elimination`'s
    "chernoff" with all arms active, B d = min(K, d + core_set_steps(d)). Hanna et al. 2022.
    """
    horizon, epsilon = np.broadcast_arrays(*_float64(horizon, epsilon))
    if model not in ("central", "local"):
        raise ValueError(f"model must be central or local, got {model!r}")
    core = min(arms, dim + core_set_steps(dim))
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


def linear_elimination_printed(horizon, epsilon):
    """sqrt(T ln T) + ln^2 T / epsilon: Hanna et al. 2022 in Chari's survey, with constant 1.

    Printed up to constants, among them powers of the dimension.
    """
    horizon, epsilon = _float64(horizon, epsilon)
    return np.sqrt(horizon * np.log(horizon)) + np.log(horizon) ** 2 / epsilon


def azize_basu_linear(horizon, dim, epsilon):
    """max(e^-2, e^(-6 epsilon sqrt(T))) d sqrt(T) / 8: minimax lower bound, actions [-1, 1]^d.

    Azize & Basu 2022, Theorem 4, in units of rewards with Gaussian noise of variance 1. Privacy
    adds at most a factor e^2, and none from epsilon = 1 / (3 sqrt(T)) on.
    """
    horizon, dim, epsilon = _float64(horizon, dim, epsilon)
    factor = np.maximum(np.exp(-2.0), np.exp(-6.0 * epsilon * np.sqrt(horizon)))
    return factor * dim * np.sqrt(horizon) / 8.0


def ucb1(horizon, means):
    """8 sum ln T / Delta_a + (1 + pi^2 / 3) sum Delta_a: Auer et al. 2002, Theorem 1."""
    (horizon,) = _float64(horizon)
    _, gaps, _ = _gaps(means)
    return 8.0 * np.log(horizon) * np.sum(1.0 / gaps) + (1.0 + np.pi**2 / 3.0) * np.sum(gaps)


def exp2(horizon, arms, epsilon):
    """sqrt(T K ln K (3 + 8 / epsilon^2 + 8 ln T / epsilon)) + 1, losses in [0, 1].

    Agarwal & Singh 2017, Theorem 4.1, with corrected parameters and our constants; noise of scale
    1 / epsilon. With losses in [-1, 1], noise of scale 2 / epsilon and the same epsilon it is twice
    that.
    """
    horizon, arms, epsilon = _float64(horizon, arms, epsilon)
    noise = 8.0 / epsilon**2 + 8.0 * np.log(horizon) / epsilon
    return np.sqrt(horizon * arms * np.log(arms) * (3.0 + noise)) + 1.0


def exp2_rate(horizon, arms, epsilon):
    """sqrt(N T ln T ln N) / epsilon: Agarwal & Singh 2017, Theorem 4.1, with constant 1.

    Printed up to constants, for epsilon <= 1; Table 2 leaves out the logarithm of T.
    """
    horizon, arms, epsilon = _float64(horizon, arms, epsilon)
    return np.sqrt(arms * horizon * np.log(horizon) * np.log(arms)) / epsilon


def scrible(horizon, dim, epsilon, *, domain, noise="scalar"):
    """2 n sqrt(2 nu T ln T (M^2 + s^2)) + 2M: "simplex", "ball" or "cube", with their own losses.

    Losses in [0, 1] on the simplex, of length at most 1 on the ball, with absolute values that sum
    to at most 1 on the cube; <l, x> is then within M = 1/2, 1, 1 of its middle. The noise has the
    variance s^2 = 8 M^2 / epsilon^2 ("scalar"), or at most 8 |X|_2^2 |Y|_1^2 / epsilon^2
    ("vector"). Agarwal & Singh 2017, Theorem 4.5, with the constants of its proof; for rates with
    eta n |f| <= 1/4, as from T of some hundreds on.
    """
    horizon, dim, epsilon = _float64(horizon, dim, epsilon)
    if domain not in ("simplex", "ball", "cube"):
        raise ValueError(f"domain must be simplex, ball or cube, got {domain!r}")
    if noise not in ("scalar", "vector"):
        raise ValueError(f"noise must be scalar or vector, got {noise!r}")
    # n, nu, M, |X|_2, |Y|_1
    n, parameter, bound, farthest, norm = {
        "simplex": (dim - 1.0, dim, 0.5, 1.0, dim),
        "ball": (dim, 1.0, 1.0, 1.0, np.sqrt(dim)),
        "cube": (dim, dim, 1.0, np.sqrt(dim), 1.0),
    }[domain]
    size = bound if noise == "scalar" else farthest * norm
    moment = bound**2 + 8.0 * size**2 / epsilon**2
    return 2.0 * n * np.sqrt(2.0 * parameter * horizon * np.log(horizon) * moment) + 2.0 * bound


def before_bandits(horizon, epsilon, *, arms=None):
    """N T^(2/3) / epsilon over arms, T^(2/3) / epsilon over convex sets, with constant 1.

    Smith & Thakurta 2013, in Table 2 of Agarwal & Singh 2017: the best regret known before.
    """
    horizon, epsilon = _float64(horizon, epsilon)
    dim = 1.0 if arms is None else np.asarray(arms, np.float64)
    return dim * np.cbrt(horizon) ** 2 / epsilon


def tsallis_inf(horizon, arms):
    """4 sqrt(K T) + 1: Zimmert & Seldin 2021, Theorem 1; losses in [0, 1]."""
    horizon, arms = _float64(horizon, arms)
    return 4.0 * np.sqrt(arms * horizon) + 1.0


def batched_bandit(horizon, arms, epsilon, *, base="htinf"):
    """tau R(T / tau) + tau, tau = ceil(1 / epsilon): Asi, Raman & Talwar 2025.

    R bounds the base on losses with noise of scale lambda = 1 / (epsilon tau):
    30 sigma sqrt(K (T / tau + 1)) for HTINF with sigma^2 = 1 + 2 lambda^2 (constant as recalled,
    Huang, Dai & Huang 2022), or that of :func:`exp2` at 1 / lambda.
    """
    horizon, arms, epsilon = _float64(horizon, arms, epsilon)
    if base not in ("htinf", "exp2"):
        raise ValueError(f"base must be htinf or exp2, got {base!r}")
    tau = np.clip(np.ceil(1.0 / epsilon), 1.0, horizon)
    batches = np.floor(horizon / tau)
    if base == "exp2":
        return tau * exp2(batches, arms, epsilon * tau) + tau
    sigma = np.sqrt(1.0 + 2.0 / (epsilon * tau) ** 2)
    return tau * 30.0 * sigma * np.sqrt(arms * (batches + 1.0)) + tau


# Linear contextual bandits.


def _linucb_logs(horizon, dim, smallest, largest, feature_bound):
    """What ln det V - d ln rho_min, and half the sum of the squared widths, stay below."""
    visits = horizon * feature_bound**2 / (dim * smallest)
    return dim * np.log(largest / smallest + visits), dim * np.log1p(visits)


def linucb(
    horizon, dim, smallest, largest, tilt, *,
    gap=None, mean_bound=1.0, parameter_bound=1.0, feature_bound=1.0, deviation=1.0, failure=None,
):  # fmt: skip
    """B sqrt(8 T) W, or 8 B W^2 / gap where the best arm of each round leads by that gap.

    W = sigma (2 ln(2 / alpha) + ln det) + (S sqrt(rho_max) + gamma) sqrt(widths), with

        ln det = d ln(rho_max / rho + T L^2 / (d rho)),    widths = d ln(1 + T L^2 / (d rho)),

    rho = ``smallest``, rho_max = ``largest`` and gamma = ``tilt`` of a regularizer
    (:class:`dpjax.learners.parts.gram_calibration.Regularizer`), B = ``mean_bound``. With
    probability 1 - alpha, by default 1 - 1 / T. Shariff & Sheffet 2018, Theorems 5 and 6.
    """
    horizon, dim, smallest, largest, tilt = _float64(horizon, dim, smallest, largest, tilt)
    alpha = 1.0 / horizon if failure is None else failure
    growth, widths = _linucb_logs(horizon, dim, smallest, largest, feature_bound)
    bias = parameter_bound * np.sqrt(largest) + tilt
    w = deviation * (2.0 * np.log(2.0 / alpha) + growth) + bias * np.sqrt(widths)
    if gap is None:
        return mean_bound * np.sqrt(8.0 * horizon) * w
    return 8.0 * mean_bound * w**2 / np.asarray(gap, np.float64)


def linucb_planned(
    horizon, dim, smallest, largest, tilt, *,
    gap=None, mean_bound=1.0, parameter_bound=1.0, feature_bound=1.0, deviation=1.0, failure=None,
):  # fmt: skip
    """The same with B beta sqrt(8 T widths): what the authors' program minimizes over the floor.

    beta = sigma sqrt(2 ln(2 / alpha) + ln det) + S sqrt(rho_max) + gamma.
    """
    horizon, dim, smallest, largest, tilt = _float64(horizon, dim, smallest, largest, tilt)
    alpha = 1.0 / horizon if failure is None else failure
    growth, widths = _linucb_logs(horizon, dim, smallest, largest, feature_bound)
    beta = deviation * np.sqrt(2.0 * np.log(2.0 / alpha) + growth)
    beta = beta + parameter_bound * np.sqrt(largest) + tilt
    if gap is None:
        return mean_bound * beta * np.sqrt(8.0 * horizon * widths)
    return 8.0 * mean_bound * beta**2 * widths / np.asarray(gap, np.float64)
