"""Random draws that are not private releases. Audits ignore them."""

import math
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax import random as jr

from dpjax.core import Array, Number, _check
from dpjax.maths import exact_sums
from dpjax.maths.clipping import within


def ties(values: Array, size: Number):
    """The values (n,) that are within 1e-6 ``size`` of the smallest one, (n,) bool.

    Values that are equal as real numbers may differ by rounding, and even one value may be computed
    in two ways in the same program. The differences depend on the version of JAX and on the
    processor. They are smaller than the tolerance, so rounding does not choose among such values.

    Args:
      values: (n,).
      size: (), the size of the terms whose differences the values are.
    """
    least = jnp.min(values)
    # XLA compiles a faster program than for a comparison with the sum of ``least`` and a tolerance.
    return (values == least) | (values - least <= 1e-6 * size)


def lowest(means: Array, widths: Array, terms: int):
    """The lower confidence bounds ``means - widths`` that tie with the smallest one, (n,) bool.

    Args:
      means, widths: (n,), sums of ``terms`` products each. Their rounding errors grow as the square
        root of ``terms``.
    """
    bounds = means - widths
    # The mean of the smallest bound is at most |bound| + width. XLA compiles a faster program than
    # for the largest |mean| + width.
    size = jnp.abs(jnp.min(bounds)) + 2.0 * jnp.max(widths)
    return ties(bounds, terms**0.5 * size)


def smallest(key: Array, values: Array):
    """The index of the smallest of the values (n,), () int32, with random tie-breaking.

    A fixed order among ties would favour the same arms in every trial. Integers tie if they are
    equal, and other values if they differ by at most 1e-6 max(1, |smallest|).
    """
    _check.key(key=key)
    least = jnp.min(values)
    if jnp.issubdtype(values.dtype, jnp.integer):
        tied = values == least
    else:
        tied = ties(values, jnp.clip(jnp.abs(least), 1.0, 1e30))
    count = jnp.sum(tied, dtype=jnp.int32)
    rank = jnp.floor(jax.random.uniform(key) * count.astype(jnp.float32)).astype(jnp.int32)
    rank = jnp.minimum(rank, count - 1)  # The product may round up to count.
    chosen = tied & (jnp.cumsum(tied, dtype=jnp.int32) == rank + 1)
    return jnp.sum(jnp.where(chosen, jnp.arange(values.shape[0]), 0), dtype=jnp.int32)


@partial(jax.jit, static_argnums=1)
def normal(key: Array, shape: tuple[int, ...] = ()):
    """Independent standard normal draws, (*shape) float32."""
    return as_normal(random_words(key, shape))


def random_words(key: Array, shape: tuple[int, ...]):
    """Random words, (*shape) uint32, two from each block of the generator.

    jax.random.bits uses only one word of each block, at the same cost.
    """
    _check.key(key=key)
    count = math.prod(shape)
    if count < 2:
        return jr.bits(key, shape, jnp.uint32)
    pairs = jr.key_data(jr.split(key, -(-count // 2)))
    return pairs.reshape(-1)[:count].reshape(shape)


# A level is a uniform number of 60 bits, in two words of 30.
_WORD = 30
_MASK = 2**_WORD - 1


def level(key: Array):
    """A uniform number of 60 bits, as two words of 30 bits, () int32 each.

    It uses the same block of the generator as jax.random.uniform. Its first 23 bits are the bits of
    that draw.
    """
    _check.key(key=key)
    first, second = jr.key_data(jr.split(key, 1))[0]
    high, low = first ^ second, second
    return tuple(lax.convert_element_type(word >> 2, jnp.int32) for word in (high, low))


def below(key: Array, parts: Array):
    """True with probability p, the sum of ``parts`` (n,), () bool.

    Each part is rounded to the nearest multiple of 2^-60. Then the parts are added without error.
    """
    limit = exact_sums.of(parts * 2.0**_WORD)
    total = jax.tree.map(lambda x: x[0], limit)
    for i in range(1, len(parts)):
        total = exact_sums.add(total, jax.tree.map(lambda x, i=i: x[i], limit))
    high, low = level(key)
    return (high < total.whole) | ((high == total.whole) & (low < total.part))


def index_of(key: Array, weights: Array):
    """An index drawn in proportion to weights (n,) that are in [0, 1] and add up to about 1.

    Weights are rounded down to multiples of a unit, 2^-55 for up to eight of them and 2^-48 for a
    million. The rest is integer arithmetic: with S the sum of the weights in units, index i is
    drawn with probability w_i / S, up to three units of S.
    """
    places = _places(len(weights))
    high, low = _digits(weights, 28, places)
    return _drawn(level(key), high, low, places)


def index_of_powers(key: Array, exponents: Array):
    """An index drawn in proportion to e^-x for x (n,) >= 0, at least one of them 0.

    For x below 1/2 the digits of 1 - e^-x are kept. So rounding changes the logarithm of a weight
    by at most 2^-20 x. All else is as in :func:`index_of`, with a unit that is up to n times as
    large.
    """
    places = _places(len(exponents))
    bits = 29 - (len(exponents) - 1).bit_length()
    small = exponents < 0.5
    missing = exponents * _polynomial(_MISSING, exponents)
    high, low = _digits(jnp.where(small, missing, jnp.exp(-exponents)), bits, places)
    high, low = jnp.where(small, 2**bits - high, high), jnp.where(small, -low, low)
    return _drawn(level(key), high, low, places)


# (1 - e^-x) / x up to x = 1/2, within 2^-26.
_MISSING = tuple((-1.0) ** k / math.factorial(k + 1) for k in range(7, -1, -1))


def _places(count):
    """The number of bits of a weight's second word. With it, the sum of a row fits into 30 bits."""
    return _WORD - (_width(count) - 1).bit_length()


def _digits(values, bits, places):
    """Values as two words: multiples of 2^-bits, and the rest in units of 2^-(bits + places)."""
    scaled = values * 2.0**bits
    high = jnp.floor(scaled)
    low = jnp.floor((scaled - high) * 2.0**places)
    return high.astype(jnp.int32), low.astype(jnp.int32)


def _drawn(level, high, low, places):
    """The index whose interval of cumulative weights contains the level times their sum."""
    high, low = _running_words(high, low, places)
    at_high, at_low = _scaled(level, high[-1], low[-1], places)
    high, low = high[:-1], low[:-1]
    reached = (at_high > high) | ((at_high == high) & (at_low >= low))
    return jnp.sum(reached, dtype=jnp.int32)


def _scaled(level, high, low, places):
    """S U / 2^60 for a level U and S of words ``high`` < 2^30 and ``low``; at most 3 units less."""
    first, second = level
    whole, rest = _product(high, first)
    rest = rest + _product(high, second)[0]
    whole, rest = whole + (rest >> _WORD), rest & _MASK
    rest = (rest >> (_WORD - places)) + _product(low, first)[0]
    return whole + (rest >> places), rest & (2**places - 1)


def _product(a, b):
    """a b for int32 a and b below 2^30, as (whole, part): whole 2^30 + part."""
    a_high, a_low, b_high, b_low = a >> 15, a & 0x7FFF, b >> 15, b & 0x7FFF
    middle = a_high * b_low + a_low * b_high
    part = ((middle & 0x7FFF) << 15) + a_low * b_low
    return a_high * b_high + (middle >> 15) + (part >> _WORD), part & _MASK


def sign_and_tail(words: Array):
    """One bit of each word as a bool, and the 31 others as a float32 number in (0, 1].

    Small numbers have full precision. So draws made from them have the longest tails that 31 bits
    allow. The draws of jax.random have 23 bits and shorter tails.
    """
    whole = lax.convert_element_type(words >> 1, jnp.int32)
    return (words & 1) == 1, (whole.astype(jnp.float32) + 0.5) * 2.0**-31


@jax.jit
def as_laplace(words: Array):
    """Laplace draws of scale 1: a random sign times -ln u, with absolute values up to 22.2."""
    sign, u = sign_and_tail(words)
    size = -jnp.log(u)
    return jnp.where(sign, size, -size)


# Polynomials for sqrt(2) erfinv(x) / x with w = -ln(1 - x^2): in w - 5/2 up to w = 5, and in
# sqrt(w) - 7/2 from there to w = 22.9. They were fitted by least squares of relative errors at
# Chebyshev nodes. Tests bound the errors.
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


@jax.jit
def as_normal(words: Array):
    """Standard normal draws: a random sign times the u / 2 quantile of the tail, at most 6.3.

    1 - u is the probability of a smaller absolute value. The formula is from Giles 2011,
    "Approximating the erfinv function".
    """
    sign, u = sign_and_tail(words)
    w = -jnp.log(u * (2.0 - u))
    ratio = jnp.where(
        w < 5.0,
        _polynomial(_CENTRE, w - 2.5),
        _polynomial(_TAIL, jnp.sqrt(w) - 3.5),
    )
    size = (1.0 - u) * ratio
    return jnp.where(sign, size, -size)


def centred_chi(key: Array, k: Array, size: int):
    """sqrt(X_i) - sqrt(k) for X_i ~ chi-square(k - i), i = 0 .. size - 1.

    X_i = 2 d (1 + t)^3 with 2 d = k - i - 2/3.
    """
    missing = jnp.arange(size).astype(k.dtype) + 2.0 / 3.0
    d = 0.5 * (k - missing)
    root = jnp.sqrt(2.0 * d)
    t = _marsaglia_tsang(key, d)
    return root * jnp.expm1(1.5 * jnp.log1p(t)) - missing / (root + jnp.sqrt(k))


def log_gamma(key: Array, shape: Array):
    """ln X for independent X_i ~ Gamma(shape_i), with shapes (...) of at least 1; float32 (...).

    jax.random.loggamma may loop forever under vmap. The condition of its loop is computed once for
    the loop and once for each member, and both results may be rounded differently (observed in
    float32, JAX 0.10, about once in a million draws of shape 3e5).
    """
    d = shape - 1.0 / 3.0
    return jnp.log(d) + 3.0 * jnp.log1p(_marsaglia_tsang(key, d))


def _marsaglia_tsang(key, d):
    """t (...) such that d (1 + t)^3 ~ Gamma(d + 1/3), for d (...) of at least 2/3.

    Marsaglia & Tsang 2000: t = x / sqrt(9 d) with x normal is accepted if
    ln u < 3 d (ln(1 + t) - t + t^2 / 2 - t^3 / 3). About one in 36 d proposals is rejected.
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

    # If d is NaN, infinite or not positive, no proposal would be accepted.
    hopeless = ~((d > 0.0) & (d < jnp.inf))
    start = (jnp.zeros((), jnp.int32), jnp.zeros(d.shape, d.dtype), hopeless)
    return lax.while_loop(lambda carry: ~jnp.all(carry[2]), propose, start)[1]


def _log1p_tail(x):
    """ln(1 + x) - x + x^2 / 2 - x^3 / 3, accurate for small x too."""
    series = _log1p_terms(x, 4, 10)
    square = x * x
    direct = jnp.log1p(x) - x + 0.5 * square - square * x / 3.0
    return jnp.where(jnp.abs(x) < 0.1, series * square * square, direct)


@jax.jit
def binomial(key: Array, count: Array, probability: Number):
    """A draw from Binomial(count, probability) for int32 counts up to 2^31 - 1; () int32.

    Environments use it to draw the losses of a whole batch. jax.random.binomial computes the mean
    and the log-likelihoods in float32, which is inaccurate from 2^17 trials on. Here the mean is
    exact, and all other quantities are distances from the mean, which are accurate in float32. So
    the law is exact up to the 23 bits of a uniform number.

    If the mean is at least 10, the draw is by rejection from a transformed uniform law (BTRS;
    Hormann 1993). Otherwise it is the number of geometric waiting times that fit into ``count``.
    """
    _check.key(key=key)
    count, probability = jnp.asarray(count, jnp.int32), jnp.asarray(probability, jnp.float32)
    probability = within(probability, 0.0, 1.0)  # With NaN, rejection would not end.
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
    """The number of geometric waiting times that fit into ``count``. No loop unless ``wanted``."""
    rate = jnp.log1p(-p)
    trials = count.astype(jnp.float32)

    def wait(carry):
        index, position = carry
        # The level is in (0, 1], so that its logarithm is finite.
        level = 1.0 - jr.uniform(jr.fold_in(key, index))
        return index + 1, position + jnp.maximum(jnp.ceil(jnp.log(level) / rate), 1.0)

    # The last success came after trial ``count``.
    start = (jnp.zeros((), jnp.int32), jnp.where(wanted, 0.0, jnp.inf))
    index, _ = lax.while_loop(lambda carry: carry[1] <= trials, wait, start)
    return jnp.maximum(index - 1, 0)


def _many_successes(key, count, p, unwanted):
    """BTRS around the mode m, in distances d = k - m. The result is arbitrary if ``unwanted``."""
    q = 1.0 - p
    whole, part = _exact_product(count, p)
    mode = whole + jnp.floor(part + p).astype(jnp.int32)  # floor((count + 1) p)
    above = mode.astype(jnp.float32) + 1.0
    below = (count - mode).astype(jnp.float32) + 1.0
    offset = (whole - mode).astype(jnp.float32)
    # drift = ln(p (count - mode + 1) / (q (mode + 1)))
    drift = jnp.log1p((offset + part - 1.0 + 2.0 * p) / (above * q))
    spread = jnp.sqrt(count.astype(jnp.float32) * p * q)
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    height = (2.83 + 5.1 / b) * spread

    def log_ratio(d):
        """ln of the probability of mode + d over that of the mode, without cancellation."""
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
    """count p as an int32 and a float32 in [0, 1).

    The product of two numbers of 12 bits is exact in float32.
    """
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
    """ln(1 + x) - x, accurate for small x too."""
    series = _log1p_terms(x, 2, 9)
    return jnp.where(jnp.abs(x) < 0.1, series * x * x, jnp.log1p(x) - x)


def _log1p_terms(x, first, last):
    """The terms first .. last of the series of ln(1 + x), divided by x^first."""
    series = 0.0
    for n in range(last, first - 1, -1):
        series = -((-1) ** n) / n + x * series
    return series


def _stirling(x):
    """ln Gamma(x) - (x - 1/2) ln x + x - ln(2 pi) / 2, within 3e-4 at x = 1 and 2e-8 from 6 on."""
    inverse = 1.0 / x
    square = inverse * inverse
    return (1.0 / 12.0 - (1.0 / 360.0 - square / 1260.0) * square) * inverse


def _width(count):
    """The length of the rows in :func:`_running_words`."""
    return count if count <= 8 else math.isqrt(count - 1) + 1


def _running_words(high, low, places):
    """x_1 + ... + x_i for all i, (n,). Numbers have two words, the second in units of 2^-places.

    Compilers compute each of the sums separately. So a long array is split into rows. Sums are
    first computed within each row, and then added up over rows.
    """
    count, width = len(high), _width(len(high))
    rows = (jnp.pad(x, (0, -count % width)).reshape(-1, width) for x in (high, low))
    inner = _carried(*(jnp.cumsum(x, axis=1) for x in rows), places)
    if count == width:
        return tuple(x[0] for x in inner)
    before = _carried(*(jnp.cumsum(x[:-1, -1]) for x in inner), places)
    before = (jnp.pad(x, (1, 0))[:, None] for x in before)
    high, low = _carried(*(x + y for x, y in zip(inner, before, strict=True)), places)
    return high.reshape(-1)[:count], low.reshape(-1)[:count]


def _carried(high, low, places):
    return high + (low >> places), low & (2**places - 1)
