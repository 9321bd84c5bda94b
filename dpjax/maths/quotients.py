"""Quotients of whole numbers."""

import jax
import jax.numpy as jnp

from dpjax.core import Number


@jax.jit
def whole(count: Number, size: Number):
    """(floor(count / size), ceil(count / size)) of whole numbers, int32.

    Integers are divided. XLA may divide a float32 by multiplying it with a rounded reciprocal, and
    then floor(5248 / 41) is 127 instead of 128.
    """
    count, size = (jnp.asarray(x).astype(jnp.int32) for x in (count, size))
    return count // size, -(-count // size)
