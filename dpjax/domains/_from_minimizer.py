"""Domains from a linear minimizer. Authors of sets start here."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dpjax.core import Number, Numbers, _arrays, _check
from dpjax.domains import exact_projections
from dpjax.domains._vectors import euclidean_norm
from dpjax.domains.base import TOLERANCE, Domain, LossSet
from dpjax.domains.loss_sets import ball_losses
from dpjax.domains.regularizers import squared_norm


def from_minimizer(
    dim: int,
    minimizer: Callable,
    *,
    centre: Numbers,
    diameter: Number,
    losses: LossSet | None = None,
    radius: Number | None = None,
    project: Callable | exact_projections.ExactProjection | int = 100,
    contains: Callable | None = None,
    inradius: float | None = None,
    tangent: Numbers | None = None,
) -> Domain:
    """A domain from any compact convex set whose linear minimizer is known.

    If no projection is known, it is approximated by a fixed number n of Frank-Wolfe steps with
    exact line search. The distance to the true projection is then at most 2 diameter / sqrt(n + 2)
    (Jaggi 2013, Theorem 1), and far less near vertices. An approximate projection may move two
    points farther apart. So learners whose privacy depends on projections refuse the domain.

    Args:
      dim: d.
      minimizer: g (d,) -> a point x of the set with the least <g, x>.
      centre: a point of the set, (d,).
      diameter: largest Euclidean distance between two points of the set, or an upper bound.
      losses: a LossSet of the same dimension; by default vectors of length at most 1.
      radius: largest distance of a point from the centre; by default the diameter.
      project: a function (d,) -> the nearest point, an ExactProjection, or n. The function must be
        exact up to rounding: its error for y is at most 32 * 2^-24 |y|.
        Pass an ExactProjection if its rounding error is known more precisely, and the number n of
        Frank-Wolfe steps if no projection is known.
      contains: (x, tolerance) -> whether x is in the set; by default whether x is near its
        projection.
      inradius: radius of the largest ball around the centre within the set; if m < d, a ball in the
        affine hull.
      tangent: (d, m), orthonormal basis of the directions of the affine hull, if m < d.

    Raises:
      ValueError, TypeError: bad arguments, by name.

    Examples:
      >>> ends = jnp.array([[0.0, 0.0], [1.0, 2.0]])
      >>> segment = domains.from_minimizer(
      ...     2, lambda g: ends[jnp.argmin(ends @ g)], centre=[0.5, 1.0], diameter=5.0**0.5
      ... )
      >>> print(segment.minimizer(jnp.array([1.0, -1.0])), segment.exact_projection)
      [1. 2.] None
    """
    dim, exact_projection = _check.size(1, dim=dim), None
    _check.positive(diameter=diameter, **_check.specified(radius=radius, inradius=inradius))
    losses = ball_losses(dim) if losses is None else losses
    centre = _arrays.real("centre", centre)
    if centre.shape != (dim,):
        raise ValueError(f"centre must have shape ({dim},), got {centre.shape}")
    if losses.dim != dim:
        raise ValueError(f"losses must have the dimension of the domain, {dim}, got {losses.dim}")
    shape = jax.eval_shape(minimizer, jax.ShapeDtypeStruct((dim,), jnp.float32)).shape
    if shape != (dim,):
        raise ValueError(f"minimizer must return shape ({dim},), got {shape}")
    if tangent is not None:
        tangent = _checked_tangent(tangent, dim)
    if isinstance(project, exact_projections.ExactProjection):
        exact_projection, project = project, exact_projections.by_excess(project)
    elif callable(project):
        exact_projection = exact_projections.from_project(project)
    elif isinstance(project, int | np.integer) and project > 0:
        project = _by_frank_wolfe(minimizer, centre, _check.size(1, project=project))
    else:
        raise ValueError("project must be a function, an ExactProjection, or a number of steps, at "
                         f"least 1, got {project!r}")  # fmt: skip
    radius = float(diameter if radius is None else radius)

    def is_near(x, tolerance=TOLERANCE):
        return euclidean_norm(x - project(x)) <= tolerance

    return Domain(
        dim=dim,
        minimizer=minimizer,
        project=project,
        centre=centre,
        radius=radius,
        diameter=float(diameter),
        regularizer=squared_norm(project, centre, radius),
        losses=losses,
        contains=contains or is_near,
        inradius=None if inradius is None else float(inradius),
        tangent=tangent,
        exact_projection=exact_projection,
    )


def _about_zero(dim, minimizer, radius, **known) -> Domain:
    """A domain that contains -x for each of its points x. Its diameter is twice its radius.

    ``known`` are further arguments of :func:`from_minimizer`.
    """
    return from_minimizer(
        dim, minimizer, centre=np.zeros(dim), radius=radius, diameter=2 * radius, **known
    )


def _checked_tangent(tangent, dim) -> np.ndarray:
    tangent = _arrays.real("tangent", tangent)
    if tangent.ndim != 2 or tangent.shape[0] != dim or not 1 <= tangent.shape[1] < dim:
        raise ValueError(f"tangent must be ({dim}, m), 1 <= m < {dim}, got {tangent.shape}")
    if np.abs(tangent.T @ tangent - np.eye(tangent.shape[1])).max() > 1e-6:
        raise ValueError("tangent must have orthonormal columns")
    return tangent


def _by_frank_wolfe(minimizer, centre, steps) -> Callable:
    """An approximate projection (d,) -> (d,), by Frank-Wolfe steps from the centre."""

    def project(y):
        def one_step(_, x):
            toward = minimizer(x - y) - x
            length = jnp.vdot(toward, toward)
            step = jnp.vdot(y - x, toward) / jnp.maximum(length, 1e-30)
            return x + jnp.clip(step, 0.0, 1.0) * toward

        return lax.fori_loop(0, steps, one_step, jnp.asarray(centre, jnp.float32))

    return project
