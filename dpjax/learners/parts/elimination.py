"""Elimination of arms in stages, each on its own losses, for any losses and noise."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from dpjax.core import Arms, Array, Batch, BatchLearner, Privacy, PyTree
from dpjax.feedback import bandit
from dpjax.maths.laws import smallest


class Stage(NamedTuple):
    """The arms that are played in a stage, and for how long."""

    pulls: Array  # (K,) int32, rounds of each arm
    waiting: Array  # (K,) bool, arms still to be played, after the current one
    extra: Array  # () int32, number of arms that are played one round more
    last: Array  # () bool, whether the stage lasts to the horizon, with no elimination after it
    kept: PyTree  # the kept summary of the losses


class EliminationState(NamedTuple):
    number: Array  # () int32, of the stage, from 1
    active: Array  # (K,) bool, S
    stage: Stage
    arm: Array  # () int32, the current arm
    left: Array  # () int32, rounds from the start of this stage to the horizon


class EliminationReport(NamedTuple):
    epochs: Array  # () int32, completed epochs
    active: Array  # () int32, active arms
    stopped: Array  # () bool, whether one arm is left
    stopping_time: Array  # () int32, rounds until one arm was left; the horizon if there are more
    recommendation: Array  # () int32, the last arm, or the one with the smallest mean so far


def by_stages(horizon, arms, begin, record, evaluate, nothing, privacy, report) -> BatchLearner:
    """Play each arm in one batch per stage, in random order; then eliminate arms and forget losses.

    Args:
      horizon, arms: T and K.
      begin: (key, number, active, estimates, rounds to the horizon) -> Stage.
      record: (key, state, sum of the losses of the current arm, their number) -> the new ``kept``.
      evaluate: (key, state) -> (estimates, whether each arm stays), (K,) each. The result is used
        only after the last batch of a stage. It gets the same key as ``record``; only one of the
        two uses it.
      nothing: the estimates before the first stage, (K,).
      privacy, report: as in a BatchLearner.
    """

    def rounds(state):
        place = jnp.sum(state.active & ~state.stage.waiting, dtype=jnp.int32)  # 1 for the first arm
        more = (place <= state.stage.extra).astype(jnp.int32)
        return jnp.maximum(state.stage.pulls[state.arm] + more, 1)

    def next_arm(key, state):
        stage = state.stage
        arm = smallest(key, jnp.where(stage.waiting, 0.0, jnp.inf))
        stage = stage._replace(waiting=stage.waiting.at[arm].set(False))
        state = state._replace(stage=stage, arm=arm)
        return state, Batch(arm, rounds(state))

    def init(key):
        one, every, end = jnp.int32(1), jnp.ones(arms, bool), jnp.int32(horizon)
        stage = begin(key, one, every, nothing, end)
        return next_arm(key, EliminationState(one, every, stage, jnp.int32(0), end))

    def step(state, key, total):
        noise_key, order_key = jax.random.split(key)
        stage = state.stage
        stage = stage._replace(kept=record(noise_key, state, total, rounds(state)))
        state = state._replace(stage=stage)
        estimates, stays = evaluate(noise_key, state)
        active = state.active & (stage.last | stays)
        number = state.number + (~stage.last).astype(jnp.int32)
        # After the last stage the game is over, and its state does not change.
        left = state.left - jnp.where(stage.last, 0, jnp.sum(stage.pulls) + stage.extra)
        following = begin(order_key, number, active, estimates, left)
        following = EliminationState(number, active, following, state.arm, left)
        more = jnp.any(stage.waiting)
        state = jax.tree.map(lambda a, b: jnp.where(more, a, b), state, following)
        return next_arm(order_key, state)

    return BatchLearner(init, step, bandit, Arms(arms), horizon, privacy, report)


def elimination_learner(
    horizon: int, arms: int, plan: Callable, mean_of: Callable, privacy: Privacy
) -> BatchLearner:
    """Play active arms equally often in each epoch, eliminate the worse, and forget all losses.

    Args:
      horizon: T.
      arms: K.
      plan: (epoch, active arms, () int32) -> (rounds of each arm, not rounded up; the radius of
        their mean), both () float32.
      mean_of: (key, epoch, active arms, sum of losses, rounds) -> noisy mean loss, () float32. It
        is the only release.
      privacy: the declaration.
    """

    def begin(key, epoch, active, means, left):
        del key
        count = jnp.sum(active, dtype=jnp.int32)
        fair = left // count
        # R_e is a float32, since it may exceed every int32.
        wanted = jnp.ceil(plan(epoch, count)[0])
        cut = (count == 1) | (wanted > fair.astype(jnp.float32))
        length = jnp.where(cut, fair, jnp.minimum(wanted, horizon).astype(jnp.int32))
        extra = jnp.where(cut, left - count * fair, 0)
        return Stage(jnp.where(active, length, 0), active, extra, cut, means)

    def record(key, state, total, played):
        count = jnp.sum(state.active, dtype=jnp.int32)
        mean = mean_of(key, state.number, count, total, played)
        return state.stage.kept.at[state.arm].set(mean)

    def evaluate(key, state):
        del key
        means, count = state.stage.kept, jnp.sum(state.active, dtype=jnp.int32)
        best = jnp.min(jnp.where(state.active, means, jnp.inf))
        return means, means - best <= 2.0 * plan(state.number, count)[1]

    def report(state):
        active = jnp.sum(state.active, dtype=jnp.int32)
        best = jnp.argmin(jnp.where(state.active, state.stage.kept, jnp.inf)).astype(jnp.int32)
        stopping_time = jnp.where(active == 1, horizon - state.left, horizon)
        return EliminationReport(state.number - 1, active, active == 1, stopping_time, best)

    none = jnp.full(arms, jnp.inf)  # the means before the first batch of an arm
    declared = privacy._replace(reported=EliminationReport._fields)
    return by_stages(horizon, arms, begin, record, evaluate, none, declared, report)
