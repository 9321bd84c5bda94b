"""The exact privacy of one integer with integer noise, and the calibration of this noise.

Exact values are computed on the host, from the probabilities of the law. A learner's epsilon may be
traced, so a learner looks up the least sufficient scale in a grid. The standard deviation of its
noise is at most one percent above the least sufficient one, and never below.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpjax.core import Array, Number, _check
from dpjax.privacy.gaussian import gaussian_scale
from dpjax.privacy.integer import integer_delta, integer_epsilon

# Up to this deviation, Bessel functions of its square have eleven digits, and windows fit into
# memory.
LARGEST_DEVIATION = 10_000
LARGEST_SENSITIVITY = 10_000
STEP = 1.02  # the ratio of neighbouring variances in a grid
# Noise of a larger deviation than the scales of a grid hides as much as Gaussian noise whose
# deviation is smaller by this factor.
WIDER = 1.001


def _deviation(scale) -> float:
    _check.positive(scale=scale)
    _check.between(0, LARGEST_DEVIATION, scale=scale)
    return float(scale)


def exact_privacy(log_pmf: Callable, read: Callable = _deviation) -> dict[str, Any]:
    """The fields ``delta`` and ``epsilon`` of a :class:`dpjax.noise.Law`.

    They hold for one integer that changes by at most the sensitivity, an integer from 1 to 10 000.

    Args:
      log_pmf: (scale, shift) -> logarithms of the law's probabilities at consecutive integers, with
        a margin of ``shift``, as for :func:`dpjax.privacy.integer_delta`.
      read: checks a scale, and converts it for ``log_pmf``.
    """

    def log_pmf_of(scale, sensitivity):
        shift = _check.size(1, sensitivity=sensitivity)
        _check.between(1, LARGEST_SENSITIVITY, sensitivity=shift)
        return log_pmf(read(scale), shift), shift

    def delta_at(scale, epsilon, sensitivity=1):
        return integer_delta(*log_pmf_of(scale, sensitivity), epsilon)

    def epsilon_at(scale, delta, sensitivity=1):
        return integer_epsilon(*log_pmf_of(scale, sensitivity), delta)

    return {"delta": delta_at, "epsilon": epsilon_at}


def on_integers(log_probability: Callable) -> Callable:
    """(noise, scale) -> log-probabilities, which are -inf except at integers.

    Noise within a thousandth of an integer counts as that integer, since the noise is computed as a
    difference of two float32 numbers.
    """

    def log_density(noise, scale):
        whole = jnp.round(noise)
        log = log_probability(whole, jnp.asarray(scale, jnp.float32))
        return jnp.where(jnp.abs(noise - whole) < 1e-3, log, -jnp.inf)

    return log_density


@functools.lru_cache
def _table(exact, grid, delta) -> tuple[np.ndarray, np.ndarray]:
    """Increasing scales (n,), and for each the least epsilon (n,) for which it suffices."""
    scales = np.asarray(grid(delta))
    epsilons = np.array([exact(scale, delta) for scale in scales])
    # A scale is dropped if a smaller scale suffices for the same epsilon.
    useful = epsilons < np.append(np.inf, np.minimum.accumulate(epsilons)[:-1])
    epsilons = np.nextafter(epsilons[useful].astype(np.float32), np.float32(np.inf))
    return scales[useful].astype(np.float32), epsilons


def scale_of_one(
    exact: Callable[[float, float], float],
    grid: Callable[[float], np.ndarray],
    wide: Callable[[Array], Array],
    epsilon: Number,
    delta: float,
) -> Array:
    """The scale that hides a change by 1 at (epsilon, delta), () float32, for a traced epsilon.

    The scale suffices by the exact epsilon of its law, and its deviation is at most one percent
    above the least sufficient one. If epsilon is so small that no scale of the grid suffices, the
    scale is slightly above that of continuous Gaussian noise.

    Args:
      exact: (scale, delta) -> the least epsilon, on the host.
      grid: delta -> increasing scales to try.
      wide: the deviation of Gaussian noise -> a sufficient scale.
      epsilon: may be traced; the scale is 0 at inf, and NaN at NaN.
      delta: in (0, 1), a plain number.
    """
    if isinstance(delta, jax.core.Tracer):
        raise TypeError("delta must not be traced, since integer noise is calibrated on the host")
    _check.delta(delta)
    epsilon = _check.epsilon(epsilon)
    scales, epsilons = _table(exact, grid, float(delta))
    budget = jnp.asarray(epsilon, jnp.float32)
    place = jnp.sum(epsilons > budget, dtype=jnp.int32)
    scale = jnp.asarray(scales)[jnp.minimum(place, len(scales) - 1)]
    many = wide(WIDER * gaussian_scale(1.0, budget, delta))
    scale = jnp.where(budget < jnp.inf, jnp.where(place < len(scales), scale, many), 0.0)
    return jnp.where(jnp.isnan(budget), jnp.nan, scale)
