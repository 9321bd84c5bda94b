"""The switching-cost adversary: a random walk hides the best arm, and each switch costs."""

import math
from typing import Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import random as jr

from dpjax.core import Arms, Array, Environment, Outcome, _check
from dpjax.environments.arms import best_fixed_arm
from dpjax.maths import laws


class SwitchingCostState(NamedTuple):
    round: Array  # () int32, the next round
    walk: Array  # (levels,) W at (t >> i) << i for i = 0, 1, ..., where t is the last round
    best: Array  # () int32
    previous: Array  # () int32, arm of the last round, -1 before the first


def switching_cost(
    horizon: int, arms: int, *, walk: Literal["multiscale", "gaussian"] = "multiscale"
) -> Environment:
    """A random walk shared by all arms hides the best one; a switch forfeits the gain.

    With sigma = 1 / (9 log2 T), gap = K^(1/3) T^(-1/3) / (9 log2 T), best arm chi uniform and
    xi_t ~ N(0, sigma^2),

        W_t = W_rho(t) + xi_t, W_0 = 0,    L_t(i) = clip(W_t + 1/2 - gap 1{i = chi}, 0, 1).

    The learner suffers L_t(a), or 1 if its arm differs from that of the previous round. The
    multi-scale walk has rho(t) = t minus its lowest set bit, so W_t sums one step for each set bit
    of t. The plain Gaussian walk has rho(t) = t - 1.

    Args:
      horizon: T, rounds; it sets sigma and gap.
      arms: K, at least 2.
      walk: "multiscale" or "gaussian".

    Returns:
      An Environment of T rounds whose regret is policy regret: the comparator always plays one arm
      and never pays for a switch. The tally is the suffered loss minus L_t, (K,).

    Reference: Dekel, Ding, Koren & Peres, "Bandits with switching costs: T^(2/3) regret", 2014,
    Figure 1; the switching costs adversary of Tossou & Dimitrakakis 2017.

    Examples:
      >>> environment, key = environments.switching_cost(8, 2), jax.random.key(0)
      >>> step = jax.jit(environment.step)
      >>> state, outcome = step(environment.init(key), key, 0)
      >>> state, outcome = step(state, key, 0)
      >>> float(outcome.loss[1])  # a switch to arm 1 costs the most
      1.0
    """
    horizon = _check.size(1, horizon=horizon)
    arms = _check.arms(arms)
    _check.one_of("multiscale", "gaussian", walk=walk)
    log_horizon = max(math.log2(horizon), 1.0)
    sigma = 1.0 / (9.0 * log_horizon)
    gap = (arms / horizon) ** (1 / 3) / (9.0 * log_horizon)
    levels = np.arange(horizon.bit_length(), dtype=np.int32)

    def init(key):
        best = jr.randint(key, (), 0, arms)
        zero = jnp.zeros(levels.shape, jnp.float32)
        return SwitchingCostState(jnp.ones((), jnp.int32), zero, best, jnp.full((), -1, jnp.int32))

    def step(state, key, arm):
        t = state.round
        # walk[i] holds W at t - 1 without its i lowest bits. Let j be the lowest bit that is set in
        # t. Then t - 1 without j bits is the parent of t, and t without up to j bits is t itself.
        lowest = t & -t if walk == "multiscale" else 1
        position = jnp.sum(jnp.where((1 << levels) == lowest, state.walk, 0.0))
        position = position + sigma * laws.normal(key)
        advantage = jnp.zeros(arms, jnp.float32).at[state.best].set(gap)
        loss = jnp.clip(position + 0.5 - advantage, 0.0, 1.0)
        stays = (state.previous < 0) | (jnp.arange(arms) == state.previous)
        suffered = jnp.where(stays, loss, 1.0)
        new_walk = jnp.where((1 << levels) <= lowest, position, state.walk)
        new = SwitchingCostState(t + 1, new_walk, state.best, arm)
        return new, Outcome(suffered, suffered[arm] - loss)

    return Environment(init, step, best_fixed_arm, Arms(arms), horizon)
