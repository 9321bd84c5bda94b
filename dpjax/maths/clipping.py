"""Clips values to a range."""

import jax.numpy as jnp


def within(loss, low, high):
    """The loss clipped to [low, high]. NaN counts as low.

    Otherwise a NaN would show in every later release, whatever noise is added.
    """
    return jnp.where(loss > low, jnp.minimum(loss, high), low)


def into_range(losses, low, high, tolerance=None):
    """The losses, of any shape, clipped to [low, high]; and how many of them lay outside, () int32.

    Losses beyond the range by at most ``tolerance`` are not counted, since they may be off by
    rounding. By default that is a millionth of the width of the range.
    """
    inside = within(losses, low, high)
    near = jnp.abs(inside - losses) <= (1e-6 * (high - low) if tolerance is None else tolerance)
    outside = (~near).astype(jnp.int32)  # 1 for NaN
    return inside, jnp.sum(outside, dtype=jnp.int32) if outside.ndim else outside
