"""SCRiBLE: its estimates and points, also on polytopes, and its noise calibration."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import bounds, domains
from dpjax.learners import scrible
from dpjax.learners._scrible import ellipsoid_play, step_size

RNG = np.random.default_rng(0)
ROWS, BOUNDS = RNG.normal(size=(12, 3)), RNG.uniform(0.5, 2.0, size=12)
DOMAINS = {
    "simplex": domains.simplex(4),
    "ball": domains.ball(3, 2.0),
    "cube": domains.cube(3),
    "polytope": domains.polytope(ROWS, BOUNDS),
}
LOSSES = {"simplex": [0.9, 0.1, 0.6, 0.3], "ball": [0.5, -0.7, 0.2], "cube": [0.3, -0.4, 0.2]}
LOSSES["polytope"] = LOSSES["ball"]
SUMS = {"start": 0.0, "inside": 1.0, "outside": 12.0}


@cache
def estimates(name):
    """Estimates of the loss, and plays, from 100 000 rounds at each of SUMS, (draws, d)."""
    domain, loss = DOMAINS[name], jnp.asarray(LOSSES[name], jnp.float32)
    # A centre other than 0 must not matter.
    learner = ellipsoid_play(8, domain, jnp.float32(1.0), 0.3)
    start, _ = learner.init(jr.key(0))

    def one(key, sums):
        draw_key, next_key = jr.split(key)
        state = start._replace(sums=sums, dual=jnp.zeros(domain.dim))
        # On a polytope, until x follows the sums, which were changed by hand.
        for _ in range(6 if name == "polytope" else 1):
            state, point = learner.step(state, draw_key, jnp.float32(0.3))
        after, _ = learner.step(state, next_key, learner.feedback(loss, point))
        return after.sums - state.sums, point

    every = jax.jit(jax.vmap(one, (0, None)))
    direction, keys = jnp.array([1.0, -0.4, 0.3, 2.0])[: domain.dim], jr.split(jr.key(1), 100_000)
    return {word: jax.device_get(every(keys, size * direction)) for word, size in SUMS.items()}


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


def worst_z(name, sample):
    """The largest z of the mean against the loss.

    On the simplex both are up to constants. On a polytope they are in coordinates y with
    x = centre + W y, in which the loss is W l.
    """
    loss = np.array(LOSSES[name])
    if name == "simplex":
        sample, loss = sample[:, 1:] - sample[:, :1], loss[1:] - loss[0]
    if name == "polytope":
        loss = map_of(DOMAINS[name]).T @ loss
    error = sample.std(axis=0) / len(sample) ** 0.5
    return np.abs((sample.mean(axis=0) - loss) / error).max()


@pytest.mark.parametrize("size", SUMS)
@pytest.mark.parametrize("name", DOMAINS)
def test_estimates_are_unbiased(name, size):
    """At the start, inside and near the boundary, up to the scatter of 100 000 draws.

    If the scatter is small enough, a missing factor n is rejected, and so is the ball instead of
    the sphere, which shrinks the mean by n / (n + 2). Plays on a polytope are inside of it.
    """
    sample, points = (np.asarray(leaf, np.float64) for leaf in estimates(name)[size])
    assert worst_z(name, sample) < 4.5
    if size == "start":
        n = DOMAINS[name].barrier.dim
        assert worst_z(name, sample / n) > 10
        assert worst_z(name, sample * n / (n + 2)) > 10
    if name == "polytope":
        over = (points @ ROWS.T - BOUNDS) / np.linalg.norm(ROWS, axis=1)
        assert over.max() < 1e-6


def test_step_size_by_hand():
    """eta = sqrt(nu ln T / (2 n^2 T (M^2 + s^2))), which minimizes the bound, and its value."""
    barrier = domains.simplex(4).barrier
    eta = float(step_size(1000, barrier, 0.5, 8 * 0.25 / 4))
    spread = 2 * 9 * 1000 * (0.25 + 0.5)
    assert eta == pytest.approx(np.sqrt(4 * np.log(1000) / spread))
    bound = 4 * np.log(1000) / eta + eta * spread + 1
    assert bound == pytest.approx(bounds.scrible(1000, 4, 2.0, domain="simplex"))
    # Points lie on the ellipsoid around the point of eta L~: (y - x) / axes has length 1.
    learner, sums = scrible(1000, domains.cube(2), epsilon=jnp.inf), jnp.array([300.0, -80.0])
    state, _ = learner.init(jr.key(0))
    state = state._replace(base=state.base._replace(sums=sums, dual=jnp.zeros(2)))
    step = jax.vmap(lambda key: learner.step(state, key, jnp.float32(0.0))[1])
    points = np.asarray(step(jr.split(jr.key(0), 64)))
    scaled = np.sqrt(2 * np.log(1000) / (2 * 4 * 1000)) * np.asarray(sums)
    x = -scaled / (1 + np.sqrt(1 + scaled**2))
    axes = np.sqrt(((1 - x**2) ** 2) / (2 * (1 + x**2)))
    np.testing.assert_allclose(np.linalg.norm((points - x) / axes, axis=1), 1.0, rtol=1e-4)
