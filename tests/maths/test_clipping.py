"""Losses are clipped to their range, and counted."""

import jax.numpy as jnp
import numpy as np
import pytest

from dpjax.maths.clipping import into_range

LOSSES = [-0.1, 0.0, 0.5, 1.0, 1.5, np.nan, np.inf, -np.inf]
CLIPPED = [0.0, 0.0, 0.5, 1.0, 1.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize("shape", [(8,), (2, 4)])
def test_losses_outside_are_clipped_and_counted(shape):
    """Five of eight, one by one and all at once; NaN counts as 0."""
    inside, total = into_range(jnp.asarray(LOSSES, jnp.float32).reshape(shape), 0.0, 1.0)
    np.testing.assert_array_equal(inside.ravel(), CLIPPED)
    assert (total, total.dtype, total.shape) == (5, jnp.int32, ())
    for loss, expected in zip(LOSSES, CLIPPED, strict=True):
        inside, count = into_range(jnp.float32(loss), 0.0, 1.0)
        assert inside == expected and count.dtype == jnp.int32
        total -= count
    assert total == 0


def test_rounding_at_an_end_is_not_counted():
    """A millionth of the width by default."""
    for loss, outside in [(4.0 + 1e-6, 0), (4.0 + 1e-5, 1), (-1e-6, 0), (-1e-5, 1)]:
        assert into_range(jnp.float32(loss), 0.0, 4.0)[1] == outside
    assert into_range(jnp.float32(4.0 + 1e-5), 0.0, 4.0, tolerance=1e-4)[1] == 0
