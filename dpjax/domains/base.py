"""Decision sets, the loss vectors that go with them, and the regularizers on them.

A learner plays points x of a :class:`Domain` in R^d against loss vectors l of a :class:`LossSet`
and suffers <l, x>. Sets are described by what algorithms do with them: minimize a linear
function, project, minimize a regularized linear function.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp

from dpjax.domains.exact_projections import ExactProjection
from dpjax.maths import barriers

# By how much float32 points may break a constraint.
TOLERANCE = 1e-5


class LossSet(NamedTuple):
    """The loss vectors that a round may bring. Its sizes are what calibrations read."""

    dim: int  # d
    clip: Callable  # (d,) -> the nearest vector of the set
    maximizer: Callable  # g (d,) -> a vector l of the set with the largest <g, l>
    centre: Any  # (d,) NumPy
    norms: tuple[float, float]  # largest L1 and L2 norm of a vector
    diameters: tuple[float, float]  # largest L1 and L2 distance of two vectors
    spread: float  # largest difference between two entries of one vector
    entry: tuple[float, float]  # the range of an entry, low and high


class Regularizer(NamedTuple):
    """A strongly convex function R on a domain, by what follow-the-regularized-leader needs."""

    argmin: Callable  # (s (d,), rate=1) -> argmin over the domain of rate <s, x> + R(x)
    range: float  # D_R, the largest less the least R on the domain
    stability: Callable  # LossSet -> S: with rate eta the regret is at most D_R / eta + eta S T


class Domain(NamedTuple):
    """A compact convex set of decisions in R^d."""

    dim: int  # d
    minimizer: (
        Callable  # g (d,) -> a point x of the set with the least <g, x>; lowest index on ties
    )
    project: Callable  # (d,) -> the nearest point of the set, or one near it
    centre: Any  # (d,) NumPy
    radius: float  # largest L2 distance of a point from the centre
    diameter: float  # largest L2 distance of two points
    regularizer: Regularizer  # the one that the set is usually played with
    losses: LossSet  # the one that it is usually played against
    barrier: barriers.Barrier | None = None  # a self-concordant one, where a closed form is known
    contains: Callable | None = None  # (x (d,), tolerance) -> whether x is in the set, () bool
    inradius: float | None = None  # of the largest ball around the centre within the set, and
    # within its affine hull where that is smaller; None where it is not known
    tangent: Any = None  # (d, m) NumPy, orthonormal basis of that hull's directions; None where
    # the set has inner points, m = d
    exact_projection: ExactProjection | None = None  # None where ``project`` may be far off


def support_function(domain, direction):
    """The largest <g, x> over the domain, for g (d,); the least is that of -g, negated."""
    return jnp.vdot(direction, domain.minimizer(-direction))


def conditional_gradient_step(domain, point, gradient):
    """One Frank-Wolfe step with exact line search on a function of Hessian I.

    Args:
      domain: a Domain.
      point: x (d,), in the domain.
      gradient: (d,), of the function at x.

    Returns:
      The next point, and the gap <gradient, x - v> at x, v the linear minimizer. The function
      exceeds its least value at x by at most the gap, and x is at most sqrt(2 gap) away from where
      that is attained (Jaggi 2013).
    """
    toward = domain.minimizer(gradient) - point
    gap = -barriers.add_up(gradient * toward)
    length = barriers.add_up(toward * toward)
    step = jnp.clip(gap / jnp.maximum(length, 1e-30), 0.0, 1.0)
    return point + barriers.rounded(step * toward), jnp.maximum(gap, 0.0)


def shrunk(domain, factor) -> Domain:
    """centre + factor (domain - centre), for a factor in (0, 1] that may be traced.

    By its minimizer and its projection, which does not count as exact: what remains is that of the
    domain, and so too large.
    """
    centre = jnp.asarray(domain.centre, jnp.float32)

    def scaled(point):
        return centre + barriers.rounded(factor * (point - centre))

    def project(x):
        return scaled(domain.project(centre + (x - centre) / factor))

    return domain._replace(
        minimizer=lambda g: scaled(domain.minimizer(g)), project=project, exact_projection=None
    )


# Loss sets ------------------------------------------------------------------------------------


# Regularizers ---------------------------------------------------------------------------------


# Domains --------------------------------------------------------------------------------------


def check_domain(domain) -> None:
    """Refuses what is no Domain."""
    if not isinstance(domain, Domain):
        raise TypeError(f"domain must be a Domain, as domains.simplex makes, got {domain!r}")


def fitting(domain, losses) -> LossSet:
    """The loss set to play against: ``losses``, or the domain's own; refused if it does not fit."""
    check_domain(domain)
    if losses is None:
        return domain.losses
    if not isinstance(losses, LossSet):
        raise TypeError(f"losses must be a LossSet, as domains.box_losses makes, got {losses!r}")
    if losses.dim != domain.dim:
        raise ValueError(
            f"losses must have the dimension of the domain, {domain.dim}, got {losses.dim}"
        )
    return losses
