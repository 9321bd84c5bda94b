"""Fixed share: exponential weights over sequences of arms that change occasionally."""

import jax.numpy as jnp

from dpjax.core import Array, Number
from dpjax.maths import exact_sums
from dpjax.maths.exact_sums import ExactSum

# Smaller shares count as 0.
LEAST_SHARE = 1e-25
_LARGEST = 87.0  # e^87 is finite in float32


def shared(losses: ExactSum, rate: Number, share: Number):
    """Corrected losses (K,) for which softmax(-eta losses) is the law of the next arm.

    The law of the next arm is P = (1 - alpha) w / sum w + alpha / K with w = exp(-eta L). So the
    loss of an arm with excess loss x / eta over the best one is reduced by
    ln(1 + g (e^x - 1)) / eta, with g = alpha S / (K (1 - alpha) + alpha S) and S = sum exp(-x). The
    sums L stay exact. If the law were stored instead, it would be rounded in each round, and an
    entry that once becomes 0 would stay 0.
    """
    excess = rate * exact_sums.excess(losses)
    total = jnp.sum(jnp.exp(-excess))
    share = jnp.where(share < LEAST_SHARE, 0.0, share)
    odds = share * total
    moved = odds / (excess.shape[0] * (1.0 - share) + odds)
    off = jnp.log1p(moved * jnp.expm1(jnp.minimum(excess, _LARGEST)))
    far = jnp.where(share > 0.0, jnp.maximum(excess - _LARGEST, 0.0), 0.0)
    return exact_sums.shifted(losses, -(off + far) / rate)


def jump(arm: Array, arms: int, share: Number):
    """The logits of an arm that stays with probability 1 - alpha and is otherwise uniform, (K,)."""
    stays = jnp.arange(arms) == arm
    return jnp.log(jnp.where(stays, 1.0 - share, 0.0) + share / arms)


def share_for(rounds: Number, shifts: Number):
    """alpha = S / (n - 1), at most 1/2, for n rounds and S shifts."""
    return jnp.minimum(shifts / jnp.maximum(rounds - 1.0, 1.0), 0.5)


def complexity(rounds: Number, arms: int, shifts: Number, share: Number):
    """ln K + S ln(K / alpha) - (n - 1 - S) ln(1 - alpha + alpha / K), which replaces ln K.

    It is -ln of the prior of a sequence of arms that shifts S times in n rounds. The next arm is
    the same with probability 1 - alpha + alpha / K, and each other arm has probability alpha / K.
    """
    moves = shifts * jnp.log(arms / jnp.maximum(share, 1e-30))
    stays = jnp.maximum(rounds - 1.0 - shifts, 0.0) * jnp.log1p(share / arms - share)
    return jnp.log(jnp.float32(arms)) + moves - stays
