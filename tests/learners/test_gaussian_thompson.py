"""Gaussian Thompson sampling: games by hand, and the cost of draws."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import audit
from dpjax.audit import Pair
from dpjax.learners import gaussian_thompson
from tests.learners.given_noise import losses_of_games, normal_draws, play

ARMS = 3


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize(
    ("pulls", "variance"), [(2, 0.3), pytest.param(0, 1.0, marks=pytest.mark.slow)]
)
def test_games_by_hand(pulls, variance):
    """The first pulls are in turn; then the smallest draw plays."""
    horizon, games = 60, 6
    losses = losses_of_games(1, games, horizon, [0.2, 0.5, 0.6])
    keys = jr.split(jr.key(2), games)
    learner = gaussian_thompson(horizon, ARMS, pulls=pulls, variance=variance)
    arms, states = jax.device_get(jax.jit(jax.vmap(partial(play, learner)))(losses, keys))
    losses = np.asarray(losses)
    for game in range(games):
        normal = normal_draws(keys[game], jnp.arange(horizon), ARMS)
        count, total = np.zeros(ARMS), np.zeros(ARMS)
        for t, arm in enumerate(arms[game]):
            drawn = (total + 1 + np.sqrt(variance * (count + 1)) * normal[t]) / (count + 1)
            if t < ARMS * pulls:
                assert arm == t % ARMS
            else:
                assert drawn[arm] <= drawn.min() + 1e-5
            count[arm] += 1
            total[arm] += losses[game, t, arm]
        np.testing.assert_array_equal(states.sums.pulls[game, -1], count)
    assert len(np.unique(arms)) == ARMS


# Cost of the draws ----------------------------------------------------------------------------


HORIZON, KEYS = 16, 24


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize(
    ("pulls", "draws", "least"),
    [
        (0, HORIZON - 1, 2),
        pytest.param(1, HORIZON - ARMS, 2, marks=pytest.mark.slow),
        (2, HORIZON - 2 * ARMS, 3),
    ],
)
def test_the_declaration_is_reached_where_an_arm_never_plays_again(pulls, draws, least):
    """With negligible noise an arm with loss 1 is dropped, but draws from its mean continue.

    Each of them costs 1 / (2 c (n + 1)) after n pulls.
    """
    losses = jnp.zeros((HORIZON, ARMS)).at[:, 0].set(1.0)
    pair = Pair(losses.at[0].set(1.0), losses.at[0].set(0.0))
    learner = gaussian_thompson(HORIZON, ARMS, pulls=pulls, variance=1e-4)
    replay = jax.jit(jax.vmap(lambda key: audit.replay(learner, pair, key)))
    found = jax.device_get(replay(jr.split(jr.key(2), KEYS)))
    assert not audit.explain(found)
    declared = float(learner.privacy.rho)
    assert declared == pytest.approx(draws / (2 * 1e-4 * least))
    assert found.rho.max() == pytest.approx(declared, rel=1e-5)
