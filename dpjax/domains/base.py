"""Decision sets, the loss vectors that go with them, and the regularizers on them.

A learner plays points x of a :class:`Domain` in R^d against loss vectors l of a :class:`LossSet`
and suffers <l, x>. Sets are described by what algorithms do with them: minimize a linear
function, project, minimize a regularized linear function.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from optax import projections

from dpjax import _check, barriers
from dpjax.core import Array, within
from dpjax.domains import exact_projections
from dpjax.domains.exact_projections import ExactProjection

# By how much float32 points may break a constraint.
TOLERANCE = 1e-5
# Up to so many elements all their sets are written out.
FEW = 12


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


def box_losses(dim, low=-1.0, high=1.0) -> LossSet:
    """Losses with each entry in [low, high]."""
    dim = _check.size(1, dim=dim)
    low, high = _interval(low, high)
    largest, width = max(abs(low), abs(high)), high - low
    return LossSet(
        dim=dim,
        clip=lambda loss: jnp.clip(loss, low, high),
        maximizer=lambda g: jnp.where(g > 0, jnp.float32(high), jnp.float32(low)),
        centre=np.full(dim, (low + high) / 2),
        norms=(dim * largest, dim**0.5 * largest),
        diameters=(dim * width, dim**0.5 * width),
        spread=width if dim > 1 else 0.0,
        entry=(low, high),
    )


def ball_losses(dim, radius=1.0) -> LossSet:
    """Losses of Euclidean norm at most ``radius``."""
    dim, radius = _check.size(1, dim=dim), _radius(radius)
    return LossSet(
        dim=dim,
        clip=lambda loss: _into_ball(loss, radius),
        maximizer=lambda g: radius * _unit(g),
        centre=np.zeros(dim),
        norms=(dim**0.5 * radius, radius),
        diameters=(2 * dim**0.5 * radius, 2 * radius),
        spread=2**0.5 * radius if dim > 1 else 0.0,
        entry=(-radius, radius),
    )


def l1_losses(dim, radius=1.0) -> LossSet:
    """Losses whose absolute values sum to at most ``radius``."""
    dim, radius = _check.size(1, dim=dim), _radius(radius)

    def maximizer(g):
        largest = jnp.argmax(jnp.abs(g))
        sign = jnp.where(g >= 0, 1.0, -1.0)
        return radius * jnp.where(jnp.arange(dim) == largest, sign, 0.0)

    return LossSet(
        dim=dim,
        clip=lambda loss: _into_l1_ball(loss, radius),
        maximizer=maximizer,
        centre=np.zeros(dim),
        norms=(radius, radius),
        diameters=(2 * radius, 2 * radius),
        spread=radius if dim > 1 else 0.0,
        entry=(-radius, radius),
    )


def sensitivity(losses, neighbours, unit) -> tuple[float, float]:
    """The largest (L1, L2) change of one round's loss vector between neighbours.

    Args:
      losses: a LossSet.
      neighbours: "replace", by another vector of the set, or "zero_out", by 0.
      unit: "round", the whole vector, or "entry", one of its entries (Dwork, Naor, Pitassi &
        Rothblum 2010).
    """
    _check.one_of("replace", "zero_out", neighbours=neighbours)
    _check.one_of("round", "entry", unit=unit)
    if unit == "entry":
        low, high = losses.entry
        change = high - low if neighbours == "replace" else max(abs(low), abs(high))
        return change, change
    return losses.diameters if neighbours == "replace" else losses.norms


def clipped(losses, unit) -> Callable:
    """What keeps loss vectors (d,) within what :func:`sensitivity` of that unit counts.

    Of a round, the nearest vector of the set. Of an entry, each entry clipped by itself: on the way
    to the nearest vector one entry that is out of range moves all the others. The vector may then
    be longer than the set's ``norms``, which regret bounds read, and no calibration for entries.

    Args:
      losses: a LossSet.
      unit: "round" or "entry".

    Returns:
      A function (d,) -> (d,). Before it looks for the nearest vector it cuts entries at 1000 times
      their range, beyond which float32 finds a vector outside the set. NaN counts as the least.
    """
    _check.one_of("round", "entry", unit=unit)
    low, high = losses.entry
    if unit == "entry":
        return lambda loss: within(loss, low, high)
    limit = 1e3 * max(abs(low), abs(high))
    return lambda loss: losses.clip(within(loss, -limit, limit))


# Regularizers ---------------------------------------------------------------------------------


def negative_entropy(dim) -> Regularizer:
    """R(x) = sum_i x_i ln x_i on the simplex: exponential weights.

    D_R = ln d. With losses of spread w in a round, S = w^2 / 8 (Hoeffding's lemma; Cesa-Bianchi &
    Lugosi 2006, Theorem 2.2): the analysis by local norms has 4 times that for losses in [-1, 1].
    """

    def argmin(s, rate=1.0):
        # Shifted before it is scaled. Of rate * s - min(rate * s) a compiler may round the two
        # products differently (one within a fused multiply-add); at s = 1e10 the least exponent is
        # then not 0 but some hundreds, and exp overflows.
        weights = jnp.exp(-rate * (s - jnp.min(s)))
        return weights / jnp.sum(weights)

    return Regularizer(
        argmin=argmin,
        range=float(np.log(dim)),
        stability=lambda losses: losses.spread**2 / 8,
    )


def squared_norm(project, centre, radius) -> Regularizer:
    """R(x) = |x - centre|^2 on a set with that projection, within ``radius`` of the centre.

    The argmin is the projection of centre - rate s / 2. D_R is at most radius^2; R is 2-strongly
    convex, so S = |l|^2 / 4.
    """
    centre = np.asarray(centre, np.float32)  # of NumPy: sets are made before devices are chosen
    return Regularizer(
        argmin=lambda s, rate=1.0: project(centre - 0.5 * rate * s),
        range=float(radius) ** 2,
        stability=lambda losses: losses.norms[1] ** 2 / 4,
    )


def numerical_regularizer(
    domain, function, *, range, strong_convexity, smoothness, steps=100
) -> Regularizer:
    """A user's own strongly convex function, minimized by projected gradients.

    Each argmin runs a fixed number of steps of Nesterov's method from the domain's centre; the
    error of x shrinks as (1 - sqrt(sigma / L))^(steps / 2).

    Args:
      domain: a Domain.
      function: R, a differentiable function of x (d,).
      range: D_R, the largest less the least R on the domain.
      strong_convexity: sigma > 0, of R in the Euclidean norm.
      smoothness: L >= sigma, the Lipschitz constant of R's gradient on the domain.
      steps: gradient steps an argmin.

    Raises:
      ValueError, TypeError: bad arguments, by name.
    """
    _check.positive(range=range, strong_convexity=strong_convexity)
    _check.between(strong_convexity, np.inf, smoothness=smoothness)
    steps = _check.size(1, steps=steps)
    ratio = (strong_convexity / smoothness) ** 0.5
    momentum = (1 - ratio) / (1 + ratio)
    centre = jnp.asarray(domain.centre, jnp.float32)

    def argmin(s, rate=1.0):
        def one_step(_, points):
            x, ahead = points
            new = domain.project(ahead - (rate * s + jax.grad(function)(ahead)) / smoothness)
            return new, new + momentum * (new - x)

        return lax.fori_loop(0, steps, one_step, (centre, centre))[0]

    return Regularizer(
        argmin, float(range), lambda losses: losses.norms[1] ** 2 / (2 * strong_convexity)
    )


# Domains --------------------------------------------------------------------------------------


def simplex(dim) -> Domain:
    """Probability vectors: prediction with expert advice. Losses in [0, 1], negative entropy."""
    dim = _check.size(2, dim=dim)

    def minimizer(g):
        return (jnp.arange(dim) == jnp.argmin(g)).astype(jnp.float32)

    return Domain(
        dim=dim,
        minimizer=minimizer,
        project=lambda x: _optax(projections.projection_simplex, x),
        centre=np.full(dim, 1 / dim),
        radius=(1 - 1 / dim) ** 0.5,
        diameter=2**0.5,
        regularizer=negative_entropy(dim),
        losses=box_losses(dim, 0.0, 1.0),
        barrier=barriers.simplex(dim),
        contains=lambda x, tolerance=TOLERANCE: (
            (jnp.min(x) >= -tolerance) & (jnp.abs(jnp.sum(x) - 1.0) <= tolerance)
        ),
        inradius=(dim * (dim - 1)) ** -0.5,
        tangent=null_space(np.ones((1, dim))),
        exact_projection=exact_projections.capped(
            1.0, np.ones((1, dim), np.float32), np.ones(1, np.float32), equal=True
        ),
    )


def ball(dim, radius=1.0) -> Domain:
    """Points of Euclidean norm at most ``radius``. Losses in the unit ball, squared norm."""
    dim, radius = _check.size(1, dim=dim), _radius(radius)
    centre = np.zeros(dim)

    def project(x):
        return _into_ball(x, radius)

    return Domain(
        dim=dim,
        minimizer=lambda g: -radius * _unit(g),
        project=project,
        centre=centre,
        radius=radius,
        diameter=2 * radius,
        regularizer=squared_norm(project, centre, radius),
        losses=ball_losses(dim),
        barrier=barriers.ball(dim, radius),
        contains=lambda x, tolerance=TOLERANCE: _norm(x) <= radius + tolerance,
        inradius=radius,
        exact_projection=exact_projections.ball(radius),
    )


def cube(dim, radius=1.0) -> Domain:
    """[-radius, radius]^d. Losses whose absolute values sum to at most 1, squared norm."""
    dim, radius = _check.size(1, dim=dim), _radius(radius)
    centre = np.zeros(dim)

    def project(x):
        return jnp.clip(x, -radius, radius)

    return Domain(
        dim=dim,
        minimizer=lambda g: jnp.where(g > 0, jnp.float32(-radius), jnp.float32(radius)),
        project=project,
        centre=centre,
        radius=dim**0.5 * radius,
        diameter=2 * dim**0.5 * radius,
        regularizer=squared_norm(project, centre, dim**0.5 * radius),
        losses=l1_losses(dim),
        barrier=barriers.cube(dim, radius),
        contains=lambda x, tolerance=TOLERANCE: jnp.max(jnp.abs(x)) <= radius + tolerance,
        inradius=radius,
        exact_projection=exact_projections.box(
            np.full(dim, -radius, np.float32), np.full(dim, radius, np.float32)
        ),
    )


def from_minimizer(
    dim,
    minimizer,
    *,
    centre,
    diameter,
    losses=None,
    radius=None,
    project=None,
    exact_projection=None,
    contains=None,
    inradius=None,
    tangent=None,
    steps=100,
) -> Domain:
    """Any compact convex set whose linear minimizer is known.

    Where no projection is given it is approximated by a fixed number of Frank-Wolfe steps with
    exact line search; the distance to the true one is then at most 2 diameter / sqrt(steps + 2)
    (Jaggi 2013, Theorem 1), and far less near vertices. So a point counts as contained where that
    projection is near. Such a map may bring points farther apart than they were: learners whose
    privacy rests on projections refuse the domain.

    Args:
      dim: d.
      minimizer: g (d,) -> a point x of the set with the least <g, x>.
      centre: a point of the set, (d,).
      diameter: largest Euclidean distance of two points of the set, or a bound on it.
      losses: a LossSet of the same dimension; by default vectors of length at most 1.
      radius: largest distance from the centre; by default the diameter.
      project: (d,) -> the nearest point, where it is known; off by rounding only, at most 32 units
        of 2^-24 of the length of its argument.
      exact_projection: an ExactProjection, where more is known of its rounding; by default made of
        ``project``, which is by default made of it.
      contains: (x, tolerance) -> whether x is in the set, where it is known.
      inradius: of the largest ball around the centre within the set (and its affine hull).
      tangent: (d, m), orthonormal basis of the directions of the affine hull, where m < d.
      steps: Frank-Wolfe steps a projection.

    Raises:
      ValueError, TypeError: bad arguments, by name.
    """
    dim, steps = _check.size(1, dim=dim), _check.size(1, steps=steps)
    _check.positive(diameter=diameter, **_check.given(radius=radius, inradius=inradius))
    losses = ball_losses(dim) if losses is None else losses
    centre = np.asarray(centre, np.float64)
    if centre.shape != (dim,):
        raise ValueError(f"centre must have shape ({dim},), got {centre.shape}")
    if losses.dim != dim:
        raise ValueError(f"losses must have the dimension of the domain, {dim}, got {losses.dim}")
    shape = jax.eval_shape(minimizer, jax.ShapeDtypeStruct((dim,), jnp.float32)).shape
    if shape != (dim,):
        raise ValueError(f"minimizer must return shape ({dim},), got {shape}")
    if tangent is not None:
        tangent = np.asarray(tangent, np.float64)
        if tangent.ndim != 2 or tangent.shape[0] != dim or not 1 <= tangent.shape[1] < dim:
            raise ValueError(f"tangent must be ({dim}, m), 1 <= m < {dim}, got {tangent.shape}")
        if np.abs(tangent.T @ tangent - np.eye(tangent.shape[1])).max() > 1e-6:
            raise ValueError("tangent must have orthonormal columns")

    def search(y):
        def one_step(_, x):
            toward = minimizer(x - y) - x
            length = jnp.vdot(toward, toward)
            step = jnp.vdot(y - x, toward) / jnp.maximum(length, 1e-30)
            return x + jnp.clip(step, 0.0, 1.0) * toward

        return lax.fori_loop(0, steps, one_step, jnp.asarray(centre, jnp.float32))

    if exact_projection is None and project is not None:
        exact_projection = exact_projections.from_project(project)
    if project is None:
        project = (
            search if exact_projection is None else exact_projections.by_excess(exact_projection)
        )
    radius = float(diameter if radius is None else radius)
    return Domain(
        dim=dim,
        minimizer=minimizer,
        project=project,
        centre=centre,
        radius=radius,
        diameter=float(diameter),
        regularizer=squared_norm(project, centre, radius),
        losses=losses,
        contains=contains or (lambda x, tolerance=TOLERANCE: _norm(x - project(x)) <= tolerance),
        inradius=None if inradius is None else float(inradius),
        tangent=tangent,
        exact_projection=exact_projection,
    )


def null_space(rows) -> np.ndarray:
    """An orthonormal basis (d, m) of the x with A x = 0, for A (k, d); in NumPy."""
    rows = np.asarray(rows, np.float64)
    _, lengths, axes = np.linalg.svd(rows)
    rank = int(np.sum(lengths > 1e-9 * lengths[0]))
    return axes[rank:].T


def all_subsets(n) -> np.ndarray:
    """(2^n, n), every set of n elements as a row of False and True."""
    return (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(bool)


def distance_to_facets(rows, bounds, centre, tangent) -> float:
    """The inradius around centre (d,) of the x with A x <= b within the hull; in NumPy.

    Rows of A (k, d) that are constant on the hull do not count.
    """
    along = rows if tangent is None else rows @ tangent
    lengths = np.linalg.norm(along, axis=1)
    moves = lengths > 1e-9
    return float(np.min((bounds - rows @ centre)[moves] / lengths[moves]))


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


def _optax(projection, *arguments) -> Array:
    """A projection of optax, which mixes integers and floats; callers may have forbidden that."""
    with jax.numpy_dtype_promotion("standard"):
        return projection(*arguments)


def _norm(x) -> Array:
    return jnp.sqrt(barriers.add_up(x * x))


def _unit(g) -> Array:
    """g / |g|; 0 for 0. Scaled first, so that squares neither overflow nor vanish."""
    largest = jnp.max(jnp.abs(g))
    scaled = g / jnp.where(largest > 0, largest, 1.0)
    return scaled / jnp.maximum(_norm(scaled), 1e-30)


def _into_ball(x, radius) -> Array:
    """The nearest point of norm at most radius."""
    largest = jnp.maximum(jnp.max(jnp.abs(x)), radius)
    norm = largest * _norm(x / largest)
    return x * (radius / jnp.maximum(radius, norm))


def _into_l1_ball(x, radius) -> Array:
    """The nearest point with an L1 norm of at most radius.

    Of long vectors float32 finds a point outside, by 2.6 % at 1000 radii in 500 dimensions.
    """
    nearest = _optax(projections.projection_l1_ball, x, radius)
    norm = barriers.add_up(jnp.abs(nearest))
    return jnp.where(norm > 1.00001 * radius, nearest * (radius / norm), nearest)


def _radius(radius) -> float:
    _check.positive(radius=radius)
    _check.non_negative(radius=radius)  # finite
    return float(radius)


def _interval(low, high) -> tuple[float, float]:
    if not -np.inf < low < high < np.inf:
        raise ValueError(f"low must be below high, both finite, got {low:g} and {high:g}")
    return float(low), float(high)
