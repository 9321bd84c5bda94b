"""Boxes, and balls of other norms than the Euclidean one."""

import jax.numpy as jnp
import numpy as np
from optax import projections

from dpjax import _check
from dpjax.domains.base import TOLERANCE, Domain, _optax, _radius, _unit, from_minimizer
from dpjax.domains.ranks import ranks


def box(low, high) -> Domain:
    """The points between low (d,) and high (d,), entry by entry."""
    low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
    if low.ndim != 1 or low.shape != high.shape or not len(low):
        raise ValueError(
            f"low and high must be vectors of one shape (d,), got {low.shape} and {high.shape}"
        )
    if not (np.isfinite(low) & np.isfinite(high) & (low < high)).all():
        raise ValueError("low must be below high, entry by entry, both finite")
    a, b = jnp.asarray(low, jnp.float32), jnp.asarray(high, jnp.float32)
    return from_minimizer(
        len(low),
        lambda g: jnp.where(g > 0, a, b),
        centre=(low + high) / 2,
        radius=np.linalg.norm(high - low) / 2,
        diameter=np.linalg.norm(high - low),
        project=lambda x: jnp.clip(x, a, b),
        contains=lambda x, tolerance=TOLERANCE: jnp.max(jnp.maximum(a - x, x - b)) <= tolerance,
        inradius=(high - low).min() / 2,
    )


def l1_ball(dim, radius=1.0) -> Domain:
    """Points whose absolute values sum to at most ``radius``."""
    dim, radius = _check.size(1, dim=dim), _radius(radius)

    def minimizer(g):
        largest = jnp.arange(dim) == jnp.argmax(jnp.abs(g))
        return jnp.where(largest, jnp.where(g > 0, -radius, radius), 0.0)

    return from_minimizer(
        dim,
        minimizer,
        centre=np.zeros(dim),
        radius=radius,
        diameter=2 * radius,
        project=lambda x: _optax(projections.projection_l1_ball, x, radius),
        contains=lambda x, tolerance=TOLERANCE: jnp.sum(jnp.abs(x)) <= radius + tolerance,
        inradius=radius / dim**0.5,
    )


def lp_ball(dim, p, radius=1.0) -> Domain:
    """Points of norm (sum_i |x_i|^p)^(1/p) at most ``radius``, for 1 < p < inf."""
    dim, radius = _check.size(1, dim=dim), _radius(radius)
    _check.inside(1.0, np.inf, p=p)
    p = float(p)
    power = 1 / (p - 1)  # q - 1, for the dual norm 1/p + 1/q = 1

    def norm(x):
        largest = jnp.maximum(jnp.max(jnp.abs(x)), 1e-30)
        return largest * jnp.sum((jnp.abs(x) / largest) ** p) ** (1 / p)

    def minimizer(g):
        size = jnp.abs(g) / jnp.maximum(jnp.max(jnp.abs(g)), 1e-30)
        direction = jnp.sign(g) * size**power
        return -radius * direction / jnp.maximum(norm(direction), 1e-30)

    longest = max(1.0, dim ** (0.5 - 1 / p))
    shortest = min(1.0, dim ** (0.5 - 1 / p))
    return from_minimizer(
        dim,
        minimizer,
        centre=np.zeros(dim),
        radius=radius * longest,
        diameter=2 * radius * longest,
        contains=lambda x, tolerance=TOLERANCE: norm(x) <= radius + tolerance,
        inradius=radius * shortest,
    )


def k_sparse(dim, k, radius=1.0) -> Domain:
    """Convex hull of the vectors with at most k entries that are not 0, each within +-radius."""
    dim, radius = _check.size(1, dim=dim), _radius(radius)
    k = _at_most(dim, k)

    def minimizer(g):
        chosen = ranks(-jnp.abs(g)) < k
        return jnp.where(chosen, jnp.where(g > 0, -radius, radius), 0.0)

    def contains(x, tolerance=TOLERANCE):
        size = jnp.abs(x)
        return (jnp.max(size) <= radius + tolerance) & (jnp.sum(size) <= k * radius + tolerance)

    return from_minimizer(
        dim,
        minimizer,
        centre=np.zeros(dim),
        radius=radius * k**0.5,
        diameter=2 * radius * k**0.5,
        contains=contains,
        inradius=radius * min(1.0, k / dim**0.5),
    )


def k_support(dim, k, radius=1.0) -> Domain:
    """Convex hull of the vectors with at most k entries that are not 0, of length at most radius.

    The ball of the k-support norm: Argyriou, Foygel & Srebro 2012.
    """
    dim, radius = _check.size(1, dim=dim), _radius(radius)
    k = _at_most(dim, k)

    def minimizer(g):
        return -radius * _unit(jnp.where(ranks(-jnp.abs(g)) < k, g, 0.0))

    def norm(x):
        """Their Proposition 2.1: the r largest entries by length, the rest by their mean."""
        size = jnp.sort(jnp.abs(x))[::-1]
        r = jnp.arange(k)  # so many as k - r - 1 of them
        head = jnp.concatenate([jnp.zeros(1), jnp.cumsum(size * size)])[k - r - 1]
        total = jnp.concatenate([jnp.zeros(1), jnp.cumsum(size)])
        tail = total[-1] - total[k - r - 1]
        mean = tail / (r + 1).astype(jnp.float32)
        before = jnp.concatenate([jnp.full(1, jnp.inf), size])[k - r - 1]
        fits = (before > mean * (1 - 1e-6)) & (mean * (1 + 1e-6) >= size[k - r - 1])
        values = jnp.where(fits, jnp.sqrt(head + tail * mean), jnp.inf)
        return jnp.min(values)

    return from_minimizer(
        dim,
        minimizer,
        centre=np.zeros(dim),
        radius=radius,
        diameter=2 * radius,
        contains=lambda x, tolerance=TOLERANCE: norm(x) <= radius + tolerance,
        inradius=radius * (k / dim) ** 0.5,
    )


def _at_most(dim, k) -> int:
    k = _check.size(1, k=k)
    _check.between(1, dim, k=k)
    return k
