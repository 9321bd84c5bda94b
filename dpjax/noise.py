"""All private releases of the package: values with noise added, and random choices.

Each function takes a key, which it consumes, and returns the noisy release. Scales are arguments:
:mod:`dpjax.privacy` computes a scale from epsilon. With a scale of 0 the value itself is returned.
Draws are float32 idealisations of the continuous laws; the Laplace draw, for instance, never
exceeds 22.2 scales.

Releases are marked. The functions named in SITES appear by name in the jaxpr of a learner's step,
where :mod:`dpjax.audit` finds what went in and what came out. Compilers inline these functions.
"""

import jax
import jax.numpy as jnp
from jax import random as jr

from dpjax.maths import exact_sums, integer_laws
from dpjax.maths.exact_sums import ExactSum
from dpjax.maths.laws import (
    as_laplace,
    binomial,
    centred_chi,
    log_gamma,
    normal,
    random_words,
    running_sum,
)


@jax.jit
def laplace(key, value, scale):
    """``value`` plus independent Laplace noise of density exp(-|x| / scale) / (2 scale)."""
    value = jnp.asarray(value)
    draw = as_laplace(random_words(key, value.shape)).astype(value.dtype)
    return value + jnp.asarray(scale, value.dtype) * draw


def laplace_total(key, total, scale) -> ExactSum:
    """An ExactSum plus independent Laplace noise of this scale. The sum is not rounded to float32.

    So the noise hides one loss among any number of losses. (Noise of scale 1 changes a float32 sum
    of 2^27 only one time in a hundred.) The noise is a float32, rounded to a multiple of 2^-30. A
    result beyond 2^31 is cut off, which begins to matter at a scale of 10^8.
    """
    return ExactSum(*laplace_words(key, jnp.stack(total), scale))


@jax.jit
def laplace_words(key, value, scale):
    """:func:`laplace_total` for the two words of a sum, (2, *shape) int32."""
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
    """
    return ExactSum(*laplace_sum_words(key, jnp.stack(total), scale, count))


@jax.jit
def laplace_sum_words(key, value, scale, count):
    """:func:`laplace_sum` for the two words of a sum, (2, *shape) int32."""
    gamma_key, normal_key = jr.split(key)
    shape = value.shape[1:]
    count = jnp.broadcast_to(jnp.asarray(count), shape).astype(jnp.float32)
    mixed = jnp.exp(log_gamma(gamma_key, jnp.maximum(count, 1.0)))
    mixed = jnp.where(count > 0.0, mixed, 0.0)
    draw = jnp.sqrt(2.0 * mixed) * normal(normal_key, shape)
    return _with_noise(value, jnp.asarray(scale, jnp.float32) * draw)


def gaussian_total(key, total, scale) -> ExactSum:
    """As :func:`laplace_total`, with Gaussian noise of standard deviation ``scale``."""
    return ExactSum(*gaussian_words(key, jnp.stack(total), scale))


@jax.jit
def gaussian_words(key, value, scale):
    """:func:`gaussian_total` for the two words of a sum, (2, *shape) int32."""
    return _with_noise(value, jnp.asarray(scale, jnp.float32) * normal(key, value.shape[1:]))


def discrete_laplace_total(key, total, scale) -> ExactSum:
    """An ExactSum () plus an integer k with probability proportional to e^(-|k| / scale).

    It hides changes by integers alone, as do :func:`discrete_gaussian_total`,
    :func:`binomial_total` and :func:`skellam_total`. So the losses in the sum have to be integers.
    """
    return ExactSum(*discrete_laplace_words(key, jnp.stack(total), scale))


@jax.jit
def discrete_laplace_words(key, value, scale):
    """:func:`discrete_laplace_total` for the two words of a sum, (2,) int32."""
    return _with_integer(value, integer_laws.discrete_laplace(key, scale))


def discrete_gaussian_total(key, total, scale) -> ExactSum:
    """An ExactSum () plus an integer k with probability proportional to e^(-k^2 / (2 scale^2))."""
    return ExactSum(*discrete_gaussian_words(key, jnp.stack(total), scale))


@jax.jit
def discrete_gaussian_words(key, value, scale):
    """:func:`discrete_gaussian_total` for the two words of a sum, (2,) int32."""
    return _with_integer(value, integer_laws.discrete_gaussian(key, scale))


def skellam_total(key, total, variance) -> ExactSum:
    """An ExactSum () plus the difference of two Poisson variables of mean variance / 2 each."""
    return ExactSum(*skellam_words(key, jnp.stack(total), variance))


@jax.jit
def skellam_words(key, value, variance):
    """:func:`skellam_total` for the two words of a sum, (2,) int32."""
    return _with_integer(value, integer_laws.skellam(key, variance))


def binomial_total(key, total, coins) -> ExactSum:
    """An ExactSum () plus Bin(coins, 1/2) - coins / 2: fair coins among the bits that are summed.

    ``coins`` is () int32, at least 0.
    """
    return ExactSum(*binomial_words(key, jnp.stack(total), coins))


@jax.jit
def binomial_words(key, value, coins):
    """:func:`binomial_total` for the two words of a sum, (2,) int32."""
    coins = jnp.asarray(coins).astype(jnp.int32)
    moved = _with_integer(value, binomial(key, coins, 0.5) - (coins >> 1))
    half = exact_sums.of(-0.5 * (coins & 1).astype(jnp.float32))
    return jnp.stack(exact_sums.add(ExactSum(*moved), half))


def _with_integer(words, draw):
    return words.at[0].add(draw)


@jax.jit
def randomized_response(key, value, scale, count):
    """How many of ``count`` bits are 1 after each was flipped by itself, () int32.

    Args:
      key: consumed.
      value: how many of the bits are 1 before, () int32.
      scale: 1 / epsilon, so that a bit is flipped with probability 1 / (1 + e^epsilon).
      count: () int32.
    """
    ones_key, zeros_key = jr.split(key)
    flip = 1.0 / (1.0 + jnp.exp(1.0 / jnp.asarray(scale, jnp.float32)))
    lost = binomial(ones_key, value, flip)
    return value - lost + binomial(zeros_key, count - value, flip)


@jax.jit
def laplace_along(key, value, scale, weights):
    """``value`` () plus <Z, weights> for a vector Z of independent Laplace draws of this scale.

    This is the value of a noisy linear loss at the point ``weights`` (d,), where Z is the noise of
    the loss vector. A shift of the value changes the density of the release by a factor of at most
    e^(|shift| / (scale |weights|_inf)).
    """
    draw = as_laplace(random_words(key, weights.shape))
    return value + jnp.sum(jnp.asarray(scale, weights.dtype) * draw * weights)


@jax.jit
def gaussian(key, value, scale):
    """``value`` plus independent Gaussian noise of standard deviation ``scale``."""
    value = jnp.asarray(value)
    return value + jnp.asarray(scale, value.dtype) * normal(key, value.shape).astype(value.dtype)


@jax.jit
def discrete_laplace(key, value, scale):
    """``value`` plus independent integers k of probability proportional to e^(-|k| / scale).

    It hides changes by integers alone, as does :func:`discrete_gaussian`.
    """
    value = jnp.asarray(value)
    return value + integer_laws.discrete_laplace(key, scale, value.shape).astype(value.dtype)


@jax.jit
def discrete_gaussian(key, value, scale):
    """``value`` plus independent integers k of probability proportional to e^(-k^2/(2 scale^2))."""
    value = jnp.asarray(value)
    return value + integer_laws.discrete_gaussian(key, scale, value.shape).astype(value.dtype)


@jax.jit
def skellam(key, value, scale):
    """``value`` plus independent Skellam variables of standard deviation ``scale``.

    Each is the difference of two Poisson variables of mean scale^2 / 2. They hide changes by
    integers alone.
    """
    value = jnp.asarray(value)
    variance = jnp.square(jnp.asarray(scale, jnp.float32))
    return value + integer_laws.skellam(key, variance, value.shape).astype(value.dtype)


@jax.jit
def wishart(key, value, scale, freedom):
    """``value`` (p, p) plus ``scale`` (W - k I), W ~ Wishart_p(I, k): centred Wishart noise.

    ``freedom`` is k, any number of at least p + 1. By Bartlett's decomposition W = A A' for
    A = sqrt(k) I + B with B lower triangular. Off the diagonal B is normal, and A_ii^2 ~
    chi-square(k - i) for i = 0 .. p - 1. So W - k I = sqrt(k) (B + B') + B B', where k has already
    cancelled. Subtracting k I from W in float32 would lose most of the digits.
    """
    value = jnp.asarray(value)
    size, dtype = value.shape[0], value.dtype
    k = jnp.asarray(freedom, dtype)
    normal_key, chi_key = jr.split(key)
    below = jnp.tril(normal(normal_key, (size, size)), -1)
    b = below + jnp.diag(centred_chi(chi_key, k, size))
    product = jnp.sum(b[:, None, :] * b[None, :, :], axis=2)
    return value + jnp.asarray(scale, dtype) * (jnp.sqrt(k) * (b + b.T) + product)


@jax.jit
def choose(key, probabilities):
    """An index drawn with the given probabilities, (n,) -> () int32.

    It inverts the distribution function at one uniform number of 23 bits, so an index whose
    probability is below 2^-23 is not drawn in proportion. An index of probability 0 is never drawn
    where the backend adds a running sum from left to right, as the CPU does.
    """
    cumulative = running_sum(probabilities)
    # The level is scaled by the computed total, so that the rounding of the sum favours no index.
    level = jr.uniform(key, dtype=cumulative.dtype) * cumulative[-1]
    return jnp.sum(level >= cumulative[:-1], dtype=jnp.int32)


@jax.jit
def least(key, value, scale):
    """The index of the smallest of ``value`` (n,) plus Laplace noise of this scale, () int32.

    The noisy values themselves are not released. Among equals the index is drawn uniformly.
    """
    draw = as_laplace(random_words(key, value.shape))
    noisy = value + jnp.asarray(scale, jnp.float32) * draw
    return jnp.argmin(jnp.where(noisy == jnp.min(noisy), draw, jnp.inf)).astype(jnp.int32)


@jax.jit
def exceeds(key, armed, threshold, value, scale):
    """Whether ``value`` is above ``threshold``, both with Laplace noise of this scale, () bool.

    The noise of the threshold is drawn from a key whose words are ``armed``, as ``jr.key_data`` has
    them. They are kept from one comparison to the next. Once the answer is True they have to be
    replaced by those of a fresh key.
    """
    own = jr.wrap_key_data(armed, impl=jr.key_impl(key))
    level = threshold + scale * as_laplace(random_words(own, ()))
    return value + scale * as_laplace(random_words(key, ())) > level


@jax.jit
def coin(key, probability):
    """True with the given probability, () bool."""
    return jr.uniform(key) < probability


@jax.jit
def laplace_prefix(release, key, value, scale, sensitivity):
    """``release``, marked as a prefix sum with Laplace noise that includes ``value``.

    Args:
      release: noisy sum of all values so far.
      key: the key from which the noise was drawn.
      value: the latest value.
      scale: scale of each draw.
      sensitivity: largest L1 norm of a column of the encoder.
    """
    del key, value, scale, sensitivity
    return release


@jax.jit
def gaussian_prefix(release, key, value, scale, sensitivity):
    """As :func:`laplace_prefix`, for Gaussian noise and the largest L2 norm."""
    del key, value, scale, sensitivity
    return release


@jax.jit
def discrete_laplace_prefix(release, key, value, scale, sensitivity):
    """As :func:`laplace_prefix`, for discrete Laplace noise and values that are integers."""
    del key, value, scale, sensitivity
    return release


@jax.jit
def discrete_gaussian_prefix(release, key, value, scale, sensitivity):
    """As :func:`gaussian_prefix`, for discrete Gaussian noise and values that are integers."""
    del key, value, scale, sensitivity
    return release


@jax.jit
def skellam_prefix(release, key, value, scale, nodes):
    """As :func:`gaussian_prefix`, for Skellam noise and values that are integers.

    ``nodes`` is the largest number of draws of the encoder that hide one value, each with weight 1.
    """
    del key, value, scale, nodes
    return release


SITES = (
    "laplace",
    "laplace_words",
    "laplace_sum_words",
    "gaussian_words",
    "discrete_laplace_words",
    "discrete_gaussian_words",
    "skellam_words",
    "binomial_words",
    "randomized_response",
    "laplace_along",
    "gaussian",
    "discrete_laplace",
    "discrete_gaussian",
    "skellam",
    "choose",
    "least",
    "exceeds",
    "coin",
    "laplace_prefix",
    "gaussian_prefix",
    "discrete_laplace_prefix",
    "discrete_gaussian_prefix",
    "skellam_prefix",
)
