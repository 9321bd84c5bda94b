"""Numbers as unevaluated sums of two float32, with about 46 bits, for accurate long sums.

The building blocks are Knuth's error-free sum and Dekker's error-free product (1971).
"""

from typing import NamedTuple

import jax.numpy as jnp

from dpjax.core import Array
from dpjax.maths.barriers import rounded


class TwoWords(NamedTuple):
    """The number high + low, where high is that number rounded to float32."""

    high: Array
    low: Array


def of(value: Array) -> TwoWords:
    """A float32 value as two words."""
    return TwoWords(value, jnp.zeros_like(value))


def exact_sum(a: Array, b: Array) -> TwoWords:
    """a + b for float32 a and b, without error."""
    total = a + b
    part = total - a
    return TwoWords(total, (a - (total - part)) + (b - part))


def exact_product(a: Array, b: Array) -> TwoWords:
    """a b for float32 a and b of size up to 1e34, without error unless the low word underflows."""
    total = rounded(a * b)
    (a_top, a_rest), (b_top, b_rest) = _halves(a), _halves(b)
    rest = ((a_top * b_top - total) + a_top * b_rest + a_rest * b_top) + a_rest * b_rest
    return TwoWords(total, rest)


def add(x: TwoWords, y: TwoWords) -> TwoWords:
    """x + y, off by at most 2^-46 (|x| + |y|)."""
    total = exact_sum(x.high, y.high)
    return exact_sum(total.high, total.low + (x.low + y.low))


def subtract(x: TwoWords, y: TwoWords) -> TwoWords:
    """x - y, off by at most 2^-46 (|x| + |y|)."""
    return add(x, TwoWords(-y.high, -y.low))


def divide(x: TwoWords, divisor: Array) -> TwoWords:
    """x / divisor for a float32 divisor, off by at most 2^-46 |x / divisor|."""
    quotient = x.high / divisor
    product = exact_product(quotient, jnp.broadcast_to(divisor, quotient.shape))
    rest = ((x.high - product.high) - product.low) + x.low
    return exact_sum(quotient, rest / divisor)


def add_up(x: TwoWords) -> TwoWords:
    """The sum of x over its last axis, off by at most 2^-46 log2(n) times the sum of |x|."""
    while (count := x.high.shape[-1]) > 1:
        half = count // 2
        pairs = add(
            TwoWords(x.high[..., :half], x.low[..., :half]),
            TwoWords(x.high[..., half : 2 * half], x.low[..., half : 2 * half]),
        )
        odd = TwoWords(x.high[..., 2 * half :], x.low[..., 2 * half :])
        x = TwoWords(*(jnp.concatenate(both, axis=-1) for both in zip(pairs, odd, strict=True)))
    return TwoWords(x.high[..., 0], x.low[..., 0])


def _halves(a):
    """a as the sum of two numbers of 12 bits. Products of such numbers are exact in float32."""
    shifted = rounded(4097.0 * a)
    top = shifted - (shifted - a)
    return top, a - top


def add_compensated(total: Array, error: Array, value: Array):
    """One step of Kahan's summation: (total + value, its rounding error).

    ``total`` and ``error`` start at 0. The sum is as accurate as with twice the digits. A plain
    float32 sum of ones stops growing at 2^24.
    """
    corrected = value - error
    new = total + corrected
    return new, (new - total) - corrected
