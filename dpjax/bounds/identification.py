"""Best-arm identification: lower bounds on stopping times, and an upper bound on errors.

``means`` (K,) are mean losses of Bernoulli arms, and the best arm has the smallest. ``failure`` is
the allowed probability of stopping on a wrong arm. ``epsilon`` may be infinite.
"""

import numpy as np

from dpjax.bounds._host import log_gap, suboptimal
from dpjax.bounds.stochastic_lower import kl
from dpjax.core import Numbers

# Below this epsilon the characteristic time is proportional to 1 / epsilon, up to a factor of 1 +
# epsilon / min Delta, and float64 has too few digits for the small differences.
_LEAST_EPSILON = 1e-9


def _best_and_gaps(means):
    """(mean of the best arm, its index, gaps (K - 1,) of the others in the order of the arms)."""
    _, gaps, best = suboptimal(means)
    if len(gaps) < len(means) - 1:
        raise ValueError("means: two arms are equally good, and no learner can stop on them")
    return best, int(np.argmin(means)), gaps


def _positive(epsilon):
    if not np.all(epsilon > 0.0):
        raise ValueError(f"epsilon must be above 0, got {epsilon.tolist()}")
    return epsilon


def _probability(failure):
    if not np.all((failure > 0.0) & (failure <= 0.5)):
        raise ValueError(f"failure must be in (0, 1/2], got {failure.tolist()}")
    return failure


def _departure(mean, rest, distance, epsilon):
    """(d_epsilon(x, y), its derivative in the distance) for x = mean + distance, y = mean.

    ``rest`` is 1 - mean. The infimum over z in [y, x] of epsilon (x - z) + kl(z, y) is attained at
    the z at which the slope of kl(., y) is epsilon, or at x if there is none. Then z - y is mean
    times rest times the derivative. All terms are positive, so nothing cancels.
    """
    shrunk = np.exp(-epsilon)
    plain = distance / (mean * rest)
    linear = -np.expm1(-epsilon) / (mean + rest * shrunk)
    # If z = x, this must be exactly the distance, since epsilon magnifies any difference.
    covered = np.where(plain <= linear, distance, mean * rest * linear)
    z, left = mean + covered, np.maximum(rest - covered, 1e-300)
    divergence = z * log_gap(-covered / z) + left * log_gap(covered / left)
    # If epsilon is at least 800, e^-epsilon is 0, and the slope of kl is smaller than epsilon.
    return np.minimum(epsilon, 800.0) * (distance - covered) + divergence, np.minimum(plain, linear)


def _costs(best, gaps, distance, epsilon):
    """(f, g, x, f + x g) at the mean u = best + distance, for 0 < distance < gaps.

    f and g are the costs per sample of moving the best arm and the other one to u. x is the number
    of samples of the other arm, per sample of the best arm, at which u is the cheapest mean.
    """
    remaining = gaps - distance
    u, rest = best + distance, (1.0 - best - gaps) + remaining
    f, up = _departure(rest, u, distance, epsilon)
    g, down = _departure(u, rest, remaining, epsilon)
    x = up / down
    return f, g, x, f + x * g


def _bisect(condition, low, high, steps=42):
    """The point between low and high up to which the condition holds, by bisection."""
    for _ in range(steps):
        middle = 0.5 * (low + high)
        holds = condition(middle)
        low, high = np.where(holds, middle, low), np.where(holds, high, middle)
    return 0.5 * (low + high)


def _solve(best, gaps, epsilon):
    """(T*, samples per sample of the best arm) of :func:`characteristic_time`, arms last.

    At level v arm b needs x_b(v) samples per sample of the best arm, so 1 / T* is the maximum of
    v / (1 + sum x_b(v)). Its derivative has the sign of 1 - sum f_b / g_b, with all f_b and g_b at
    the means u_b(v). f_b / g_b increases in v. At the maximum it is at most 1 for all arms and at
    least 1 / (K - 1) for one, which brackets v.
    """
    best, gaps, epsilon = np.broadcast_arrays(best, gaps, epsilon)
    zero = np.zeros(gaps.shape)

    def where_ratio_is(ratio):
        def condition(distance):
            f, g, _, _ = _costs(best, gaps, distance, epsilon)
            return f < ratio * g

        return _bisect(condition, zero, gaps)

    farthest = where_ratio_is(1.0)
    nearest = where_ratio_is(1.0 / gaps.shape[-1])

    def level(distance):
        return np.min(_costs(best, gaps, distance, epsilon)[3], axis=-1, keepdims=True)

    def at(v):
        return _bisect(
            lambda distance: _costs(best, gaps, distance, epsilon)[3] < v, zero, farthest
        )

    def increases(v):
        f, g, _, _ = _costs(best, gaps, at(v), epsilon)
        return np.sum(f / g, axis=-1, keepdims=True) < 1.0

    v = _bisect(increases, level(nearest), level(farthest), 26)
    f, g, _, _ = _costs(best, gaps, at(v), epsilon)
    samples = (v - f) / g  # the maximum over u is at u_b, so errors of u_b cancel
    return (1.0 + np.sum(samples, axis=-1)) / v[..., 0], samples


def characteristic_time(means: Numbers, epsilon: Numbers) -> tuple[np.ndarray, np.ndarray]:
    """(T*_epsilon, optimal proportions of samples): the lower bound for best-arm identification.

    1 / T*_epsilon = max over w in the simplex of the min over b != a* of the inf over u of
    w_a* d_epsilon(mu_a*, u) + w_b d_epsilon(mu_b, u), with a* the best arm and d_epsilon as in
    :func:`d_epsilon_divergence`. Every epsilon-DP learner that errs with probability at most
    ``failure`` needs E tau >= T*_epsilon kl(failure, 1 - failure); see :func:`stopping_time_lower`.

    The divergence is that of Jourdan & Azize 2025, from the abstract; proof and solver are ours.
    The relative error is about 1e-8, and more if gaps are below 1e-6.

    Args:
        means: (K,) mean losses in [0, 1].
        epsilon: above 0, a number or an array (...); it may be infinite.

    Returns:
        T* of shape (...), and the proportions (..., K).

    Raises:
        ValueError: for means outside [0, 1], one arm, two equal best arms or epsilon <= 0.

    Examples:
      >>> time, proportions = bounds.characteristic_time([0.3, 0.5, 0.6], [0.1, np.inf])
      >>> time.round(1).tolist()
      [149.0, 54.4]
      >>> proportions.round(3).tolist()
      [[0.385, 0.377, 0.238], [0.453, 0.422, 0.125]]
    """
    best, index, gaps = _best_and_gaps(means)
    epsilon = _positive(epsilon)
    used = np.maximum(epsilon, _LEAST_EPSILON)
    time, samples = _solve(best, gaps, used[..., None])
    weights = np.insert(samples, index, 1.0, axis=-1)
    scale = np.where(epsilon < used, used / np.where(epsilon < used, epsilon, 1.0), 1.0)
    return (time * scale)[()], weights / np.sum(weights, axis=-1, keepdims=True)


def total_variation_time(means: Numbers) -> np.floating:
    """1 / min Delta_b + sum 1 / Delta_b over b != a*: epsilon T*_epsilon as epsilon goes to 0.

    In that limit 1 / T* is the maximum over w of min_b min(w_a*, w_b) Delta_b, attained by
    w_b = c / Delta_b and w_a* = c / min Delta. It is T_TV of Azize et al. 2023; the closed form for
    Bernoulli arms is ours.

    Examples:
      >>> means, epsilon = [0.3, 0.5, 0.6], np.array([0.1, 0.01, 0.001])
      >>> round(float(bounds.total_variation_time(means)), 2)
      13.33
      >>> (epsilon * bounds.characteristic_time(means, epsilon)[0]).round(2).tolist()
      [14.9, 13.47, 13.35]
    """
    _, _, gaps = _best_and_gaps(means)
    return 1.0 / np.min(gaps) + np.sum(1.0 / gaps)


def stopping_time_lower(means: Numbers, epsilon: Numbers, failure: Numbers) -> np.ndarray:
    """E tau >= T*_epsilon kl(failure, 1 - failure) for every epsilon-DP learner that is correct.

    Correct means that on every instance it stops on a wrong arm with probability at most
    ``failure``. The proof is ours. A coupling changes a loss of arm a with probability
    |mu_a - z_a|. Each changed loss that was used changes the laws of the actions by at most a
    factor of e^epsilon. So the actions distinguish two instances at a rate of at most d_epsilon.
    The data-processing inequality on the event that a* is recommended completes the proof.

    Examples:
      >>> means, epsilon = [0.3, 0.5, 0.6], [0.1, 1.0, np.inf]
      >>> bounds.stopping_time_lower(means, epsilon, 0.05).round(1).tolist()
      [394.9, 144.2, 144.2]
    """
    failure = _probability(failure)
    return characteristic_time(means, epsilon)[0] * kl(failure, 1.0 - failure)


def stopping_time_lower_local(means: Numbers, epsilon: Numbers, failure: Numbers) -> np.ndarray:
    """The lower bound on E tau under local epsilon-DP: T*_inf(p + (1 - 2 p) mu) kl(d, 1 - d).

    Here p = 1 / (1 + e^epsilon) and d is ``failure``. Every local randomizer of one bit is
    randomized response with flip probability p, followed by a function of its result (Kairouz, Oh &
    Viswanath 2016). So a learner observes no more than Bernoulli losses with means p + (1 - 2 p)
    mu. The derivation is ours.

    Examples:
      >>> means, epsilon = [0.3, 0.5, 0.6], [0.1, 1.0, np.inf]
      >>> bounds.stopping_time_lower_local(means, epsilon, 0.05).round(1).tolist()
      [60643.4, 701.8, 144.2]
    """
    failure = _probability(failure)
    best, _, gaps = _best_and_gaps(means)
    kept = np.tanh(0.5 * _positive(epsilon))[..., None]  # 1 - 2 p
    time, _ = _solve(0.5 * (1.0 - kept) + kept * best, kept * gaps, np.inf)
    return time * kl(failure, 1.0 - failure)


def sequential_halving_error(horizon: Numbers, means: Numbers, epsilon: Numbers) -> np.ndarray:
    """An upper bound on the error probability of private sequential halving, at most 1.

    It is

        sum over stages of 12 exp(-(3 / 16) S n / H),    n = floor(T / (S R)),
        H = max over i >= 2 of i / (Delta_i min(Delta_i, epsilon / sqrt(2))),

    with R = ceil(log2 K) stages. A stage has S arms, each played n rounds. The gaps are
    Delta_2 <= ... <= Delta_K. Without the rounding it is 12 R exp(-(3 / 16) T / (R H)).

    The proof is ours. By Chernoff's bound for the difference of two means with Laplace noise of
    scale 1 / (epsilon n), arm i beats the best with probability at most 4 exp(-(3 / 4) n Delta_i
    min(Delta_i, epsilon / sqrt(2))). If a stage eliminates the best arm, at least a third of the
    worse three quarters have beaten it (Karnin, Koren & Somekh 2013). Markov's inequality bounds
    the probability of this.

    Examples:
      >>> means = [0.3, 0.5, 0.6]
      >>> bounds.sequential_halving_error([1000, 4000, 8000], means, 1.0).round(5).tolist()
      [1.0, 0.01332, 1e-05]
      >>> bounds.sequential_halving_error(8000, means, [0.01, 0.1, np.inf]).round(5).tolist()
      [1.0, 0.11948, 1e-05]
    """
    _, _, gaps = _best_and_gaps(means)
    horizon, epsilon = np.broadcast_arrays(horizon, _positive(epsilon))
    gaps = np.sort(gaps)
    smaller = np.minimum(gaps, epsilon[..., None] / np.sqrt(2.0))
    hardness = np.max(np.arange(2, len(gaps) + 2) / (gaps * smaller), axis=-1)
    arms, total = len(gaps) + 1, np.zeros(horizon.shape)
    stages = int(np.ceil(np.log2(arms)))
    for _ in range(stages):
        rounds = np.floor(horizon / (arms * stages))
        total = total + 12.0 * np.exp(-0.1875 * arms * rounds / hardness)
        arms = -(-arms // 2)
    return np.minimum(total, 1.0)
