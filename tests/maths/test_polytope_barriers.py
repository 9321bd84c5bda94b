"""The barrier of a polytope: closed forms, Hessians, its Newton steps, its rounding."""

from functools import cache, partial
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpjax import domains
from tests.maths.test_barriers import check_barrier, vectors

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
def test_semi_axes_and_argmin_against_the_numerical_hessian_and_gradient(name):
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


@pytest.mark.parametrize("scale", [1e2, 1e6, 3e38])
def test_float32_near_the_boundary(scale):
    """Points stay in the body up to rounding, and all values are finite, for any size of s."""
    domain, _ = made("drawn")
    rng = np.random.default_rng(0)
    s = np.clip(scale * rng.normal(size=(200, 4)), -3e38, 3e38).astype(np.float32)
    z = rng.normal(size=(200, 4)).astype(np.float32)
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    points, duals = jax.vmap(domain.barrier.explore)(s, z)
    assert np.isfinite(points).all() and np.isfinite(duals).all()
    rows, bounds = BODIES["drawn"]
    over = (np.asarray(points, np.float64) @ rows.T - bounds) / np.linalg.norm(rows, axis=1)
    assert over.max() < 1e-6 * domain.radius


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
