"""Scales of continuous noise: Laplace, zCDP and composition, traceable by JAX.

All functions are pure. Epsilon and delta may be traced, and epsilon = inf means no privacy and no
noise. ``rho`` is the parameter of zero-concentrated differential privacy (zCDP; Bun & Steinke
2016). ``mu`` is the parameter of Gaussian differential privacy (GDP; Dong, Roth & Su 2022): the
ratio of sensitivity to standard deviation of one Gaussian mechanism. The privacy curve of GDP is in
:mod:`dpjax.privacy.gaussian`. Sensitivities are L1 for Laplace noise and L2 for Gaussian noise.

The functions compute in JAX's default float: float32, or float64 if the caller has enabled it.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dpjax.core import Array, Number


def _real(value):
    kind = jnp.result_type(float)
    # NumPy converts plain values, because JAX would compile a program for this.
    return jnp.asarray(value if isinstance(value, jax.Array) else np.asarray(value, kind), kind)


def default_delta(horizon: float) -> float:
    """T^-2, the default delta of learners and studies; 1/4 if T = 1.

    Examples:
      >>> privacy.default_delta(1000)
      1e-06
    """
    return 1.0 / max(horizon, 2) ** 2


def laplace_scale(sensitivity: Number, epsilon: Number) -> Array:
    """Scale of the Laplace noise that makes a release epsilon-DP.

    scale = sensitivity / epsilon, with the L1 sensitivity; 0 at epsilon = inf (Dwork, McSherry,
    Nissim & Smith 2006, Proposition 1).

    Examples:
      >>> [float(privacy.laplace_scale(1.0, epsilon)) for epsilon in (0.5, 1.0, np.inf)]
      [2.0, 1.0, 0.0]
    """
    return _real(sensitivity) / _real(epsilon)


def noise_ratio(sensitivity: Number, scale: Number) -> Array:
    """Sensitivity over scale: the epsilon of Laplace noise, or the mu of Gaussian noise.

    It is inf at scale 0. If the sensitivity is 0, the ratio is 0, since nothing is released.

    Examples:
      >>> [float(privacy.noise_ratio(1.0, scale)) for scale in (0.0, 1.0, 2.0)]
      [inf, 1.0, 0.5]
    """
    sensitivity, scale = _real(sensitivity), _real(scale)
    return jnp.where(sensitivity > 0.0, sensitivity / jnp.where(sensitivity > 0.0, scale, 1.0), 0.0)


def zcdp_epsilon(rho: Number, delta: Number) -> Array:
    """The least epsilon at delta that rho-zCDP implies through its Renyi divergences.

    With L = ln(1/delta) it is the minimum over b = alpha - 1 > 0 of

        rho (1 + b) + (L - ln(1 + b)) / b - ln(1 + 1/b),

    or 0 if this is negative (Canonne, Kamath & Steinke 2020, Proposition 12). It is below the
    rho + 2 sqrt(rho L) of Bun & Steinke 2016, Proposition 1.3. At the minimum
    rho b^2 + ln(1 + b) = L. The left side is convex in ln b, and Newton's method solves the
    equation from the right. Every b gives a valid epsilon. A few units in the last place are added
    to allow for rounding.

    Args:
      rho: at least 0; inf gives inf.
      delta: in (0, 1]. A plain number may be as small as float64 holds.

    Examples:
      >>> [round(float(privacy.zcdp_epsilon(rho, 1e-6)), 2) for rho in (0.01, 0.04)]
      [0.62, 1.3]
    """
    return _least_epsilon(_real(rho), _log_inverse(delta))


def zcdp_inverse_root(epsilon: Number, delta: Number) -> Array:
    """1 / sqrt(rho) for the largest rho whose :func:`zcdp_epsilon` at delta is at most epsilon.

    rho is the maximum over b > 0 of (epsilon + ln(1 + 1/b) - (L - ln(1 + b)) / b) / (1 + b), for
    L = ln(1/delta). Every b gives a valid rho. The best b is found by bisection in ln b. The result
    is 0 at epsilon = inf. At epsilon = 0 it is finite, since a small rho implies (0, delta)-DP.

    Examples:
      >>> [round(float(privacy.zcdp_inverse_root(epsilon, 1e-6)), 2) for epsilon in (1.0, np.inf)]
      [6.41, 0.0]
    """
    return _least_inverse_root(_real(epsilon), _log_inverse(delta))


def zcdp_rho(epsilon: Number, delta: Number) -> Array:
    """The largest rho whose :func:`zcdp_epsilon` at delta is at most epsilon; inf at epsilon = inf.

    Examples:
      >>> rho = privacy.zcdp_rho(1.0, 1e-6)
      >>> print(f"{rho:.3g} has epsilon {privacy.zcdp_epsilon(rho, 1e-6):.3g}")
      0.0244 has epsilon 1
    """
    return jnp.square(1.0 / zcdp_inverse_root(epsilon, delta))


def _zcdp_start(rho: Number, delta: Number) -> Array:
    """rho + 2 sqrt(rho ln(1/delta)), a start for solvers, at least :func:`zcdp_epsilon`.

    Reference: Bun & Steinke 2016, Proposition 1.3.
    """
    rho = _real(rho)
    return rho + 2.0 * jnp.sqrt(rho * jnp.log(1.0 / delta))


def _zcdp_inverse_root_start(epsilon: Number, delta: Number) -> Array:
    """1 / sqrt(rho) for the rho whose :func:`_zcdp_start` at delta is epsilon; 0 at epsilon = inf.

    With L = ln(1/delta), sqrt(rho) = sqrt(L + epsilon) - sqrt(L). If epsilon is small, this cancels
    to 0 in float32. So the reciprocal is computed from the rationalized difference,
    (sqrt(L + epsilon) + sqrt(L)) / epsilon.
    """
    inverse = 1.0 / _real(epsilon)
    log_term = jnp.log(1.0 / _real(delta))
    root = jnp.sqrt(log_term) * inverse
    return jnp.sqrt(root * root + inverse) + root


def _log_inverse(delta):
    """ln(1/delta), in float64 for plain numbers, since small ones are 0 in float32."""
    if isinstance(delta, jax.Array):
        return -jnp.log(_real(delta))
    with np.errstate(divide="ignore", invalid="ignore"):
        return _real(-np.log(np.asarray(delta, np.float64)))


# The search interval of ln b. It suffices for epsilon from 1e-30 to 1e38, and for epsilon = 0 if
# delta is at least 1e-30.
_LOWEST, _HIGHEST, _HALVINGS = -55.0, 85.0, 32
# The margins for rounding, in units in the last place. The margin of rho is larger, so that the
# epsilon computed from a float32 rho does not exceed the requested epsilon.
_UNITS, _UNITS_OF_RHO = 2.0, 8.0


def _bisected(is_above, like, between=(_LOWEST, _HIGHEST), halvings=_HALVINGS):
    """The interval (low, high) in which ``is_above`` changes from False to True, by bisection.

    Both ends have the shape of ``like``. ``is_above`` is True at ``high``, unless ``high`` is the
    upper end of the search interval.
    """

    def halve(_, ends):
        low, high = ends
        middle = 0.5 * (low + high)
        above = is_above(middle)
        return jnp.where(above, low, middle), jnp.where(above, middle, high)

    return lax.fori_loop(0, halvings, halve, tuple(jnp.full_like(like, end) for end in between))


# Both solvers are jitted, since factories are also called eagerly. Under vmap the members run one
# by one, so that the last bit of a member does not depend on the rest of the batch.
@jax.jit
@jax.custom_batching.sequential_vmap
def _least_epsilon(rho, log_term):
    solvable = (rho > 0.0) & (rho < jnp.inf) & (log_term > 0.0) & (log_term < jnp.inf)
    rho_, log_term_ = jnp.where(solvable, rho, 1.0), jnp.where(solvable, log_term, 1.0)
    log_rho = jnp.log(rho_)
    # Each of the two terms of the equation is at most L.
    log_b = jnp.minimum(
        0.5 * (jnp.log(log_term_) - log_rho), log_term_ + jnp.log(-jnp.expm1(-log_term_))
    )
    for _ in range(6):
        b, square = jnp.exp(log_b), jnp.exp(2.0 * log_b + log_rho)
        excess = square + jnp.log1p(b) - log_term_
        log_b = log_b - excess / (2.0 * square + b / (1.0 + b))
    b = jnp.exp(log_b)
    taken = jnp.log1p(1.0 / b)
    epsilon = rho_ * (1.0 + b) + (log_term_ - jnp.log1p(b)) / b - taken
    rounding = rho_ * (1.0 + b) + log_term_ / b + taken
    epsilon = jnp.maximum(epsilon + _UNITS * jnp.finfo(b.dtype).eps * rounding, 0.0)
    nothing = (rho == 0.0) | (log_term <= 0.0)
    return jnp.where(solvable, epsilon, jnp.where(nothing, 0.0, jnp.sqrt(rho) + log_term))


@jax.jit
@jax.custom_batching.sequential_vmap
def _least_inverse_root(epsilon, log_term):
    solvable = (epsilon >= 0.0) & (epsilon < jnp.inf) & (log_term > 0.0) & (log_term < jnp.inf)
    epsilon_, log_term_ = jnp.where(solvable, epsilon, 1.0), jnp.where(solvable, log_term, 1.0)

    def is_above(log_b):
        """Whether rho b^2 + ln(1 + b) > L for the rho whose epsilon has its minimum at b."""
        b = jnp.exp(log_b)
        rho = (epsilon_ + jnp.log1p(1.0 / b)) / (1.0 + 2.0 * b)
        return rho * b * b + jnp.log1p(b) > log_term_

    b = jnp.exp(_bisected(is_above, epsilon_)[0])
    gained = epsilon_ + jnp.log1p(1.0 / b)
    root = gained - (log_term_ - jnp.log1p(b)) / b
    root = root - _UNITS_OF_RHO * jnp.finfo(b.dtype).eps * (gained + log_term_ / b)
    nothing = (epsilon == jnp.inf) | (log_term <= 0.0)
    edge = jnp.where(nothing, 0.0, jnp.sqrt(epsilon) + log_term)
    return jnp.where(solvable, jnp.sqrt((1.0 + b) / root), edge)


def gaussian_rho(mu: Number) -> Array:
    """The rho of one Gaussian mechanism with the given mu, and of each mu-GDP release: mu^2 / 2.

    Bun & Steinke 2016, Proposition 1.6; Dong, Roth & Su 2022, Corollary B.6 (as recalled).

    Examples:
      >>> float(privacy.gaussian_rho(2.0))
      2.0
    """
    return 0.5 * jnp.square(_real(mu))


def zcdp_mu(rho: Number) -> Array:
    """The mu of the Gaussian mechanism that is rho-zCDP: sqrt(2 rho).

    It holds for Gaussian noise only. Other rho-zCDP releases need not be mu-GDP.

    Examples:
      >>> float(privacy.zcdp_mu(0.5))
      1.0
    """
    return jnp.sqrt(2.0 * _real(rho))


def pure_rho(epsilon: Number) -> Array:
    """The rho of each epsilon-DP release: epsilon^2 / 2 (Bun & Steinke 2016, Proposition 1.4).

    Examples:
      >>> float(privacy.pure_rho(2.0))
      2.0
    """
    return 0.5 * jnp.square(_real(epsilon))


def advanced_composition(count: Number, epsilon: Number, delta: Number) -> Array:
    """Epsilon at delta of ``count`` adaptive epsilon-DP releases, in two-term form.

    It is count epsilon^2 + epsilon sqrt(2 count ln(1/delta)). Dwork, Rothblum & Vadhan 2010,
    Theorem III.3, print the first term as count epsilon (e^epsilon - 1). Its small-epsilon form
    count epsilon^2 fits the corollary of Tossou & Dimitrakakis 2017.

    Examples:
      >>> epsilon = privacy.advanced_composition(100, 0.01, 1e-6)
      >>> print(f"{epsilon:.3g}, and 1 as the sum of the epsilons")
      0.536, and 1 as the sum of the epsilons
    """
    count = _real(count)
    return count * epsilon**2 + epsilon * jnp.sqrt(2.0 * count * jnp.log(1.0 / delta))


def bounded_range_rho(width: Number, count: Number = 1.0) -> Array:
    """rho of ``count`` adaptive draws whose log-likelihood ratios lie in intervals of this width.

    The rho of one draw is width^2 / 8 (Dong, Durfee & Rogers 2020; Cesar & Rogers 2021, Lemma 3.2).
    It adds up over adaptive draws (Bun & Steinke 2016, Lemma 1.7). An exponential mechanism whose
    exponents change by a vector u has width max(u) - min(u).

    Examples:
      >>> float(privacy.bounded_range_rho(1.0)), float(privacy.bounded_range_rho(1.0, count=8))
      (0.125, 1.0)
    """
    return _real(count) * jnp.square(_real(width)) / 8.0
