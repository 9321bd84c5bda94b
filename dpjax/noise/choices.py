"""Random choices: an index, a truth value, or bits that are flipped."""

import jax
import jax.numpy as jnp
from jax import random as jr

from dpjax.maths.laws import as_laplace, binomial, random_words, running_sum


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
