"""Clips values to a range."""

import jax.numpy as jnp


def within(loss, low, high):
    """The loss clipped to [low, high]. NaN counts as low.

    Otherwise a NaN would show in every later release, whatever noise is added.
    """
    return jnp.where(loss > low, jnp.minimum(loss, high), low)
