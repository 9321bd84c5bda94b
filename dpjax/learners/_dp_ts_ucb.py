"""DP-TS-UCB: a limited number of draws from each mean, then the best of them."""

import math
from typing import NamedTuple

import jax.numpy as jnp
from jax.scipy.special import ndtr

from dpjax import noise
from dpjax.core import Arms, Array, Learner, Number, _check
from dpjax.feedback import bandit
from dpjax.learners.parts.arm_sums import gaussian_draws
from dpjax.learners.parts.doubling_means import DoublingMeans, no_means, renewed


class DpTsUcbState(NamedTuple):
    kept: DoublingMeans  # means without noise of n losses, and the losses observed since
    left: Array  # (K,) int32, remaining draws from each mean
    best: Array  # (K,) float32, the smallest draw from each mean
    arm: Array  # () int32, the current arm


def dp_ts_ucb(
    horizon: int,
    arms: int,
    *,
    delta: Number | None = None,
    exponent: Number = 1.0,
    draws: int | None = None,
) -> Learner:
    """DP-TS-UCB: Thompson sampling with few draws from each mean, then its best draw.

    Each arm is first played once. An arm's mean of n losses is replaced by the mean of its next 2 n
    losses. Each mean allows phi draws

        theta_a ~ N(mean_a, ln^alpha(T) / n).

    Each round makes one draw for every arm that has draws left. An arm without draws left uses the
    smallest draw from its mean. The arm with the smallest of these numbers is played.

    Args:
      horizon: T, rounds.
      arms: K, at least 2.
      delta: the delta at which epsilon is declared; it changes nothing else. Default T^-2.
      exponent: alpha, from 0 (close to Thompson sampling) to 1 (the most privacy).
      draws: phi, at least 1; default :func:`draws_of_a_mean`.

    Returns:
      A Learner with bandit feedback.

    Privacy: mu-GDP for replacement of one round, with mu^2 = min(phi, T - K) / ln^alpha(T).
    Released values: actions 1..T. The declaration is rho = mu^2 / 2 and the epsilon at delta. Each
    loss is in one mean, which it moves by at most 1 / n, so a draw has mu^2 = 1 / (n ln^alpha(T)).
    The worst case is a mean of one loss. For 10^5 rounds, mu is 37 at alpha = 0 and 1.9 at
    alpha = 1.

    Regret: O(K ln^(alpha + 1)(T) / Delta) for the paper's phi.

    Reference: Hu, Huang, Zhang, Lecuyer & Hegde, "Connecting Thompson sampling and UCB: towards
    more efficient trade-offs between privacy and regret", 2025, as reconstructed from summaries.
    The paper's phi is of the order T^((1 - alpha) / 2) ln^((3 - alpha) / 2)(T); we do not know its
    constant. Our phi and the declaration are our own derivations.

    Examples:
      >>> made = [learners.dp_ts_ucb(10**5, 2, exponent=x, delta=1e-6) for x in (0.5, 1.0)]
      >>> [round(float(x.privacy.epsilon), 1) for x in made]
      [43.6, 10.6]
    """
    _check.between(0.0, 1.0, exponent=exponent)
    power = jnp.asarray(_log(horizon), jnp.float32) ** exponent
    if draws is None:
        count = draws_of_a_mean(horizon, exponent)
    else:
        count = jnp.int32(_check.size(1, draws=draws))

    def init(key):
        del key
        zero, none = jnp.zeros((), jnp.int32), no_means(arms)
        return DpTsUcbState(none, none.samples, none.means - jnp.inf, zero), zero

    def step(state, key, loss):
        kept, new = renewed(state.kept, state.arm, loss)
        left, best = jnp.where(new, count, state.left), jnp.where(new, jnp.inf, state.best)
        drawing = (left > 0) & (jnp.min(kept.samples) > 0)
        deviation = jnp.sqrt(power / jnp.maximum(kept.samples, 1).astype(jnp.float32))
        # Means without draws left are not read.
        theta = noise.gaussian(key, jnp.where(drawing, kept.means, 0.0), deviation)
        best = jnp.where(drawing, jnp.minimum(best, theta), best)
        arm = jnp.argmin(jnp.where(drawing, theta, best)).astype(jnp.int32)
        left = left - drawing.astype(jnp.int32)
        return DpTsUcbState(kept, left, best, arm), arm

    reached = jnp.minimum(count.astype(jnp.float32), float(max(horizon - arms, 0)))
    declared = gaussian_draws(reached / power, horizon, delta)
    return Learner(init, step, bandit, Arms(arms), horizon, declared)


def draws_of_a_mean(horizon: int, exponent: Number):
    """phi = ln T / -ln(1 - Q), rounded up, for the normal tail Q at sqrt(ln^(1-alpha)(T) / 2).

    A mean of n losses in [0, 1] exceeds the true mean by sqrt(ln T / (2 n)) with probability at
    most 1 / T. Otherwise each draw is below the true mean with probability at least Q, and all phi
    draws are above it with probability at most 1 / T. T = 1 is treated as 2.

    Args:
      horizon: T.
      exponent: alpha in [0, 1].

    Returns:
      () int32.
    """
    log = _log(horizon)
    tail = ndtr(-jnp.sqrt(0.5 * jnp.asarray(log, jnp.float32) ** (1.0 - exponent)))
    return jnp.ceil(log / -jnp.log1p(-tail)).astype(jnp.int32)


def _log(horizon) -> float:
    """ln T, with T = 1 treated as 2."""
    return math.log(max(horizon, 2))
