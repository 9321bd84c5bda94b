"""Centred Wishart noise for matrices. A replay does not see it as a release."""

import jax
import jax.numpy as jnp
from jax import random as jr

from dpjax.core import Array, Number, _check
from dpjax.maths.laws import centred_chi, normal


def wishart(key: Array, value: Array, scale: Number, freedom: Number) -> Array:
    """``value`` (p, p) plus ``scale`` (W - k I), W ~ Wishart_p(I, k): centred Wishart noise.

    ``freedom`` is k, any number of at least p + 1. By Bartlett's decomposition W = A A' for
    A = sqrt(k) I + B with B lower triangular. Off the diagonal B is normal, and A_ii^2 ~
    chi-square(k - i) for i = 0 .. p - 1. So W - k I = sqrt(k) (B + B') + B B', without a
    subtraction of k I. This subtraction in float32 would lose most digits.

    Examples:
      >>> noisy = noise.wishart(jax.random.key(0), jnp.eye(2), 1.0, 3.0)
      >>> bool(noisy[0, 1] == noisy[1, 0])
      True
    """
    _check.key(key=key)
    return _wishart(key, value, scale, freedom)


@jax.jit
def _wishart(key, value, scale, freedom):
    value = jnp.asarray(value)
    size, dtype = value.shape[0], value.dtype
    k = jnp.asarray(freedom, dtype)
    normal_key, chi_key = jr.split(key)
    below = jnp.tril(normal(normal_key, (size, size)), -1)
    b = below + jnp.diag(centred_chi(chi_key, k, size))
    product = jnp.sum(b[:, None, :] * b[None, :, :], axis=2)
    return value + jnp.asarray(scale, dtype) * (jnp.sqrt(k) * (b + b.T) + product)
