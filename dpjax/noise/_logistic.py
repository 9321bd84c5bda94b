"""Logistic noise, of density e^(-x / scale) / (scale (1 + e^(-x / scale))^2).

Its epsilon is that of Laplace noise of the same scale, and its density is smooth at 0. Its variance
is pi^2 / 6 = 1.64 times that of Laplace noise. A draw is the difference of two Gumbel draws.
"""

import jax.numpy as jnp
import numpy as np

from dpjax.core import Array, Number
from dpjax.maths.laws import random_words, sign_and_tail
from dpjax.noise._laplace import calibrate, declare
from dpjax.noise.law import Law, of_pure


def draw(key: Array, scale: Array, shape: tuple[int, ...]):
    """The quantile ln((1 - u) / u) of a uniform number u up to 1/2, with a random sign."""
    sign, tail = sign_and_tail(random_words(key, shape))
    size = jnp.log1p(-0.5 * tail) - jnp.log(0.5 * tail)
    return scale * jnp.where(sign, size, -size).astype(scale.dtype)


def log_density(noise: Array, scale: Number):
    """-|x| / scale - 2 ln(1 + e^(-|x| / scale)) - ln scale."""
    units = jnp.abs(noise) / scale
    return -units - 2.0 * jnp.log1p(jnp.exp(-units)) - jnp.log(scale)


def cumulant(tilt: Array, scale: Number):
    """ln(x / sin x) for x = pi tilt scale."""
    angle = np.pi * jnp.abs(tilt * scale)
    ratio = jnp.where(angle > 0.0, angle / jnp.sin(jnp.where(angle > 0.0, angle, 1.0)), 1.0)
    return jnp.where(angle < np.pi, jnp.log(ratio), jnp.inf)


# The slope of the log-density is -tanh(x / (2 scale)) / scale. So a change by c costs at most
# c / scale, and this is the supremum, in the tails. The calibration is that of Laplace noise.
logistic = Law(
    "logistic",
    draw,
    variance=lambda scale: np.pi**2 / 3.0 * scale * scale,
    cumulant=cumulant,
    pole=lambda scale: 1.0 / scale,
    calibrate=calibrate,
    declare=declare,
    cost=of_pure,
    norm=1,
    pure=True,
    log_density=log_density,
)
