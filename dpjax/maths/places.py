"""The entry of an array at a traced index."""

import jax.numpy as jnp

from dpjax.core import Array


def at(values: Array, arm: Array):
    """``values[arm]`` for values (K, ...) and a traced arm; zeros for an arm outside 0 .. K - 1.

    It is computed as a masked sum, which compilers fuse with neighbouring operations. Under vmap,
    indexing would become a gather.
    """
    chosen = jnp.arange(values.shape[0]) == arm
    chosen = chosen.reshape(-1, *[1] * (values.ndim - 1))
    return jnp.sum(jnp.where(chosen, values, 0), axis=0, dtype=values.dtype)
