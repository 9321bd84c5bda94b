"""float32 over millions of rounds: the same game in float64 arithmetic, and counters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import environments, simulate
from dpjax.batches import EveryRoundState, as_learner
from dpjax.core import Environment, Outcome
from tests.shadow import in_float64, shadowed
from tests.test_conformance import ARGUMENTS, ARMS, every_learner, make, parameters


def real_losses(name):
    """Losses that are no multiples of anything, for the actions that the learner takes."""
    if "domain" in parameters(name):
        return environments.linear_losses(ARGUMENTS["domain"], "iid")
    if "dim" in parameters(name):
        return environments.gap_arms(ARMS, gap=0.1)

    def step(state, key, arm):
        loss = 0.8 * jnp.array([0.3, 0.5, 0.7]) + 0.2 * jr.uniform(key, (ARMS,))
        played = jnp.sum(jnp.where(jnp.arange(ARMS) == arm, loss, 0.0))
        return state, Outcome(loss, played - loss)

    return Environment(lambda key: (), step, lambda state, tally: jnp.max(tally))


def both(name, horizon):
    learner = as_learner(make(name, horizon))
    reporting = learner._replace(report=lambda state: (learner.report(state), state))
    environment = real_losses(name)

    def play(key):
        result = simulate(reporting, environment, key, checkpoints=4)
        return result.regret, result.tally, result.report

    return shadowed(play, jr.key(0))


def start(learner, environment, rounds=24):
    """The state and the action after some rounds, and the states on the way, (rounds, ...)."""
    nature = environment.init(jr.key(2))

    @jax.jit
    def play():
        def one(carry, t):
            state, action = carry
            loss = seen(learner, environment, nature, t, action)
            state, action = learner.step(state, jr.fold_in(jr.key(0), t), loss)
            return (state, action), state

        return jax.lax.scan(one, learner.init(jr.key(0)), jnp.arange(rounds))

    return play()


def seen(learner, environment, nature, t, action):
    outcome = environment.step(nature, jr.fold_in(jr.key(1), t), action)[1]
    return learner.feedback(outcome.loss, action)


def counts(states):
    """Which leaves count rounds: one more in each, or in one of their entries."""

    def of(leaf):
        total = np.asarray(leaf, np.float64).reshape(len(leaf), -1).sum(axis=1)
        return leaf.dtype in (np.int32, np.float32) and bool((np.diff(total)[4:] == 1.0).all())

    return jax.tree.map(of, states)


AFTER = 8  # rounds that are played after the jump


@every_learner
@pytest.mark.parametrize("far", [2**24, 2**25])
def test_counters_and_schedules_are_exact_past_what_float32_counts(name, far):
    """A learner is set down a few rounds before 2^24, above which float32 has no odd numbers.

    From there each counter goes on by one a round, and whatever else is an integer, the arms
    included, is what float64 arithmetic makes it.
    """
    learner, environment = as_learner(make(name, 2**25 + 64)), real_losses(name)
    nature = environment.init(jr.key(2))
    (state, action), states = start(learner, environment)
    counting = counts(states)
    state = jax.tree.map(
        lambda leaf, yes: leaf + jnp.asarray(far - 28, leaf.dtype) if yes else leaf, state, counting
    )
    if isinstance(state, EveryRoundState):  # the batch in play lasts
        state = state._replace(batch=state.batch._replace(rounds=jnp.int32(2**26)))

    def play(state, action):
        def one(carry, t):
            state, action = carry
            loss = seen(learner, environment, nature, t, action)
            state, action = learner.step(state, jr.fold_in(jr.key(3), t), loss)
            return (state, action), (state, action)

        return jax.lax.scan(one, (state, action), far - 4 + jnp.arange(AFTER))[1]

    states, actions = jax.jit(play)(state, action)
    exact = in_float64(play, state, action)
    for path, leaf in jax.tree_util.tree_leaves_with_path((states, actions)):
        print(jax.tree_util.keystr(path), leaf.dtype)
    for leaf, wide in zip(jax.tree.leaves((states, actions)), jax.tree.leaves(exact), strict=True):
        if leaf.dtype == np.int32:
            np.testing.assert_array_equal(leaf, wide)
    for leaf, yes in zip(jax.tree.leaves(states), jax.tree.leaves(counting), strict=True):
        if yes:
            totals = np.asarray(leaf, np.float64).reshape(AFTER, -1).sum(axis=1)
            np.testing.assert_array_equal(np.diff(totals), 1.0)
