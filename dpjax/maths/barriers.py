"""Self-concordant barriers and their Dikin ellipsoids.

Let H be the Hessian of a self-concordant barrier at x. The Dikin ellipsoid {x + v : <v, H v> <= 1}
lies within the set, however close x is to the boundary. So a learner can explore in this ellipsoid
without leaving the set.

Functions take s instead of x, where x is the minimizer of <s, x> + R(x). As functions of s, the
axes of the ellipsoid have closed forms. They are accurate in float32 near the boundary, where
1 - |x|^2 computed from x would cancel.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from dpjax.core import Array, Number


class Path(NamedTuple):
    """Functions that track a minimizer without a closed form from round to round.

    s, points, z and A^+' z are in the barrier's own coordinates, (n,).
    """

    start: np.ndarray  # (n,) NumPy, the minimizer for s = 0
    explore: Callable  # (s, point, z) -> the minimizer for s, found from the minimizer ``point``
    # for a similar s; its remaining Newton decrement (); x + A z (d,); A^+' z (n,)


class Barrier(NamedTuple):
    """A self-concordant barrier R on a convex set in R^d.

    The columns of A (d, n) are the semi-axes of the Dikin ellipsoid at x = argmin(s). They have the
    directions of eigenvectors and are parallel to the affine hull of the set. A^+' maps z to a
    vector g with <g, A z'> = <z, z'> for all z'. If the set is not full-dimensional, several g
    satisfy this, and any of them is valid.
    """

    parameter: float  # nu
    dim: int  # n, the dimension of the affine hull
    argmin: Callable  # s (d,) -> x (d,), minimizes <s, x> + R(x)
    explore: Callable  # (s (d,), z (n,)) -> x + A z (d,), A^+' z (d,)
    values: Callable  # LossSet -> (low, high), an interval that holds every <l, x>
    path: Path | None = None  # None if argmin and explore have closed forms


def ball(dim: int, radius: Number) -> Barrier:
    """R(x) = -ln(1 - |x|^2 / r^2), nu = 1.

    With r = 1 and c = sqrt(1 + |s|^2), x = -s / (1 + c). The semi-axis along x has length
    1 / sqrt(c (1 + c)). The semi-axes orthogonal to x have length 1 / sqrt(1 + c).
    """

    def parts(s):
        s = radius * s
        length = _length(s)
        c = _root_of_one_and(length)
        return s, length, c

    def argmin(s):
        s, _, c = parts(s)
        return -radius * s / (1.0 + c)

    def explore(s, z):
        scaled, length, c = parts(s)
        axes = 1.0 / jnp.where(jnp.arange(dim) == 0, jnp.sqrt(c), 1.0) / jnp.sqrt(1.0 + c)
        along = scaled / jnp.maximum(length, 1e-30)
        step, dual = _reflect(along, axes * z), _reflect(along, z / axes)
        return argmin(s) + rounded(radius * step), dual / radius

    def values(losses):
        return -radius * losses.norms[1], radius * losses.norms[1]

    return Barrier(1.0, dim, argmin, explore, values)


def cube(dim: int, radius: Number) -> Barrier:
    """R(x) = -sum_i ln(1 - x_i^2 / r^2), nu = d: the barrier of a ball in each coordinate."""

    def argmin(s):
        s = radius * s
        return -radius * s / (1.0 + _root_of_one_and(s))

    def explore(s, z):
        c = _root_of_one_and(radius * s)
        axes = radius / (jnp.sqrt(c) * jnp.sqrt(1.0 + c))
        return argmin(s) + rounded(axes * z), z / axes

    def values(losses):
        return -radius * losses.norms[0], radius * losses.norms[0]

    return Barrier(float(dim), dim, argmin, explore, values)


# In tests with thousands of s (entries equal, far apart, or in two groups), the largest error of
# the sum is 3e-12 after 7 steps at d = 100, and 5e-11 after 10 steps at d = 10^4. Newton's method
# on the sum itself needs log2 d more steps.
_NEWTON_STEPS = 10


def simplex(dim: int) -> Barrier:
    """R(x) = -sum_i ln x_i, nu = d, within the plane sum_i x_i = 1 of dimension n = d - 1.

    x_i = 1 / (s_i + m). The root m of sum_i x_i = 1 is found by Newton's method on 1 / sum_i x_i,
    which is concave in m and nearly linear. It starts at the left end of the bracket
    [1 - min s, d - min s]. So m increases with each step and never exceeds the root.

    Let v = x w, entry by entry. In the norm of the Hessian v has length |w|, and x + v stays in the
    plane if w is orthogonal to x. So w is written in an orthonormal basis of the complement of x.
    """

    def argmin(s):
        s = s - jnp.min(s)

        def newton(_, m):
            x = 1.0 / (s + m)
            total = add_up(x)
            return m + total * (total - 1.0) / add_up(x * x)

        # Only rounding could leave the bracket.
        one = jnp.ones((), jnp.float32)
        m = jnp.clip(lax.fori_loop(0, _NEWTON_STEPS, newton, one, unroll=True), 1.0, dim)
        x = 1.0 / (s + m)
        return x / add_up(x)

    def explore(s, z):
        x = argmin(s)
        w = _reflect(x / _length(x), jnp.concatenate([jnp.zeros(1), z]))
        # Since |w_i| <= 1, x + x w >= 0. Only rounding could violate this.
        return x * (1.0 + jnp.maximum(w, -1.0)), w / x

    return Barrier(float(dim), dim - 1, argmin, explore, lambda losses: losses.entry)


def rounded(x: Array) -> Array:
    """Return x, and force a product to be rounded before it is added to anything.

    A compiler may fuse a product and a sum into one operation, which rounds once. Whether it does
    so can depend on the number of trials in a batch, and results must not. No entry may be NaN.
    """
    largest = float(jnp.finfo(x.dtype).max)
    return jnp.clip(x, -largest, largest)


def rounded_product(first: Array, *factors: Array) -> Array:
    """The product of the factors from left to right, with each partial product rounded."""
    for factor in factors:
        first = rounded(first * factor)
    return first


def add_up(x: Array) -> Array:
    """The sum of x (n, ...) over n, in a fixed order and with rounded terms if n is at most 32.

    The order and rounding of jnp.sum depend on the number of trials in a batch.
    """
    if x.shape[0] > 32:
        return jnp.sum(x, axis=0)
    x = rounded(x)
    total = x[0]
    for i in range(1, x.shape[0]):
        total = total + x[i]
    return total


def _length(x) -> Array:
    """|x|, computed so that squares do not overflow."""
    largest = jnp.maximum(jnp.max(jnp.abs(x)), 1e-30)
    scaled = x / largest
    return largest * jnp.sqrt(add_up(scaled * scaled))


def _root_of_one_and(s) -> Array:
    """sqrt(1 + s^2), computed so that the square does not overflow."""
    largest = jnp.maximum(jnp.abs(s), 1.0)
    return largest * jnp.sqrt(rounded(jnp.square(1.0 / largest)) + rounded(jnp.square(s / largest)))


def _reflect(unit, x):
    """H x for the Householder reflection H that maps the first basis vector to +-``unit``.

    H maps the other basis vectors to an orthonormal basis of the complement of ``unit``. If
    ``unit`` is 0, any reflection is valid.
    """
    first = jnp.arange(unit.shape[0]) == 0
    # This sign avoids cancellation.
    normal = unit + jnp.where(first, jnp.where(unit[0] < 0, -1.0, 1.0), 0.0)
    twice = 2.0 * add_up(normal * x) / add_up(normal * normal)
    return x - rounded(normal * twice)
