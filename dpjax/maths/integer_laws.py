"""Draws of integers: discrete Laplace, discrete Gaussian and Skellam laws. Noise comes in.

They are float32 idealisations. A draw is below 2^30 in size.
"""

import math

import jax
import jax.numpy as jnp
from jax import lax
from jax import random as jr

from dpjax.maths.laws import binomial, random_words, sign_and_tail

_LARGEST = 2.0**30
_TRIALS = 2**31 - 1


def discrete_laplace(key, scale, shape=()):
    """k with probability proportional to e^(-|k| / scale), (*shape) int32; 0 at scale 0.

    It is the difference of two geometric variables, which are exponential ones rounded down.
    """
    return _as_discrete_laplace(random_words(key, (2, *shape)), jnp.asarray(scale, jnp.float32))


def _as_discrete_laplace(words, scale):
    _, u = sign_and_tail(words)
    size = jnp.minimum(jnp.floor(-jnp.log(u) * scale), _LARGEST).astype(jnp.int32)
    return size[0] - size[1]


def discrete_gaussian(key, scale, shape=()):
    """k with probability proportional to e^(-k^2 / (2 scale^2)), (*shape) int32; 0 at scale 0.

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
        distance = (jnp.abs(y).astype(jnp.float32) - scale * (scale / wide)) / scale
        passed = jr.uniform(level_key, shape) < jnp.exp(-0.5 * distance * distance)
        return index + 1, jnp.where(passed & ~accepted, y, found), accepted | passed

    # For a scale that is 0, NaN or infinite no proposal would ever be accepted.
    hopeless = jnp.broadcast_to(~((scale > 0.0) & (scale < jnp.inf)), shape)
    start = (jnp.zeros((), jnp.int32), jnp.zeros(shape, jnp.int32), hopeless)
    return lax.while_loop(lambda carry: ~jnp.all(carry[2]), propose, start)[1]


def skellam(key, variance, shape=()):
    """The difference of two Poisson variables of mean variance / 2 each, (*shape) int32.

    In place of a Poisson variable of mean m it draws Bin(n, p) with n = 2^31 - 1 and the p for
    which n p (1 - p) is m. Each of the two is within p of its Poisson law in total variation, which
    is variance / 2^32.
    """
    if shape:
        keys = jr.split(key, math.prod(shape))
        return jax.vmap(lambda key: skellam(key, variance))(keys).reshape(shape)
    ones_key, others_key = jr.split(key)
    share = 0.5 * jnp.asarray(variance, jnp.float32) / _TRIALS
    p = share * (1.0 + share)
    return binomial(ones_key, _TRIALS, p) - binomial(others_key, _TRIALS, p)
