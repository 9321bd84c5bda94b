"""Gaussian Thompson sampling: games by hand, and the cost of draws."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import audit, privacy
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


@cache
def replayed(pulls):
    """A compiled replay of (variance, pair, keys)."""

    def one(variance, pair, key):
        learner = gaussian_thompson(HORIZON, ARMS, pulls=pulls, variance=variance)
        return audit.replay(learner, pair, key), play(learner, pair.losses, key)[0]

    return jax.jit(jax.vmap(one, (None, None, 0)))


def pair_of(changed, losses):
    """Neighbours that differ in round ``changed``, from 0: its losses are 1, or 0."""
    sides = np.stack([losses, losses]).astype(np.float32)
    sides[0, changed], sides[1, changed] = 1.0, 0.0
    return Pair(*jnp.asarray(sides))


def rho_by_hand(arms, changed, pulls, variance):
    """The sum of 1 / (2 c (N_a(t) + 1)) over draws after the changed round, for its arm a."""
    pulled = np.cumsum(arms == arms[changed])  # before rounds 2, 3, ...
    first = max(changed + 1, ARMS * pulls)
    return sum(0.5 / (variance * (n + 1.0)) for n in pulled[first - 1 : HORIZON - 1])


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize(("pulls", "changed"), [(0, 5), (2, 1)])
def test_a_replay_finds_the_sum_over_rounds(pulls, changed):
    pair = pair_of(changed, np.full((HORIZON, ARMS), 0.5))
    found, arms = jax.device_get(replayed(pulls)(0.7, pair, jr.split(jr.key(1), KEYS)))
    expected = [rho_by_hand(row, changed, pulls, 0.7) for row in arms]
    np.testing.assert_allclose(found.rho, expected, rtol=1e-5)
    assert len(np.unique(expected)) > 3
    assert not audit.explain(found)
    declared = gaussian_thompson(HORIZON, ARMS, pulls=pulls, variance=0.7).privacy.rho
    assert found.rho.max() <= float(declared)


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
    """With negligible noise an arm with loss 1 is dropped, but draws from its mean continue."""
    variance = 1e-4
    losses = np.zeros((HORIZON, ARMS))
    losses[:, 0] = 1.0
    found, _ = jax.device_get(
        replayed(pulls)(variance, pair_of(0, losses), jr.split(jr.key(2), KEYS))
    )
    declared = gaussian_thompson(HORIZON, ARMS, pulls=pulls, variance=variance).privacy
    assert float(declared.rho) == pytest.approx(draws / (2 * variance * least))
    assert found.rho.max() == pytest.approx(float(declared.rho), rel=1e-5)


def test_declared_numbers():
    """At T = 10^4: mu = 70.7 and epsilon(1e-6) = 2835. First pulls divide mu^2; delta is T^-2."""
    declared = gaussian_thompson(10**4, 2, delta=1e-6).privacy
    assert float(privacy.zcdp_mu(declared.rho)) == pytest.approx(np.sqrt(9999 / 2))
    assert float(declared.epsilon) == pytest.approx(2835, abs=1)
    declared = gaussian_thompson(10**4, 2, pulls=99, variance=4.0).privacy
    assert float(privacy.zcdp_mu(declared.rho)) == pytest.approx(np.sqrt((10**4 - 198) / 400))
    assert declared.delta == 1e-8
    # No draw ever depends on a loss.
    for learner in (gaussian_thompson(1, 2), gaussian_thompson(10, 2, pulls=5)):
        assert (float(learner.privacy.rho), float(learner.privacy.epsilon)) == (0.0, 0.0)
