"""Losses that are clipped and counted, and the report of that count."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp

from dpjax.core import Array
from dpjax.domains import clipped


class ClippedReport(NamedTuple):
    clipped: Array  # () int32, losses outside the declared range or set, which were clipped


def report_clipped(state) -> ClippedReport:
    """The report of a learner whose state counts clipped losses in a field ``clipped``."""
    return ClippedReport(state.clipped)


def clip_into(losses, unit) -> Callable:
    """The function that moves a loss vector into a LossSet and counts those that lay outside.

    Args:
      losses: a LossSet.
      unit: "round" or "entry", as for :func:`dpjax.domains.clipped`.

    Returns:
      A function (loss (d,), count) -> (the loss within the set (d,), the new count).
    """
    clip = clipped(losses, unit)
    # A vector on the border of the set moves by rounding when it is clipped.
    tolerance = 1e-5 * max(abs(bound) for bound in losses.entry)

    def clip_loss(loss, count):
        inside = clip(loss)
        outside = ~(jnp.max(jnp.abs(inside - loss)) <= tolerance)  # True for NaN
        return inside, count + outside.astype(jnp.int32)

    return clip_loss
