"""Gaussian noise of standard deviation ``scale``."""

import jax.numpy as jnp
import numpy as np

from dpjax import privacy
from dpjax.core import Array, Number
from dpjax.maths.laws import normal
from dpjax.noise.law import Calibration, Cost, Law


def draw(key: Array, scale: Array, shape: tuple[int, ...]):
    """Independent normal draws."""
    return scale * normal(key, shape).astype(scale.dtype)


def cumulant(tilt: Array, scale: Number):
    """tilt^2 scale^2 / 2. The cumulant of a discrete Gaussian draw is smaller."""
    return 0.5 * jnp.square(scale) * tilt * tilt


def log_density(noise: Array, scale: Number):
    """The log-density of a normal draw."""
    return -0.5 * jnp.square(noise / scale) - jnp.log(np.sqrt(2.0 * np.pi) * scale)


def calibrate(change: tuple, epsilon: Number, delta: Number):
    """Calibrate by the exact curve of one Gaussian mechanism with mu = |change|_2 / scale."""
    scale = privacy.gaussian_scale(change[1], epsilon, delta)
    return Calibration(scale, epsilon, 0.5 / privacy.gaussian_inverse_mu(epsilon, delta) ** 2)


def declare(change: tuple, scale: Number, delta: Number):
    """The epsilon and rho of a given scale."""
    mu = privacy.noise_ratio(change[1], scale)
    return Calibration(scale, privacy.gaussian_epsilon(mu, delta), 0.5 * mu * mu)


def cost(units: Array):
    """rho = |change|_2^2 / (2 scale^2)."""
    rho = jnp.sum(jnp.square(units)) / 2.0
    return Cost(jnp.float32(0.0), rho, rho)


def of_rho(rho: Number, delta: Number):
    """The exact epsilon of rho-zCDP, if rho comes only from Gaussian noise."""
    return privacy.gaussian_epsilon(privacy.zcdp_mu(rho), delta)


gaussian = Law(
    "gaussian",
    draw,
    variance=lambda scale: scale * scale,
    cumulant=cumulant,
    calibrate=calibrate,
    declare=declare,
    cost=cost,
    norm=2,
    log_density=log_density,
    of_rho=of_rho,
    limit="shuffle",
)
