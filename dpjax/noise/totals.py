"""Sums that are not rounded, with noise added: an :class:`ExactSum` comes in and goes out."""

import jax
import jax.numpy as jnp
from jax import random as jr

from dpjax.maths import exact_sums, integer_laws
from dpjax.maths.exact_sums import ExactSum
from dpjax.maths.laws import as_laplace, binomial, log_gamma, normal, random_words


def laplace_total(key, total, scale) -> ExactSum:
    """An ExactSum plus independent Laplace noise of this scale. The sum is not rounded to float32.

    So the noise hides one loss among any number of losses. (Noise of scale 1 changes a float32 sum
    of 2^27 only one time in a hundred.) The noise is a float32, rounded to a multiple of 2^-30. A
    result beyond 2^31 is cut off, which begins to matter at a scale of 10^8. So is one with a scale
    that is not a number.

    Examples:
      >>> from dpjax.maths import exact_sums
      >>> noisy = noise.laplace_total(jax.random.key(0), exact_sums.of(2.5), 0.0)
      >>> float(exact_sums.to_float(noisy))
      2.5
    """
    return ExactSum(*laplace_words(key, jnp.stack(total), scale))


@jax.jit
def laplace_words(key, value, scale):
    """:func:`laplace_total` for the two words of a sum, (2, *shape) int32.

    Examples:
      >>> words = jnp.array([2, 2**29])  # 2.5
      >>> noisy = noise.laplace_words(jax.random.key(0), words, 0.0)
      >>> bool((noisy == words).all())
      True
    """
    draw = as_laplace(random_words(key, value.shape[1:]))
    return _with_noise(value, jnp.asarray(scale, jnp.float32) * draw)


def _with_noise(words, draw):
    return jnp.stack(exact_sums.shifted(ExactSum(*words), draw))


def laplace_sum(key, total, scale, count) -> ExactSum:
    """An ExactSum plus the sum of ``count`` independent Laplace draws of this scale.

    It is as exact as :func:`laplace_total`. A Laplace variable has the law of a Gaussian variable
    with the random variance 2 E scale^2, where E is exponential. So the sum of the draws has the
    law of a Gaussian variable with variance 2 G scale^2, where G is a Gamma variable of shape
    count. Where count is large, float32 distorts the tails of G, but G then hardly differs from
    count.

    Examples:
      >>> from dpjax.maths import exact_sums
      >>> noisy = noise.laplace_sum(jax.random.key(0), exact_sums.of(2.5), 1.0, 0)
      >>> float(exact_sums.to_float(noisy))  # of no draws
      2.5
    """
    return ExactSum(*laplace_sum_words(key, jnp.stack(total), scale, count))


@jax.jit
def laplace_sum_words(key, value, scale, count):
    """:func:`laplace_sum` for the two words of a sum, (2, *shape) int32.

    Examples:
      >>> words = jnp.array([2, 2**29])  # 2.5
      >>> noisy = noise.laplace_sum_words(jax.random.key(0), words, 1.0, 0)  # of no draws
      >>> bool((noisy == words).all())
      True
    """
    gamma_key, normal_key = jr.split(key)
    shape = value.shape[1:]
    count = jnp.broadcast_to(jnp.asarray(count), shape).astype(jnp.float32)
    mixed = jnp.exp(log_gamma(gamma_key, jnp.maximum(count, 1.0)))
    mixed = jnp.where(count > 0.0, mixed, 0.0)
    draw = jnp.sqrt(2.0 * mixed) * normal(normal_key, shape)
    return _with_noise(value, jnp.asarray(scale, jnp.float32) * draw)


def gaussian_total(key, total, scale) -> ExactSum:
    """As :func:`laplace_total`, with Gaussian noise of standard deviation ``scale``.

    Examples:
      >>> from dpjax.maths import exact_sums
      >>> noisy = noise.gaussian_total(jax.random.key(0), exact_sums.of(2.5), 0.0)
      >>> float(exact_sums.to_float(noisy))
      2.5
    """
    return ExactSum(*gaussian_words(key, jnp.stack(total), scale))


@jax.jit
def gaussian_words(key, value, scale):
    """:func:`gaussian_total` for the two words of a sum, (2, *shape) int32.

    Examples:
      >>> words = jnp.array([2, 2**29])  # 2.5
      >>> noisy = noise.gaussian_words(jax.random.key(0), words, 0.0)
      >>> bool((noisy == words).all())
      True
    """
    return _with_noise(value, jnp.asarray(scale, jnp.float32) * normal(key, value.shape[1:]))


def discrete_laplace_total(key, total, scale) -> ExactSum:
    """An ExactSum () plus an integer k with probability proportional to e^(-|k| / scale).

    It hides changes by integers alone, as do :func:`discrete_gaussian_total`,
    :func:`binomial_total` and :func:`skellam_total`. So the losses in the sum have to be integers.

    Examples:
      >>> from dpjax.maths import exact_sums
      >>> noisy = noise.discrete_laplace_total(jax.random.key(0), exact_sums.of(2.5), 2.0)
      >>> float(exact_sums.to_float(noisy) % 1.0)  # the noise is an integer
      0.5
    """
    return ExactSum(*discrete_laplace_words(key, jnp.stack(total), scale))


@jax.jit
def discrete_laplace_words(key, value, scale):
    """:func:`discrete_laplace_total` for the two words of a sum, (2,) int32.

    Examples:
      >>> words = jnp.array([2, 2**29])  # 2.5
      >>> noisy = noise.discrete_laplace_words(jax.random.key(0), words, 2.0)
      >>> int(noisy[1] - words[1])  # the noise is an integer
      0
    """
    return _with_noise(value, integer_laws.discrete_laplace(key, scale))


def discrete_gaussian_total(key, total, scale) -> ExactSum:
    """An ExactSum () plus an integer k with probability proportional to e^(-k^2 / (2 scale^2)).

    Examples:
      >>> from dpjax.maths import exact_sums
      >>> noisy = noise.discrete_gaussian_total(jax.random.key(0), exact_sums.of(2.5), 2.0)
      >>> float(exact_sums.to_float(noisy) % 1.0)  # the noise is an integer
      0.5
    """
    return ExactSum(*discrete_gaussian_words(key, jnp.stack(total), scale))


@jax.jit
def discrete_gaussian_words(key, value, scale):
    """:func:`discrete_gaussian_total` for the two words of a sum, (2,) int32.

    Examples:
      >>> words = jnp.array([2, 2**29])  # 2.5
      >>> noisy = noise.discrete_gaussian_words(jax.random.key(0), words, 2.0)
      >>> int(noisy[1] - words[1])  # the noise is an integer
      0
    """
    return _with_noise(value, integer_laws.discrete_gaussian(key, scale))


def skellam_total(key, total, variance) -> ExactSum:
    """An ExactSum () plus the difference of two Poisson variables of mean variance / 2 each.

    Examples:
      >>> from dpjax.maths import exact_sums
      >>> noisy = noise.skellam_total(jax.random.key(0), exact_sums.of(2.5), 4.0)
      >>> float(exact_sums.to_float(noisy) % 1.0)  # the noise is an integer
      0.5
    """
    return ExactSum(*skellam_words(key, jnp.stack(total), variance))


@jax.jit
def skellam_words(key, value, variance):
    """:func:`skellam_total` for the two words of a sum, (2,) int32.

    Examples:
      >>> words = jnp.array([2, 2**29])  # 2.5
      >>> noisy = noise.skellam_words(jax.random.key(0), words, 4.0)
      >>> int(noisy[1] - words[1])  # the noise is an integer
      0
    """
    return _with_noise(value, integer_laws.skellam(key, variance))


def binomial_total(key, total, coins) -> ExactSum:
    """An ExactSum () plus Bin(coins, 1/2) - coins / 2: fair coins among the bits that are summed.

    ``coins`` is (), a whole number from 0 to 2^31 - 1.

    Examples:
      >>> from dpjax.maths import exact_sums
      >>> noisy = noise.binomial_total(jax.random.key(0), exact_sums.of(2.5), 4)
      >>> float(exact_sums.to_float(noisy) % 1.0)  # the noise is an integer
      0.5
    """
    return ExactSum(*binomial_words(key, jnp.stack(total), coins))


@jax.jit
def binomial_words(key, value, coins):
    """:func:`binomial_total` for the two words of a sum, (2,) int32.

    Examples:
      >>> words = jnp.array([2, 2**29])  # 2.5
      >>> noisy = noise.binomial_words(jax.random.key(0), words, 4)
      >>> int(noisy[1] - words[1])  # the noise is an integer
      0
    """
    coins = jnp.asarray(coins)
    whole = coins.astype(jnp.int32)
    draw = (binomial(key, whole, 0.5) - (whole >> 1)).astype(jnp.float32)
    draw = draw - 0.5 * (whole & 1).astype(jnp.float32)
    return _with_noise(value, jnp.where(jnp.isnan(coins), jnp.nan, draw))
