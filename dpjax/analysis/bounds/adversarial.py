"""Bounds against adversaries, for experts, bandits and online linear optimization."""

import numpy as np

from dpjax.analysis.bounds.host import float64


def exp3(horizon, arms):
    """2 sqrt(e - 1) sqrt(T K ln K): Auer et al. 2002, Corollary 3.2."""
    horizon, arms = float64(horizon, arms)
    return 2.0 * np.sqrt((np.e - 1.0) * horizon * arms * np.log(arms))


def dp_exp3_lap(horizon, arms, epsilon):
    """(2b + 1) 2 sqrt((e - 1) T K ln K) + 2 T K e^(-b epsilon) + sqrt(32 T) / epsilon.

    b = ln T / epsilon, so the middle term is 2K. The theorem of Tossou & Dimitrakakis 2017 with
    the full length 2b + 1 of the interval that is scaled to [0, 1].
    """
    horizon, arms, epsilon = float64(horizon, arms, epsilon)
    width = 2.0 * np.log(horizon) / epsilon + 1.0
    return width * exp3(horizon, arms) + 2.0 * arms + np.sqrt(32.0 * horizon) / epsilon


def dp_exp3_lap_printed(horizon, arms, epsilon):
    """(4 ln T / epsilon) sqrt((e - 1) T K ln K) + 2K + sqrt(32 T) / epsilon.

    The corollary of Tossou & Dimitrakakis 2017, as reconstructed: 2b stands for 2b + 1, which
    understates the regret where epsilon is large.
    """
    horizon, arms, epsilon = float64(horizon, arms, epsilon)
    width = 2.0 * np.log(horizon) / epsilon
    return width * exp3(horizon, arms) + 2.0 * arms + np.sqrt(32.0 * horizon) / epsilon


def exp3_minibatch(horizon, arms, tau, memory):
    """sqrt(7 T tau K ln K) + T m / tau + tau, against memory m < tau; nan where m >= tau.

    It bounds policy regret: Arora, Dekel & Tewari 2012 for EXP3, and the theorem of Tossou &
    Dimitrakakis 2017, as reconstructed.
    """
    horizon, arms, tau, memory = float64(horizon, arms, tau, memory)
    value = np.sqrt(7.0 * horizon * tau * arms * np.log(arms)) + horizon * memory / tau + tau
    return np.where(np.less(memory, tau), value, np.nan)


def switching_cost_lower(horizon, arms):
    """K^(1/3) T^(2/3) / (50 log2 T): lower bound for any learner, Dekel et al. 2014."""
    horizon, arms = float64(horizon, arms)
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
    horizon, dim, epsilon = float64(horizon, dim, epsilon)
    nodes = np.ceil(np.log2(horizon))
    log_dim = np.log(dim)
    if domain == "simplex":
        noise = 8.0 * dim * nodes**1.5 * np.sqrt(log_dim) + 4.0 * dim * nodes * log_dim
        return np.sqrt(2.0 * horizon * log_dim) + noise / epsilon
    if domain not in ("ball", "cube"):
        raise ValueError(f"domain must be simplex, ball or cube, got {domain!r}")
    plain = np.sqrt(horizon if domain == "ball" else dim * horizon)
    return plain + 4.0 * np.sqrt(2.0) * dim * nodes**1.5 / epsilon


def ftrl_printed(horizon, dim, epsilon, *, domain):
    """:func:`ftrl` with sqrt(D_R S' T) as its first term: Agarwal & Singh 2017, Theorem 3.4.

    S' is the largest squared dual norm of a loss in the local norm of R. So the first term is
    sqrt(T ln N), sqrt(T / 2) or sqrt(N T / 2), below that of :func:`ftrl` by a factor of sqrt(2).
    The noise is that of :func:`ftrl`.
    """
    whole, plain = (ftrl(horizon, dim, each, domain=domain) for each in (epsilon, np.inf))
    return whole - plain + plain / np.sqrt(2.0)


def ftrl_local_rate(horizon, dim, epsilon, *, domain):
    """The rate eta for which :func:`ftrl_local` holds: "simplex", "ball" or "cube".

    It is sqrt(D_R / (T m)) for a second moment m that has the noise in it.
    """
    horizon, dim, epsilon = float64(horizon, dim, epsilon)
    scale, moment, width = _local_noise(dim, epsilon, domain)
    if domain == "simplex":
        with np.errstate(divide="ignore"):
            return np.minimum(np.sqrt(width / (horizon * moment)), 0.5 / scale)
    return np.sqrt(4.0 * width / (horizon * moment))


def ftrl_local(horizon, dim, epsilon, *, domain):
    """FTRL on :func:`dpjax.mechanisms.per_item` with Laplace noise: "simplex", "ball" or "cube".

    Losses are those of :func:`ftrl`, replaced by a whole round, and the rate is that of
    :func:`ftrl_local_rate`. The noise is unbiased given the past, so that regret on the losses is
    regret on the messages. With N = ``dim`` and a Laplace scale b = 2 N / epsilon on the simplex

        simplex   ln N / eta + T (eta / 2 - ln(1 - (eta b)^2) / eta)
        ball      sqrt(T (1 + 8 N^2 / epsilon^2))
        cube      sqrt(N T (1 + 8 N / epsilon^2))

    for oblivious losses, in expectation. The bounds are ours: 1 / (1 - (eta b)^2) is the expected
    e^(eta z) of a draw z, and on ball and cube 1 plus the noise's variance is the second moment of
    a message.
    """
    horizon, dim, epsilon = float64(horizon, dim, epsilon)
    scale, moment, width = _local_noise(dim, epsilon, domain)
    if domain != "simplex":
        return np.sqrt(width * horizon * moment)
    rate = ftrl_local_rate(horizon, dim, epsilon, domain=domain)
    return width / rate + horizon * (rate / 2.0 - np.log1p(-((rate * scale) ** 2)) / rate)


def _local_noise(dim, epsilon, domain):
    """(scale of a draw, second moment of a message, D_R) of FTRL on items with Laplace noise."""
    if domain == "simplex":
        scale = 2.0 * dim / epsilon
        return scale, 0.5 + 4.0 * scale**2 / 3.0, np.log(dim)
    if domain not in ("ball", "cube"):
        raise ValueError(f"domain must be simplex, ball or cube, got {domain!r}")
    scale = 2.0 * (np.sqrt(dim) if domain == "ball" else 1.0) / epsilon
    return scale, 1.0 + 2.0 * dim * scale**2, np.ones_like(dim) if domain == "ball" else dim


def before_ftrl(horizon, dim, epsilon, *, domain):
    """sqrt(T ln N) / epsilon on the simplex, sqrt(N T) / epsilon on ball and cube.

    Agarwal & Singh 2017 print this as the best regret known before them (Table 1), up to logarithms
    and here with constant 1: Dwork et al. 2014; Smith & Thakurta 2013.
    """
    horizon, dim, epsilon = float64(horizon, dim, epsilon)
    if domain not in ("simplex", "ball", "cube"):
        raise ValueError(f"domain must be simplex, ball or cube, got {domain!r}")
    return np.sqrt(horizon * (np.log(dim) if domain == "simplex" else dim)) / epsilon


def ftpl(horizon, dim):
    """1.263 N^(1/4) sqrt(T): follow the perturbed leader on a ball, where privacy costs nothing.

    (8 / pi)^(1/4) N^(1/4) |X|_2 |Y|_2 sqrt(T) with unit norms: Abernethy et al. 2014, in Agarwal &
    Singh 2017, Theorem 3.5.
    """
    horizon, dim = float64(horizon, dim)
    return (8.0 / np.pi * dim) ** 0.25 * np.sqrt(horizon)


def hedge(horizon, arms, rate):
    """ln K / eta + eta T / 8, losses in [0, 1]: Cesa-Bianchi & Lugosi 2006, Theorem 2.2."""
    horizon, arms, rate = float64(horizon, arms, rate)
    return np.log(arms) / rate + rate * horizon / 8.0


def shrinking_dartboard(horizon, arms, rate, restart, batch=1, shifts=0):
    """eta T + B D / eta + S B / 2 + 2 T exp(-n p / 3) for eta <= p, nan elsewhere.

    n is floor(T / B). Asi, Feldman, Koren & Talwar 2023, Theorems 2 and 5, for oblivious losses in
    [0, 1] in batches of B rounds. Without a budget of switches, as at epsilon = inf, the last term
    does not apply. D is ln K, or against S shifts of the best arm that of :func:`fixed_share` with
    n for T. A shift within a batch costs at most B / 2.
    """
    horizon, arms, rate, restart = float64(horizon, arms, rate, restart)
    batch, shifts = float64(batch, shifts)
    steps = np.floor(horizon / batch)
    learning = batch * _share_complexity(steps, arms, shifts) / rate + shifts * batch / 2.0
    ran_out = 2.0 * horizon * np.exp(-steps * restart / 3.0)
    value = rate * horizon + learning + ran_out
    return np.where(rate <= restart, value, np.nan)


def shrinking_dartboard_batched(horizon, arms, epsilon):
    """(4 ln K + 1/2) sqrt(T / epsilon) + 2 T exp(-sqrt(epsilon T) / 12): pure epsilon, batches.

    It is :func:`shrinking_dartboard` at p = eta = 1 / (2 sqrt(epsilon T)) and B = 2 / epsilon, up
    to rounding, which pure epsilon allows to first order in eta. The constants are ours.
    """
    horizon, arms, epsilon = float64(horizon, arms, epsilon)
    ran_out = 2.0 * horizon * np.exp(-np.sqrt(epsilon * horizon) / 12.0)
    return (4.0 * np.log(arms) + 0.5) * np.sqrt(horizon / epsilon) + ran_out


def lazy_to_private(horizon, arms, epsilon):
    """sqrt(T ln K) + T^(1/3) ln K / epsilon^(2/3), with constant 1: the best rate that is known.

    It is claimed for oblivious losses and (epsilon, delta)-DP by Asi, Koren, Liu & Talwar, "Private
    online learning via lazy algorithms", 2024, up to logarithms. The algorithm is not built here.
    """
    horizon, arms, epsilon = float64(horizon, arms, epsilon)
    return np.sqrt(horizon * np.log(arms)) + np.cbrt(horizon) * np.log(arms) / epsilon ** (2 / 3)


def fixed_share(horizon, arms, rate, shifts):
    """D / eta + eta T / 8 against S shifts of the best arm, for exponential weights that share.

    D = ln K + S ln(K / alpha) - (T - 1 - S) ln(1 - alpha + alpha / K) at alpha = S / (T - 1), at
    most 1/2. It is at most ln K + S ln(K T / S) + S. Herbster & Warmuth 1998; Cesa-Bianchi &
    Lugosi 2006, section 5.2.
    """
    horizon, arms, rate, shifts = float64(horizon, arms, rate, shifts)
    return _share_complexity(horizon, arms, shifts) / rate + rate * horizon / 8.0


def _share_complexity(rounds, arms, shifts):
    share = np.minimum(shifts / np.maximum(rounds - 1.0, 1.0), 0.5)
    moves = shifts * np.log(arms / np.maximum(share, 1e-300))
    stays = np.maximum(rounds - 1.0 - shifts, 0.0) * np.log1p(share / arms - share)
    return np.log(arms) + moves - stays


def shrinking_dartboard_pure(horizon, arms, epsilon):
    """:func:`shrinking_dartboard` at an eta that pure epsilon surely allows.

    With p_0 = 1 / sqrt(8 T) it is eta = min(sqrt(ln K / T), p_0, epsilon p_0 / (2 + p_0)), since
    ln(1 + eta / p_0) + 8 T p_0 ln(1 / (1 - eta)) <= eta sqrt(8 T) (2 + eta). The learner's eta is
    at least that and at most sqrt(ln K / T), up to where the bound falls in eta. Its p is at least
    p_0.
    """
    horizon, arms, epsilon = float64(horizon, arms, epsilon)
    plain, restart = np.sqrt(np.log(arms) / horizon), 1.0 / np.sqrt(8.0 * horizon)
    allowed = np.minimum(restart, restart * epsilon / (2.0 + restart))
    private = shrinking_dartboard(horizon, arms, np.minimum(plain, allowed), restart)
    return np.where(np.isinf(epsilon), 2.0 * np.sqrt(horizon * np.log(arms)), private)


def exp2(horizon, arms, epsilon):
    """sqrt(T K ln K (3 + 8 / epsilon^2 + 8 ln T / epsilon)) + 1, losses in [0, 1].

    Agarwal & Singh 2017, Theorem 4.1, with corrected parameters, our constants and noise of scale
    1 / epsilon. For losses in [-1, 1] and noise of scale 2 / epsilon it is twice that.
    """
    horizon, arms, epsilon = float64(horizon, arms, epsilon)
    noise = 8.0 / epsilon**2 + 8.0 * np.log(horizon) / epsilon
    return np.sqrt(horizon * arms * np.log(arms) * (3.0 + noise)) + 1.0


def exp2_rate(horizon, arms, epsilon):
    """sqrt(N T ln T ln N) / epsilon: Agarwal & Singh 2017, Theorem 4.1, with constant 1.

    It is printed up to constants, for epsilon <= 1. Table 2 leaves out the logarithm of T.
    """
    horizon, arms, epsilon = float64(horizon, arms, epsilon)
    return np.sqrt(arms * horizon * np.log(horizon) * np.log(arms)) / epsilon


def scrible(horizon, dim, epsilon, *, domain, noise="scalar"):
    """2 n sqrt(2 nu T ln T (M^2 + s^2)) + 2M: "simplex", "ball" or "cube", with their own losses.

    Losses lie in [0, 1] on the simplex, have length at most 1 on the ball, and absolute values that
    sum to at most 1 on the cube. So <l, x> is within M = 1/2, 1, 1 of its middle. The noise has the
    variance s^2 = 8 M^2 / epsilon^2 ("scalar"), or at most 8 |X|_2^2 |Y|_1^2 / epsilon^2
    ("vector"). Agarwal & Singh 2017, Theorem 4.5, with the constants of its proof. It holds for
    rates with eta n |f| <= 1/4, which is the case from T of some hundreds on.
    """
    horizon, dim, epsilon = float64(horizon, dim, epsilon)
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
    return _with_barrier(horizon, n, parameter, bound, 8.0 * size**2 / epsilon**2)


def scrible_polytope(horizon, dim, epsilon, *, rows, bound):
    """2 n sqrt(2 m T ln T (M^2 + 8 M^2 / epsilon^2)) + 2M on a polytope with m facets in R^n.

    Agarwal & Singh 2017, Theorem 4.5, with the constants of its proof, scalar noise and the
    logarithmic barrier, whose parameter is m. It holds for rates with eta n |f| <= 1/4.

    Args:
      horizon: T.
      dim: n, of the affine hull of the polytope.
      epsilon: privacy.
      rows: m.
      bound: M, half the width of the range of <l, x>.
    """
    horizon, dim, epsilon, rows, bound = float64(horizon, dim, epsilon, rows, bound)
    return _with_barrier(horizon, dim, rows, bound, 8.0 * bound**2 / epsilon**2)


def _with_barrier(horizon, dim, parameter, bound, variance):
    moment = bound**2 + variance
    return 2.0 * dim * np.sqrt(2.0 * parameter * horizon * np.log(horizon) * moment) + 2.0 * bound


def before_bandits(horizon, epsilon, *, arms=None):
    """N T^(2/3) / epsilon over arms, T^(2/3) / epsilon over convex sets, with constant 1.

    Table 2 of Agarwal & Singh 2017 has it as the best regret known before (Smith & Thakurta 2013).
    """
    horizon, epsilon = float64(horizon, epsilon)
    dim = 1.0 if arms is None else np.asarray(arms, np.float64)
    return dim * np.cbrt(horizon) ** 2 / epsilon


def tsallis_inf(horizon, arms):
    """4 sqrt(K T) + 1: Zimmert & Seldin 2021, Theorem 1; losses in [0, 1]."""
    horizon, arms = float64(horizon, arms)
    return 4.0 * np.sqrt(arms * horizon) + 1.0


def batched_bandit(horizon, arms, epsilon, *, base="htinf"):
    """tau R(T / tau) + tau, tau = ceil(1 / epsilon): Asi, Raman & Talwar 2025.

    R bounds the regret of the base on losses with noise of scale lambda = 1 / (epsilon tau). For
    HTINF it is 30 sigma sqrt(K (T / tau + 1)) with sigma^2 = 1 + 2 lambda^2 (Huang, Dai & Huang
    2022, constant as recalled), and for EXP2 it is :func:`exp2` at 1 / lambda.
    """
    horizon, arms, epsilon = float64(horizon, arms, epsilon)
    if base not in ("htinf", "exp2"):
        raise ValueError(f"base must be htinf or exp2, got {base!r}")
    tau = np.clip(np.ceil(1.0 / epsilon), 1.0, horizon)
    batches = np.floor(horizon / tau)
    if base == "exp2":
        return tau * exp2(batches, arms, epsilon * tau) + tau
    sigma = np.sqrt(1.0 + 2.0 / (epsilon * tau) ** 2)
    return tau * 30.0 * sigma * np.sqrt(arms * (batches + 1.0)) + tau
