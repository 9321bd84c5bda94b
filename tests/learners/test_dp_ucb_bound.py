"""DP-UCB-Bound: hybrid counters, each on its arm's clock, and the bound on their noise by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import noise
from dpjax.learners import dp_ucb_bound
from tests.learners.given_noise import games_of_indices, losses_of_games, play

HORIZON, ARMS, GAMES = 250, 3, 8


@pytest.fixture
def unit_noise(monkeypatch):
    """Makes every Laplace draw one scale."""
    monkeypatch.setattr(noise.Law, "__call__", lambda law, key, value, scale: value + scale)


def noise_by_hand(n, epsilon):
    """The noise of a counter with unit draws after n losses.

    It has a total at 1, 2, 4, ..., each at epsilon / 2. After the total at 2^k it has a tree of k
    levels, each at epsilon / (2 k), whose prefix of u losses sums popcount(u) nodes.
    """
    if n == 0:
        return 0.0
    k = n.bit_length() - 1
    return 2 / epsilon * (k + 1) + (n - 2**k).bit_count() * 2 * k / epsilon


@pytest.mark.parametrize("epsilon", [3.0, 100.0, np.inf])
def test_games_by_hand(epsilon, unit_noise):
    """In round t the smallest L~ / n - sqrt(2 ln t / n) - nu / n plays, with nu by hand."""
    losses = losses_of_games(1, GAMES, HORIZON, [0.3, 0.5, 0.6])
    learner = dp_ucb_bound(HORIZON, ARMS, epsilon=epsilon)

    def release(pulls, sums):
        return sums + [noise_by_hand(int(n), epsilon) for n in pulls]

    def index(t, pulls, sums):
        power = (pulls & (pulls - 1)) == 0
        nu = np.sqrt(8) / epsilon * np.log(4.0 * t**4) * np.where(power, 1.0, np.log(pulls) + 1)
        return (release(pulls, sums) - nu) / pulls - np.sqrt(2 * np.log(t) / pulls)

    games = games_of_indices(
        learner, losses, 3, index, slack=lambda now: 1e-5 * (1 + np.abs(now).max())
    )
    np.testing.assert_array_equal(games.states.pulls, games.pulls)
    rows = zip(games.pulls.reshape(-1, ARMS), games.sums.reshape(-1, ARMS), strict=True)
    released = np.reshape([release(*row) for row in rows], games.sums.shape)
    np.testing.assert_allclose(games.states.sums, released, rtol=1e-5, atol=1e-4)
    assert len(np.unique(games.arms)) == ARMS


def test_counters_have_noises_of_their_own():
    """Two arms after one loss each: no correlation in 4000 games."""
    learner, losses = dp_ucb_bound(8, 2, epsilon=1.0), jnp.zeros((2, 2))
    run = jax.jit(jax.vmap(lambda key: play(learner, losses, key)))
    arms, states = jax.device_get(run(jr.split(jr.key(7), 4000)))
    first, second = states.sums[:, 1].T
    assert abs(stats.spearmanr(first, second).statistic) < 4 / np.sqrt(4000)
    # Either arm is first, with equal probability.
    assert stats.binomtest(int((arms[:, 0] == 0).sum()), 4000).pvalue > 1e-3
