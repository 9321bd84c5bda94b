"""Batched bandits: the length of a batch, its noise, and the bases."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import every_round
from dpjax.learners import batched_bandit, exp2
from dpjax.learners._batched_bandit import batch_rounds, htinf
from tests.learners.test_tsallis_inf import by_bisection
from tests.play import play_table


@pytest.mark.parametrize(
    ("epsilon", "rounds"), [(1e-9, 1000), (0.1, 10), (0.3, 4), (7.0, 1), (np.inf, 1)]
)
def test_rounds_of_a_batch(epsilon, rounds):
    """ceil(1 / epsilon), clipped to 1 .. T before the cast to an integer."""
    assert batch_rounds(1000, epsilon) == rounds
    batch = batched_bandit(1000, 3, epsilon=epsilon).init(jr.key(0))[1]
    assert batch.rounds == rounds and batch.rounds.dtype == jnp.int32


@pytest.mark.parametrize("epsilon", [1.0, np.inf])
def test_batches_of_one_round_over_exp2_are_exp2(epsilon):
    """The same arms under the same key."""
    batched = every_round(batched_bandit(60, 3, epsilon=epsilon, base="exp2"))
    plain = exp2(60, 3, epsilon=epsilon)
    losses = np.tile(np.float32([0.3, 0.6, 0.9]), (29, 1))
    ours, theirs = (play_table(learner, losses, jr.key(5)).actions for learner in (batched, plain))
    np.testing.assert_array_equal(ours, theirs)
    assert len(np.unique(ours)) > 1


def test_htinf_by_hand():
    """Three rounds of 100 games in float64; large losses are skipped, but the round counts."""
    learner = htinf(8, 3, jnp.float32(1.5))
    table = np.array([[0.1, 0.9, -0.3], [2.5, 0.2, -2.0], [0.3, -0.1, 0.7]])

    def game(key):
        played = play_table(learner, table.astype(np.float32), key)
        return played.actions, played.states

    arms, states = jax.jit(jax.vmap(game))(jr.split(jr.key(2), 100))
    for i in range(100):
        sums, skipped = np.zeros(3), 0
        for t in range(1, 5):
            p = by_bisection(sums, 1 / (1.5 * t**0.5))
            arm = int(arms[i, t - 1])
            np.testing.assert_allclose(states.probability[i, t - 1], p[arm], rtol=1e-5)
            np.testing.assert_allclose(states.estimates[i, t - 1], sums - sums.min(), atol=1e-5)
            assert states.skipped[i, t - 1] == skipped
            if t < 4:
                loss = table[t - 1, arm]
                if abs(loss) <= (1 - 2 ** (-1 / 3)) * p[arm] ** 0.5 * 1.5 * t**0.5:
                    sums[arm] += loss / p[arm]
                else:
                    skipped += 1
    assert 0 < states.skipped[:, -1].mean() < 3
