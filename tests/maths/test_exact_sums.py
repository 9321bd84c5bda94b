"""Exact sums against Python's integers, and the law of noise on sums of up to 2^30 losses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import environments, noise
from dpjax.feedback import bandit
from dpjax.maths import exact_sums
from dpjax.maths.exact_sums import ExactSum

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
