"""Exact privacy of discrete Laplace, discrete Gaussian and Skellam noise, and the least of it.

What :mod:`dpjax.privacy.integer` says of the accounting on the host holds here, too.
"""

import math

import numpy as np
from scipy.special import ive, logsumexp

from dpjax import _check
from dpjax.privacy.integer import (
    LARGEST_DEVIATION,
    TAIL,
    _deviation,
    _least,
    _sensitivity,
    integer_delta,
    integer_epsilon,
)


def discrete_laplace_delta(scale: float, epsilon: float, sensitivity: int = 1) -> float:
    """Delta at epsilon of noise with P(k) proportional to e^(-|k| / scale).

    It is 0 from epsilon = sensitivity / scale on (Ghosh, Roughgarden & Sundararajan 2012). Below,
    with r = 1 / scale, it is F(0) (1 - e^(epsilon - r s)) with F(0) = 1 / (1 + e^-r), plus
    P(k) (1 - e^(epsilon - r (s - 2 k))) for each k >= 1 at which that is positive. Our derivation.

    Args:
      scale: greater than 0.
      epsilon: at least 0 and finite.
      sensitivity: largest change of the value, an integer from 1 to 10 000.

    Examples:
      >>> [round(privacy.discrete_laplace_delta(2.0, epsilon), 3) for epsilon in (0.0, 0.25, 0.5)]
      [0.245, 0.138, 0.0]
    """
    shift = _sensitivity(sensitivity)
    _check.positive(scale=scale)
    _check.non_negative(epsilon=epsilon)
    if scale * epsilon >= shift:
        return 0.0
    rate = 1.0 / scale
    points = np.arange(1, shift // 2 + 1, dtype=np.float64)
    excess = np.maximum(-np.expm1(epsilon - rate * (shift - 2.0 * points)), 0.0)
    left = -math.expm1(epsilon - rate * shift) / (1.0 + math.exp(-rate))
    return float(left + math.tanh(0.5 * rate) * np.sum(np.exp(-rate * points) * excess))


def discrete_laplace_scale(epsilon: float, delta: float = 0.0, sensitivity: int = 1) -> float:
    """The least scale whose :func:`discrete_laplace_delta` at epsilon is at most delta.

    It is sensitivity / epsilon at delta = 0, and 0 at epsilon = inf. A larger scale is
    post-processing, so delta falls in the scale.

    Examples:
      >>> [privacy.discrete_laplace_scale(epsilon) for epsilon in (0.5, 1.0, np.inf)]
      [2.0, 1.0, 0.0]
    """
    epsilon, shift = _check.epsilon(epsilon), _sensitivity(sensitivity)
    if not (isinstance(delta, int | float) and delta == 0):
        _check.delta(delta)
    if math.isinf(epsilon) or delta == 0.0:
        return shift / epsilon
    return _least(
        lambda scale: discrete_laplace_delta(scale, epsilon, shift),
        delta,
        shift / epsilon,
        math.inf,
    )


def discrete_laplace_variance(scale: float) -> float:
    """Variance of noise with P(k) proportional to e^(-|k| / scale): 1 / (2 sinh(1 / (2 scale))^2).

    It is below the 2 scale^2 of continuous Laplace noise, and 0 at scale 0.

    Examples:
      >>> [round(privacy.discrete_laplace_variance(scale), 3) for scale in (0.5, 1.0, 10.0)]
      [0.362, 1.841, 199.833]
      >>> [2 * scale**2 for scale in (0.5, 1.0, 10.0)]  # of continuous noise
      [0.5, 2.0, 200.0]
    """
    _check.non_negative(scale=scale)
    decay = math.exp(-1.0 / scale) if scale > 0.0 else 0.0
    return 2.0 * decay / math.expm1(-1.0 / scale) ** 2 if decay > 0.0 else 0.0


def _discrete_gaussian(scale, shift):
    # The noise is sub-Gaussian with variance scale^2.
    half = math.ceil(scale * math.sqrt(2.0 * TAIL)) + shift
    exponent = -0.5 * (np.arange(-half, half + 1) / scale) ** 2
    return exponent - logsumexp(exponent)


def discrete_gaussian_delta(scale: float, epsilon: float, sensitivity: int = 1) -> float:
    """Delta at epsilon of noise with P(k) proportional to e^(-k^2 / (2 scale^2)).

    :func:`integer_delta` of the law (Canonne, Kamath & Steinke 2020, Theorem 7). The noise is also
    sensitivity^2 / (2 scale^2)-zCDP (their Theorem 4). The law of a rounded normal draw is another,
    and so is that of a sum of such draws.

    Args:
      scale: greater than 0 and at most 10 000. The variance is at most scale^2.
      epsilon: at least 0 and finite.
      sensitivity: largest change of the value, an integer from 1 to 10 000.

    Examples:
      >>> [f"{privacy.discrete_gaussian_delta(scale, 1.0):.2g}" for scale in (2.0, 4.0)]
      ['0.0072', '3.1e-06']
    """
    shift, scale = _sensitivity(sensitivity), _deviation("scale", scale, 1)
    return integer_delta(_discrete_gaussian(scale, shift), shift, epsilon)


def discrete_gaussian_epsilon(scale: float, delta: float, sensitivity: int = 1) -> float:
    """The least epsilon whose :func:`discrete_gaussian_delta` is at most delta.

    Examples:
      >>> [round(privacy.discrete_gaussian_epsilon(scale, 1e-6), 2) for scale in (2.0, 4.0, 8.0)]
      [2.28, 1.06, 0.5]
    """
    shift, scale = _sensitivity(sensitivity), _deviation("scale", scale, 1)
    return integer_epsilon(_discrete_gaussian(scale, shift), shift, delta)


def discrete_gaussian_scale(epsilon: float, delta: float, sensitivity: int = 1) -> float:
    """The least scale whose :func:`discrete_gaussian_delta` at epsilon is at most delta.

    It is 0 at epsilon = inf. Delta at the result has been evaluated, so the result is valid. But
    from epsilon = 1 on, delta does not always fall in the scale: at sensitivity 1 and epsilon 5 it
    is 0.007 at scale 0.32 and 0.07 at 0.48. So the result need not be the least scale there, and
    delta at a larger scale can be too large.

    Examples:
      >>> scale = privacy.discrete_gaussian_scale(1.0, 1e-6)
      >>> print(f"{scale:.3g}")
      4.23
    """
    epsilon, shift = _check.epsilon(epsilon), _sensitivity(sensitivity)
    _check.delta(delta)
    if math.isinf(epsilon):
        return 0.0
    return _least(
        lambda scale: discrete_gaussian_delta(scale, epsilon, shift),
        delta,
        1.0,
        float(LARGEST_DEVIATION),
    )


def _skellam(variance, shift):
    # The noise is sub-gamma: P(X >= sqrt(2 variance x) + x / 3) <= e^-x, since
    # cosh(t) - 1 <= t^2 / (2 (1 - t / 3)).
    half = math.ceil(math.sqrt(2.0 * variance * TAIL) + TAIL / 3.0) + shift
    with np.errstate(divide="ignore"):
        side = np.log(ive(np.arange(half + 1), variance))
    return np.concatenate([side[:0:-1], side])


def skellam_delta(variance: float, epsilon: float, sensitivity: int = 1) -> float:
    """Delta at epsilon of the difference of two Poisson variables of mean variance / 2 each.

    :func:`integer_delta` of P(k) = e^-variance I_|k|(variance), with the modified Bessel function
    I. Sums of such noise are such noise, so delta falls in the variance. (Agarwal, Kairouz & Liu
    2021 bound its Renyi divergences instead.)

    Args:
      variance: greater than 0 and at most 10^8.
      epsilon: at least 0 and finite.
      sensitivity: largest change of the value, an integer from 1 to 10 000.

    Examples:
      >>> [f"{privacy.skellam_delta(variance, 1.0):.2g}" for variance in (4.0, 16.0)]
      ['0.0035', '2.7e-07']
    """
    shift, variance = _sensitivity(sensitivity), _deviation("variance", variance, 2)
    return integer_delta(_skellam(variance, shift), shift, epsilon)


def skellam_epsilon(variance: float, delta: float, sensitivity: int = 1) -> float:
    """The least epsilon whose :func:`skellam_delta` is at most delta.

    Examples:
      >>> [round(privacy.skellam_epsilon(variance, 1e-6), 2) for variance in (16.0, 64.0)]
      [0.95, 0.49]
    """
    shift, variance = _sensitivity(sensitivity), _deviation("variance", variance, 2)
    return integer_epsilon(_skellam(variance, shift), shift, delta)


def skellam_variance(epsilon: float, delta: float, sensitivity: int = 1) -> float:
    """The least variance whose :func:`skellam_delta` at epsilon is at most delta.

    It is 0 at epsilon = inf.

    Examples:
      >>> [round(privacy.skellam_variance(epsilon, 1e-6), 1) for epsilon in (0.5, 1.0)]
      [61.2, 14.2]
    """
    epsilon, shift = _check.epsilon(epsilon), _sensitivity(sensitivity)
    _check.delta(delta)
    if math.isinf(epsilon):
        return 0.0
    return _least(
        lambda variance: skellam_delta(variance, epsilon, shift),
        delta,
        1.0,
        float(LARGEST_DEVIATION**2),
    )
