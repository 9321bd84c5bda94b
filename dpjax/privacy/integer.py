"""Exact privacy of integer noise, and the least noise for a declared (epsilon, delta).

A value that changes by an integer, at most by the sensitivity, is released with added integer
noise. For one law P of the noise and one shift s, delta(epsilon) is the hockey-stick divergence,
the sum over k of max(0, P(k) - e^epsilon P(k - s)), or the same with the two laws exchanged,
whichever is larger. All laws here are log-concave. Then the ratio P(k) / P(k - s) falls in k, the
worst event is a half-line, and delta grows with s. So the worst shift is the sensitivity.

These functions run on the host, in NumPy's float64, and take plain numbers only. Epsilon = inf
means no privacy and no noise in calibrations. They sum over a window of integers, outside of which
a law has less than 1e-40 of its mass, so delta is wrong by less than 1e-40 for that reason. By
rounding it is wrong by less than 1e-9 of itself.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, ive, logsumexp

from dpjax import _check

# ln(2 / 1e-40). Two tails of e^-TAIL each have mass 1e-40 together.
TAIL = math.log(2e40)
# Bessel functions keep eleven digits up to this deviation squared, and windows fit into memory.
LARGEST_DEVIATION = 10_000
LARGEST_SENSITIVITY = 10_000


def _sensitivity(given) -> int:
    number = _check.size(1, sensitivity=given)
    _check.between(1, LARGEST_SENSITIVITY, sensitivity=number)
    return number


def _deviation(name, value, power) -> float:
    _check.positive(**{name: value})
    _check.between(0, LARGEST_DEVIATION**power, **{name: value})
    return float(value)


def integer_delta(log_pmf: ArrayLike, shift: int, epsilon: float) -> float:
    """Delta at epsilon of integer noise under one shift: the hockey-stick divergence.

    The larger direction of sum over k of max(0, P(k) - e^epsilon P(k - shift)), which is the
    definition of (epsilon, delta)-DP for one pair of inputs (Dwork, McSherry, Nissim & Smith 2006;
    Barthe & Olmedo 2013 for the divergence).

    Args:
      log_pmf: natural logarithms of the noise's probabilities at consecutive integers, of shape
        (size,). Where they begin does not matter. Integers outside have probability 0. Leaving
        out mass t changes the result by at most t downwards, and upwards by at most the mass of
        the ``shift`` integers at an end of the array.
      shift: by how much the value changes, an integer of at least 1.
      epsilon: at least 0 and finite.
    """
    shift = _check.size(1, shift=shift)
    _check.non_negative(epsilon=epsilon)
    law = np.asarray(log_pmf, np.float64)
    if law.ndim != 1 or not law.size or not (law <= 1e-6).all():
        raise ValueError("log_pmf must be a vector of logarithms of probabilities, at most 0")
    nothing = np.full(min(shift, law.size), -np.inf)
    here, there = np.concatenate([law, nothing]), np.concatenate([nothing, law])

    def divergence(above, below):
        exceeds = above > below + epsilon
        above, below = above[exceeds], below[exceeds]
        return float(np.sum(np.exp(above) * -np.expm1(epsilon + below - above)))

    return min(max(divergence(here, there), divergence(there, here)), 1.0)


def integer_epsilon(log_pmf: ArrayLike, shift: int, delta: float) -> float:
    """The least epsilon whose :func:`integer_delta` is at most delta; inf where none is.

    For a log-concave law the worst events are half-lines. Let P and Q be the probabilities of one
    under the law and under the shifted law. Then epsilon is the largest ln((P - delta) / Q).

    Args:
      log_pmf: as of :func:`integer_delta`, of a log-concave law.
      shift: by how much the value changes, an integer of at least 1.
      delta: in [0, 1).
    """
    shift = _check.size(1, shift=shift)
    law = np.exp(np.asarray(log_pmf, np.float64))

    def exceeds(law):
        """The largest (P - delta) / Q over half-lines from the end where the ratio is largest."""
        one, other = np.cumsum(law), np.cumsum(np.append(np.zeros(shift), law))[: len(law)]
        above = one > delta
        with np.errstate(divide="ignore"):
            return np.max((one[above] - delta) / other[above], initial=1.0)

    return float(np.log(max(exceeds(law), exceeds(law[::-1]))))


def _least(delta_at: Callable[[float], float], delta, start, largest) -> float:
    """The least noise whose delta is at most the given one, by bisection in its logarithm.

    The result has been evaluated: ``delta_at`` of it is at most delta. It is within 1e-12 of the
    least one.
    """
    high = start
    while delta_at(high) > delta:
        if high >= largest:
            raise ValueError(
                f"epsilon and delta must allow for noise of deviation at most {LARGEST_DEVIATION}, "
                "and they need more"
            )
        high = min(2.0 * high, largest)
    low = 0.5 * high
    while delta_at(low) <= delta:
        low, high = 0.5 * low, low
    while high > low * (1.0 + 1e-12):
        middle = math.sqrt(low * high)
        if not low < middle < high:
            break
        low, high = (low, middle) if delta_at(middle) <= delta else (middle, high)
    return high


def binomial_log_pmf(count: int, log_odds: float) -> tuple[int, np.ndarray]:
    """Where the window of a binomial law begins, and the law's logarithm at its integers.

    The logarithms are sums of those of the ratios (count - k + 1) / k e^log_odds of neighbours, and
    mass 1 fixes the constant. So no factorial of a large number loses digits. The window follows
    from Bernstein's inequality.
    """
    if log_odds > 0.0:
        start, law = binomial_log_pmf(count, -log_odds)
        return count - start - len(law) + 1, law[::-1]
    mean = count * float(expit(log_odds))
    half = math.sqrt(2.0 * mean * float(expit(-log_odds)) * TAIL) + TAIL / 3.0
    start, end = max(0, math.floor(mean - half)), min(count, math.ceil(mean + half))
    points = np.arange(start + 1, end + 1, dtype=np.float64)
    law = np.append(0.0, np.cumsum(np.log((count - points + 1.0) / points) + log_odds))
    return start, law - logsumexp(law)


def binomial_delta(coins: int, epsilon: float, sensitivity: int = 1) -> float:
    """Delta at epsilon of a sum released with the noise Bin(coins, 1/2) - coins / 2.

    :func:`integer_delta` of the law. For sensitivity 1 it is F(k) - e^epsilon F(k - 1), where F is
    the distribution function of Bin(coins, 1/2) and k = ceil((coins + 1) / (1 + e^epsilon)) - 1. It
    falls in ``coins``, as one more coin is post-processing. Our derivation; the protocol is that of
    Cheu, Smith, Ullman, Zeber & Zhilyaev 2019 and Balcer & Cheu 2020.

    Args:
      coins: number of fair coins in the sum, at least 0.
      epsilon: at least 0 and finite.
      sensitivity: largest change of the sum, an integer from 1 to 10 000.
    """
    coins, shift = _check.size(0, coins=coins), _sensitivity(sensitivity)
    return integer_delta(binomial_log_pmf(coins, 0.0)[1], shift, epsilon)


def binomial_epsilon(coins: int, delta: float, sensitivity: int = 1) -> float:
    """The least epsilon whose :func:`binomial_delta` is at most delta; inf where none is."""
    coins, shift = _check.size(0, coins=coins), _sensitivity(sensitivity)
    return integer_epsilon(binomial_log_pmf(coins, 0.0)[1], shift, delta)


def binomial_coins(epsilon: float, delta: float, sensitivity: int = 1) -> int:
    """The least number of fair coins whose :func:`binomial_delta` at epsilon is at most delta.

    The noise has variance coins / 4, and is sub-Gaussian with it. 0 at epsilon = inf. A number of
    coins above 2^31 - 1 is refused.
    """
    epsilon, shift = _check.epsilon(epsilon), _sensitivity(sensitivity)
    _check.delta(delta)
    if math.isinf(epsilon):
        return 0
    low, high = 0, 1
    while binomial_delta(high, epsilon, shift) > delta:
        if high == _check.LARGEST_SIZE:
            raise ValueError(
                f"epsilon and delta must allow for at most {_check.LARGEST_SIZE} coins, "
                "and they need more"
            )
        low, high = high, min(2 * high, _check.LARGEST_SIZE)
    while high - low > 1:
        middle = (low + high) // 2
        enough = binomial_delta(middle, epsilon, shift) <= delta
        low, high = (low, middle) if enough else (middle, high)
    return high


def discrete_laplace_delta(scale: float, epsilon: float, sensitivity: int = 1) -> float:
    """Delta at epsilon of noise with P(k) proportional to e^(-|k| / scale).

    It is 0 from epsilon = sensitivity / scale on (Ghosh, Roughgarden & Sundararajan 2012). Below,
    with r = 1 / scale, it is F(0) (1 - e^(epsilon - r s)) with F(0) = 1 / (1 + e^-r), plus
    P(k) (1 - e^(epsilon - r (s - 2 k))) for each k >= 1 at which that is positive. Our derivation.

    Args:
      scale: greater than 0.
      epsilon: at least 0 and finite.
      sensitivity: largest change of the value, an integer from 1 to 10 000.
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
    """
    shift, scale = _sensitivity(sensitivity), _deviation("scale", scale, 1)
    return integer_delta(_discrete_gaussian(scale, shift), shift, epsilon)


def discrete_gaussian_epsilon(scale: float, delta: float, sensitivity: int = 1) -> float:
    """The least epsilon whose :func:`discrete_gaussian_delta` is at most delta."""
    shift, scale = _sensitivity(sensitivity), _deviation("scale", scale, 1)
    return integer_epsilon(_discrete_gaussian(scale, shift), shift, delta)


def discrete_gaussian_scale(epsilon: float, delta: float, sensitivity: int = 1) -> float:
    """The least scale whose :func:`discrete_gaussian_delta` at epsilon is at most delta.

    It is 0 at epsilon = inf. Delta at the result has been evaluated, so the result is valid. But
    from epsilon = 1 on, delta does not always fall in the scale: at sensitivity 1 and epsilon 5 it
    is 0.007 at scale 0.32 and 0.07 at 0.48. So the result need not be the least scale there, and
    delta at a larger scale can be too large.
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
    """
    shift, variance = _sensitivity(sensitivity), _deviation("variance", variance, 2)
    return integer_delta(_skellam(variance, shift), shift, epsilon)


def skellam_epsilon(variance: float, delta: float, sensitivity: int = 1) -> float:
    """The least epsilon whose :func:`skellam_delta` is at most delta."""
    shift, variance = _sensitivity(sensitivity), _deviation("variance", variance, 2)
    return integer_epsilon(_skellam(variance, shift), shift, delta)


def skellam_variance(epsilon: float, delta: float, sensitivity: int = 1) -> float:
    """The least variance whose :func:`skellam_delta` at epsilon is at most delta.

    It is 0 at epsilon = inf.
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
