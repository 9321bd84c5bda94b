"""Environments made from environments: played by arms, or with counts of switches or of plays."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from dpjax import _check, domains
from dpjax.action_sets import fits
from dpjax.core import Arms, Array, Environment


def arms_as_points(environment: Environment, arms: int) -> Environment:
    """An environment over points of the simplex that arms play. Arm i is the i-th unit vector."""
    arms = _check.arms(arms)
    if not fits(domains.simplex(arms), environment.action_set):
        raise ValueError(f"environment must have a domain that holds the simplex of {arms} arms")

    def step(state, key, arm):
        return environment.step(state, key, jax.nn.one_hot(arm, arms, dtype=jnp.float32))

    return environment._replace(step=step, action_set=Arms(arms), batch=None)


class SwitchesState(NamedTuple):
    environment: Any
    previous: Array  # () int32, the arm of the last round, -1 before the first


class SwitchesTally(NamedTuple):
    tally: Any  # that of the environment
    switches: Array  # () float32, 1 where the arm differs from that of the round before


def count_switches(environment: Environment) -> Environment:
    """The same environment over arms, whose tally also counts how often the arm changed.

    ``Result.tally.switches`` is the number of switches. The game itself is the same, draw for draw.
    """

    def init(key):
        return SwitchesState(environment.init(key), jnp.full((), -1, jnp.int32))

    def step(state, key, arm):
        inner, outcome = environment.step(state.environment, key, arm)
        switched = (state.previous >= 0) & (state.previous != arm)
        tally = SwitchesTally(outcome.tally, switched.astype(jnp.float32))
        return SwitchesState(inner, arm), outcome._replace(tally=tally)

    def regret(state, tally):
        return environment.regret(state.environment, tally.tally)

    return environment._replace(init=init, step=step, regret=regret, batch=None)


class PlaysTally(NamedTuple):
    tally: Any  # that of the environment
    plays: Array  # (K,) float32, 1 at the arm that was played


def count_plays(environment: Environment) -> Environment:
    """The same environment over arms, whose tally also counts the rounds that each arm was played.

    ``Result.tally.plays`` has these counts, (K,). The game itself is the same, draw for draw.
    """
    actions = environment.action_set
    if not isinstance(actions, Arms):
        raise ValueError(f"environment must be played by arms, to count them; it has {actions!r}")

    def counted(tally, arm):
        return PlaysTally(tally, (jnp.arange(actions.count) == arm).astype(jnp.float32))

    def step(state, key, arm):
        state, outcome = environment.step(state, key, arm)
        return state, outcome._replace(tally=counted(outcome.tally, arm))

    def batch(state, key, arm, rounds, feedback):
        state, total, tally = environment.batch(state, key, arm, rounds, feedback)
        return state, total, counted(tally, arm)

    def regret(state, tally):
        return environment.regret(state, tally.tally)

    by_batches = None if environment.batch is None else batch
    return environment._replace(step=step, regret=regret, batch=by_batches)
