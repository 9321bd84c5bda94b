"""DP-TS-UCB: games by hand, and the cost of all draws from one mean."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import audit, privacy
from dpjax.audit import Pair
from dpjax.learners import dp_ts_ucb
from dpjax.learners.dp_ts_ucb import draws_of_a_mean
from tests.learners.given_noise import losses_of_games, normal_draws, play

ARMS = 3


class ByHand:
    """The learner in NumPy, given each round's standard draws."""

    def __init__(self, horizon, draws, exponent):
        self.power, self.draws = np.log(horizon) ** exponent, draws
        self.n, self.left = np.zeros(ARMS, int), np.zeros(ARMS, int)
        self.mean, self.best = np.zeros(ARMS), np.full(ARMS, -np.inf)
        self.fresh = [[] for _ in range(ARMS)]

    def round(self, arm, loss, normal):
        """Processes a loss, and returns the values compared and the arms that drew."""
        self.fresh[arm].append(loss)
        if len(self.fresh[arm]) == max(1, 2 * self.n[arm]):
            self.n[arm], self.mean[arm] = len(self.fresh[arm]), np.mean(self.fresh[arm])
            self.left[arm], self.best[arm], self.fresh[arm] = self.draws, np.inf, []
        drawing = (self.left > 0) & (self.n > 0).all()
        theta = self.mean + np.sqrt(self.power / np.maximum(self.n, 1)) * normal
        self.best = np.where(drawing, np.minimum(self.best, theta), self.best)
        self.left -= drawing
        return np.where(drawing, theta, self.best), drawing


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
    spent = 0
    for game in range(games):
        normal, hand = (
            normal_draws(keys[game], jnp.arange(1, horizon + 1), ARMS),
            ByHand(horizon, draws, exponent),
        )
        for t in range(horizon - 1):
            arm = arms[game, t]
            numbers, drawing = hand.round(arm, losses[game, t, arm], normal[t])
            spent += not drawing.any()
            assert numbers[arms[game, t + 1]] <= numbers.min() + 1e-5
        np.testing.assert_array_equal(states.kept.samples[game, -2], hand.n)
        np.testing.assert_array_equal(states.left[game, -2], hand.left)
        np.testing.assert_allclose(states.kept.means[game, -2], hand.mean, rtol=1e-6)
        np.testing.assert_allclose(states.best[game, -2], hand.best, rtol=1e-4, atol=1e-5)
    assert spent > 100 and len(np.unique(arms)) == ARMS


# Cost of the draws ----------------------------------------------------------------------------


HORIZON, KEYS, DRAWS = 24, 48, 4


def learner_of():
    return dp_ts_ucb(HORIZON, ARMS, draws=DRAWS, exponent=0.5)


@cache
def replayed():
    """A compiled replay of (pair, keys)."""

    def one(pair, key):
        return audit.replay(learner_of(), pair, key), play(learner_of(), pair.losses, key)[0]

    return jax.jit(jax.vmap(one, (None, 0)))


def pair_of(changed):
    """Neighbours that differ in round ``changed``, from 0: losses 1, or 0. The first arm is bad."""
    sides = np.full((2, HORIZON, ARMS), 0.5, np.float32)
    sides[..., 0] = 1.0
    sides[0, changed], sides[1, changed] = 1.0, 0.0
    return Pair(*jnp.asarray(sides))


def rho_by_hand(arms, changed):
    """The cost of draws from the mean with the changed loss: 1 / (2 n ln^alpha(T)) each."""
    hand, arm, rho = ByHand(HORIZON, DRAWS, 0.5), arms[changed], 0.0
    member = None  # size n of the mean with the changed loss, once there is one
    for t in range(HORIZON - 1):
        before = hand.n[arm]
        _, drawing = hand.round(arms[t], 0.0, np.zeros(ARMS))
        if hand.n[arm] != before:
            # The first mean renewed from the changed round on contains the changed loss.
            member = hand.n[arm] if t >= changed and member is None else 0 if member else member
        if member and drawing[arm]:
            rho += 0.5 / (member * hand.power)
    return rho


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("changed", [0, 6])
def test_a_replay_finds_the_sum_over_the_draws_of_one_mean(changed):
    """The mean of the first loss alone, with all of its draws, costs what is declared."""
    found, arms = jax.device_get(replayed()(pair_of(changed), jr.split(jr.key(1), KEYS)))
    expected = [rho_by_hand(row, changed) for row in arms]
    np.testing.assert_allclose(found.rho, expected, rtol=1e-5)
    assert len(np.unique(np.round(expected, 6))) > 2
    assert not audit.explain(found)
    declared = float(learner_of().privacy.rho)
    assert declared == pytest.approx(DRAWS / (2 * np.log(HORIZON) ** 0.5))
    assert found.rho.max() <= declared * (1 + 1e-6)
    assert changed > 0 or found.rho.max() == pytest.approx(declared, rel=1e-5)


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
