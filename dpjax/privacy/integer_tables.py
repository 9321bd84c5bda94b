"""How much integer noise a learner needs at a traced epsilon, from tables made on the host.

The host computes epsilon exactly for a grid of amounts of noise. A learner, whose epsilon is
traced, looks up the least amount of the grid that its epsilon allows. So it has at most one percent
more than the least deviation, and never less than it needs.
"""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from dpjax import _check
from dpjax.core import Array, Number
from dpjax.privacy.discrete import (
    discrete_gaussian_epsilon,
    discrete_gaussian_scale,
    skellam_epsilon,
    skellam_variance,
)
from dpjax.privacy.gaussian import gaussian_scale
from dpjax.privacy.integer import binomial_coins, binomial_epsilon

_STEP = 1.02  # of an amount that grows as the variance
_EXACT = {
    "binomial": (binomial_epsilon, binomial_coins),
    "skellam": (skellam_epsilon, skellam_variance),
    "discrete_gaussian": (discrete_gaussian_epsilon, discrete_gaussian_scale),
}
INTEGER_LAWS = tuple(_EXACT)


@functools.lru_cache
def _table(law, delta) -> tuple[np.ndarray, np.ndarray]:
    """Amounts (n,) that grow, and the epsilons (n,) from which on they are enough, which fall."""
    if law == "binomial":
        few = np.arange(math.ceil(-math.log2(delta)), 256)
        many = np.geomspace(max(256, few[-1] + 1), 2**19, 1 + round(math.log(2**11, _STEP)))
        amounts = np.unique(np.concatenate([few, np.ceil(many)]))
    elif law == "skellam":
        amounts = np.geomspace(1e-4, 20_000.0, 1 + round(math.log(2e8, _STEP)))
    else:
        amounts = np.geomspace(0.15, 150.0, 1 + round(2.0 * math.log(1e3, _STEP)))
    exact: Callable = _EXACT[law][0]
    kind = int if law == "binomial" else float
    epsilons = np.array([exact(kind(amount), delta) for amount in amounts])
    # An amount that needs a larger epsilon than a smaller one does is of no use.
    useful = epsilons < np.append(np.inf, np.minimum.accumulate(epsilons)[:-1])
    epsilons = np.nextafter(epsilons[useful].astype(np.float32), np.float32(np.inf))
    return amounts[useful].astype(np.float32), epsilons


def integer_noise(law: str, epsilon: Number, delta: float) -> Array:
    """The noise that hides a change by 1 at (epsilon, delta), () float32, for a traced epsilon.

    It is enough by the exact delta of its law, and its deviation is at most one percent above the
    least one. Where epsilon is so small that it asks for a deviation above 140, it is that of
    continuous Gaussian noise and a little more, which suffices for these laws, too (tested).

    Args:
      law: "binomial", for the number of coins; "skellam", for the variance; "discrete_gaussian",
        for the scale.
      epsilon: may be traced; 0 is the amount at inf.
      delta: in (0, 1), a plain number.

    Raises:
      ValueError: a plain epsilon asks for more than 2^31 - 1 coins. For a traced one the amount is
        NaN, as it is for an epsilon that is NaN.

    Examples:
      >>> [int(privacy.integer_noise("binomial", e, 1e-6)) for e in (0.5, 1.0, np.inf)]
      [272, 80, 0]
    """
    _check.one_of(*INTEGER_LAWS, law=law)
    if isinstance(delta, jax.core.Tracer):
        raise TypeError(
            "delta must be a plain number, since integer noise is calibrated on the host"
        )
    _check.delta(delta)
    epsilon = _check.epsilon(epsilon)
    amounts, epsilons = _table(law, float(delta))
    budget = jnp.asarray(epsilon, jnp.float32)
    place = jnp.sum(epsilons > budget, dtype=jnp.int32)
    found = jnp.asarray(amounts)[jnp.minimum(place, len(amounts) - 1)]
    deviation = 1.001 * gaussian_scale(1.0, budget, delta)
    wide = {"binomial": jnp.ceil(4.0 * deviation**2), "skellam": deviation**2}.get(law, deviation)
    found = jnp.where(budget < jnp.inf, jnp.where(place < len(amounts), found, wide), 0.0)
    found = jnp.where(jnp.isnan(budget), jnp.nan, found)
    if law != "binomial":
        return found
    if not isinstance(found, jax.core.Tracer) and float(found) > _check.LARGEST_SIZE:
        raise ValueError(f"epsilon must ask for at most {_check.LARGEST_SIZE} coins, got {epsilon}")
    return jnp.where(found > _check.LARGEST_SIZE, jnp.nan, found)
