"""Divergences of Bernoulli laws, and confidence bounds from them.

The arguments ``x`` and ``y`` are means in [0, 1], float32 arrays that broadcast; ``x`` is an
empirical mean of losses.
"""

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import xlog1py, xlogy

from dpjax.core import Array, Number

# e^-epsilon is 0 in float32 for epsilon >= 104, and 0 times this is still 0.
_INFINITE = 1e6


def kl(x: Number | np.ndarray, y: Number | np.ndarray) -> Array:
    """kl(x, y) = x ln(x / y) + (1 - x) ln((1 - x) / (1 - y)) of Bernoulli laws; it can be inf.

    Examples:
      >>> [f"{divergences.kl(0.5, y):.3g}" for y in (0.5, 0.25, 0.0)]
      ['0', '0.144', 'inf']
    """
    entropy = xlogy(x, x) + xlog1py(1.0 - x, -x)
    return jnp.maximum(entropy - xlogy(x, y) - xlog1py(1.0 - x, -y), 0.0)


def log_gap(ratio: Number | np.ndarray, quotient: Number | np.ndarray) -> Array:
    """r - ln(q) >= 0 for q = 1 + r > 0, accurate for small r and small q too.

    Examples:
      >>> [f"{divergences.log_gap(r, 1.0 + r):.3g}" for r in (0.0, 0.01, 1.0)]
      ['0', '4.97e-05', '0.307']
    """
    # For |r| >= 0.1 the difference has five correct digits. For smaller |r| a series is used.
    series = 0.0
    for n in range(9, 1, -1):
        series = (-1) ** n / n + ratio * series
    return jnp.where(jnp.abs(ratio) < 0.1, series * ratio * ratio, ratio - jnp.log(quotient))


def kl_lower(x: Number | np.ndarray, radius: Number | np.ndarray) -> Array:
    """The smallest y in [0, x] with kl(x, y) <= radius, for radius >= 0.

    With d = x - y, kl(x, y) = x f(-d / x) + (1 - x) f(d / (1 - x)) for f(r) = r - ln(1 + r). Both
    terms are nonnegative and do not cancel. In u = ln y kl is convex, and Newton's method solves
    kl(x, y) = radius from the left. It starts at the larger of two lower bounds on the root. One is
    Pinsker's x - sqrt(radius / 2). The other is exp(-(radius + h) / x) with the entropy h of x, the
    root in the limit of small y. (Garivier & Cappe 2011 use the mirror image, an upper bound for
    gains. Near 0 float32 has more digits than near 1.)

    Examples:
      >>> low = divergences.kl_lower(0.5, 0.1)
      >>> print(f"{low:.3g} has divergence {divergences.kl(0.5, low):.3g}")
      0.287 has divergence 0.1
    """
    x, radius = jnp.broadcast_arrays(jnp.asarray(x, jnp.float32), jnp.asarray(radius, jnp.float32))
    inside = (x > 0.0) & (radius > 0.0)
    # Otherwise the result is not used, and 0.5 keeps it finite.
    x_ = jnp.where(inside, x, 0.5)
    rest = jnp.maximum(1.0 - x_, 1e-30)
    entropy = -xlogy(x_, x_) - xlog1py(1.0 - x_, -x_)
    tail = jnp.exp(-(radius + entropy) / x_)
    start = jnp.clip(jnp.maximum(x_ - jnp.sqrt(0.5 * radius), tail), 1e-37, x_)

    def newton(_, y):
        d = x_ - y
        excess = x_ * log_gap(-d / x_, y / x_) + rest * log_gap(d / rest, (1.0 - y) / rest)
        slope = jnp.maximum(d, 1e-37) / (1.0 - y)  # of kl in -ln y
        # Rounding could move y beyond x.
        return jnp.minimum(y * jnp.exp(jnp.minimum((excess - radius) / slope, 80.0)), x_)

    y = lax.fori_loop(0, 8, newton, start)
    return jnp.where(inside, y, jnp.where(x > 0.0, x, 0.0))


def d_epsilon(
    x: Number | np.ndarray, y: Number | np.ndarray, epsilon: Number | np.ndarray
) -> Array:
    """inf over z in [y, x] of epsilon (x - z) + kl(z, y), for y <= x: kl under privacy.

    At z0 = y e^epsilon / (1 - y + y e^epsilon) the slope of kl(., y) is epsilon. If z0 >= x, the
    value is kl(x, y), otherwise epsilon x - ln(1 - y + y e^epsilon). It is at most kl(x, y) and at
    most epsilon (x - y). The definition is from Azize et al. 2025, read in a secondary text. The
    closed form is ours. x and y may be losses or gains: for y > x pass 1 - x and 1 - y.

    Examples:
      >>> [f"{divergences.d_epsilon(0.5, 0.25, epsilon):.3g}" for epsilon in (0.1, 1.0, np.inf)]
      ['0.024', '0.143', '0.144']
    """
    x, y = jnp.broadcast_arrays(jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32))
    epsilon = jnp.minimum(epsilon, _INFINITE)
    # ln(1 - y + y e^epsilon) = epsilon + ln(y + (1 - y) e^-epsilon), which does not overflow. For
    # small epsilon the two terms cancel, since their sum is of order y epsilon. So expm1 is used.
    shrunk = jnp.exp(-epsilon)
    large = -epsilon * (1.0 - x) - jnp.log(y + (1.0 - y) * shrunk)
    small = epsilon * x - jnp.log1p(y * jnp.expm1(jnp.minimum(epsilon, 1.0)))
    linear = jnp.where(epsilon < 1.0, small, jnp.where(y > 0.0, large, epsilon * x))
    # At y = 0 the slope is infinite, even if e^-epsilon rounds to 0.
    below = _slope_is_below(x, y, epsilon) & ((y > 0.0) | (epsilon == _INFINITE))
    return jnp.where(below, kl(x, y), jnp.maximum(linear, 0.0))


def _slope_is_below(x, y, epsilon):
    """Whether the slope of kl(., y) at x is at most epsilon: x (1 - y) <= y (1 - x) e^epsilon."""
    return x * (1.0 - y) * jnp.exp(-epsilon) <= y * (1.0 - x)


def d_epsilon_lower(
    x: Number | np.ndarray, radius: Number | np.ndarray, epsilon: Number | np.ndarray
) -> Array:
    """The smallest y in [0, x] with d_epsilon(x, y) <= radius, for radius >= 0.

    It is the solution y of epsilon x - ln(1 - y + y e^epsilon) = radius, if the slope of kl there
    is above epsilon. Otherwise, and for epsilon = inf, it is :func:`kl_lower`.

    Examples:
      >>> [f"{divergences.d_epsilon_lower(0.5, 0.1, e):.2g}" for e in (0.1, 1.0, np.inf)]
      ['0', '0.29', '0.29']
    """
    x, radius = jnp.broadcast_arrays(jnp.asarray(x, jnp.float32), jnp.asarray(radius, jnp.float32))
    epsilon = jnp.minimum(epsilon, _INFINITE)
    # (e^(epsilon x - radius) - 1) / (e^epsilon - 1), without overflow.
    budget = epsilon * x - radius
    linear = jnp.exp(-epsilon * (1.0 - x) - radius) * jnp.expm1(-budget) / jnp.expm1(-epsilon)
    linear = jnp.where(budget > 0.0, linear, 0.0)
    return jnp.where(_slope_is_below(x, linear, epsilon), kl_lower(x, radius), linear)
