"""Factors of small matrices against NumPy, in both forms: up to eight rows, and more."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpjax.maths import ellipsoids


def packed(matrix):
    return jnp.asarray(matrix[ellipsoids.indices(len(matrix))], jnp.float32)


def positive(dim, seed=0):
    rows = np.random.default_rng(seed).normal(size=(2 * dim + 1, dim))
    return rows.T @ rows + 0.1 * np.eye(dim)


@pytest.mark.parametrize("dim", [1, 2, 5, 8, 9, 13])
def test_whitener_solution_and_determinant(dim):
    v, x = positive(dim), np.random.default_rng(1).normal(size=(4, dim))
    shape = jax.jit(lambda p: ellipsoids.ellipsoid(p, dim))(packed(v))
    assert bool(shape.definite)
    points = jnp.asarray(x, jnp.float32)
    inverse = np.linalg.inv(v)
    np.testing.assert_allclose(
        ellipsoids.whiten(shape.whitener, points),
        np.einsum("ki,ij,kj->k", x, inverse, x),
        rtol=1e-4,
    )
    np.testing.assert_allclose(
        ellipsoids.solve(shape.whitener, points[0]), inverse @ x[0], rtol=1e-3, atol=1e-4
    )
    np.testing.assert_allclose(
        ellipsoids.log_determinant(shape, 2.0),
        np.linalg.slogdet(v)[1] - dim * np.log(2.0),
        rtol=1e-4, atol=1e-4,
    )  # fmt: skip
    np.testing.assert_allclose(ellipsoids.inner(points[0], points), x @ x[0], rtol=1e-4, atol=1e-5)
    assert float(ellipsoids.squared_length(points[1])) == pytest.approx(x[1] @ x[1], rel=1e-5)


@pytest.mark.parametrize("dim", [2, 9])
def test_an_indefinite_matrix_is_noticed_and_gets_absolute_pivots(dim):
    lower = np.tril(np.random.default_rng(2).normal(size=(dim, dim)), -1) + np.eye(dim)
    signs = np.where(np.arange(dim) == dim - 1, -3.0, 2.0)
    shape = ellipsoids.ellipsoid(packed(lower @ np.diag(signs) @ lower.T), dim)
    assert not bool(shape.definite)
    np.testing.assert_allclose(shape.pivots, np.abs(signs), rtol=1e-4)
    made = np.linalg.inv(lower @ np.diag(np.abs(signs)) @ lower.T)
    e = jnp.eye(dim)
    np.testing.assert_allclose(ellipsoids.whiten(shape.whitener, e), np.diag(made), rtol=1e-3)


def test_no_matrix_gives_nan():
    shape = ellipsoids.ellipsoid(jnp.zeros(6), 3)
    assert not bool(shape.definite)
    assert np.isfinite(shape.pivots).all() and np.isfinite(shape.whitener).all()


@pytest.mark.parametrize("dim", [1, 6, 12])
def test_packing(dim):
    v = jnp.arange(1.0, dim + 1.0)
    matrix = ellipsoids.unpack(ellipsoids.outer(v), dim)
    np.testing.assert_array_equal(matrix, v[:, None] * v[None])
    assert ellipsoids.packed_size(dim) == len(ellipsoids.outer(v))
    shifted = ellipsoids.unpack(ellipsoids.add_to_diagonal(ellipsoids.outer(v), dim, 2.0), dim)
    np.testing.assert_array_equal(shifted - matrix, 2.0 * np.eye(dim))
