"""UCB1 and KL-UCB: their indices by hand, ties, and the order of their regrets."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import optimize, stats

from dpjax import bounds, environments, simulate
from dpjax.learners import kl_ucb, thompson, ucb1
from dpjax.learners.parts.arm_sums import totals
from tests.learners.given_noise import games_of_indices, losses_of_games, play

LEARNERS = {"ucb1": ucb1, "kl_ucb": kl_ucb}
C2 = [0.25, 0.375, 0.5, 0.625, 0.75]
HORIZON, ARMS, GAMES = 300, 3, 12
every_learner = pytest.mark.parametrize("name", LEARNERS)


def kl(p, q):
    """In float64, for q in (0, 1)."""
    return sum(a * np.log(a / b) if a > 0 else 0.0 for a, b in ((p, q), (1 - p, 1 - q)))


def bound_by_hand(name, mean, n, played):
    if name == "ucb1":
        return mean - np.sqrt(2 * np.log(played) / n)
    radius = np.log(played) / n
    if mean == 0.0 or kl(mean, 1e-300) <= radius:
        return 0.0
    return optimize.brentq(lambda q: kl(mean, q) - radius, 1e-300, mean, xtol=1e-14)


@every_learner
def test_games_by_hand(name):
    """Each round plays an arm of smallest index, also with fractional losses."""
    losses = losses_of_games(1, GAMES, HORIZON, [0.3, 0.5, 0.6])
    losses = losses.at[::2].multiply(0.75)

    def index(t, pulls, sums):
        rows = zip(pulls, sums, strict=True)
        return np.array([bound_by_hand(name, total / n, n, t - 1) for n, total in rows])

    learner = LEARNERS[name](HORIZON, ARMS)
    games = games_of_indices(learner, losses, 3, index, slack=lambda now: 2e-6)
    np.testing.assert_array_equal(games.states.sums.pulls, games.pulls)
    np.testing.assert_allclose(totals(games.states.sums), games.sums, rtol=1e-6)


@every_learner
def test_ties_are_broken_evenly(name):
    """The order of the first arms, and a later tie of four: chi-square."""
    learner = LEARNERS[name](8, 4)
    losses = jnp.full((6, 4), 0.5)
    run = jax.jit(jax.vmap(lambda key: play(learner, losses, key)[0]))
    arms = np.asarray(run(jr.split(jr.key(7), 6000)))
    assert (np.sort(arms[:, :4], axis=1) == np.arange(4)).all()
    for column in (0, 1, 3, 4):
        assert stats.chisquare(np.bincount(arms[:, column], minlength=4)).pvalue > 1e-3


@pytest.mark.slow
def test_regret_on_c2():
    """Thompson sampling below KL-UCB below UCB1, by standard errors; UCB1 within its bound."""
    horizon, trials = 2000, 100
    environment = environments.bernoulli(C2, regret="pseudo")
    mean, error = {}, {}
    for make in (thompson, kl_ucb, ucb1):

        def final(key, make=make):
            return simulate(make(horizon, 5), environment, key, checkpoints=1).regret[0]

        regret = np.asarray(jax.jit(jax.vmap(final))(jr.split(jr.key(1), trials)))
        mean[make], error[make] = regret.mean(), regret.std() / np.sqrt(trials)
    for better, worse in [(thompson, kl_ucb), (kl_ucb, ucb1)]:
        assert mean[worse] - mean[better] > 3 * np.hypot(error[better], error[worse])
    assert mean[ucb1] < bounds.ucb1(horizon, C2)
    # Half an asymptotic bound, since regret at a finite horizon may be below the bound.
    assert mean[thompson] > 0.5 * bounds.lai_robbins(horizon, C2)
