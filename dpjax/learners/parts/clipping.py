"""Loss vectors that are moved into a LossSet and counted."""

from collections.abc import Callable

import jax.numpy as jnp

from dpjax.domains import clipped


def clip_into(losses, unit) -> Callable:
    """The ``clip`` of a learner whose loss vectors are in a LossSet.

    Args:
      losses: a LossSet.
      unit: "round" or "entry", as for :func:`dpjax.domains.clipped`.

    Returns:
      A function: loss (d,) -> (the loss within the set (d,), 1 if it lay outside and else 0).
    """
    clip = clipped(losses, unit)
    # A vector on the border of the set moves by rounding when it is clipped.
    tolerance = 1e-5 * max(abs(bound) for bound in losses.entry)

    def clip_loss(loss):
        inside = clip(loss)
        outside = ~(jnp.max(jnp.abs(inside - loss)) <= tolerance)  # True for NaN
        return inside, outside.astype(jnp.int32)

    return clip_loss
