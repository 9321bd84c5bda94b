"""Laws of the noise and sampling primitives, by tests with proven power."""

import itertools
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import noise
from dpjax.core._versions import enable_x64
from dpjax.maths import exact_sums, laws

DRAWS = 100_000


def chi_square_p(counts, probabilities):
    """p-value of counts under given cell probabilities; cells of probability 0 are omitted."""
    counts, expected = np.asarray(counts), counts.sum() * np.asarray(probabilities)
    cells = expected > 0
    statistic = ((counts - expected)[cells] ** 2 / expected[cells]).sum()
    return stats.chi2.sf(statistic, cells.sum() - 1)


# --- words and their draws ---

# Words with the largest and the smallest draws, and others.
WORDS = np.concatenate([
    np.arange(256), 2**32 - 1 - np.arange(256), np.random.default_rng(0).integers(0, 2**32, 100_000)
]).astype(np.uint32)  # fmt: skip


@pytest.mark.parametrize(
    ("draws", "law", "furthest"),
    [(laws.as_laplace, stats.laplace, 22.1), (laws.as_normal, stats.norm, 6.3)],
)
def test_draws_are_quantiles_of_their_words(draws, law, furthest):
    """One bit of each word is the sign; the others are the probability of a larger size."""
    size = law.isf(0.5 * ((WORDS >> 1) + 0.5) / 2.0**31)
    exact = np.where(WORDS & 1, size, -size)
    found = np.asarray(jax.jit(draws)(WORDS), np.float64)
    tolerance = 2e-7 + 1e-6 * np.abs(exact)
    assert np.all(np.abs(found - exact) < tolerance)
    assert np.max(found) > furthest and np.min(found) < -furthest
    # The first 17 bits matter: a word that differs in the next one is too far away.
    other = np.asarray(jax.jit(draws)(WORDS ^ np.uint32(2**14)), np.float64)
    middle = np.abs(exact) > law.isf(0.25)
    assert np.mean(np.abs(other - exact)[middle] > tolerance[middle]) > 0.9


def test_words_of_a_key_are_independent():
    """Correlations of uniform numbers, neighbours and keys; a word used twice is rejected.

    Both words of a block are used.
    """
    words = laws.random_words(jr.key(3), (5,))
    np.testing.assert_array_equal(words, jr.key_data(jr.split(jr.key(3), 3)).ravel()[:5])
    np.testing.assert_array_equal(laws.random_words(jr.key(3), ()), jr.bits(jr.key(3)))
    keys = jr.split(jr.key(4), 50_000)
    words = np.asarray(jax.vmap(lambda key: laws.random_words(key, (6,)))(keys))
    uniform = np.sqrt(12.0) * (words / 2.0**32 - 0.5)
    matrix = np.concatenate([uniform, np.roll(uniform, 1, axis=0)], axis=1)
    scores = np.sqrt(len(keys)) * (matrix.T @ matrix / len(keys))[np.triu_indices(12, 1)]
    assert stats.chi2.sf(np.sum(scores**2), len(scores)) > 1e-3
    twice = np.mean(uniform[:, 0] * uniform[:, 0])
    assert stats.norm.sf(np.sqrt(len(keys)) * twice) < 1e-9


# --- continuous noise ---

CONTINUOUS = {"laplace": stats.laplace, "gaussian": stats.norm, "logistic": stats.logistic}
continuous = pytest.mark.parametrize("name", CONTINUOUS)
MANY = jnp.zeros(DRAWS, jnp.float32)


def ks(draws, law):
    """The p-value of Kolmogorov and Smirnov."""
    return stats.kstest(np.asarray(draws, np.float64), law.cdf).pvalue


@continuous
def test_noise_has_its_law_and_entries_and_keys_are_independent(name):
    """With the value and the scale of each entry; a tenth more noise is rejected.

    Keys are split or folded. Correlations of 3 entries and of keys in turn are below 4 / sqrt(n).
    """
    law, n = getattr(noise, name), DRAWS
    values, scales = jnp.array([5.0, 0.0, 0.0]), jnp.array([2.0, 0.01, 250.0])
    draws = jax.jit(jax.vmap(lambda key: law(key, values, scales)))
    keys = jr.split(jr.key(13), n), jax.vmap(jr.fold_in, (None, 0))(jr.key(5), jnp.arange(n))
    split, folded = (np.asarray(draws(each)) - np.asarray(values) for each in keys)
    for entry, scale in zip(split.T, scales, strict=True):
        assert entry.dtype == np.float32
        assert ks(entry, CONTINUOUS[name](scale=float(scale))) > 1e-3
        assert ks(1.1 * entry, CONTINUOUS[name](scale=float(scale))) < 1e-6
    # Of the draws and, for dependence in size, of their absolute values.
    turned = [np.roll(x[:, :1].T, 1) for x in (split, folded)]
    both = np.concatenate([split.T, folded.T, *turned])
    for numbers in (both, np.abs(both)):
        correlation = np.corrcoef(numbers)[np.triu_indices(len(both), 1)]
        assert np.abs(correlation).max() < 4 / np.sqrt(n)


@continuous
def test_noise_keeps_the_value_at_scale_0_and_its_dtype(name):
    """No noise at epsilon = inf, bit for bit; a float64 scale leaves a float32 value float32."""
    law = getattr(noise, name)
    for value in (jnp.float32(0.1), jnp.array([-0.0, 1e30, 1e-30], jnp.float32)):
        for scale in (0.0, jnp.float32(0.0), 1.0 / jnp.float32(np.inf)):
            np.testing.assert_array_equal(jax.jit(law)(jr.key(2), value, scale), value)
    assert law(jr.key(2), 0.25, 0.0) == 0.25  # a plain number
    with enable_x64(True):
        for dtype in (jnp.float32, jnp.float64):
            vector = law(jr.key(0), jnp.zeros(3, dtype), jnp.array([0.0, 1.0, 100.0], jnp.float64))
            assert vector.shape == (3,) and vector.dtype == dtype
            assert vector[0] == 0.0 and len(np.unique(vector)) == 3


# --- sums of laplace draws ---


@jax.jit
def laplace_sum(key, value, scale, count):
    total = noise.laplace.sum(key, exact_sums.of(value), scale, count)
    return exact_sums.to_float(total)


@pytest.mark.parametrize("shape", [1.0, 1.5, 55.0, 3e5])
def test_log_gamma_has_its_law(shape):
    """To a twentieth of the shape or, if that is large, a thousandth of the squared spread."""
    shapes = jnp.full(2**16, shape, jnp.float32)
    draws = np.exp(np.asarray(jax.jit(laws.log_gamma)(jr.key(31), shapes), np.float64))
    assert stats.kstest(draws, stats.gamma(shape).cdf).pvalue > 1e-3
    for wrong in (stats.gamma(1.05 * shape), stats.norm(shape, 1.05 * shape**0.5)):
        if not (shape > 1e5 and wrong.dist.name == "norm"):
            assert stats.kstest(draws, wrong.cdf).pvalue < 1e-6
    spread = (draws - shape) / shape**0.5
    assert abs(spread.var() - 1.0) < 6.0 * np.sqrt((2.0 + 6.0 / shape) / len(draws))


def test_log_gamma_ends_where_it_is_mapped():
    """At this key, the loop of jax.random.loggamma did not end under vmap in float32."""
    key = jr.wrap_key_data(jnp.array([489837438, 4005834669], jnp.uint32))
    shapes = jnp.array([[137251.0, 55.0, 48.0], [266779.0, 46.0, 35.0]], jnp.float32)
    mapped = jax.jit(jax.vmap(lambda key: laws.log_gamma(key, shapes)))(jr.split(key, 64))
    # The law is skewed: one of 384 draws is five and a half deviations above its mean.
    expected = np.asarray(shapes)
    assert np.all(np.abs(np.exp(mapped) - expected) < 6.0 * np.sqrt(expected))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_laplace_sum_of_a_few_has_its_law(count):
    """Kolmogorov-Smirnov with the exact law; half the scale, or one draw more, is rejected."""
    # The tail is e^-|x| times a polynomial: the sum is a difference of two Gamma variables.
    polynomial = {1: [1 / 2], 2: [1 / 4, 1 / 2], 3: [1 / 16, 5 / 16, 1 / 2]}[count]

    def law(x):
        tail = np.exp(-np.abs(x)) * np.polyval(polynomial, np.abs(x))
        return np.where(x < 0, tail, 1.0 - tail)

    draws, more = (laplace_sum(jr.key(7), MANY, *x) for x in ((0.5, count), (1.0, count + 1)))
    assert stats.kstest(draws / 0.5, law).pvalue > 1e-3
    assert stats.kstest(draws, law).pvalue < 1e-6
    assert stats.kstest(more, law).pvalue < 1e-6


@pytest.mark.parametrize("count", [10**4, 2**31 - 1])
def test_laplace_sum_of_many_is_gaussian(count):
    """With variance 2 n scale^2; 3 % more is rejected."""
    draws = laplace_sum(jr.key(8), MANY, 3.0, count)
    law = stats.norm(scale=3.0 * np.sqrt(2.0 * count))
    assert ks(draws, law) > 1e-3 > ks(1.03 * draws, law)
    assert laplace_sum(jr.key(8), 0.25, 0.0, count) == 0.25


# --- choose ---


def keys_of(level):
    """Levels (n,), integers below 2^60, as keys of two words of 30 bits."""
    words = [[int(x) >> s & 2**30 - 1 for s in (30, 0)] for x in level]
    return jr.wrap_key_data(np.array(words, np.uint32))


def edges_of(draw, count):
    """For i below count - 1, the least level whose index is above i, by bisection: Python integers.

    ``draw`` maps levels to indices, which do not decrease.
    """
    low, high = [-1] * (count - 1), [2**60] * (count - 1)
    for _ in range(60):
        middle = [(x + y) // 2 for x, y in zip(low, high, strict=True)]
        above = draw(np.array(middle, object)) > np.arange(count - 1)
        low = [x if up else m for x, m, up in zip(low, middle, above, strict=True)]
        high = [m if up else y for y, m, up in zip(high, middle, above, strict=True)]
    return high


def realised(function, monkeypatch, argument, count):
    """The exact probabilities of a draw, in 2^-60, from its edges: Python integers."""
    monkeypatch.setattr(laws, "level", lambda key: jr.key_data(key).astype(jnp.int32))
    drawn = jax.jit(jax.vmap(function, (0, None)))
    edges = [0, *edges_of(lambda x: np.asarray(drawn(keys_of(x), argument)), count), 2**60]
    return [y - x for x, y in itertools.pairwise(edges)]


RARE = [1e-9, 1e-6, 1e-3, 0.5, 0.999, 1.0 - 1e-6]


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3, 8, 40])
def test_choose_has_its_law_exactly(monkeypatch, count):
    """Each probability is a count of levels, off by at most 2^-52; none of 0 is drawn.

    With 23 bits instead of 60, a probability of 1e-9 would be 0.
    """
    rng = np.random.default_rng(count)
    for rare in RARE:
        p = rng.dirichlet(np.full(count, 0.7)).astype(np.float32)
        p[0], p[1:] = rare, (1.0 - rare) * p[1:] / p[1:].sum()
        if count > 3:
            p[[2, count - 1]] = 0.0
        exact = [Fraction(float(x)) for x in p]
        found = realised(noise.choose, monkeypatch, p, count)
        for x, y in zip(exact, found, strict=True):
            unit = Fraction(1, 2**50 if count > 8 else 2**52)
            assert abs(Fraction(y, 2**60) - x / sum(exact)) <= unit * (x > 0)


@pytest.mark.parametrize("count", [2, 3, 8, 40])
@pytest.mark.parametrize("rate", [1e-9, 1e-5, 0.1, 3.0])
def test_categorical_tells_neighbours_apart_by_what_is_charged(monkeypatch, count, rate):
    """Log-ratios of the realised laws are within 2 rate if logits change by the rate, up or down.

    They are exact up to 2^-20 of a logit. Float32 weights, used before, differ by more if the rate
    is small: by 2^-24 of their sum, for any rate.
    """
    rng = np.random.default_rng(count)
    losses = rng.integers(0, 8, count)
    change = rng.integers(-1, 2, count)
    change[:2] = -1, 1
    laws_of = []
    for total in (losses, losses + change):
        x = np.float32(rate) * (total - total.min()).astype(np.float32)
        found = realised(noise.categorical, monkeypatch, -x, count)
        found = np.array([float(np.log(y) - 60 * np.log(2)) for y in found])
        weights = np.exp(-x.astype(np.float64))
        exact = -x.astype(np.float64) - np.log1p(np.mean(np.expm1(-x.astype(np.float64))))
        off = np.abs(found - (exact - np.log(count))) - 2.0**-47 / weights
        assert off.max() <= 2.0**-20 * x.max()
        laws_of.append(found)
    ratio = laws_of[0] - laws_of[1]
    unit = 2.0**-46 / weights.min()
    assert abs(np.ptp(ratio) - 2.0 * rate) <= 1e-4 * rate + unit
    assert unit < 0.01 * rate


@pytest.mark.parametrize("base", RARE)
def test_a_coin_tells_neighbours_apart_by_what_is_charged(monkeypatch, base):
    """A coin with a part that sees no data and a small part that does, from p = 1e-9 on.

    Its probability is a count of levels. A single float32 number would round it to 2^-24 of p.
    """
    for share in (1e-6, 1e-3, 0.5):
        moved = np.float32(share * min(base, 1.0 - base))
        counts = []
        for part in (0.0, moved):
            parts = jnp.array([base, part], jnp.float32)
            stay, leave = realised(lambda k, x: ~noise.coin(k, x), monkeypatch, parts, 2)[::-1]
            exact = sum(Fraction(float(x)) for x in parts)
            assert abs(Fraction(leave, 2**60) - exact) <= Fraction(1, 2**60)
            counts.append((leave, stay))
        p = Fraction(float(np.float32(base)))
        for (now, before), q, sign in zip(
            zip(*counts[::-1], strict=True), (p, 1 - p), (1, -1), strict=True
        ):
            charged = np.log1p(sign * float(Fraction(float(moved)) / q))
            found = np.log1p(float(Fraction(now - before, before)))
            assert abs(found - charged) <= 1e-6 * abs(charged) + 1e-8 * (base == 1e-9)


# --- binomial ---

binomial = jax.jit(jax.vmap(laws.binomial, (0, None, None)))
LANES = 16_384


def law_p_values(draws, count, probability):
    """Two-sided p-values of mean and variance, for draws that are nearly normal."""
    p = float(np.float32(probability))
    centred = np.asarray(draws, np.float64) - count * p
    variance, n = count * p * (1 - p), len(centred)
    squares = (centred**2).sum() / variance
    return (
        2 * stats.norm.sf(abs(centred.sum()) / np.sqrt(n * variance)),
        2 * min(stats.chi2.sf(squares, n), stats.chi2.cdf(squares, n)),
    )


def binned_p(draws, count, probability):
    """Chi-square p-value over about 40 bins at the quantiles of the binomial law."""
    law = stats.binom(count, float(np.float32(probability)))
    edges = np.unique(law.ppf(np.linspace(0.005, 0.995, 40)))
    cells = np.searchsorted(edges, np.asarray(draws))  # edges[i - 1] < draw <= edges[i]
    below = np.concatenate([[0.0], law.cdf(edges), [1.0]])
    return chi_square_p(np.bincount(cells, minlength=len(edges) + 1), np.diff(below))


@pytest.mark.parametrize(
    ("count", "probability"),
    [(1, 0.3), (10, 0.5), (25, 0.9), (1000, 0.01), (2**16, 0.2), (2**16 + 3, 1e-4), (200_000, 0.6)],
)
def test_binomial_has_its_law(count, probability):
    """Chi-square on 16384 draws, in one piece or several; a wrong probability is rejected."""
    draws = binomial(jr.split(jr.key(7), LANES), count, probability)
    assert draws.dtype == jnp.int32
    assert int(draws.min()) >= 0 and int(draws.max()) <= count
    assert binned_p(draws, count, probability) > 1e-3
    # Twelve standard errors of the mean away.
    shift = 12 * np.sqrt(probability * (1 - probability) / (count * LANES))
    assert binned_p(draws, count, probability + shift) < 1e-6


def test_binomial_of_a_billion_trials():
    """240 draws at 0.3: mean and variance; a probability off by 1e-5 is rejected.

    That is 1e4 successes, 10.7 standard errors of 14 491 / sqrt(240). At 0 and 1 it is exact.
    """
    probabilities = jnp.array([0.3] * 240 + [0.0] * 8 + [1.0] * 8, jnp.float32)
    keys, mean = jr.split(jr.key(9), 256), 10**9 * float(np.float32(0.3))
    drawn = jax.jit(jax.vmap(laws.binomial, (0, None, 0)))
    billion = np.asarray(drawn(keys, 10**9, probabilities))
    assert billion.dtype == np.int32
    assert min(law_p_values(billion[:240], 10**9, 0.3)) > 1e-3
    assert law_p_values(billion[:240], 10**9, 0.30001)[0] < 1e-6
    # Half or twice the variance, as with too few distinct pieces or trials.
    for factor in (0.5, 2.0):
        centred = (billion[:240] - mean) * np.sqrt(factor)
        assert law_p_values(centred + mean, 10**9, 0.3)[1] < 1e-6
    assert billion[240:].tolist() == [0] * 8 + [10**9] * 8
    ends = np.asarray(drawn(keys, 2**31 - 1, probabilities))[240:]
    assert ends.tolist() == [0] * 8 + [2**31 - 1] * 8
    assert not np.any(drawn(keys, 0, probabilities))
    with pytest.raises(OverflowError):  # It would wrap around silently.
        laws.binomial(jr.key(0), 2**31, 0.5)
