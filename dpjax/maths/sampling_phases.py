"""Phases of pulls, with tests of arms after each phase, and the union bound over them.

When a phase of an arm ends, a private mean of the arm is released.
"""

import functools
import math

import jax.numpy as jnp
import numpy as np

from dpjax.core import Array, Number

_LARGEST_COUNT = 2**31 - 1


def phase_exponent(failure: Number, arms: int, phase_n: Number, phase_m: Number):
    """ln((K - 1) / failure) + ln(j (j + 1)) + ln(j' (j' + 1)) for the phases j, j' = 1, 2, ...

    With these exponents the total error probability of all tests is at most ``failure``, for any
    rule of choosing arms. Proof, ours: the k-th release of an arm is one fixed random variable. So
    a union bound over the K - 1 wrong arms and all pairs of phases covers every test. The error
    probabilities sum to ``failure``, since sum_j 1 / (j (j + 1)) = 1. The first phase that may be
    tested (:func:`first_phase`) has j = 1.
    """
    numbers = (jnp.asarray(value, jnp.float32) for value in (failure, phase_n, phase_m))
    failure, phase_n, phase_m = jnp.broadcast_arrays(*numbers)
    j, k = jnp.maximum(phase_n, 1.0), jnp.maximum(phase_m, 1.0)
    pairs = jnp.log(j) + jnp.log(j + 1.0) + jnp.log(k) + jnp.log(k + 1.0)
    return jnp.log((arms - 1.0) / failure) + pairs


@functools.lru_cache
def phase_samples(ratio: Number = 2.0, forget: bool = True):
    """The number of losses in the release of each phase 1, 2, ..., float64, up to 2^31 pulls.

    The number N of an arm's pulls starts at 1, and a phase raises it to N + ceil((ratio - 1) N).
    With ``forget`` a release covers only its own phase: 1, 1, 2, 4, ... losses at ratio 2.
    Otherwise a release covers all pulls so far: 1, 2, 4, 8, ...
    """
    if not ratio > 1.0:
        raise ValueError(f"ratio must be above 1, got {ratio}")
    pulls = [1]
    while pulls[-1] <= _LARGEST_COUNT:
        pulls.append(pulls[-1] + math.ceil((ratio - 1.0) * pulls[-1]))
    grid = np.array(pulls[:-1], np.float64)
    return np.diff(grid, prepend=0.0) if forget else grid


def first_phase(
    failure: Number, arms: int, epsilon: Number, ratio: Number = 2.0, forget: bool = True
):
    """The first phase k0 = 1, 2, ... of at least ln((K - 1) / failure) / epsilon losses, () int32.

    With means in [0, 1], no test of an earlier phase can pass. The exponent is at least
    x0 = ln((K - 1) / failure). The transport cost is at most epsilon min(n, m), and the threshold
    of the cost is at least the exponent. The Hoeffding radius is above
    exponent / (epsilon min(n, m)). So if min(n, m) < x0 / epsilon, the cost is below its threshold
    and the radius is above 1. Phases that are never tested need no share of ``failure``.

    ``ratio`` and ``forget`` are plain values, as for :func:`phase_samples`. ``failure`` and
    ``epsilon`` may be traced; at epsilon = inf k0 is 1. If no phase is long enough, k0 is one more
    than the number of phases.
    """
    failure, epsilon = jnp.asarray(failure, jnp.float32), jnp.asarray(epsilon, jnp.float32)
    return first_phase_of(jnp.log((arms - 1.0) / failure) / epsilon, ratio, forget)


def first_phase_of(losses: Array, ratio: Number = 2.0, forget: bool = True):
    """The first phase of at least ``losses`` losses, () int32; the number of phases + 1 if none."""
    grid = jnp.asarray(phase_samples(ratio, forget), jnp.float32)
    return 1 + jnp.sum(grid < losses, dtype=jnp.int32)
