"""Privacy of a group of changes, such as all rounds of one user, from that of a single change."""

import jax.numpy as jnp

from dpjax.core import Array, Number
from dpjax.privacy.continuous import _real


def group_privacy(epsilon: Number, delta: Number, size: int) -> tuple[Array, Array]:
    """The (epsilon, delta) of ``size`` changes at once, from that of one change.

    It is (k epsilon, delta (e^(k epsilon) - 1) / (e^epsilon - 1)) for k = size, with delta at most
    1. It follows from k steps, each to a neighbour (for delta = 0: Dwork & Roth 2014, Theorem 2.2).
    The trade-off function of (epsilon, delta)-DP allows no smaller values. rho-zCDP becomes
    k^2 rho-zCDP, and mu-GDP becomes k mu-GDP. If epsilon is infinite, delta does not change.

    Examples:
      >>> epsilon, delta = privacy.group_privacy(0.5, 1e-6, 4)
      >>> print(f"{epsilon:.3g}, {delta:.3g}")
      2, 9.85e-06
    """
    epsilon, delta = _real(epsilon), _real(delta)
    most = jnp.exp((size - 1) * epsilon) * _share(epsilon, size)
    grown = jnp.where(delta > 0.0, jnp.minimum(most * delta, 1.0), 0.0)
    return _real(size * epsilon), jnp.where(epsilon < jnp.inf, grown, delta)


def individual_privacy(epsilon: Number, delta: Number, size: int) -> tuple[Array, Array]:
    """The (epsilon, delta) of one change such that ``size`` changes have the given values.

    The inverse of :func:`group_privacy`: (epsilon / k, delta (e^(epsilon / k) - 1) /
    (e^epsilon - 1)). Noise calibrated to these values hides all k rounds of a user.

    Examples:
      >>> epsilon, delta = privacy.individual_privacy(2.0, 1e-5, 4)
      >>> print(f"{epsilon:.3g}, {delta:.3g}")
      0.5, 1.02e-06
    """
    one, delta = _real(epsilon) / size, _real(delta)
    least = jnp.exp(-(size - 1) * one) / _share(one, size)
    return one, jnp.where(one < jnp.inf, least * delta, delta)


def _share(epsilon, size):
    """(1 - e^(-k epsilon)) / (1 - e^-epsilon), which is k at epsilon = 0."""
    ratio = jnp.expm1(-size * epsilon) / jnp.expm1(-jnp.where(epsilon > 0.0, epsilon, 1.0))
    return jnp.where(epsilon > 0.0, ratio, float(size))
