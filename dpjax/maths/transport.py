"""Tests of which of two arms is better, from private means: costs, radii and thresholds.

``x`` and ``y`` are means of ``n`` and ``m`` losses. ``exponent`` is ln(1 / p), where p bounds the
error probability: a test passes although the arms are equally good or in the opposite order.
Numbers are float32, epsilon may be infinite or traced, and arguments broadcast.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import lax
from jax.scipy.special import logsumexp

from dpjax.core import Array, Number
from dpjax.maths.divergences import log_gap

# Thresholds exist for sums with at most this many Laplace draws.
MOST_DRAWS = 48
# The thresholds are tabulated at these exponents.
EXPONENTS = np.geomspace(1.0, 200.0, 49)

# A larger epsilon counts as this one. e^-epsilon is 0 in float32 from here on, and products with a
# larger epsilon would only magnify rounding errors.
_INFINITE = 100.0
# Losses in [0, 1] are sub-Gaussian with this variance.
_VARIANCE = 0.25


def _numbers(*values):
    return jnp.broadcast_arrays(*(jnp.asarray(value, jnp.float32) for value in values))


def _slopes(mean, rest, distance, epsilon):
    """The derivatives of kl(., mean) and of d_epsilon's linear part; the smaller one applies."""
    shrunk = jnp.exp(-epsilon)
    return distance / (mean * rest), -jnp.expm1(-epsilon) / (mean + rest * shrunk)


def _slope(mean, rest, distance, epsilon):
    """The derivative of :func:`_departure` in the distance."""
    return jnp.minimum(*_slopes(mean, rest, distance, epsilon))


def _departure(mean, rest, distance, epsilon):
    """d_epsilon(mean + distance, mean), for rest = 1 - mean and a distance above 0.

    The infimum over z in [mean, mean + distance] of epsilon (mean + distance - z) + kl(z, mean) is
    attained at z - mean = mean rest slope. No terms cancel, so the relative error is small, unlike
    in :func:`dpjax.maths.divergences.d_epsilon`.
    """
    plain, linear = _slopes(mean, rest, distance, epsilon)
    # If this should equal the distance, it must be exact, since epsilon magnifies the difference.
    covered = jnp.where(plain <= linear, distance, mean * rest * linear)
    z, left = mean + covered, jnp.maximum(rest - covered, 1e-30)
    below = z * log_gap(-covered / z, mean / z)
    return epsilon * (distance - covered) + below + left * log_gap(covered / left, rest / left)


def _root(is_above, start, width, steps):
    """The point at which ``is_above`` changes from False to True, by bisection around ``start``."""

    def halve(_, bracket):
        middle, width = bracket
        return middle + jnp.where(is_above(middle), -width, width), 0.5 * width

    return lax.fori_loop(0, steps, halve, (start, jnp.full_like(start, width)))[0]


def transport_cost(x: Array, y: Array, n: Array, m: Array, epsilon: Number):
    """inf over u in [x, y] of n d_epsilon(1 - x, 1 - u) + m d_epsilon(y, u); 0 if y <= x.

    It is the cost of moving both means to a common u, for mean losses in [0, 1]. A larger cost is
    stronger evidence that the first arm is better. The derivative in u increases, and bisection
    finds its root. The search variable is the logit of (u - x) / (y - x), so u is accurate near
    both ends, and relative errors are below 2e-5. Jourdan & Azize 2025 use such costs in tests; the
    closed form is ours.
    """
    x, y, n, m, epsilon = _numbers(x, y, n, m, epsilon)
    apart = y > x
    # If y <= x, the result is not used, and these values keep it finite.
    x_, y_ = jnp.where(apart, x, 0.25), jnp.where(apart, y, 0.75)
    epsilon = jnp.minimum(epsilon, _INFINITE)

    def at(logit):
        ratio = jnp.exp(-logit)
        part = (y_ - x_) / (1.0 + ratio)
        remaining = part * ratio
        return x_ + part, (1.0 - y_) + remaining, part, remaining

    def rises(logit):
        u, rest, part, remaining = at(logit)
        return n * _slope(rest, u, part, epsilon) > m * _slope(u, rest, remaining, epsilon)

    u, rest, part, remaining = at(_root(rises, jnp.zeros_like(x), 20.0, 20))
    cost = n * _departure(rest, u, part, epsilon) + m * _departure(u, rest, remaining, epsilon)
    return jnp.where(apart, cost, 0.0)


def hoeffding_radius(
    n: Array, m: Array, draws_n: Array, draws_m: Array, exponent: Number, epsilon: Number
):
    """Radius u: by chance, private means differ by more than u with probability <= e^-exponent.

    The means are sums divided by the counts n and m, both at least 1. The sums contain ``draws_n``
    and ``draws_m`` Laplace draws of scale 1 / epsilon. With v = 1/4,

        u = min over 0 < l < epsilon min(n, m) of (exponent + l^2 v (1/n + 1/m) / 2
            - draws_n ln(1 - (l / (epsilon n))^2) - draws_m ln(1 - (l / (epsilon m))^2)) / l.

    At epsilon = inf it is sqrt(2 exponent v (1/n + 1/m)).

    Proof, ours: the numerator without the exponent bounds the log-moment-generating function of the
    difference of the means, so this is Chernoff's bound. The numerator is convex in l and positive
    at 0. So the quotient decreases up to the l at which the tangent of the numerator goes through
    the origin. This l is below the best l without noise, and bisection finds it.
    """
    n, m, draws_n, draws_m, exponent, epsilon = _numbers(n, m, draws_n, draws_m, exponent, epsilon)
    curve = 0.5 * _VARIANCE * (1.0 / n + 1.0 / m)
    most = jnp.minimum(jnp.sqrt(exponent / curve), epsilon * jnp.minimum(n, m))
    noises = [(draws_n, most / (epsilon * n)), (draws_m, most / (epsilon * m))]

    def is_above(part):
        tangent = curve * (most * part) ** 2 - exponent
        for draws, share in noises:
            square = (share * part) ** 2
            tangent += draws * (2.0 * square / (1.0 - square) + jnp.log1p(-square))
        return tangent > 0.0

    part = _root(is_above, jnp.full_like(most, 0.5), 0.25, 22)
    total = exponent + curve * (most * part) ** 2
    for draws, share in noises:
        total -= draws * jnp.log1p(-((share * part) ** 2))
    return total / (most * part)


@functools.lru_cache
def threshold_coefficients(most: int = MOST_DRAWS):
    """A (most + 1, most + 1, 2 most + 2): P(G + Z+ + Z'+ > c) = e^-c sum_i A[j, k, i] c^i / i!.

    G is Gamma(2), and Z and Z' are sums of j and k Laplace draws of scale 1. Z+ = max(Z, 0) is 0
    with probability 1/2 and Gamma(i) with probability C(2 j - i - 1, j - 1) 2^(i - 2 j). So the sum
    is a mixture of Gamma(s) laws, with convolved weights. A[j, k, i] is the weight of all s > i.
    """
    laws = np.zeros((most + 1, most + 1))
    laws[0, 0], laws[1:, 0] = 1.0, 0.5
    for j in range(1, most + 1):
        laws[j, 1 : j + 1] = [
            math.comb(2 * j - i - 1, j - 1) * 2.0 ** (i - 2 * j) for i in range(1, j + 1)
        ]
    weights = np.zeros((most + 1, most + 1, 2 * most + 3))
    for shape in range(most + 1):
        weights[:, :, 2 + shape : 3 + shape + most] += laws[:, None, shape, None] * laws
    return np.cumsum(weights[:, :, ::-1], axis=-1)[:, :, -2::-1]


def _log_terms(coefficients):
    """ln(A_i / i!) for the coefficients A on the last axis, float32; -inf where A_i is 0."""
    with np.errstate(divide="ignore"):
        return np.float32(
            np.log(coefficients) - scipy.special.gammaln(np.arange(coefficients.shape[-1]) + 1.0)
        )


def _threshold(exponent, log_terms):
    """The c with e^-c sum_i A_i c^i / i! = e^-exponent, for ln(A_i / i!) on the last axis.

    Newton's method on the convex function c - ln(sum) starts above the root and stays above it.
    """
    size = log_terms.shape[-1]

    def step(_, c):
        return _newton(c, exponent, log_terms, jnp, logsumexp)

    return lax.fori_loop(0, 10, step, 2.0 * exponent + 2.0 * size)


def _newton(c, exponent, log_terms, numpy, logsumexp):
    """A step of :func:`_threshold`, in NumPy or JAX."""
    degrees = numpy.arange(log_terms.shape[-1], dtype=log_terms.dtype)
    degrees = numpy.broadcast_to(degrees, log_terms.shape)
    terms = log_terms + degrees * numpy.log(c)[..., None]
    total = logsumexp(terms, axis=-1)
    mean = numpy.sum(degrees * numpy.exp(terms - total[..., None]), axis=-1)
    step = (c - total - exponent) / numpy.maximum(1.0 - mean / c, 1e-6)
    return numpy.maximum(c - step, numpy.maximum(exponent, 1e-30))


def _with_draws(exponent, draws_n, draws_m):
    """The threshold for fixed numbers of draws, from only the coefficients that these need."""
    exponent = jnp.asarray(exponent, jnp.float32)
    row = _log_terms(threshold_coefficients(1)[draws_n, draws_m, : 2 + draws_n + draws_m])
    return _threshold(exponent, jnp.broadcast_to(row, (*exponent.shape, *row.shape)))


def transport_threshold(exponent: Number):
    """The c with e^-c (1 + c + 3 c^2 / 8 + c^3 / 24) = e^-exponent, for one draw in each sum.

    A test passes if :func:`transport_cost` of the private means, clipped to [0, 1], is at least c.
    Each sum of losses has one Laplace draw of scale 1 / epsilon, and c is the same for every
    epsilon < inf.

    Proof, ours: suppose that the arm with the smaller private mean has the larger true mean. The
    cost of moving to a u between the true means is at most a sum of two terms epsilon Z+ + n kl+,
    one for each arm. Z is the noise in the arm's sum, and kl+ is the one-sided divergence of the
    mean without noise from the true mean. By Chernoff's bound n kl+ exceeds c with probability at
    most e^-c. Each epsilon Z+ is 0 or Exp(1), with probability 1/2 each. All four numbers are
    independent.
    """
    return _with_draws(exponent, 1, 1)


def transport_threshold_plain(exponent: Number):
    """The c with e^-c (1 + c) = e^-exponent: :func:`transport_threshold` for epsilon = inf."""
    return _with_draws(exponent, 0, 0)


@functools.lru_cache
def threshold_lines(most: int = MOST_DRAWS):
    """(intercepts, slopes), both (most + 1, n): lines above the thresholds of 0 .. most draws.

    The exact threshold for ``draws`` in each sum solves e^-c sum_i A[draws, draws, i] c^i / i! =
    e^-exponent with :func:`threshold_coefficients`. Line i is a chord between the exponents i and
    i + 1 of EXPONENTS, lifted above the curve of thresholds. It is too high by at most 0.3 %.
    Thresholds are concave for large exponents, so the last line is also above them beyond
    EXPONENTS.
    """
    every = np.arange(most + 1)
    terms = _log_terms(threshold_coefficients(most)[every, every]).astype(np.float64)[:, None]
    parts = np.linspace(0.0, 1.0, 9)
    between = EXPONENTS[:-1, None] + parts * np.diff(EXPONENTS)[:, None]
    exponents = between.reshape(1, -1)
    c = np.broadcast_to(2.0 * exponents + 4.0 * most, (most + 1, exponents.size))
    for _ in range(14):
        c = _newton(c, exponents, terms, np, scipy.special.logsumexp)
    c = c.reshape(most + 1, *between.shape)
    slopes = (c[..., -1] - c[..., 0]) / np.diff(EXPONENTS)
    chords = c[..., :1] + slopes[..., None] * (between - between[:, :1])
    intercepts = c[..., 0] - slopes * EXPONENTS[:-1] + (c - chords).max(axis=-1)
    return intercepts, slopes


def transport_threshold_kept(exponent: Number, draws: Array):
    """:func:`transport_threshold` for sums of several Laplace draws of scale 1 / epsilon each.

    ``draws`` is int32, the larger number of draws in the two sums. (The positive part of a sum of
    fewer draws is stochastically smaller, since each draw adds a symmetric unimodal variable.) The
    result is computed from :func:`threshold_lines`, at most 0.3 % too high. It is inf for more than
    MOST_DRAWS draws. Exponents below 1 count as 1.
    """
    exponent, draws = jnp.asarray(exponent, jnp.float32), jnp.asarray(draws, jnp.int32)
    exponent, draws = jnp.broadcast_arrays(jnp.maximum(exponent, 1.0), draws)
    edges = np.float32(EXPONENTS[1:-1]).reshape(*[1] * exponent.ndim, -1)
    place = jnp.sum(exponent[..., None] >= edges, axis=-1, dtype=jnp.int32)
    row = jnp.clip(draws, 0, MOST_DRAWS)
    intercepts, slopes = (jnp.asarray(lines, jnp.float32) for lines in threshold_lines())
    threshold = intercepts[row, place] + slopes[row, place] * exponent
    return jnp.where(draws <= MOST_DRAWS, threshold, jnp.inf)


def optimal_weights(means: Array, epsilon: Number):
    """The sampling proportions (K,) that identify the best arm soonest, for mean losses (K,).

    They are the proportions of :func:`dpjax.bounds.characteristic_time`, computed by its method
    with fewer steps and accurate to about 1e-3. Means are clipped to [1e-3, 1 - 1e-3] and gaps to
    at least 1e-4. An epsilon below 1/500 of the smallest gap is raised to this value, since smaller
    values do not change the weights.

    If all means are equal, no proportions identify a best arm. The result is then the limit for a
    first arm that is slightly better: 1 / (1 + sqrt(K - 1)) for it, and equal shares of the rest.
    """
    means = jnp.clip(jnp.asarray(means, jnp.float32), 1e-3, 1.0 - 1e-3)
    arms = means.shape[0]
    others = jnp.arange(arms) != jnp.argmin(means)
    best = jnp.min(means)
    gaps = jnp.maximum(means - best, 1e-4)
    best = jnp.minimum(best, 1.0 - 1e-3 - jnp.max(gaps))
    least = jnp.min(jnp.where(others, gaps, 1.0))
    epsilon = jnp.clip(jnp.asarray(epsilon, jnp.float32), 0.002 * least, _INFINITE)

    def costs(part):
        """(f, g, f + x g) at the mean u = best + part gaps, as in characteristic_time."""
        distance, remaining = part * gaps, (1.0 - part) * gaps
        u, rest = best + distance, 1.0 - best - distance
        f, g = _departure(rest, u, distance, epsilon), _departure(u, rest, remaining, epsilon)
        slopes = _slope(rest, u, distance, epsilon), _slope(u, rest, remaining, epsilon)
        return f, g, f + g * slopes[0] / slopes[1]

    def bisect(look, low, high, start, steps):
        """The values at the root, for look(middle) -> (whether the root is above, values)."""

        def halve(_, bracket):
            low, high, _ = bracket
            middle = 0.5 * (low + high)
            above, value = look(middle)
            return jnp.where(above, middle, low), jnp.where(above, high, middle), value

        # The last iteration evaluates the root itself.
        return lax.fori_loop(0, steps + 1, halve, (low, high, start))[2]

    def costs_where(condition):
        def look(part):
            value = costs(part)
            return condition(*value), value

        return bisect(look, jnp.zeros(arms), jnp.ones(arms), (jnp.zeros(arms),) * 3, 14)

    def level_where_ratio_is(ratio):
        level = costs_where(lambda f, g, level: f < ratio * g)[2]
        return jnp.min(jnp.where(others, level, jnp.inf))

    def samples_at(v):
        f, g, _ = costs_where(lambda f, g, level: level < v)
        samples = jnp.where(others, jnp.maximum(v - f, 0.0) / g, 1.0)
        return jnp.sum(jnp.where(others, f / g, 0.0)) < 1.0, samples

    low, high = jax.vmap(level_where_ratio_is)(jnp.float32([1.0 / (arms - 1.0), 1.0]))
    samples = bisect(samples_at, low, high, jnp.zeros(arms), 12)
    return samples / jnp.sum(samples)
