"""Exact privacy of integer noise, from its probabilities.

A value that changes by an integer, at most the sensitivity, is released with integer noise. Let P
be the law of the noise, and s a shift. Then delta(epsilon) is the hockey-stick divergence, the sum
over k of max(0, P(k) - e^epsilon P(k - s)), in the direction in which it is larger. All laws here
are log-concave. So the ratio P(k) / P(k - s) is decreasing in k, the worst event is a half-line,
and delta grows with s. The worst shift is the sensitivity.

These functions run on the host, in NumPy's float64, and take plain numbers only. They sum over a
window of integers that holds all but 1e-40 of a law's mass, so the truncation error of delta is
below 1e-40. The relative rounding error of delta is below 1e-9.
"""

import math

import numpy as np
import scipy
from numpy.typing import ArrayLike

from dpjax.core import _check

# ln(2 / 1e-40). Two tails of mass e^-TAIL each have the total mass 1e-40.
TAIL = math.log(2e40)


def integer_delta(log_pmf: ArrayLike, shift: int, epsilon: float) -> float:
    """Delta at epsilon of integer noise under one shift: the hockey-stick divergence.

    It is the sum over k of max(0, P(k) - e^epsilon P(k - shift)), in the larger direction. This is
    the definition of (epsilon, delta)-DP for one pair of inputs (Dwork, McSherry, Nissim & Smith
    2006; Barthe & Olmedo 2013 for the divergence).

    Args:
      log_pmf: natural logarithms of the noise's probabilities at consecutive integers, (size,). The
        first integer is arbitrary. Integers outside the array have probability 0. If mass t is left
        out, the result is too low by at most t, and too high by at most the mass of the ``shift``
        integers at an end of the array.
      shift: the change of the value, an integer of at least 1.
      epsilon: at least 0 and finite.

    Examples:
      >>> fair = np.log([0.25, 0.5, 0.25])  # two coins
      >>> [round(privacy.integer_delta(fair, 1, epsilon), 3) for epsilon in (0.0, np.log(2.0))]
      [0.5, 0.25]
    """
    shift = _check.size(1, shift=shift)
    _check.non_negative(epsilon=epsilon)
    law = np.asarray(log_pmf, np.float64)
    if law.ndim != 1 or not law.size or not (law <= 1e-6).all():
        raise ValueError("log_pmf must be a vector of logarithms of probabilities, at most 0")
    nothing = np.full(min(shift, law.size), -np.inf)
    first, second = np.concatenate([law, nothing]), np.concatenate([nothing, law])

    def divergence(above, below):
        exceeds = above > below + epsilon
        above, below = above[exceeds], below[exceeds]
        return float(np.sum(np.exp(above) * -np.expm1(epsilon + below - above)))

    return min(max(divergence(first, second), divergence(second, first)), 1.0)


def integer_epsilon(log_pmf: ArrayLike, shift: int, delta: float) -> float:
    """The least epsilon whose :func:`integer_delta` is at most delta; inf if there is none.

    For a log-concave law the worst events are half-lines. Let P and Q be the probabilities of a
    half-line under the law and the shifted law. Then epsilon is the largest ln((P - delta) / Q)
    over all half-lines.

    Args:
      log_pmf: as in :func:`integer_delta`, of a log-concave law.
      shift: the change of the value, an integer of at least 1.
      delta: in [0, 1).

    Examples:
      >>> fair = np.log([0.25, 0.5, 0.25])  # two coins
      >>> [round(privacy.integer_epsilon(fair, 1, delta), 3) for delta in (0.1, 0.25)]
      [inf, 0.693]
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


def _binomial_log_pmf(count: int, log_odds: float) -> tuple[int, np.ndarray]:
    """The first integer of a binomial law's window, and the log-probabilities of the window.

    The log-probabilities are cumulative sums of the log-ratios of neighbours,
    ln((count - k + 1) / k) + log_odds, normalized to mass 1. So no digits are lost in factorials of
    large numbers. The window follows from Bernstein's inequality.
    """
    if log_odds > 0.0:
        start, law = _binomial_log_pmf(count, -log_odds)
        return count - start - len(law) + 1, law[::-1]
    mean = count * float(scipy.special.expit(log_odds))
    half = math.sqrt(2.0 * mean * float(scipy.special.expit(-log_odds)) * TAIL) + TAIL / 3.0
    start, end = max(0, math.floor(mean - half)), min(count, math.ceil(mean + half))
    points = np.arange(start + 1, end + 1, dtype=np.float64)
    law = np.append(0.0, np.cumsum(np.log((count - points + 1.0) / points) + log_odds))
    return start, law - scipy.special.logsumexp(law)
