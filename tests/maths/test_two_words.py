"""Arithmetic in two float32 words, against float64."""

import jax
import jax.numpy as jnp
import numpy as np

from dpjax.maths import two_words
from dpjax.maths.two_words import TwoWords

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
