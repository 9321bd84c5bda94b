"""DP-TS-UCB: games by hand, and the cost of all draws from one mean."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import privacy
from dpjax.learners import dp_ts_ucb
from dpjax.learners._dp_ts_ucb import draws_of_a_mean
from tests.learners.given_noise import losses_of_games, normal_draws, play

ARMS = 3


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize(
    ("draws", "exponent"), [(3, 0.0), pytest.param(8, 1.0, marks=pytest.mark.slow)]
)
def test_games_by_hand(draws, exponent):
    """Every arm once, then the arm with the smallest draw, or with the best of a mean's draws."""
    horizon, games = 120, 6
    losses = losses_of_games(1, games, horizon, [0.2, 0.5, 0.6])
    keys = jr.split(jr.key(2), games)
    learner = dp_ts_ucb(horizon, ARMS, draws=draws, exponent=exponent)
    arms, states = jax.device_get(jax.jit(jax.vmap(partial(play, learner)))(losses, keys))
    losses = np.asarray(losses)
    np.testing.assert_array_equal(arms[:, :ARMS], np.tile(np.arange(ARMS), (games, 1)))
    power, spent = np.log(horizon) ** exponent, 0
    for game in range(games):
        normal = normal_draws(keys[game], jnp.arange(1, horizon + 1), ARMS)
        n, left, mean = np.zeros(ARMS, int), np.zeros(ARMS, int), np.zeros(ARMS)
        best, fresh = np.full(ARMS, -np.inf), [[] for _ in range(ARMS)]
        for t, arm in enumerate(arms[game, :-1]):
            fresh[arm].append(losses[game, t, arm])
            if len(fresh[arm]) == max(1, 2 * n[arm]):
                n[arm], mean[arm] = len(fresh[arm]), np.mean(fresh[arm])
                left[arm], best[arm], fresh[arm] = draws, np.inf, []
            drawing = (left > 0) & (n > 0).all()
            theta = mean + np.sqrt(power / np.maximum(n, 1)) * normal[t]
            best = np.where(drawing, np.minimum(best, theta), best)
            left -= drawing
            spent += not drawing.any()
            numbers = np.where(drawing, theta, best)
            assert numbers[arms[game, t + 1]] <= numbers.min() + 1e-5
        np.testing.assert_array_equal(states.kept.samples[game, -2], n)
        np.testing.assert_array_equal(states.left[game, -2], left)
        np.testing.assert_allclose(states.kept.means[game, -2], mean, rtol=1e-6)
        np.testing.assert_allclose(states.best[game, -2], best, rtol=1e-4, atol=1e-5)
    assert spent > 100 and len(np.unique(arms)) == ARMS


# Cost of the draws ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exponent", "draws", "mu", "epsilon"),
    [(0.0, 1396, 37.4, 875), (0.5, 114, 5.80, 43.6), (1.0, 43, 1.93, 10.55)],
)
def test_draws_and_privacy_of_long_games(exponent, draws, mu, epsilon):
    """phi draws, each below the true mean with probability Q, all miss it once in T games."""
    assert int(draws_of_a_mean(10**5, exponent)) == draws
    below = stats.norm.sf(np.sqrt(np.log(1e5) ** (1 - exponent) / 2))
    assert (1 - below) ** draws <= 1e-5 < (1 - below) ** (draws - 1)
    declared = dp_ts_ucb(10**5, 2, exponent=exponent, delta=1e-6).privacy
    assert float(privacy.zcdp_mu(declared.rho)) == pytest.approx(mu, rel=2e-3)
    assert float(declared.epsilon) == pytest.approx(epsilon, rel=2e-3)


def test_short_games_have_fewer_draws_than_a_mean_may_have():
    """Only T - K; none up to round K + 1."""
    declared = dp_ts_ucb(10, 3, draws=100, exponent=0.0).privacy
    assert float(declared.rho) == pytest.approx(3.5)
    declared = dp_ts_ucb(3, 3).privacy
    assert (float(declared.rho), float(declared.epsilon)) == (0.0, 0.0)
    assert np.isfinite(float(dp_ts_ucb(1, 2).privacy.epsilon))
