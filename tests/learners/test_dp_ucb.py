"""Private UCB on trees: levels and noise scale of nodes, and its index by hand."""

import numpy as np
import pytest

from dpjax import noise
from dpjax.learners import dp_ucb
from tests.learners.given_noise import games_of_indices, losses_of_games

HORIZON, ARMS, GAMES = 200, 3, 8


@pytest.fixture
def unit_noise(monkeypatch):
    """Makes every Laplace draw one scale, so that prefix t of a tree has popcount(t) of them."""
    scales = []

    def one_scale(law, key, value, scale):
        del law, key
        scales.append(scale)
        return value + scale

    monkeypatch.setattr(noise.Law, "__call__", one_scale)
    return scales


@pytest.mark.parametrize("split", ["parallel", "paper"])
@pytest.mark.parametrize("epsilon", [2.0, pytest.param(400.0, marks=pytest.mark.slow), np.inf])
def test_games_by_hand(split, epsilon, unit_noise):
    """In round t the smallest L~ / n - sqrt(2 ln t / n) - Gamma / n plays.

    Nodes have scale ceil(log2 T) / e, where e is epsilon or, for the paper's split, epsilon / K.
    """
    failure = 0.2
    losses = losses_of_games(1, GAMES, HORIZON, [0.3, 0.5, 0.6])
    learner = dp_ucb(HORIZON, ARMS, epsilon=epsilon, failure=failure, split=split)
    share = epsilon / (ARMS if split == "paper" else 1)
    scale = 8 / share  # 2^7 < 200 <= 2^8
    log_t = np.log(HORIZON)
    gamma = log_t**2 * np.log(ARMS * HORIZON * log_t / failure) / share

    def index(t, pulls, sums):
        released = sums + scale * (t - 1).bit_count()
        return (released - gamma) / pulls - np.sqrt(2 * np.log(t) / pulls)

    games = games_of_indices(
        learner, losses, 3, index, slack=lambda now: 1e-5 * (1 + np.abs(now).max())
    )
    np.testing.assert_allclose(np.array(unit_noise, float), scale, rtol=1e-6)
    np.testing.assert_array_equal(games.states.pulls, games.pulls)


def test_what_each_split_declares():
    """In parallel, each tree has all of epsilon; in the paper, a K-th of it."""
    parallel = dp_ucb(64, 4, epsilon=0.5).privacy
    paper = dp_ucb(64, 4, epsilon=0.5, split="paper").privacy
    assert (float(parallel.epsilon), float(paper.epsilon)) == (0.5, 0.125)
    assert (parallel.calibration, paper.calibration) == ("derived", "printed")
    assert np.isnan(parallel.paper_epsilon) and float(paper.paper_epsilon) == 0.5
