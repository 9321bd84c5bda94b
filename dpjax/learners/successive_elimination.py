"""DP-SE: successive elimination in epochs, each on fresh losses."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from dpjax import _check, noise, privacy
from dpjax.core import Arms, Array, Batch, BatchLearner, Number
from dpjax.feedback import clipped_bandit
from dpjax.learners.parts.arm_sums import check_arms, one_release
from dpjax.maths import exact_sums
from dpjax.maths.laws import smallest


class SuccessiveEliminationState(NamedTuple):
    epoch: Array  # () int32, e
    active: Array  # (K,) bool, S
    waiting: Array  # (K,) bool, arms that have yet to play in this epoch, after the one in play
    means: Array  # (K,) float32, noisy mean losses, each of its arm's latest batch
    arm: Array  # () int32, the arm in play
    length: Array  # () int32, rounds of each arm in this epoch
    extra: Array  # () int32, how many arms play one round more
    cut: Array  # () bool, whether the horizon cuts this epoch short
    left: Array  # () int32, rounds from the start of this epoch on


class SuccessiveEliminationReport(NamedTuple):
    epochs: Array  # () int32, epochs that were completed
    active: Array  # () int32, arms that are left


def epoch_length(epoch, active, epsilon, failure):
    """R_e, real, for epoch e = 1, 2, ... and |S| active arms; the arms play ceil(R_e) rounds.

    max(32 ln(8 |S| e^2 / beta) / Delta_e^2, 8 ln(4 |S| e^2 / beta) / (epsilon Delta_e)) + 1 with
    Delta_e = 2^-e.
    """
    first, second = _logarithms(epoch, active, failure)
    gap = jnp.exp2(-jnp.asarray(epoch, jnp.float32))
    return jnp.maximum(32.0 * first / (gap * gap), 8.0 * second / (epsilon * gap)) + 1.0


def epoch_radius(epoch, active, epsilon, failure):
    """h_e + c_e: how far a noisy mean of epoch e may be off, but for a failure.

    h_e = sqrt(ln(8 |S| e^2 / beta) / (2 R_e)) for the losses and
    c_e = ln(4 |S| e^2 / beta) / (epsilon R_e) for the noise; at most Delta_e / 4 in all.
    """
    first, second = _logarithms(epoch, active, failure)
    rounds = epoch_length(epoch, active, epsilon, failure)
    return jnp.sqrt(first / (2.0 * rounds)) + second / epsilon / rounds


def _logarithms(epoch, active, failure):
    inverse = jnp.asarray(active, jnp.float32) * jnp.square(jnp.asarray(epoch, jnp.float32))
    inverse = inverse / failure
    return jnp.log(8.0 * inverse), jnp.log(4.0 * inverse)


def successive_elimination(
    horizon: int, arms: int, *, epsilon: Number, failure: Number | None = None
) -> BatchLearner:
    """DP-SE: arms that are left play equally long, the worse leave, and all is forgotten.

    Epoch e aims at the gap Delta_e = 2^-e. Each active arm plays ceil(R_e) rounds, and the mean of
    these losses alone is released with Laplace noise. An arm leaves whose noisy mean exceeds the
    smallest one by more than 2 (h_e + c_e) (:func:`epoch_length`, :func:`epoch_radius`); the last
    one left plays on.

    The arms of an epoch play one after the other, in random order, so that no curve depends on
    their numbers. An epoch that does not fit is never evaluated: the rounds that are left are
    shared among its arms, equally to one round.

    Args:
      horizon: T, rounds.
      arms: K, at least 2.
      epsilon: privacy; inf adds no noise.
      failure: beta in (0, 1), the probability with which the best arm may be lost or an epoch fail
        to remove all gaps of Delta_e; default 1 / T (1/2 where T is 1).

    Returns:
      A BatchLearner with bandit feedback. Losses outside [0, 1] are clipped before they are summed.

    Privacy: epsilon-DP for replacement of one round, released: actions 1..T. Each loss is in one
    released mean, of sensitivity 1 / ceil(R_e); which batch a round belongs to is a function of
    earlier releases, so the releases compose in parallel. Forgetting is what makes it so: a sum
    carried over to the next epoch would be released twice.

    Regret: an arm of gap Delta is pulled at most sum_{e <= ceil(log2(1 / Delta))} ceil(R_e) times
    with probability 1 - beta (:func:`dpjax.analysis.bounds.successive_elimination`), that is
    O(sum ln T / Delta + K ln T / epsilon). A gap of Delta_e / 4 is a coin flip where privacy does
    not bind: the law of the regret has several modes.

    Reference: Sajed & Sheffet, "An optimal private stochastic-MAB algorithm based on an optimal
    private stopping rule", 2019, in the form of Chari's survey and of two public
    implementations.
    """
    horizon, arms = check_arms(horizon, arms)
    epsilon = _check.epsilon(epsilon)
    _check.inside(0.0, 1.0, **_check.given(failure=failure))
    failure = 1.0 / max(horizon, 2) if failure is None else jnp.asarray(failure, jnp.float32)
    epsilon_ = jnp.asarray(epsilon, jnp.float32)
    scale = privacy.laplace_scale(1.0, epsilon)  # of a sum of losses, one of which is replaced

    def begin(key, epoch, active, means, left):
        """An epoch with ``left`` rounds to go; its first batch."""
        count = jnp.sum(active, dtype=jnp.int32)
        fair = left // count
        # In float32, for R_e may exceed every int32.
        wanted = jnp.ceil(epoch_length(epoch, count, epsilon_, failure))
        cut = (count == 1) | (wanted > fair.astype(jnp.float32))
        length = jnp.where(cut, fair, jnp.minimum(wanted, horizon).astype(jnp.int32))
        extra = jnp.where(cut, left - count * fair, 0)
        nobody = jnp.zeros((), jnp.int32)
        state = SuccessiveEliminationState(
            epoch, active, active, means, nobody, length, extra, cut, left
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
        none = jnp.zeros(arms, jnp.float32)
        return begin(key, jnp.int32(1), jnp.ones(arms, bool), none, jnp.int32(horizon))

    def step(state, key, total):
        noise_key, order_key = jax.random.split(key)
        released = noise.laplace_total(noise_key, total, scale)
        mean = exact_sums.mean(released, jnp.maximum(rounds(state), 1))
        means = state.means.at[state.arm].set(mean)

        count = jnp.sum(state.active, dtype=jnp.int32)
        best = jnp.min(jnp.where(state.active, means, jnp.inf))
        threshold = 2.0 * epoch_radius(state.epoch, count, epsilon_, failure)
        keep = state.active & (state.cut | (means - best <= threshold))
        epoch = state.epoch + (~state.cut).astype(jnp.int32)
        spent = count * state.length + state.extra
        following = begin(order_key, epoch, keep, means, state.left - spent)
        same = next_arm(order_key, state._replace(means=means))
        more = jnp.any(state.waiting)
        return jax.tree.map(lambda a, b: jnp.where(more, a, b), same, following)

    return BatchLearner(
        init=init,
        step=step,
        feedback=clipped_bandit,
        action_set=Arms(arms),
        zero=jnp.zeros((), jnp.float32),
        horizon=horizon,
        privacy=one_release(epsilon),
        report=lambda state: SuccessiveEliminationReport(
            state.epoch - 1, jnp.sum(state.active, dtype=jnp.int32)
        ),
    )
