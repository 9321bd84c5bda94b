"""Batch play: round by round and batch by batch are one algorithm."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import environments, every_round, learners, simulate, simulate_batches, sweep
from dpjax.combinators import rescale_losses
from dpjax.core import Arms, Batch, BatchLearner, Environment, Feedback, Outcome, Privacy
from dpjax.feedback import bandit, seen_inside, to_bit
from dpjax.maths import exact_sums

ZERO = jnp.zeros((), jnp.int32)


def coins(*means):
    return environments.bernoulli(means, regret="pseudo")


def batch_learner(init, step, horizon, feedback=bandit):
    """A BatchLearner over two arms that reports its state."""
    state = lambda state: state  # noqa: E731
    return BatchLearner(init, step, feedback, Arms(2), horizon, Privacy(), state)


def doubling(horizon, first=1):
    """Alternates between two arms in batches of growing length, and sums its observations."""

    def step(state, key, total):
        count, told = state
        rounds = jnp.minimum(2.0 ** (count + 1).astype(jnp.float32) * first, horizon)
        batch = Batch((count + 1) % 2, rounds.astype(jnp.int32))
        return (count + 1, exact_sums.add(told, total)), batch

    return batch_learner(
        lambda key: ((ZERO, exact_sums.nothing()), Batch(ZERO, jnp.int32(first))), step, horizon
    )


def telling(horizon, lengths, feedback=bandit):
    """Plays arms 0, 1, 0, ... in batches of the given lengths; reports its observations."""
    lengths = jnp.array([*lengths, horizon])
    index = jnp.arange(len(lengths))

    def step(state, key, total):
        count, told = state
        told = jnp.where(index == count, exact_sums.to_float(total), told)
        following = jnp.sum(jnp.where(index == count + 1, lengths, 0))
        return (count + 1, told), Batch((count + 1) % 2, jnp.maximum(following, 1))

    start = (ZERO, jnp.full(lengths.shape, -1.0)), Batch(ZERO, lengths[0])
    made = batch_learner(lambda key: start, step, horizon, feedback)
    return made._replace(report=lambda state: state[1])


def spy(horizon, arms=2):
    """An environment that records arm + 1 of each round; arm 1 has loss 1/4."""

    def step(t, key, arm):
        loss = jnp.where(jnp.arange(arms) == 1, 0.25, 0.0)
        return t + 1, Outcome(loss, jnp.where(jnp.arange(horizon) == t, arm + 1, 0))

    return Environment(
        lambda key: jnp.zeros((), jnp.int32), step, lambda state, tally: jnp.float32(0), Arms(arms)
    )


@pytest.mark.parametrize(
    ("horizon", "batches", "told"),
    [
        (12, 3, 0.5),  # The fourth batch is cut, so its five rounds at 1/4 are not reported.
        (15, 4, 2.5),  # It ends with the horizon.
    ],
)
def test_every_round_plays_each_batch_to_its_end(horizon, batches, told):
    """Batches of 1, 2, 4, 8, ... rounds."""
    base = doubling(horizon)
    learner = every_round(base)
    assert (learner.privacy, learner.horizon) == (base.privacy, horizon)
    result = simulate(base, spy(horizon), jr.key(0))
    assert result.tally.tolist() == [1, 2, 2, 1, 1, 1, 1, *[2] * (horizon - 7)]
    assert result.report[0] == batches and exact_sums.to_float(result.report[1]) == told


def test_simulate_batches_plays_the_same_batches():
    """Pseudo-regret is exact at every checkpoint, also within a batch."""
    by_batch, by_round = (
        play(doubling(12), coins(0.0, 0.25), jr.key(0), checkpoints=12)
        for play in (simulate_batches, simulate)
    )
    np.testing.assert_array_equal(by_batch.rounds, by_round.rounds)
    np.testing.assert_allclose(by_batch.regret, by_round.regret, rtol=1e-6)
    assert by_batch.report[0] == by_round.report[0] == 3


def test_a_billion_rounds_in_thirty_batches():
    """Counts are exact beyond 2^24, and the batches' losses sum to their mean."""
    horizon = 10**9
    result = jax.jit(lambda: simulate_batches(doubling(horizon), coins(0.5, 0.25), jr.key(0)))()
    assert result.rounds[-1] == horizon
    steps, told = result.report
    assert steps == 29  # 2^29 - 1 < 10^9 < 2^30 - 1
    # Rounds on arm 0 in complete batches 0, 2, ..., 28: (4^15 - 1) / 3; on arm 1 twice 4^14 - 1.
    zeros, ones = (4**15 - 1) // 3, 2 * (4**14 - 1) // 3
    deviation = np.sqrt(zeros * 0.25 + ones * 0.1875)
    assert int(told.part) == 0
    assert abs(int(told.whole) - (zeros * 0.5 + ones * 0.25)) < 4 * deviation
    assert float(result.regret[-1]) == pytest.approx(0.25 * zeros, rel=1e-6)


# --- feedback other than the plain loss ---


PLAIN = telling(30, [10, 15])
FEEDBACK = {
    "plain": PLAIN,
    "to bits": rescale_losses(PLAIN._replace(clip=to_bit), -0.25, 0.5),
    # Losses above 1/2 are clipped: 0 and 1 become 1/3 and 1.
    "rescaled and clipped": rescale_losses(PLAIN, -0.25, 0.5),
    "squared": telling(
        30,
        [10, 15],
        Feedback("squared", lambda loss, arm: bandit(loss, arm) ** 2 / 2, kind="bandit"),
    ),
}


@pytest.mark.parametrize("name", FEEDBACK)
def test_any_feedback_sums_alike_by_batch_and_by_round(name):
    """Sums of two batches: correlation, means and laws (Kolmogorov-Smirnov) of 4000 games."""
    means, learner = np.array([0.3, 0.6]), FEEDBACK[name]

    def told(engine, seed):
        one = lambda key: engine(learner, coins(*means), key, checkpoints=1).report  # noqa: E731
        return np.asarray(jax.jit(jax.vmap(one))(jr.split(jr.key(seed), 4000)), np.float64)

    by_batch, by_round = told(simulate_batches, 1), told(simulate, 2)
    for sums in (by_batch, by_round):
        assert abs(np.corrcoef(sums[:, 0], sums[:, 1])[0, 1]) < 4 / 4000**0.5
    seen = np.array([[seen_inside(learner, jnp.full(2, v), arm)[0] for arm in (0, 1)]
                     for v in (0.0, 1.0)])  # fmt: skip
    for batch, (length, mean) in enumerate(zip((10, 15), means, strict=True)):
        zero, one = seen[:, batch].astype(np.float64)
        expected = length * (zero + mean * (one - zero))
        error = abs(one - zero) * np.sqrt(length * mean * (1 - mean) / 4000)
        for sums in (by_batch, by_round):
            assert abs(sums[:, batch].mean() - expected) < 4 * error
        # Laws on a lattice, whose points are rounded in two ways.
        columns = [np.round(sums[:, batch], 3) for sums in (by_batch, by_round)]
        assert stats.ks_2samp(*columns).pvalue > 1e-3
        assert stats.ks_2samp(columns[0], columns[1] + abs(one - zero)).pvalue < 1e-6


def test_a_batch_cut_by_the_horizon_draws_and_tells_nothing():
    """In the last 5 of 30 rounds no loss is drawn, and the third batch reports nothing."""
    drawn, plain = [], coins(0.3, 0.6)

    def batch(state, key, arm, rounds, feedback):
        jax.debug.callback(lambda rounds: drawn.append(int(rounds)), rounds)
        return plain.batch(state, key, arm, rounds, feedback)

    result = simulate_batches(PLAIN, plain._replace(batch=batch), jr.key(0))
    jax.effects_barrier()
    assert drawn == [10, 15, 0]
    assert (result.report[:2] >= 0).all() and result.report[2] == -1
    # The regret of its rounds counts: 15 rounds of arm 1, and none of arm 0.
    assert float(result.regret[-1]) == pytest.approx(15 * 0.3, rel=1e-6)
    assert simulate(PLAIN, plain, jr.key(0)).report[2] == -1


@pytest.mark.slow
def test_a_sweep_by_batches_is_simulate_batches_cell_by_cell():
    """Also bit-identical in any chunk and with fewer seeds."""

    def game(point):
        return learners.adap_ucb(5000, 3, epsilon=point), coins(0.2, 0.5, 0.7)

    points = np.array([0.5, 2.0, np.inf], np.float32)
    arguments = {"play": simulate_batches, "checkpoints": 5, "progress": False}
    whole = sweep(game, points, 7, jr.key(1), **arguments)

    def cell(point, seed):
        return simulate_batches(*game(point), jr.fold_in(jr.key(1), seed), checkpoints=5)

    by_hand = jax.jit(jax.vmap(jax.vmap(cell, (None, 0)), (0, None)))(points, jnp.arange(7))
    # Another program, so tallies may be fused differently.
    np.testing.assert_allclose(whole.regret, by_hand.regret, rtol=1e-5)
    np.testing.assert_array_equal(whole.report.episodes, by_hand.report.episodes)
    np.testing.assert_array_equal(whole.rounds, by_hand.rounds[0, 0])
    for seeds, chunk in [(7, 4), (4, None)]:
        part = sweep(game, points, seeds, jr.key(1), chunk=chunk, **arguments)
        for a, b in zip(jax.tree.leaves(part[1:]), jax.tree.leaves(whole[1:]), strict=True):
            np.testing.assert_array_equal(a, b[:, :seeds])


# --- exact sums ---


@pytest.mark.parametrize("before", [2**24, 2**30])
def test_every_round_sums_exactly_however_long_the_batch_is(before):
    """101 more losses, of 1 and of 0.3, in a batch that already has this many ones."""
    learner = every_round(doubling(2**31 - 1, first=2**31 - 1))
    state, _ = learner.init(jr.key(0))

    @jax.jit
    def one_more(loss):
        so_far = exact_sums.ExactSum(jnp.int32(before), jnp.int32(0))
        nearly = state._replace(total=so_far, played=jnp.int32(2**31 - 102))
        one_round = lambda state, _: (learner.step(state, jr.key(0), loss)[0], ())  # noqa: E731
        return jax.lax.scan(one_round, nearly, length=101)[0].learner

    for loss in (1.0, 0.3):
        count, told = one_more(jnp.float32(loss))
        each = round(float(np.float32(loss)) * 2**30)
        assert count == 1
        assert int(told.whole) * 2**30 + int(told.part) == before * 2**30 + 101 * each
