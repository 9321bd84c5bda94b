"""Experimental designs over a finite set of actions in R^d: what to play to know all of them.

Playing action a a share pi_a of n rounds, least squares know the mean loss of action x up to a
variance of x' V^-1 x / n, V = sum_a pi_a a a': the *leverage* of x over n. No design brings the
largest leverage below the dimension r of the span (Kiefer & Wolfowitz 1960).

All of it is the same whatever basis the actions are written in. Sets may shrink as a game goes
on, in a fixed shape: functions of an ``active`` mask look at these actions alone, work in the space
that they span, and compute elementwise, so that thousands of trials run side by side.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dpjax import _check
from dpjax.maths.places import at

# What is left of an action beside the span of others is rounding below this share of the longest.
_PARALLEL = 1e-5


def circle_net(zeta) -> np.ndarray:
    """Evenly spaced points (K, 2) on the unit circle, such that one is within zeta of each point.

    K = ceil(pi / (2 arcsin(zeta / 2))): about pi / zeta, and at least 2. Half the angle between two
    neighbours has a chord of at most zeta.

    Args:
      zeta: in (0, 2), a Python float.
    """
    _check.inside(0.0, 2.0, zeta=zeta)
    count = max(2, math.ceil(math.pi / (2.0 * math.asin(zeta / 2.0)) * (1.0 - 1e-12)))
    angles = 2.0 * np.pi * np.arange(count) / count
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def span_coordinates(actions) -> np.ndarray:
    """The actions (K, d) in coordinates of their span, (K, r), with orthonormal columns; float64.

    On the host. Directions are dropped in which no action has more than 1e-9 of the largest
    singular value.

    Raises:
      ValueError, TypeError: not at least 2 finite vectors, or all of them 0; it names ``actions``.
    """
    requirement = "actions must be at least 2 finite vectors, (K, d), not all 0"
    try:
        vectors = np.asarray(actions, np.float64)
    except jax.errors.TracerArrayConversionError:
        raise TypeError(f"{requirement}; they must be known, not traced") from None
    except (TypeError, ValueError):
        raise TypeError(f"{requirement}, got {actions!r}") from None
    if vectors.ndim != 2 or len(vectors) < 2:
        raise ValueError(f"{requirement}; got shape {vectors.shape}")
    if not np.isfinite(vectors).all():
        row = np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0]
        raise ValueError(f"{requirement}; row {row + 1} is {vectors[row].tolist()}")
    if not vectors.any():
        raise ValueError(f"{requirement}; all are 0")
    coordinates, lengths, _ = np.linalg.svd(vectors / np.abs(vectors).max(), full_matrices=False)
    return coordinates[:, lengths > 1e-9 * lengths[0]]


def coordinates(actions, active=None):
    """Active actions in a basis of their span that is made of some of them.

    Greedily: the next one of the basis is the action that is farthest from the span of those
    before. Coordinates are then at most 2^(d-1), and mostly at most 1.

    Args:
      actions: (K, d).
      active: (K,) bool; all, by default.

    Returns:
      The coordinates (K, d), which for r < d are 0 in the last d - r places, and for actions that
      are not active everywhere; and which actions are the basis, (K,) bool, r of them.
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
        found = square > smallest_square
        direction = at(rest, farthest)
        # Of modulus at most 1, for no action is farther.
        share = jnp.sum(rest * direction[None], axis=1) / jnp.where(found, square, 1.0)
        share = jnp.where(found, share, 0.0)
        rest = rest - share[:, None] * direction[None]
        points = points - share[:, None] * at(points, farthest)[None]
        points = jnp.where(jnp.arange(dim) == index, share[:, None], points)
        return rest, points, basis | (found & (jnp.arange(count) == farthest))

    start = (rest, jnp.zeros_like(actions), jnp.zeros(count, bool))
    _, points, basis = lax.fori_loop(0, dim, extend, start)
    return points, basis


def inverse(matrix):
    """The inverse of a small positive definite matrix (d, d), by Gauss & Jordan.

    Elementwise, where jnp.linalg would go through the trials one by one.
    """
    dim = matrix.shape[0]

    def eliminate(index, rest):
        here = jnp.arange(dim) == index
        column = jnp.sum(jnp.where(here[None], rest, 0.0), axis=1)
        row = at(rest, index)
        pivot = at(row, index)
        rest = rest - column[:, None] * row[None] / pivot
        rest = jnp.where(here[None], -column[:, None] / pivot, rest)
        return jnp.where(here[:, None], jnp.where(here, 1.0, row)[None] / pivot, rest)

    return lax.fori_loop(0, dim, eliminate, matrix)


def inverse_information(points, weights):
    """V^-1 for V = sum_a w_a a a', (d, d), with actions in :func:`coordinates`.

    In places that are 0 in all of them V is completed by ones: no leverage depends on it.
    """
    information = jnp.sum(weights[:, None, None] * points[:, :, None] * points[:, None, :], axis=0)
    empty = jnp.all(points == 0.0, axis=0)
    return inverse(information + jnp.where(empty, jnp.eye(points.shape[1]), 0.0))


def leverages(actions, weights, active=None):
    """a' V^-1 a for V = sum_a w_a a a', (K,); 0 for actions that are not active.

    The weights must span what the active actions span.
    """
    points, _ = coordinates(actions, active)
    spread = inverse_information(points, weights)
    return jnp.sum(points[:, :, None] * spread[None] * points[:, None, :], axis=(1, 2))


def core_set_steps(dim, ratio=2.0) -> int:
    """After how many steps of Frank & Wolfe no leverage in r <= dim dimensions exceeds ratio r.

    A step at a largest leverage of at least ratio r raises ln det V by
    (r - 1) ln(1 - s) + ln(1 - s + s ratio r), s = (ratio - 1) / (ratio r - 1). It starts at most
    ln(r^(2r) / r!) below its maximum: in the basis' orthogonal directions an action has coordinates
    of modulus at most those of the basis, so no r actions span more than r^(r/2) times its volume
    (Hadamard), and V weighs such volumes, squared, by at most 1 / r! in all.
    """
    steps = 0
    for r in range(2, dim + 1):
        size = (ratio - 1.0) / (ratio * r - 1.0)
        gain = (r - 1) * math.log1p(-size) + math.log1p(size * (ratio * r - 1.0))
        steps = max(steps, math.ceil((2 * r * math.log(r) - math.lgamma(r + 1)) / gain))
    return steps


def g_optimal(actions, active=None, *, ratio=2.0):
    """Weights (K,) of a design over the active actions with leverages of at most ratio r.

    Uniform on a basis of some of them (:func:`coordinates`), then steps of Frank & Wolfe in
    ln det V, each with the best step size, until no leverage is larger: a *core set* of r actions
    and at most one for each step. :func:`core_set_steps` bounds these; a few are usual.

    Args:
      actions: (K, d).
      active: (K,) bool, at least one; all, by default. May be traced.
      ratio: above 1, a Python float.

    Returns:
      (K,) float32, which sum to 1. Of actions that are all 0 one has all the weight.

    Reference: Kiefer & Wolfowitz 1960; Khachiyan 1996; Kumar & Yildirim 2005 for the start.
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
        # Sherman & Morrison, of (1 - size) V + size a a'.
        direction = jnp.sum(spread * at(points, worst)[None], axis=1)
        share = size / (1.0 - size + size * largest)
        moved = jnp.sum(points * direction[None], axis=1)
        spread = (spread - share * direction[:, None] * direction[None]) / (1.0 - size)
        leverage = (leverage - share * moved * moved) / (1.0 - size)
        return index + 1, weights, spread, leverage

    def wanted(carry):
        index, _, _, leverage = carry
        return (index < most) & (jnp.max(leverage) > ratio * rank)

    # Where all are 0 the basis is empty.
    active = jnp.ones(len(basis), bool) if active is None else active
    start = jnp.where(rank > 0.0, basis, active & (jnp.cumsum(active, dtype=jnp.int32) == 1))
    weights = start.astype(points.dtype) / jnp.maximum(rank, 1.0)
    spread = rank * jnp.eye(actions.shape[1], dtype=points.dtype)
    leverage = rank * jnp.sum(points * points, axis=1)
    start = (jnp.zeros((), jnp.int32), weights, spread, leverage)
    return lax.while_loop(wanted, step, start)[1]
