"""Barriers: Hessians and gradients, Newton steps on polytopes, and float32 near the boundary."""

from functools import cache, partial
from itertools import combinations, product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpjax import domains
from dpjax.maths import barriers

DIM = 4
# Twice the size and not the unit set, so that a missing radius is found.
BARRIERS = {
    "ball": (barriers.ball(DIM, 2.0), lambda x: -np.log(1 - np.sum(x * x) / 4)),
    "cube": (barriers.cube(DIM, 2.0), lambda x: -np.sum(np.log(1 - x * x / 4))),
    "simplex": (barriers.simplex(DIM), lambda x: -np.sum(np.log(x))),
    "interval": (barriers.ball(1, 1.0), lambda x: -np.log(1 - np.sum(x * x))),
    "pair": (barriers.simplex(2), lambda x: -np.sum(np.log(x))),
}
every_barrier = pytest.mark.parametrize("name", BARRIERS)


def vectors(dim):
    """Small, medium and large s, with a negative first entry, and s = 0."""
    base = np.array([-0.7, 1.9, 0.2, -1.1], np.float32)[:dim]
    return [np.zeros(dim, np.float32), 0.1 * base, base, 5 * base, -60 * base]


def columns(barrier, s):
    """A and A^+' of a barrier, column by column: (d, n) each, in float64; and x."""
    x = np.asarray(barrier.argmin(s), np.float64)
    eye = jnp.eye(barrier.dim, dtype=jnp.float32)
    points, duals = jax.vmap(barrier.explore, (None, 0))(s, eye)
    return x, np.asarray(points, np.float64).T - x[:, None], np.asarray(duals, np.float64).T


def second_derivative(function, x, v, w, h=1e-3):
    """D^2 R(x)[v, w] by central differences; v and w have about unit local norm."""
    at = [function(x + h * (a * v + b * w)) for a, b in [(1, 1), (1, -1), (-1, 1), (-1, -1)]]
    return (at[0] - at[1] - at[2] + at[3]) / (4 * h * h)


def check_barrier(barrier, function, s, atol):
    """A' R''(x) A = 1, <A^+' z, A z'> = <z, z'>, and D R(x)[v] = -<s, v> for the n semi-axes v."""
    x, axes, duals = columns(barrier, s)
    hessian = [[second_derivative(function, x, v, w) for w in axes.T] for v in axes.T]
    np.testing.assert_allclose(hessian, np.eye(barrier.dim), atol=atol)
    np.testing.assert_allclose(duals.T @ axes, np.eye(barrier.dim), atol=atol)
    slopes = [(function(x + 1e-4 * v) - function(x - 1e-4 * v)) / 2e-4 for v in axes.T]
    np.testing.assert_allclose(slopes, -axes.T @ s, rtol=1e-6, atol=atol)


@every_barrier
def test_semi_axes_and_argmin_against_the_numerical_hessian_and_gradient(name):
    barrier, function = BARRIERS[name]
    for s in vectors(barrier.dim + (name in ("simplex", "pair"))):
        # Differences of step 1e-3 are off by 1e-6; float32 points at 1 - |x| ~ 1e-3 by 1e-4.
        check_barrier(barrier, function, s, 2e-3)


@every_barrier
def test_parameter_bounds_the_newton_decrement(name):
    """|D R(x)[v]|^2 <= nu for unit v, the definition of nu; attained in the limit."""
    barrier, _ = BARRIERS[name]
    dim = barrier.dim + (name in ("simplex", "pair"))
    largest = 0.0
    for s in [*vectors(dim), 100 * np.arange(1, dim + 1, dtype=np.float32)]:
        _, axes, _ = columns(barrier, s)
        decrement = np.sum((axes.T @ np.asarray(s, np.float64)) ** 2)
        # On the simplex only in the plane: without the part along x, nu - 1 is left.
        largest = max(largest, decrement)
        # Axes are differences of float32 points here, off by 1e-3 close to the boundary.
        assert decrement <= barrier.parameter * (1 + 4e-3)
    assert largest > 0.95 * (barrier.parameter - (name in ("simplex", "pair")))


NEAR = [*product(["ball", "cube", "simplex", "drawn"], [1e3, 1e8, 1e18]), ("drawn", 3e38)]


@pytest.mark.parametrize(("name", "scale"), NEAR)
def test_float32_near_the_boundary(name, scale):
    """Points stay in the set up to rounding, and A^+' is finite, for any size of s."""
    barrier = made(name)[0].barrier if name == "drawn" else BARRIERS[name][0]
    generator = np.random.default_rng(0)
    s = np.clip(scale * generator.normal(size=(200, DIM)), -3e38, 3e38).astype(np.float32)
    z = generator.normal(size=(200, barrier.dim)).astype(np.float32)
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    points, duals = jax.vmap(barrier.explore)(s, z)
    assert np.isfinite(points).all() and np.isfinite(duals).all()
    assert outside(name, np.asarray(points, np.float64)).max() < 1e-6


def outside(name, points):
    if name == "ball":
        return np.linalg.norm(points, axis=1) / 2 - 1
    if name == "cube":
        return np.abs(points).max(axis=1) / 2 - 1
    if name == "drawn":
        rows, bounds = BODIES[name]
        return ((points @ rows.T - bounds) / np.linalg.norm(rows, axis=1)).max(axis=1)
    return np.maximum(-points.min(axis=1), np.abs(points.sum(axis=1) - 1))


@pytest.mark.parametrize("dim", [2, 100, 10_000])
def test_root_on_the_simplex(dim):
    """Against bisection in float64, for s close together, far apart and in two groups.

    The last 40 are hardest for Newton's method: half of its steps fail there.
    """
    generator = np.random.default_rng(1)
    cases = [
        np.zeros(dim),
        generator.exponential(size=dim),
        10 ** generator.uniform(-3, 8, dim),
        np.where(np.arange(dim) == 1, 0.0, 3.0 * dim),
        np.where(np.arange(dim) % 2, 0.0, 1e4) - 50.0,
        *(10 ** generator.uniform(-4, 10, (20, dim))),
        *(generator.exponential(size=(20, dim)) * 10 ** generator.uniform(-3, 8, (20, 1))),
    ]
    argmin = jax.jit(barriers.simplex(dim).argmin)
    for s in cases:
        s = s.astype(np.float32).astype(np.float64)
        gap = s - s.min()
        low, high = 1.0, float(dim)
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if np.sum(1 / (gap + middle)) > 1 else (low, middle)
        x = argmin(jnp.asarray(s, jnp.float32))
        # s itself is off by 6e-8 of its largest entry.
        np.testing.assert_allclose(x, 1 / (gap + low), rtol=2e-5)


def test_values_are_the_range_of_the_losses():
    """[0, 1] on the simplex, +- radius times the dual norm on ball and cube."""
    assert domains.simplex(3).barrier.values(domains.simplex(3).losses) == (0.0, 1.0)
    assert domains.ball(9, 2.0).barrier.values(domains.ball_losses(9)) == (-2.0, 2.0)
    assert domains.ball(9).barrier.values(domains.l1_losses(9, 3.0)) == (-3.0, 3.0)
    assert domains.cube(9, 2.0).barrier.values(domains.l1_losses(9)) == (-2.0, 2.0)
    assert domains.cube(9).barrier.values(domains.ball_losses(9)) == (-3.0, 3.0)


CUBE = np.concatenate([np.eye(3), -np.eye(3)])


def drawn(count, dim, seed=0):
    """Rows in random directions, with different lengths, and bounds that leave 0 inside."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, dim)), rng.uniform(0.5, 2.0, size=count)


def function(rows, bounds, x):
    return -np.sum(np.log(bounds - rows @ x))


BODIES = {
    "drawn": drawn(14, 4),
    "many rows": drawn(40, 3),
    "interval": ([[2.0], [-1.0]], [2.0, 0.5]),
}


def compiled(domain):
    """The same domain with compiled barrier functions."""
    barrier = domain.barrier
    path = barrier.path._replace(explore=jax.jit(barrier.path.explore))
    barrier = barrier._replace(
        argmin=jax.jit(barrier.argmin), explore=jax.jit(barrier.explore), path=path
    )
    return domain._replace(minimizer=jax.jit(domain.minimizer), barrier=barrier)


@cache
def made(name):
    """A barrier, and R from the remaining rows of the body."""
    rows, bounds = BODIES[name]
    domain = compiled(domains.polytope(rows, bounds))
    rows, bounds = np.asarray(rows, np.float64), np.asarray(bounds, np.float64)
    # A row with n vertices on it is a facet.
    on = np.abs(rows @ corners(rows, bounds).T - bounds[:, None]) < 1e-7
    facets = on.sum(axis=1) >= rows.shape[1]
    assert facets.sum() == domain.barrier.parameter
    return domain, partial(function, rows[facets], bounds[facets])


def corners(rows, bounds):
    """All feasible points at which n rows meet."""
    dim, found = rows.shape[1], []
    for chosen in combinations(range(len(rows)), dim):
        chosen = list(chosen)
        if abs(np.linalg.det(rows[chosen])) > 1e-9:
            x = np.linalg.solve(rows[chosen], bounds[chosen])
            if (rows @ x <= bounds + 1e-9).all():
                found.append(x)
    return np.unique(np.round(found, 9), axis=0)


@pytest.mark.parametrize("name", BODIES)
def test_semi_axes_and_argmin_on_polytopes(name):
    domain, function = made(name)
    barrier = domain.barrier
    assert barrier.dim == domain.dim
    np.testing.assert_allclose(barrier.argmin(jnp.zeros(domain.dim)), domain.centre, atol=1e-5)
    for s in vectors(4)[: 4 if name == "many rows" else 5]:
        check_barrier(barrier, function, s[: domain.dim], 4e-3)


def test_newton_steps_leave_nothing():
    """Rounds at the limit of the proof, eta n |f| = 1/4: with two steps, 1e-3 would be left."""
    domain, _ = made("drawn")
    path, n = domain.barrier.path, domain.barrier.dim

    def one_round(carry, key):
        s, y = carry
        z = jax.random.normal(key, (n,))
        y, left, _, dual = path.explore(s, y, z / jnp.sqrt(jnp.sum(z * z)))
        return (s + 0.25 * dual, y), left

    start = jnp.zeros(n), jnp.asarray(path.start)
    left = jax.lax.scan(one_round, start, jax.random.split(jax.random.key(0), 60))[1]
    assert left.max() < 2e-5


def test_a_large_move_is_reported_and_caught_up():
    """A round that changes s by 100 in the local norm leaves a decrement; later ones remove it."""
    path = made("drawn")[0].barrier.path
    z = jnp.array([1.0, 0.0, 0.0, 0.0])
    s = jnp.array([60.0, -80.0, 5.0, 1.0])
    y, left, *_ = path.explore(s, jnp.asarray(path.start), z)
    assert left > 0.1
    for _ in range(20):
        y, left, *_ = path.explore(s, y, z)
    assert left < 1e-4


def test_the_order_and_length_of_rows_do_not_matter():
    """Neither does a redundant or a repeated row."""
    rows, bounds = BODIES["drawn"]
    rng = np.random.default_rng(2)
    order, lengths = rng.permutation(14), 10.0 ** rng.uniform(-3, 3, size=14)
    far = rows[:3] * 2.0
    others = [
        domains.polytope((rows * lengths[:, None])[order], (bounds * lengths)[order]),
        domains.polytope(
            np.concatenate([rows, far, rows]), np.concatenate([bounds, 5 * bounds[:3], bounds])
        ),
    ]
    one, others = made("drawn")[0], [compiled(other) for other in others]
    s, z = jnp.array([3.0, -1.0, 0.5, 2.0]), jnp.array([0.6, 0.0, -0.8, 0.0])
    for other in others:
        assert other.barrier.parameter == one.barrier.parameter
        np.testing.assert_allclose(one.centre, other.centre, atol=1e-9)
        for mine, its in zip(one.barrier.explore(s, z), other.barrier.explore(s, z), strict=True):
            np.testing.assert_allclose(mine, its, atol=1e-5)
        g = jax.random.normal(jax.random.key(0), (50, 4))
        points = [jax.vmap(each.minimizer)(g) for each in (one, other)]
        np.testing.assert_allclose(*points, atol=1e-6)


def test_values_are_the_range_over_all_vertices():
    """The cube as a polytope has the cube's values."""
    cube = domains.polytope(2.0 * CUBE, 4.0 * np.ones(6)).barrier
    assert cube.values(domains.ball_losses(3)) == pytest.approx((-(12**0.5), 12**0.5), rel=1e-5)
    assert cube.values(domains.l1_losses(3)) == pytest.approx((-2.0, 2.0), rel=1e-5)
