"""Laplace noise, of density exp(-|x| / scale) / (2 scale)."""

import jax.numpy as jnp
from jax import random as jr

from dpjax import privacy
from dpjax.core import Array, Number
from dpjax.maths.laws import as_laplace, log_gamma, normal, random_words
from dpjax.noise.law import Calibration, Law, of_pure


def draw(key: Array, scale: Array, shape: tuple[int, ...]):
    """Laplace draws in float32, which never exceed 22.2 scales."""
    return scale * as_laplace(random_words(key, shape)).astype(scale.dtype)


def draw_sum(key: Array, scale: Number, counts: Array):
    """The sum of ``counts`` draws, (*shape).

    A Laplace variable is Gaussian with the random variance 2 E scale^2, where E is exponential. So
    the sum of ``count`` draws is Gaussian with variance 2 G scale^2, where G is a Gamma variable of
    shape count. If count is large, float32 distorts the tails of G, but then G is close to count.
    """
    gamma_key, normal_key = jr.split(key)
    mixed = jnp.exp(log_gamma(gamma_key, jnp.maximum(counts, 1.0)))
    mixed = jnp.where(counts > 0.0, mixed, 0.0)
    return scale * (jnp.sqrt(2.0 * mixed) * normal(normal_key, counts.shape))


def cumulant(tilt: Array, scale: Number):
    """-ln(1 - (tilt scale)^2). The cumulant of a discrete draw is smaller."""
    return -jnp.log1p(-jnp.square(tilt * scale))


def log_density(noise: Array, scale: Number):
    """-|x| / scale - ln(2 scale)."""
    return -jnp.abs(noise) / scale - jnp.log(2.0 * scale)


def calibrate(change: tuple, epsilon: Number, delta: Number):
    """The scale |change|_1 / epsilon of Dwork, McSherry, Nissim & Smith 2006, Proposition 1."""
    del delta
    return Calibration(privacy.laplace_scale(change[0], epsilon), epsilon, float("nan"))


def declare(change: tuple, scale: Number, delta: Number):
    """The epsilon of a given scale."""
    del delta
    return Calibration(scale, privacy.noise_ratio(change[0], scale), float("nan"))


laplace = Law(
    "laplace",
    draw,
    variance=lambda scale: 2.0 * scale * scale,
    cumulant=cumulant,
    pole=lambda scale: 1.0 / scale,
    calibrate=calibrate,
    declare=declare,
    cost=of_pure,
    norm=1,
    pure=True,
    draw_sum=draw_sum,
    log_density=log_density,
    limit="distributed",
)
