"""Integers k of probability proportional to e^(-|k| / scale): discrete Laplace noise."""

import math
from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from dpjax.core import _check
from dpjax.maths.laws import random_words, sign_and_tail
from dpjax.noise.laplace import laplace
from dpjax.privacy.integer import _least, _sensitivity


def draw(key, scale, shape):
    """k with probability proportional to e^(-|k| / scale), (*shape) float32; 0 at scale 0.

    It is the difference of two geometric variables, which are exponential ones rounded down.
    """
    return as_draw(random_words(key, (2, *shape)), jnp.asarray(scale, jnp.float32))


def as_draw(words, scale):
    """Draws from words (2, ...) of a generator."""
    _, u = sign_and_tail(words)
    size = jnp.floor(-jnp.log(u) * scale)
    return size[0] - size[1]


def exact_delta(scale: float, epsilon: float, sensitivity: int = 1) -> float:
    """Delta at epsilon of noise with P(k) proportional to e^(-|k| / scale).

    It is 0 from epsilon = sensitivity / scale on (Ghosh, Roughgarden & Sundararajan 2012). Below,
    with r = 1 / scale, it is F(0) (1 - e^(epsilon - r s)) with F(0) = 1 / (1 + e^-r), plus
    P(k) (1 - e^(epsilon - r (s - 2 k))) for each k >= 1 at which that is positive. Our derivation.

    Args:
      scale: greater than 0.
      epsilon: at least 0 and finite.
      sensitivity: largest change of the value, an integer from 1 to 10 000.

    Examples:
      >>> [round(noise.discrete_laplace.delta(2.0, epsilon), 3) for epsilon in (0.0, 0.25, 0.5)]
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


def least_scale(epsilon: float, delta: float = 0.0, sensitivity: int = 1) -> float:
    """The least scale whose :func:`exact_delta` at epsilon is at most delta.

    It is sensitivity / epsilon at delta = 0, and 0 at epsilon = inf. A larger scale is
    post-processing, so delta falls in the scale.

    Examples:
      >>> [noise.discrete_laplace.least_scale(epsilon) for epsilon in (0.5, 1.0, np.inf)]
      [2.0, 1.0, 0.0]
    """
    epsilon, shift = _check.epsilon(epsilon), _sensitivity(sensitivity)
    if not (isinstance(delta, int | float) and delta == 0):
        _check.delta(delta)
    if math.isinf(epsilon) or delta == 0.0:
        return shift / epsilon
    return _least(
        lambda scale: exact_delta(scale, epsilon, shift),
        delta,
        shift / epsilon,
        math.inf,
    )


def exact_variance(scale: float) -> float:
    """Variance of noise with P(k) proportional to e^(-|k| / scale): 1 / (2 sinh(1 / (2 scale))^2).

    It is below the 2 scale^2 of continuous Laplace noise, and 0 at scale 0.

    Examples:
      >>> [round(noise.discrete_laplace.exact_variance(scale), 3) for scale in (0.5, 1.0, 10.0)]
      [0.362, 1.841, 199.833]
      >>> [2 * scale**2 for scale in (0.5, 1.0, 10.0)]  # of continuous noise
      [0.5, 2.0, 200.0]
    """
    _check.non_negative(scale=scale)
    decay = math.exp(-1.0 / scale) if scale > 0.0 else 0.0
    return 2.0 * decay / math.expm1(-1.0 / scale) ** 2 if decay > 0.0 else 0.0


discrete_laplace = replace(
    laplace,
    name="discrete_laplace",
    draw=draw,
    declare=None,
    integers=True,
    delta=exact_delta,
    least_scale=least_scale,
    draw_sum=None,
    model="distributed",
    limit=None,
)
