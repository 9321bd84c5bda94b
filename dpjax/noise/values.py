"""Numbers, vectors and matrices with noise added."""

import jax
import jax.numpy as jnp
from jax import random as jr

from dpjax.maths import integer_laws
from dpjax.maths.laws import as_laplace, centred_chi, normal, random_words


@jax.jit
def laplace(key, value, scale):
    """``value`` plus independent Laplace noise of density exp(-|x| / scale) / (2 scale).

    Examples:
      >>> key = jax.random.key(0)
      >>> noisy, noisier = noise.laplace(key, 0.0, 1.0), noise.laplace(key, 0.0, 2.0)
      >>> float(noisier / noisy)
      2.0
    """
    value = jnp.asarray(value)
    draw = as_laplace(random_words(key, value.shape)).astype(value.dtype)
    return value + jnp.asarray(scale, value.dtype) * draw


@jax.jit
def gaussian(key, value, scale):
    """``value`` plus independent Gaussian noise of standard deviation ``scale``.

    Examples:
      >>> key = jax.random.key(0)
      >>> noisy, noisier = noise.gaussian(key, 0.0, 1.0), noise.gaussian(key, 0.0, 2.0)
      >>> float(noisier / noisy)
      2.0
    """
    value = jnp.asarray(value)
    return value + jnp.asarray(scale, value.dtype) * normal(key, value.shape).astype(value.dtype)


@jax.jit
def discrete_laplace(key, value, scale):
    """``value`` plus independent integers k of probability proportional to e^(-|k| / scale).

    It hides changes by integers alone, as does :func:`discrete_gaussian`.

    Examples:
      >>> noisy = noise.discrete_laplace(jax.random.key(0), 0.25, 2.0)
      >>> float(noisy % 1.0)
      0.25
    """
    value = jnp.asarray(value)
    return value + integer_laws.discrete_laplace(key, scale, value.shape).astype(value.dtype)


@jax.jit
def discrete_gaussian(key, value, scale):
    """``value`` plus independent integers k of probability proportional to e^(-k^2/(2 scale^2)).

    Examples:
      >>> noisy = noise.discrete_gaussian(jax.random.key(0), 0.25, 2.0)
      >>> float(noisy % 1.0)
      0.25
    """
    value = jnp.asarray(value)
    return value + integer_laws.discrete_gaussian(key, scale, value.shape).astype(value.dtype)


@jax.jit
def skellam(key, value, scale):
    """``value`` plus independent Skellam variables of standard deviation ``scale``.

    Each is the difference of two Poisson variables of mean scale^2 / 2. They hide changes by
    integers alone.

    Examples:
      >>> traced = jax.make_jaxpr(noise.skellam)(jax.random.key(0), 0.0, 2.0)
      >>> traced.eqns[0].params["name"]  # the site that an audit sees
      'skellam'
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

    Examples:
      >>> noisy = noise.wishart(jax.random.key(0), jnp.eye(2), 1.0, 3.0)
      >>> bool(noisy[0, 1] == noisy[1, 0])
      True
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
def laplace_along(key, value, scale, weights):
    """``value`` () plus <Z, weights> for a vector Z of independent Laplace draws of this scale.

    This is the value of a noisy linear loss at the point ``weights`` (d,), where Z is the noise of
    the loss vector. A shift of the value changes the density of the release by a factor of at most
    e^(|shift| / (scale |weights|_inf)).

    Examples:
      >>> float(noise.laplace_along(jax.random.key(0), 0.5, 1.0, jnp.zeros(3)))  # weights 0
      0.5
    """
    draw = as_laplace(random_words(key, weights.shape))
    return value + jnp.sum(jnp.asarray(scale, weights.dtype) * draw * weights)
