"""Top-two sampling: half of a leader's rounds play it, the other half its challenger."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp

from dpjax.core import Array, BatchLearner, Number
from dpjax.learners.parts import identification
from dpjax.maths import transport
from dpjax.maths.clipping import within
from dpjax.maths.laws import smallest


class Tracked(NamedTuple):
    """For each arm as the leader: rounds played, and rounds in which the arm itself was played."""

    led: Array  # (K,) int32
    played: Array  # (K,) int32


def gaussian_cost(phases: identification.Phases, leader: Array):
    """(mean_b - mean_leader + 1 / (1 + sqrt(t))) / sqrt(1 / N_leader + 1 / N_b), (K,)."""
    pulls = phases.pulls.astype(jnp.float32)
    slack = 1.0 / (1.0 + jnp.sqrt(phases.rounds))
    gaps = phases.means - phases.means[leader] + slack
    return gaps / jnp.sqrt(1.0 / pulls[leader] + 1.0 / pulls)


def transport_cost(epsilon: Number) -> Callable:
    """(phases, leader) -> W_b + ln N_b for the transport cost W_b of arm b and the leader."""

    def cost(phases, leader):
        pulls = phases.pulls.astype(jnp.float32)
        means = within(phases.means, 0.0, 1.0)
        cost = transport.transport_cost(means[leader], means, pulls[leader], pulls, epsilon)
        return cost + jnp.log(pulls)

    return cost


def top_two(
    horizon, arms, grid, bounds, cost, rule, declared, release=identification.without_noise
) -> BatchLearner:
    """Play the leader, which has the smallest optimistic mean, and its challenger of smallest cost.

    A batch lasts an eighth of the pulls of the less played of the two.

    Args:
      horizon, arms: T and K.
      grid, rule, release: as in :func:`dpjax.learners.parts.identification.identification_learner`.
      bounds: of the leader, as in :func:`optimistic_arm`.
      cost: (phases, leader) -> (K,).
      declared: the Privacy.
    """

    def choose(key, phases, tracked):
        leader = identification.optimistic_arm(key, phases, bounds)
        others = jnp.arange(arms) != leader
        challenger = smallest(key, jnp.where(others, cost(phases, leader), jnp.inf))
        leads = 2 * tracked.played[leader] <= tracked.led[leader]
        arm = jnp.where(leads, leader, challenger)
        less = jnp.minimum(phases.pulls[leader], phases.pulls[challenger])
        batch = grid.batch(phases, arm, less)
        led = tracked.led.at[leader].add(batch.rounds)
        played = tracked.played.at[leader].add(jnp.where(leads, batch.rounds, 0))
        return batch, Tracked(led, played)

    none = jnp.zeros(arms, jnp.int32)
    return identification.identification_learner(
        horizon, arms, grid=grid, release=release, choose=choose, memory=Tracked(none, none),
        rule=rule, privacy=declared,
    )  # fmt: skip
