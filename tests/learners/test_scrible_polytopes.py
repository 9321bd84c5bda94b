"""SCRiBLE on polytopes: unbiased estimates, plays inside the body, privacy, and its report."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import domains, noise
from dpjax.learners import scrible
from dpjax.learners._scrible import ellipsoid_play, step_size

RNG = np.random.default_rng(0)
ROWS, BOUNDS = RNG.normal(size=(12, 3)), RNG.uniform(0.5, 2.0, size=12)
BODY = domains.polytope(ROWS, BOUNDS)
LOSS = np.array([0.5, -0.7, 0.2])


@cache
def estimator():
    """(keys, L~ (n,), x (n,)) -> estimates of the loss in coordinates of the path, (draws, n)."""
    learner = ellipsoid_play(8, BODY, jnp.float32(1.0), 0.3)
    start, _ = learner.init(jr.key(0))

    def one(key, sums):
        draw_key, next_key = jr.split(key)
        state = start._replace(sums=sums, dual=jnp.zeros(3))
        for _ in range(6):  # Until x follows the sums, which were changed by hand.
            state, point = learner.step(state, draw_key, jnp.float32(0.3))
        value = learner.feedback(jnp.asarray(LOSS, jnp.float32), point)
        after, _ = learner.step(state, next_key, value)
        return after.sums - state.sums, point

    return jax.jit(jax.vmap(one, (0, None)))


@pytest.mark.parametrize("size", [0.0, 3.0, 12.0])
def test_estimates_are_unbiased(size):
    """Over 2^16 draws, in coordinates y with x = centre + W y; the loss in them is W l.

    A missing factor n is rejected.
    """
    sums = size * jnp.array([1.0, -0.4, 0.3])
    sample, points = estimator()(jr.split(jr.key(1), 2**16), sums)
    sample = np.asarray(sample, np.float64)
    error = sample.std(axis=0) / len(sample) ** 0.5
    loss = map_of(BODY).T @ LOSS
    assert np.abs((sample.mean(axis=0) - loss) / error).max() < 4.0
    if size == 0.0:
        assert np.abs((sample.mean(axis=0) / 3 - loss) / error).max() > 10
    assert excess(points).max() < 1e-6


def map_of(domain):
    """W = (sum_i a_i a_i' / r_i^2)^(-1/2) at the analytic centre, over rows that are facets."""
    slacks = BOUNDS - ROWS @ domain.centre
    # A row is a facet if some minimizer for its own direction lies on it.
    ends = np.asarray(jax.vmap(domain.minimizer)(jnp.asarray(-ROWS, jnp.float32)), np.float64)
    facets = np.abs(np.sum(ROWS * ends, axis=1) - BOUNDS) < 1e-5
    assert facets.sum() == domain.barrier.parameter
    scaled = ROWS[facets] / slacks[facets, None]
    sizes, axes = np.linalg.eigh(scaled.T @ scaled)
    return (axes / np.sqrt(sizes)) @ axes.T


def excess(points):
    """The distance of points outside the body, (count,)."""
    over = np.asarray(points, np.float64) @ ROWS.T - BOUNDS
    return (over / np.linalg.norm(ROWS, axis=1)).max(axis=-1)


@pytest.mark.usefixtures("quick_compilation")
def test_the_rate_and_the_noise(monkeypatch):
    """nu is the number of facets, n the dimension, and M half the width of the values."""
    scales = []
    record = lambda key, v, scale, *_: scales.append(float(scale)) or v  # noqa: E731
    monkeypatch.setattr(noise, "laplace", record)
    cube = domains.polytope(np.concatenate([np.eye(3), -np.eye(3)]), 2 * np.ones(6))
    learner = scrible(100, cube._replace(losses=domains.l1_losses(3)), epsilon=0.5)
    learner.step(learner.init(jr.key(0))[0], jr.key(1), jnp.float32(0.1))
    assert scales[0] == pytest.approx(4.0 / 0.5, rel=1e-5)
    twice = float(
        step_size(100, cube.barrier, 2.0, 1.0) / step_size(100, domains.cube(3).barrier, 2.0, 1.0)
    )
    assert twice == pytest.approx(2**0.5, rel=1e-6)
