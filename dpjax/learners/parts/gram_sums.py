"""Private Gram matrices of rows (features, loss), with bounds on rows and calibrated noise.

A linear learner reads the past through sum v v', where v = (x, loss) has d + 1 entries. The first d
rows and columns of the sum are the Gram matrix of the features, and its last row is the sum of the
features times the losses. Matrices are packed as in :mod:`dpjax.maths.ellipsoids`. The last entry,
the sum of squared losses, is not used.

The noise is made in :mod:`dpjax.learners.parts.gram_noise`, with its privacy.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp

from dpjax.core import Array
from dpjax.learners.parts.gram_calibration import Regularizer
from dpjax.maths import ellipsoids
from dpjax.maths.clipping import within
from dpjax.maths.two_words import add_compensated


class GramSumsState(NamedTuple):
    total: Array  # (packed,) exact sum of v v' so far
    error: Array  # (packed,) what rounding has added to it (Kahan)
    noise: Any
    clipped: Array  # () int32


class GramSums(NamedTuple):
    """A calibrated release of the Gram matrix, which clips its rows."""

    init: Callable  # key -> (state, release of no rows, packed, with the regularizer)
    step: Callable  # (state, key, features (d,), loss ()) -> (state, release of the rows so far)
    regularizer: Regularizer


def gram_sums(dim, bounds, drawn) -> GramSums:
    """Noisy Gram matrices of the rows of rounds 1 .. t, t = 0 .. T - 1.

    Sums are float32 with Kahan's correction, which is accurate enough for one row to be hidden as
    it should be while sums stay below 2^24 times the noise.

    Args:
      dim: d, entries of the features.
      bounds: the Bounds that the noise is for.
      drawn: a GramNoise.
    """
    size = ellipsoids.packed_size(dim + 1)
    regularizer = Regularizer(*(jnp.asarray(x, jnp.float32) for x in drawn.regularizer))
    farthest, largest = (jnp.asarray(x, jnp.float32) for x in (bounds.features, bounds.loss))

    def init(key):
        inner, now = drawn.init(key)
        zeros = jnp.zeros(size, jnp.float32)
        start = GramSumsState(zeros, zeros, inner, jnp.zeros((), jnp.int32))
        return start, ellipsoids.add_to_diagonal(now, dim + 1, regularizer.offset)

    def step(state, key, features, loss):
        # The squares of huge entries may overflow, so these are cut. NaN counts as the least value.
        finite = within(features, -1e3 * farthest, 1e3 * farthest)
        length = jnp.sqrt(ellipsoids.squared_length(finite))
        inside = finite * (farthest / jnp.maximum(length, farthest))
        kept = within(loss, -largest, largest)
        # A row at the bound may be off by rounding, and is not counted as clipped.
        outside = (length > 1.00001 * farthest) | ~(jnp.abs(loss) <= 1.00001 * largest)
        row = ellipsoids.outer(jnp.append(inside, kept))
        total, error = add_compensated(state.total, state.error, row)
        inner, now = drawn.step(state.noise, key)
        noisy = drawn.release(total + now, key, row)
        release = ellipsoids.add_to_diagonal(noisy, dim + 1, regularizer.offset)
        clipped = state.clipped + outside.astype(jnp.int32)
        return GramSumsState(total, error, inner, clipped), release

    return GramSums(init, step, regularizer)
