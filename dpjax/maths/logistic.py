"""Gradients of logistic losses."""

import jax
import jax.numpy as jnp
from jax import lax

from dpjax.core import Number


@jax.jit
def gradient_ball(length: Number):
    """The smallest ball that contains all gradients at a parameter of length rho: (centre, radius).

    Gradients are (mu(<theta, x>) - y) x for |x| <= 1 and 0 <= y <= 1, with mu logistic. The centre
    is c theta / |theta|. The radius is half of the diameter D of the gradients, which is

        D / 2 = max over u of mu(rho u) sqrt(1 - u^2),   rho = |theta|,

    and c = mu(rho u) u for the maximizing u. This u solves u = rho (1 - u^2) mu(-rho u) and is
    found by bisection. In numerical tests up to rho = 200, this ball contains all gradients.

    Args:
      length: rho, (*shape).

    Returns:
      c and D / 2, (*shape).
    """
    length = jnp.asarray(length, jnp.float32)

    def halve(_, ends):
        low, high = ends
        u = 0.5 * (low + high)
        above = u > length * (1.0 - u * u) * jax.nn.sigmoid(-length * u)
        return jnp.where(above, low, u), jnp.where(above, u, high)

    _, u = lax.fori_loop(0, 24, halve, (jnp.zeros_like(length), jnp.ones_like(length)))
    largest = jax.nn.sigmoid(length * u)
    return largest * u, largest * jnp.sqrt(1.0 - u * u)
