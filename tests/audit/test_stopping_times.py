"""Stopping times and recommendations are releases: their cost, and leaks through them.

The actions of all rounds show both, since a stopped learner plays the arm that it recommends. So
replays and attacks detect a stopping time that depends on the losses other than through private
sums.
"""

import jax
import jax.numpy as jnp
import pytest
from jax import random as jr

from dpjax import audit, learners
from dpjax.audit import Pair
from dpjax.maths import exact_sums

pytestmark = pytest.mark.usefixtures("quick_compilation")


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
