"""Boxes, and balls of norms other than the Euclidean one."""

import jax.numpy as jnp
import numpy as np
from jax import lax
from optax import projections

from dpjax.core import Numbers, _arrays, _check
from dpjax.domains import exact_projections
from dpjax.domains._from_minimizer import _about_zero, from_minimizer
from dpjax.domains._vectors import bisect, by_optax, check_radius, constant, ranks, unit_vector
from dpjax.domains.base import Domain


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

    def minimizer(g):
        largest = jnp.arange(dim) == jnp.argmax(jnp.abs(g))
        return jnp.where(largest, jnp.where(g > 0, -radius, radius), 0.0)

    return _about_zero(
        dim,
        minimizer,
        radius,
        project=lambda x: by_optax(projections.projection_l1_ball, x, radius),
        inradius=radius / dim**0.5,
    )._replace(exact_projection=_sparse(dim, 1, radius))


def lp_ball(dim: int, p: float, radius: float = 1.0) -> Domain:
    """Points of norm (sum_i |x_i|^p)^(1/p) at most ``radius``, for 1 < p < inf.

    Examples:
      >>> ball = domains.lp_ball(2, 1.5)
      >>> best = jax.jit(ball.minimizer)(jnp.array([-1.0, -1.0]))
      >>> [round(x, 3) for x in best.tolist()]  # 2^(-2 / 3)
      [0.63, 0.63]
    """
    dim, radius = _check.size(1, dim=dim), check_radius(radius)
    _check.inside(1.0, np.inf, p=p)
    p = float(p)
    power = 1 / (p - 1)  # q - 1, for the dual norm 1/p + 1/q = 1

    def minimizer(g):
        size = jnp.abs(g) / jnp.maximum(jnp.max(jnp.abs(g)), 1e-30)
        direction = jnp.sign(g) * size**power
        return -radius * direction / jnp.maximum(_lp_norm(jnp.abs(direction), p), 1e-30)

    length = dim ** (0.5 - 1 / p)  # of the point whose entries are all equal
    return _about_zero(
        dim,
        minimizer,
        radius * max(1.0, length),
        project=lambda x: radius * _onto_lp_ball(x / radius, p),
        inradius=radius * min(1.0, length),
    )


def k_sparse(dim: int, k: int, radius: float = 1.0) -> Domain:
    """Convex hull of the vectors in [-radius, radius]^d with at most k nonzero entries.

    Examples:
      >>> ball = domains.k_sparse(3, 2)
      >>> print(jax.jit(ball.minimizer)(jnp.array([-3.0, -1.0, -2.0])))
      [1. 0. 1.]
    """
    dim, radius = _check.size(1, dim=dim), check_radius(radius)
    k = _at_most(dim, k)

    def minimizer(g):
        chosen = ranks(-jnp.abs(g)) < k
        return jnp.where(chosen, jnp.where(g > 0, -radius, radius), 0.0)

    return _about_zero(
        dim,
        minimizer,
        radius * k**0.5,
        project=_sparse(dim, k, radius),
        inradius=radius * min(1.0, k / dim**0.5),
    )


def k_support(dim: int, k: int, radius: float = 1.0) -> Domain:
    """Convex hull of the vectors of norm at most ``radius`` with at most k nonzero entries.

    It is the ball of the k-support norm (Argyriou, Foygel & Srebro 2012).

    Examples:
      >>> ball = domains.k_support(3, 2)
      >>> largest = jax.jit(lambda direction: domains.support_function(ball, direction))
      >>> round(float(largest(jnp.array([3.0, 1.0, 4.0]))), 3)  # the length of (3, 4)
      5.0
    """
    dim, radius = _check.size(1, dim=dim), check_radius(radius)
    k = _at_most(dim, k)

    def minimizer(g):
        return -radius * unit_vector(jnp.where(ranks(-jnp.abs(g)) < k, g, 0.0))

    return _about_zero(
        dim,
        minimizer,
        radius,
        project=lambda x: radius * _onto_k_support_ball(x / radius, k),
        inradius=radius * (k / dim) ** 0.5,
    )


def _sparse(dim, k, radius) -> exact_projections.ExactProjection:
    """Onto the x whose absolute values are at most ``radius`` and sum to at most k ``radius``."""
    rows, totals = np.ones((1, dim), np.float32), np.full(1, k * radius, np.float32)
    return exact_projections.signed(exact_projections.capped(radius, rows, totals, equal=False))


def _lp_norm(sizes, p):
    """(sum_i sizes_i^p)^(1/p) for nonnegative sizes (d,), computed without overflow."""
    largest = jnp.maximum(jnp.max(sizes), 1e-30)
    return largest * jnp.sum((sizes / largest) ** p) ** (1.0 / p)


def _onto_lp_ball(x, p):
    """The nearest point of L_p norm at most 1.

    For x outside the ball, the absolute values z of the nearest point's entries solve
    z + mu z^(p-1) = |x| entry by entry. The multiplier mu >= 0 makes the norm of z equal to 1, and
    is at most the dual norm of x. With t = z for p >= 2, or t = z^(p-1) for p < 2, the equation is
    t + c t^e = a or c t + t^e = a with e >= 1. Its left side is increasing and convex. So Newton's
    method never passes the root if it starts above. The start is at most twice the root.
    """
    size = jnp.abs(x)
    power = max(p - 1.0, 1.0 / (p - 1.0))

    def sizes(mu):
        line, curve = (1.0, mu) if p >= 2 else (mu, 1.0)
        straight = size / jnp.maximum(line, 1e-30)
        bent = (size / jnp.maximum(curve, 1e-30)) ** (1.0 / power)

        def newton(_, t):
            top = curve * t**power
            slope = line + power * top / jnp.maximum(t, 1e-30)
            return jnp.maximum(t - (line * t + top - size) / jnp.maximum(slope, 1e-30), 0.0)

        t = lax.fori_loop(0, 6, newton, jnp.minimum(straight, bent))
        return t if p >= 2 else t ** (1.0 / (p - 1.0))

    most = jnp.max(size) * float(len(x)) ** (1.0 - 1.0 / p)
    z = sizes(bisect(lambda mu: _lp_norm(sizes(mu), p) > 1.0, jnp.zeros_like(most), most))
    nearest = jnp.sign(x) * z / jnp.maximum(_lp_norm(z, p), 1e-30)
    return jnp.where(_lp_norm(size, p) > 1.0, nearest, x)


def _onto_k_support_ball(x, k):
    """The nearest point of k-support norm at most 1.

    The squared norm is the least sum_i x_i^2 / theta_i over theta in [0, 1]^d with sum at most k.
    For x outside the ball, let lambda be the multiplier of the norm and s that of the sum. Then
    theta_i is (|x_i| - lambda s) / s clipped to [0, 1], and the nearest point is
    x_i theta_i / (theta_i + lambda) (McDonald, Pontil & Stamos 2016). One bisection finds lambda,
    and another finds s for each lambda.
    """
    size = jnp.abs(x)

    def shares(weight):
        def theta(s):
            s = jnp.maximum(s, 1e-30)
            return jnp.clip(size / s - weight, 0.0, 1.0)

        most = jnp.sum(size) / k
        return theta(bisect(lambda s: jnp.sum(theta(s)) > k, jnp.zeros_like(most), most))

    def square(weight):
        theta = shares(weight)
        scaled = size / jnp.maximum(theta + weight, 1e-30)
        return jnp.sum(theta * scaled * scaled)

    length = jnp.sqrt(jnp.sum(size * size))
    weight = bisect(lambda weight: square(weight) > 1.0, jnp.zeros_like(length), length)
    theta = shares(weight)
    return jnp.where(square(jnp.zeros(())) > 1.0, x * theta / jnp.maximum(theta + weight, 1e-30), x)


def _at_most(dim, k) -> int:
    k = _check.size(1, k=k)
    _check.between(1, dim, k=k)
    return k
