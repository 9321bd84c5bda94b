"""DP-SE: printed epoch lengths, its modes on C2, a NumPy reference, and one release per loss."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax.learners import successive_elimination
from dpjax.learners._successive_elimination import epoch_length, epoch_radius
from tests.learners.given_noise import laplace_draws, losses_of_games, many_games, play, told_sums

MODULE = importlib.import_module("dpjax.learners._successive_elimination")
ELIMINATION = importlib.import_module("dpjax.learners.parts.elimination")


def by_hand(epoch, active, epsilon, failure):
    """R_e and h_e + c_e in float64."""
    gap = 2.0**-epoch
    first = np.log(8 * active * epoch**2 / failure)
    second = np.log(4 * active * epoch**2 / failure)
    length = max(32 * first / gap**2, 8 * second / (epsilon * gap)) + 1
    return length, np.sqrt(first / (2 * length)) + second / (length * epsilon)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 500.0, np.inf])
def test_lengths_and_radii_in_float64(epsilon):
    """The radius is at most Delta_e / 4: an arm of gap Delta_e stays only after a failure."""
    for epoch in range(1, 13):
        for active in (2, 5):
            length, radius = by_hand(epoch, active, epsilon, 1e-5)
            np.testing.assert_allclose(epoch_length(epoch, active, epsilon, 1e-5), length, 1e-6)
            computed = float(epoch_radius(epoch, active, epsilon, 1e-5))
            assert computed == pytest.approx(radius, rel=1e-6)
            assert computed <= 2.0**-epoch / 4


# --- a reference in NumPy ---


@pytest.fixture
def in_order(monkeypatch):
    """The arms of an epoch play in order of their numbers, not at random."""
    monkeypatch.setattr(ELIMINATION, "smallest", lambda key, x: jnp.argmin(x).astype(jnp.int32))


def reference(losses, draws, epsilon, failure):
    """Arms of one game (T,) by the pseudo-code, with the i-th draw in the i-th noisy mean."""
    horizon, arms = losses.shape
    active, played, epoch, draws = list(range(arms)), [], 1, iter(draws)
    while len(active) > 1:
        length, radius = by_hand(epoch, len(active), epsilon, failure)
        length = int(np.ceil(length))
        if length * len(active) > horizon - len(played):
            break
        means = []
        for arm in active:
            seen = losses[len(played) : len(played) + length, arm]
            played += [arm] * length
            means.append(seen.mean() + next(draws) / (epsilon * length))
        best = min(means)
        active = [a for a, mean in zip(active, means, strict=True) if mean - best <= 2 * radius]
        epoch += 1
    share, extra = divmod(horizon - len(played), len(active))
    for i, arm in enumerate(active):
        played += [arm] * (share + (i < extra))
    return np.array(played)


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_games_by_hand(epsilon, in_order):
    """Whole games equal the NumPy reference, arm by arm, with the same noise."""
    horizon, games = 9000, 12
    losses = losses_of_games(1, games, horizon, [0.625, 0.25, 0.375, 0.5])
    draws = laplace_draws(2, games, 16)

    def make():
        return successive_elimination(horizon, 4, epsilon=epsilon, failure=0.3)

    arms, _ = many_games(make, 3, losses, draws)
    expected = [
        reference(np.asarray(table, np.float64), np.asarray(row, np.float64), epsilon, 0.3)
        for table, row in zip(losses, draws, strict=True)
    ]
    np.testing.assert_array_equal(arms, expected)
    assert len({tuple(np.bincount(row)) for row in arms}) > 1  # games differ


def short_epochs(monkeypatch, radius):
    """Epochs of 4, 7, 10, ... rounds per arm, with a threshold of twice the given radius."""
    monkeypatch.setattr(MODULE, "epoch_length", lambda epoch, *_: 3.0 * epoch.astype(float) + 0.5)
    monkeypatch.setattr(MODULE, "epoch_radius", lambda *_: jnp.float32(radius))


# --- ends of games ---


def test_the_threshold_is_twice_the_radius_and_strict(monkeypatch, in_order):
    """With radius 1/4 an arm at distance exactly 1/2 stays, and one beyond it leaves."""
    short_epochs(monkeypatch, 0.25)
    learner = successive_elimination(1000, 4, epsilon=np.inf, failure=0.5)
    state, played = told_sums(learner, [2.0, 0.0, 1.0, 3.0])
    assert played == [(0, 4), (1, 4), (2, 4), (3, 4), (0, 7)]
    np.testing.assert_array_equal(state.active, [True, True, True, False])
    # Old means and eliminated arms do not count: arm 1, with mean 0 before, is now the worst.
    state, played = told_sums(learner, [2.0, 0.0, 1.0, 3.0, 0.0, 7.0, 0.0])
    np.testing.assert_array_equal(state.active, [True, False, True, False])
    assert played[-1] == (0, 10)
    report = learner.report(state)
    assert (report.epochs, report.active) == (2, 2)


def arms_played(horizon, arms):
    learner = successive_elimination(horizon, arms, epsilon=1.0)
    losses = jnp.tile(jnp.linspace(0.0, 1.0, arms), (horizon, 1))
    played, _ = jax.jit(lambda: play(learner, losses, jr.key(0)))()
    return np.bincount(played, minlength=arms)


@pytest.mark.parametrize(
    ("horizon", "arms", "expected"),
    [
        (103, 5, [21, 21, 21, 20, 20]),
        (100, 5, [20] * 5),
        (3, 5, [1, 1, 1, 0, 0]),
        (1, 2, [1, 0]),
        (5, 5, [1] * 5),
    ],
)
def test_an_epoch_that_does_not_fit_is_shared_equally(horizon, arms, expected, in_order):
    """Up to one round, for any losses, even if there are fewer rounds than arms."""
    np.testing.assert_array_equal(arms_played(horizon, arms), expected)
