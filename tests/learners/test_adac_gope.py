"""AdaC-GOPE: its whitened vector and estimates by hand, and the cost of one loss."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import audit
from dpjax.learners import adac_gope, linear_elimination
from dpjax.learners.adac_gope import whiten
from dpjax.learners.parts.elimination import EliminationState, Stage
from dpjax.maths import designs, exact_sums
from tests.learners.test_long_sums import LONGEST, TWO, given_totals, longest_batch, neighbours

MODULE = importlib.import_module("dpjax.learners.adac_gope")
RHO = 0.02
ACTIONS = np.array([[1.0, 0.2], [0.3, 0.9], [-0.8, 0.4], [-0.5, -0.6], [0.1, -0.7], [0.6, 0.6]])
PULLS, SUMS = np.array([30, 0, 25, 0, 18, 0]), np.array([12.25, 0.0, 20.5, 0.0, 3.0, 0.0])


@pytest.mark.parametrize(("dim", "left"), [(1, 4), (3, 12), (3, 2), (9, 14)])
def test_whitened_actions_have_the_products_of_the_inverse(dim, left):
    """<W x, W y> = x' V^-1 y, also if the remaining arms do not span R^d."""
    points = np.random.default_rng(dim).normal(size=(16, dim))
    active = np.arange(16) < left
    weights = np.asarray(designs.g_optimal(jnp.float32(points), jnp.asarray(active)), np.float64)
    basis, _ = designs.coordinates(jnp.float32(points), jnp.asarray(active))
    rows = np.asarray(jax.jit(whiten)(basis, jnp.float32(weights)))
    chosen = np.where(active[:, None], points, 0.0)
    information = chosen.T @ (weights[:, None] * chosen)
    expected = chosen @ np.linalg.pinv(information, 1e-6, hermitian=True) @ chosen.T
    np.testing.assert_allclose(rows @ rows.T, expected, atol=1e-4 * expected.max())


@pytest.fixture
def of_a_phase(monkeypatch):
    """(sums of a phase with SUMS, evaluate, its state) of the learner at RHO."""
    monkeypatch.setattr(MODULE, "elimination_phases", lambda *arguments: arguments)
    _, points, _, nothing, record, evaluate, _ = adac_gope(1000, ACTIONS, rho=RHO)
    zero, false = jnp.zeros((), jnp.int32), jnp.bool(False)
    pulls = jnp.asarray(PULLS, jnp.int32)
    stage = Stage(pulls, waiting=jnp.zeros(6, bool), extra=zero, last=false, kept=nothing)
    state = EliminationState(zero, active=jnp.ones(6, bool), stage=stage, arm=zero, left=zero)

    @jax.jit
    def told(state, arm, total, rounds):
        state = state._replace(arm=arm)
        kept = record(jr.key(0), state, exact_sums.of(total), rounds)
        return state._replace(stage=state.stage._replace(kept=kept))

    for arm in np.flatnonzero(PULLS):
        state = told(state, jnp.int32(arm), jnp.float32(SUMS[arm]), jnp.int32(PULLS[arm]))
    return np.asarray(points, np.float64), evaluate, state


@pytest.mark.usefixtures("quick_compilation")
def test_estimates_are_least_squares_with_gaussian_noise(of_a_phase):
    """The covariance is g^2 / (2 rho) X V^-1 X', which rejects another rho; gamma by hand."""
    points, evaluate, state = of_a_phase
    estimates, gamma = jax.jit(jax.vmap(evaluate, (0, None)))(jr.split(jr.key(1), 20_000), state)
    inverse = np.linalg.inv(points.T @ (PULLS[:, None] * points))
    products = points @ inverse @ points.T
    plain = points @ inverse @ points.T @ (SUMS - PULLS / 2)
    largest = np.diag(products)[PULLS > 0].max()
    covariance = largest / (2 * RHO) * products
    errors = np.sqrt(np.diag(covariance) / 20_000)
    assert (np.abs(np.mean(estimates, axis=0) - plain) < 4 * errors).all()
    found = np.cov(np.asarray(estimates, np.float64).T)
    np.testing.assert_allclose(found, covariance, atol=0.04 * covariance.max())
    log_term = np.log(4 * 6 * 1000**2)
    radii = np.sqrt(2 * log_term * np.diag(products) * (0.25 + largest / (2 * RHO)))
    np.testing.assert_allclose(gamma[0], radii, rtol=1e-4)


@pytest.mark.usefixtures("quick_compilation")
def test_one_loss_among_a_billion_costs_rho():
    """In each batch in turn, short or long; half the noise, that of 4 rho, costs four times rho."""
    batches = 39
    pairs = neighbours(batches)

    def learner(rho):
        return given_totals(adac_gope(LONGEST, TWO, rho=rho), batches)

    assert longest_batch(learner(RHO), pairs) > 2**27
    replay = jax.jit(jax.vmap(lambda rho, pair: audit.replay(learner(rho), pair, jr.key(0)),
                              (None, 0)))  # fmt: skip
    for factor in (1.0, 4.0):
        replayed = replay(factor * RHO, pairs)
        assert not audit.explain(replayed)
        np.testing.assert_allclose(replayed.rho, factor * RHO, rtol=1e-5)
        np.testing.assert_array_equal(replayed.touched, 1)


def test_bad_arguments_are_named():
    for name, values in {
        "rho": (0.0, -1.0, np.nan), "delta": (0.0, 1.0), "ratio": (1.0, np.nan),
        "failure": (0.0, 1.0), "horizon": (0, 2.5), "actions": ([1.0, 2.0], [[0.0], [0.0]]),
    }.items():  # fmt: skip
        for value in values:
            with pytest.raises((ValueError, TypeError), match=rf"^{name} must be"):
                adac_gope(**{"horizon": 64, "actions": ACTIONS, "rho": RHO, name: value})


@pytest.mark.slow
def test_without_noise_it_plays_as_linear_elimination():
    """The same arms remain after the same phases."""
    learners = (
        adac_gope(4096, ACTIONS, rho=np.inf), linear_elimination(4096, ACTIONS, epsilon=np.inf)
    )  # fmt: skip
    means = jnp.asarray(0.5 + 0.4 * ACTIONS[:, 0], jnp.float32)
    seen = []
    for learner in learners:
        step = jax.jit(learner.step)
        state, batch = learner.init(jr.key(0))
        seen.append([])
        left = 4096
        while left > 0:
            left = left - int(batch.rounds)
            total = exact_sums.repeated(means[batch.action], batch.rounds)
            state, batch = step(state, jr.key(left), total)
            seen[-1].append([int(state.number), int(batch.action), int(batch.rounds)])
    # The last batch is beyond the horizon.
    np.testing.assert_array_equal(seen[0][:-1], seen[1][:-1])
    assert len(seen[0]) > 10 and seen[0][-1][0] > 2
