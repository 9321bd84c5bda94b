"""Skellam noise: differences of two Poisson variables of mean scale^2 / 2 each.

Suppose that a value changes by an integer vector c, and each entry gets independent Skellam noise
of variance v = scale^2. Then the Renyi divergence of each integer order a >= 2 is at most

    a |c|_2^2 / (2 v) + min(((2 a - 1) |c|_2^2 + 6 |c|_1) / (4 v^2), 3 |c|_1 / (2 v))

(Agarwal, Kairouz & Liu 2021, "The Skellam mechanism for differentially private federated learning",
Theorem 3.5). The first term is that of Gaussian noise. The second term vanishes relative to it as v
grows. Divergences of adaptive releases add up (Mironov 2017).

For a single integer delta is exact. It is computed from P(k) = e^-v I_|k|(v), where I is the
modified Bessel function. Sums of Skellam noise are Skellam noise, so delta decreases in v.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import random as jr
from jax.scipy.special import gammaln, logsumexp
from jax.typing import ArrayLike

from dpjax.core import Array, Number
from dpjax.maths.laws import binomial, normal
from dpjax.noise.integers import STEP, exact_privacy, on_integers, scale_of_one
from dpjax.noise.law import Calibration, Law
from dpjax.privacy.continuous import _bisected, _real
from dpjax.privacy.integer import TAIL

# From this variance on, a draw is a rounded normal draw. It is within 1e-6 of the law in total
# variation.
_WIDE = 2.0**20
_TRIALS = 2**31 - 1
# The least epsilon over these orders is within one percent of the least over all integers from 2
# on, for epsilon >= 1e-12.
_ORDERS = np.unique(
    np.round(
        np.concatenate(
            [np.arange(2, 40), np.geomspace(40, 2**24, 240), np.geomspace(2**24, 2**50, 256)]
        )
    )
)
# The scale is searched between these powers of 2, times the L2 norm of the change.
_LOWEST, _HIGHEST, _HALVINGS = -10.0, 50.0, 41


def draw(key: Array, scale: Array, shape: tuple[int, ...]):
    """Draws (*shape) float32.

    Two binomial variables replace the two Poisson variables of mean m. They are Bin(n, p) with
    n = 2^31 - 1 and the p that solves n p (1 - p) = m. Each is within p = scale^2 / 2^32 of the
    Poisson law in total variation. (The variance of their difference cannot exceed 2^30.)
    """
    if shape:
        keys = jr.split(key, math.prod(shape))
        return jax.vmap(lambda key: draw(key, scale, ()))(keys).reshape(shape)
    ones_key, others_key = jr.split(key)
    variance = jnp.square(jnp.asarray(scale, jnp.float32))
    share = 0.5 * jnp.where(variance < _WIDE, variance, 0.0) / _TRIALS
    p = share * (1.0 + share)
    few = binomial(ones_key, _TRIALS, p) - binomial(others_key, _TRIALS, p)
    many = jnp.round(jnp.sqrt(variance) * normal(ones_key))
    return jnp.where(variance < _WIDE, few.astype(jnp.float32), many)


@on_integers
def log_density(noise: Array, scale: Number):
    """ln(e^-v I_k(v)) for v = scale^2: the series of I_k, or Debye's expansion for large k or v.

    In the expansion s = sqrt(k^2 + v^2) and p = k / s (Abramowitz & Stegun 1964, 9.7.7).
    """
    k, v = jnp.abs(noise), jnp.square(scale)
    s = jnp.sqrt(k * k + v * v)
    p = jnp.square(k / s)
    rest = (3.0 - 5.0 * p) / (24.0 * s) + (81.0 - 462.0 * p + 385.0 * p * p) / (1152.0 * s * s)
    level = k * k / (s + v) - k * jnp.arcsinh(k / v) - 0.5 * jnp.log(2.0 * np.pi * s)
    m = jnp.broadcast_to(jnp.arange(64.0).reshape(-1, *[1] * k.ndim), (64, *k.shape))
    terms = (2.0 * m + k[None]) * jnp.log(0.5 * v) - gammaln(m + 1.0) - gammaln(m + k[None] + 1.0)
    return jnp.where(s < 20.0, logsumexp(terms, axis=0) - v, level + jnp.log1p(rest))


def _log_pmf(scale, shift):
    variance = scale**2
    # The noise is sub-gamma: P(X >= sqrt(2 variance x) + x / 3) <= e^-x, since
    # cosh(t) - 1 <= t^2 / (2 (1 - t / 3)).
    half = math.ceil(math.sqrt(2.0 * variance * TAIL) + TAIL / 3.0) + shift
    with np.errstate(divide="ignore"):
        side = np.log(scipy.special.ive(np.arange(half + 1), variance))
    return np.concatenate([side[:0:-1], side])


EXACT = exact_privacy(_log_pmf)


def renyi(order: ArrayLike, change: tuple, scale: Number):
    """The module docstring's bound on the Renyi divergence, in the shape of ``order``.

    Args:
      order: a, integers of at least 2.
      change: (L1, L2) norms of the change, two numbers.
      scale: standard deviation of the noise in each entry.

    """
    order, (l1, l2), scale = _real(order), map(_real, change), _real(scale)
    squared, inverse = jnp.square(l2), 1.0 / jnp.square(scale)
    near = 0.25 * ((2.0 * order - 1.0) * squared + 6.0 * l1) * jnp.square(inverse)
    divergence = 0.5 * order * jnp.square(l2 / scale) + jnp.minimum(near, 1.5 * l1 * inverse)
    return jnp.where(l1 > 0.0, divergence, 0.0)


def vector_epsilon(change: tuple, scale: Number, delta: Number):
    """An epsilon at delta for vectors with Skellam noise, (), from :func:`renyi`.

    It is the least D_a + ln(1 - 1 / a) - ln(delta a) / (a - 1) over orders a, for divergences D_a
    (Canonne, Kamath & Steinke 2020, Proposition 12).

    Args:
      change: (L1, L2) norms of the change, two numbers; or two arrays (n,) for n adaptive releases.
      scale: standard deviation of the noise in each entry, () or (n,).
      delta: in (0, 1).

    Examples:
      >>> epsilonof = jax.jit(noise.skellam.together)
      >>> [round(float(epsilonof((2.0, 1.4), scale, 1e-6)), 2) for scale in (5.0, 10.0)]
      [1.32, 0.62]
    """
    arrays = (jnp.atleast_1d(_real(number)) for number in (*change, scale))
    l1, l2, scale = jnp.broadcast_arrays(*arrays)
    divergences = jax.vmap(lambda *release: renyi(_ORDERS, release[:2], release[2]))(l1, l2, scale)
    epsilon = _from_renyi(jnp.sum(divergences, axis=0), _real(delta))
    return jnp.where(jnp.any(l1 > 0.0), epsilon, 0.0)


def vector_scale(change: tuple, epsilon: Number, delta: Number):
    """The least scale whose :func:`vector_epsilon` at delta is at most epsilon, ().

    It is 0 at epsilon = inf, and inf if epsilon needs more than 2^50 times the L2 norm.

    Args:
      change: (L1, L2) norms of the change, two numbers.
      epsilon: may be traced.
      delta: in (0, 1); may be traced.

    Examples:
      >>> scale = noise.skellam.calibrate((2.0, 1.4), 1.0, 1e-6).scale
      >>> print(f"{scale:.3g}")
      6.43
    """
    return _solve_scale(*jnp.broadcast_arrays(*map(_real, (*change, epsilon, delta))))


def _from_renyi(divergences, delta):
    orders = _real(_ORDERS)
    tails = (jnp.log(delta) + jnp.log(orders)) / (orders - 1.0)
    return jnp.maximum(jnp.min(divergences + jnp.log1p(-1.0 / orders) - tails), 0.0)


# This is jitted, since factories are also called eagerly. Under vmap the members run one by one, so
# that the last bit of a member does not depend on the rest of the batch.
@jax.jit
@jax.custom_batching.sequential_vmap
def _solve_scale(l1, l2, epsilon, delta):
    def enough(power):
        scale = l2 * jnp.exp2(power)
        return _from_renyi(renyi(_ORDERS, (l1, l2), scale), delta) <= epsilon

    _, power = _bisected(enough, l2, (_LOWEST, _HIGHEST), _HALVINGS)
    # The rounding error of the logarithm is below a millionth. The result is not checked again,
    # since another program may round differently.
    solved = (power < _HIGHEST) | enough(power)
    solution = jnp.where(solved, (1.0 + 2e-6) * l2 * jnp.exp2(power), jnp.inf)
    solution = jnp.where((epsilon < jnp.inf) & (l1 > 0.0), solution, 0.0)
    return jnp.where(jnp.isnan(epsilon), jnp.nan, solution)


def _grid(delta):
    del delta
    return np.sqrt(np.geomspace(1e-4, 20_000.0, 1 + round(math.log(2e8, STEP))))


def of_one(epsilon: float, delta: float):
    """The least scale for a change by 1, or up to one percent more."""
    scale = scale_of_one(EXACT["epsilon"], _grid, lambda deviation: deviation, epsilon, delta)
    return Calibration(scale, epsilon, float("nan"))


def calibrate(change: tuple, epsilon: Number, delta: Number):
    """By :func:`vector_scale`."""
    return Calibration(vector_scale(change, epsilon, delta), epsilon, float("nan"))


skellam = Law(
    "skellam",
    draw,
    variance=lambda scale: scale * scale,
    cumulant=lambda tilt, scale: jnp.square(scale) * (jnp.cosh(tilt) - 1.0),
    calibrate=calibrate,
    norm=2,
    integers=True,
    of_one=of_one,
    **EXACT,
    log_density=log_density,
    together=vector_epsilon,
    of_rho=None,
    model="distributed",
)
