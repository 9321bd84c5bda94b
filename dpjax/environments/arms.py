"""What environments over finitely many arms share."""

import jax.numpy as jnp
from jax import random as jr

from dpjax import _check


def best_fixed_arm(state, tally):
    """Regret against the best arm in hindsight, from the summed tally loss[a] - loss, (K,)."""
    del state
    return jnp.max(tally)


def as_means(means):
    """Mean losses as a float32 array (K,), refused unless K is at least 2 and all in [0, 1]."""
    means = jnp.asarray(means, jnp.float32)
    if means.ndim != 1 or means.shape[0] < 2:
        raise ValueError(f"means must have shape (K,) with K at least 2, got {means.shape}")
    _check.between(0.0, 1.0, means=means)
    return means


def draw_losses(key, means):
    """Independent losses, loss of arm i ~ Bernoulli(means[i]), (K,) float32."""
    return (jr.uniform(key, means.shape) < means).astype(jnp.float32)
