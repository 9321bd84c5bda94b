"""Families of convex losses on a domain, and the best point in hindsight with a certificate.

A loss is a function f(parameters, x) of a family. A round reveals the callable
``jax.tree_util.Partial(f, parameters)``. Families state their Lipschitz constant and range up to a
distance ``reach`` outside the domain, because learners with value feedback play there.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax import random as jr

from dpjax.core import Array, PyTree, _check
from dpjax.domains import Domain, check_domain, support_function
from dpjax.maths import laws


class Family(NamedTuple):
    """A parametric family of convex functions on a convex set.

    Examples:
      >>> family = loss_families.quadratic(domains.ball(2))
      >>> family.lipschitz(0.0), family.lipschitz(0.5)  # on the ball, and up to 0.5 outside
      (2.0, 2.5)
    """

    function: Callable  # (parameters, x (d,)) -> ()
    draw: Callable  # (key, z (d,)) -> parameters of a loss that is small at the point z
    lipschitz: Callable  # reach -> L in the Euclidean norm, up to this distance from the domain
    range: Callable  # reach -> (low, high)


class Optimum(NamedTuple):
    """An approximate minimizer over a domain, with a certified lower bound.

    Examples:
      >>> best = loss_families.Optimum(point=jnp.zeros(2), value=1.5, lower=1.25)
      >>> best.value - best.lower  # by how much regret may be overstated
      0.25
    """

    point: Array  # (d,)
    value: Array  # () at the point
    lower: Array  # () lower bound on the values at all points of the domain


def _length(x) -> Array:
    """|x|, with a gradient of 0 at 0."""
    return jnp.sqrt(jnp.maximum(jnp.sum(x * x), 1e-30))


def _direction(key, domain, z):
    """A random unit vector that on average points from z to the centre."""
    outward = (z - jnp.asarray(domain.centre, jnp.float32)) * (domain.dim**0.5 / domain.radius)
    away = laws.normal(key, (domain.dim,)) - outward
    return away / _length(away)


def _of_slope(domain, lipschitz, value, draw, low=lambda reach: 0.0) -> Family:
    """A family with a Lipschitz constant L. Its values are from ``low`` to L (D + reach)."""
    check_domain(domain)
    _check.positive(lipschitz=lipschitz)

    def span(reach):
        return low(reach), lipschitz * (domain.diameter + reach)

    return Family(value, draw, lambda reach: lipschitz, span)


def linear(domain: Domain, lipschitz: float = 1.0) -> Family:
    """<l, x> + b with |l| = L, and b such that the least value on the domain is 0.

    Examples:
      >>> family = loss_families.linear(domains.ball(2))
      >>> parameters = (jnp.array([0.0, 1.0]), 1.0)
      >>> float(family.function(parameters, jnp.array([0.0, -1.0]))), family.range(0.5)
      (0.0, (-0.5, 2.5))
    """

    def draw(key, z):
        loss = lipschitz * _direction(key, domain, z)
        return loss, support_function(domain, -loss)

    def value(parameters, x):
        loss, least = parameters
        return jnp.sum(loss * x) + least

    return _of_slope(domain, lipschitz, value, draw, lambda reach: -lipschitz * reach)


def distance(domain: Domain) -> Family:
    """|x - z| for a point z of the domain; L = 1.

    Examples:
      >>> family = loss_families.distance(domains.ball(2))
      >>> float(family.function(jnp.array([0.0, 1.0]), jnp.zeros(2))), family.range(0.5)
      (1.0, (0.0, 2.5))
    """
    return _of_slope(domain, 1.0, lambda z, x: _length(x - z), lambda key, z: z)


def absolute(domain: Domain, lipschitz: float = 1.0) -> Family:
    """|<a, x - z>| with |a| = L: the error of a linear measurement, such as a matrix entry.

    Examples:
      >>> family = loss_families.absolute(domains.ball(2), lipschitz=2.0)
      >>> direction, z = jnp.array([0.0, 2.0]), jnp.array([0.5, 0.25])
      >>> float(family.function((direction, z), jnp.zeros(2)))
      0.5
    """

    def value(parameters, x):
        slope, z = parameters
        return jnp.abs(jnp.sum(slope * (x - z)))

    def draw(key, z):
        return lipschitz * _direction(key, domain, z), z

    return _of_slope(domain, lipschitz, value, draw)


def quadratic(domain: Domain) -> Family:
    """|x - z|^2 / 2 for a point z of the domain; L = D + reach.

    Examples:
      >>> family = loss_families.quadratic(domains.ball(2))
      >>> float(family.function(jnp.array([0.0, 1.0]), jnp.zeros(2))), family.range(0.0)
      (0.5, (0.0, 2.0))
    """
    check_domain(domain)
    return Family(
        function=lambda z, x: 0.5 * jnp.sum((x - z) * (x - z)),
        draw=lambda key, z: z,
        lipschitz=lambda reach: domain.diameter + reach,
        range=lambda reach: (0.0, 0.5 * (domain.diameter + reach) ** 2),
    )


def largest(domain: Domain, pieces: int = 3, lipschitz: float = 1.0) -> Family:
    """The largest of <a_i, x - z> with |a_i| = L. It is 0 at z and takes both signs.

    Examples:
      >>> family = loss_families.largest(domains.ball(2), pieces=2)
      >>> slopes, z = jnp.eye(2), jnp.zeros(2)
      >>> float(family.function((slopes, z), jnp.array([-0.5, -0.25]))), family.range(0.0)
      (-0.25, (-2.0, 2.0))
    """
    pieces = _check.size(1, pieces=pieces)

    def draw(key, z):
        slopes = jax.vmap(lambda key: _direction(key, domain, z))(jr.split(key, pieces))
        return lipschitz * slopes, z

    def value(parameters, x):
        slopes, z = parameters
        return jnp.max(jnp.sum(slopes * (x - z)[None], axis=1))

    def low(reach):
        return -lipschitz * (domain.diameter + reach)

    return _of_slope(domain, lipschitz, value, draw, low)


def offline_optimum(
    domain: Domain, function: Callable, parameters: PyTree, weights: Array, *, steps: int = 400
) -> Optimum:
    """Minimize sum_j w_j f(parameters_j, x) over the domain, with a certified lower bound.

    It takes projected subgradient steps of size D / sqrt(sum of |g|^2 so far). Each tangent of a
    convex f lies below f, and so does the mean of the tangents of the later half of the steps. The
    lower bound is the minimum of this mean over the domain, which is one linear minimization.

    Args:
      domain: a Domain.
      function: (parameters, x) -> (), convex in x and differentiable almost everywhere.
      parameters: pytree with a leading axis (n,).
      weights: (n,), at least 0.
      steps: number of steps of the subgradient method.

    Examples:
      >>> domain, ends = domains.cube(1), jnp.array([[-1.0], [1.0]])
      >>> distance = loss_families.distance(domain).function
      >>> best = loss_families.offline_optimum(domain, distance, ends, jnp.ones(2))
      >>> round(float(best.value), 3), round(float(best.lower), 3)
      (2.0, 2.0)
    """
    _check.size(2, steps=steps)
    scale = jnp.maximum(jnp.sum(weights), 1e-30)
    shares = weights / scale

    def mean(x):
        values = jax.vmap(function, in_axes=(0, None))(parameters, x)
        return jnp.sum(shares * values)

    def one_step(k, walk):
        # ``squares`` is the sum of |g|^2. ``line`` (slope, value at 0) and ``middle`` are sums over
        # the later half, of the tangents and of the points.
        (x, squares), (best, least), (line, middle) = walk
        value, slope = jax.value_and_grad(mean)(x)
        late = jnp.where(k >= steps // 2, 1.0, 0.0)
        squares = squares + jnp.sum(slope * slope)
        move = domain.diameter / jnp.sqrt(jnp.maximum(squares, 1e-30))
        better = value < least
        tangent = slope, value - jnp.sum(slope * x)
        line = jax.tree.map(lambda total, new: total + late * new, line, tangent)
        best, least = jnp.where(better, x, best), jnp.where(better, value, least)
        next_x = domain.project(x - move * slope)
        return (next_x, squares), (best, least), (line, middle + late * x)

    start = jnp.asarray(domain.centre, jnp.float32)
    zero, none = jnp.zeros((), jnp.float32), jnp.zeros(domain.dim, jnp.float32)
    walk = (start, zero), (start, zero + jnp.inf), ((none, zero), none)
    _, (best, least), ((slope, offset), middle) = lax.fori_loop(0, steps, one_step, walk)
    count = float(steps - steps // 2)
    middle = middle / count
    value = mean(middle)
    point = jnp.where(value < least, middle, best)
    lower = (offset - support_function(domain, -slope)) / count
    least = jnp.minimum(value, least)
    return Optimum(point, scale * least, scale * jnp.minimum(lower, least))


def as_function(family: Family | Callable) -> Any:
    """The function of a Family, or a user's own function unchanged.

    Examples:
      >>> family = loss_families.distance(domains.ball(2))
      >>> loss_families.as_function(family) is family.function
      True
    """
    function = family.function if isinstance(family, Family) else family
    if not callable(function):
        raise TypeError(f"family must be a Family or a function (parameters, x), got {family!r}")
    return function
