"""Sequential halving: the best arm within given rounds, by noisy means of fresh losses."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from dpjax.core import Arms, Array, Batch, BatchLearner, Number
from dpjax.feedback import bandit
from dpjax.learners.parts.arm_sums import check_arms
from dpjax.learners.parts.identification import IdentificationReport
from dpjax.learners.parts.sum_noise import sum_noise
from dpjax.maths import exact_sums
from dpjax.maths.laws import smallest


class HalvingState(NamedTuple):
    active: Array  # (K,) bool
    waiting: Array  # (K,) bool, arms that have yet to play in this stage, after the one in play
    means: Array  # (K,) float32, noisy mean losses, each of the arm's latest batch; inf before
    batch: Batch  # in play
    played: Array  # () int32, rounds of complete batches


def sequential_halving(
    horizon: int,
    arms: int,
    *,
    epsilon: Number,
    delta: Number | None = None,
    noise: str = "laplace",
) -> BatchLearner:
    """Sequential halving on noisy means: the worse half leaves after each stage.

    There are R = ceil(log2 K) stages. In a stage each of the S active arms plays for T / (S R)
    rounds, rounded down, but at least for one. The sum of these losses alone is released with
    noise, and the ceil(S / 2) arms with the smallest means stay. The last arm is
    recommended, and plays the rounds that are left. If T is so short that the stages do not fit,
    the learner plays as many of their rounds as there are. It then reports that it has not stopped,
    and recommends the active arm with the smallest mean so far.

    Args:
      horizon: T, rounds; K R or more are enough for all stages.
      arms: K, at least 2.
      epsilon: privacy; inf adds no noise.
      delta, noise: as of :func:`successive_elimination`.

    Returns:
      A BatchLearner with bandit feedback.
      Its report is an IdentificationReport. Its stopping time is known beforehand.

    Privacy: epsilon-DP for replacement of one round, released: actions 1..T and the recommendation.
    Each loss is in one released sum. With other noise than Laplace's it is what ``privacy``
    declares.

    Regret: that of the stages, which take nearly all rounds.

    Error: with Laplace noise at most

        sum over stages of 12 exp(-(3 / 16) S n / H),    n = floor(T / (S R)),
        H = max over i >= 2 of i / (Delta_i min(Delta_i, epsilon / sqrt(2))),

    where a stage has S arms, and Delta_2 <= ... <= Delta_K are the gaps of the arms but the best
    (:func:`dpjax.bounds.sequential_halving_error`). It is below 1 only if T >= K R.

    Reference: Karnin, Koren & Somekh, "Almost optimal exploration in multi-armed bandits", 2013.
    The noise and the bound are ours.

    Examples:
      >>> learner = learners.sequential_halving(1000, 4, epsilon=1.0)
      >>> state, batch = learner.init(jax.random.key(0))
      >>> int(batch.rounds)  # in the first of two stages
      125
    """
    horizon, arms = check_arms(horizon, arms)
    law = sum_noise(noise, epsilon, delta)
    stages = (arms - 1).bit_length()

    decided, left = 0, arms  # rounds of all stages, and the arms that are left after them
    while left > 1:
        decided += left * max(horizon // (left * stages), 1)
        left = (left + 1) // 2

    def length(active):
        """Rounds of each arm in the stage of these arms, () int32."""
        return jnp.maximum(horizon // (stages * jnp.sum(active, dtype=jnp.int32)), 1)

    def next_arm(key, state):
        arm = smallest(key, jnp.where(state.waiting, 0.0, jnp.inf))
        waiting = state.waiting.at[arm].set(False)
        last = jnp.sum(state.active, dtype=jnp.int32) == 1
        rest = jnp.maximum(horizon - state.played, 1)
        batch = Batch(arm, jnp.where(last, rest, length(state.active)))
        return state._replace(waiting=waiting, batch=batch), batch

    def init(key):
        every = jnp.ones(arms, bool)
        zero = jnp.zeros((), jnp.int32)
        state = HalvingState(every, every, jnp.full(arms, jnp.inf), Batch(zero, zero), zero)
        return next_arm(key, state)

    def step(state, key, total):
        noise_key, tie_key, order_key = jax.random.split(key, 3)
        arm, rounds = state.batch
        mean = exact_sums.mean(law.release(noise_key, total, rounds), rounds)
        state = state._replace(means=state.means.at[arm].set(mean), played=state.played + rounds)
        stay = (jnp.sum(state.active, dtype=jnp.int32) + 1) // 2
        active = state.active & (_rank(tie_key, state.means, state.active) < stay)
        over = ~jnp.any(state.waiting)
        active = jnp.where(over, active, state.active)
        waiting = jnp.where(over, active, state.waiting)
        return next_arm(order_key, state._replace(active=active, waiting=waiting))

    def report(state):
        best = jnp.argmin(jnp.where(state.active, state.means, jnp.inf)).astype(jnp.int32)
        over = jnp.sum(state.active, dtype=jnp.int32) == 1
        return IdentificationReport(over, jnp.where(over, decided, horizon), best)

    declared = law.privacy._replace(reported=IdentificationReport._fields)
    learner = BatchLearner(init, step, bandit, Arms(arms), horizon, declared, report)
    return learner._replace(clip=law.clip)


def _rank(key, means, active):
    """How many active arms have a smaller mean, (K,) int32. Ties are broken at random."""
    order = jax.random.uniform(key, means.shape)
    less = (means[None, :] < means[:, None]) | (
        (means[None, :] == means[:, None]) & (order[None, :] < order[:, None])
    )
    return jnp.sum(less & active[None, :], axis=1, dtype=jnp.int32)
