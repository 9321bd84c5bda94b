"""Batch play: round by round and batch by batch are one algorithm."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import (
    Batch,
    BatchLearner,
    Environment,
    environments,
    every_round,
    learners,
    simulate,
    simulate_batches,
)
from dpjax.core import Outcome, bandit, full, no_privacy


def doubling(horizon, first=1):
    """Alternates between two arms, in batches of growing length; keeps what it was told."""

    def init(key):
        del key
        state = (jnp.zeros((), jnp.int32), jnp.zeros((), jnp.float32))
        return state, Batch(jnp.zeros((), jnp.int32), jnp.int32(first))

    def step(state, key, total):
        del key
        count, told = state
        rounds = jnp.minimum(2.0 ** (count + 1).astype(jnp.float32) * first, horizon)
        batch = Batch((count + 1) % 2, rounds.astype(jnp.int32))
        return (count + 1, told + total), batch

    return BatchLearner(
        init, step, bandit, jnp.zeros((), jnp.float32), horizon, no_privacy(), lambda state: state
    )


def spy(horizon):
    """An environment that records arm + 1 of each round, and whose loss is 1/4 for arm 1."""

    def step(t, key, arm):
        del key
        loss = jnp.array([0.0, 0.25])
        return t + 1, Outcome(loss, jnp.where(jnp.arange(horizon) == t, arm + 1, 0))

    return Environment(
        lambda key: jnp.zeros((), jnp.int32), step, lambda state, tally: jnp.float32(0)
    )


def test_every_round_plays_each_batch_to_its_end():
    """Batches of 1, 2, 4, 8, ... rounds; 12 rounds cut the fourth one short, unreported."""
    result = simulate(doubling(12), spy(12), jr.key(0))
    np.testing.assert_array_equal(result.tally, [1, 2, 2, 1, 1, 1, 1, 2, 2, 2, 2, 2])
    steps, told = result.report
    assert steps == 3
    assert told == 0.5  # the second batch's two rounds at 1/4; not the five of the fourth


def test_a_batch_that_ends_with_the_horizon_is_reported():
    result = simulate(doubling(15), spy(15), jr.key(0))
    assert result.report[0] == 4
    assert result.report[1] == 0.5 + 8 * 0.25


def test_simulate_batches_plays_the_same_batches():
    """Pseudo-regret is exact at every checkpoint, also within a batch."""
    environment = environments.bernoulli([0.0, 0.25], regret="pseudo")
    by_batch = simulate_batches(doubling(12), environment, jr.key(0), checkpoints=12)
    by_round = simulate(doubling(12), environment, jr.key(0), checkpoints=12)
    np.testing.assert_array_equal(by_batch.rounds, by_round.rounds)
    np.testing.assert_allclose(by_batch.regret, by_round.regret, rtol=1e-6)
    assert by_batch.report[0] == by_round.report[0] == 3


def test_the_two_engines_agree_in_law():
    """Final pseudo-regret of EXP3_tau, 4000 trials each: a Kolmogorov-Smirnov test.

    It has power: batches of 12 rounds in place of 7 are told apart.
    """
    environment = environments.bernoulli([0.2, 0.6, 0.7], regret="pseudo")

    def final(engine, tau, seed):
        def one(key):
            learner = learners.exp3_minibatch(600, 3, tau=tau)
            return engine(learner, environment, key, checkpoints=1).regret[0]

        return jax.jit(jax.vmap(one))(jr.split(jr.key(seed), 4000))

    by_round = final(simulate, 7, 1)
    by_batch = final(simulate_batches, 7, 2)
    longer = final(simulate_batches, 12, 3)
    assert stats.ks_2samp(by_round, by_batch).pvalue > 1e-3
    assert stats.ks_2samp(by_round, longer).pvalue < 1e-6


def test_a_billion_rounds_in_thirty_batches():
    """Counts stay exact beyond 2^24, and the losses of the batches add up to their mean."""
    horizon = 10**9
    environment = environments.bernoulli([0.5, 0.25], regret="pseudo")
    result = jax.jit(lambda: simulate_batches(doubling(horizon), environment, jr.key(0)))()
    assert result.rounds[-1] == horizon
    steps, told = result.report
    assert steps == 29  # 2^29 - 1 < 10^9 < 2^30 - 1
    # Rounds on arm 0 in complete batches 0, 2, ..., 28: (4^15 - 1) / 3; on arm 1 twice 4^14 - 1.
    zeros, ones = (4**15 - 1) // 3, 2 * (4**14 - 1) // 3
    deviation = np.sqrt(zeros * 0.25 + ones * 0.1875)
    # float32 holds the told sum to within 64.
    assert abs(float(told) - (zeros * 0.5 + ones * 0.25)) < 4 * deviation + 64
    assert float(result.regret[-1]) == pytest.approx(0.25 * zeros, rel=1e-6)


def test_every_round_of_a_traced_length_under_vmap():
    """One program serves batches of different lengths."""

    def switches(tau):
        learner = learners.exp3_minibatch(24, 3, tau=tau)
        return simulate(learner, spy(24), jr.key(1)).tally

    arms = np.asarray(jax.vmap(switches)(jnp.array([1.0, 4.0, 5.0, 24.0])))
    for row, tau in zip(arms, [1, 4, 5, 24], strict=True):
        starts = np.flatnonzero(np.diff(row)) + 1
        assert (starts % tau == 0).all()
    assert len(set(arms[0])) == 3


def test_batch_play_is_refused_where_it_would_be_wrong():
    environment = environments.bernoulli([0.2, 0.6], regret="pseudo")
    with pytest.raises(TypeError, match="BatchLearner"):
        simulate_batches(learners.exp3(8, 2), environment, jr.key(0))
    learner = learners.exp3_minibatch(8, 2, tau=2)
    with pytest.raises(ValueError, match="no batch play"):
        simulate_batches(learner, environments.bernoulli([0.2, 0.6]), jr.key(0))
    with pytest.raises(ValueError, match="bandit feedback"):
        whole = learner._replace(feedback=full, zero=jnp.zeros(2))
        simulate_batches(whole, environment, jr.key(0))


def test_every_round_hands_on_the_declaration():
    batch_learner = learners.exp3_minibatch(8, 2, tau=2)
    learner = every_round(batch_learner)
    assert learner.privacy == batch_learner.privacy
    assert learner.horizon == 8
