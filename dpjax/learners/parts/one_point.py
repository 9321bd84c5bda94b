"""One-point gradient estimates of a convex loss, from one value in each round.

Let u be uniform on the unit sphere of R^n and F = f(x + zeta u). Then the mean of (n / zeta) F u is
the gradient at x of a smoothed f: the average of f over the ball of radius zeta around x, which is
within zeta L of f (Flaxman, Kalai & McMahan 2005). If the domain has no interior, u is a direction
of its affine hull, whose dimension is n.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import random as jr

from dpjax.core import Array, Number, PyTree, _check
from dpjax.domains import Domain, check_domain, shrunk
from dpjax.learners.parts.prefix_sums import PrefixSums
from dpjax.maths import laws
from dpjax.maths.barriers import add_up, rounded

RANGES = ("signed", "nonnegative", "nonnegative_inside")


class Directions(NamedTuple):
    """The directions in which a domain can be explored."""

    dim: int  # n, of the affine hull of the domain
    draw: Callable  # key -> u (n,), uniform on the unit sphere
    lift: Callable  # coordinates (n,) -> the direction (d,)


class Values(NamedTuple):
    """The possible values of a loss."""

    low: PyTree  # ()
    high: PyTree  # ()

    @property
    def bound(self):
        """C, half the width of the range."""
        return 0.5 * (self.high - self.low)

    @property
    def middle(self):
        """The middle of the range. Values minus the middle are in [-C, C].

        As E[u] = 0, subtracting it keeps estimates unbiased, and makes them smaller.
        """
        return 0.5 * (self.low + self.high)


def unit_vector(key: Array, dim: int):
    """A direction uniform on the unit sphere, (dim,)."""
    normal = rounded(laws.normal(key, (dim,)))
    return normal / jnp.maximum(jnp.sqrt(add_up(normal * normal)), 1e-30)


def directions(domain: Domain) -> Directions:
    """The directions of R^d, or those of the domain's affine hull if it has no interior."""
    if domain.tangent is None:
        n, lift = domain.dim, lambda w: w
    else:
        n = domain.tangent.shape[1]
        columns = jnp.asarray(domain.tangent.T, jnp.float32)

        def lift(w):
            parts = columns * w[:, None]
            return jnp.sum(parts, axis=0) if n > 32 else add_up(parts)

    return Directions(n, lambda key: unit_vector(key, n), lift)


def values(
    domain: Domain, loss_range: str | tuple[float, float], lipschitz: Number, reach: Number
) -> Values:
    """The range of the losses at points up to ``reach`` away from the domain.

    Args:
      domain: a Domain, of diameter D.
      loss_range: the declared (low, high), or one of three words for losses that are 0 somewhere on
        the domain. With B = L (D + reach), "signed" is [-B, B], "nonnegative" is [0, B], and
        "nonnegative_inside" is [-L reach, B], for losses that may be negative outside the domain,
        as linear ones are.
      lipschitz: L, in the Euclidean norm.
      reach: the largest distance of actions from the domain, at least 0.
    """
    if isinstance(loss_range, str):
        _check.one_of(*RANGES, loss_range=loss_range)
        high = lipschitz * (domain.diameter + reach)
        lows = {"signed": -high, "nonnegative": 0.0, "nonnegative_inside": -lipschitz * reach}
        low = lows[loss_range]
    else:
        low, high = _check.interval(loss_range=loss_range)
    return Values(low, high)


def entries_of(weight: Number, losses: Values, count: Number = 1) -> tuple:
    """The range of the entries of a sum of estimates, (low, high).

    An estimate is ``weight`` times a value and a direction. The range is slightly enlarged, since
    estimates and their sums are rounded.

    Args:
      weight: n / zeta.
      losses: the Values of the losses.
      count: the number of estimates in a sum.
    """
    most = (1.0 + 1e-5) * count * weight * losses.bound
    return -most, most


def inradius_of(domain: Domain) -> float:
    """The inradius of a domain that actions must not leave."""
    if domain.inradius is None:
        raise ValueError("domain: its inradius is not known, so actions cannot be kept inside it")
    return domain.inradius


def flaxman_radius(horizon: int, domain: Domain, bound: Number, lipschitz: Number):
    """zeta = T^(-1/4) sqrt(R n C r / (3 (L r + C))), at most half of r.

    R and r are the outer and inner radius of the domain, and C is the bound of the losses. The
    radius is that of Flaxman, Kalai & McMahan 2005, Theorem 2, as recalled. The theorem does not
    apply if it exceeds r.
    """
    r, n = inradius_of(domain), directions(domain).dim
    zeta = jnp.sqrt(domain.radius * n * bound * r / (3.0 * (lipschitz * r + bound)))
    return jnp.minimum(zeta / horizon**0.25, 0.5 * r)


def exploration(
    horizon: int,
    domain: Domain,
    loss_range: str | tuple[float, float],
    smoothing: Number | None,
) -> tuple[Directions, Values, Array, Domain]:
    """(Directions, Values, zeta, the domain shrunk by 1 - zeta / r) for actions in the domain.

    zeta is ``smoothing``, below r, and by default that of :func:`flaxman_radius`.
    """
    check_domain(domain)
    lipschitz, r = domain.losses.norms[1], inradius_of(domain)
    losses = values(domain, loss_range, lipschitz, 0.0)
    _check.inside(0.0, r, **_check.specified(smoothing=smoothing))
    if smoothing is None:
        smoothing = flaxman_radius(horizon, domain, losses.bound, lipschitz)
    zeta = jnp.asarray(smoothing, jnp.float32)
    return directions(domain), losses, zeta, shrunk(domain, 1.0 - zeta / r)


class EstimatesState(NamedTuple):
    direction: Array  # (n,) u_t
    sums: PyTree  # of the mechanism


def on_private_estimates(
    sums: PrefixSums, space: Directions, act: Callable, estimate: Callable
) -> tuple[Callable, Callable]:
    """(init, step) of a learner that reads its gradient estimates through private sums.

    Args:
      sums: calibrated PrefixSums of the estimates.
      space: the Directions.
      act: (release (n,), u_t (n,)) -> the action.
      estimate: (observed value, u_t (n,)) -> the estimate (n,).
    """

    def play(key, state, release):
        direction = space.draw(key)
        return EstimatesState(direction, state), act(release, direction)

    def init(key):
        direction_key, sums_key = jr.split(key)
        return play(direction_key, *sums.init(sums_key))

    def step(state, key, loss):
        direction_key, sums_key = jr.split(key)
        now = estimate(loss, state.direction)
        return play(direction_key, *sums.step(state.sums, sums_key, now))

    return init, step
