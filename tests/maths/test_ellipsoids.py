"""Matrix factors against NumPy, in both forms: up to eight rows, and more."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpjax.engine import one_kernel
from dpjax.engine.batch_last import batch_last
from dpjax.maths import ellipsoids


def packed(matrix):
    return jnp.asarray(matrix[ellipsoids.indices(len(matrix))], jnp.float32)


def positive(dim, seed=0):
    rows = np.random.default_rng(seed).normal(size=(2 * dim + 1, dim))
    return rows.T @ rows + 0.1 * np.eye(dim)


@pytest.mark.parametrize("dim", [1, 5, 8, 9, 20])
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


def all_at_once(packed, points):
    shape = ellipsoids.ellipsoid(packed, points.shape[1])
    solution = ellipsoids.solve(shape.whitener, points[0])
    return shape, ellipsoids.whiten(shape.whitener, points), solution


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="kernels of a CPU")
@pytest.mark.parametrize("dim", [9, 20])
def test_a_trial_has_the_same_bits_among_few_and_many(dim):
    """Every third of 40 matrices is indefinite."""
    many = np.array([positive(dim, seed) for seed in range(40)])
    many[::3] -= 2.0 * np.median(np.linalg.eigvalsh(many[0])) * np.eye(dim)
    many = jnp.stack([packed(v) for v in many], axis=-1)
    points = jnp.asarray(np.random.default_rng(3).normal(size=(5, dim, 40)), jnp.float32)
    function = batch_last(all_at_once, (True, True))

    def computed(trials):
        arguments = many[:, :trials], points[..., :trials]
        program = one_kernel.as_one_kernel(function, arguments, [True, True], lambda f: f)
        return program(*arguments)

    every = computed(40)
    assert set(np.flatnonzero(~every[0].definite)) == set(range(0, 40, 3))
    for trials in (1, 17):
        few = computed(trials)
        jax.tree.map(
            lambda a, b: np.testing.assert_array_equal(a[..., : b.shape[-1]], b), every, few
        )


def test_programs_do_not_grow_with_the_matrix():
    def lines(dim):
        arguments = jnp.zeros(ellipsoids.packed_size(dim)), jnp.zeros((5, dim))
        return len(jax.jit(all_at_once).lower(*arguments).as_text().splitlines())

    assert lines(16) == lines(60) < 1000


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
