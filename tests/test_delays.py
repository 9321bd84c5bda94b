"""Copies that take turns see each loss once it arrives, and share no privacy; play counts."""

from functools import partial

import jax
import numpy as np
import pytest
from jax import random as jr

from dpjax import (
    audit,
    domains,
    environments,
    every_round,
    learners,
    simulate,
    simulate_batches,
    trajectory,
)
from dpjax.cli import audits
from dpjax.combinators import count_plays, interleave
from dpjax.core import BatchLearner, Learner
from dpjax.learners import explore_then_commit
from tests.play import play_table
from tests.test_combinators import feed, logging


def test_a_copy_is_fed_the_losses_of_its_rounds_but_the_one_after_its_last_action():
    learner = interleave(logging, 11, 2)
    losses = np.arange(11.0) / 16
    state, actions = feed(learner, losses)
    for turn in range(3):
        fed = state.copies.fed[turn][: state.copies.count[turn]]
        np.testing.assert_array_equal(fed, losses[turn::3][:-1])
    # A copy plays 0, 1, 0, ..., so three rounds have arm 0, then three arm 1.
    assert actions[:11] == [0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1]
    np.testing.assert_array_equal(learner.report(state), [3, 3, 2])
    assert learner.horizon == 11


@jax.jit
def actions_of(losses):
    learner = interleave(partial(learners.exp3, arms=2), 24, 3)
    return play_table(learner, losses, jr.key(0)).actions


def test_no_action_depends_on_a_loss_before_it_has_arrived():
    """Losses of round 5 first matter in round 9, the next turn of its copy."""
    losses = jr.uniform(jr.key(1), (24, 2))
    plain = actions_of(losses)
    changed = np.zeros(len(plain), bool)
    for amount in (0.0, 1.0):
        changed |= np.asarray(actions_of(losses.at[4].set(amount)) != plain)
    assert not changed[:8].any() and not (changed[8:24].reshape(4, 4)[:, 1:]).any()
    every = actions_of(1.0 - losses) != plain
    assert every[4:].any() and not every[:4].any()


def test_without_delay_it_is_the_learner_itself_bit_for_bit():
    environment = environments.bernoulli([0.3, 0.5, 0.6])
    for make in (partial(learners.dp_exp3_lap, arms=3, epsilon=1.0),
                 partial(learners.adap_ucb, arms=3, epsilon=1.0)):  # fmt: skip
        games = [simulate(each, environment, jr.key(3))
                 for each in (make(64), interleave(make, 64, 0))]  # fmt: skip
        for a, b in zip(*map(jax.tree.leaves, games), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.usefixtures("quick_compilation")
def test_replays_spend_what_one_copy_declares():
    """For noise on sums of an arm, and on prefix sums, which draw before the first round.

    A copy's play after the last round is neither released nor stored (``dp_ucb_int``).
    """
    for make in (
        partial(learners.dp_ucb_int, arms=2, epsilon=1.0),
        partial(learners.ftrl, domain=domains.simplex(3), epsilon=1.0),
    ):
        learner = interleave(make, 14, 2)
        assert learner.privacy.epsilon == make(5).privacy.epsilon
        assert "parallel composition of 3 copies" in learner.privacy.accountant
        pairs = audit.pairs_for(learner, 16, audits.keys()[0])
        verdict = audits.replays(learner, pairs)
        assert not verdict.failed and verdict.spent.max() == pytest.approx(
            float(learner.privacy.epsilon), rel=1e-3
        )
        halved = audit.mutants(learner, jax.tree.map(lambda x: x[0], pairs.losses))["noise halved"]
        assert "epsilon" in audits.replays(halved, pairs).failed


@pytest.mark.parametrize("by_batches", [False, True])
def test_plays_are_counted_and_the_game_stays_as_it_is(by_batches):
    environment = environments.bernoulli([0.3, 0.5, 0.6], regret="pseudo")
    learner: Learner | BatchLearner = explore_then_commit(200, 3, epsilon=1.0, rounds=20)
    play = simulate_batches if by_batches else simulate

    def game(key):
        plain = play(learner, environment, key, checkpoints=4)
        return plain, play(learner, count_plays(environment), key, checkpoints=4)

    plain, counted = jax.jit(jax.vmap(game))(jr.split(jr.key(8), 5))
    np.testing.assert_array_equal(counted.regret, plain.regret)
    np.testing.assert_array_equal(counted.tally.tally, plain.tally)
    plays = np.asarray(counted.tally.plays)
    assert (plays.sum(axis=1) == 200).all() and (np.sort(plays)[:, :2] == 20).all()
    np.testing.assert_array_equal(plays.argmax(axis=1), counted.report.arm)
    if not by_batches:
        arms = trajectory(every_round(learner), environment, jr.key(0), record=lambda p: p.action)
        single = simulate(learner, count_plays(environment), jr.key(0))
        np.testing.assert_array_equal(single.tally.plays, np.bincount(arms, minlength=3))
