"""Experimental designs over a finite set of actions in R^d: how often to play each action.

Suppose that each action a is played in a share pi_a of n rounds. Least squares then estimates the
mean loss of action x with variance x' V^-1 x / n for V = sum_a pi_a a a'. The number x' V^-1 x is
the *leverage* of x. In any design the largest leverage is at least the dimension r of the span
(Kiefer & Wolfowitz 1960).

Leverages do not depend on the basis of the actions. During a game the set of active actions may
shrink, but array shapes are fixed. So functions take an ``active`` mask, use only the active
actions, and work in the span of these. They compute elementwise, so thousands of trials run in
parallel.
"""

import math

import jax.numpy as jnp
import numpy as np
from jax import lax

from dpjax.core import Array, Numbers, _arrays, _check
from dpjax.maths.places import at

# An action counts as inside the span of others if the part outside is shorter than this share of
# the longest action.
_PARALLEL = 1e-5


def circle_net(zeta: float) -> np.ndarray:
    """Evenly spaced points (K, 2) on the unit circle, within zeta of every point of the circle.

    K = ceil(pi / (2 arcsin(zeta / 2))), which is about pi / zeta, and at least 2. The chord of half
    the angle between two neighbours is at most zeta.

    Args:
      zeta: in (0, 2), a Python float.

    Examples:
      >>> [len(designs.circle_net(zeta)) for zeta in (1.0, 0.1, 0.01)]
      [3, 32, 315]
    """
    _check.inside(0.0, 2.0, zeta=zeta)
    count = max(2, math.ceil(math.pi / (2.0 * math.asin(zeta / 2.0)) * (1.0 - 1e-12)))
    angles = 2.0 * np.pi * np.arange(count) / count
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def as_vectors(name: str, actions: Numbers) -> np.ndarray:
    """A set of actions (K, d) in float64.

    Args:
      name: the name of the argument, for messages.
      actions: at least 2 finite vectors, not traced.

    Raises:
      ValueError, TypeError: the array has another shape, holds other entries, or is 0.

    Examples:
      >>> designs.as_vectors("actions", [[1, 0], [0, 1]]).dtype
      dtype('float64')
    """
    vectors = _arrays.real(name, actions)
    if vectors.ndim != 2 or len(vectors) < 2 or not vectors.any():
        got = f"{'' if vectors.any() else 'zeros of '}shape {vectors.shape}"
        raise ValueError(f"{name} must be at least 2 vectors, (K, d), not all 0; got {got}")
    return vectors


def span_coordinates(actions: Numbers) -> np.ndarray:
    """The actions (K, d) in coordinates of their span: (K, r) float64 with orthonormal columns.

    It is computed on the host. Directions whose singular value is at most 1e-9 of the largest are
    dropped.

    Raises:
      ValueError, TypeError: as in :func:`as_vectors`.

    Examples:
      >>> designs.span_coordinates([[1.0, 0.0, 1.0], [2.0, 0.0, 2.0], [0.0, 1.0, 0.0]]).shape
      (3, 2)
    """
    vectors = as_vectors("actions", actions)
    left, lengths, _ = np.linalg.svd(vectors / np.abs(vectors).max(), full_matrices=False)
    return left[:, lengths > 1e-9 * lengths[0]]


def coordinates(actions: Array, active: Array | None = None) -> tuple[Array, Array]:
    """Coordinates of the active actions in a basis that consists of some of them.

    The basis is chosen greedily: the next action is the farthest from the span of those before. No
    coordinate then exceeds 2^(d-1) in absolute value, and most are at most 1.

    Args:
      actions: (K, d).
      active: (K,) bool; by default all are active.

    Returns:
      (coordinates, basis). The coordinates are (K, d). If r < d, the last d - r of them are 0.
      Inactive actions have coordinates 0. ``basis`` (K,) bool marks the r actions of the basis.

    Examples:
      >>> points, basis = designs.coordinates(jnp.array([[2.0, 0.0], [0.0, 2.0], [1.0, -1.0]]))
      >>> points.tolist(), basis.tolist()
      ([[1.0, 0.0], [0.0, 1.0], [0.5, -0.5]], [True, True, False])
    """
    count, dim = actions.shape
    active = jnp.ones(count, bool) if active is None else active
    rest = jnp.where(active[:, None], actions, 0.0)
    smallest_square = _PARALLEL**2 * jnp.max(jnp.sum(rest * rest, axis=1))

    def extend(index, carry):
        rest, points, basis = carry
        squares = jnp.sum(rest * rest, axis=1)
        farthest = jnp.argmax(squares)
        square = jnp.max(squares)
        independent = square > smallest_square
        direction = at(rest, farthest)
        # No share exceeds 1 in absolute value, since no action is farther from the span.
        share = jnp.sum(rest * direction[None], axis=1) / jnp.where(independent, square, 1.0)
        share = jnp.where(independent, share, 0.0)
        rest = rest - share[:, None] * direction[None]
        points = points - share[:, None] * at(points, farthest)[None]
        points = jnp.where(jnp.arange(dim) == index, share[:, None], points)
        return rest, points, basis | (independent & (jnp.arange(count) == farthest))

    start = (rest, jnp.zeros_like(actions), jnp.zeros(count, bool))
    _, points, basis = lax.fori_loop(0, dim, extend, start)
    return points, basis


def inverse(matrix: Array) -> Array:
    """The inverse of a small positive definite matrix (d, d), by Gauss-Jordan elimination.

    The computation is elementwise. jnp.linalg would process trials one by one.

    Examples:
      >>> designs.inverse(jnp.array([[2.0, 1.0], [1.0, 1.0]])).tolist()
      [[1.0, -1.0], [-1.0, 2.0]]
    """
    dim = matrix.shape[0]

    def eliminate(index, rest):
        is_pivot = jnp.arange(dim) == index
        column = jnp.sum(jnp.where(is_pivot[None], rest, 0.0), axis=1)
        row = at(rest, index)
        pivot = at(row, index)
        rest = rest - column[:, None] * row[None] / pivot
        rest = jnp.where(is_pivot[None], -column[:, None] / pivot, rest)
        return jnp.where(is_pivot[:, None], jnp.where(is_pivot, 1.0, row)[None] / pivot, rest)

    return lax.fori_loop(0, dim, eliminate, matrix)


def inverse_information(points: Array, weights: Array) -> Array:
    """V^-1 (d, d) for V = sum_a w_a a a', with actions in :func:`coordinates`.

    If a coordinate is 0 for all actions, V gets a 1 on its diagonal. No leverage depends on it.

    Examples:
      >>> designs.inverse_information(jnp.eye(2), jnp.array([0.5, 0.25])).diagonal().tolist()
      [2.0, 4.0]
    """
    information = jnp.sum(weights[:, None, None] * points[:, :, None] * points[:, None, :], axis=0)
    empty = jnp.all(points == 0.0, axis=0)
    return inverse(information + jnp.where(empty, jnp.eye(points.shape[1]), 0.0))


def leverages(actions: Array, weights: Array, active: Array | None = None) -> Array:
    """The leverages a' V^-1 a (K,) for V = sum_a w_a a a'; 0 for inactive actions.

    The actions of positive weight must span the active actions.

    Examples:
      >>> designs.leverages(jnp.eye(2), jnp.array([0.5, 0.5])).tolist()  # the dimension, the least
      [2.0, 2.0]
    """
    points, _ = coordinates(actions, active)
    spread = inverse_information(points, weights)
    return jnp.sum(points[:, :, None] * spread[None] * points[:, None, :], axis=(1, 2))


def core_set_steps(dim: int, ratio: float = 2.0) -> int:
    """A number of Frank-Wolfe steps after which no leverage in r <= dim dimensions exceeds ratio r.

    If the largest leverage is at least ratio r, a step increases ln det V by at least
    (r - 1) ln(1 - s) + ln(1 - s + s ratio r) for s = (ratio - 1) / (ratio r - 1). At the start
    ln det V is at most ln(r^(2r) / r!) below its maximum, for two reasons. First, in each
    orthogonalized direction of the basis, no action has a larger coordinate than the basis action.
    So the volume of any r actions is at most r^(r/2) times the volume of the basis (Hadamard).
    Second, det V is a weighted sum of squared volumes, with weights that sum to at most 1 / r!.

    Examples:
      >>> [designs.core_set_steps(dim) for dim in (2, 4, 8)]
      [8, 35, 108]
    """
    steps = 0
    for r in range(2, dim + 1):
        size = (ratio - 1.0) / (ratio * r - 1.0)
        gain = (r - 1) * math.log1p(-size) + math.log1p(size * (ratio * r - 1.0))
        steps = max(steps, math.ceil((2 * r * math.log(r) - math.lgamma(r + 1)) / gain))
    return steps


def g_optimal(actions: Array, active: Array | None = None, *, ratio: float = 2.0) -> Array:
    """Weights (K,) of a design over the active actions with leverages of at most ratio r.

    The weights start uniform on a basis of actions (:func:`coordinates`). Frank-Wolfe steps on
    ln det V follow, each with the best step size, until no leverage is larger than ratio r. The
    support is a *core set*: r actions, and at most one more for each step. :func:`core_set_steps`
    bounds the number of steps. Usually a few steps suffice.

    Args:
      actions: (K, d).
      active: (K,) bool, at least one of them true; by default all. It may be traced.
      ratio: above 1, a Python float.

    Returns:
      (K,) float32 with sum 1. If all actions are 0, one of them has all the weight.

    Reference: Kiefer & Wolfowitz 1960; Khachiyan 1996; Kumar & Yildirim 2005 for the start.

    Examples:
      >>> actions = jnp.array(designs.circle_net(0.1), jnp.float32)
      >>> weights = designs.g_optimal(actions)
      >>> int((weights > 0.0).sum()), float(designs.leverages(actions, weights).max()) < 4.0
      (2, True)
    """
    points, basis = coordinates(actions, active)
    rank = jnp.sum(basis, dtype=jnp.int32).astype(points.dtype)
    most = core_set_steps(actions.shape[1], ratio)

    def step(carry):
        index, weights, spread, leverage = carry
        worst = jnp.argmax(leverage)
        largest = jnp.max(leverage)
        size = (largest / rank - 1.0) / (largest - 1.0)
        weights = (1.0 - size) * weights + jnp.where(jnp.arange(len(weights)) == worst, size, 0.0)
        # The inverse of (1 - size) V + size a a', by the formula of Sherman and Morrison.
        direction = jnp.sum(spread * at(points, worst)[None], axis=1)
        share = size / (1.0 - size + size * largest)
        moved = jnp.sum(points * direction[None], axis=1)
        spread = (spread - share * direction[:, None] * direction[None]) / (1.0 - size)
        leverage = (leverage - share * moved * moved) / (1.0 - size)
        return index + 1, weights, spread, leverage

    def wanted(carry):
        index, _, _, leverage = carry
        return (index < most) & (jnp.max(leverage) > ratio * rank)

    # If all actions are 0, the basis is empty and the first active action gets the weight.
    active = jnp.ones(len(basis), bool) if active is None else active
    start = jnp.where(rank > 0.0, basis, active & (jnp.cumsum(active, dtype=jnp.int32) == 1))
    weights = start.astype(points.dtype) / jnp.maximum(rank, 1.0)
    spread = rank * jnp.eye(actions.shape[1], dtype=points.dtype)
    leverage = rank * jnp.sum(points * points, axis=1)
    first = (jnp.zeros((), jnp.int32), weights, spread, leverage)
    return lax.while_loop(wanted, step, first)[1]
