"""Stochastic environments: independent losses with heavy tails."""

from typing import Literal

import jax.numpy as jnp
import numpy as np
import scipy
from jax import random as jr

from dpjax.core import Environment, Number, Numbers, _arrays, _check
from dpjax.environments.arms import as_means, independent
from dpjax.maths.laws import as_laplace, random_words


def heavy_tailed(
    means: Numbers,
    *,
    family: Literal["pareto", "student"] = "pareto",
    tail: Number = 1.6,
    spread: Numbers = 1.0,
) -> Environment:
    """I.i.d. losses, loss of arm i = means[i] + spread[i] X with E X = 0, arms independent.

    Moments of X of order below the tail index a are finite, and all others are infinite. For
    "pareto" X is Y - a / (a - 1) with P(Y > y) = y^-a for y >= 1, so large losses are positive. For
    "student" X has Student's law with a degrees of freedom. A draw uses 31 bits, so no Y exceeds
    2^(32 / a).

    The losses are unbounded. Learners that need a range must clip them
    (:func:`dpjax.combinators.rescale_losses`); :func:`dpjax.learners.robust_elimination` needs only
    a moment (:func:`largest_moment`). Regret is pseudo-regret, the sum of the gaps of ``means``,
    because a few outliers would dominate realised regret.

    Args:
      means: (K,) mean losses, finite, K at least 2; may be traced.
      family: "pareto" or "student".
      tail: a, above 1; may be traced.
      spread: () or (K,), at least 0; may be traced.

    Returns:
      An Environment. It cannot be played by batches, because a sum of clipped losses has no simple
      law.

    Reference: for Student's law, Bailey, "Polar generation of random variates with the
    t-distribution", 1994.

    Examples:
      >>> environment = environments.heavy_tailed([0.0, 3.0], tail=1.5)
      >>> environment.batch is None, float(environment.regret((), 3.0))  # the sum of the gaps
      (True, 3.0)
    """
    means = as_means(means, -1e30, 1e30)
    _check.one_of("pareto", "student", family=family)
    _check.inside(1.0, jnp.inf, tail=tail)
    width = jnp.asarray(_arrays.entries(0.0, 1e30, spread=spread), jnp.float32)
    if width.shape not in ((), means.shape):
        raise ValueError(f"spread must have shape () or {means.shape}, got {width.shape}")
    width = jnp.broadcast_to(width, means.shape)
    index = jnp.asarray(tail, jnp.float32)

    def centred(key):
        size_key, angle_key = jr.split(key)
        # ln Y is exponential, as are the sizes of Laplace draws. It is drawn with 31 bits, so it is
        # at most 22.2.
        size = jnp.abs(as_laplace(random_words(size_key, means.shape))) / index
        if family == "pareto":
            return jnp.expm1(size) - 1.0 / (index - 1.0)
        angle = 2.0 * np.float32(np.pi) * jr.uniform(angle_key, means.shape)
        return jnp.sqrt(index * jnp.expm1(2.0 * size)) * jnp.cos(angle)

    return independent(means, lambda key: means + width * centred(key))


def largest_moment(means, order, *, family="pareto", tail=1.6, spread=1.0) -> float:
    """The largest E|loss|^order of the arms of :func:`heavy_tailed`, by quadrature.

    Args:
      means: (K,), numbers.
      order: p, positive and below the tail index.
      family, tail, spread: as in :func:`heavy_tailed`, numbers.
    """
    _check.one_of("pareto", "student", family=family)
    _check.inside(1.0, np.inf, tail=tail)
    _check.inside(0.0, float(tail), order=order)
    law = (
        scipy.stats.t(tail)
        if family == "student"
        else scipy.stats.pareto(tail, loc=-tail / (tail - 1.0))
    )
    # Substituting u = s^k or 1 - s^k removes the poles of the integrand at both ends.
    power = int(np.ceil(2.0 / (1.0 - order / tail)))
    nodes, weights = np.polynomial.legendre.leggauss(500)
    nodes, weights = 0.5 * (nodes + 1.0), 0.5 * weights
    half, slope = 0.5 * nodes**power, 0.5 * power * nodes ** (power - 1)
    half = np.maximum(half, 1e-300)
    draws = np.stack([law.ppf(half), law.isf(half)])
    means, spread = _arrays.real("means", means), _arrays.real("spread", spread)
    values = np.abs(means[..., None, None] + spread[..., None, None] * draws) ** order
    return float(np.max(np.sum(weights * slope * values, axis=(1, 2))))
