"""Every privacy noise of the package, and sampling that is itself the release.

Each function takes a key, which it consumes, and returns the noisy release. Scales are
arguments: how a scale follows from epsilon is the business of :mod:`dpjax.privacy`. A scale
of 0 returns the value itself. Draws are float32 idealisations of the continuous laws; the
Laplace draw, for instance, never exceeds 22.2 scales.

What is released is marked: the functions of SITES appear by their names in the jaxpr of a learner's
step, where :mod:`dpjax.audit` finds what went in and what came out. Compilers inline them.
"""

import math
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax import random as jr

from dpjax import exact_sums
from dpjax.core import within
from dpjax.exact_sums import ExactSum


@jax.jit
def laplace(key, value, scale):
    """``value`` plus independent Laplace noise of density exp(-|x| / scale) / (2 scale)."""
    value = jnp.asarray(value)
    draw = _as_laplace(_words(key, value.shape)).astype(value.dtype)
    return value + jnp.asarray(scale, value.dtype) * draw


def laplace_total(key, total, scale) -> ExactSum:
    """An ExactSum plus independent Laplace noise of that scale, as it is and not as a float32 near.

    So it hides one loss however many there are. (A float32 of 2^27 takes up noise of scale 1
    one time in a hundred.) Noise is a float32, and rounded to 2^-30; what passes 2^31 is cut, which
    begins to matter at a scale of 10^8.
    """
    return ExactSum(*laplace_words(key, jnp.stack(total), scale))


@jax.jit
def laplace_words(key, value, scale):
    """:func:`laplace_total` of the two words of a sum, (2, *shape) int32."""
    draw = _as_laplace(_words(key, value.shape[1:]))
    return _with_noise(value, jnp.asarray(scale, jnp.float32) * draw)


def _with_noise(words, draw):
    return jnp.stack(exact_sums.shifted(ExactSum(*words), draw))


@partial(jax.jit, static_argnums=1)
def normal(key, shape=()):
    """Independent standard normal draws, (*shape) float32."""
    return _as_normal(_words(key, shape))


def _words(key, shape):
    """Random words, (*shape) uint32: both of each block of the generator.

    jax.random.bits makes one word of a block, at the same cost.
    """
    count = math.prod(shape)
    if count < 2:
        return jr.bits(key, shape, jnp.uint32)
    pairs = jr.key_data(jr.split(key, -(-count // 2)))
    return pairs.reshape(-1)[:count].reshape(shape)


def _sign_and_tail(words):
    """Of each word one bit, as bool, and the 31 others as a number in (0, 1], float32.

    Small numbers have all their digits: what is made of them reaches as far as 31 bits can, where
    the 23 bits of jax.random's draws end.
    """
    whole = lax.convert_element_type(words >> 1, jnp.int32)
    return (words & 1) == 1, (whole.astype(jnp.float32) + 0.5) * 2.0**-31


def _as_laplace(words):
    """Laplace draws of scale 1: a sign each, and -ln u, at most 22.2."""
    sign, u = _sign_and_tail(words)
    size = -jnp.log(u)
    return jnp.where(sign, size, -size)


# sqrt(2) erfinv(x) / x by w = -ln(1 - x^2): in w - 5/2 up to w = 5, in sqrt(w) - 7/2 from there to
# w = 22.9. By least squares of relative errors on Chebyshev nodes; tests/test_noise.py bounds them.
_CENTRE = (
    4.03531816e-08, 4.86101997e-07, -4.99054777e-06, -6.21797166e-06, 3.09150139e-04,
    -1.77301022e-03, -5.90817090e-03, 3.48802660e-01, 2.12331357e00,
)  # fmt: skip
_TAIL = (
    -2.39583315e-04, 7.98420295e-04, -1.09656614e-03, 1.41187617e-03, -2.84987402e-03,
    4.66930313e-03, 1.42462629e00, 4.71708759e00,
)  # fmt: skip


def _polynomial(coefficients, x):
    value = coefficients[0]
    for coefficient in coefficients[1:]:
        value = value * x + coefficient
    return value


def _as_normal(words):
    """Standard normal draws: a sign each, and the u / 2 quantile of the tail, at most 6.3.

    With 1 - u the probability of a smaller size, as Giles 2011, "Approximating the erfinv
    function", has it.
    """
    sign, u = _sign_and_tail(words)
    w = -jnp.log(u * (2.0 - u))
    ratio = jnp.where(
        w < 5.0,
        _polynomial(_CENTRE, w - 2.5),
        _polynomial(_TAIL, jnp.sqrt(w) - 3.5),
    )
    size = (1.0 - u) * ratio
    return jnp.where(sign, size, -size)


def laplace_sum(key, total, scale, count) -> ExactSum:
    """An ExactSum plus the sum of ``count`` independent Laplace draws of that scale.

    Exact as :func:`laplace_total` is. A Laplace variable is Gaussian with the variance 2 E scale^2
    for an exponential E; their sum has the variance 2 G scale^2 for a Gamma variable G of shape
    count. Where count is large float32 distorts the tails of G, and G hardly differs from count.
    """
    return ExactSum(*laplace_sum_words(key, jnp.stack(total), scale, count))


@jax.jit
def laplace_sum_words(key, value, scale, count):
    """:func:`laplace_sum` of the two words of a sum, (2, *shape) int32."""
    gamma_key, normal_key = jr.split(key)
    shape = value.shape[1:]
    count = jnp.broadcast_to(jnp.asarray(count), shape).astype(jnp.float32)
    mixed = jnp.exp(log_gamma(gamma_key, jnp.maximum(count, 1.0)))
    mixed = jnp.where(count > 0.0, mixed, 0.0)
    draw = jnp.sqrt(2.0 * mixed) * normal(normal_key, shape)
    return _with_noise(value, jnp.asarray(scale, jnp.float32) * draw)


@jax.jit
def laplace_along(key, value, scale, weights):
    """``value`` () plus <Z, weights> for a vector Z of independent Laplace draws of that scale.

    What noise on a loss vector makes of its value at the point ``weights`` (d,). Densities of a
    shifted value differ by at most e^(|shift| / (scale |weights|_inf)).
    """
    draw = _as_laplace(_words(key, weights.shape))
    return value + jnp.sum(jnp.asarray(scale, weights.dtype) * draw * weights)


@jax.jit
def gaussian(key, value, scale):
    """``value`` plus independent Gaussian noise of standard deviation ``scale``."""
    value = jnp.asarray(value)
    return value + jnp.asarray(scale, value.dtype) * normal(key, value.shape).astype(value.dtype)


@jax.jit
def wishart(key, value, scale, freedom):
    """``value`` (p, p) plus ``scale`` (W - k I), W ~ Wishart_p(I, k): centred Wishart noise.

    ``freedom`` is k, at least p + 1, of any size. By Bartlett: W = A A' for A = sqrt(k) I + B, B
    lower triangular, normal off the diagonal, with A_ii^2 ~ chi-square(k - i), i = 0 .. p - 1. So
    W - k I = sqrt(k) (B + B') + B B' is formed without the k that cancels, which in float32 would
    take most digits of it along.
    """
    value = jnp.asarray(value)
    size, dtype = value.shape[0], value.dtype
    k = jnp.asarray(freedom, dtype)
    normal_key, chi_key = jr.split(key)
    below = jnp.tril(normal(normal_key, (size, size)), -1)
    b = below + jnp.diag(_centred_chi(chi_key, k, size))
    product = jnp.sum(b[:, None, :] * b[None, :, :], axis=2)
    return value + jnp.asarray(scale, dtype) * (jnp.sqrt(k) * (b + b.T) + product)


def _centred_chi(key, k, size):
    """sqrt(X_i) - sqrt(k), X_i ~ chi-square(k - i), for i = 0 .. size - 1.

    X = 2 d (1 + t)^3 with 2 d = k - i - 2/3.
    """
    missing = jnp.arange(size).astype(k.dtype) + 2.0 / 3.0
    d = 0.5 * (k - missing)
    root = jnp.sqrt(2.0 * d)
    t = _marsaglia_tsang(key, d)
    return root * jnp.expm1(1.5 * jnp.log1p(t)) - missing / (root + jnp.sqrt(k))


def log_gamma(key, shape):
    """ln X for independent X_i ~ Gamma(shape_i), shapes (...) of at least 1; float32 (...).

    The loop of jax.random.loggamma can fail to end where it is mapped: its condition, computed once
    for the loop and once for each member, may round in two ways (seen in float32, JAX 0.10, about
    once in a million draws of shape 3e5).
    """
    d = shape - 1.0 / 3.0
    return jnp.log(d) + 3.0 * jnp.log1p(_marsaglia_tsang(key, d))


def _marsaglia_tsang(key, d):
    """t, as d (...), such that d (1 + t)^3 ~ Gamma(d + 1/3), d at least 2/3.

    Marsaglia & Tsang 2000: t = x / sqrt(9 d), x normal, is accepted where ln u < 3 d (ln(1 + t) - t
    + t^2 / 2 - t^3 / 3), all but about one in 36 d times.
    """

    def propose(carry):
        index, t, accepted = carry
        normal_key, uniform_key = jr.split(jr.fold_in(key, index))
        fresh = normal(normal_key, d.shape) / jnp.sqrt(9.0 * d)
        level = 1.0 - jr.uniform(uniform_key, d.shape, d.dtype)
        possible = fresh > -1.0
        inside = jnp.where(possible, fresh, 0.0)
        passed = possible & (jnp.log(level) <= 3.0 * d * _log1p_tail(inside))
        return index + 1, jnp.where(accepted, t, inside), accepted | passed

    # A d that is none, such as NaN, would be refused for ever.
    hopeless = ~((d > 0.0) & (d < jnp.inf))
    start = (jnp.zeros((), jnp.int32), jnp.zeros(d.shape, d.dtype), hopeless)
    return lax.while_loop(lambda carry: ~jnp.all(carry[2]), propose, start)[1]


def _log1p_tail(x):
    """ln(1 + x) - x + x^2 / 2 - x^3 / 3, to full relative accuracy for small x too."""
    series = 0.0
    for n in range(10, 3, -1):
        series = -((-1) ** n) / n + x * series
    square = x * x
    direct = jnp.log1p(x) - x + 0.5 * square - square * x / 3.0
    return jnp.where(jnp.abs(x) < 0.1, series * square * square, direct)


@jax.jit
def choose(key, probabilities):
    """An index drawn with the given probabilities, (n,) -> () int32.

    By inversion, with one uniform number of 23 bits: an index whose probability is below
    2^-23 is not drawn in proportion. An index of probability 0 is never drawn, where the
    backend adds a running sum from left to right, as the CPU does.
    """
    cumulative = _running_sum(probabilities)
    # Scaled by the computed total: the rounding of the sum then favours no index.
    level = jr.uniform(key, dtype=cumulative.dtype) * cumulative[-1]
    return jnp.sum(level >= cumulative[:-1], dtype=jnp.int32)


def _running_sum(x):
    """x_1 + ... + x_i for all i, (n,). Where x_i is 0, exactly what it was before.

    Compilers add every one of them anew: of many, therefore, within rows, and row by row.
    """
    if len(x) <= 8:
        return jnp.cumsum(x)
    width = math.isqrt(len(x) - 1) + 1
    rows = jnp.pad(x, (0, -len(x) % width)).reshape(-1, width)
    within = jnp.cumsum(rows, axis=1)
    before = jnp.pad(jnp.cumsum(within[:-1, -1]), (1, 0))
    return (before[:, None] + within).reshape(-1)[: len(x)]


@jax.jit
def coin(key, probability):
    """True with the given probability, () bool."""
    return jr.uniform(key) < probability


@jax.jit
def laplace_prefix(release, key, value, scale, sensitivity):
    """``release``: the prefix sum with Laplace noise after ``value`` has been added to it.

    Args:
      release: noisy sum of all values so far.
      key: from which the noise was drawn.
      value: the latest one.
      scale: of each draw.
      sensitivity: largest L1 norm of a column of the encoder.
    """
    del key, value, scale, sensitivity
    return release


@jax.jit
def gaussian_prefix(release, key, value, scale, sensitivity):
    """``release``, as :func:`laplace_prefix`, with Gaussian noise and largest L2 norm."""
    del key, value, scale, sensitivity
    return release


SITES = (
    "laplace",
    "laplace_words",
    "laplace_sum_words",
    "laplace_along",
    "gaussian",
    "choose",
    "coin",
    "laplace_prefix",
    "gaussian_prefix",
)


def binomial(key, count, probability):
    """Binomial(count, probability) for int32 counts up to 2^31 - 1; () int32.

    Not a privacy noise: environments draw the losses of a whole batch with it. jax.random.binomial
    forms the mean and the log-likelihoods in float32, where they lose their digits from 2^17
    trials on. Here the mean is exact, and everything else is a distance from it, which float32
    holds: the law is right up to the 23 bits of a uniform number.

    Rejection from a transformed uniform law, Hormann 1993 (BTRS), where the mean is at least 10;
    below, the number of geometric waiting times that fit into count.
    """
    count, probability = jnp.asarray(count, jnp.int32), jnp.asarray(probability, jnp.float32)
    probability = within(probability, 0.0, 1.0)  # rejection of NaN would not end
    few_key, many_key = jr.split(key)
    p = jnp.minimum(probability, 1.0 - probability)
    few = count.astype(jnp.float32) * p < 10.0
    successes = jnp.where(
        few,
        _few_successes(few_key, count, p, few),
        _many_successes(many_key, count, p, few),
    )
    return jnp.where(probability > 0.5, count - successes, successes)


def _few_successes(key, count, p, wanted):
    """How many geometric waiting times fit into count trials; 0 at once unless wanted."""
    rate = jnp.log1p(-p)
    trials = count.astype(jnp.float32)

    def wait(carry):
        index, position = carry
        # In (0, 1], so that the logarithm is finite.
        level = 1.0 - jr.uniform(jr.fold_in(key, index))
        return index + 1, position + jnp.maximum(jnp.ceil(jnp.log(level) / rate), 1.0)

    # After a success at a position beyond count the last one does not fit.
    start = (jnp.zeros((), jnp.int32), jnp.where(wanted, 0.0, jnp.inf))
    index, _ = lax.while_loop(lambda carry: carry[1] <= trials, wait, start)
    return jnp.maximum(index - 1, 0)


def _many_successes(key, count, p, unwanted):
    """BTRS around the mode m, in distances d = k - m; anything where unwanted."""
    q = 1.0 - p
    whole, part = _exact_product(count, p)
    mode = whole + jnp.floor(part + p).astype(jnp.int32)  # floor((count + 1) p)
    above = mode.astype(jnp.float32) + 1.0
    below = (count - mode).astype(jnp.float32) + 1.0
    offset = (whole - mode).astype(jnp.float32)
    # ln of p (count - mode + 1) / (q (mode + 1)).
    drift = jnp.log1p((offset + part - 1.0 + 2.0 * p) / (above * q))
    spread = jnp.sqrt(count.astype(jnp.float32) * p * q)
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    height = (2.83 + 5.1 / b) * spread

    def log_ratio(d):
        """ln of the probability of mode + d over that of the mode, terms that cancel left out."""
        up, down = d / above, -d / below
        bend = (above + d - 0.5) * _log1p_bend(up) + (below - d - 0.5) * _log1p_bend(down)
        linear = d * drift - up * (d - 0.5) + down * (d + 0.5)
        tails = _stirling(above) + _stirling(below) - _stirling(above + d) - _stirling(below - d)
        return linear - bend + tails

    def propose(carry):
        index, _, _ = carry
        u, v = jr.uniform(jr.fold_in(key, index), (2,))
        u = u - 0.5
        us = 0.5 - jnp.abs(u)
        d = jnp.floor((2.0 * a / us + b) * u + part + 0.5) + offset
        possible = (d > -above) & (d < below)
        d = jnp.where(possible, d, 0.0)
        inner = (us >= 0.07) & (v <= 0.92 - 4.2 / b)
        outer = jnp.log(v * height / (a / (us * us) + b)) <= log_ratio(d)
        return index + 1, d, possible & (inner | outer)

    start = (jnp.zeros((), jnp.int32), jnp.zeros((), jnp.float32), unwanted)
    _, d, _ = lax.while_loop(lambda carry: ~carry[2], propose, start)
    return mode + d.astype(jnp.int32)


def _exact_product(count, p):
    """count p as an int32 and a float32 in [0, 1). 12 by 12 bits multiply exactly."""
    high = lax.bitcast_convert_type(
        lax.bitcast_convert_type(p, jnp.int32) & jnp.int32(-4096), jnp.float32
    )
    whole, part = jnp.zeros((), jnp.int32), jnp.zeros((), jnp.float32)
    for shift in (0, 11, 22):
        digits = ((count >> shift) & 2047).astype(jnp.float32) * 2.0**shift
        for factor in (high, p - high):
            product = digits * factor
            floor = jnp.floor(product)
            whole, part = whole + floor.astype(jnp.int32), part + (product - floor)
    carry = jnp.floor(part)
    return whole + carry.astype(jnp.int32), part - carry


def _log1p_bend(x):
    """ln(1 + x) - x, to full relative accuracy for small x too."""
    series = 0.0
    for n in range(9, 1, -1):
        series = -((-1) ** n) / n + x * series
    return jnp.where(jnp.abs(x) < 0.1, series * x * x, jnp.log1p(x) - x)


def _stirling(x):
    """ln Gamma(x) - (x - 1/2) ln x + x - ln(2 pi) / 2, within 3e-4 at x = 1 and 2e-8 from 6 on."""
    inverse = 1.0 / x
    square = inverse * inverse
    return (1.0 / 12.0 - (1.0 / 360.0 - square / 1260.0) * square) * inverse
