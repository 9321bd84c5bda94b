"""Duels: their distribution, the three regrets, batches, and bad preferences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import environments, simulate, simulate_batches, sweep
from dpjax.core import Arms, Pairs
from dpjax.feedback import bandit
from dpjax.learners import dueling_elimination

# The first arm beats every other arm by 0.05, and has the smallest Borda score.
NARROW = np.array([
    [0.5, 0.55, 0.55, 0.55], [0.45, 0.5, 1.0, 0.9], [0.45, 0.0, 0.5, 0.5], [0.45, 0.1, 0.5, 0.5],
])  # fmt: skip
CYCLE = np.array([[0.5, 0.8, 0.3], [0.2, 0.5, 0.8], [0.7, 0.2, 0.5]])
DRAWS = 20_000


def lost(environment, pair):
    """How often the row player of a pair loses."""

    def one(key):
        return bandit(environment.step((), key, pair)[1].loss, pair)

    return np.asarray(jax.jit(jax.vmap(one))(jr.split(jr.key(0), DRAWS)))


@pytest.mark.parametrize("pair", [(0, 1), (1, 2), (2, 1), (3, 3)])
def test_the_row_player_loses_as_often_as_the_other_one_beats_it(pair):
    """An exact binomial test; it rejects the transposed matrix."""
    row, column = pair
    bits = lost(environments.dueling(NARROW), jnp.int32(4 * row + column))
    assert set(np.unique(bits)) <= {0.0, 1.0}
    count, chance = int(bits.sum()), NARROW[column, row]
    assert stats.binomtest(count, DRAWS, float(chance)).pvalue > 1e-3
    if row != column:
        assert stats.binomtest(count, DRAWS, float(NARROW[row, column])).pvalue < 1e-6


def tallies(environment):
    """(K, K), the regret of one round of each pair."""
    pairs = jnp.arange(environment.action_set.count)
    found = jax.vmap(lambda pair: environment.step((), jr.key(0), pair)[1].tally)(pairs)
    return np.asarray(found).reshape([environment.action_set.players] * 2)


def test_the_three_regrets_are_half_the_sum_of_two_gaps():
    means = np.array([0.3, 0.1, 0.9])
    for regret, gaps in (
        ("condorcet", (means - 0.1) / 2),
        ("utility", means - 0.1),
        ("borda", (means - 0.1) / 2 * 3 / 2),  # s / (s - 1) times, since no arm meets itself
    ):
        found = tallies(environments.dueling(means, regret=regret))
        np.testing.assert_allclose(found, (gaps[:, None] + gaps) / 2, atol=1e-6)
    narrow = tallies(environments.dueling(NARROW, regret="borda"))
    scores = np.array([0.55, 0.7833333, 0.3166667, 0.35])
    np.testing.assert_allclose(np.diag(narrow), scores[1] - scores, atol=1e-6)


def test_batches_have_the_law_of_rounds():
    """Kolmogorov-Smirnov on the regret of an elimination that ends early or late."""

    def game(epsilon):
        learner = dueling_elimination(400, 3, epsilon=epsilon, failure=0.9, exploration=0.1)
        return learner, environments.dueling([0.2, 0.5, 0.6])

    def final(play, epsilons, seed):
        points = np.float32(epsilons)
        played = sweep(game, points, 400, jr.key(seed), play=play, checkpoints=1, progress=False)
        return np.round(played.regret[..., 0], 2)

    by_batch, other = final(simulate_batches, [3.0, 0.3], 1)
    (by_round,) = final(simulate, [3.0], 2)
    assert len(np.unique(by_batch)) > 2
    assert stats.ks_2samp(by_round, by_batch).pvalue > 1e-3
    assert stats.ks_2samp(by_round, other).pvalue < 1e-6


def test_pairs_are_arms_that_only_learners_of_pairs_play():
    assert environments.dueling(CYCLE, regret="borda").action_set == Pairs(9)
    assert isinstance(Pairs(9), Arms) and Pairs(9).players == 3
    from dpjax import learners

    with pytest.raises(
        ValueError, match=r"plays 3 arms; .* pairs of 3 arms \(combinators.sparring"
    ):
        simulate(learners.exp3(8, 3), environments.dueling([0.1, 0.2, 0.3]), jr.key(0))
