"""Strongly convex functions on a domain, for follow the regularized leader."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dpjax.core import Numbers, _check
from dpjax.domains._vectors import constant
from dpjax.domains.base import Domain, Regularizer


def negative_entropy(dim: int) -> Regularizer:
    """R(x) = sum_i x_i ln x_i on the simplex, which gives exponential weights.

    D_R = ln d. If the losses of a round have spread w, S = w^2 / 8 (Hoeffding's lemma; Cesa-Bianchi
    & Lugosi 2006, Theorem 2.2). For losses in [-1, 1] the local-norm analysis gives 4 times this S.

    Examples:
      >>> entropy = domains.negative_entropy(3)
      >>> round(entropy.range, 3), entropy.stability(domains.box_losses(3, 0.0, 1.0))
      (1.099, 0.125)
    """

    def argmin(s, rate=1.0):
        # s is shifted before it is scaled. In rate * s - min(rate * s) a compiler may round the two
        # products differently, if one is part of a fused multiply-add. At s = 1e10 the least
        # exponent would then be several hundred instead of 0, and exp would overflow.
        weights = jnp.exp(-rate * (s - jnp.min(s)))
        return weights / jnp.sum(weights)

    return Regularizer(
        argmin=argmin,
        range=float(np.log(dim)),
        stability=lambda losses: losses.spread**2 / 8,
    )


def squared_norm(project: Callable, centre: Numbers, radius: float) -> Regularizer:
    """R(x) = |x - centre|^2 on a set with this projection, within ``radius`` of the centre.

    The argmin is the projection of centre - rate s / 2. D_R is at most radius^2. R is 2-strongly
    convex, so S = |l|^2 / 4 for the longest loss l.

    Examples:
      >>> ball = domains.ball(2)
      >>> norm = domains.squared_norm(ball.project, ball.centre, ball.radius)
      >>> norm.range, norm.stability(ball.losses), norm.stability(domains.ball_losses(2, 2.0))
      (1.0, 0.25, 1.0)
    """
    # The centre is a NumPy array, since sets are made before devices are chosen.
    centre = np.asarray(centre, np.float32)
    return Regularizer(
        argmin=lambda s, rate=1.0: project(centre - 0.5 * rate * s),
        range=float(radius) ** 2,
        stability=lambda losses: losses.norms[1] ** 2 / 4,
    )


def numerical_regularizer(
    domain: Domain,
    function: Callable,
    *,
    range: float,
    strong_convexity: float,
    smoothness: float,
    steps: int = 100,
) -> Regularizer:
    """A user-defined strongly convex function, minimized by projected gradient steps.

    Each argmin uses a fixed number of steps of Nesterov's method from the domain's centre. The
    error of x decreases as (1 - sqrt(sigma / L))^(steps / 2).

    Args:
      domain: a Domain.
      function: R, a differentiable function of x (d,).
      range: D_R, the largest minus the least value of R on the domain.
      strong_convexity: sigma > 0, the strong convexity of R in the Euclidean norm.
      smoothness: L >= sigma, the Lipschitz constant of R's gradient on the domain.
      steps: number of gradient steps in each argmin.

    Raises:
      ValueError, TypeError: bad arguments, by name.

    Examples:
      >>> quartic = domains.numerical_regularizer(
      ...     domains.cube(2), lambda x: jnp.sum(x**2 + x**4), range=4.0, strong_convexity=2.0,
      ...     smoothness=14.0,
      ... )
      >>> quartic.range, quartic.stability(domains.ball_losses(2))
      (4.0, 0.25)
    """
    _check.positive(range=range, strong_convexity=strong_convexity)
    _check.between(strong_convexity, np.inf, smoothness=smoothness)
    steps = _check.size(1, steps=steps)
    ratio = (strong_convexity / smoothness) ** 0.5
    momentum = (1 - ratio) / (1 + ratio)
    centre = constant(domain.centre)

    def argmin(s, rate=1.0):
        def one_step(_, points):
            x, ahead = points
            new = domain.project(ahead - (rate * s + jax.grad(function)(ahead)) / smoothness)
            return new, new + momentum * (new - x)

        return lax.fori_loop(0, steps, one_step, (centre, centre))[0]

    return Regularizer(
        argmin, float(range), lambda losses: losses.norms[1] ** 2 / (2 * strong_convexity)
    )
