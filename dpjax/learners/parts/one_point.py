"""One-point gradient estimates: all that bandit feedback says about a convex loss.

Of F = f(x + zeta u), u uniform on the unit sphere of R^n, the vector (n / zeta) F u has as its mean
the gradient at x of f averaged over the ball of radius zeta around x, a function within zeta L of f
(Flaxman, Kalai & McMahan 2005). On a set without inner points the sphere is that of the directions
of its affine hull, and n is their dimension.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from dpjax import _check
from dpjax.core import Array
from dpjax.maths import laws
from dpjax.maths.barriers import add_up, rounded
from dpjax.maths.clipping import within

RANGES = ("signed", "nonnegative", "nonnegative_inside")


class Directions(NamedTuple):
    """The directions in which a domain can be explored."""

    dim: int  # n, of the affine hull of the domain
    draw: Callable  # key -> u (n,), uniform on the unit sphere
    lift: Callable  # coordinates (n,) -> the direction (d,)


class Values(NamedTuple):
    """What the values of a loss may be."""

    low: Any  # ()
    high: Any  # ()
    read: Callable  # F () -> (F clipped, less the middle of the range; whether it was out of range)

    @property
    def bound(self):
        """The largest of what ``read`` gives, half the width of the range."""
        return 0.5 * (self.high - self.low)


def directions(domain) -> Directions:
    """Of a Domain: those of R^d, or of its tangent."""
    if domain.tangent is None:
        n, lift = domain.dim, lambda w: w
    else:
        n = domain.tangent.shape[1]
        columns = jnp.asarray(domain.tangent.T, jnp.float32)

        def lift(w):
            parts = columns * w[:, None]
            return jnp.sum(parts, axis=0) if n > 32 else add_up(parts)

    def draw(key):
        normal = rounded(laws.normal(key, (n,)))
        return normal / jnp.maximum(jnp.sqrt(add_up(normal * normal)), 1e-30)

    return Directions(n, draw, lift)


def values(domain, loss_range, lipschitz, reach) -> Values:
    """The range of the losses at points up to ``reach`` away from the domain.

    Values out of range are clipped to it. The middle of the range is subtracted: as E[u] = 0 that
    leaves estimates unbiased, and makes them smaller.

    Args:
      domain: a Domain, of diameter D.
      loss_range: (low, high) as declared, or with B = L (D + reach), for losses that are 0
        somewhere on the domain, one of the words "signed", [-B, B]; "nonnegative", [0, B];
        "nonnegative_inside", [-L reach, B], for losses that may fall below 0 outside the domain,
        as linear ones do.
      lipschitz: L, in the Euclidean norm.
      reach: of the plays, at least 0.
    """
    if isinstance(loss_range, str):
        _check.one_of(*RANGES, loss_range=loss_range)
        high = lipschitz * (domain.diameter + reach)
        low = {"signed": -high, "nonnegative": 0.0, "nonnegative_inside": -lipschitz * reach}
        low = low[loss_range]
    else:
        low, high = _check.interval(loss_range=loss_range)
    middle = 0.5 * (low + high)
    # Values at the ends of the range are not counted as clipped for their rounding.
    tolerance = 1e-6 * (high - low)

    def read(value):
        clipped = within(value, low, high)
        return clipped - middle, ~(jnp.abs(clipped - value) <= tolerance)  # NaN too

    return Values(low, high, read)


def as_floats(**given) -> tuple:
    """Positive numbers by name; traced ones as they are."""
    _check.positive(**given)
    return tuple(value if isinstance(value, Array) else float(value) for value in given.values())


def inradius_of(domain) -> float:
    """The inradius, where plays are to stay within the domain."""
    if domain.inradius is None:
        raise ValueError("domain: its inradius is not known, so plays cannot be kept inside it")
    return domain.inradius


def flaxman_radius(horizon, domain, bound, lipschitz):
    """zeta = T^(-1/4) sqrt(R n C r / (3 (L r + C))), at most half of r.

    Flaxman, Kalai & McMahan 2005, Theorem 2, as recalled, with R and r the outer and inner radius
    of the domain and C the bound of the losses. Where it is beyond r the theorem says nothing.
    """
    r, n = inradius_of(domain), directions(domain).dim
    zeta = jnp.sqrt(domain.radius * n * bound * r / (3.0 * (lipschitz * r + bound)))
    return jnp.minimum(zeta / horizon**0.25, 0.5 * r)


def is_known(value) -> bool:
    """Whether a number can be looked at, which a traced one cannot."""
    return isinstance(value, int | float | np.number)
