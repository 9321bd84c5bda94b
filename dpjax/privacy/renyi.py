"""Renyi divergences of a release at fixed orders, and the epsilon that they imply at a delta.

zCDP bounds the divergence of each order alpha by rho alpha. For a coin with a small probability
this bound is far too large. Divergences of one order add up over adaptive releases (Mironov 2017,
Proposition 1).
"""

import jax.numpy as jnp
import numpy as np

from dpjax.core import Array, Number
from dpjax.privacy.continuous import _log_inverse, _real

# alpha - 1 for the orders alpha at which divergences are computed, (128,). The least epsilon over
# them is within half a percent of the least over all orders.
_EXCESS = np.geomspace(1e-2, 1e6, 128)


def zcdp_divergences(rho: Number) -> Array:
    """rho alpha at the orders alpha of :func:`renyi_divergences`, (..., 128) for rho (...).

    Examples:
      >>> divergences = privacy.zcdp_divergences(0.5)
      >>> divergences.shape, round(float(divergences[0]), 3)
      ((128,), 0.505)
    """
    orders = jnp.broadcast_to(_real(1.0 + _EXCESS), (*jnp.shape(rho), _EXCESS.size))
    return _real(rho)[..., None] * orders


def renyi_divergences(law: Array, log_ratios: Array) -> Array:
    """D_alpha(P || Q) = ln(sum_m P(m) (P(m) / Q(m))^(alpha - 1)) / (alpha - 1), at 128 orders.

    The orders alpha are between 1.01 and 10^6, in geometric steps of alpha - 1. A bound on the
    rounding error, a few units in the last place of the largest log-ratio, is added.

    Args:
      law: P (n,), the probabilities of n outcomes.
      log_ratios: ln(P / Q) (n,).

    Returns:
      (128,), each at least 0; inf if an outcome of P is impossible under Q.

    Examples:
      >>> law, other = jnp.array([0.01, 0.99]), jnp.array([0.02, 0.98])
      >>> bound = float(jnp.max(jnp.abs(jnp.log(law / other))))
      >>> found = privacy.renyi_divergences(law, jnp.log(law / other))
      >>> bool(jnp.all(found <= 1.00001 * bound))
      True
    """
    law, log_ratios = _real(law), _real(log_ratios)
    steps = _real(_EXCESS)
    # An outcome of probability 0 adds nothing, for any ratio.
    ratios = jnp.where(law > 0.0, jnp.where(jnp.isnan(log_ratios), jnp.inf, log_ratios), 0.0)
    divergences = (
        jnp.log1p(jnp.sum(jnp.expm1(jnp.outer(steps, ratios)) * law[None], axis=1)) / steps
    )
    rounding = 8.0 * jnp.finfo(law.dtype).eps * jnp.max(jnp.abs(ratios))
    # The largest log-ratio bounds all orders, including those at which the sum overflows.
    divergences = jnp.minimum(
        jnp.where(jnp.isnan(divergences), jnp.inf, divergences), jnp.max(ratios)
    )
    return jnp.maximum(divergences, 0.0) + rounding


def renyi_epsilon(divergences: Array, delta: Number) -> Array:
    """The least epsilon at delta that divergences imply, at least 0, (...).

    The minimum over alpha of D_alpha + ln(1 - 1/alpha) - (ln delta + ln alpha) / (alpha - 1)
    (Canonne, Kamath & Steinke 2020, Proposition 12).

    Args:
      divergences: (..., 128), the larger of both directions.
      delta: in (0, 1).

    Examples:
      >>> found = privacy.renyi_epsilon(privacy.zcdp_divergences(0.04), 1e-6)
      >>> round(float(found), 2), round(float(privacy.zcdp_epsilon(0.04, 1e-6)), 2)
      (1.31, 1.3)
    """
    steps = _real(_EXCESS)
    log_orders = jnp.log1p(steps)
    converted = (_log_inverse(delta) - log_orders) / steps - jnp.log1p(1.0 / steps)
    epsilons = jnp.asarray(divergences) + jnp.broadcast_to(converted, jnp.shape(divergences))
    return jnp.maximum(jnp.min(epsilons, axis=-1), 0.0)
