"""Draws that are no release: they hide nothing, and no audit looks at them."""

import jax
import jax.numpy as jnp


def smallest(key, values):
    """The index of the smallest of values (n,), one of them at random where several are; () int32.

    A fixed order among ties would favour some arms in every trial.
    """
    ties = values == jnp.min(values)
    count = jnp.sum(ties, dtype=jnp.int32)
    rank = jnp.floor(jax.random.uniform(key) * count.astype(jnp.float32)).astype(jnp.int32)
    rank = jnp.minimum(rank, count - 1)  # the product may round up
    chosen = ties & (jnp.cumsum(ties, dtype=jnp.int32) == rank + 1)
    return jnp.sum(jnp.where(chosen, jnp.arange(values.shape[0]), 0), dtype=jnp.int32)
