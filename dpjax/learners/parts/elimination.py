"""Elimination of arms in epochs of fresh losses, whatever the losses and the noise are."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from dpjax.core import Arms, Array, Batch, BatchLearner
from dpjax.feedback import bandit
from dpjax.maths.laws import smallest


class EliminationState(NamedTuple):
    epoch: Array  # () int32, e
    active: Array  # (K,) bool, S
    waiting: Array  # (K,) bool, arms that have yet to play in this epoch, after the one in play
    means: Array  # (K,) float32, noisy mean losses, each of its arm's latest batch; inf before
    arm: Array  # () int32, the arm in play
    length: Array  # () int32, rounds of each arm in this epoch
    extra: Array  # () int32, how many arms play one round more
    cut: Array  # () bool, whether the horizon cuts this epoch short
    left: Array  # () int32, rounds from the start of this epoch to the horizon
    stopping_time: Array  # () int32, rounds until one arm was left; the horizon before


class EliminationReport(NamedTuple):
    epochs: Array  # () int32, epochs that were completed
    active: Array  # () int32, arms that are left
    stopped: Array  # () bool, whether one arm is left
    stopping_time: Array  # () int32, rounds until one arm was left; the horizon where more are
    recommendation: Array  # () int32, the arm that is left, or that has the smallest mean so far


def elimination_learner(horizon, arms, plan, mean_of, privacy) -> BatchLearner:
    """Active arms play equally long in each epoch, the worse leave, and all losses are forgotten.

    Arms leave whose noisy mean exceeds the smallest one by more than twice the radius of the epoch.
    The last active arm plays to the end. An epoch that the horizon cuts short removes no arm.

    Args:
      horizon: T.
      arms: K.
      plan: (epoch, active arms, () int32) -> (rounds of each arm, not rounded up; the radius of
        their mean), both () float32.
      mean_of: (key, epoch, active arms, sum of losses, rounds) -> noisy mean loss, () float32. It
        is the only release.
      privacy: the declaration.
    """

    def begin(key, epoch, active, means, left, stopping_time):
        """Begins an epoch with ``left`` rounds to go, and returns its first batch."""
        count = jnp.sum(active, dtype=jnp.int32)
        fair = left // count
        # R_e is a float32, since it may exceed every int32.
        wanted = jnp.ceil(plan(epoch, count)[0])
        cut = (count == 1) | (wanted > fair.astype(jnp.float32))
        length = jnp.where(cut, fair, jnp.minimum(wanted, horizon).astype(jnp.int32))
        extra = jnp.where(cut, left - count * fair, 0)
        # The epoch of one arm may end at the horizon, where another one begins.
        stopping_time = jnp.minimum(stopping_time, jnp.where(count == 1, horizon - left, horizon))
        state = EliminationState(
            epoch=epoch,
            active=active,
            waiting=active,
            means=means,
            arm=jnp.zeros((), jnp.int32),
            length=length,
            extra=extra,
            cut=cut,
            left=left,
            stopping_time=stopping_time,
        )
        return next_arm(key, state)

    def next_arm(key, state):
        arm = smallest(key, jnp.where(state.waiting, 0.0, jnp.inf))
        state = state._replace(arm=arm, waiting=state.waiting.at[arm].set(False))
        return state, Batch(arm, jnp.maximum(rounds(state), 1))

    def rounds(state):
        place = jnp.sum(state.active & ~state.waiting, dtype=jnp.int32)  # 1 for the first arm
        return state.length + (place <= state.extra).astype(jnp.int32)

    def init(key):
        none, every, end = jnp.full(arms, jnp.inf), jnp.ones(arms, bool), jnp.int32(horizon)
        return begin(key, jnp.int32(1), every, none, end, end)

    def step(state, key, total):
        noise_key, order_key = jax.random.split(key)
        played = jnp.maximum(rounds(state), 1)
        count = jnp.sum(state.active, dtype=jnp.int32)
        mean = mean_of(noise_key, state.epoch, count, total, played)
        means = state.means.at[state.arm].set(mean)

        best = jnp.min(jnp.where(state.active, means, jnp.inf))
        threshold = 2.0 * plan(state.epoch, count)[1]
        keep = state.active & (state.cut | (means - best <= threshold))
        epoch = state.epoch + (~state.cut).astype(jnp.int32)
        spent = count * state.length + state.extra
        left = state.left - spent
        following = begin(order_key, epoch, keep, means, left, state.stopping_time)
        same = next_arm(order_key, state._replace(means=means))
        more = jnp.any(state.waiting)
        return jax.tree.map(lambda a, b: jnp.where(more, a, b), same, following)

    def report(state):
        active = jnp.sum(state.active, dtype=jnp.int32)
        best = jnp.argmin(jnp.where(state.active, state.means, jnp.inf)).astype(jnp.int32)
        return EliminationReport(
            epochs=state.epoch - 1,
            active=active,
            stopped=active == 1,
            stopping_time=state.stopping_time,
            recommendation=best,
        )

    declared = privacy._replace(reported=EliminationReport._fields)
    return BatchLearner(init, step, bandit, Arms(arms), horizon, declared, report)
