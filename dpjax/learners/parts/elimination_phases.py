"""The phases of linear elimination: pulls in a phase, elimination, and the final arm."""

from typing import NamedTuple

import jax.numpy as jnp

from dpjax.core import Array, BatchLearner, Number
from dpjax.learners.parts.elimination import Stage, by_stages
from dpjax.maths import designs
from dpjax.maths.laws import smallest


class LinearEliminationReport(NamedTuple):
    phases: Array  # () int32, completed phases
    active: Array  # () int32, active arms


def phase_length(phase: Number, horizon: int, ratio: Number | None = None):
    """q^i in float32 for phase i = 1, 2, ..., by default with q = (2T)^(1 / ln T) = 2^(1 / ln T) e.

    ``ratio`` is q, above 1.
    """
    if ratio is None:
        log_ratio = 1.0 + jnp.log(2.0) / jnp.log(jnp.maximum(horizon, 2.0))
    else:
        log_ratio = jnp.log(jnp.asarray(ratio, jnp.float32))
    return jnp.exp(jnp.asarray(phase, jnp.float32) * log_ratio)


def log_term(active: Number, horizon: int, failure: Number | None = None):
    """L = ln(4 |A_i| T / beta), so that all arms and phases together fail with probability beta.

    ``failure`` is beta, by default 1 / T.
    """
    log_arms, log_horizon = jnp.log(4.0 * active), jnp.log(jnp.float32(horizon))
    if failure is None:
        return log_arms + 2.0 * log_horizon
    return log_arms + (log_horizon - jnp.log(jnp.asarray(failure, jnp.float32)))


def elimination_phases(horizon, points, ratio, nothing, record, evaluate, privacy) -> BatchLearner:
    """The learner described in :func:`dpjax.learners.linear_elimination`, for any estimates.

    Args:
      horizon: T.
      points: the arms' vectors in coordinates of their span, (K, d) float32.
      ratio: q, or None for the default of :func:`phase_length`.
      nothing: the ``kept`` of a phase before its first batch.
      record: (key, state, sum of the losses of the current arm, their number () int32) -> the new
        ``kept``.
      evaluate: (key, state) -> estimates of <theta, a> and gamma_a, (K,) each. The result is used
        only after the last batch of a phase. It gets the same key as ``record``; only one of the
        two uses it.
      privacy: the declaration.
    """
    arms = points.shape[0]

    def begin(key, phase, active, estimates, left):
        # Rounds are counted in float32, since a phase may be too long for int32.
        weights = designs.g_optimal(points, active)
        wanted = jnp.ceil(weights * phase_length(phase, horizon, ratio))
        one_left = jnp.sum(active, dtype=jnp.int32) == 1
        last = one_left | (jnp.sum(wanted) > left.astype(jnp.float32))
        best = smallest(key, jnp.where(active, estimates, jnp.inf))
        to_the_end = jnp.zeros(arms, jnp.int32).at[best].set(left)
        pulls = jnp.where(last, to_the_end, jnp.minimum(wanted, horizon).astype(jnp.int32))
        return Stage(pulls, pulls > 0, jnp.int32(0), last, nothing)

    def leave(key, state):
        estimates, gamma = evaluate(key, state)
        least = jnp.min(jnp.where(state.active, estimates + gamma, jnp.inf))
        return estimates, estimates - gamma <= least

    def report(state):
        return LinearEliminationReport(state.number - 1, jnp.sum(state.active, dtype=jnp.int32))

    none = jnp.zeros(arms, jnp.float32)
    return by_stages(horizon, arms, begin, record, leave, none, privacy, report)
