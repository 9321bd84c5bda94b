"""The dartboard's formulas again, in NumPy and float64."""

import itertools
from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest

from dpjax import bounds
from dpjax.learners._shrinking_dartboard import shrinking_dartboard
from dpjax.learners.parts import dartboard, fixed_share
from tests.renyi import dartboard_epsilon

# Horizon, arms, epsilon, delta, batch and shifts of the games.
GAMES = [
    (2**12, 10, 0.3, None, 8, 0.0),
    (2**12, 10, 1.0, None, 3, 4.0),
    (1000, 3, 4.0, None, 1, 2.0),
    (2**14, 100, 0.2, 1e-6, 12, 0.0),
    (2**14, 10, 1.0, 1e-6, 1, 3.0),
    (2**14, 10, 30.0, 1e-3, 4, 0.0),
]


def leave(eta, p, batch):
    """ln of the ratio of a draw's probabilities at mean loss 1 / B and at 0."""
    return np.log((1 - (1 - p) * (1 - eta) ** (1 / batch)) / p)


def keep(eta, batch):
    return np.log(1 / (1 - eta)) / batch


def pure(eta, p, batch, most):
    """The worse of a coin's two sides, plus each draw after the first."""
    return max(leave(eta, p, batch), keep(eta, batch)) + 2 * (most - 1) * keep(eta, batch)


def zcdp(eta, p, batch, most):
    """w^2 / 8 for each draw whose log-ratios lie in an interval of length w."""
    coin = leave(eta, p, batch) + keep(eta, batch)
    return coin**2 / 8 + (most - 1) * (2 * keep(eta, batch)) ** 2 / 8


def path_cost(rounds, arms, shifts):
    """-ln of the probability of a path with this many shifts, at the share S / (n - 1)."""
    share = min(shifts / (rounds - 1), 0.5)
    moved = shifts * np.log(share / arms) if shifts else 0.0
    return np.log(arms) - moved - (rounds - 1 - shifts) * np.log(1 - share + share / arms)


def bound(horizon, arms, eta, p, batch, shifts):
    steps = horizon // batch
    learning = batch * path_cost(steps, arms, shifts) / eta + shifts * batch / 2
    return eta * horizon + learning + 2 * horizon * np.exp(-steps * p / 3)


def tuned(horizon, arms, epsilon, delta, batch, shifts):
    """(eta, p, M) with the largest eta that is useful and allowed, found by bisection."""
    steps = horizon // batch
    best = steps ** (-1 / 3) / 3 if delta else 1 / np.sqrt(8 * steps)

    def at(eta):
        p = max(eta, min(best, 0.5))
        return eta, p, int(np.clip(np.floor(4 * steps * p), 1, -(-horizon // batch)))

    def cost(eta):
        eta, p, most = at(eta)
        if most == 1:
            return 0.0
        spent = pure(eta, p, batch, most)
        return min(spent, dartboard_epsilon(eta, p, batch, most, delta)) if delta else spent

    high = min(np.sqrt(batch * path_cost(steps, arms, shifts) / horizon), 0.5)
    if cost(high) <= epsilon:
        return at(high)
    low = 1e-12
    for _ in range(60):
        middle = np.sqrt(low * high)
        low, high = (middle, high) if cost(middle) <= epsilon else (low, middle)
    return at(low)


SETTINGS = [(0.5, 0.5, 1, 9), (0.3, 0.3, 4, 5), (0.02, 0.1, 2, 40), (0.4, 0.05, 3, 2)]


@pytest.mark.parametrize(
    ("formula", "ours"), [(pure, dartboard.pure_epsilon), (zcdp, dartboard.rho)]
)
def test_the_cost_of_a_setting(formula, ours):
    for eta, p, batch, most in SETTINGS:
        setting = dartboard.Setting(jnp.float32(eta), jnp.float32(p), jnp.int32(most))
        found = float(ours(setting, jnp.float32(batch)))
        assert found == pytest.approx(formula(eta, p, batch, most), rel=1e-5)


@pytest.mark.parametrize("game", GAMES, ids=str)
def test_learners_declare_the_largest_rate_that_epsilon_allows(game):
    """The declared epsilon and rho are those of (eta, p, M)."""
    horizon, arms, epsilon, delta, batch, shifts = game
    declared = shrinking_dartboard(
        horizon, arms, epsilon=epsilon, delta=delta, batch=batch, shifts=shifts or 0
    ).privacy
    eta, p, most = tuned(*game)
    spent, rho = (pure(eta, p, batch, most), zcdp(eta, p, batch, most)) if most > 1 else (0.0, 0.0)
    if delta:
        spent = min(spent, dartboard_epsilon(eta, p, batch, most, delta))
    found = [float(declared.epsilon), float(declared.rho)]
    np.testing.assert_allclose(found, [spent, rho], rtol=2e-3)


@pytest.mark.parametrize("arms", [2, 3])
def test_the_cost_of_a_path_is_its_prior(arms):
    """By the product of the chain's transition probabilities along a path of six rounds."""
    rounds, shifts = 6, 2
    share = shifts / (rounds - 1)
    chain = (1 - share) * np.eye(arms) + share / arms
    prior = np.prod([chain[x, y] for x, y in itertools.pairwise([0, 0, 1, 1, 0, 0])]) / arms
    assert path_cost(rounds, arms, shifts) == pytest.approx(-np.log(prior), rel=1e-12)
    found = fixed_share.complexity(
        jnp.float32(rounds), arms, shifts, fixed_share.share_for(jnp.float32(rounds), shifts)
    )
    assert float(found) == pytest.approx(-np.log(prior), rel=1e-4)


def closed_bound(horizon, arms, epsilon):
    """The bound at p = eta = 1 / (2 sqrt(epsilon T)) and B = 2 / epsilon."""
    eta = 1 / (2 * np.sqrt(epsilon * horizon))
    return bound(horizon, arms, eta, eta, 2 / epsilon, 0.0)


@pytest.mark.parametrize(
    ("formula", "ours", "cases"),
    [
        (partial(bound, shifts=0.0), bounds.shrinking_dartboard,
         [(4096, 5, 0.02, 0.1, 7), (4096, 5, 0.1, 0.1, 1), (100, 2, 0.1, 0.5, 9)]),
        (closed_bound, bounds.shrinking_dartboard_batched,
         [(2**18, 10, 0.125), (2**16, 1000, 1.0), (2**12, 2, 2.0)]),
    ],
)  # fmt: skip
def test_bounds(formula, ours, cases):
    for case in cases:
        assert ours(*case) == pytest.approx(formula(*case), rel=1e-9)


@pytest.mark.parametrize("delta", [None, 1e-6])
@pytest.mark.parametrize(("horizon", "epsilon"), [(2**14, 0.1), (2**18, 1.0)])
def test_the_best_batch_by_a_search_of_our_own(horizon, epsilon, delta):
    found = {}
    for size in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128):
        eta, p, _ = tuned(horizon, 10, epsilon, delta, size, 0.0)
        found[size] = bound(horizon, 10, eta, p, size, 0.0)
    best = min(found, key=found.get)
    setting, size = dartboard.best_setting(horizon, 10, jnp.float32(epsilon), delta)
    assert float(size) == best
    eta, p = float(setting.rate), float(setting.restart)
    ours = bounds.shrinking_dartboard(horizon, 10, eta, p, best)
    assert float(ours) == pytest.approx(found[best], rel=2e-3)
