"""Thompson sampling: its counts by hand, and the law of its posterior draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import special, stats

from dpjax.learners import thompson
from dpjax.learners._thompson import ThompsonState
from dpjax.learners.parts.arm_sums import posterior_draws
from tests.learners.given_noise import losses_of_games, play

DRAWS = 20_000


@pytest.mark.parametrize(
    ("losses", "gains"), [(0.0, 0.0), (3.0, 1.0), (0.5, 7.25), (0.0, 40.0), (2000.0, 1000.0)]
)
def test_posterior_draws_are_beta(losses, gains):
    """Kolmogorov-Smirnov of the draws' logistic against Beta; another parameter is rejected."""
    draw = jax.jit(jax.vmap(posterior_draws, (0, None, None)))
    parameters = [jnp.full(2, value, jnp.float32) for value in (losses, gains)]
    draws = np.asarray(draw(jr.split(jr.key(0), DRAWS), *parameters), np.float64)
    theta = special.expit(draws)
    for column in theta.T:
        assert stats.kstest(column, stats.beta(losses + 1, gains + 1).cdf).pvalue > 1e-3
    # The arms' draws are independent.
    assert abs(stats.spearmanr(theta[:, 0], theta[:, 1]).statistic) < 4 / np.sqrt(DRAWS)
    width = 0.1 * (losses + 1)
    assert stats.kstest(theta[:, 0], stats.beta(losses + 1 + width, gains + 1).cdf).pvalue < 1e-6


def test_draws_near_0_and_1_stay_apart():
    """If float32 rounds theta to 1, ln(theta / (1 - theta)) still orders the arms."""
    draws = posterior_draws(jr.key(0), jnp.full(1000, 1e8), jnp.zeros(1000))
    assert np.isfinite(draws).all()
    assert len(np.unique(draws)) > 900
    low = posterior_draws(jr.key(0), jnp.zeros(1000), jnp.full(1000, 1e8))
    assert len(np.unique(low)) > 900
    assert float(draws.min()) > float(low.max())


def test_counts_by_hand():
    """Ones and zeros of each arm over 200 rounds, with losses 0 and 1 from a table."""
    horizon, games = 200, 4
    losses = losses_of_games(1, games, horizon, [0.2, 0.5, 0.6])
    run = jax.jit(jax.vmap(lambda table, key: play(thompson(horizon, 3), table, key)))
    arms, states = jax.device_get(run(losses, jr.split(jr.key(2), games)))
    for game in range(games):
        seen = np.asarray(losses)[game, np.arange(horizon), arms[game]]
        one_hot = arms[game][:, None] == np.arange(3)
        np.testing.assert_array_equal(states.ones[game], np.cumsum(one_hot * seen[:, None], axis=0))
        zeros = np.cumsum(one_hot * (1 - seen[:, None]), axis=0)
        np.testing.assert_array_equal(states.zeros[game], zeros)
    assert len(np.unique(arms)) == 3


def test_a_fractional_loss_counts_as_one_with_that_probability():
    """A binomial test at 0.3; 0 and 1 are deterministic."""
    none = jnp.zeros(3, jnp.int32)
    start, keys = ThompsonState(none, none, jnp.int32(0)), jr.split(jr.key(4), DRAWS)
    step = jax.jit(jax.vmap(thompson(10, 3).step, (None, 0, None)))
    for loss in (0.0, 0.3, 1.0):
        states, _ = step(start, keys, jnp.float32(loss))
        assert stats.binomtest(int(states.ones[:, 0].sum()), DRAWS, loss).pvalue > 1e-3
        np.testing.assert_array_equal(states.ones[:, 0] + states.zeros[:, 0], 1)
