"""Nonexpansive projections: exactness over the whole set, and pairs of close points."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpjax import domains
from dpjax.domains import exact_projections
from dpjax.maths.two_words import TwoWords
from tests.domains.test_domain_catalogue import DOMAINS, beyond, least

UNIT = exact_projections.UNIT
APPROXIMATE = {"paths", "spanning trees", "polytope"}
EXACT = [name for name in DOMAINS if name not in APPROXIMATE]
# Sets for which the error of the removed part shrinks with its length.
SHARP = [name for name in EXACT if not DOMAINS[name].domain.exact_projection.absolute]
FOUND = {"spectrahedron", "fantope"}
every_exact = pytest.mark.parametrize("name", EXACT)


COUNT = 300


@cache
def project(name):
    """Projects COUNT points at once, compiled once."""
    return jax.jit(jax.vmap(DOMAINS[name].domain.project))


@cache
def excess(name):
    return jax.jit(jax.vmap(DOMAINS[name].domain.exact_projection.excess))


def two(points):
    high = points.astype(np.float32)
    return TwoWords(high, (points - high).astype(np.float32))


def around(name, seed):
    """Points near the boundary and inside, moved by 1e-6 to 3 diameters; float64 from two words."""
    domain = DOMAINS[name].domain
    rng = np.random.default_rng(seed)
    away = rng.normal(size=(COUNT, domain.dim)) * domain.diameter
    inner = DOMAINS[name].vertices[rng.integers(len(DOMAINS[name].vertices), size=(COUNT, 2))]
    far = domain.centre + away
    border = np.asarray(project(name)(far.astype(np.float32)), np.float64)
    start = np.where(rng.random((COUNT, 1)) < 0.7, border, inner.mean(axis=1))
    step = domain.diameter * 10.0 ** rng.uniform(-6, 0.5, size=(COUNT, 1))
    y = two(start + step * rng.normal(size=(COUNT, domain.dim)) / domain.dim**0.5)
    return y, y.high.astype(np.float64) + y.low


def length(x):
    return np.linalg.norm(x, axis=-1)


def gap(name, y, taken):
    """The largest <y - p, v - p> over the whole set, p = y - taken: at most 0 for p = P(y)."""
    return np.sum(taken * (taken - y), axis=1) - least(name, -taken)


def test_which_domains_have_one():
    assert {name for name in DOMAINS if DOMAINS[name].domain.exact_projection} == set(EXACT)
    assert set(EXACT) - set(SHARP) == FOUND
    assert domains.shrunk(domains.ball(3), 0.5).exact_projection is None


@every_exact
def test_it_is_the_nearest_point_of_the_whole_set(name):
    """By the variational inequality, to the stated rounding, for an excess of 1e-6 or 3."""
    domain = DOMAINS[name].domain
    exact = domain.exact_projection
    y, wide = around(name, 0)
    taken = np.asarray(excess(name)(y), np.float64)
    error = UNIT * (exact.relative * length(taken) + exact.absolute * length(wide))
    slack = error * (length(taken) + domain.diameter + error)
    assert (gap(name, wide, taken) <= slack + 1e-12 * domain.diameter**2).all()
    near = np.asarray(project(name)(y.high), np.float64)
    first = y.high.astype(np.float64)
    slack = 32 * UNIT * length(first) * (length(first - near) + domain.diameter)
    assert (gap(name, first, first - near) <= slack).all()
    assert beyond(domain, near) <= 2e-5
    # With the removed part of another point, the slack is far exceeded.
    other = np.roll(taken, 1, axis=0)
    assert (gap(name, wide, other) > 100 * UNIT * domain.diameter**2).any()


def expansion(mapped, name, distance):
    """The largest |P(a) - P(b)| / |a - b| over pairs at ``distance`` radii."""
    _, first = around(name, 1)
    rng = np.random.default_rng(2)
    step = rng.normal(size=first.shape)
    domain = DOMAINS[name].domain
    second = first + distance * domain.radius * step / length(step)[:, None]
    first, second = first.astype(np.float32), second.astype(np.float32)
    moved = np.asarray(mapped(first), np.float64) - np.asarray(mapped(second), np.float64)
    return (length(moved) / length(first.astype(np.float64) - second)).max()


@every_exact
def test_it_brings_close_points_no_farther_apart(name):
    assert expansion(project(name), name, 1e-3) < 1.02


@pytest.mark.parametrize("name", ["l1 ball", "fantope"])
def test_frank_wolfe_does(name):
    """Frank-Wolfe's approximation, available for every set, expands by at least half."""
    domain = DOMAINS[name].domain
    searched = domains.from_minimizer(
        domain.dim, domain.minimizer, centre=domain.centre, diameter=domain.diameter
    )
    assert searched.exact_projection is None
    assert expansion(jax.jit(jax.vmap(searched.project)), name, 1e-3) > 1.5


@pytest.mark.parametrize("name", SHARP)
def test_near_the_set_not_even_points_a_millionth_apart(name):
    """In two words: their distance is a few roundings of float32."""
    domain = DOMAINS[name].domain
    rng = np.random.default_rng(3)
    away = domain.centre + rng.normal(size=(COUNT, domain.dim)) * domain.diameter
    border = np.asarray(project(name)(away.astype(np.float32)), np.float64)
    moves = 1e-6 * domain.radius * rng.normal(size=(2, COUNT, domain.dim))
    worlds = [two(border + move) for move in moves]
    first, second = (y.high.astype(np.float64) + y.low for y in worlds)
    taken, other = (np.asarray(excess(name)(y), np.float64) for y in worlds)
    ratio = length(first - taken - second + other) / length(first - second)
    assert ratio.max() < 1 + 1e-6


def test_far_away_points_have_their_vertex():
    """A set of two entries, 1e6 away."""
    far = jnp.array([3e6, -1e6, 2e6, 0.0])
    pairs = domains.capped_simplex(4, 2)
    np.testing.assert_allclose(pairs.project(far), [1.0, 0.0, 1.0, 0.0], atol=1e-5)
