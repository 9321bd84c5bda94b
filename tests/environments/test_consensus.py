"""The adversary that spends played pairs: its rule, its regret, and the learners it separates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import environments
from dpjax.environments._consensus import default_pairs
from tests.play import play_actions

PAIRS, ROUNDS = 12, 10


def played(arms, nature=0, flip=0.0, pairs=PAIRS):
    """(losses (T, K), the losses each arm would meet (T, K, K), regret (T,)) for given arms."""
    environment = environments.consensus(len(arms), pairs, flip=flip)
    everything = jnp.arange(2 * pairs)
    outcomes, met, regret = play_actions(
        environment, jnp.asarray(arms, jnp.int32), jr.key(nature), everything
    )
    return np.asarray(outcomes.loss), np.asarray(met), np.asarray(regret)


def test_a_pair_is_spent_by_either_of_its_experts():
    """In NumPy: signs in the first round, then 1 for both experts from the next round on."""
    arms = [4, 4, 5, 0, 1, 23, 7, 6, 6, 22]
    losses, _, regret = played(arms)
    signs, used = losses[0, ::2], np.zeros(PAIRS, bool)
    assert set(signs) == {0.0, 1.0}
    for t, arm in enumerate(arms):
        expected = np.where(used[:, None], 1.0, np.stack([signs, 1.0 - signs], axis=1))
        np.testing.assert_array_equal(losses[t], expected.reshape(-1))
        used[arm // 2] = True
    # Pairs 2, 0, 11 and 3 are spent: each expert of a pair marks it once.
    assert used.sum() == 4
    own = losses[np.arange(ROUNDS), arms].cumsum()
    np.testing.assert_allclose(regret, own - losses.cumsum(axis=0).min(axis=1))


def test_the_loss_does_not_depend_on_the_current_arm():
    losses, met, _ = played([4, 4, 5, 0, 1, 23, 7, 6, 6, 22], flip=0.3)
    np.testing.assert_array_equal(met, np.broadcast_to(losses[:, None], met.shape))


def test_flips_are_fresh_in_each_round():
    """The losses of an expert in an unplayed pair change with the given probability."""
    losses, _, _ = played([0] * 2000, flip=0.25)
    free = losses[:, 2::2]
    np.testing.assert_array_equal(free + losses[:, 3::2], 1.0)
    rare = np.minimum(free.mean(axis=0), 1.0 - free.mean(axis=0))
    np.testing.assert_allclose(rare, 0.25, atol=5 * (0.25 * 0.75 / 2000) ** 0.5)
    both = np.mean(free[1:] != free[:-1])
    assert both == pytest.approx(2 * 0.25 * 0.75, abs=0.02)
    fixed, _, _ = played([0] * 20)
    np.testing.assert_array_equal(fixed[:, 2:], fixed[:1, 2:].repeat(20, axis=0))


def test_uniform_play_suffers_half_and_half_of_what_is_spent():
    """Mean regret is T (1/2 + mean share of spent pairs / 2), in 200 games."""
    horizon, pairs = 60, default_pairs(60)

    def one(key):
        arms = jr.randint(jr.fold_in(key, 1), (horizon,), 0, 2 * pairs)
        return play_actions(environments.consensus(horizon), arms, key)[2][-1]

    found = np.asarray(jax.jit(jax.vmap(one))(jr.split(jr.key(0), 200)))
    spent = 1.0 - (1.0 - 1.0 / pairs) ** np.arange(horizon)
    expected = np.sum(0.5 + 0.5 * spent)
    assert abs(found.mean() - expected) < 4 * stats.sem(found)
    assert found.mean() > horizon / 2 + 4 * stats.sem(found)
