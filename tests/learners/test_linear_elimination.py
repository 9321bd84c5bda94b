"""Linear elimination: radii, a NumPy reference of whole games, releases, and both engines."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpjax.learners import linear_elimination
from dpjax.learners._linear_elimination import (
    chernoff_radius,
    exact_radii,
    log_term,
    phase_length,
    printed_radius,
)
from dpjax.learners.parts import elimination, elimination_phases
from dpjax.maths import designs
from tests.learners.given_noise import laplace_draws, losses_of_games, many_games, told_sums

MODULE = importlib.import_module("dpjax.learners._linear_elimination")
# Seven actions in the plane, no two of the same length; rewards <THETA, a> in [-1, 1].
ACTIONS = np.array(
    [[1.0, 0.1], [0.7, 0.6], [-0.2, 0.9], [-0.95, 0.2], [-0.5, -0.7], [0.3, -0.85], [0.4, 0.3]]
)
THETA = np.array([0.8, 0.5])
MEANS = 0.5 - 0.5 * ACTIONS @ THETA
ARMS = len(ACTIONS)
SLOW = pytest.mark.slow


# --- radii ---


def tail(u, count, term):
    return (term - count * np.log1p(-(u**2))) / u


def least_squares(actions, active, pulls):
    """x' V^-1 a in float64, (K, K); 0 for inactive actions."""
    chosen = np.where(active[:, None], actions, 0.0)
    information = chosen.T @ (pulls[:, None] * chosen)
    return chosen @ np.linalg.pinv(information, 1e-9, hermitian=True) @ chosen.T


def radii_by_hand(
    kind, products, pulls, active, phase, horizon, dim, epsilon, local=False, shrink=1.0
):
    """gamma_a in float64, with shrink L instead of L."""
    q = (2 * horizon) ** (1 / np.log(horizon))
    term = shrink * np.log(4 * active.sum() * horizon**2)
    core = (pulls > 0).sum()
    plain = np.sqrt(4 * dim * term / q**phase)
    largest = 2 * dim / q**phase
    if kind == "printed":
        gamma = plain + (2 * dim * core + 2 * dim * term) / (epsilon * q**phase)
        return np.full(len(pulls), gamma)
    if kind == "chernoff":
        count = 1 / largest if local else core
        u = np.sqrt(term / (term + count))
        return np.full(len(pulls), plain + largest * tail(u, count, term) / epsilon)
    draws = pulls if local else (pulls > 0).astype(float)
    radii = []
    for row, leverage in zip(products, np.diag(products), strict=True):
        size = np.abs(row) * (draws > 0)
        c = max(size.max(), 1e-30)
        count = np.sum(draws * (size / c) ** 2)
        u = np.sqrt(term / (term + count))
        width = (term - np.sum(draws * np.log1p(-((u * size / c) ** 2)))) * size.max() / u / epsilon
        radii.append(np.sqrt(leverage * term / 2) + width)
    return np.array(radii)


@pytest.mark.parametrize("local", [False, True])
def test_radii_by_hand(local):
    """exact <= chernoff for every arm of random designs; printed < chernoff except at inf."""
    random = np.random.default_rng(1)
    for _ in range(40):
        actions = random.normal(size=(9, 3))
        active = random.random(9) < 0.7
        active[:4] = True
        phase, epsilon = int(random.integers(1, 18)), 10 ** random.uniform(-3, 2)
        weights = near_optimal(jnp.asarray(actions, jnp.float32), jnp.asarray(active))
        length = float(phase_length(phase, 10**8))
        pulls = np.ceil(np.asarray(weights, float) * length)
        products = least_squares(actions, active, pulls)
        arguments = (products, pulls, active, phase, 10**8, 3, epsilon)
        exact = radii_by_hand("exact", *arguments, local=local)[active]
        chernoff = radii_by_hand("chernoff", *arguments, local=local)[active]
        assert (exact <= chernoff * (1 + 1e-3)).all()
        computed = exact_radii(
            jnp.asarray(products, jnp.float32), jnp.asarray(pulls, jnp.float32),
            log_term(jnp.float32(active.sum()), 10**8), epsilon, local=local,
        )  # fmt: skip
        np.testing.assert_allclose(computed[active], exact, rtol=2e-3)
        term, given = float(np.log(4 * active.sum() * 1e16)), (length, 3, float((pulls > 0).sum()))
        found = chernoff_radius(*given, term, epsilon, local=local)
        np.testing.assert_allclose(found, chernoff, rtol=1e-4)
        if not local:
            printed = radii_by_hand("printed", *arguments)[active]
            assert (printed < chernoff).all()
            np.testing.assert_allclose(printed_radius(*given, term, epsilon), printed, rtol=1e-4)


# --- a reference in NumPy ---


@pytest.fixture
def in_order(monkeypatch):
    """The arms of a phase play in order of their numbers, not at random."""
    for module in (elimination, elimination_phases):
        monkeypatch.setattr(module, "smallest", lambda key, x: jnp.argmin(x).astype(jnp.int32))


SHRINK = 0.1  # of L; otherwise no arm leaves in games short enough for a test


@pytest.fixture
def small_radii(monkeypatch):
    monkeypatch.setattr(MODULE, "log_term", lambda *arguments: SHRINK * log_term(*arguments))


near_optimal = jax.jit(designs.g_optimal)


def reference(losses, draws, kind, epsilon):
    """Arms of one game (T,), with the i-th draw in the i-th noisy sum; and the masks met."""
    horizon = len(losses)
    points = designs.span_coordinates(ACTIONS)
    q = (2 * horizon) ** (1 / np.log(horizon))
    active, played, phase, draws = np.ones(ARMS, bool), [], 1, iter(draws)
    estimates, masks = np.zeros(ARMS), []
    while True:
        weights = near_optimal(jnp.asarray(points, jnp.float32), jnp.asarray(active))
        pulls = np.ceil(np.asarray(weights, np.float64) * q**phase).astype(int)
        if active.sum() == 1 or pulls.sum() > horizon - len(played):
            best = int(np.argmin(np.where(active, estimates, np.inf)))
            return np.array(played + [best] * (horizon - len(played))), masks
        masks.append(tuple(active))
        sums = np.zeros(ARMS)
        for arm in np.flatnonzero(pulls):
            seen = losses[len(played) : len(played) + pulls[arm], arm]
            sums[arm] = np.sum(seen - 0.5) + next(draws) / epsilon
            played += [arm] * pulls[arm]
        products = least_squares(points, active, pulls)
        estimates = products @ sums
        gamma = radii_by_hand(
            kind, products, pulls, active, phase, horizon, 2, epsilon, shrink=SHRINK
        )
        least = np.min((estimates + gamma)[active])
        active = active & (estimates - gamma <= least)
        phase += 1


@pytest.mark.parametrize(
    "kind", ["exact", *(pytest.param(kind, marks=SLOW) for kind in ("chernoff", "printed"))]
)
def test_games_by_hand(kind, in_order, small_radii):
    """Whole games equal the NumPy reference, arm by arm, with the same noise."""
    horizon, games, epsilon = 3000, 12, 2.0
    losses = losses_of_games(1, games, horizon, MEANS)
    draws = laplace_draws(2, games, 32)

    def make():
        return linear_elimination(horizon, ACTIONS, epsilon=epsilon, radius=kind)

    arms, _ = many_games(make, 3, losses, draws)
    met = set()
    for table, row, mine in zip(losses, draws, arms, strict=True):
        expected, masks = reference(
            np.asarray(table, np.float64), np.asarray(row, np.float64), kind, epsilon
        )
        np.testing.assert_array_equal(mine, expected)
        met |= set(masks)
    assert len(met) >= 3  # arms leave, at different times in different games


# --- elimination ---


def test_a_phase_that_does_not_fit_goes_to_the_best_estimate(monkeypatch, in_order):
    """32 rounds fit two phases of 16: with 31 the second does not start; with 33 one is left."""
    monkeypatch.setattr(elimination_phases, "phase_length", lambda *_: jnp.float32(16.0))
    monkeypatch.setattr(MODULE, "exact_radii", lambda *_, **__: jnp.full(2, 10.0))
    for horizon, second in [(31, (1, 15)), (32, (0, 8)), (33, (0, 8))]:
        learner = linear_elimination(horizon, np.eye(2), epsilon=np.inf)
        _, played = told_sums(learner, [8.0, 0.0])
        assert played[2] == second
    _, played = told_sums(learner, [8.0, 0.0, 8.0, 0.0])
    assert played[4] == (1, 1)
    # Not even the first phase fits: any arm plays.
    assert told_sums(linear_elimination(15, np.eye(2), epsilon=1.0), [])[1] == [(0, 15)]


# --- edge cases ---


def arms_played(actions):
    """Arms of one game with the same losses and noise."""
    learner = linear_elimination(400, actions, epsilon=1.0)
    losses = losses_of_games(11, 1, 400, MEANS)
    return many_games(lambda: learner, 12, losses, laplace_draws(13, 1, 64))[0][0]


def test_actions_that_do_not_span_and_other_bases(small_radii):
    """The same arms play if the plane lies in R^4, stretched and rotated."""
    plain = arms_played(ACTIONS)
    embedded = ACTIONS @ np.random.default_rng(14).normal(size=(2, 4))
    np.testing.assert_array_equal(arms_played(embedded), plain)
    assert len(set(plain.tolist())) > 1
