"""Random choices: an index, a truth value, or randomly flipped bits."""

import jax.numpy as jnp
from jax import random as jr

from dpjax.core import Array, Number
from dpjax.maths.laws import (
    as_laplace,
    below,
    binomial,
    index_of,
    index_of_powers,
    random_words,
)
from dpjax.noise._laplace import laplace
from dpjax.noise.release import kind, release


def randomized_response(key: Array, value: Array, scale: Number, count: Array) -> Array:
    """The number of ones among ``count`` bits after each is flipped independently, () int32.

    Args:
      key: consumed.
      value: the number of ones before any bit is flipped, () int32.
      scale: 1 / epsilon; each bit is flipped with probability 1 / (1 + e^epsilon).
      count: () int32.

    Examples:
      >>> int(noise.randomized_response(jax.random.key(0), 3, 0.0, 10))  # nothing is flipped
      3
    """
    return release("flips", None, key, value, scale, count)


@kind("flips")
def _flips(_, key, value, scale, count):
    ones_key, zeros_key = jr.split(key)
    scale = jnp.asarray(scale, jnp.float32)
    flip = jnp.where(jnp.isnan(scale), 0.5, 1.0 / (1.0 + jnp.exp(1.0 / scale)))
    lost = binomial(ones_key, value, flip)
    return value - lost + binomial(zeros_key, count - value, flip)


def choose(key: Array, probabilities: Array) -> Array:
    """An index drawn with the given probabilities, (n,) -> () int32.

    Probabilities must add up to 1, up to rounding. They are rounded to multiples of a unit, which
    is 2^-55 for at most eight indices and 2^-48 for a million. An index is then drawn in proportion
    to them, with 60 random bits. For at most eight indices, each probability is off by at most
    2^-53. An index of probability 0 is never drawn.

    Examples:
      >>> int(noise.choose(jax.random.key(0), jnp.array([0.0, 1.0, 0.0])))
      1
    """
    return release("choice", None, key, probabilities)


@kind("choice")
def _choice(_, key, probabilities):
    return index_of(key, probabilities)


def categorical(key: Array, logits: Array) -> Array:
    """An index drawn from softmax(logits), (n,) -> () int32: the exponential mechanism.

    The largest logit is subtracted, so a weight is e^-x with x >= 0. For weights near 1 the digits
    of 1 - e^-x are kept, so a small difference of two logits is not rounded away: the logarithm of
    a weight is off by at most 2^-20 x. An index is drawn as in :func:`choose`, with weights in
    units of 2^-55 if there are two. An index with a weight below a unit is never drawn. Audits
    compute the privacy loss from the logits, even if a weight is rounded to 0.

    Examples:
      >>> int(noise.categorical(jax.random.key(0), jnp.array([-jnp.inf, 0.0, -1000.0])))
      1
    """
    return release("categorical", None, key, logits)


@kind("categorical")
def _categorical(_, key, logits):
    return index_of_powers(key, jnp.max(logits) - logits)


def least(key: Array, value: Array, scale: Number) -> Array:
    """The index of the smallest of ``value`` (n,) plus Laplace noise of this scale, () int32.

    The noisy values themselves are not released. Ties are broken uniformly at random.

    Examples:
      >>> int(noise.least(jax.random.key(0), jnp.array([50.0, 0.0, 70.0]), 1.0))
      1
    """
    return release("least", laplace, key, value, scale)


@kind("least")
def _least(_, key, value, scale):
    draw = as_laplace(random_words(key, value.shape))
    noisy = value + jnp.asarray(scale, jnp.float32) * draw
    return jnp.argmin(jnp.where(noisy == jnp.min(noisy), draw, jnp.inf)).astype(jnp.int32)


def exceeds(key: Array, armed: Array, threshold: Number, value: Array, scale: Number) -> Array:
    """Whether ``value`` is above ``threshold``, both with Laplace noise of this scale, () bool.

    The noise on the threshold is drawn from the key with the words ``armed``, as returned by
    ``jr.key_data``. Keep these words from one comparison to the next. After an answer of True,
    replace them by the words of a fresh key.

    Examples:
      >>> key, other = jax.random.split(jax.random.key(0))
      >>> armed = jax.random.key_data(other)
      >>> [bool(noise.exceeds(key, armed, 100.0, value, 1.0)) for value in (0.0, 200.0)]
      [False, True]
    """
    return release("comparison", laplace, key, armed, threshold, value, scale)


@kind("comparison")
def _comparison(_, key, armed, threshold, value, scale):
    noise_key = jr.wrap_key_data(armed, impl=jr.key_impl(key))
    level = threshold + scale * as_laplace(random_words(noise_key, ()))
    return value + scale * as_laplace(random_words(key, ())) > level


def coin(key: Array, probability: Array) -> Array:
    """True with the given probability, () bool.

    Args:
      key: consumed.
      probability: (), or (n,) parts that add up to it. Each part is rounded to a multiple of 2^-60,
        and then the parts are added without error. So a small part that depends on data keeps its
        digits, even next to a large part that does not depend on data.

    Examples:
      >>> key = jax.random.key(0)
      >>> [bool(noise.coin(key, probability)) for probability in (0.0, 1.0, jnp.array([0.5, 0.5]))]
      [False, True, True]
    """
    return release("coin", None, key, probability)


@kind("coin")
def _coin(_, key, probability):
    return below(key, jnp.atleast_1d(probability.astype(jnp.float32)))
