"""Private Gram matrices of rows (features, loss), with bounds on rows and calibrated noise.

A linear learner reads the past through sum v v', where v = (x, loss) has d + 1 entries. The first d
rows and columns of the sum are the Gram matrix of the features, and its last row is the sum of the
features times the losses. Matrices are packed as in :mod:`dpjax.maths.ellipsoids`. The last entry,
the sum of squared losses, is not used.

The noise is made in :mod:`dpjax.learners.parts.gram`, with its privacy.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp

from dpjax.learners.parts.gram_calibration import Regularizer
from dpjax.maths import ellipsoids
from dpjax.maths.clipping import within


def within_bounds(seen, bounds):
    """The ``clip`` of a learner of rows (features (d,), loss ()) within Bounds.

    Longer features are scaled down to the largest length, and losses are clipped.
    """
    features, loss = seen
    farthest, largest = (jnp.asarray(x, jnp.float32) for x in (bounds.features, bounds.loss))
    # The squares of huge entries may overflow, so these are cut. NaN counts as the least value.
    finite = within(features, -1e3 * farthest, 1e3 * farthest)
    length = jnp.sqrt(ellipsoids.squared_length(finite))
    inside = finite * (farthest / jnp.maximum(length, farthest))
    kept = within(loss, -largest, largest)
    # A row at the bound may be off by rounding, and is not counted as clipped.
    outside = (length > 1.00001 * farthest) | ~(jnp.abs(loss) <= 1.00001 * largest)
    return (inside, kept), outside.astype(jnp.int32)


class GramSums(NamedTuple):
    """A calibrated release of the Gram matrix of rows within Bounds."""

    init: Callable  # key -> (state, release of no rows, packed, with the regularizer)
    step: Callable  # (state, key, features (d,), loss ()) -> (state, release of the rows so far)
    regularizer: Regularizer  # of round T
    by_round: Callable  # function of a Regularizer -> (state -> its value in the next round)


def gram_sums(dim, drawn) -> GramSums:
    """Noisy Gram matrices of the rows of rounds 1 .. t, t = 0 .. T - 1.

    Args:
      dim: d, entries of the features.
      drawn: a GramNoise.
    """

    def in_float32(regularizer):
        return Regularizer(*(jnp.asarray(x, jnp.float32) for x in regularizer))

    offset = drawn.by_round(lambda regularizer: in_float32(regularizer).offset)

    def init(key):
        inner, now = drawn.init(key)
        return inner, ellipsoids.add_to_diagonal(now, dim + 1, offset(inner))

    def step(state, key, features, loss):
        row = ellipsoids.outer(jnp.append(features, loss))
        inner, now = drawn.step(state, key, row)
        return inner, ellipsoids.add_to_diagonal(now, dim + 1, offset(inner))

    def by_round(function):
        return drawn.by_round(lambda regularizer: function(in_float32(regularizer)))

    return GramSums(init, step, in_float32(drawn.regularizer), by_round)
