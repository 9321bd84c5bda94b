"""The types Domain, LossSet and Regularizer, and functions on them.

Authors of sets fill in these fields, and learners on sets read them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from dpjax.core import Array, Number
from dpjax.domains import exact_projections, lotteries
from dpjax.domains._vectors import constant
from dpjax.maths import barriers

# A float32 point counts as contained if no constraint is violated by more than this.
TOLERANCE = 1e-5


class LossSet(NamedTuple):
    """A set of possible loss vectors of a round. Calibrations use its norms and diameters.

    Examples:
      >>> losses = domains.l1_losses(3)
      >>> losses.norms, losses.diameters, losses.entry
      ((1.0, 1.0), (2.0, 2.0), (-1.0, 1.0))
    """

    dim: int  # d
    clip: Callable  # (d,) -> the nearest vector of the set
    maximizer: Callable  # g (d,) -> a vector l of the set with the largest <g, l>
    centre: np.ndarray  # (d,) NumPy
    norms: tuple[float, float]  # largest L1 and largest L2 norm of a vector
    diameters: tuple[float, float]  # largest L1 and largest L2 distance between two vectors
    spread: float  # largest difference between two entries of one vector
    entry: tuple[float, float]  # (low, high), the range of one entry


class Regularizer(NamedTuple):
    """A strongly convex function R on a domain, for follow the regularized leader.

    Examples:
      >>> norm = domains.ball(2).regularizer  # the squared norm
      >>> print(norm.argmin(jnp.array([-1.0, 0.0])), norm.argmin(jnp.array([-1.0, 0.0]), rate=0.5))
      [0.5 0. ] [0.25 0.  ]
      >>> norm.range, norm.stability(domains.ball_losses(2))
      (1.0, 0.25)
    """

    argmin: Callable  # (s (d,), rate=1) -> argmin over the domain of rate <s, x> + R(x)
    range: float  # D_R, the largest minus the least value of R on the domain
    stability: Callable  # LossSet -> S; with rate eta the regret is at most D_R / eta + eta S T


class Domain(NamedTuple):
    """A compact convex set of decisions in R^d.

    Examples:
      >>> box = domains.box([0.0, -1.0], [1.0, 2.0])
      >>> print(box.minimizer(jnp.array([1.0, -1.0])), box.project(jnp.array([0.5, 7.0])))
      [0. 2.] [0.5 2. ]
      >>> box.dim, box.inradius, round(box.diameter, 3)
      (2, 0.5, 3.162)
    """

    dim: int  # d
    minimizer: Callable  # g (d,) -> a point of the set with the least <g, x>; ties: lowest index
    project: Callable  # (d,) -> the nearest point of the set, exactly or approximately
    centre: np.ndarray  # (d,) NumPy
    radius: float  # largest L2 distance of a point from the centre
    diameter: float  # largest L2 distance between two points
    regularizer: Regularizer  # the default regularizer of learners on this set
    losses: LossSet  # the default losses to which learners on this set are calibrated
    barrier: barriers.Barrier | None = None  # self-concordant; None if none is known
    # Whether a point is in the set, up to a tolerance: (x (d,), tolerance=1e-5) -> () bool
    contains: Callable | None = None
    inradius: float | None = None  # radius of the largest ball around the centre within the set. If
    # the set has no inner points, a ball in its affine hull. None if unknown
    tangent: Any = None  # (d, m) NumPy, orthonormal basis of the directions of the affine hull;
    # None if the set has inner points, that is, m = d
    # None if ``project`` is only approximate
    exact_projection: exact_projections.ExactProjection | None = None
    # A law on the vertices of a set whose vertices have entries 0 and 1; None if unknown
    lottery: lotteries.Lottery | None = None


def support_function(domain: Domain, direction: Array) -> Array:
    """The largest <g, x> over the domain, for g (d,). The least is minus the largest <-g, x>.

    Examples:
      >>> direction = jnp.array([3.0, 4.0])
      >>> float(domains.support_function(domains.cube(2), direction))
      7.0
      >>> round(float(domains.support_function(domains.ball(2), direction)), 3)
      5.0
    """
    return jnp.vdot(direction, domain.minimizer(-direction))


def conditional_gradient_step(domain: Domain, point: Array, gradient: Array) -> tuple[Array, Array]:
    """One Frank-Wolfe step with exact line search, on a function whose Hessian is I.

    Args:
      domain: a Domain.
      point: x (d,), in the domain.
      gradient: gradient (d,) of the function at x.

    Returns:
      The next point, and the gap <gradient, x - v> at x, where v minimizes <gradient, v>. The
      function at x exceeds its minimum by at most the gap, and x is at most sqrt(2 gap) away from
      its minimizer (Jaggi 2013).

    Examples:
      >>> simplex, point = domains.simplex(2), jnp.array([1.0, 0.0])
      >>> point, gap = domains.conditional_gradient_step(simplex, point, point)  # on |x|^2 / 2
      >>> print(point, gap)
      [0.5 0.5] 1.0
    """
    toward = domain.minimizer(gradient) - point
    gap = -barriers.add_up(gradient * toward)
    length = barriers.add_up(toward * toward)
    step = jnp.clip(gap / jnp.maximum(length, 1e-30), 0.0, 1.0)
    return point + barriers.rounded(step * toward), jnp.maximum(gap, 0.0)


def shrunk(domain: Domain, factor: Number) -> Domain:
    """centre + factor (domain - centre), for a factor in (0, 1] that may be traced.

    The minimizer and the projection are those of the shrunk set, and the projection does not count
    as exact. All other fields are copied from the domain. So the radius, diameter and inradius are
    too large for the shrunk set.

    Examples:
      >>> small = domains.shrunk(domains.cube(2), 0.5)
      >>> print(small.project(jnp.array([3.0, 0.0])), small.inradius)  # the cube's inradius
      [0.5 0. ] 1.0
    """
    centre = constant(domain.centre)

    def scaled(point):
        return centre + barriers.rounded(factor * (point - centre))

    def project(x):
        return scaled(domain.project(centre + (x - centre) / factor))

    return domain._replace(
        minimizer=lambda g: scaled(domain.minimizer(g)), project=project, exact_projection=None,
        lottery=None,
    )  # fmt: skip


def check_domain(domain: Domain) -> None:
    """Require a Domain.

    Examples:
      >>> domains.check_domain([0.0, 1.0])
      Traceback (most recent call last):
          ...
      TypeError: domain must be a Domain, such as domains.simplex(3), got [0.0, 1.0]
    """
    if not isinstance(domain, Domain):
        raise TypeError(f"domain must be a Domain, such as domains.simplex(3), got {domain!r}")


def fitting(domain: Domain, losses: LossSet | None) -> LossSet:
    """The given losses, checked against the domain; the domain's default losses if None.

    Examples:
      >>> simplex = domains.simplex(3)
      >>> domains.fitting(simplex, None) is simplex.losses
      True
      >>> domains.fitting(simplex, domains.box_losses(2))
      Traceback (most recent call last):
          ...
      ValueError: losses must have the dimension of the domain, 3, got 2
    """
    check_domain(domain)
    losses = domain.losses if losses is None else losses
    if not isinstance(losses, LossSet):
        raise TypeError(f"losses must be a LossSet, such as domains.box_losses(3), got {losses!r}")
    if losses.dim != domain.dim:
        raise ValueError(
            f"losses must have the dimension of the domain, {domain.dim}, got {losses.dim}"
        )
    return losses
