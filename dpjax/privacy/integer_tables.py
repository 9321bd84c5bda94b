"""How much integer noise a learner needs at a traced epsilon, from tables made on the host.

The host computes epsilon exactly for a grid of amounts of noise. A learner, whose epsilon is
traced, looks up the least amount of the grid that its epsilon allows. So it has at most one percent
more than the least deviation, and never less than it needs.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from dpjax.core import Array, Number, _check
from dpjax.privacy.gaussian import gaussian_scale

STEP = 1.02  # from one amount of a grid to the next, if it grows as the variance


@functools.lru_cache
def _table(exact, grid, delta) -> tuple[np.ndarray, np.ndarray]:
    """Amounts (n,) that grow, and the epsilons (n,) from which on they are enough, which fall."""
    amounts = np.asarray(grid(delta))
    epsilons = np.array([exact(amount, delta) for amount in amounts])
    # An amount that needs a larger epsilon than a smaller one does is of no use.
    useful = epsilons < np.append(np.inf, np.minimum.accumulate(epsilons)[:-1])
    epsilons = np.nextafter(epsilons[useful].astype(np.float32), np.float32(np.inf))
    return amounts[useful].astype(np.float32), epsilons


def least_amount(
    exact: Callable[[float, float], float],
    grid: Callable[[float], np.ndarray],
    wide: Callable[[Array], Array],
    epsilon: Number,
    delta: float,
) -> Array:
    """The noise that hides a change by 1 at (epsilon, delta), () float32, for a traced epsilon.

    It is enough by the exact epsilon of its law, and its deviation is at most one percent above the
    least one. Where epsilon is so small that it asks for more than the grid has, it is that of
    continuous Gaussian noise and a little more.

    Args:
      exact: (amount, delta) -> the least epsilon, on the host.
      grid: delta -> the amounts that are tried, which grow.
      wide: the deviation of Gaussian noise -> an amount that is enough.
      epsilon: may be traced; 0 is the amount at inf, and NaN at NaN.
      delta: in (0, 1), a plain number.
    """
    if isinstance(delta, jax.core.Tracer):
        raise TypeError(
            "delta must be a plain number, since integer noise is calibrated on the host"
        )
    _check.delta(delta)
    epsilon = _check.epsilon(epsilon)
    amounts, epsilons = _table(exact, grid, float(delta))
    budget = jnp.asarray(epsilon, jnp.float32)
    place = jnp.sum(epsilons > budget, dtype=jnp.int32)
    found = jnp.asarray(amounts)[jnp.minimum(place, len(amounts) - 1)]
    many = wide(1.001 * gaussian_scale(1.0, budget, delta))
    found = jnp.where(budget < jnp.inf, jnp.where(place < len(amounts), found, many), 0.0)
    return jnp.where(jnp.isnan(budget), jnp.nan, found)
