"""Polytopes from inequalities, with the logarithmic barrier for SCRiBLE."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from dpjax.core import Numbers, _arrays
from dpjax.domains._facets import within_facets
from dpjax.domains._from_minimizer import from_minimizer
from dpjax.domains.base import Domain, LossSet
from dpjax.domains.loss_sets import ball_losses
from dpjax.maths import polytope_barriers
from dpjax.maths.barriers import add_up

MOST_VERTICES = 4096
# A polytope counts as empty if its inner ball is smaller than this share of the size of b.
_LEAST_INRADIUS = 1e-6
# The distance of a vertex from its facets is at most this share of the polytope's size.
_ON_FACET = 1e-8


class _Facets(NamedTuple):
    """A polytope {w: A w <= b} in R^n with inner points. Each row is a facet."""

    rows: np.ndarray  # A (m, n), rows of length 1
    bounds: np.ndarray  # b (m,)
    vertices: np.ndarray  # (count, n)


def polytope(A: Numbers, b: Numbers, *, losses: LossSet | None = None) -> Domain:
    """The points x in R^d with A x <= b, a bounded set.

    It has a barrier for :func:`~dpjax.learners.scrible`: the sum of -ln(b - A x) over the rows. Its
    parameter nu is the number of rows. Redundant rows are removed first, since each would increase
    the regret. The centre is the analytic centre, which minimizes the barrier. The projection is
    approximate (see :func:`from_minimizer`).

    Args:
      A: (m, d), a row for each inequality.
      b: (m,).
      losses: a LossSet of dimension d; by default vectors of length at most 1.

    Raises:
      ValueError: bad arguments, by name; the set is empty or unbounded, has no inner points, or has
        more than 4096 vertices. Vertices are enumerated, so d should be small.

    Examples:
      >>> triangle = domains.polytope([[-1, 0], [0, -1], [1, 1]], [0, 0, 1])
      >>> print(triangle.minimizer(jnp.array([1.0, -1.0])), np.round(triangle.centre, 3))
      [0. 1.] [0.333 0.333]
    """
    rows, bounds = _arrays.real("A", A), _arrays.real("b", b)
    if rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(f"A must be a matrix (m, d), got shape {rows.shape}")
    if bounds.shape != rows.shape[:1]:
        raise ValueError(
            f"b must have a number for each row of A, shape {rows.shape[:1]}, got {bounds.shape}"
        )
    dim = rows.shape[1]
    facets = _facets(rows, bounds)
    centre, vertices = _analytic_centre(facets), facets.vertices
    slacks = facets.bounds - facets.rows @ centre
    scaled = facets.rows / slacks[:, None]
    root = _inverse_root(scaled.T @ scaled)
    points = np.asarray(vertices, np.float32)

    def minimizer(g):
        products = add_up(points.T * g[:, None])
        return jnp.asarray(points)[jnp.argmin(products)]

    domain = from_minimizer(
        dim,
        minimizer,
        centre=centre,
        diameter=scipy.spatial.distance.pdist(vertices).max(),
        radius=np.linalg.norm(vertices - centre, axis=1).max(),
        losses=ball_losses(dim) if losses is None else losses,
        contains=within_facets(facets.rows, facets.bounds, centre, None),
        inradius=slacks.min(),
    )
    values = partial(_values, vertices=points)
    barrier = polytope_barriers.polytope(scaled @ root, centre, root, values)
    return domain._replace(barrier=barrier)


def _facets(rows, bounds) -> _Facets:
    """The facets and vertices of {w: A w <= b}, in an order independent of the order of rows."""
    lengths = np.linalg.norm(rows, axis=1)
    moves = lengths > 1e-12 * max(lengths.max(), 1e-300)
    if (bounds[~moves] < 0).any():
        raise ValueError("A x <= b must hold for some x, but a row of zeros excludes all")
    rows, bounds = rows[moves] / lengths[moves, None], bounds[moves] / lengths[moves]
    scale = np.abs(bounds).max(initial=0.0) or 1.0
    bounds = bounds / scale
    inner, radius = _inner_ball(rows, bounds)
    # Around the inner ball the rows are 1 - <p, w> >= 0.
    margins = bounds - rows @ inner
    points = rows / margins[:, None] * radius
    if rows.shape[1] == 1:
        vertices = np.array([[1.0 / points.min()], [1.0 / points.max()]])
    else:
        halfspaces = np.concatenate([points, -np.ones((len(points), 1))], axis=1)
        solution = scipy.spatial.HalfspaceIntersection(halfspaces, np.zeros(rows.shape[1]))
        vertices = solution.intersections
    size = np.abs(vertices).max()
    vertices = _ordered(vertices, _ON_FACET * size)
    if len(vertices) > MOST_VERTICES:
        raise ValueError(
            f"A x <= b must have at most {MOST_VERTICES} vertices, got {len(vertices)}"
        )
    vertices = inner + radius * vertices
    both = _ordered(np.concatenate([rows, bounds[:, None]], axis=1), _ON_FACET)
    rows, bounds = both[:, :-1], both[:, -1]
    close = bounds[:, None] - rows @ vertices.T <= 10 * _ON_FACET * radius * size
    dims = [_affine_dim(vertices[on], _ON_FACET * radius * size) for on in close]
    facet = np.array(dims) == rows.shape[1] - 1
    return _Facets(rows[facet], scale * bounds[facet], scale * vertices)


def _inner_ball(rows, bounds):
    """Centre (n,) and radius of the largest ball in {w: A w <= b}, for rows of length 1.

    Raises:
      ValueError: the set has no inner points or is unbounded.
    """
    dim = rows.shape[1]
    program = np.concatenate([rows, np.ones((len(rows), 1))], axis=1)
    solution = _linear_program(-np.eye(dim + 1)[dim], program, bounds)
    if solution is not None and solution[dim] < _LEAST_INRADIUS:
        raise ValueError("A x <= b must have inner points, but it is empty or flat")
    # The set is bounded if 0 is inside the hull of the rows, so that A w <= 0 only for w = 0.
    bounded = solution is not None and all(
        _linear_program(sign * axis, rows, bounds) is not None
        for axis in np.eye(dim)
        for sign in (1.0, -1.0)
    )
    if not bounded:
        raise ValueError("A x <= b must be a bounded set")
    return solution[:dim], solution[dim]


def _linear_program(costs, rows, bounds):
    """argmin of <costs, w> over A w <= b, or None if there is no minimum."""
    solution = scipy.optimize.linprog(costs, A_ub=rows, b_ub=bounds, bounds=(None, None))
    return solution.x if solution.status == 0 else None


def _ordered(vectors, tolerance) -> np.ndarray:
    """Vectors (count, n) sorted by their entries, without duplicates."""
    rounded = np.round(vectors / tolerance / 4.0)
    vectors = vectors[np.lexsort(rounded.T[::-1])]
    near = scipy.spatial.cKDTree(vectors).query_pairs(8.0 * tolerance, output_type="ndarray")
    return np.delete(vectors, near[:, 1], axis=0)


def _affine_dim(points, tolerance) -> int:
    """The dimension of the affine hull of points (count, n), -1 for none."""
    if not len(points):
        return -1
    return int(np.linalg.matrix_rank(points - points[0], tol=100 * tolerance))


def _analytic_centre(facets) -> np.ndarray:
    """The minimizer of -sum_i ln(b_i - <a_i, w>), by damped Newton steps from the mean vertex."""
    rows, bounds = facets.rows, facets.bounds
    w = facets.vertices.mean(axis=0)
    for _ in range(1000):
        scaled = rows / (bounds - rows @ w)[:, None]
        gradient = scaled.sum(axis=0)
        step = np.linalg.lstsq(scaled.T @ scaled, gradient, rcond=None)[0]
        decrement = float(np.sqrt(max(gradient @ step, 0.0)))
        w = w - step / (1.0 + decrement if decrement > 0.25 else 1.0)
        if decrement < 1e-8:  # The last step squares the decrement.
            return w
    raise ValueError("A x <= b: the set is too thin to find its analytic centre")


def _inverse_root(matrix) -> np.ndarray:
    """The symmetric M^(-1/2) of a positive definite M."""
    sizes, axes = np.linalg.eigh(matrix)
    return (axes / np.sqrt(sizes)) @ axes.T


def _values(losses, vertices) -> tuple[float, float]:
    """The range of <l, x> over losses and vertices, widened to allow for rounding."""
    with jax.core.eval_context():  # The game may be traced, but its sets are not.
        points = jnp.asarray(vertices)

        def largest(sign):
            most = jax.vmap(lambda v: jnp.vdot(losses.maximizer(sign * v), sign * v))(points)
            return float(jnp.max(most))

        low, high = -largest(-1.0), largest(1.0)
    margin = 1e-6 * max(abs(low), abs(high))
    return low - margin, high + margin
