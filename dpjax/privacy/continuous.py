"""Scales of continuous noise: Laplace, zCDP and composition, traceable by JAX.

All functions are pure. Epsilon and delta may be traced, and epsilon = inf means no privacy and no
noise. ``rho`` is the parameter of zero-concentrated differential privacy (zCDP; Bun & Steinke
2016). ``mu`` is the parameter of Gaussian differential privacy (GDP; Dong, Roth & Su 2022): the
ratio of sensitivity to standard deviation of one Gaussian mechanism; its curve is in
:mod:`dpjax.privacy.gaussian`. Sensitivities are L1 for Laplace noise and L2 for Gaussian noise.

The functions compute in JAX's default float: float32, or float64 where the caller has enabled it.
"""

import jax
import jax.numpy as jnp
from jax.scipy.special import erfinv, ndtri


def _real(value):
    return jnp.asarray(value, jnp.result_type(float))


def default_delta(horizon):
    """T^-2, the delta of learners and studies to which none is given; 1/4 where T = 1.

    Examples:
      >>> privacy.default_delta(1000)
      1e-06
    """
    return 1.0 / max(horizon, 2) ** 2


def laplace_scale(sensitivity, epsilon):
    """Scale of the Laplace noise that makes a release epsilon-DP.

    Dwork, McSherry, Nissim & Smith 2006, Proposition 1: scale = sensitivity / epsilon, with
    the L1 sensitivity. 0 at epsilon = inf.

    Examples:
      >>> [float(privacy.laplace_scale(1.0, epsilon)) for epsilon in (0.5, 1.0, np.inf)]
      [2.0, 1.0, 0.0]
    """
    return _real(sensitivity) / _real(epsilon)


def noise_ratio(sensitivity, scale):
    """Sensitivity over scale: the epsilon of Laplace noise, or the mu of Gaussian noise.

    It is inf at scale 0, and 0 where the sensitivity is 0, since nothing is released then.

    Examples:
      >>> [float(privacy.noise_ratio(1.0, scale)) for scale in (0.0, 1.0, 2.0)]
      [inf, 1.0, 0.5]
    """
    sensitivity, scale = _real(sensitivity), _real(scale)
    return jnp.where(sensitivity > 0.0, sensitivity / jnp.where(sensitivity > 0.0, scale, 1.0), 0.0)


def zcdp_epsilon(rho, delta):
    """The epsilon at delta of a rho-zCDP release: rho + 2 sqrt(rho ln(1/delta)).

    Bun & Steinke 2016, Proposition 1.3.

    Examples:
      >>> [round(float(privacy.zcdp_epsilon(rho, 1e-6)), 2) for rho in (0.01, 0.04)]
      [0.75, 1.53]
    """
    rho = _real(rho)
    return rho + 2.0 * jnp.sqrt(rho * jnp.log(1.0 / delta))


def zcdp_inverse_root(epsilon, delta):
    """1 / sqrt(rho) for the rho whose :func:`zcdp_epsilon` at delta is epsilon.

    With L = ln(1/delta), sqrt(rho) = sqrt(L + epsilon) - sqrt(L), which cancels to 0 in float32
    where epsilon is small. So the reciprocal is computed from the rationalized difference,
    (sqrt(L + epsilon) + sqrt(L)) / epsilon. It is 0 at epsilon = inf.

    Examples:
      >>> [round(float(privacy.zcdp_inverse_root(epsilon, 1e-6)), 2) for epsilon in (1.0, np.inf)]
      [7.57, 0.0]
    """
    inverse = 1.0 / _real(epsilon)
    log_term = jnp.log(1.0 / _real(delta))
    root = jnp.sqrt(log_term) * inverse
    return jnp.sqrt(root * root + inverse) + root


def zcdp_rho(epsilon, delta):
    """The largest rho whose :func:`zcdp_epsilon` at delta is at most epsilon; inf at epsilon = inf.

    (sqrt(ln(1/delta) + epsilon) - sqrt(ln(1/delta)))^2, from Bun & Steinke 2016, Proposition 1.3.

    Examples:
      >>> rho = privacy.zcdp_rho(1.0, 1e-6)
      >>> print(f"{rho:.3g} has epsilon {privacy.zcdp_epsilon(rho, 1e-6):.3g}")
      0.0175 has epsilon 1
    """
    return jnp.square(1.0 / zcdp_inverse_root(epsilon, delta))


def zcdp_delta(rho, epsilon):
    """A delta at epsilon of a rho-zCDP release: e^(-(epsilon - rho)^2 / (4 rho)), 1 up to rho.

    Bun & Steinke 2016, Proposition 1.3, solved for delta. 0 at rho = 0 and at epsilon = inf.

    Examples:
      >>> [f"{privacy.zcdp_delta(rho, 1.0):.2g}" for rho in (0.01, 0.1)]
      ['2.3e-11', '0.13']
    """
    rho, epsilon = jnp.broadcast_arrays(_real(rho), _real(epsilon))
    excess = jnp.maximum(epsilon - rho, 0.0)
    # The quotient is squared last, since squares of large numbers overflow.
    exponent = 0.25 * excess * (excess / jnp.where(rho > 0.0, rho, 1.0))
    return jnp.where((rho > 0.0) & (epsilon < jnp.inf), jnp.exp(-exponent), 0.0)


def gaussian_rho(mu):
    """The rho of one Gaussian mechanism with the given mu, and of each mu-GDP release: mu^2 / 2.

    Bun & Steinke 2016, Proposition 1.6; Dong, Roth & Su 2022, Corollary B.6 (as recalled).

    Examples:
      >>> float(privacy.gaussian_rho(2.0))
      2.0
    """
    return 0.5 * jnp.square(_real(mu))


def zcdp_mu(rho):
    """The mu of the Gaussian mechanism that is rho-zCDP: sqrt(2 rho).

    It holds for Gaussian noise only. Another release that is rho-zCDP need not be mu-GDP.

    Examples:
      >>> float(privacy.zcdp_mu(0.5))
      1.0
    """
    return jnp.sqrt(2.0 * _real(rho))


def pure_rho(epsilon):
    """The rho of each epsilon-DP release: epsilon^2 / 2 (Bun & Steinke 2016, Proposition 1.4).

    Examples:
      >>> float(privacy.pure_rho(2.0))
      2.0
    """
    return 0.5 * jnp.square(_real(epsilon))


def pure_mu(epsilon):
    """The mu of each epsilon-DP release: 2 Phi^-1(e^epsilon / (1 + e^epsilon)).

    The trade-off function of epsilon-DP consists of two chords that meet at the point where both
    errors are 1 / (1 + e^epsilon). The curve of mu-GDP through this point is convex, so it lies
    below them. No smaller mu will do. Our derivation. It is sqrt(pi / 2) epsilon for small epsilon,
    and inf at epsilon = inf. The converse fails: mu-GDP implies no pure epsilon.

    Examples:
      >>> mu_of = jax.jit(privacy.pure_mu)
      >>> [round(float(mu_of(epsilon)), 3) for epsilon in (0.1, 1.0, 10.0)]
      [0.125, 1.232, 7.828]
    """
    epsilon = _real(epsilon)
    near = 2.0**1.5 * erfinv(jnp.tanh(0.5 * jnp.minimum(epsilon, 1.0)))
    return jnp.where(epsilon < 1.0, near, -2.0 * ndtri(jax.nn.sigmoid(-epsilon)))


def advanced_composition(count, epsilon, delta):
    """Epsilon at delta of ``count`` adaptive epsilon-DP releases, in two-term form.

    count epsilon^2 + epsilon sqrt(2 count ln(1/delta)). Dwork, Rothblum & Vadhan 2010,
    Theorem III.3 prints count epsilon (e^epsilon - 1) for the first term; count epsilon^2 is
    its small-epsilon form, and the one that fits the corollary of Tossou & Dimitrakakis 2017.

    Examples:
      >>> epsilon = privacy.advanced_composition(100, 0.01, 1e-6)
      >>> print(f"{epsilon:.3g}, and 1 as the sum of the epsilons")
      0.536, and 1 as the sum of the epsilons
    """
    count = _real(count)
    return count * epsilon**2 + epsilon * jnp.sqrt(2.0 * count * jnp.log(1.0 / delta))


def bounded_range_rho(width, count=1.0):
    """rho of ``count`` adaptive draws whose log-likelihood ratios lie in intervals of this width.

    Each draw has width^2 / 8 (Dong, Durfee & Rogers 2020; Cesar & Rogers 2021, Lemma 3.2), and zCDP
    adds up over adaptive draws (Bun & Steinke 2016, Lemma 1.7). An exponential mechanism whose
    exponents change by u has width max(u) - min(u).

    Examples:
      >>> float(privacy.bounded_range_rho(1.0)), float(privacy.bounded_range_rho(1.0, count=8))
      (0.125, 1.0)
    """
    return _real(count) * jnp.square(_real(width)) / 8.0
