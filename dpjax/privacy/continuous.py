"""Scales of continuous noise: Laplace, Gaussian, zCDP and GDP, traceable by JAX.

All functions are pure. Epsilon and delta may be traced, and epsilon = inf means no privacy and no
noise. ``rho`` is the parameter of zero-concentrated differential privacy (zCDP; Bun & Steinke
2016). ``mu`` is the parameter of Gaussian differential privacy (GDP; Dong, Roth & Su 2022): the
ratio of sensitivity to standard deviation of one Gaussian mechanism. Sensitivities are L1 for
Laplace noise and L2 for Gaussian noise.

The functions compute in JAX's default float: float32, or float64 where the caller has enabled it.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import erfinv, log_ndtr, ndtr, ndtri

_ROOT_2_PI = float(np.sqrt(2.0 * np.pi))
_LOG_ROOT_2_PI = float(np.log(2.0 * np.pi) / 2.0)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)


def _real(value):
    return jnp.asarray(value, jnp.result_type(float))


def default_delta(horizon):
    """T^-2, the delta of learners and studies to which none is given; 1/4 where T = 1."""
    return 1.0 / max(horizon, 2) ** 2


def laplace_scale(sensitivity, epsilon):
    """Scale of the Laplace noise that makes a release epsilon-DP.

    Dwork, McSherry, Nissim & Smith 2006, Proposition 1: scale = sensitivity / epsilon, with
    the L1 sensitivity. 0 at epsilon = inf.
    """
    return _real(sensitivity) / _real(epsilon)


def noise_ratio(sensitivity, scale):
    """Sensitivity over scale: the epsilon of Laplace noise, or the mu of Gaussian noise.

    It is inf at scale 0, and 0 where the sensitivity is 0, since nothing is released then.
    """
    sensitivity, scale = _real(sensitivity), _real(scale)
    return jnp.where(sensitivity > 0.0, sensitivity / jnp.where(sensitivity > 0.0, scale, 1.0), 0.0)


def zcdp_epsilon(rho, delta):
    """The epsilon at delta of a rho-zCDP release: rho + 2 sqrt(rho ln(1/delta)).

    Bun & Steinke 2016, Proposition 1.3.
    """
    rho = _real(rho)
    return rho + 2.0 * jnp.sqrt(rho * jnp.log(1.0 / delta))


def zcdp_inverse_root(epsilon, delta):
    """1 / sqrt(rho) for the rho whose :func:`zcdp_epsilon` at delta is epsilon.

    With L = ln(1/delta), sqrt(rho) = sqrt(L + epsilon) - sqrt(L), which cancels to 0 in float32
    where epsilon is small. So the reciprocal is computed from the rationalized difference,
    (sqrt(L + epsilon) + sqrt(L)) / epsilon. It is 0 at epsilon = inf.
    """
    inverse = 1.0 / _real(epsilon)
    log_term = jnp.log(1.0 / _real(delta))
    root = jnp.sqrt(log_term) * inverse
    return jnp.sqrt(root * root + inverse) + root


def zcdp_rho(epsilon, delta):
    """The largest rho whose :func:`zcdp_epsilon` at delta is at most epsilon; inf at epsilon = inf.

    (sqrt(ln(1/delta) + epsilon) - sqrt(ln(1/delta)))^2, from Bun & Steinke 2016, Proposition 1.3.
    """
    return jnp.square(1.0 / zcdp_inverse_root(epsilon, delta))


def zcdp_delta(rho, epsilon):
    """A delta at epsilon of a rho-zCDP release: e^(-(epsilon - rho)^2 / (4 rho)), 1 up to rho.

    Bun & Steinke 2016, Proposition 1.3, solved for delta. 0 at rho = 0 and at epsilon = inf.
    """
    rho, epsilon = jnp.broadcast_arrays(_real(rho), _real(epsilon))
    excess = jnp.maximum(epsilon - rho, 0.0)
    # The quotient is squared last, since squares of large numbers overflow.
    exponent = 0.25 * excess * (excess / jnp.where(rho > 0.0, rho, 1.0))
    return jnp.where((rho > 0.0) & (epsilon < jnp.inf), jnp.exp(-exponent), 0.0)


def gaussian_rho(mu):
    """The rho of one Gaussian mechanism with the given mu, and of each mu-GDP release: mu^2 / 2.

    Bun & Steinke 2016, Proposition 1.6; Dong, Roth & Su 2022, Corollary B.6 (as recalled).
    """
    return 0.5 * jnp.square(_real(mu))


def zcdp_mu(rho):
    """The mu of the Gaussian mechanism that is rho-zCDP: sqrt(2 rho).

    It holds for Gaussian noise only. Another release that is rho-zCDP need not be mu-GDP.
    """
    return jnp.sqrt(2.0 * _real(rho))


def pure_rho(epsilon):
    """The rho of each epsilon-DP release: epsilon^2 / 2 (Bun & Steinke 2016, Proposition 1.4)."""
    return 0.5 * jnp.square(_real(epsilon))


def pure_mu(epsilon):
    """The mu of each epsilon-DP release: 2 Phi^-1(e^epsilon / (1 + e^epsilon)).

    The trade-off function of epsilon-DP consists of two chords that meet at the point where both
    errors are 1 / (1 + e^epsilon). The curve of mu-GDP through this point is convex, so it lies
    below them. No smaller mu will do. Our derivation. It is sqrt(pi / 2) epsilon for small epsilon,
    and inf at epsilon = inf. The converse fails: mu-GDP implies no pure epsilon.
    """
    epsilon = _real(epsilon)
    near = 2.0**1.5 * erfinv(jnp.tanh(0.5 * jnp.minimum(epsilon, 1.0)))
    return jnp.where(epsilon < 1.0, near, -2.0 * ndtri(jax.nn.sigmoid(-epsilon)))


def _log_mills(x):
    """ln R(x) for the Mills ratio R(x) = Phi(-x) / phi(x) of the standard normal law.

    The sum rounds to multiples of x^2 2^-24 in float32. So from x = 200 on R(x) is taken as a
    convergent of its continued fraction, (x^2 + 2) / (x^3 + 3 x), which is within 6 / x^6.
    """
    near, far = jnp.minimum(x, 200.0), jnp.maximum(x, 200.0)
    sum_ = log_ndtr(-near) + 0.5 * near * near + _LOG_ROOT_2_PI
    return jnp.where(x < 200.0, sum_, jnp.log1p(-1.0 / (far * far + 3.0)) - jnp.log(far))


def _log_mills_decrease(x, length):
    """ln(R(x) - R(x + length)), to full relative accuracy for short lengths too.

    Since R' = x R - 1, the difference is the integral of 1 - x R(x), which is positive. The result
    is used for x > -1 only, where R does not overflow.
    """
    short, start = jnp.minimum(length, 1.0), jnp.maximum(x, -1.0)

    def slope(point):
        # Far out 1 - x R(x) cancels, and its lower bound 1 / (x^2 + 3) is what remains of it.
        return jnp.maximum(1.0 - point * jnp.exp(_log_mills(point)), 1.0 / (point * point + 3.0))

    # The order of the terms is fixed here. The order within jnp.sum depends on how many values are
    # computed side by side.
    integral = 0.0
    for node, weight in zip(_NODES.tolist(), _WEIGHTS.tolist(), strict=True):
        integral = integral + 0.5 * weight * short * slope(start + short * (0.5 + 0.5 * node))
    larger, smaller = _log_mills(x), _log_mills(x + jnp.maximum(length, 1.0))
    difference = larger + jnp.log1p(-jnp.exp(smaller - larger))
    return jnp.where(length < 1.0, jnp.log(integral), difference)


def _log_delta(mu, epsilon):
    """ln delta of a mu-GDP release at epsilon, and its derivative by ln mu.

    With a = epsilon / mu - mu / 2 and b = a + mu, e^epsilon phi(b) = phi(a), hence
    delta = Phi(-a) - e^epsilon Phi(-b) = phi(a) (R(a) - R(b)); its derivative by mu is phi(a), and
    by epsilon -phi(a) R(b).
    """
    # Beyond 1000 standard deviations delta is 0 or 1. The square of 1000 still fits into float32.
    a = jnp.clip(jnp.where(epsilon == 0.0, 0.0, epsilon / mu) - 0.5 * mu, -1e3, 1e3)
    log_density = -0.5 * a * a - _LOG_ROOT_2_PI
    right = log_density + _log_mills_decrease(a, mu)
    # Left of 0 R(a) is huge, but Phi(-a) does not cancel there (b > -a > 1).
    left = jnp.log(ndtr(-a) - jnp.exp(log_density + _log_mills(a + mu)))
    value = jnp.where(a < -1.0, left, right)
    return value, mu * jnp.exp(log_density - value)


def _largest(value):
    """The epsilon up to which epsilon / mu - mu / 2 keeps digits. Beyond it zCDP is as exact.

    At this epsilon both terms are sqrt(epsilon / 2), about a tenth of 1 over the rounding unit.
    """
    return 0.01 / jnp.finfo(value.dtype).eps ** 2


def gaussian_delta(mu, epsilon):
    """The delta at epsilon of a mu-GDP release, such as one Gaussian mechanism.

    Phi(-epsilon / mu + mu / 2) - e^epsilon Phi(-epsilon / mu - mu / 2): Balle & Wang 2018,
    Theorem 8, for epsilon >= 0. It is 0 at mu = 0 and at epsilon = inf, else 1 at mu = inf.
    """
    mu, epsilon = jnp.broadcast_arrays(_real(mu), _real(epsilon))
    delta = jnp.exp(jnp.minimum(_log_delta(mu, epsilon)[0], 0.0))
    return jnp.where(jnp.isinf(epsilon), 0.0, delta)


def gaussian_epsilon(mu, delta):
    """The epsilon at which :func:`gaussian_delta` of a mu-GDP release is delta, in (0, 1).

    It is 0 where :func:`gaussian_delta` is at most delta at epsilon = 0 already, and inf at
    mu = inf. It is found by Newton's method on ln delta, which is concave in epsilon. The method
    starts on the right, at the epsilon of zCDP, which is too large.
    """
    return _solve_epsilon(*jnp.broadcast_arrays(_real(mu), _real(delta)))


def gaussian_inverse_mu(epsilon, delta):
    """1 / mu for the largest mu whose :func:`gaussian_delta` at epsilon is delta in (0, 1).

    It is 0 at epsilon = inf, else inf at delta = 0, which no Gaussian noise reaches. It is found by
    Newton's method in ln mu on ln delta, which is concave. The method starts on the left, at the
    larger of mu = sqrt(2 rho) of zCDP and mu = sqrt(2 pi) delta, which are both too small.
    """
    return _solve_inverse_mu(*jnp.broadcast_arrays(_real(epsilon), _real(delta)))


def gaussian_mu(epsilon, delta):
    """The largest mu whose :func:`gaussian_delta` at epsilon is at most delta.

    The reciprocal of :func:`gaussian_inverse_mu`: inf at epsilon = inf.
    """
    return 1.0 / gaussian_inverse_mu(epsilon, delta)


# Both solvers are jitted, since factories are also called eagerly, where a bare loop would be
# compiled at every call. Under vmap they run one by one, so that the last bit does not depend on
# what is solved beside it.
@jax.jit
@jax.custom_batching.sequential_vmap
def _solve_inverse_mu(epsilon, delta):
    by_zcdp = zcdp_inverse_root(epsilon, delta) * 2.0**-0.5
    solvable = (epsilon < _largest(epsilon)) & (delta > 0.0)
    epsilon_, delta_ = jnp.where(solvable, epsilon, 1.0), jnp.where(solvable, delta, 0.5)
    start = jnp.maximum(2.0**0.5 / zcdp_inverse_root(epsilon_, delta_), _ROOT_2_PI * delta_)

    def newton(_, log_mu):
        value, slope = _log_delta(jnp.exp(log_mu), epsilon_)
        return log_mu + (jnp.log(delta_) - value) / slope

    log_mu = lax.fori_loop(0, 14, newton, jnp.log(start))
    return jnp.where(jnp.isinf(epsilon), 0.0, jnp.where(solvable, jnp.exp(-log_mu), by_zcdp))


@jax.jit
@jax.custom_batching.sequential_vmap
def _solve_epsilon(mu, delta):
    by_zcdp = zcdp_epsilon(0.5 * mu * mu, delta)
    # gaussian_delta is at most mu / sqrt(2 pi).
    positive = mu > _ROOT_2_PI * delta
    solvable = positive & (by_zcdp < _largest(mu)) & (delta > 0.0)
    mu_, delta_ = jnp.where(solvable, mu, 1.0), jnp.where(solvable, delta, 0.5)

    def newton(_, epsilon):
        value, slope = _log_delta(mu_, epsilon)
        # phi(a) R(b) / delta; the slope is mu phi(a) / delta.
        fall = slope / mu_ * jnp.exp(_log_mills(epsilon / mu_ + 0.5 * mu_))
        return jnp.maximum(epsilon + (value - jnp.log(delta_)) / fall, 0.0)

    epsilon = lax.fori_loop(0, 14, newton, zcdp_epsilon(0.5 * mu_ * mu_, delta_))
    return jnp.where(positive, jnp.where(solvable, epsilon, by_zcdp), 0.0)


def gaussian_scale(sensitivity, epsilon, delta):
    """Standard deviation of the Gaussian noise that makes a release (epsilon, delta)-DP, exactly.

    No smaller one does (Balle & Wang 2018). The sensitivity is L2. It is 0 at epsilon = inf.
    """
    return _real(sensitivity) * gaussian_inverse_mu(epsilon, delta)


def advanced_composition(count, epsilon, delta):
    """Epsilon at delta of ``count`` adaptive epsilon-DP releases, in two-term form.

    count epsilon^2 + epsilon sqrt(2 count ln(1/delta)). Dwork, Rothblum & Vadhan 2010,
    Theorem III.3 prints count epsilon (e^epsilon - 1) for the first term; count epsilon^2 is
    its small-epsilon form, and the one that fits the corollary of Tossou & Dimitrakakis 2017.
    """
    count = _real(count)
    return count * epsilon**2 + epsilon * jnp.sqrt(2.0 * count * jnp.log(1.0 / delta))


def bounded_range_rho(width, count=1.0):
    """rho of ``count`` adaptive draws whose log-likelihood ratios lie in intervals of this width.

    Each draw has width^2 / 8 (Dong, Durfee & Rogers 2020; Cesar & Rogers 2021, Lemma 3.2), and zCDP
    adds up over adaptive draws (Bun & Steinke 2016, Lemma 1.7). An exponential mechanism whose
    exponents change by u has width max(u) - min(u).
    """
    return _real(count) * jnp.square(_real(width)) / 8.0
