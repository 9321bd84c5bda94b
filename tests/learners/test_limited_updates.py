"""Limited updates: what a batch is drawn from, what that reveals exactly, and its regret."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import environments, simulate_batches, sweep
from dpjax.feedback import clipped_full
from dpjax.learners.limited_updates import limited_updates, probabilities
from dpjax.maths import exact_sums
from tests.play import play_table


def play(learner, losses, keys):
    """Arms (n, T)."""
    return jax.vmap(lambda key: play_table(learner, losses, key).actions[:-1])(keys)


def table(horizon, arms=3):
    return np.array(jr.uniform(jr.key(1), (horizon, arms)))


def p_by_hand(total, epsilon):
    """exp(-epsilon S / 2) over its sum, in float64."""
    weights = np.exp(-epsilon / 2 * (np.asarray(total, np.float64) - np.min(total)))
    return weights / weights.sum()


@pytest.mark.parametrize("epsilon", [0.7, 20.0])
def test_games_by_hand(epsilon):
    """300 games equal a float64 loop over batches of 1, 2, 4, ... rounds, the last one cut short.

    One at twice the epsilon, which is half the noise, does not.
    """
    horizon = 45
    losses, keys = table(horizon), jr.split(jr.key(2), 300)
    learner = limited_updates(horizon, 3, epsilon=epsilon)
    played = np.asarray(play(learner, losses, keys))

    def by_hand(epsilon):
        drawn, total = np.zeros((300, horizon), int), np.zeros(3)
        for start in (1, 2, 4, 8, 16, 32):
            uniform = jax.vmap(lambda key, t=start - 1: jr.uniform(jr.fold_in(key, t)))(keys)
            p = p_by_hand(total, epsilon)
            batch = slice(start - 1, 2 * start - 1)
            arms = np.searchsorted(np.cumsum(p)[:-1], np.asarray(uniform), "right")
            drawn[:, batch] = arms[:, None]
            total = losses[batch].astype(np.float64).sum(0)
        return drawn

    np.testing.assert_array_equal(played, by_hand(epsilon))
    assert (played != by_hand(2 * epsilon)).mean() > 0.02


def test_each_round_is_used_once():
    """Under the same keys, other losses in one round change arms of the next batch, and no other.

    At epsilon = 1000 and losses that are nearly even, so that one loss moves many draws.
    """
    horizon = 31
    losses, keys = np.full((horizon, 3), 0.5, np.float32), jr.split(jr.key(3), 20)
    learner = limited_updates(horizon, 3, epsilon=1000.0)
    changed = np.where(np.eye(horizon, dtype=bool)[:, :, None], [1.0, 0.4, 1.0], losses)
    tables = np.concatenate([losses[None], changed]).astype(np.float32)
    before, *played = np.asarray(
        jax.jit(jax.vmap(lambda table: play(learner, table, keys)))(tables)
    )
    for t, after in enumerate(played, start=1):
        differs = (after != before).any(0)
        following = 2 ** (int(np.log2(t)) + 1)
        expected = np.zeros(horizon, bool)
        expected[following - 1 : 2 * following - 1] = True
        np.testing.assert_array_equal(differs, expected)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_log_ratios_of_all_small_games(epsilon):
    """Arms of 8 rounds, exactly: over all tables of 2 arms with losses 0 and 1.

    Three draws see data, from 1, 2 and 4 rounds. No replaced round moves the log-likelihood of the
    game by more than epsilon, which is reached after longer batches.
    """

    def worst(rounds, epsilon):
        rows = np.array(list(itertools.product([0.0, 1.0], repeat=2)), np.float32)
        index = np.array(list(itertools.product(range(4), repeat=rounds)))
        totals = exact_sums.of(rows[index].sum(1))
        p = jax.vmap(probabilities, (0, None))(totals, jnp.float32(epsilon))
        logs = np.log(np.asarray(p, np.float64)).reshape(*[4] * rounds, 2)
        return max((logs.max(axis) - logs.min(axis)).max() for axis in range(rounds))

    ratios = [worst(rounds, epsilon) for rounds in (1, 2, 4)]
    assert max(ratios) <= epsilon * (1 + 1e-5)
    # Twice epsilon, half the noise, is more than was declared.
    assert worst(4, 2.05 * epsilon) > epsilon
    # Reached by an arm far behind the leader, where a round turns from favouring the one to the
    # other.
    far = np.ceil(40 / epsilon)
    before, after = (
        np.log(probabilities(exact_sums.of(jnp.float32(total)), jnp.float32(epsilon)))[1]
        for total in ([0.0, far, far], [1.0, far - 1, far])
    )
    assert 0.99 * epsilon < after - before <= epsilon + 1e-5


def test_declared_privacy():
    """epsilon itself, pure, and the rho of one exponential mechanism of width epsilon."""
    for epsilon in (1e-9, 0.5, 7.0):
        privacy = limited_updates(100, 3, epsilon=epsilon).privacy
        assert float(privacy.epsilon) == np.float32(epsilon)
        assert privacy.delta == 0.0
        assert float(privacy.rho) == pytest.approx(epsilon**2 / 8, rel=1e-6)
    assert np.isinf(limited_updates(100, 3, epsilon=np.inf).privacy.epsilon)


def test_infinite_epsilon_follows_the_leader_of_the_batch():
    """The best arm of the batch before; among equals a uniform draw; and nothing is nan."""
    losses = table(60)
    learner = limited_updates(60, 3, epsilon=np.inf)
    played = np.asarray(play(learner, losses, jr.split(jr.key(5), 50)))
    for start in (1, 2, 4, 8, 16):
        leader = losses[start - 1 : 2 * start - 1].sum(0).argmin()
        assert (played[:, 2 * start - 1 : 4 * start - 1] == leader).all()
    assert set(played[:, 0]) == {0, 1, 2}
    p = probabilities(exact_sums.of(jnp.float32([3.0, 2.0, 2.0, 9.0])), jnp.float32(jnp.inf))
    np.testing.assert_array_equal(p, [0.0, 0.5, 0.5, 0.0])
    p = probabilities(exact_sums.of(jnp.float32([2.0, 2.0])), jnp.float32(1e-9))
    np.testing.assert_array_equal(p, [0.5, 0.5])


def bound(horizon, arms, epsilon):
    log_arms = np.log(arms)
    noise = 4 * log_arms * np.log2(horizon) / epsilon
    return 1 + 3.42 * np.sqrt(horizon * log_arms) + noise


def test_regret_is_within_its_bound_on_iid_losses():
    """Mean over 400 games, for a clear and for a hard instance; more privacy costs more."""
    horizon, trials = 2048, 400
    epsilons = np.array([0.05, 0.5, 5.0, np.inf])
    for means in ([0.2, 0.8, 0.8, 0.8], [0.45, 0.5, 0.5, 0.5]):

        def game(epsilon, means=means):
            learner = limited_updates(horizon, 4, epsilon=epsilon)
            return learner, environments.bernoulli(means, regret="pseudo")

        result = sweep(game, epsilons, trials, jr.key(6), checkpoints=1, progress=False)
        regret = result.regret[:, :, -1]
        error = regret.std(1) / np.sqrt(trials)
        assert (regret.mean(1) + 4 * error <= bound(horizon, 4, epsilons)).all()
        assert (np.diff(regret.mean(1)) < 4 * error[1:]).all()


def test_regret_is_linear_against_an_adversary():
    """Losses that change sides with every batch mislead it: its bound is for i.i.d. losses only."""
    horizon = 2**11 - 1
    rounds = np.arange(1, horizon + 1)
    odd = np.floor(np.log2(rounds)) % 2
    losses = np.stack([odd, 1 - odd], 1).astype(np.float32)

    def game(epsilon):
        return limited_updates(horizon, 2, epsilon=epsilon), environments.table(losses)

    result = sweep(game, np.array([np.inf]), 20, jr.key(7), checkpoints=1, progress=False)
    assert result.regret[0, :, -1].min() > horizon / 2
    assert horizon / 2 > bound(horizon, 2, np.inf)


def test_losses_outside_the_range_are_clipped_before_they_are_summed():
    """-5 acts as 0 and 9 as 1: one wild loss moves a sum by no more than 1."""
    np.testing.assert_array_equal(
        clipped_full(jnp.array([-5.0, 0.25, 9.0]), jnp.int32(0)), [0.0, 0.25, 1.0]
    )
    wild = 4 * table(31) - 1.5
    learner, keys = limited_updates(31, 3, epsilon=2.0), jr.split(jr.key(8), 100)
    tame = play(learner, np.clip(wild, 0.0, 1.0), keys)
    np.testing.assert_array_equal(play(learner, wild, keys), tame)


def test_batches_fill_any_horizon():
    """Lengths double to 2^30, which is as far as int32 rounds go, and no further."""
    learner = limited_updates(2**31 - 1, 3, epsilon=1.0)
    state, batch = learner.init(jr.key(0))
    lengths = [int(batch.rounds)]
    for _ in range(31):
        state, batch = learner.step(state, jr.key(0), exact_sums.nothing((3,)))
        lengths.append(int(batch.rounds))
    assert lengths == [2**j for j in range(31)] + [2**30]


def test_play_by_batches_is_refused():
    """An environment sums the losses of one arm for a whole batch, not those of all."""
    learner = limited_updates(64, 2, epsilon=1.0)
    environment = environments.bernoulli([0.2, 0.5], regret="pseudo")
    with pytest.raises(ValueError, match="bandit feedback"):
        simulate_batches(learner, environment, jr.key(0))
