"""Exact sums, arithmetic in two float32 words, and clipping; noise on sums of 2^30 losses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import environments, noise
from dpjax.feedback import bandit
from dpjax.maths import exact_sums, two_words
from dpjax.maths.clipping import into_range
from dpjax.maths.exact_sums import ExactSum
from dpjax.maths.two_words import TwoWords

RANDOM = np.random.default_rng(0)
VALUES = np.concatenate([
    RANDOM.uniform(0, 1, 500), RANDOM.uniform(-1, 1, 500), 10.0 ** RANDOM.uniform(-12, 9, 500),
    [0, 1, -1, 0.5, -0.5, 1 - 2**-24, 2**-31, 3 * 2**-32, 2**31 - 128, -(2**31)],
]).astype(np.float32)  # fmt: skip


def units(total):
    """A sum in units of 2^-30, as a Python integer."""
    assert ((np.asarray(total.part) >= 0) & (np.asarray(total.part) < 2**30)).all()
    pairs = zip(np.ravel(total.whole), np.ravel(total.part), strict=True)
    return [int(whole) * 2**30 + int(part) for whole, part in pairs]


def exactly(value):
    return round(float(value) * 2**30)  # ties to even; the product is exact in float64


def test_values_are_the_nearest_multiples():
    assert units(jax.jit(exact_sums.of)(VALUES)) == [exactly(value) for value in VALUES]


def test_sums_are_those_of_integers():
    """Sums of pairs, with either sign, and sizes."""
    first, second = VALUES[:1000], VALUES[999::-1]
    mine, theirs = exact_sums.of(first), exact_sums.of(second)
    expected = [a + b for a, b in zip(map(exactly, first), map(exactly, second), strict=True)]
    total = jax.jit(exact_sums.add)(mine, theirs)
    assert units(total) == expected
    assert units(exact_sums.negative(total)) == [-value for value in expected]
    assert units(exact_sums.magnitude(total)) == [abs(value) for value in expected]


def test_a_value_repeated_is_its_product():
    values = VALUES[:1000]
    counts = RANDOM.integers(0, 2**31, len(values)).astype(np.int32)
    counts[:4] = 0, 1, 2**30, 2**31 - 1
    found = jax.jit(exact_sums.repeated)(values, counts)
    expected = [exactly(v) * int(n) for v, n in zip(values, counts, strict=True)]
    assert units(found) == expected


def test_floats_are_near_and_have_all_digits_near_zero():
    total = exact_sums.repeated(VALUES[:1000], RANDOM.integers(0, 2**20, 1000).astype(np.int32))
    exact = np.array(units(total)) / 2.0**30
    assert np.max(np.abs(exact_sums.to_float(total) - exact) / np.abs(exact)) < 2.0**-23
    small = jnp.array([-0.3, 0.3, -1e-3, 0.7], jnp.float32)
    np.testing.assert_allclose(exact_sums.to_float(exact_sums.of(small)), small, rtol=1e-6)


def test_a_shift_is_cut_where_it_leaves_the_range():
    """Above and below, for shifts of any size; the ends are attained."""
    start = ExactSum(*(jnp.array(x, jnp.int32) for x in ([2**31 - 1, 2**30, -(2**30), 5], [0] * 4)))
    for shift, expected in [
        (0.5, [2**31 - 1, 2**30, -(2**30), 5]),
        (2.0**30, [2**31 - 1, 2**31 - 1, 0, 2**30 + 5]),
        (-(2.0**30), [2**30 - 1, 0, -(2**31), 5 - 2**30]),
        (1e30, [2**31 - 1] * 4),  # not the clipped sum of 5 and 1e30, which would reveal the 5
        (-1e30, [-(2**31)] * 4),
        (np.nan, [2**31 - 1] * 4),
    ]:
        moved = jax.jit(exact_sums.shifted)(start, jnp.full(4, shift, jnp.float32))
        np.testing.assert_array_equal(moved.whole, expected)


def test_a_batch_is_the_sum_of_its_rounds():
    """A batch drawn at once has the sum of losses with the same number of ones."""
    environment = environments.bernoulli([0.3, 0.6], regret="pseudo")
    seen = lambda loss, arm: 0.1 + 0.7 * bandit(loss, arm)  # noqa: E731
    _, total, _ = environment.batch((), jr.key(0), jnp.int32(1), jnp.int32(1000), seen)
    zero, one = exactly(np.float32(0.1)), exactly(np.float32(0.1) + np.float32(0.7))
    ones, rest = divmod(units(total)[0] - 1000 * zero, one - zero)
    assert rest == 0 and 500 < ones < 700


# --- noise ---


def added(release, total, seed, scale=1.0, count=50_000):
    """The noise that a release adds to a sum, in integers on the host."""
    start = exact_sums.of(total)
    keys = jr.split(jr.key(seed), count)
    released = jax.jit(jax.vmap(lambda key: release(key, start, scale)))(keys)
    before = units(start)[0]
    return np.array([after - before for after in units(released)]) / 2.0**30


@pytest.mark.parametrize("total", [3.3, 2.0**27, 2.0**31 - 128])
@pytest.mark.parametrize("epsilon", [0.1, 20.0])
def test_noise_on_a_sum_has_its_law_at_any_size(total, epsilon):
    """Kolmogorov-Smirnov on 5e4 draws; half and twice the scale are rejected."""
    law = stats.laplace(scale=1 / epsilon).cdf
    total = total - 500.0 if total > 2.0**30 else total  # the noise must not be clipped
    for seed, factor, right in [(0, 1.0, True), (1, 0.5, False), (2, 2.0, False)]:
        draws = added(noise.laplace.total, total, seed, factor / epsilon)
        p_value = stats.kstest(draws, law).pvalue
        assert p_value > 1e-3 if right else p_value < 1e-6


COUNT = 20_000


def numbers(seed):
    """(as two words, in float64), with sizes from 1e-3 to 1e3."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=COUNT) * 10.0 ** rng.uniform(-3, 3, size=COUNT)
    high = values.astype(np.float32)
    low = (values - high).astype(np.float32)
    return TwoWords(jnp.asarray(high), jnp.asarray(low)), high.astype(np.float64) + low


def wide(x):
    return np.asarray(x.high, np.float64) + np.asarray(x.low, np.float64)


def test_sums_and_quotients_are_good_to_46_bits_and_products_exact():
    """Compiled, since products might be fused with sums; one word is exact to 24 bits only."""
    (x, a), (y, b) = numbers(0), numbers(1)

    @jax.jit
    def every(x, y):
        rows = TwoWords(x.high.reshape(-1, 25), x.low.reshape(-1, 25))
        return (
            two_words.add(x, y), two_words.subtract(x, y), two_words.divide(x, y.high),
            two_words.exact_product(x.high, y.high), two_words.exact_sum(x.high, y.high),
            two_words.add_up(rows),
        )  # fmt: skip

    plus, minus, ratio, product, total, sums = every(x, y)
    size = np.abs(a) + np.abs(b)
    high, other = np.asarray(x.high, np.float64), np.asarray(y.high, np.float64)
    assert (np.abs(wide(plus) - (a + b)) <= 2.0**-46 * size).all()
    assert (np.abs(wide(minus) - (a - b)) <= 2.0**-46 * size).all()
    assert (np.abs(wide(ratio) - a / other) <= 2.0**-46 * np.abs(a / other)).all()
    np.testing.assert_array_equal(wide(product), high * other)
    np.testing.assert_allclose(wide(total), high + other, rtol=1e-15)
    rows = a.reshape(-1, 25)
    assert (np.abs(wide(sums) - rows.sum(1)) <= 5 * 2.0**-46 * np.abs(rows).sum(1)).all()
    assert (np.abs(np.asarray(plus.high) - (a + b)) > 2.0**-30 * size).any()
    np.testing.assert_array_equal(plus.high, wide(plus).astype(np.float32))


def test_a_million_small_steps_are_not_lost():
    """Steps of 2^-30, added to 1."""
    step = two_words.of(jnp.float32(2.0**-30))
    start = two_words.of(jnp.float32(1.0))
    end = jax.jit(lambda x: jax.lax.fori_loop(0, 2**20, lambda _, x: two_words.add(x, step), x))
    assert float(wide(end(start))) == 1.0 + 2.0**-10


LOSSES = [-0.1, 0.0, 0.5, 1.0, 1.5, np.nan, np.inf, -np.inf]
CLIPPED = [0.0, 0.0, 0.5, 1.0, 1.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize("shape", [(8,), (2, 4)])
def test_losses_outside_are_clipped_and_counted(shape):
    """Five of eight, one by one and all at once; NaN counts as 0."""
    inside, total = into_range(jnp.asarray(LOSSES, jnp.float32).reshape(shape), 0.0, 1.0)
    np.testing.assert_array_equal(inside.ravel(), CLIPPED)
    assert (total, total.dtype, total.shape) == (5, jnp.int32, ())
    for loss, expected in zip(LOSSES, CLIPPED, strict=True):
        inside, count = into_range(jnp.float32(loss), 0.0, 1.0)
        assert inside == expected and count.dtype == jnp.int32
        total -= count
    assert total == 0


def test_rounding_at_an_end_is_not_counted():
    """A millionth of the width by default."""
    for loss, outside in [(4.0 + 1e-6, 0), (4.0 + 1e-5, 1), (-1e-6, 0), (-1e-5, 1)]:
        assert into_range(jnp.float32(loss), 0.0, 4.0)[1] == outside
    assert into_range(jnp.float32(4.0 + 1e-5), 0.0, 4.0, tolerance=1e-4)[1] == 0
