"""Thompson sampling with Beta posteriors, without privacy."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from dpjax.core import Arms, Array, Learner, Number, Privacy
from dpjax.feedback import bandit
from dpjax.learners.parts.arm_sums import posterior_draws


class ThompsonState(NamedTuple):
    ones: Array  # (K,) int32, losses of 1
    zeros: Array  # (K,) int32, losses of 0
    arm: Array  # () int32, the current arm


def thompson(horizon: int, arms: int, *, prior: Number = 1.0) -> Learner:
    """Thompson sampling: draw each arm's mean from its posterior, and play the smallest.

    The prior is Beta(a, a). After losses of 1 and 0 the posterior is Beta(a + number of ones,
    a + number of zeros). A loss between 0 and 1 counts as 1 with that probability, otherwise as 0.

    Args:
      horizon: T, rounds. Only the end of the game depends on it.
      arms: K, at least 2.
      prior: a, positive. The paper's prior is uniform, a = 1; that of Jeffreys is a = 1/2.

    Returns:
      A Learner with bandit feedback.

    Privacy: none is declared.

    Regret: asymptotically sum Delta_a ln T / kl(mu_a, mu*) for Bernoulli losses, from the uniform
    prior (Kaufmann et al. 2012).

    Reference: Thompson 1933; Agrawal & Goyal, "Analysis of Thompson sampling for the multi-armed
    bandit problem", 2012, Algorithm 2 for losses in [0, 1].

    Examples:
      >>> learner = learners.thompson(1000, 4)
      >>> learner.privacy.epsilon, learner.feedback.name  # nothing is declared
      (inf, 'bandit')
    """

    def choose(key, ones, zeros):
        draws = posterior_draws(key, ones.astype(jnp.float32), zeros.astype(jnp.float32), prior)
        arm = jnp.argmin(draws).astype(jnp.int32)
        return ThompsonState(ones, zeros, arm), arm

    def init(key):
        zeros = jnp.zeros(arms, jnp.int32)
        return choose(key, zeros, zeros)

    def step(state, key, loss):
        round_key, choice_key = jax.random.split(key)
        one = jax.random.uniform(round_key) < loss
        ones = state.ones.at[state.arm].add(one.astype(jnp.int32))
        zeros = state.zeros.at[state.arm].add((~one).astype(jnp.int32))
        return choose(choice_key, ones, zeros)

    return Learner(init, step, bandit, Arms(arms), horizon, Privacy())
