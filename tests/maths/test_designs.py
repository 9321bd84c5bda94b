"""Designs: leverages of at most 2 r on every mask, in float64; nets; refused arguments."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpjax.maths import designs


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
