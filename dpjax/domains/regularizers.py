"""Strongly convex functions on a domain, for follow the regularized leader."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from dpjax.core import Numbers
from dpjax.domains.base import Regularizer


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
        argmin=argmin, range=float(np.log(dim)), stability=lambda losses: losses.spread**2 / 8
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
