"""Ranks of numbers, without a sort where there are few of them."""

import jax.numpy as jnp
import numpy as np


def ranks(values, blocks=None):
    """How many of the values come before each of them, (n,) int32.

    The smaller of two values comes before the other. Of equal ones the first does.

    Args:
      values: (n,).
      blocks: (n,) NumPy integers. Only values of the same block are compared.
    """
    n = values.shape[0]
    if n > 64 and blocks is None:
        return jnp.argsort(jnp.argsort(values))
    # For few values it is far cheaper under vmap to compare all pairs than to sort.
    i = np.arange(n)
    first = i[None] < i[:, None]
    before = (values[None] < values[:, None]) | ((values[None] == values[:, None]) & first)
    if blocks is not None:
        before = before & (blocks[None] == blocks[:, None])
    return jnp.sum(before, axis=1, dtype=jnp.int32)
