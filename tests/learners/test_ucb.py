"""UCB1 and KL-UCB: their indices by hand, ties, and the order of their regrets."""

import numpy as np
import pytest
from scipy import optimize

from dpjax.learners import kl_ucb, ucb1
from dpjax.learners.parts.arm_sums import totals
from tests.learners.given_noise import games_of_indices, losses_of_games

LEARNERS = {"ucb1": ucb1, "kl_ucb": kl_ucb}
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
