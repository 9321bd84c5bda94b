"""Losses that are moved into their range, and counted."""

import jax.numpy as jnp
import numpy as np
import pytest

from dpjax.maths.clipping import clip_loss

LOSSES = [-0.1, 0.0, 0.5, 1.0, 1.5, np.nan, np.inf, -np.inf]
CLIPPED = [0.0, 0.0, 0.5, 1.0, 1.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize("shape", [(8,), (2, 4)])
def test_losses_outside_are_clipped_and_counted(shape):
    """Five of eight, one by one and all at once; NaN counts as 0."""
    count = jnp.int32(3)
    inside, total = clip_loss(jnp.asarray(LOSSES, jnp.float32).reshape(shape), count)
    np.testing.assert_array_equal(inside.ravel(), CLIPPED)
    assert (total, total.dtype, total.shape) == (8, jnp.int32, ())
    for loss, expected in zip(LOSSES, CLIPPED, strict=True):
        inside, count = clip_loss(jnp.float32(loss), count)
        assert inside == expected
    assert (count, count.dtype) == (8, jnp.int32)
