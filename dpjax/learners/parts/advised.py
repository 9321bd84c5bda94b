"""Policies that follow a mixture of experts, and keep the random number of their round."""

from typing import NamedTuple

import jax.numpy as jnp

from dpjax.core import Array


class Mixture(NamedTuple):
    """The parameters of a policy: a law on the experts, and the coin of the round."""

    weights: Array  # q (N,)
    mixing: Array  # () gamma
    level: Array  # () in [0, 1), from which the arm is drawn


def follow(mixture: Mixture, advice: Array):
    """An arm drawn from (1 - gamma) E' q + gamma / K, the same for the same coin and advice.

    Args:
      mixture: a Mixture.
      advice: E' (K, N), the law of expert i in column i.

    Returns:
      () int32.
    """
    arms, gamma = advice.shape[0], mixture.mixing
    law = (1.0 - gamma) * jnp.sum(advice * mixture.weights[None], axis=1) + gamma / arms
    ends = jnp.cumsum(law)
    return jnp.sum(ends[:-1] <= mixture.level, dtype=jnp.int32)
