"""Sums of losses without rounding errors, over up to 2^31 rounds.

Neighbouring float32 numbers near 2^27 are 8 or 16 apart. So a float32 sum shows neither the change
of one loss nor Laplace noise of scale 1. An ExactSum is a pair of integers instead. Each loss is
rounded once, to a multiple of 2^-30, before it is added. All later arithmetic is exact, in any
order and for any number of losses. So the difference of two sums is exactly the difference of
their rounded losses.

Functions that many programs call are jitted, so that a process traces each of them only once.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from dpjax.core import Array, Number

UNIT = 2.0**-30  # the value of 1 in ``part``
_BITS = 30
_BELOW = 2**_BITS - 1
_LEAST, _MOST = -(2**31), 2**31 - 1
_LARGEST = 2.0**31 - 128.0  # the largest float32 below 2^31


class ExactSum(NamedTuple):
    """The number whole + part / 2^30, from -2^31 to below 2^31. Larger sums wrap around."""

    whole: jax.Array  # (*shape) int32
    part: jax.Array  # (*shape) int32 in 0 .. 2^30 - 1


def nothing(shape: tuple[int, ...] = ()) -> ExactSum:
    """The sum of no losses."""
    zero = jnp.zeros(shape, jnp.int32)
    return ExactSum(zero, zero)


@jax.jit
def of(values: Number) -> ExactSum:
    """Values (*shape) below 2^31 in size, each rounded to the nearest multiple of 2^-30."""
    values = jnp.asarray(values, jnp.float32)
    # Not by the floor: for a small negative value, value + 1 has fewer digits than the value.
    whole = jnp.round(values)
    units = jnp.round((values - whole) * 2.0**_BITS)
    return _carried(whole.astype(jnp.int32), units.astype(jnp.int32))


@jax.jit
def add(total: ExactSum, more: ExactSum) -> ExactSum:
    """The sum of two sums."""
    return _carried(total.whole + more.whole, total.part + more.part)


def add_at(totals: ExactSum, index: Array, more: ExactSum) -> ExactSum:
    """The sums (K,), with ``more`` added at ``index``."""
    return _carried(totals.whole.at[index].add(more.whole), totals.part.at[index].add(more.part))


def negative(total: ExactSum) -> ExactSum:
    """The sum with the opposite sign."""
    return _carried(-total.whole, -total.part)


def magnitude(total: ExactSum) -> ExactSum:
    """The absolute value of a sum."""
    return jax.tree.map(lambda x, y: jnp.where(total.whole < 0, x, y), negative(total), total)


@jax.jit
def repeated(value: Number, count: Array) -> ExactSum:
    """The sum of ``count`` equal losses ``value``, both (*shape); count is int32, at least 0.

    The result is the same as after adding the value ``count`` times. It is computed from digits of
    15 bits, whose products fit into int32.
    """
    whole, part = of(value)
    low, high = part & 0x7FFF, part >> 15
    first, second, third = count & 0x7FFF, count >> 15 & 0x7FFF, count >> 30
    middle = first * high + second * low
    whole = count * whole + second * high + third * part + (middle >> 15)
    return _carried(whole, first * low + ((middle & 0x7FFF) << 15))


@jax.jit
def shifted(total: ExactSum, amount: Number) -> ExactSum:
    """The sum plus a float32 of any size, which is rounded to a multiple of 2^-30.

    The result is clipped to the range of an ExactSum if the result or the amount is beyond 2^31, or
    if the amount is NaN. (If only the amount were clipped, noise of that size would hide nothing.)
    """
    more = of(jnp.clip(amount, -_LARGEST, _LARGEST))
    moved = add(total, more)
    wrapped = (total.whole ^ moved.whole) & (more.whole ^ moved.whole) < 0
    beyond = wrapped | ~(jnp.abs(amount) < _LARGEST)  # True for NaN
    cut = jnp.where(amount < 0.0, _LEAST, _MOST)
    return ExactSum(jnp.where(beyond, cut, moved.whole), jnp.where(beyond, 0, moved.part))


@jax.jit
def to_float(total: ExactSum):
    """The nearest float32 or a neighbour of it, (*shape). Sums near 0 keep full precision."""
    up = total.part >> (_BITS - 1)
    near = (total.part - (up << _BITS)).astype(jnp.float32) * UNIT
    # whole and up are added as floats, since their sum may be 2^31.
    return total.whole.astype(jnp.float32) + up.astype(jnp.float32) + near


def excess(totals: ExactSum):
    """The excess of each of the sums (K,) over the least. Small differences keep their digits."""
    near = to_float(ExactSum(totals.whole - jnp.min(totals.whole), totals.part))
    return near - jnp.min(near)


def mean(total: ExactSum, count: Array):
    """The sum divided by a count, in float32."""
    return to_float(total) / jnp.asarray(count, jnp.float32)


def _carried(whole, part):
    return ExactSum(whole + (part >> _BITS), part & _BELOW)
