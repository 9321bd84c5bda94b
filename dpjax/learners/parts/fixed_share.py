"""Fixed share: exponential weights over sequences of arms that change now and then."""

import jax.numpy as jnp


def shared(weights, share):
    """(1 - alpha) w / sum w + alpha / K: the law of the next arm, from weights (K,)."""
    return (1.0 - share) * weights / jnp.sum(weights) + share / weights.shape[0]


def share_for(rounds, shifts):
    """alpha = S / (n - 1), at most 1/2, for n rounds and S shifts."""
    return jnp.minimum(shifts / jnp.maximum(rounds - 1.0, 1.0), 0.5)


def complexity(rounds, arms, shifts, share):
    """ln K + S ln(K / alpha) - (n - 1 - S) ln(1 - alpha + alpha / K), in place of ln K.

    It is -ln of the prior of a sequence of arms that shifts S times in n rounds, where the next arm
    is the same with probability 1 - alpha + alpha / K, and each other one with alpha / K.
    """
    moves = shifts * jnp.log(arms / jnp.maximum(share, 1e-30))
    stays = jnp.maximum(rounds - 1.0 - shifts, 0.0) * jnp.log1p(share / arms - share)
    return jnp.log(jnp.float32(arms)) + moves - stays
