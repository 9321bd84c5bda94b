"""Clipping to a range."""

import jax.numpy as jnp

from dpjax.core import Number, PyTree


def within(loss: PyTree, low: Number, high: Number):
    """The loss clipped to [low, high]. NaN counts as low.

    If it were kept, a NaN would be visible in every later release, despite the noise.
    """
    return jnp.where(loss > low, jnp.minimum(loss, high), low)


def add_counts(total, more):
    """The sum of two counts, int32 of at least 0; a larger sum than 2^31 - 1 is 2^31 - 1.

    Examples:
      >>> int(clipping.add_counts(jnp.int32(2**31 - 2), jnp.int32(5))) == 2**31 - 1
      True
    """
    both = total + more  # It wraps around to a negative number.
    return jnp.where(both < 0, jnp.iinfo(jnp.int32).max, both)


def into_range(losses: PyTree, low: Number, high: Number, tolerance: Number | None = None):
    """The losses, of any shape, clipped to [low, high], and how many were outside, () int32.

    Losses outside by at most ``tolerance`` are not counted, to allow for rounding. The default
    tolerance is a millionth of the width of the range.
    """
    inside = within(losses, low, high)
    near = jnp.abs(inside - losses) <= (1e-6 * (high - low) if tolerance is None else tolerance)
    outside = (~near).astype(jnp.int32)  # 1 for NaN
    return inside, jnp.sum(outside, dtype=jnp.int32) if outside.ndim else outside
