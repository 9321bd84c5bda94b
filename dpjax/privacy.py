"""From a declared (epsilon, delta) to a noise scale, and back.

Pure functions of traced numbers: epsilon and delta may be tracers, and epsilon = inf means no
privacy and no noise. ``rho`` is the parameter of zero-concentrated differential privacy
(zCDP; Bun & Steinke 2016). Sensitivities are L1 for Laplace noise.
"""

import jax.numpy as jnp


def laplace_scale(sensitivity, epsilon):
    """Scale of the Laplace noise that makes a release epsilon-DP.

    Dwork, McSherry, Nissim & Smith 2006, Proposition 1: scale = sensitivity / epsilon, with
    the L1 sensitivity. 0 at epsilon = inf.
    """
    return jnp.asarray(sensitivity, jnp.float32) / jnp.asarray(epsilon, jnp.float32)


def zcdp_epsilon(rho, delta):
    """The epsilon at delta of a rho-zCDP release: rho + 2 sqrt(rho ln(1/delta)).

    Bun & Steinke 2016, Proposition 1.3.
    """
    rho = jnp.asarray(rho, jnp.float32)
    return rho + 2.0 * jnp.sqrt(rho * jnp.log(1.0 / delta))


def zcdp_inverse_root(epsilon, delta):
    """1 / sqrt(rho) for the rho whose :func:`zcdp_epsilon` at delta is epsilon.

    With L = ln(1/delta), sqrt(rho) = sqrt(L + epsilon) - sqrt(L) cancels to 0 in float32
    where epsilon is small; this is its reciprocal with the difference rationalized,
    (sqrt(L + epsilon) + sqrt(L)) / epsilon. 0 at epsilon = inf.
    """
    inverse = 1.0 / jnp.asarray(epsilon, jnp.float32)
    log_term = jnp.log(1.0 / jnp.asarray(delta, jnp.float32))
    root = jnp.sqrt(log_term) * inverse
    return jnp.sqrt(root * root + inverse) + root


def advanced_composition(count, epsilon, delta):
    """Epsilon at delta of ``count`` adaptive epsilon-DP releases, in two-term form.

    count epsilon^2 + epsilon sqrt(2 count ln(1/delta)). Dwork, Rothblum & Vadhan 2010,
    Theorem III.3 prints count epsilon (e^epsilon - 1) for the first term; count epsilon^2 is
    its small-epsilon form, and the one that fits the corollary of Tossou & Dimitrakakis 2017.
    """
    count = jnp.asarray(count, jnp.float32)
    return count * epsilon**2 + epsilon * jnp.sqrt(2.0 * count * jnp.log(1.0 / delta))


def bounded_range_rho(width, count=1.0):
    """rho of ``count`` adaptive draws, each with log-likelihood ratios in a width-long interval.

    Dong, Durfee & Rogers 2020, and Cesar & Rogers 2021, Lemma 3.2: width^2 / 8 a draw; zCDP
    adds up over adaptive draws (Bun & Steinke 2016, Lemma 1.7). The exponential mechanism whose
    exponents change by u has width max(u) - min(u).
    """
    return jnp.asarray(count, jnp.float32) * jnp.square(jnp.asarray(width, jnp.float32)) / 8.0
