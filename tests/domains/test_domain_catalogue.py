"""The catalogue of decision sets, each against the same set written in NumPy."""

from functools import cache
from itertools import product
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import domains
from dpjax.domains import exact_projections
from dpjax.maths.two_words import TwoWords
from tests.maths.test_barriers import corners

EDGES = [(0, 1), (0, 2), (1, 3), (2, 3), (1, 4), (3, 5), (4, 5), (2, 4)]
SQUARE = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (3, 4)]  # with a diagonal and a bridge
BLOCKS, CAPACITIES = np.array([0, 1, 0, 1, 1, 2]), np.array([1, 2, 1])


class Known(NamedTuple):
    """A set by its extreme points, or by some of them if there are infinitely many."""

    domain: Any
    vertices: np.ndarray
    least: Any = None  # g (..., d) -> the least <g, x>; by default over the vertices


def subsets(dim):
    return np.array(list(product([0.0, 1.0], repeat=dim)))


def simple_paths(edges, node, target):
    if node == target:
        return [np.zeros(len(edges))]
    rows = []
    for e, (a, b) in enumerate(edges):
        if a == node:
            rows += [np.eye(len(edges))[e] + path for path in simple_paths(edges, b, target)]
    return rows


def spanning_trees(edges, nodes):
    rows = []
    for row in subsets(len(edges)):
        chosen = [edges[e] for e in np.flatnonzero(row)]
        laplacian = np.zeros((nodes, nodes))
        for a, b in chosen:
            laplacian[[a, b], [a, b]] += 1
            laplacian[[a, b], [b, a]] -= 1
        rank = np.linalg.matrix_rank(laplacian)
        if rank == len(chosen) == nodes - 1:
            rows.append(row)
    return np.array(rows)


def directions(dim, seed):
    rows = np.random.default_rng(seed).normal(size=(400, dim))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def projections(size, rank):
    """Random projections onto this many directions, and the least value in closed form."""
    drawn = np.random.default_rng(10).normal(size=(400, size, rank))
    frames = np.linalg.qr(drawn)[0]
    vertices = (frames @ np.swapaxes(frames, -1, -2)).reshape(-1, size * size)

    def least(g):
        matrix = g.reshape(*g.shape[:-1], size, size)
        values = np.linalg.eigvalsh((matrix + np.swapaxes(matrix, -1, -2)) / 2)
        return values[..., :rank].sum(axis=-1)

    return vertices, least


# A redundant row, a repeated row, and one that touches the body in an edge.
ROWS = np.concatenate([directions(3, 12)[:9], 2 * np.eye(3), -np.eye(3), [[1, 1, 0], [2, 0, 0]]])
BOUNDS = np.array([1.2] * 9 + [2.0] * 3 + [1.0] * 3 + [2.0, 2.0])
LOW, HIGH = np.array([0.0, -1.0, 2.0]), np.array([1.0, 3.0, 2.5])
signs = np.concatenate([np.eye(4), -np.eye(4)])
DOMAINS = {
    "box": Known(domains.box(LOW, HIGH), LOW + subsets(3) * (HIGH - LOW)),
    "l1 ball": Known(domains.l1_ball(4, 2.0), 2.0 * signs),
    "polytope": Known(domains.polytope(ROWS, BOUNDS), corners(ROWS, BOUNDS)),
    "simplex": Known(domains.simplex(5), np.eye(5)),
    "ball": Known(domains.ball(4), directions(4, 5), lambda g: -np.linalg.norm(g, axis=-1)),
    "cube": Known(domains.cube(3), 2 * subsets(3) - 1),
    "capped simplex": Known(domains.capped_simplex(6, 2), subsets(6)[subsets(6).sum(axis=1) == 2]),
    "partition": Known(
        domains.partition_matroid(BLOCKS, CAPACITIES),
        np.array([row for row in subsets(6) if (np.bincount(BLOCKS, row) == CAPACITIES).all()]),
    ),
    "paths": Known(domains.paths(EDGES, 0, 5), np.array(simple_paths(EDGES, 0, 5))),
    "spanning trees": Known(domains.spanning_trees(SQUARE, 5), spanning_trees(SQUARE, 5)),
    "spectrahedron": Known(domains.fantope(3, 1), *projections(3, 1)),
    "fantope": Known(domains.fantope(3, 2), *projections(3, 2)),
}
every_domain = pytest.mark.parametrize("name", DOMAINS)


def mixtures(name, count=1000, seed=0):
    """Random points of the set, (count, d)."""
    rng = np.random.default_rng(seed)
    vertices = DOMAINS[name].vertices
    rows = rng.integers(len(vertices), size=(count, 4))
    return np.einsum("ij,ijk->ik", rng.dirichlet(np.ones(4), count), vertices[rows])


def gradients(name):
    """Random, huge, tied, axis-parallel and zero gradients; (n, d) float32."""
    dim = DOMAINS[name].domain.dim
    rng = np.random.default_rng(1)
    normal, ties = rng.normal(size=(40, dim)), rng.integers(-1, 2, size=(40, dim))
    rows = [normal, 1e10 * normal, 1e-3 * normal, ties, np.eye(dim), -np.eye(dim)]
    return np.concatenate([*rows, np.zeros((1, dim))]).astype(np.float32)


@cache
def minimizers(name):
    domain = DOMAINS[name].domain
    return np.asarray(jax.jit(jax.vmap(domain.minimizer))(gradients(name)), np.float64)


def least(name, g):
    known = DOMAINS[name]
    return known.least(g) if known.least else (g @ known.vertices.T).min(axis=-1)


def beyond(domain, points):
    """How far points (n, d) lie outside a set, along some of 400 directions and the axes."""
    axes = np.eye(domain.dim)
    g = np.concatenate([directions(domain.dim, 11), axes, -axes])
    lowest = np.asarray(jax.jit(jax.vmap(domain.minimizer))(g.astype(np.float32)), np.float64)
    return np.max(np.sum(g * lowest, axis=1) - points @ g.T)


def size_of(g):
    return 1e-30 + np.abs(g).max(axis=-1)


@every_domain
def test_the_minimizer_attains_the_least_of_all_extreme_points(name):
    """Enumerated or in closed form; it is a point of the set, and that of another g does not."""
    g = gradients(name).astype(np.float64)
    scale = size_of(g) * max(1.0, np.abs(DOMAINS[name].vertices).max())

    def above(points):
        return np.abs(np.sum(g * points, axis=1) - least(name, g)) / scale

    assert above(minimizers(name)).max() <= 2e-5 < above(np.roll(minimizers(name), 1, 0)).max()
    contains = jax.jit(jax.vmap(DOMAINS[name].domain.contains))
    assert contains(minimizers(name).astype(np.float32)).all()


@every_domain
def test_one_by_one_it_is_the_same(name):
    """Without vmap; and at g = 0 or with ties, the choice is always the same."""
    one = jax.jit(DOMAINS[name].domain.minimizer)
    for i in (0, 85, 121, 130, -1):
        alone = np.asarray(one(gradients(name)[i]))
        if name in ("spectrahedron", "fantope") and i not in (0, 85):
            continue  # any eigenvector of equal eigenvalues is right
        np.testing.assert_allclose(alone, minimizers(name)[i], atol=1e-5)


@every_domain
def test_membership(name):
    """Mixtures are members; points below the least value of some g are not."""
    domain = DOMAINS[name].domain
    points = np.concatenate([mixtures(name), domain.centre[None]]).astype(np.float32)
    contains = jax.jit(jax.vmap(domain.contains))
    assert contains(points).all()
    g = directions(domain.dim, 11)
    near, far = (points[:400] - size * g for size in (0.05, 100.0))
    outside = np.sum(near * g, axis=1) < least(name, g) - 1e-3
    if domain.tangent is not None:
        normal = g - g @ domain.tangent @ domain.tangent.T
        outside |= np.linalg.norm(0.05 * normal, axis=1) > 1e-2
    assert not contains(far.astype(np.float32)).any()
    assert not contains(near.astype(np.float32))[outside].any()


@every_domain
def test_sizes(name):
    """Diameter and radius cover the extreme points, and are attained if they are exact."""
    domain, vertices = DOMAINS[name].domain, DOMAINS[name].vertices
    some = vertices[:: max(1, len(vertices) // 500)]
    widest = np.linalg.norm(some[:, None] - some[None], axis=-1).max()
    farthest = np.linalg.norm(vertices - domain.centre, axis=1).max()
    assert widest <= domain.diameter * (1 + 1e-6)
    assert farthest <= domain.radius * (1 + 1e-6)
    if name != "spanning trees":  # Its diameter is a bound.
        assert widest >= 0.9 * domain.diameter


@every_domain
def test_tangent_and_inradius(name):
    """The tangent spans exactly the differences of extreme points.

    r is the least of h(g) - <g, c> over unit g in the tangent, where h is the support function. No
    random g is below it, and descent from the best of them comes close to it.
    """
    domain, vertices = DOMAINS[name].domain, DOMAINS[name].vertices
    basis = np.eye(domain.dim) if domain.tangent is None else domain.tangent
    np.testing.assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-9)
    differences = vertices - domain.centre
    np.testing.assert_allclose(differences @ basis @ basis.T, differences, atol=1e-6)
    assert np.linalg.matrix_rank(differences, tol=1e-6) == basis.shape[1]
    assert domain.inradius is not None

    def excess(w):
        g = w @ basis.T
        return -least(name, -g) - g @ domain.centre

    rng = np.random.default_rng(6)
    w = rng.normal(size=(4000, basis.shape[1]))
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    assert excess(w).min() >= domain.inradius * (1 - 1e-6)
    best, size = w[np.argmin(excess(w))], 0.3
    for _ in range(60):
        near = best + size * rng.normal(size=(300, len(best)))
        near /= np.linalg.norm(near, axis=1, keepdims=True)
        values = excess(near)
        if values.min() < excess(best[None])[0]:
            best = near[np.argmin(values)]
        else:
            size *= 0.7
    assert excess(best[None])[0] <= domain.inradius * 1.01


@every_domain
def test_projection(name):
    """No feasible point is nearer (variational inequality). Points of exact projections stay."""
    domain = DOMAINS[name].domain
    rng = np.random.default_rng(8)
    away = (domain.centre + rng.normal(size=(30, domain.dim)) * domain.diameter).astype(np.float32)
    project = jax.jit(jax.vmap(domain.project))
    near = np.asarray(project(away), np.float64)
    # Frank-Wolfe: 2 D / sqrt(102) at worst.
    exact = domain.exact_projection is not None
    slack = 1e-4 if exact else 0.05
    gain = np.sum((away - near)[:, None] * (mixtures(name, 200)[None] - near[:, None]), axis=-1)
    assert gain.max() <= slack * domain.diameter**2
    if exact:
        inside = mixtures(name, 50)[np.arange(30)].astype(np.float32)
        np.testing.assert_allclose(project(inside), inside, atol=2e-5)
        assert beyond(domain, near) <= 2e-5 < beyond(domain, away)


def test_many_spanning_trees_have_no_inradius_but_a_tangent():
    ring = [(i, (i + 1) % 14) for i in range(14)]
    domain = domains.spanning_trees(ring, 14)
    assert domain.inradius is None and domain.tangent.shape == (14, 13)
    assert domain.centre == pytest.approx(np.full(14, 13 / 14))


SHRUNK = domains.shrunk(domains.capped_simplex(4, 2), 0.5)


def test_a_shrunk_domain_is_halfway_to_the_centre():
    whole = domains.capped_simplex(4, 2)
    g = jr.normal(jr.key(3), (20, 4))
    halfway = 0.5 * (jax.vmap(whole.minimizer)(g) + whole.centre[None].astype(np.float32))
    np.testing.assert_allclose(jax.vmap(SHRUNK.minimizer)(g), halfway, atol=1e-6)
    near = np.asarray(jax.vmap(SHRUNK.project)(g))
    assert near.min() >= 0.25 - 1e-5 and near.max() <= 0.75 + 1e-5


# --- exact, nonexpansive projections ---

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
    ball = domains.ball(3)
    assert domains.shrunk(ball, 0.5).exact_projection is None
    known = {"centre": np.zeros(3), "diameter": 2.0, "project": ball.exact_projection}
    same = domains.from_minimizer(3, ball.minimizer, **known)
    assert same.exact_projection is ball.exact_projection
    np.testing.assert_allclose(same.project(np.ones(3)), ball.project(np.ones(3)), atol=1e-6)


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
