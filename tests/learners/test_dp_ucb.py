"""Private UCB on trees: levels and noise scale of nodes, its bonus, and its index by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import noise
from dpjax.learners import dp_ucb
from tests.learners.given_noise import games_of_indices, losses_of_games, play

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


def test_the_bonus_enters_with_its_sign_and_size():
    """With equal losses, Gamma / n decides: arms are pulled nearly in turn."""
    losses = jnp.full((60, 3), 0.5)
    arms, _ = play(dp_ucb(60, 3, epsilon=1.0), losses, jr.key(0))
    assert np.ptp(np.bincount(arms)) <= 4


def test_what_each_split_declares():
    """In parallel, each tree has all of epsilon; in the paper, a K-th of it."""
    parallel = dp_ucb(64, 4, epsilon=0.5).privacy
    paper = dp_ucb(64, 4, epsilon=0.5, split="paper").privacy
    for declared, epsilon in ((parallel, 0.5), (paper, 0.125)):
        assert float(declared.epsilon) == epsilon
        assert declared.delta == 0.0
        assert declared.unit == "round"
        assert tuple(declared.loss_range) == (0.0, 1.0)
    assert (parallel.calibration, paper.calibration) == ("derived", "printed")
    assert np.isnan(parallel.paper_epsilon) and float(paper.paper_epsilon) == 0.5


def test_a_round_changes_one_tree_by_its_loss():
    """The other trees get 0: exact sums after a round differ only in the played arm."""
    losses = losses_of_games(2, 1, 50, [0.4, 0.5, 0.6])[0] * 0.75
    arms, states = play(dp_ucb(50, 3, epsilon=np.inf), losses, jr.key(1))
    totals = np.asarray(states.sums.total)
    steps = np.diff(totals, axis=0, prepend=0)
    expected = np.where(np.arange(3) == np.asarray(arms)[:, None], np.asarray(losses), 0.0)
    np.testing.assert_allclose(steps, expected, atol=1e-5)


@pytest.mark.parametrize(("horizon", "levels"), [(2, 1), (3, 2), (64, 6), (65, 7), (1000, 10)])
def test_levels(horizon, levels, unit_noise):
    """T - 1 prefixes are released: ceil(log2 T) levels, not ln T."""
    learner = dp_ucb(horizon, 2, epsilon=0.5)
    state, _ = learner.init(jr.key(0))
    learner.step(state, jr.key(1), jnp.float32(0.5))
    np.testing.assert_allclose(np.array(unit_noise, float), levels / 0.5, rtol=1e-6)


def test_first_arms_in_random_order():
    """Each of three arms once, in each order equally often."""
    learner, losses = dp_ucb(8, 3, epsilon=1.0), jnp.full((3, 3), 0.5)
    run = jax.jit(jax.vmap(lambda key: play(learner, losses, key)[0]))
    arms = np.asarray(run(jr.split(jr.key(7), 6000)))
    assert (np.sort(arms, axis=1) == np.arange(3)).all()
    assert stats.chisquare(np.unique(arms @ [9, 3, 1], return_counts=True)[1]).pvalue > 1e-3
