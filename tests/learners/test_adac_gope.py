"""AdaC-GOPE: its whitened vector and estimates by hand, and its plays without noise."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax.learners import adac_gope
from dpjax.learners.parts.elimination import EliminationState, Stage
from dpjax.maths import exact_sums

MODULE = importlib.import_module("dpjax.learners._adac_gope")
RHO = 0.02
ACTIONS = np.array([[1.0, 0.2], [0.3, 0.9], [-0.8, 0.4], [-0.5, -0.6], [0.1, -0.7], [0.6, 0.6]])
PULLS, SUMS = np.array([30, 0, 25, 0, 18, 0]), np.array([12.25, 0.0, 20.5, 0.0, 3.0, 0.0])


@pytest.mark.usefixtures("quick_compilation")
def test_estimates_are_least_squares_with_gaussian_noise(monkeypatch):
    """After a phase with SUMS, the covariance is g^2 / (2 rho) X V^-1 X'; gamma by hand."""
    monkeypatch.setattr(MODULE, "elimination_phases", lambda *arguments: arguments)
    _, points, _, nothing, record, evaluate, _ = adac_gope(1000, ACTIONS, rho=RHO)
    zero, pulls = jnp.zeros((), jnp.int32), jnp.asarray(PULLS, jnp.int32)
    stage = Stage(pulls, jnp.zeros(6, bool), extra=zero, last=jnp.bool(False), kept=nothing)
    state = EliminationState(zero, active=jnp.ones(6, bool), stage=stage, arm=zero, left=zero)

    @jax.jit
    def told(state, arm, total, rounds):
        state = state._replace(arm=arm)
        kept = record(jr.key(0), state, exact_sums.of(total), rounds)
        return state._replace(stage=state.stage._replace(kept=kept))

    for arm in np.flatnonzero(PULLS):
        state = told(state, jnp.int32(arm), jnp.float32(SUMS[arm]), jnp.int32(PULLS[arm]))
    estimates, gamma = jax.jit(jax.vmap(evaluate, (0, None)))(jr.split(jr.key(1), 20_000), state)
    points = np.asarray(points, np.float64)
    inverse = np.linalg.inv(points.T @ (PULLS[:, None] * points))
    products = points @ inverse @ points.T
    plain = products @ (SUMS - PULLS / 2)
    largest = np.diag(products)[PULLS > 0].max()
    covariance = largest / (2 * RHO) * products
    errors = np.sqrt(np.diag(covariance) / 20_000)
    assert (np.abs(np.mean(estimates, axis=0) - plain) < 4 * errors).all()
    found = np.cov(np.asarray(estimates, np.float64).T)
    np.testing.assert_allclose(found, covariance, atol=0.04 * covariance.max())
    log_term = np.log(4 * 6 * 1000**2)
    radii = np.sqrt(2 * log_term * np.diag(products) * (0.25 + largest / (2 * RHO)))
    np.testing.assert_allclose(gamma[0], radii, rtol=1e-4)
