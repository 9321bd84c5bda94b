"""Policies that follow a mixture of experts, and keep the random number of their round."""

from typing import NamedTuple

import jax.numpy as jnp

from dpjax.core import Array


class Mixture(NamedTuple):
    """The parameters of a policy: a law on the experts, and the coin of the round."""

    weights: Array  # q (N,)
    mixing: Array  # () gamma
    level: Array  # () in [0, 1), from which the arm is drawn


def law_of_arms(mixture: Mixture, advice: Array):
    """p = (1 - gamma) E' q + gamma / K, (K,), for advice E' (K, N)."""
    arms, gamma = advice.shape[0], mixture.mixing
    return (1.0 - gamma) * jnp.sum(advice * mixture.weights[None], axis=1) + gamma / arms


def follow(mixture: Mixture, advice: Array):
    """An arm drawn from :func:`law_of_arms`, the same each time for the same coin and advice.

    Args:
      mixture: a Mixture.
      advice: E' (K, N), the law of expert i in column i.

    Returns:
      () int32.
    """
    ends = jnp.cumsum(law_of_arms(mixture, advice))
    return jnp.sum(ends[:-1] <= mixture.level, dtype=jnp.int32)
