"""Shared by tests of batch learners: releases, ties, and the law of regret in both engines."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr
from scipy import stats

from dpjax import simulate, simulate_batches, sweep
from dpjax.maths import exact_sums
from tests.learners.given_noise import perturbed_values


def reusing(learner):
    """A mutant that adds the previous batch's sum, so that each loss is released twice."""

    def init(key):
        state, batch = learner.init(key)
        return (state, exact_sums.nothing()), batch

    def step(state, key, total):
        inner, batch = learner.step(state[0], key, exact_sums.add(total, state[1]))
        return (inner, total), batch

    return learner._replace(init=init, step=step, report=lambda state: ())


def changes_of_releases(make, losses, released, key):
    """The change of each release if the loss l of one round becomes 1 - l, for every round.

    The releases are fixed, (n,), so that all worlds play the same arms, which is checked.

    Returns:
      The rounds of the releases from 0 (n,), their noise scales (n,), and the changes (T, n), whose
      row i is for round i.
    """
    (arms, base), (all_arms, others) = perturbed_values(make, losses, released, key)
    np.testing.assert_array_equal(np.broadcast_to(arms, all_arms.shape), all_arms)
    log, other = base.learner.log, others.learner.log
    ends = np.flatnonzero(np.diff(log.count, prepend=0))
    return ends, log.scale[ends], np.abs(other.value[:, ends] - log.value[ends])


def with_pulls(environment, arms):
    """The same environment; its tally also counts the pulls of each arm."""

    def count(arm):
        return (jnp.arange(arms) == arm).astype(jnp.float32)

    def step(state, key, arm):
        state, outcome = environment.step(state, key, arm)
        return state, outcome._replace(tally=(outcome.tally, count(arm)))

    def batch(state, key, arm, rounds, feedback):
        state, total, tally = environment.batch(state, key, arm, rounds, feedback)
        return state, total, (tally, count(arm))

    return environment._replace(step=step, batch=batch, regret=lambda state, tally: tally[0])


def told_sums(learner, totals):
    """The state after one step per total, and the batches (arm, rounds) played."""
    state, batch = learner.init(jr.key(0))
    played = [(int(batch.action), int(batch.rounds))]
    for total in totals:
        state, batch = learner.step(state, jr.key(0), exact_sums.of(total))
        played.append((int(batch.action), int(batch.rounds)))
    return state, played


def told_one(learner, batches, seed, games=6000):
    """Arms (games, batches) of a learner that sees a sum of 1 after each batch."""

    def arms(key):
        state, batch = learner.init(key)
        played = [batch.action]
        for i in range(batches - 1):
            state, batch = learner.step(state, jr.fold_in(key, i), exact_sums.of(1.0))
            played.append(batch.action)
        return jnp.stack(played)

    return np.asarray(jax.jit(jax.vmap(arms))(jr.split(jr.key(seed), games)))


def check_even_ties(learner):
    """With all sums 1, arm 0 of four plays first, then the others in a uniformly random order.

    The fifth batch is a tie of all four. The orders are tested by chi-square.
    """
    played = told_one(learner, 5, seed=7)
    assert (np.sort(played[:, :4], axis=1) == np.arange(4)).all()
    # Each arm plays once at first, so beginning with arm 0 costs nothing.
    assert (played[:, 0] == 0).all()
    for column, options in [(1, 3), (2, 3), (4, 4)]:
        counts = np.bincount(played[:, column], minlength=4)[4 - options :]
        assert stats.chisquare(counts).pvalue > 1e-3
        assert counts.sum() == len(played)


def check_both_engines_agree(game):
    """Round by round and by batches, final regret has one law at epsilon 2 (Kolmogorov-Smirnov).

    The law at epsilon 0.2 is rejected.
    """

    def final(play, epsilons, seed):
        result = sweep(
            game, np.float32(epsilons), 600, jr.key(seed), play=play, checkpoints=1, progress=False
        )
        return np.round(result.regret[:, :, 0] * 100)

    by_batch, other = final(simulate_batches, [2.0, 0.2], 1)
    (by_round,) = final(simulate, [2.0], 2)
    assert stats.ks_2samp(by_round, by_batch).pvalue > 1e-3
    assert stats.ks_2samp(by_round, other).pvalue < 1e-6
