"""Stochastic environments: independent Bernoulli losses."""

import jax.numpy as jnp
from jax import random as jr

from dpjax import _check, noise
from dpjax.core import Environment, Outcome, at
from dpjax.environments.arms import best_fixed_arm


def bernoulli(means, *, regret="realised") -> Environment:
    """I.i.d. losses, loss of arm i ~ Bernoulli(means[i]), arms independent of each other.

    Args:
      means: (K,) mean losses in [0, 1], K at least 2; may be traced.
      regret: "realised", against the arm that is best on the drawn losses, or "pseudo", the
        sum of the gaps means[a] - min(means) of the arms played.

    Returns:
      An Environment; with pseudo-regret it can be played by batches.

    Reference: the stochastic adversary of Tossou & Dimitrakakis 2017 has mean losses
    (0.45, 0.5, ..., 0.5).
    """
    means = jnp.asarray(means, jnp.float32)
    if means.ndim != 1 or means.shape[0] < 2:
        raise ValueError(f"means must have shape (K,) with K at least 2, got {means.shape}")
    _check.between(0.0, 1.0, means=means)
    _check.one_of("realised", "pseudo", regret=regret)

    def losses(key):
        return (jr.uniform(key, means.shape) < means).astype(jnp.float32)

    if regret == "realised":

        def step(state, key, arm):
            loss = losses(key)
            return state, Outcome(loss, at(loss, arm) - loss)

        return Environment(init=lambda key: (), step=step, regret=best_fixed_arm)

    def gap(arm):
        return at(means, arm) - jnp.min(means)

    def batch(state, key, arm, rounds):
        total = noise.binomial(key, rounds, at(means, arm))
        return state, total.astype(jnp.float32), gap(arm)

    return Environment(
        init=lambda key: (),
        step=lambda state, key, arm: (state, Outcome(losses(key), gap(arm))),
        regret=lambda state, tally: tally,
        batch=batch,
    )
