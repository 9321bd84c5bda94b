"""Families of convex losses on a domain, and the best point in hindsight with a certificate.

A loss is a function f(parameters, x) of a family. A round reveals the callable
``jax.tree_util.Partial(f, parameters)``. Families state their Lipschitz constant and their range up
to a distance ``reach`` outside the domain, since learners with value feedback play there.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax import random as jr

from dpjax import _check
from dpjax.core import Array
from dpjax.domains import Domain, check_domain, support_function
from dpjax.maths import laws


class Family(NamedTuple):
    """Convex functions of x in a convex set, each with its parameters."""

    function: Callable  # (parameters, x (d,)) -> ()
    draw: Callable  # (key, z (d,)) -> parameters of a loss that is small at the point z
    lipschitz: Callable  # reach -> L in the Euclidean norm, up to so far outside the domain
    range: Callable  # reach -> (low, high)


class Optimum(NamedTuple):
    """An approximate minimizer over a domain, and what certifies it."""

    point: Array  # (d,)
    value: Array  # () at the point
    lower: Array  # () lower bound on the values at all points of the domain


def _length(x) -> Array:
    """|x|, with a gradient of 0 at 0."""
    return jnp.sqrt(jnp.maximum(jnp.sum(x * x), 1e-30))


def _direction(key, domain, z):
    """A random unit vector that points from z to the centre on average."""
    outward = (z - jnp.asarray(domain.centre, jnp.float32)) * (domain.dim**0.5 / domain.radius)
    away = laws.normal(key, (domain.dim,)) - outward
    return away / _length(away)


def linear(domain: Domain, lipschitz: float = 1.0) -> Family:
    """<l, x> + b with |l| = L, and b such that the least value on the domain is 0."""
    check_domain(domain)
    _check.positive(lipschitz=lipschitz)

    def draw(key, z):
        loss = lipschitz * _direction(key, domain, z)
        return loss, support_function(domain, -loss)

    return Family(
        function=lambda parameters, x: jnp.sum(parameters[0] * x) + parameters[1],
        draw=draw,
        lipschitz=lambda reach: lipschitz,
        range=lambda reach: (-lipschitz * reach, lipschitz * (domain.diameter + reach)),
    )


def distance(domain: Domain) -> Family:
    """|x - z| for a point z of the domain; L = 1."""
    check_domain(domain)
    return Family(
        function=lambda z, x: _length(x - z),
        draw=lambda key, z: z,
        lipschitz=lambda reach: 1.0,
        range=lambda reach: (0.0, domain.diameter + reach),
    )


def absolute(domain: Domain, lipschitz: float = 1.0) -> Family:
    """|<a, x - z>| with |a| = L: the error of a measurement, such as an entry of a matrix."""
    check_domain(domain)
    _check.positive(lipschitz=lipschitz)
    return Family(
        function=lambda parameters, x: jnp.abs(jnp.sum(parameters[0] * (x - parameters[1]))),
        draw=lambda key, z: (lipschitz * _direction(key, domain, z), z),
        lipschitz=lambda reach: lipschitz,
        range=lambda reach: (0.0, lipschitz * (domain.diameter + reach)),
    )


def quadratic(domain: Domain) -> Family:
    """|x - z|^2 / 2 for a point z of the domain; L = D + reach."""
    check_domain(domain)
    return Family(
        function=lambda z, x: 0.5 * jnp.sum((x - z) * (x - z)),
        draw=lambda key, z: z,
        lipschitz=lambda reach: domain.diameter + reach,
        range=lambda reach: (0.0, 0.5 * (domain.diameter + reach) ** 2),
    )


def largest(domain: Domain, pieces=3, lipschitz: float = 1.0) -> Family:
    """The largest of <a_i, x - z> with |a_i| = L. It is 0 at z and takes both signs."""
    check_domain(domain)
    pieces = _check.size(1, pieces=pieces)
    _check.positive(lipschitz=lipschitz)

    def draw(key, z):
        slopes = jax.vmap(lambda key: _direction(key, domain, z))(jr.split(key, pieces))
        return lipschitz * slopes, z

    def bounds(reach):
        high = lipschitz * (domain.diameter + reach)
        return -high, high

    return Family(
        function=lambda parameters, x: jnp.max(
            jnp.sum(parameters[0] * (x - parameters[1])[None], axis=1)
        ),
        draw=draw,
        lipschitz=lambda reach: lipschitz,
        range=bounds,
    )


def offline_optimum(
    domain: Domain, function: Callable, parameters, weights, *, steps: int = 400
) -> Optimum:
    """Minimizes sum_j w_j f(parameters_j, x) over the domain, with a certified lower bound.

    It takes projected subgradient steps of size D / sqrt(sum of |g|^2 so far). Each tangent of a
    convex f lies below f, and so does the mean of the tangents of the later half of the steps. The
    least value of this mean on the domain is the bound. It takes one linear minimization.

    Args:
      domain: a Domain.
      function: (parameters, x) -> (), convex in x and differentiable almost everywhere.
      parameters: pytree with a leading axis (n,).
      weights: (n,), at least 0.
      steps: number of steps of the subgradient method.
    """
    _check.size(2, steps=steps)
    scale = jnp.maximum(jnp.sum(weights), 1e-30)
    shares = weights / scale

    def mean(x):
        each = jax.vmap(function, in_axes=(0, None))(parameters, x)
        return jnp.sum(shares * each)

    class Walk(NamedTuple):
        x: Array
        squares: Array  # () sum of |g|^2
        best: Array  # (d,)
        least: Array  # ()
        slope: Array  # (d,) sum of the slopes of the tangents of the later half
        offset: Array  # () sum of their values at 0
        middle: Array  # (d,) sum of the points of the later half

    def one_step(k, walk):
        value, slope = jax.value_and_grad(mean)(walk.x)
        late = jnp.where(k >= steps // 2, 1.0, 0.0)
        squares = walk.squares + jnp.sum(slope * slope)
        move = domain.diameter / jnp.sqrt(jnp.maximum(squares, 1e-30))
        better = value < walk.least
        return Walk(
            x=domain.project(walk.x - move * slope),
            squares=squares,
            best=jnp.where(better, walk.x, walk.best),
            least=jnp.where(better, value, walk.least),
            slope=walk.slope + late * slope,
            offset=walk.offset + late * (value - jnp.sum(slope * walk.x)),
            middle=walk.middle + late * walk.x,
        )

    start = jnp.asarray(domain.centre, jnp.float32)
    zero, none = jnp.zeros((), jnp.float32), jnp.zeros(domain.dim, jnp.float32)
    walk = lax.fori_loop(
        0, steps, one_step, Walk(start, zero, start, zero + jnp.inf, none, zero, none)
    )
    count = float(steps - steps // 2)
    middle = walk.middle / count
    value = mean(middle)
    point = jnp.where(value < walk.least, middle, walk.best)
    lower = (walk.offset - support_function(domain, -walk.slope)) / count
    least = jnp.minimum(value, walk.least)
    return Optimum(point, scale * least, scale * jnp.minimum(lower, least))


def as_function(family) -> Any:
    """The function of a Family, or the user's own function itself."""
    function = family.function if isinstance(family, Family) else family
    if not callable(function):
        raise TypeError(f"family must be a Family or a function (parameters, x), got {family!r}")
    return function
