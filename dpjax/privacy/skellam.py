"""Privacy of vectors with Skellam noise, and of several such releases, by Renyi divergences.

A value changes by an integer vector c, and each entry gets independent Skellam noise of variance
v = scale^2. By Agarwal, Kairouz & Liu 2021, "The Skellam mechanism for differentially private
federated learning", Theorem 3.5, the Renyi divergence of each integer order a >= 2 is at most

    a |c|_2^2 / (2 v) + min(((2 a - 1) |c|_2^2 + 6 |c|_1) / (4 v^2), 3 |c|_1 / (2 v)).

The first term is that of Gaussian noise, and the second one vanishes as v grows. Divergences of
adaptive releases add up (Mironov 2017). For a single integer :func:`dpjax.privacy.skellam_epsilon`
is exact.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dpjax.privacy.continuous import _real

# The least epsilon over these orders is within a percent of that over all integers from 2 on, down
# to epsilon = 1e-12.
_ORDERS = np.unique(
    np.round(
        np.concatenate(
            [np.arange(2, 40), np.geomspace(40, 2**24, 240), np.geomspace(2**24, 2**50, 256)]
        )
    )
)
# The scale is sought between these powers of 2, times the L2 norm of the change.
_LOWEST, _HIGHEST, _HALVINGS = -10.0, 50.0, 41


def skellam_renyi(order, change, scale):
    """The bound above on the Renyi divergence of an order, (...) in the shape of the order.

    Args:
      order: a, integers of at least 2.
      change: (L1, L2) norms of the change, two numbers.
      scale: standard deviation of the noise in each entry.

    Examples:
      >>> [round(float(privacy.skellam_renyi(2, (1.0, 1.0), scale)), 4) for scale in (1.0, 10.0)]
      [2.5, 0.0102]
    """
    order, (l1, l2), scale = _real(order), map(_real, change), _real(scale)
    squared, inverse = jnp.square(l2), 1.0 / jnp.square(scale)
    near = 0.25 * ((2.0 * order - 1.0) * squared + 6.0 * l1) * jnp.square(inverse)
    found = 0.5 * order * jnp.square(l2 / scale) + jnp.minimum(near, 1.5 * l1 * inverse)
    return jnp.where(l1 > 0.0, found, 0.0)


def skellam_vector_epsilon(change, scale, delta):
    """An epsilon at delta of vectors with Skellam noise, (), from :func:`skellam_renyi`.

    From divergences D_a it is the least D_a + ln(1 - 1 / a) - ln(delta a) / (a - 1) over orders a
    (Canonne, Kamath & Steinke 2020, Proposition 12).

    Args:
      change: (L1, L2) norms of the change, two numbers; or of the changes of n adaptive releases,
        two arrays (n,).
      scale: standard deviation of the noise in each entry, () or (n,).
      delta: in (0, 1).

    Examples:
      >>> epsilon_of = jax.jit(privacy.skellam_vector_epsilon)
      >>> [round(float(epsilon_of((2.0, 1.4), scale, 1e-6)), 2) for scale in (5.0, 10.0)]
      [1.32, 0.62]
    """
    arrays = (jnp.atleast_1d(_real(number)) for number in (*change, scale))
    l1, l2, scale = jnp.broadcast_arrays(*arrays)
    each = jax.vmap(lambda *release: skellam_renyi(_ORDERS, release[:2], release[2]))(l1, l2, scale)
    found = _from_renyi(jnp.sum(each, axis=0), _real(delta))
    return jnp.where(jnp.any(l1 > 0.0), found, 0.0)


def skellam_vector_scale(change, epsilon, delta):
    """The least scale whose :func:`skellam_vector_epsilon` at delta is at most epsilon, ().

    It is 0 at epsilon = inf, and inf where epsilon asks for more than 2^50 times the L2 norm.

    Args:
      change: (L1, L2) norms of the change, two numbers.
      epsilon: may be traced.
      delta: in (0, 1); may be traced.

    Examples:
      >>> scale = privacy.skellam_vector_scale((2.0, 1.4), 1.0, 1e-6)
      >>> print(f"{scale:.3g}")
      6.43
    """
    return _solve_scale(*jnp.broadcast_arrays(*map(_real, (*change, epsilon, delta))))


def _from_renyi(divergences, delta):
    orders = _real(_ORDERS)
    tails = (jnp.log(delta) + jnp.log(orders)) / (orders - 1.0)
    return jnp.maximum(jnp.min(divergences + jnp.log1p(-1.0 / orders) - tails), 0.0)


# It is jitted, since factories are also called eagerly, and solved one by one under vmap, so that
# the last bit does not depend on what is solved beside it.
@jax.jit
@jax.custom_batching.sequential_vmap
def _solve_scale(l1, l2, epsilon, delta):
    def enough(power):
        scale = l2 * jnp.exp2(power)
        return _from_renyi(skellam_renyi(_ORDERS, (l1, l2), scale), delta) <= epsilon

    def halve(_, ends):
        low, high = ends
        middle = 0.5 * (low + high)
        found = enough(middle)
        return jnp.where(found, low, middle), jnp.where(found, middle, high)

    ends = jnp.full_like(l2, _LOWEST), jnp.full_like(l2, _HIGHEST)
    _, power = lax.fori_loop(0, _HALVINGS, halve, ends)
    # Its logarithm is rounded by less than a millionth. A power that was found is not tried again,
    # since another program may round otherwise.
    solved = (power < _HIGHEST) | enough(power)
    found = jnp.where(solved, (1.0 + 2e-6) * l2 * jnp.exp2(power), jnp.inf)
    found = jnp.where((epsilon < jnp.inf) & (l1 > 0.0), found, 0.0)
    return jnp.where(jnp.isnan(epsilon), jnp.nan, found)
