"""Stopping times and recommendations are releases: their cost, and leaks through them.

The actions of all rounds show both, since a stopped learner plays the arm that it recommends. So
replays and attacks detect a stopping time that depends on the losses other than through private
sums.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax import random as jr

from dpjax import audit, learners
from dpjax.audit import Pair
from dpjax.combinators import as_learner
from dpjax.maths import exact_sums
from tests.play import play_table

pytestmark = pytest.mark.usefixtures("quick_compilation")
HORIZON = 64
# Large enough that the learners stop within the horizon.
EPSILON, FAILURE = 8.0, 0.9
OPTIONS = {
    "adap_tt": {}, "dp_tt": {}, "dp_tt, kept": {"forget": False, "ratio": 1.7}, "ctb_tt": {}
}  # fmt: skip
RATIOS = {"adap_tt": 2.0, "dp_tt": 2.0, "dp_tt, kept": 1.7, "ctb_tt": 1.1}
CHECKS = ("noise_seen", "same_actions", "same_scales", "same_keys", "fresh_keys")


def learner_of(name, horizon=HORIZON, epsilon=EPSILON, **more):
    make = getattr(learners, name.split(",")[0])
    return make(horizon, 2, epsilon=epsilon, failure=FAILURE, **OPTIONS[name], **more)


def bits(arms=2, horizon=HORIZON):
    """The first arm's losses are 0, the others' are 1."""
    return jnp.tile(jnp.array([0.0] + [1.0] * (arms - 1)), (horizon, 1))


def replays(learner, losses, *keys):
    """One replay per key and per round whose losses l become 1 - l."""
    here = jnp.eye(len(losses), dtype=bool)[:, :, None]
    others = jnp.where(here, 1.0 - losses, losses)

    @jax.jit
    def run(key):
        return lax.map(lambda other: audit.replay(learner, Pair(losses, other), key), others)

    found = [jax.tree.map(np.asarray, run(key)) for key in keys]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *found)


def complete_at(arms, ratio):
    """For each round, the round that completes its arm's phase, or T if none does."""
    ends = np.full(len(arms), len(arms))
    for arm in np.unique(arms):
        rounds, begun = np.flatnonzero(arms == arm), 0
        while begun < len(rounds):
            length = max(1, int(np.ceil(np.float32(ratio - 1.0) * np.float32(begun))))
            phase = rounds[begun : begun + length]
            if len(phase) == length:
                ends[phase] = phase[-1]
            begun += length
    return ends


@pytest.mark.parametrize("name", OPTIONS)
def test_a_loss_of_a_complete_phase_costs_epsilon_and_any_other_nothing(name):
    """For rounds in complete phases, in incomplete phases, and after the stop."""
    learner, losses, key = learner_of(name), bits(), jr.key(3)
    found = replays(learner, losses, key)
    for check in CHECKS:
        assert getattr(found, check).all(), check
    game = play_table(learner, losses, key)
    # The stop is known in the state before a round is played.
    stopped = np.asarray(jax.vmap(as_learner(learner).report)(game.states).stopped)[:HORIZON]
    arms = np.asarray(game.actions)[:HORIZON]
    used = ~stopped & (complete_at(np.where(stopped, -1, arms), RATIOS[name]) < HORIZON)
    np.testing.assert_allclose(found.pure, np.where(used, EPSILON, 0.0), rtol=1e-5)
    assert 0 < used.sum() < HORIZON
    assert stopped.any() and (arms[stopped] == arms[-1]).all()


def test_each_loss_of_sequential_halving_costs_epsilon():
    """Three arms of 10 rounds each, two of 16, and one of 2, whose mean is released at the end."""
    learner = learners.sequential_halving(HORIZON, 3, epsilon=EPSILON)
    found = replays(learner, bits(3), jr.key(0))
    for check in CHECKS:
        assert getattr(found, check).all(), check
    np.testing.assert_allclose(found.pure, EPSILON, rtol=1e-5)


# Leaks ----------------------------------------------------------------------------------------


def recommending_by_exact_means(learner):
    """Private means choose the arms, but the exact sum of the first arm's losses the report."""

    def init(key):
        state, batch = learner.init(key)
        return (state, batch.action, jnp.float32(0.0)), batch

    def step(state, key, total):
        inner, arm, exact = state
        exact += jnp.where(arm == 0, exact_sums.to_float(total), 0.0)
        inner, batch = learner.step(inner, key, total)
        return (inner, batch.action, exact), batch

    def report(state):
        inner, _, exact = state
        return learner.report(inner)._replace(recommendation=(exact > 0.5).astype(jnp.int32))

    return learner._replace(init=init, step=step, report=report)


@pytest.mark.parametrize("name", ["adap_tt", "sequential_halving"])
def test_a_recommendation_by_exact_sums_is_seen_in_the_report(name):
    """These learners' actions do not show it."""
    horizon, eps = 8, 1.0
    learner = getattr(learners, name)(horizon, 2, epsilon=eps)
    leaking = recommending_by_exact_means(learner)
    losses = jnp.zeros((horizon, 2))
    others = jax.vmap(lambda t: losses.at[t].set(1.0))(jnp.arange(horizon))
    pairs = Pair(jnp.tile(losses, (horizon, 1, 1)), others)
    hidden = leaking._replace(privacy=leaking.privacy._replace(reported=()))
    failed = [audit.verdict(each, pairs, jr.key(0)).failed for each in (learner, leaking, hidden)]
    assert failed[0] == failed[2] == () and "same_actions" in failed[1]
    # So does an attack, which reads the recommendation among the released values.
    actions, report = jax.jit(lambda key: audit.play(leaking, losses, key))(jr.key(0))
    assert actions.shape == (horizon,) and len(report) == 3
    one = jax.tree.map(lambda leaf: leaf[0], pairs)
    bounds = [
        audit.epsilon(made, one, jr.key(1), runs=2**13, progress=False).epsilon
        for made in (learner, leaking)
    ]
    assert bounds[0] <= eps and bounds[1] > 1.5 * eps


@pytest.mark.parametrize("name", ["adap_tt", "sequential_halving", "successive_elimination"])
def test_the_last_round_is_replayed_since_the_report_depends_on_it(name):
    learner = getattr(learners, name)(8, 2, epsilon=1.0)
    declared = learner.privacy.reported
    assert {"stopped", "stopping_time", "recommendation"} <= set(declared)
    pairs = audit.pairs_for(learner, 64, jr.key(0))
    assert bool((pairs.losses != pairs.others)[:, -1].any())
    assert audit.verdict(learner, pairs, jr.key(1)).failed == ()
    absent = learner._replace(report=lambda state: ())
    with pytest.raises(ValueError, match="^learner: its privacy covers '.*' of the report"):
        audit.replay(absent, jax.tree.map(lambda leaf: leaf[0], pairs), jr.key(0))
