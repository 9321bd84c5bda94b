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

    Examples:
      >>> traced = jax.make_jaxpr(noise.randomized_response)(jax.random.key(0), 3, 1.0, 10)
      >>> traced.eqns[0].params["name"]  # the site that an audit sees
      'randomized_response'
    """
    ones_key, zeros_key = jr.split(key)
    scale = jnp.asarray(scale, jnp.float32)
    flip = jnp.where(jnp.isnan(scale), 0.5, 1.0 / (1.0 + jnp.exp(1.0 / scale)))
    lost = binomial(ones_key, value, flip)
    return value - lost + binomial(zeros_key, count - value, flip)


@jax.jit
def choose(key, probabilities):
    """An index drawn with the given probabilities, (n,) -> () int32.

    It inverts the distribution function at one uniform number of 23 bits, so an index whose
    probability is below 2^-23 is not drawn in proportion. An index of probability 0 is never drawn
    where the backend adds a running sum from left to right, as the CPU does.

    Examples:
      >>> int(noise.choose(jax.random.key(0), jnp.array([0.0, 1.0, 0.0])))
      1
    """
    cumulative = running_sum(probabilities)
    # The level is scaled by the computed total, so that the rounding of the sum favours no index.
    level = jr.uniform(key, dtype=cumulative.dtype) * cumulative[-1]
    return jnp.sum(level >= cumulative[:-1], dtype=jnp.int32)


@jax.jit
def least(key, value, scale):
    """The index of the smallest of ``value`` (n,) plus Laplace noise of this scale, () int32.

    The noisy values themselves are not released. Among equals the index is drawn uniformly.

    Examples:
      >>> int(noise.least(jax.random.key(0), jnp.array([50.0, 0.0, 70.0]), 1.0))
      1
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

    Examples:
      >>> key, other = jax.random.split(jax.random.key(0))
      >>> armed = jax.random.key_data(other)
      >>> [bool(noise.exceeds(key, armed, 100.0, value, 1.0)) for value in (0.0, 200.0)]
      [False, True]
    """
    own = jr.wrap_key_data(armed, impl=jr.key_impl(key))
    level = threshold + scale * as_laplace(random_words(own, ()))
    return value + scale * as_laplace(random_words(key, ())) > level


@jax.jit
def coin(key, probability):
    """True with the given probability, () bool.

    Examples:
      >>> key = jax.random.key(0)
      >>> [bool(noise.coin(key, probability)) for probability in (0.0, 1.0)]
      [False, True]
    """
    return jr.uniform(key) < probability
