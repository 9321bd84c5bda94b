"""Factors of matrices against NumPy in the three forms: up to 8 rows, up to 15, and more."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpjax.engine.batch_last import batch_last
from dpjax.maths import ellipsoids


def packed(matrix):
    return jnp.asarray(matrix[ellipsoids.indices(len(matrix))], jnp.float32)


def positive(dim, seed=0):
    rows = np.random.default_rng(seed).normal(size=(2 * dim + 1, dim))
    return rows.T @ rows + 0.1 * np.eye(dim)


@pytest.mark.parametrize("dim", [1, 2, 5, 8, 9, 13, 16, 20])
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


@pytest.mark.parametrize("dim", [2, 9, 17])
def test_an_indefinite_matrix_is_noticed_and_gets_absolute_pivots(dim):
    lower = np.tril(np.random.default_rng(2).normal(size=(dim, dim)) / dim**0.5, -1) + np.eye(dim)
    signs = np.where(np.arange(dim) == dim - 1, -3.0, 2.0)
    shape = ellipsoids.ellipsoid(packed(lower @ np.diag(signs) @ lower.T), dim)
    assert not bool(shape.definite)
    np.testing.assert_allclose(shape.pivots, np.abs(signs), rtol=1e-4)
    made = np.linalg.inv(lower @ np.diag(np.abs(signs)) @ lower.T)
    e = jnp.eye(dim)
    np.testing.assert_allclose(ellipsoids.whiten(shape.whitener, e), np.diag(made), rtol=1e-3)


@pytest.mark.parametrize("dim", [16, 17, 20])
def test_a_library_agrees_with_elimination(dim, monkeypatch):
    """Both in float32, and both as far from float64 as its rounding."""
    v = positive(dim)
    both = [ellipsoids.ellipsoid(packed(v), dim)]
    monkeypatch.setattr(ellipsoids, "_BY_LIBRARY", dim + 1)
    both.append(ellipsoids.ellipsoid(packed(v), dim))
    exact = np.linalg.inv(np.linalg.cholesky(v))[ellipsoids.indices(dim)]
    for shape in both:
        error = np.abs(shape.whitener - exact).max()
        assert shape.definite and error < 1e-5 * np.abs(exact).max()
    np.testing.assert_allclose(both[0].pivots, both[1].pivots, rtol=1e-5)


@pytest.mark.parametrize("dim", [9, 16, 19])
def test_a_trial_has_the_same_bits_beside_an_indefinite_matrix(dim):
    """Of 21 matrices two are indefinite. Each is factored alone, and among seven and all others."""
    many = np.array([positive(dim, seed) for seed in range(21)])
    many[[3, 12], -1, -1] = -1.0
    many = jnp.stack([packed(v) for v in many], axis=-1)
    factored = jax.jit(batch_last(lambda p: ellipsoids.ellipsoid(p, dim), (True,)))
    every, seven = factored(many), factored(many[:, 7:14])
    np.testing.assert_array_equal(np.flatnonzero(~every.definite), [3, 12])
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[..., 7:14], b), every, seven)
    for i in (3, 4):
        alone = jax.jit(lambda p: ellipsoids.ellipsoid(p, dim))(many[:, i])
        jax.tree.map(
            lambda a, b, i=i: np.testing.assert_allclose(a[..., i], b, rtol=1e-5), every, alone
        )


@pytest.mark.parametrize("dim", [3, 16])
def test_no_matrix_gives_nan(dim):
    shape = ellipsoids.ellipsoid(jnp.zeros(ellipsoids.packed_size(dim)), dim)
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
