"""Adaptive adversaries with bounded memory, and their policy regret."""

from typing import NamedTuple

import jax.numpy as jnp

from dpjax.core import Arms, Array, Environment, Numbers, Outcome, _check
from dpjax.environments.arms import as_means, best_fixed_arm, draw_losses


class MemoryState(NamedTuple):
    arm: Array  # () int32, of the last round, -1 before the first
    streak: Array  # () int32, number of consecutive rounds that it was played


def memory(means: Numbers, *, rounds: int) -> Environment:
    """An adaptive adversary with memory m: an arm must be played m rounds before it pays off.

    An arm that was played in all of the last m rounds is warm and has Bernoulli losses; all others
    have loss 1. So each switch costs m rounds of warming up. During the first m rounds, an arm that
    was played in all rounds so far counts as warm. m = 1 is a switching cost.

    Args:
      means: (K,) mean losses in [0, 1] of a warm arm, K at least 2; may be traced.
      rounds: m >= 0, the adversary's memory; may be traced.

    Returns:
      An Environment whose regret is policy regret: the comparator always plays one arm and never
      pays for a switch. The tally is the suffered loss minus the warm losses, (K,).

    Reference: Arora, Dekel & Tewari, "Online bandit learning against an adaptive adversary: from
    regret to policy regret", 2012. It is an instance of the m-memory bounded adaptive adversary of
    Tossou & Dimitrakakis 2017.

    Examples:
      >>> environment, key = environments.memory([0.0, 0.0], rounds=1), jax.random.key(0)
      >>> state, step = environment.init(key), jax.jit(environment.step)
      >>> for arm in (0, 1, 1):
      ...     state, outcome = step(state, key, arm)
      ...     print(float(outcome.loss[arm]))
      0.0
      1.0
      0.0
    """
    means = as_means(means)
    _check.between(0.0, 2.0**30, rounds=rounds)
    needed = jnp.asarray(rounds, jnp.int32)
    arms = jnp.arange(means.shape[0])

    def init(key):
        return MemoryState(jnp.full((), -1, jnp.int32), jnp.zeros((), jnp.int32))

    def step(state, key, arm):
        warm_loss = draw_losses(key, means)
        first = state.arm < 0
        warm = first | (needed <= 0) | ((arms == state.arm) & (state.streak >= needed))
        loss = jnp.where(warm, warm_loss, 1.0)
        same = first | (state.arm == arm)
        # The arm of round 1 counts as played in all earlier rounds.
        begun = jnp.where(first, needed, 0)
        streak = jnp.where(same, jnp.maximum(state.streak + 1, begun), 1)
        streak = jnp.minimum(streak, jnp.maximum(needed, 1))
        return MemoryState(arm, streak), Outcome(loss, loss[arm] - warm_loss)

    return Environment(init=init, step=step, regret=best_fixed_arm, action_set=Arms(means.shape[0]))
