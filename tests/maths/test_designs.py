"""Designs: leverages on every mask and nets. Matrix factors: up to eight rows, and more."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpjax.engine import one_kernel
from dpjax.engine.batch_last import batch_last
from dpjax.maths import designs, ellipsoids


def sets_of_actions():
    """Name and actions (n, K, d) of many kinds."""
    random = np.random.default_rng(0)
    gaussian = random.normal(size=(300, 20, 5))
    yield "sphere", gaussian / np.linalg.norm(gaussian, axis=2, keepdims=True)
    # Lengths over six decades.
    yield "lengths", gaussian * 10.0 ** random.uniform(-3, 3, (300, 20, 1))
    yield "sparse", gaussian * (random.random(gaussian.shape) < 0.3)
    yield "integers", random.integers(-1, 2, gaussian.shape).astype(float)
    yield "plane", gaussian @ np.diag([1.0, 1.0, 0.0, 0.0, 0.0]) @ random.normal(size=(5, 5))
    yield "narrow", np.eye(5)[0] + 0.01 * gaussian


@jax.jit
@jax.vmap
def design(actions, active):
    """Weights, leverages and the basis."""
    weights = designs.g_optimal(actions, active)
    basis = designs.coordinates(actions, active)[1]
    return weights, designs.leverages(actions, weights, active), basis


def largest_leverage(actions, weights):
    """Over all actions, in float64, with their rank; inf if the weights do not span them."""
    columns, lengths, _ = np.linalg.svd(actions, full_matrices=False)
    columns = columns[:, lengths > 1e-6 * lengths[0]]
    information = columns.T @ (weights[:, None] * columns)
    if np.linalg.matrix_rank(information) < columns.shape[1]:
        return np.inf, columns.shape[1]
    return np.sum(columns @ np.linalg.inv(information) * columns, 1).max(), columns.shape[1]


@pytest.mark.parametrize(("kind", "actions"), list(sets_of_actions()), ids=lambda x: str(x)[:8])
def test_leverages_are_at_most_twice_the_rank_on_random_masks(kind, actions):
    """In float64; the weights sum to 1 and are 0 outside the mask."""
    random = np.random.default_rng(1)
    active = random.random(actions.shape[:2]) < random.random((len(actions), 1))
    active[:, 0] |= ~active.any(axis=1)
    weights, leverage, basis = jax.device_get(design(jnp.asarray(actions, jnp.float32), active))
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-5)
    assert (weights >= 0).all() and (weights[~active] == 0).all()
    core = (weights > 0).sum(axis=1)
    checked = 0
    for one in range(len(actions)):
        chosen = actions[one][active[one]]
        if not np.abs(chosen).any():
            continue
        largest, rank = largest_leverage(chosen, weights[one][active[one]].astype(float))
        assert rank == basis[one].sum() or kind == "lengths"  # 1e-6 of the longest may be dropped
        if rank == basis[one].sum():
            checked += 1
            assert largest <= 2 * rank * (1 + 1e-3)
            assert leverage[one].max() == pytest.approx(largest, rel=1e-2)
            assert core[one] <= rank + designs.core_set_steps(rank)
    assert checked > 0.9 * len(actions)


def test_a_smaller_ratio():
    """To 5 % of the minimum."""
    actions = jnp.asarray(np.random.default_rng(4).normal(size=(30, 4)), jnp.float32)
    weights = np.asarray(designs.g_optimal(actions, ratio=1.05), np.float64)
    assert 4.0 <= largest_leverage(np.asarray(actions, float), weights)[0] <= 4.2 * (1 + 1e-3)


@pytest.mark.parametrize("zeta", [1.5, 0.3, 0.01])
def test_net_covers_the_circle(zeta):
    """Every point is within zeta of the net, but not of an even net with one point less."""
    net = designs.circle_net(zeta)
    np.testing.assert_allclose(np.linalg.norm(net, axis=1), 1.0)
    assert np.pi / zeta * 0.9 <= len(net) <= (3 / zeta) ** 2 + 2  # of the covering argument

    def covered(points):
        angles = np.pi / len(points) + np.linspace(0, 2 * np.pi, 20 * len(points), endpoint=False)
        circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        distances = np.linalg.norm(circle[:, None] - points[None], axis=2).min(axis=1)
        return distances.max() <= zeta * (1 + 1e-9)

    assert covered(net)
    if len(net) > 2:
        angles = 2 * np.pi * np.arange(len(net) - 1) / (len(net) - 1)
        assert not covered(np.stack([np.cos(angles), np.sin(angles)], axis=1))


def test_span_coordinates():
    """Orthonormal columns, as many as the rank; also for scales far from 1 and d > K."""
    random = np.random.default_rng(8)
    for shape, rank in [((6, 3), 3), ((6, 9), 6), ((2, 1), 1)]:
        for scale in (1e-30, 1.0, 1e30):
            vectors = random.normal(size=shape)
            columns = designs.span_coordinates(scale * vectors)
            assert columns.shape == (shape[0], rank)
            np.testing.assert_allclose(columns.T @ columns, np.eye(rank), atol=1e-12)
            # The same space of functions of the arms.
            np.testing.assert_allclose(columns @ (columns.T @ vectors), vectors, atol=1e-12)


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
