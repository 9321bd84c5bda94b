"""Values that a range is to hold."""

import jax.numpy as jnp


def within(loss, low, high):
    """The loss clipped to [low, high], where NaN counts as low.

    A NaN that is passed on shows in every later release, whatever noise they have.
    """
    return jnp.where(loss > low, jnp.minimum(loss, high), low)
