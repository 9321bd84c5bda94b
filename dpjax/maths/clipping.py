"""Clips values to a range."""

import jax.numpy as jnp


def within(loss, low, high):
    """The loss clipped to [low, high]. NaN counts as low.

    Otherwise a NaN would show in every later release, whatever noise is added.
    """
    return jnp.where(loss > low, jnp.minimum(loss, high), low)


def clip_loss(loss, clipped):
    """The losses, of any shape, clipped to [0, 1]; and ``clipped`` plus how many were outside."""
    inside = within(loss, 0.0, 1.0)
    outside = (inside != loss).astype(jnp.int32)
    return inside, clipped + (jnp.sum(outside, dtype=jnp.int32) if outside.ndim else outside)
