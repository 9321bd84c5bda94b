"""The parameters of probing experts: how often to probe, and how rarely to draw a new expert."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpjax.core import Array, Number
from dpjax.learners.parts import dartboard
from dpjax.maths import quotients

# The B, p and gamma among which :func:`best_setting` chooses; B is at most T.
BATCHES = dartboard.candidates(2**31 - 1)
RESTARTS = (0.5 ** np.arange(1, 13)).astype(np.float32)
MIXINGS = (0.5 ** np.arange(0.0, 12.5, 0.5)).astype(np.float32)


class Setting(NamedTuple):
    weight: Array  # () w, at most 1, how far one probe may move an exponent
    restart: Array  # () p, the smallest probability of a draw after a batch
    budget: Array  # () int32 M, number of experts that may be drawn, including the first
    batch: Array  # () B, rounds
    mixing: Array  # () gamma, the probability of a probe in a round


def throws(setting: Setting) -> dartboard.Setting:
    """The dartboard's setting with the same draws, in which a loss of 1 moves an exponent by w."""
    return dartboard.Setting(-jnp.expm1(-setting.weight), setting.restart, setting.budget)


def rate(arms: Number, setting: Setting):
    """eta = w B gamma / K, for means of estimates over a batch."""
    return setting.weight * setting.batch * setting.mixing / arms


def log_run_out(horizon: Number, arms: Number, setting: Setting):
    """ln of a bound on P(more than M - 1 coins call for a draw); -inf if M limits nothing.

    A coin calls for a draw with probability at most p + eta, whatever came before. By Chernoff's
    bound a sum of n such coins reaches M with probability at most exp(M - m - M ln(M / m)) for
    m = n (p + eta).
    """
    _, begun = quotients.whole(horizon, setting.batch)
    count = dartboard.steps(horizon, setting.batch)
    mean = count * (setting.restart + rate(arms, setting))
    above = jnp.maximum(setting.budget.astype(jnp.float32) / mean, 1.0)
    return jnp.where(
        setting.budget >= begun, -jnp.inf, mean * (above - 1.0 - above * jnp.log(above))
    )


def regret_bound(horizon: Number, arms: Number, experts: Number, setting: Setting):
    """B ln N / eta + eta T (1 + K / (gamma B)) / 2 + gamma T + T P(M is spent)."""
    eta = rate(arms, setting)
    learning = setting.batch * jnp.log(experts) / eta
    moment = 1.0 + arms / (setting.mixing * setting.batch)
    lost = 0.5 * eta * moment + setting.mixing + jnp.exp(log_run_out(horizon, arms, setting))
    return learning + horizon * lost


def useful_weight(horizon: Number, arms: Number, experts: Number, batch: Number, mixing: Number):
    """The w, at most 1, with the smallest sum of the first two terms of :func:`regret_bound`."""
    moment = 1.0 + arms / (mixing * batch)
    eta = jnp.sqrt(2.0 * batch * jnp.log(experts) / (horizon * moment))
    return jnp.minimum(eta * arms / (batch * mixing), 1.0)


# Compiled once for all sizes, epsilons and deltas.
@jax.jit
def best_setting(
    horizon: Number, arms: Number, experts: Number, epsilon: Number, delta: Number | None
) -> Setting:
    """The (B, p, gamma) of a grid with the smallest regret bound.

    w is the largest for which epsilon is at most the given one, or the :func:`useful_weight` if
    that is smaller. M is floor(4 n p), but does not limit draws at epsilon = inf.
    """
    horizon, arms, experts = (jnp.asarray(x, jnp.float32) for x in (horizon, arms, experts))

    def at(batch, restart):
        budget = dartboard.switch_budget(horizon, restart, batch)
        _, begun = quotients.whole(horizon, batch)
        budget = jnp.where(jnp.isinf(epsilon), begun, budget)

        def is_private(weight):
            drawn = dartboard.Setting(-jnp.expm1(-weight), restart, budget)
            return dartboard.derived_epsilon(drawn, delta, spread=1.0) <= epsilon

        # ln(1 + (1 - p) (1 - e^-w) / p) is at most w / p.
        low = jnp.minimum(1.0, epsilon / (1.0 / restart + budget.astype(jnp.float32)))
        private = dartboard.largest_private(is_private, low, 1.0)
        useful = useful_weight(horizon, arms, experts, batch, jnp.asarray(MIXINGS))
        return jax.vmap(Setting, (0, None, None, None, 0))(
            jnp.minimum(private, useful), restart, budget, batch, jnp.asarray(MIXINGS)
        )

    batches, restarts = jnp.asarray(BATCHES), jnp.asarray(RESTARTS)
    settings = jax.vmap(lambda batch: jax.vmap(partial(at, batch))(restarts))(batches)
    settings = jax.tree.map(jnp.ravel, settings)
    bounds = regret_bound(horizon, arms, experts, settings)
    best = jnp.argmin(jnp.where(settings.batch <= horizon, bounds, jnp.inf))
    return jax.tree.map(lambda leaf: leaf[best], settings)
