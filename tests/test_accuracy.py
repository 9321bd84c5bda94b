"""float32 over millions of rounds, compared with the same game in float64; and counters."""

import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import environments, learners, simulate
from dpjax.combinators import as_learner
from dpjax.combinators.batches import EveryRoundState
from dpjax.core import Arms, Environment, Outcome, Pairs
from dpjax.domains import Domain
from dpjax.feedback import seen_inside
from dpjax.maths.two_words import add_compensated
from dpjax.study.standard import drawn
from tests.shadow import in_float64, shadowed
from tests.test_conformance import ARMS, KINDS, every_learner, make, plays


def real_losses(name):
    """Losses that are multiples of no common number, for the learner's actions."""
    if not plays(name, Arms) or plays(name, Pairs):
        return drawn(make(name).action_set)

    def step(state, key, arm):
        loss = 0.8 * jnp.array([0.3, 0.5, 0.7]) + 0.2 * jr.uniform(key, (ARMS,))
        played = jnp.sum(jnp.where(jnp.arange(ARMS) == arm, loss, 0.0))
        return state, Outcome(loss, played - loss)

    return Environment(lambda key: (), step, lambda state, tally: jnp.max(tally), Arms(ARMS))


def long(name, horizon):
    """The learner, unless it refuses a horizon that float32 does not support."""
    try:
        return as_learner(make(name, horizon))
    except ValueError as error:
        assert str(error).startswith("horizon must be at most ")
        pytest.skip(str(error))


def both(name, horizon, environment=None, checkpoints=4):
    """The result in float32, and in float64 arithmetic for the same play, with the last state."""
    showing = long(name, horizon)._replace(report=lambda state: state)
    environment = environment or real_losses(name)
    play = partial(simulate, showing, environment, checkpoints=checkpoints)
    return shadowed(play, jr.key(0))


LONG = 2**20
# Pieces of 1024 rounds, 4096 of them at most: at worst 2^9 + 2^11 half units in the last place.
WORST = (2**9 + 2**11) * 2.0**-24
# Additional error allowed to learners of points, whose plays are rounded, and to states.
DRIFT, STATE_DRIFT = 1e-2, 5e-2


def error_of_regret(name, played):
    """(the largest error over the checkpoints, the allowed error)."""
    found, exact = played
    size = max(np.max(np.abs(leaf)) for leaf in jax.tree.leaves(exact.tally))
    drift = DRIFT * np.max(np.abs(exact.regret)) if plays(name, Domain) else 0.0
    return np.max(np.abs(found.regret - exact.regret)), WORST * max(size, 1.0) + drift


# For these learners, with p_i(L) and no floor, a difference in L grows as fast as the estimates. So
# a shadow of the same play drifts away, and the test would show nothing.
UNSTABLE = {"tsallis_inf", "batched_bandit"}


def drift_of_state(played):
    """The largest change of a float of the state by rounding, relative to the largest in its leaf.

    Excludes the rounding errors carried by compensated sums, which change by their own size.
    """
    largest, (state, exact) = 0.0, (result.report for result in played)
    leaves = jax.tree_util.tree_leaves_with_path(state)
    for (path, leaf), wide in zip(leaves, jax.tree.leaves(exact), strict=True):
        rounding = jax.tree_util.keystr(path).endswith((".error", ".low"))
        if leaf.dtype == np.float32 and not rounding:
            finite = np.isfinite(leaf)
            size = max(np.max(np.abs(wide), where=finite, initial=0.0), 1e-3)
            largest = max(largest, np.max(np.abs(leaf - wide), where=finite, initial=0.0) / size)
    return largest


@pytest.mark.parametrize("name", ["dp_exp3_lap", "hedge"])
def test_regret_in_float32_is_that_in_float64(name, monkeypatch):
    """At constant gaps over 2^18 rounds, where a plain float32 sum is biased."""
    gaps = environments.bernoulli([0.3, 0.4, 0.6], regret="pseudo")
    played = both(name, 2**18, gaps, checkpoints=1)
    error, bound = error_of_regret(name, played)
    assert error < bound and drift_of_state(played) < STATE_DRIFT
    monkeypatch.setattr(sys.modules["dpjax.game.play"], "PIECE", 2**30)
    error, bound = error_of_regret(name, both(name, 2**18, gaps, checkpoints=1))
    assert error > 2 * bound


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "horizon"),
    [*((name, LONG) for name in learners.__all__), *((name, 4 * LONG) for name in KINDS)],
)
def test_regret_of_a_million_rounds_in_float32_is_that_in_float64(name, horizon):
    """And of four million rounds, with one learner of each kind."""
    played = both(name, horizon)
    error, bound = error_of_regret(name, played)
    assert error < bound
    if name not in UNSTABLE:
        assert drift_of_state(played) < STATE_DRIFT


def test_a_shadow_sees_what_rounding_does():
    """A float32 sum of 2^20 tenths; if the rounding errors are carried along, it is exact."""
    value = np.float32(0.1)

    def sums():
        def one(_, carry):
            plain, total, error = carry
            return plain + value, *add_compensated(total, error, value)

        return jax.lax.fori_loop(0, 2**20, one, (jnp.float32(0), jnp.float32(0), jnp.float32(0)))

    (plain, total, _), (exact, *_) = shadowed(sums)
    assert abs(exact - 2**20 * float(value)) < 1e-6
    assert abs(plain - exact) > 1e-3 * exact and abs(total - exact) < 1e-7 * exact


def start(learner, environment, rounds=24):
    """The state and the action after some rounds, and the states of these rounds, (rounds, ...)."""
    one = one_round(learner, environment, jr.key(0))
    (last, (states, _)) = jax.jit(lambda start: jax.lax.scan(one, start, jnp.arange(rounds)))(
        learner.init(jr.key(0))
    )
    return last, states


def one_round(learner, environment, key):
    """The body of a scan over rounds t, which also returns the states and actions."""
    nature = environment.init(jr.key(2))

    def one(carry, t):
        state, action = carry
        outcome = environment.step(nature, jr.fold_in(jr.key(1), t), action)[1]
        loss, _ = seen_inside(learner, outcome.loss, action)
        after = learner.step(state, jr.fold_in(key, t), loss)
        return after, after

    return one


def counts(states):
    """The leaves that count rounds: they, or one of their entries, grow by one per round.

    Cut gradients are not counted in every round, although all of the first ones may be cut.
    """

    def of(path, leaf):
        total = np.asarray(leaf, np.float64).reshape(len(leaf), -1).sum(axis=1)
        grows = bool((np.diff(total)[4:] == 1.0).all())
        return leaf.dtype in (np.int32, np.float32) and grows and "cut" not in str(path[-1])

    return jax.tree_util.tree_map_with_path(of, states)


FAR = jnp.array([2**24, 2**25])
AFTER = 8  # rounds played after the jump


@every_learner
def test_counters_and_schedules_are_exact_past_what_float32_counts(name):
    """Starts a learner a few rounds before 2^24, above which float32 has no odd numbers.

    And before 2^25. From there each counter grows by one per round, and all other integers,
    including arms, are those of float64 arithmetic. Learners by batches count at the end of a
    batch: if their batches grow with the rounds, all counters stay constant meanwhile. In float32,
    such a length may be off by one and by its last bit.
    """
    learner, environment = long(name, 2**25 + 64), real_losses(name)
    (state, action), states = start(learner, environment)
    counting = counts(states)

    def set_down(leaf, yes):
        """At both starting points, along a new first axis."""
        shift = jnp.asarray(FAR - 28, leaf.dtype).reshape(-1, *[1] * leaf.ndim)
        return leaf[None] + (shift if yes else jnp.zeros_like(shift))

    state = jax.tree.map(set_down, state, counting)
    if isinstance(state, EveryRoundState) and counting.played:  # the current batch continues
        state = state._replace(batch=state.batch._replace(rounds=jnp.full(2, 2**26)))

    @partial(jax.vmap, in_axes=(0, 0, None))
    def play(far, state, action):
        one = one_round(learner, environment, jr.key(3))
        return jax.lax.scan(one, (state, action), far - 4 + jnp.arange(AFTER))[1]

    states, actions = jax.jit(play)(FAR, state, action)
    exact = in_float64(play, FAR, state, action)
    leaves = jax.tree_util.tree_leaves_with_path((states, actions))
    for (path, leaf), wide in zip(leaves, jax.tree.leaves(exact), strict=True):
        # The residual of an exact sum shows how its losses were rounded.
        if jax.tree_util.keystr(path).endswith("batch.rounds"):
            np.testing.assert_allclose(leaf, wide, rtol=2.0**-22, atol=1.0)
        elif leaf.dtype == np.int32 and not jax.tree_util.keystr(path).endswith(".part"):
            np.testing.assert_array_equal(leaf, wide)
    by_batches = isinstance(state, EveryRoundState) and not counting.played
    waiting = by_batches and bool((states.batch.rounds > AFTER).all())
    for leaf, yes in zip(jax.tree.leaves(states), jax.tree.leaves(counting), strict=True):
        if yes:
            totals = np.asarray(leaf, np.float64).reshape(2, AFTER, -1).sum(axis=2)
            np.testing.assert_array_equal(np.diff(totals), 0.0 if waiting else 1.0)
