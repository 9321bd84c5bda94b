"""The phases of linear elimination: who plays how often, who leaves, and who plays to the end."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from dpjax.core import Arms, Array, Batch, BatchLearner
from dpjax.feedback import bandit
from dpjax.maths import designs
from dpjax.maths.laws import smallest


class LinearEliminationState(NamedTuple):
    phase: Array  # () int32, i
    active: Array  # (K,) bool, A_i
    pulls: Array  # (K,) int32, n_a of this phase, which is 0 outside its core set
    waiting: Array  # (K,) bool, arms that have yet to play in this phase, after the one in play
    sums: Any  # what is kept of the losses of this phase
    arm: Array  # () int32, the arm in play
    last: Array  # () bool, whether one arm plays to the end
    left: Array  # () int32, rounds from the start of this phase to the horizon


class LinearEliminationReport(NamedTuple):
    phases: Array  # () int32, phases that were completed
    active: Array  # () int32, arms that are left


def phase_length(phase, horizon, ratio=None):
    """q^i in float32 for phase i = 1, 2, ..., by default with q = (2T)^(1 / ln T) = 2^(1 / ln T) e.

    ``ratio`` is q, above 1.
    """
    if ratio is None:
        log_ratio = 1.0 + jnp.log(2.0) / jnp.log(jnp.maximum(horizon, 2.0))
    else:
        log_ratio = jnp.log(jnp.asarray(ratio, jnp.float32))
    return jnp.exp(jnp.asarray(phase, jnp.float32) * log_ratio)


def log_term(active, horizon, failure=None):
    """L = ln(4 |A_i| T / beta), with which all arms and phases together fail with probability beta.

    ``failure`` is beta, by default 1 / T.
    """
    log_arms, log_horizon = jnp.log(4.0 * active), jnp.log(jnp.float32(horizon))
    if failure is None:
        return log_arms + 2.0 * log_horizon
    return log_arms + (log_horizon - jnp.log(jnp.asarray(failure, jnp.float32)))


def elimination_phases(horizon, points, ratio, nothing, record, evaluate, privacy) -> BatchLearner:
    """The learner that :func:`dpjax.learners.linear_elimination` describes, for any estimates.

    Args:
      horizon: T.
      points: the arms' vectors in coordinates of their span, (K, d) float32.
      ratio: q, or None for the default of :func:`phase_length`.
      nothing: the ``sums`` of a phase before its first batch.
      record: (key, state, sum of the losses of the arm in play, their number () int32) -> the new
        ``sums``.
      evaluate: (key, state) -> estimates of <theta, a> and gamma_a, (K,) each. The result counts
        after the last batch of a phase. It has the key of ``record``, and one of the two uses it.
      privacy: the declaration.
    """
    arms = points.shape[0]

    def begin(key, phase, active, estimates, left):
        """The state of a phase with ``left`` rounds to go, before its first batch."""
        # Rounds are counted in float32, since a phase may have more of them than int32 holds.
        weights = designs.g_optimal(points, active)
        wanted = jnp.ceil(weights * phase_length(phase, horizon, ratio))
        one_left = jnp.sum(active, dtype=jnp.int32) == 1
        last = one_left | (jnp.sum(wanted) > left.astype(jnp.float32))
        best = smallest(key, jnp.where(active, estimates, jnp.inf))
        to_the_end = jnp.zeros(arms, jnp.int32).at[best].set(left)
        pulls = jnp.where(last, to_the_end, jnp.minimum(wanted, horizon).astype(jnp.int32))
        return LinearEliminationState(
            phase=phase,
            active=active,
            pulls=pulls,
            waiting=pulls > 0,
            sums=nothing,
            arm=jnp.zeros((), jnp.int32),
            last=last,
            left=left,
        )

    def next_arm(key, state):
        arm = smallest(key, jnp.where(state.waiting, 0.0, jnp.inf))
        state = state._replace(arm=arm, waiting=state.waiting.at[arm].set(False))
        return state, Batch(arm, jnp.maximum(state.pulls[arm], 1))

    def init(key):
        none = jnp.zeros(arms, jnp.float32)
        everyone = jnp.ones(arms, bool)
        return next_arm(key, begin(key, jnp.int32(1), everyone, none, jnp.int32(horizon)))

    def step(state, key, total):
        noise_key, order_key = jax.random.split(key)
        played = jnp.maximum(state.pulls[state.arm], 1)
        state = state._replace(sums=record(noise_key, state, total, played))

        estimates, gamma = evaluate(noise_key, state)
        least = jnp.min(jnp.where(state.active, estimates + gamma, jnp.inf))
        keep = state.active & (state.last | (estimates - gamma <= least))
        phase = state.phase + (~state.last).astype(jnp.int32)
        left = state.left - jnp.sum(state.pulls)
        following = begin(order_key, phase, keep, estimates, left)
        more = jnp.any(state.waiting)
        state = jax.tree.map(lambda a, b: jnp.where(more, a, b), state, following)
        return next_arm(order_key, state)

    def report(state):
        return LinearEliminationReport(state.phase - 1, jnp.sum(state.active, dtype=jnp.int32))

    return BatchLearner(init, step, bandit, Arms(arms), horizon, privacy, report)
