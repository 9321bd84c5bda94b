"""The exact privacy curve of Gaussian noise: mu, epsilon and delta, traceable by JAX.

``mu`` is the ratio of sensitivity to standard deviation. Like :mod:`dpjax.privacy.continuous`, the
functions compute in JAX's default float and accept infinities.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import log_ndtr, ndtr

from dpjax.core import Array, Number
from dpjax.privacy.continuous import _real, _zcdp_inverse_root_start, _zcdp_start

_ROOT_2_PI = float(np.sqrt(2.0 * np.pi))
_LOG_ROOT_2_PI = float(np.log(2.0 * np.pi) / 2.0)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)


def _log_mills(x):
    """ln R(x) for the Mills ratio R(x) = Phi(-x) / phi(x) of the standard normal law.

    In float32 the sum of the three terms is rounded to multiples of x^2 2^-24. So for x >= 200,
    R(x) is computed as (x^2 + 2) / (x^3 + 3 x), a convergent of its continued fraction, with an
    error of at most 6 / x^6.
    """
    near, far = jnp.minimum(x, 200.0), jnp.maximum(x, 200.0)
    sum_ = log_ndtr(-near) + 0.5 * near * near + _LOG_ROOT_2_PI
    return jnp.where(x < 200.0, sum_, jnp.log1p(-1.0 / (far * far + 3.0)) - jnp.log(far))


def _log_mills_decrease(x, length):
    """ln(R(x) - R(x + length)), accurate for short lengths too.

    Since R' = x R - 1, the difference is the integral of 1 - x R(x), which is positive. The
    function is called only for x > -1, where R does not overflow.
    """
    short, start = jnp.minimum(length, 1.0), jnp.maximum(x, -1.0)

    def slope(point):
        # For large x, 1 - x R(x) cancels, and its lower bound 1 / (x^2 + 3) is used.
        return jnp.maximum(1.0 - point * jnp.exp(_log_mills(point)), 1.0 / (point * point + 3.0))

    # This fixes the order of the terms. In jnp.sum the order depends on the size of the batch.
    integral = 0.0
    for node, weight in zip(_NODES.tolist(), _WEIGHTS.tolist(), strict=True):
        integral = integral + 0.5 * weight * short * slope(start + short * (0.5 + 0.5 * node))
    larger, smaller = _log_mills(x), _log_mills(x + jnp.maximum(length, 1.0))
    difference = larger + jnp.log1p(-jnp.exp(smaller - larger))
    return jnp.where(length < 1.0, jnp.log(integral), difference)


def _log_delta(mu, epsilon):
    """ln delta of a mu-GDP release at epsilon, and its derivative with respect to ln mu.

    Let a = epsilon / mu - mu / 2 and b = a + mu. Then e^epsilon phi(b) = phi(a), and so
    delta = Phi(-a) - e^epsilon Phi(-b) = phi(a) (R(a) - R(b)). The derivative of delta is phi(a)
    with respect to mu, and -phi(a) R(b) with respect to epsilon.
    """
    # Beyond 1000 standard deviations delta is 0 or 1. The square of 1000 is accurate in float32.
    a = jnp.clip(jnp.where(epsilon == 0.0, 0.0, epsilon / mu) - 0.5 * mu, -1e3, 1e3)
    log_density = -0.5 * a * a - _LOG_ROOT_2_PI
    right = log_density + _log_mills_decrease(a, mu)
    # Left of 0 R(a) is huge, but Phi(-a) does not cancel there (b > -a > 1).
    left = jnp.log(ndtr(-a) - jnp.exp(log_density + _log_mills(a + mu)))
    value = jnp.where(a < -1.0, left, right)
    return value, mu * jnp.exp(log_density - value)


def _largest(value):
    """The epsilon up to which epsilon / mu - mu / 2 is accurate. Above it, zCDP is as exact.

    At this epsilon both terms are sqrt(epsilon / 2), about 0.1 divided by the rounding unit.
    """
    return 0.01 / jnp.finfo(value.dtype).eps ** 2


def gaussian_delta(mu: Number, epsilon: Number) -> Array:
    """The delta at epsilon of a mu-GDP release, such as one Gaussian mechanism.

    Phi(-epsilon / mu + mu / 2) - e^epsilon Phi(-epsilon / mu - mu / 2), for epsilon >= 0 (Balle &
    Wang 2018, Theorem 8). It is 0 at mu = 0 and at epsilon = inf, otherwise 1 at mu = inf.

    Examples:
      >>> delta_of = jax.jit(privacy.gaussian_delta)
      >>> [f"{delta_of(mu, 1.0):.2g}" for mu in (0.25, 0.5, 1.0)]
      ['2.9e-06', '0.0068', '0.13']
    """
    mu, epsilon = jnp.broadcast_arrays(_real(mu), _real(epsilon))
    delta = jnp.exp(jnp.minimum(_log_delta(mu, epsilon)[0], 0.0))
    return jnp.where(jnp.isinf(epsilon), 0.0, delta)


def gaussian_epsilon(mu: Number, delta: Number) -> Array:
    """The epsilon at which :func:`gaussian_delta` of a mu-GDP release is delta, in (0, 1).

    It is 0 if :func:`gaussian_delta` at epsilon = 0 is at most delta, and inf at mu = inf. It is
    found by Newton's method on ln delta, which is concave in epsilon. The method starts at the
    epsilon of zCDP, which is too large.

    Examples:
      >>> [round(float(privacy.gaussian_epsilon(mu, 1e-5)), 2) for mu in (0.5, 1.0, 2.0)]
      [1.99, 4.38, 10.0]
    """
    return _solve_epsilon(*jnp.broadcast_arrays(_real(mu), _real(delta)))


def gaussian_inverse_mu(epsilon: Number, delta: Number) -> Array:
    """1 / mu for the largest mu whose :func:`gaussian_delta` at epsilon is delta in (0, 1).

    It is 0 at epsilon = inf. For finite epsilon it is inf at delta = 0, since no Gaussian noise
    attains delta = 0. It is found by Newton's method on ln delta, which is concave in ln mu. The
    method starts at the larger of mu = sqrt(2 rho) of zCDP and mu = sqrt(2 pi) delta. Both are too
    small.

    Examples:
      >>> [round(float(privacy.gaussian_inverse_mu(e, 1e-5)), 2) for e in (1.0, np.inf)]
      [3.73, 0.0]
    """
    return _solve_inverse_mu(*jnp.broadcast_arrays(_real(epsilon), _real(delta)))


# Both solvers are jitted, since factories are also called eagerly, and a bare loop would then be
# compiled at every call. Under vmap the members run one by one, so that the last bit of a member
# does not depend on the rest of the batch.
@jax.jit
@jax.custom_batching.sequential_vmap
def _solve_inverse_mu(epsilon, delta):
    by_zcdp = _zcdp_inverse_root_start(epsilon, delta) * 2.0**-0.5
    solvable = (epsilon < _largest(epsilon)) & (delta > 0.0)
    epsilon_, delta_ = jnp.where(solvable, epsilon, 1.0), jnp.where(solvable, delta, 0.5)
    start = jnp.maximum(2.0**0.5 / _zcdp_inverse_root_start(epsilon_, delta_), _ROOT_2_PI * delta_)

    def newton(_, log_mu):
        value, slope = _log_delta(jnp.exp(log_mu), epsilon_)
        return log_mu + (jnp.log(delta_) - value) / slope

    log_mu = lax.fori_loop(0, 14, newton, jnp.log(start))
    return jnp.where(jnp.isinf(epsilon), 0.0, jnp.where(solvable, jnp.exp(-log_mu), by_zcdp))


@jax.jit
@jax.custom_batching.sequential_vmap
def _solve_epsilon(mu, delta):
    by_zcdp = _zcdp_start(0.5 * mu * mu, delta)
    # gaussian_delta is at most mu / sqrt(2 pi).
    positive = mu > _ROOT_2_PI * delta
    solvable = positive & (by_zcdp < _largest(mu)) & (delta > 0.0)
    mu_, delta_ = jnp.where(solvable, mu, 1.0), jnp.where(solvable, delta, 0.5)

    def newton(_, epsilon):
        value, slope = _log_delta(mu_, epsilon)
        # phi(a) R(b) / delta; the slope is mu phi(a) / delta.
        fall = slope / mu_ * jnp.exp(_log_mills(epsilon / mu_ + 0.5 * mu_))
        return jnp.maximum(epsilon + (value - jnp.log(delta_)) / fall, 0.0)

    epsilon = lax.fori_loop(0, 14, newton, _zcdp_start(0.5 * mu_ * mu_, delta_))
    return jnp.where(positive, jnp.where(solvable, epsilon, by_zcdp), 0.0)


def gaussian_scale(sensitivity: Number, epsilon: Number, delta: Number) -> Array:
    """Least standard deviation of Gaussian noise that makes a release (epsilon, delta)-DP.

    It is exact (Balle & Wang 2018). The sensitivity is in L2. The result is 0 at epsilon = inf.

    Examples:
      >>> [round(float(privacy.gaussian_scale(1.0, epsilon, 1e-5)), 2) for epsilon in (1.0, 2.0)]
      [3.73, 1.99]
    """
    return _real(sensitivity) * gaussian_inverse_mu(epsilon, delta)
