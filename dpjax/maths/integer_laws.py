"""Draws of integers: discrete Laplace, discrete Gaussian and Skellam laws. Noise comes in.

They are float32 idealisations: whole numbers in float32, of any size. Above 2^24 they are multiples
of 2, 4, ..., as float32 numbers are. A scale that is infinite or not a number draws inf or NaN.
"""

import math

import jax
import jax.numpy as jnp
from jax import lax
from jax import random as jr

from dpjax.maths.laws import binomial, normal, random_words, sign_and_tail

# From these on a draw is a rounded normal one. It is within a millionth of its law, in total
# variation.
_WIDE_SCALE, _WIDE_VARIANCE = 2.0**20, 2.0**20
_TRIALS = 2**31 - 1


def discrete_laplace(key, scale, shape=()):
    """k with probability proportional to e^(-|k| / scale), (*shape) float32; 0 at scale 0.

    It is the difference of two geometric variables, which are exponential ones rounded down.
    """
    return _as_discrete_laplace(random_words(key, (2, *shape)), jnp.asarray(scale, jnp.float32))


def _as_discrete_laplace(words, scale):
    _, u = sign_and_tail(words)
    size = jnp.floor(-jnp.log(u) * scale)
    return size[0] - size[1]


def discrete_gaussian(key, scale, shape=()):
    """k with probability proportional to e^(-k^2 / (2 scale^2)), (*shape) float32; 0 at scale 0.

    Discrete Laplace draws y of scale t = floor(scale) + 1 are accepted with probability
    e^(-(|y| - scale^2 / t)^2 / (2 scale^2)), about two times out of three (Canonne, Kamath &
    Steinke 2020, Algorithm 3).
    """
    scale = jnp.asarray(scale, jnp.float32)
    wide = jnp.floor(scale) + 1.0

    def propose(carry):
        index, found, accepted = carry
        proposal_key, level_key = jr.split(jr.fold_in(key, index))
        y = _as_discrete_laplace(random_words(proposal_key, (2, *shape)), wide)
        distance = (jnp.abs(y) - scale * (scale / wide)) / scale
        passed = jr.uniform(level_key, shape) < jnp.exp(-0.5 * distance * distance)
        return index + 1, jnp.where(passed & ~accepted, y, found), accepted | passed

    # For a scale that is 0, NaN or infinite no proposal would ever be accepted.
    unwanted = jnp.broadcast_to(~((scale > 0.0) & (scale < _WIDE_SCALE)), shape)
    start = (jnp.zeros((), jnp.int32), jnp.zeros(shape, jnp.float32), unwanted)
    found = lax.while_loop(lambda carry: ~jnp.all(carry[2]), propose, start)[1]
    return jnp.where(scale < _WIDE_SCALE, found, jnp.round(scale * normal(key, shape)))


def skellam(key, variance, shape=()):
    """The difference of two Poisson variables of mean variance / 2 each, (*shape) float32.

    In place of a Poisson variable of mean m it draws Bin(n, p) with n = 2^31 - 1 and the p for
    which n p (1 - p) is m. Each of the two is within p of its Poisson law in total variation, which
    is variance / 2^32. (A variance above 2^30 is none of such a difference.)
    """
    if shape:
        keys = jr.split(key, math.prod(shape))
        return jax.vmap(lambda key: skellam(key, variance))(keys).reshape(shape)
    ones_key, others_key = jr.split(key)
    variance = jnp.asarray(variance, jnp.float32)
    share = 0.5 * jnp.where(variance < _WIDE_VARIANCE, variance, 0.0) / _TRIALS
    p = share * (1.0 + share)
    few = binomial(ones_key, _TRIALS, p) - binomial(others_key, _TRIALS, p)
    many = jnp.round(jnp.sqrt(variance) * normal(ones_key))
    return jnp.where(variance < _WIDE_VARIANCE, few.astype(jnp.float32), many)
