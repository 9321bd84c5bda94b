"""The logarithmic barrier of a polytope, with minimizers by Newton's method.

The minimizer has no closed form. But in SCRiBLE one round moves the minimizer little: at the old
point the Newton decrement lambda of the new function is eta n |f|, since the old gradient is 0. If
lambda is at most 1/4, each Newton step reduces it to at most (lambda / (1 - lambda))^2. So after
five steps lambda is below 1e-6, which float32 cannot resolve.

Points are y (n,) in normal coordinates: x = centre + map y. The constraints are 1 - Q y >= 0. The
centre is the analytic centre, so sum_i q_i = 0, and the map is such that sum_i q_i q_i' = I. The
body then lies between the balls of radius 1 and m, whatever its original size and shape.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from dpjax.core import Array
from dpjax.maths.barriers import Barrier, Path, add_up, rounded

# The number of steps from the centre, for a large s. A damped step lowers the function by at least
# 0.02.
_STEPS_FROM_CENTRE = 60
# The least slack, relative to the slack 1 at the centre. Float32 computes slacks to 1e-7.
_LEAST_SLACK = 1e-5
# The largest length of s, so that products with s do not overflow.
_LARGEST = 1e30
# This factor keeps a played point in the body despite rounding.
_WITHIN = 1.0 - 1e-6


class _Newton(NamedTuple):
    y: Array  # (n,)
    scaled: Array  # J (m, n), the rows over their slacks, so that J' J = R''(y)
    whitener: Array  # T (n, n), such that T' J' J T = I
    decrement: Array  # (), the Newton decrement
    after: Array  # (n,), the next point of Newton's method


def polytope(
    rows: np.ndarray, centre: np.ndarray, columns: np.ndarray, values, *, newton: int = 5
) -> Barrier:
    """R(y) = -sum_i ln(1 - <q_i, y>), nu = m, the number of rows.

    Args:
      rows: Q (m, n) NumPy, for a bounded body.
      centre: (d,) NumPy, the point at y = 0.
      columns: (d, n) NumPy, linearly independent.
      values: as in :class:`Barrier`.
      newton: the number of Newton steps in each round.
    """
    count, dim = rows.shape
    inverse = np.linalg.pinv(columns)  # (n, d)
    q, middle, lift, down = (
        np.asarray(part, np.float32) for part in (rows, centre, columns, inverse)
    )

    def at(s, y):
        """<s, y> + R at y: the factor J of its Hessian J' J, and the next Newton step."""
        scaled = q / (1.0 - _product(q, y))[:, None]
        whitener = _whitener(scaled)
        white = _product(whitener.T, s + add_up(scaled))
        decrement = _norm(white)
        step = jnp.where(decrement > 0.25, 1.0 / (1.0 + decrement), 1.0)
        after = y - rounded(step * _product(whitener, white))
        # A slack can be this small only through rounding, or if s is too large for float32.
        after = after * jnp.minimum(1.0, (1.0 - _LEAST_SLACK) / jnp.max(_product(q, after)))
        return _Newton(y, scaled, whitener, decrement, after)

    def minimize(s, y, steps):
        nothing = jnp.zeros((), jnp.float32)
        start = _Newton(y, jnp.zeros_like(q), jnp.zeros((dim, dim), jnp.float32), nothing, y)
        # One iteration more than ``steps``, since the last one only evaluates the final point.
        return lax.fori_loop(0, steps + 1, lambda _, state: at(s, state.after), start)

    def explore(s, y, z):
        state = minimize(_shortened(s), y, newton)
        step = _product(state.whitener, z)
        ratios = _product(state.scaled, step)
        dual = _product(state.scaled.T, ratios)
        step = step * jnp.minimum(1.0, _WITHIN / jnp.maximum(jnp.max(ratios), 1e-30))
        return state.y, state.decrement, middle + _product(lift, state.y + step), dual

    def from_centre(s):
        s = _shortened(_product(lift.T, jnp.clip(s, -_LARGEST, _LARGEST)))
        return s, minimize(s, jnp.zeros(dim, jnp.float32), _STEPS_FROM_CENTRE).y

    def argmin(s):
        return middle + _product(lift, from_centre(s)[1])

    def explore_anywhere(s, z):
        _, _, point, dual = explore(*from_centre(s), z)
        return point, _product(down.T, dual)

    path = Path(np.zeros(dim, np.float32), explore)
    return Barrier(float(count), dim, argmin, explore_anywhere, values, path)


def _product(matrix, vector) -> Array:
    """M v, with the sum in a fixed order."""
    return add_up(matrix.T * vector[:, None])


def _norm(vector) -> Array:
    return jnp.sqrt(add_up(vector * vector))


def _shortened(s) -> Array:
    """s, shortened if its minimizer would have slacks too small for float32."""
    s = jnp.clip(s, -_LARGEST, _LARGEST)
    return s * jnp.minimum(1.0, 1e6 / jnp.maximum(jnp.max(jnp.abs(s)), 1e-30))


def _whitener(rows) -> Array:
    """T (n, n), upper triangular, such that the columns of J T are orthonormal, for J (m, n).

    The modified Gram-Schmidt process is applied to J with a unit matrix below. A Cholesky factor of
    J' J would square the ratio of the largest slack to the least.
    """
    count, dim = rows.shape
    columns = jnp.arange(dim)

    def one_column(k, both):
        unit = lax.dynamic_index_in_dim(both, k, axis=1, keepdims=False)
        unit = unit / jnp.maximum(_norm(unit[:count]), 1e-30)
        overlaps = jnp.where(columns > k, add_up(unit[:count, None] * both[:count]), 0.0)
        both = both - rounded(unit[:, None] * overlaps[None])
        return jnp.where((columns == k)[None], unit[:, None], both)

    both = jnp.concatenate([rows, jnp.eye(dim, dtype=jnp.float32)])
    return lax.fori_loop(0, dim, one_column, both)[count:]
