"""Discrete Gaussian noise: integers k of probability proportional to e^(-k^2 / (2 scale^2)).

A release with this noise is |change|^2 / (2 scale^2)-zCDP, and the variance is at most scale^2
(Canonne, Kamath & Steinke 2020, Theorem 4). The law is not that of a rounded normal draw. For
epsilon >= 1 the exact delta does not always decrease in the scale: at epsilon = 5 delta is 0.007 at
scale 0.32 and 0.07 at scale 0.48.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import lax
from jax import random as jr

from dpjax import privacy
from dpjax.core import Array, Number
from dpjax.maths.laws import normal, random_words
from dpjax.noise._discrete_laplace import as_draw
from dpjax.noise._gaussian import cumulant
from dpjax.noise.integers import STEP, exact_privacy, on_integers, scale_of_one
from dpjax.noise.law import Calibration, Cost, Law
from dpjax.privacy.integer import TAIL

# From this scale on, a draw is a rounded normal draw. It is within 1e-6 of the law in total
# variation.
_WIDE = 2.0**20


def draw(key: Array, scale: Array, shape: tuple[int, ...]):
    """k with probability proportional to e^(-k^2 / (2 scale^2)), (*shape) float32; 0 at scale 0.

    Discrete Laplace draws y of scale t = floor(scale) + 1 are accepted with probability
    e^(-(|y| - scale^2 / t)^2 / (2 scale^2)), about two times out of three (Canonne, Kamath &
    Steinke 2020, Algorithm 3).
    """
    scale = jnp.asarray(scale, jnp.float32)
    wide = jnp.floor(scale) + 1.0

    def propose(carry):
        index, draws, accepted = carry
        proposal_key, level_key = jr.split(jr.fold_in(key, index))
        y = as_draw(random_words(proposal_key, (2, *shape)), wide)
        distance = (jnp.abs(y) - scale * (scale / wide)) / scale
        passed = jr.uniform(level_key, shape) < jnp.exp(-0.5 * distance * distance)
        return index + 1, jnp.where(passed & ~accepted, y, draws), accepted | passed

    # If the scale is 0, NaN or infinite, no proposal would be accepted.
    unwanted = jnp.broadcast_to(~((scale > 0.0) & (scale < _WIDE)), shape)
    start = (jnp.zeros((), jnp.int32), jnp.zeros(shape, jnp.float32), unwanted)
    drawn = lax.while_loop(lambda carry: ~jnp.all(carry[2]), propose, start)[1]
    return jnp.where(scale < _WIDE, drawn, jnp.round(scale * normal(key, shape)))


@on_integers
def log_density(noise: Array, scale: Number):
    """-k^2 / (2 scale^2) minus the logarithm of the normalizing sum over all integers.

    For scale >= 2 the sum is sqrt(2 pi) scale, up to a factor of 1 + 2 e^(-2 pi^2 scale^2).
    """
    few = jax.nn.logsumexp(-0.5 * jnp.square(jnp.arange(-32.0, 33.0) / scale))
    total = jnp.where(scale < 2.0, few, jnp.log(np.sqrt(2.0 * np.pi) * scale))
    return -0.5 * jnp.square(noise / scale) - total


def _log_pmf(scale, shift):
    # The noise is sub-Gaussian with variance scale^2.
    half = math.ceil(scale * math.sqrt(2.0 * TAIL)) + shift
    exponent = -0.5 * (np.arange(-half, half + 1) / scale) ** 2
    return exponent - scipy.special.logsumexp(exponent)


EXACT = exact_privacy(_log_pmf)


def _grid(delta):
    del delta
    return np.geomspace(0.15, 150.0, 1 + round(2.0 * math.log(1e3, STEP)))


def of_one(epsilon: float, delta: float):
    """The least scale for a change by 1, or up to one percent more."""
    scale = scale_of_one(EXACT["epsilon"], _grid, lambda deviation: deviation, epsilon, delta)
    return Calibration(scale, epsilon, 0.5 / (scale * scale))


def calibrate(change: tuple, epsilon: Number, delta: Number):
    """By zCDP: rho = |change|_2^2 / (2 scale^2) (Canonne, Kamath & Steinke 2020, Theorem 4)."""
    rho = privacy.zcdp_rho(epsilon, delta)
    return Calibration(change[1] / jnp.sqrt(2.0 * rho), epsilon, rho)


def cost(units: Array):
    """The rho of :func:`calibrate`. There is no pure epsilon."""
    rho = jnp.sum(jnp.square(units)) / 2.0
    return Cost(jnp.where(rho > 0.0, jnp.inf, 0.0), rho, jnp.float32(0.0))


discrete_gaussian = Law(
    "discrete_gaussian",
    draw,
    variance=lambda scale: scale * scale,
    cumulant=cumulant,
    calibrate=calibrate,
    cost=cost,
    norm=2,
    integers=True,
    of_one=of_one,
    **EXACT,
    log_density=log_density,
)
