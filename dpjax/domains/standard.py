"""Common sets: the simplex, the Euclidean ball, the cube, boxes and the l1 ball."""

import jax.numpy as jnp
import numpy as np

from dpjax.core import Numbers, _arrays, _check
from dpjax.domains import exact_projections, lotteries
from dpjax.domains._facets import null_space
from dpjax.domains._from_minimizer import _about_zero, from_minimizer
from dpjax.domains._vectors import (
    by_optax,
    check_radius,
    constant,
    into_ball,
    onto_simplex,
    unit_vector,
)
from dpjax.domains.base import Domain
from dpjax.domains.loss_sets import box_losses, l1_losses
from dpjax.domains.regularizers import negative_entropy
from dpjax.maths import barriers


def simplex(dim: int) -> Domain:
    """The probability vectors (d,).

    By default losses are in [0, 1], and R is the negative entropy.

    Examples:
      >>> simplex = domains.simplex(3)
      >>> print(simplex.minimizer(jnp.array([0.5, 0.0, 1.0])), simplex.losses.entry)
      [0. 1. 0.] (0.0, 1.0)
    """
    dim = _check.size(2, dim=dim)

    def minimizer(g):
        return (jnp.arange(dim) == jnp.argmin(g)).astype(jnp.float32)

    ones, one = np.ones((1, dim)), np.ones(1, np.float32)
    return from_minimizer(
        dim,
        minimizer,
        centre=np.full(dim, 1 / dim),
        radius=(1 - 1 / dim) ** 0.5,
        diameter=2**0.5,
        losses=box_losses(dim, 0.0, 1.0),
        project=onto_simplex,
        inradius=(dim * (dim - 1)) ** -0.5,
        tangent=null_space(ones),
    )._replace(
        regularizer=negative_entropy(dim),
        barrier=barriers.simplex(dim),
        exact_projection=exact_projections.capped(1.0, ones.astype(np.float32), one, equal=True),
        lottery=lotteries.of_sets(np.zeros(dim, int), [1]),
    )


def ball(dim: int, radius: float = 1.0) -> Domain:
    """Points of Euclidean norm at most ``radius``.

    By default losses have norm at most 1, and R is the squared norm.

    Examples:
      >>> ball = domains.ball(2, radius=2.0)
      >>> [round(x, 3) for x in ball.minimizer(jnp.array([3.0, 4.0])).tolist()]
      [-1.2, -1.6]
      >>> ball.losses.norms[1]  # the longest loss, whatever the radius
      1.0
    """
    dim, radius = _check.size(1, dim=dim), check_radius(radius)
    return _about_zero(
        dim,
        lambda g: -radius * unit_vector(g),
        radius,
        project=lambda x: into_ball(x, radius),
        inradius=radius,
    )._replace(barrier=barriers.ball(dim, radius), exact_projection=exact_projections.ball(radius))


def cube(dim: int, radius: float = 1.0) -> Domain:
    """The points of [-radius, radius]^d.

    By default the absolute values of a loss sum to at most 1, and R is the squared norm.

    Examples:
      >>> cube = domains.cube(2)
      >>> print(cube.project(jnp.array([3.0, 0.5])), cube.losses.norms)
      [1.  0.5] (1.0, 1.0)
    """
    dim, radius = _check.size(1, dim=dim), check_radius(radius)
    ends = np.full(dim, -radius, np.float32), np.full(dim, radius, np.float32)
    return _about_zero(
        dim,
        lambda g: jnp.where(g > 0, jnp.float32(-radius), jnp.float32(radius)),
        dim**0.5 * radius,
        losses=l1_losses(dim),
        project=lambda x: jnp.clip(x, -radius, radius),
        inradius=radius,
    )._replace(barrier=barriers.cube(dim, radius), exact_projection=exact_projections.box(*ends))


def box(low: Numbers, high: Numbers) -> Domain:
    """The points between low (d,) and high (d,), entry by entry.

    Examples:
      >>> box = domains.box([0.0, -1.0], [1.0, 2.0])
      >>> print(box.centre, box.minimizer(jnp.array([1.0, -1.0])))
      [0.5 0.5] [0. 2.]
    """
    low, high = _arrays.real("low", low), _arrays.real("high", high)
    if low.ndim != 1 or low.shape != high.shape or not len(low):
        raise ValueError(
            f"low and high must be vectors of one shape (d,), got {low.shape} and {high.shape}"
        )
    near = low.astype(np.float32) >= high.astype(np.float32)
    if near.any():
        i = np.argmax(near)
        raise ValueError(f"low must be below high in float32, but entry {i + 1} has {low[i]} and "
                         f"{high[i]}")  # fmt: skip
    a, b = constant(low), constant(high)
    exact = exact_projections.box(low.astype(np.float32), high.astype(np.float32))
    return from_minimizer(
        len(low),
        lambda g: jnp.where(g > 0, a, b),
        centre=(low + high) / 2,
        radius=np.linalg.norm(high - low) / 2,
        diameter=np.linalg.norm(high - low),
        project=lambda x: jnp.clip(x, a, b),
        inradius=(high - low).min() / 2,
    )._replace(exact_projection=exact)


def l1_ball(dim: int, radius: float = 1.0) -> Domain:
    """Points whose absolute values sum to at most ``radius``.

    Examples:
      >>> ball = domains.l1_ball(3)
      >>> print(ball.minimizer(jnp.array([1.0, -3.0, 2.0])), ball.losses.entry)
      [0. 1. 0.] (-1.0, 1.0)
    """
    dim, radius = _check.size(1, dim=dim), check_radius(radius)
    row, total = np.ones((1, dim), np.float32), np.full(1, radius, np.float32)
    positive = exact_projections.capped(radius, row, total, equal=False)

    def minimizer(g):
        largest = jnp.arange(dim) == jnp.argmax(jnp.abs(g))
        return jnp.where(largest, jnp.where(g > 0, -radius, radius), 0.0)

    return _about_zero(
        dim,
        minimizer,
        radius,
        project=lambda x: by_optax("projection_l1_ball", x, radius),
        inradius=radius / dim**0.5,
    )._replace(exact_projection=exact_projections.signed(positive))
