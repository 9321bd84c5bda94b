"""The dartboard's formulas again, in NumPy and float64, each beside mistakes that are found."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from dpjax import bounds
from dpjax.learners.parts import dartboard, fixed_share
from dpjax.learners.shrinking_dartboard import shrinking_dartboard
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


def tuned(horizon, arms, epsilon, delta, batch, shifts, spend=pure):
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
        spent = spend(eta, p, batch, most)
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


def spends(formula, ours):
    """Whether the package agrees with a formula of (eta, p, B, M), to 1e-5."""
    found = []
    for eta, p, batch, most in SETTINGS:
        setting = dartboard.Setting(jnp.float32(eta), jnp.float32(p), jnp.int32(most))
        found.append((formula(eta, p, batch, most), float(ours(setting, jnp.float32(batch)))))
    wanted, shown = np.array(found).T
    return np.allclose(wanted, shown, rtol=1e-5)


def test_epsilon_of_a_setting():
    assert spends(pure, dartboard.pure_epsilon)
    mutants = {
        "the coin's other side": lambda e, p, b, m: leave(e, p, b) + 2 * (m - 1) * keep(e, b),
        "a draw moved one way": lambda e, p, b, m: pure(e, p, b, m) - (m - 1) * keep(e, b),
        "a draw too many": lambda e, p, b, m: pure(e, p, b, m + 1),
        "an exponent per batch": lambda e, p, b, m: pure(e, p, 1, m),
        "an exponent per batch, squared": lambda e, p, b, m: pure(e, p, b**2, m),
        "the first order in eta": lambda e, p, b, m: e / p / b + 2 * (m - 1) * e / b,
    }
    for name, mutant in mutants.items():
        assert not spends(mutant, dartboard.pure_epsilon), name


def test_rho_of_a_setting():
    assert spends(zcdp, dartboard.rho)
    mutants = {
        "w^2 / 2": lambda e, p, b, m: 4 * zcdp(e, p, b, m),
        "half the interval of a draw": lambda e, p, b, m: (
            zcdp(e, p, b, m) - (m - 1) * 3 / 8 * keep(e, b) ** 2
        ),
        "the coin by its larger side": lambda e, p, b, m: (
            zcdp(e, p, b, m) - (leave(e, p, b) + keep(e, b)) ** 2 / 8 + leave(e, p, b) ** 2 / 8
        ),
        "a draw too many": lambda e, p, b, m: zcdp(e, p, b, m + 1),
    }
    for name, mutant in mutants.items():
        assert not spends(mutant, dartboard.rho), name


def plays_with(game, wanted, rtol):
    """Whether the learner of a game declares the epsilon and the rho of (eta, p, M)."""
    horizon, arms, epsilon, delta, batch, shifts = game
    declared = shrinking_dartboard(
        horizon, arms, epsilon=epsilon, delta=delta, batch=batch, shifts=shifts or 0
    ).privacy
    eta, p, most = wanted
    rho = zcdp(eta, p, batch, most) if most > 1 else 0.0
    spent = pure(eta, p, batch, most) if most > 1 else 0.0
    if delta:
        spent = min(spent, dartboard_epsilon(eta, p, batch, most, delta))
    found = [float(declared.epsilon), float(declared.rho)]
    return np.allclose(found, [spent, rho], rtol=rtol)


@pytest.mark.parametrize("game", GAMES, ids=str)
def test_learners_declare_the_largest_rate_that_epsilon_allows(game):
    eta, p, most = tuned(*game)
    assert plays_with(game, (eta, p, most), rtol=2e-3)
    assert not plays_with(game, (0.97 * eta, max(p, eta), most), rtol=2e-3)
    assert not plays_with(game, (eta, p, 2 * most), rtol=2e-3)


@pytest.mark.parametrize("arms", [2, 3])
def test_the_cost_of_a_path_is_its_prior(arms):
    """By the product of the chain's transition probabilities along all paths of six rounds."""
    rounds, shifts = 6, 2
    share = shifts / (rounds - 1)
    chain = (1 - share) * np.eye(arms) + share / arms
    for path in itertools.product(range(arms), repeat=rounds):
        moves = sum(x != y for x, y in itertools.pairwise(path))
        prior = np.prod([chain[x, y] for x, y in itertools.pairwise(path)]) / arms
        if moves == shifts:
            assert path_cost(rounds, arms, shifts) == pytest.approx(-np.log(prior), rel=1e-12)
            assert -np.log(prior) <= (
                np.log(arms) + shifts * np.log(arms * rounds / shifts) + shifts
            )


def agree(formula, ours, cases):
    return np.allclose([formula(*case) for case in cases], [ours(*case) for case in cases], 1e-9)


def test_bounds_of_fixed_share():
    cases = [(100, 5, 0.1, 3.0), (4096, 2, 0.02, 40.0), (9, 3, 1.0, 7.0), (50, 4, 0.3, 0.0)]

    def right(horizon, arms, eta, shifts):
        return path_cost(horizon, arms, shifts) / eta + eta * horizon / 8

    assert agree(right, bounds.fixed_share, cases)
    mutants = {
        "eta T / 2": lambda t, k, e, s: path_cost(t, k, s) / e + e * t / 2,
        "shifts for nothing": lambda t, k, e, s: np.log(k) / e + e * t / 8,
        "a round too many": lambda t, k, e, s: path_cost(t + 1, k, s) / e + e * t / 8,
        "shifts to other arms only": lambda t, k, e, s: (
            right(t, k, e, s) + s * np.log((k - 1) / k) / e
        ),
    }
    for name, mutant in mutants.items():
        assert not agree(mutant, bounds.fixed_share, cases), name
    for horizon, arms, _, shifts in cases:
        share = fixed_share.share_for(jnp.float32(horizon), shifts)
        found = fixed_share.complexity(jnp.float32(horizon), arms, shifts, share)
        assert float(found) == pytest.approx(path_cost(horizon, arms, shifts), rel=1e-4)


def test_bounds_of_batches_and_shifts():
    cases = [(4096, 5, 0.02, 0.1, 7, 3.0), (4096, 5, 0.1, 0.1, 1, 0.0), (100, 2, 0.1, 0.5, 9, 4.0)]
    assert agree(bound, bounds.shrinking_dartboard, cases)
    mutants = {
        "learning as for single rounds": lambda t, k, e, p, b, s: (
            bound(t, k, e, p, b, s) - (b - 1) * path_cost(t // b, k, s) / e
        ),
        "shifts where batches end": lambda t, k, e, p, b, s: bound(t, k, e, p, b, s) - s * b / 2,
        "a budget of rounds": lambda t, k, e, p, b, s: (
            bound(t, k, e, p, b, s) + 2 * t * (np.exp(-t * p / 3) - np.exp(-(t // b) * p / 3))
        ),
        "rounds for batches in a path": lambda t, k, e, p, b, s: (
            bound(t, k, e, p, b, s) + b * (path_cost(t, k, s) - path_cost(t // b, k, s)) / e
        ),
    }
    for name, mutant in mutants.items():
        assert not agree(mutant, bounds.shrinking_dartboard, cases), name


def test_the_closed_bound_of_batches():
    """It is the bound at p = eta = 1 / (2 sqrt(epsilon T)) and B = 2 / epsilon."""
    cases = [(2**18, 10, 0.125), (2**16, 1000, 1.0), (2**12, 2, 2.0)]

    def right(horizon, arms, epsilon, length=2.0):
        eta = 1 / (2 * np.sqrt(epsilon * horizon))
        return bound(horizon, arms, eta, eta, length / epsilon, 0.0)

    ours = bounds.shrinking_dartboard_batched
    assert agree(right, ours, cases)
    assert not agree(lambda t, k, e: right(t, k, e, 4.0), ours, cases)
    assert not agree(lambda t, k, e: right(t, k, e) - 0.25 * np.sqrt(t / e), ours, cases)


def test_the_bound_of_lazy_algorithms():
    cases = [(2**18, 10, 0.1), (1000, 3, 1.0)]

    def right(horizon, arms, epsilon, root=1 / 3):
        private = (horizon * np.log(arms) ** 3 / epsilon**2) ** root
        return (horizon * np.log(arms)) ** 0.5 + private

    assert agree(right, bounds.lazy_to_private, cases)
    assert not agree(lambda t, k, e: right(t, k, e, 0.3), bounds.lazy_to_private, cases)
    assert not agree(lambda t, k, e: right(t, k, e**0.5), bounds.lazy_to_private, cases)


@pytest.mark.parametrize("delta", [None, 1e-6])
@pytest.mark.parametrize(("horizon", "arms", "epsilon"), [(2**14, 10, 0.1), (2**18, 10, 1.0)])
def test_the_best_batch_by_a_search_of_our_own(horizon, arms, epsilon, delta):
    def value(batch):
        eta, p, _ = tuned(horizon, arms, epsilon, delta, batch, 0.0)
        return bound(horizon, arms, eta, p, batch, 0.0)

    sizes = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128]
    found = {size: value(size) for size in sizes}
    best = min(sizes, key=found.get)
    setting, size = dartboard.best_setting(horizon, arms, jnp.float32(epsilon), delta)
    assert float(size) == best
    eta, p = float(setting.rate), float(setting.restart)
    ours = bounds.shrinking_dartboard(horizon, arms, eta, p, best)
    assert float(ours) == pytest.approx(found[best], rel=2e-3)
    # If a draw were counted half, bounds would come out smaller.
    half = tuned(
        horizon, arms, epsilon, None, best, 0.0,
        lambda e, p, b, m: pure(e, p, b, m) - (m - 1) * keep(e, b),
    )  # fmt: skip
    if delta is None:
        assert bound(horizon, arms, half[0], half[1], best, 0.0) < 0.95 * found[best]
