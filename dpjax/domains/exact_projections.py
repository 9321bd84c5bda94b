"""Exact projections P, in terms of the excess y - P(y), for y in two words.

The projection onto a convex set never moves two points farther apart. The privacy of a hidden
iterate depends on this property, which holds in float32 up to rounding. Near the set the excess
y - P(y) is small, and for most sets a formula computes it with a small relative error. If y is
stored in two float32 words, the rounding errors of many steps also stay small.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from dpjax.core import Array, Numbers
from dpjax.maths import two_words
from dpjax.maths.barriers import rounded
from dpjax.maths.two_words import TwoWords

# The unit of rounding of a float32: half a unit in the last place of 1.
UNIT = 2.0**-24
# The rounding error of two-word arithmetic in one projection, relative to its largest number.
TWO_WORDS_UNIT = 2.0**-44
# How many bisections a root search may need in addition to Newton steps.
_HALVINGS = 64


class ExactProjection(NamedTuple):
    """The projection P onto a set, exact up to rounding."""

    excess: Callable  # y (d,) in two words -> y - P(y) (d,), float32
    # The error of the excess is at most 2^-24 (relative |excess| + absolute |y|).
    relative: float
    absolute: float


def from_project(project: Callable, absolute=32.0) -> ExactProjection:
    """The ExactProjection of a map (d,) -> the nearest point, with this ``absolute`` error."""
    return ExactProjection(lambda y: y.high - project(y.high), 1.0, absolute)


def box(low: Numbers, high: Numbers) -> ExactProjection:
    """Onto the points between low (d,) and high (d,)."""

    def excess(y):
        below = two_words.subtract(y, two_words.of(low)).high
        above = two_words.subtract(y, two_words.of(high)).high
        return jnp.minimum(below, 0.0) + jnp.maximum(above, 0.0)

    return ExactProjection(excess, 2.0, 0.0)


def ball(radius: float) -> ExactProjection:
    """Onto the points of Euclidean norm at most ``radius``.

    y - P(y) = y (|y|^2 - r^2) / (|y| (|y| + r)), with the difference of squares in two words.
    """

    def excess(y):
        size = jnp.max(jnp.abs(y.high))
        # Far outside the ball there is no cancellation, but squares may overflow.
        far = size > 2.0 * radius
        scaled = y.high / jnp.maximum(size, 1e-30)
        length = size * jnp.sqrt(two_words.add_up(two_words.exact_product(scaled, scaled)).high)
        squares = two_words.exact_product(*(jnp.where(far, 0.0, y.high),) * 2)
        # Of the products with low words, only 2 high low is large enough to matter.
        cross = rounded(2.0 * y.high * jnp.where(far, 0.0, y.low))
        squares = TwoWords(squares.high, squares.low + cross)
        r = jnp.float32(radius)
        over = two_words.subtract(two_words.add_up(squares), two_words.exact_product(r, r)).high
        length = jnp.maximum(length, r / 2.0)  # A shorter point is inside and does not move.
        near_part = jnp.maximum(over, 0.0) / length / (length + r)
        far_part = 1.0 - r / jnp.maximum(length, r)
        return rounded(y.high * jnp.where(far, far_part, near_part))

    return ExactProjection(excess, 12.0, 0.0)


def capped(upper: float, rows: np.ndarray, totals: np.ndarray, *, equal: bool) -> ExactProjection:
    """Onto the x in [0, upper]^d whose sum over each block is at most, or equal to, its total.

    P(y)_i = clip(y_i - tau, 0, upper) with one tau for each block, so y_i - P(y)_i is tau clipped
    to [y_i - upper, y_i]. In each block these differences sum to the sum of y minus the total,
    which determines tau. The sum is piecewise linear in tau with 2 d pieces. Newton's method finds
    tau, and visits each piece at most once. On a flat piece the bracket around tau is halved
    instead.

    Args:
      upper: above 0.
      rows: (blocks, d), 1 if an entry belongs to a block, else 0.
      totals: (blocks,).
      equal: True if the sums must equal the totals, False if they may be less.
    """
    most = 2 * rows.shape[1] + _HALVINGS

    def excess(y):
        over = two_words.subtract(y, two_words.of(jnp.full_like(y.high, upper))).high

        def clipped(tau):
            return rows * jnp.clip(tau[:, None], over[None], y.high[None])

        wanted = TwoWords(rows * y.high[None], rows * y.low[None])
        wanted = two_words.subtract(two_words.add_up(wanted), two_words.of(totals))

        def missing(tau):
            return two_words.subtract(wanted, two_words.add_up(two_words.of(clipped(tau)))).high

        zero = jnp.zeros_like(totals)
        gap = missing(zero)
        reach = jnp.abs(gap) + jnp.max(jnp.abs(clipped(zero)), axis=1)
        low, high = (-reach if equal else zero), jnp.where((gap > 0.0) | equal, reach, zero)

        def newton(search):
            low, high, tau, _, count = search
            gap = missing(tau)
            low, high = jnp.where(gap > 0.0, tau, low), jnp.where(gap > 0.0, high, tau)
            free = (over[None] < tau[:, None]) & (tau[:, None] < y.high[None])
            slope = jnp.sum(rows * free.astype(jnp.float32), axis=1)
            ahead = tau + gap / jnp.maximum(slope, 1.0)
            within = (low < ahead) & (ahead < high) & (slope > 0.0)
            ahead = jnp.where(within, ahead, (low + high) / 2.0)
            return low, high, jnp.where(gap == 0.0, tau, ahead), tau, count + 1

        def moves(search):
            return jnp.any(search[2] != search[3]) & (search[4] < most)

        start = (low, high, zero, jnp.full_like(zero, jnp.inf), jnp.zeros((), jnp.int32))
        tau = lax.while_loop(moves, newton, start)[2]
        return jnp.sum(clipped(tau), axis=0)

    return ExactProjection(excess, 4.0, 0.0)


def signed(exact: ExactProjection) -> ExactProjection:
    """Onto the x whose absolute values |x_i| form a point of the set of ``exact`` (all x >= 0)."""

    def excess(y):
        sign = jnp.where(y.high < 0.0, -1.0, 1.0)
        return sign * exact.excess(TwoWords(sign * y.high, sign * y.low))

    return exact._replace(excess=excess)


def onto_multiple(exact: ExactProjection, y: TwoWords, count: Array, centre: Numbers) -> TwoWords:
    """The projection of y on count (K - centre) for the set K. y and the result have two words."""
    scaled = two_words.add(two_words.divide(y, count), two_words.of(centre))
    return two_words.subtract(y, two_words.of(rounded(count * exact.excess(scaled))))


def drift(exact: ExactProjection, dim: int, rounds: int) -> tuple[float, float]:
    """The largest distance by which rounding moves two sums z_t apart.

    z_t is the projection of z_(t-1) + s_t onto t (K - centre), computed by :func:`onto_multiple`.
    The excess of a projection is at most |s_t|. Its error has three parts. The first is
    2^-24 (``relative`` + 1) |s_t|, where the 1 comes from rounding the product with t. The second
    is 2^-24 ``absolute`` |y|, with |y| <= t r + |s_t| for the largest length r of a point of K. The
    third is the error of two-word arithmetic. Summed over the rounds and over both sums, they give

        drift <= a S + b r   for the largest |s_t|, S.

    b also covers the rounding of z_T / T to one word.

    Returns:
      (a, b).
    """
    steps = 2.0 * rounds * UNIT * (exact.relative + exact.absolute + 1.0)
    lost = exact.absolute * UNIT + dim**0.5 * TWO_WORDS_UNIT
    return steps, rounds * (2.0 * UNIT + rounds * lost)


def longest(exact: ExactProjection, dim: int) -> int:
    """The largest number of rounds for which both parts of :func:`drift` are at most 1."""
    steps, _ = drift(exact, dim, 1)
    lost = exact.absolute * UNIT + dim**0.5 * TWO_WORDS_UNIT
    return int(min(1.0 / steps, ((UNIT**2 + lost) ** 0.5 - UNIT) / lost))


def by_excess(exact: ExactProjection) -> Callable:
    """A map (d,) -> the nearest point, from an exact projection.

    It projects twice, since far from the set the first result has the rounding error of the
    distance.
    """

    def project(x):
        for _ in range(2):
            x = x - exact.excess(two_words.of(x))
        return x

    return project
