"""Sequential halving: identify the best arm within a budget, from noisy means of fresh losses."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from dpjax.core import Arms, Array, Batch, BatchLearner, Number
from dpjax.feedback import bandit
from dpjax.learners.parts.identification import IdentificationReport
from dpjax.learners.parts.sum_noise import sum_noise
from dpjax.maths import exact_sums
from dpjax.maths.laws import smallest
from dpjax.noise import LawName


class HalvingState(NamedTuple):
    active: Array  # (K,) bool
    waiting: Array  # (K,) bool, arms still to be played in this stage, after the current one
    means: Array  # (K,) float32, noisy mean losses of each arm's latest batch; inf before
    batch: Batch  # the current batch
    played: Array  # () int32, rounds of complete batches


def sequential_halving(
    horizon: int,
    arms: int,
    *,
    epsilon: Number,
    delta: Number | None = None,
    noise: LawName = "laplace",
) -> BatchLearner:
    """Sequential halving on noisy means: the worse half is eliminated after each stage.

    There are R = ceil(log2 K) stages. In a stage each of the S active arms is played for T / (S R)
    rounds, rounded down, but at least for one. Only the sum of these losses is released with noise,
    and the ceil(S / 2) arms with the smallest means stay active. The last arm is recommended and
    played in the remaining rounds. If T is too short for all stages, the learner plays as many of
    their rounds as possible. It then reports that it has not stopped, and recommends the active arm
    with the smallest mean so far.

    Args:
      horizon: T, rounds; at least K R is enough for all stages.
      arms: K, at least 2.
      epsilon: privacy parameter; inf adds no noise.
      delta, noise: as in :func:`successive_elimination`.

    Returns:
      A BatchLearner with bandit feedback.
      Its report is an IdentificationReport. Its stopping time is known in advance.

    Privacy: epsilon-DP for replacement of one round. Released values: actions 1..T and the
    recommendation. Each loss is in one released sum. For noise other than Laplace see ``privacy``.

    Regret: that of the stages, which take nearly all rounds.

    Error: with Laplace noise at most

        sum over stages of 12 exp(-(3 / 16) S n / H),    n = floor(T / (S R)),
        H = max over i >= 2 of i / (Delta_i min(Delta_i, epsilon / sqrt(2))),

    where a stage has S arms, and Delta_2 <= ... <= Delta_K are the gaps of the other arms
    (:func:`dpjax.bounds.sequential_halving_error`). It is below 1 only if T >= K R.

    Reference: Karnin, Koren & Somekh, "Almost optimal exploration in multi-armed bandits", 2013.
    The noise and the bound are ours.

    Examples:
      >>> learner = learners.sequential_halving(1000, 4, epsilon=1.0)
      >>> state, batch = learner.init(jax.random.key(0))
      >>> int(batch.rounds)  # in the first of two stages
      125
    """
    law = sum_noise(noise, epsilon, delta)
    stages = (arms - 1).bit_length()

    decided, left = 0, arms  # rounds of all stages, and remaining arms
    while left > 1:
        decided += left * max(horizon // (left * stages), 1)
        left = (left + 1) // 2

    def length(active):
        """Rounds of each arm in the stage with these active arms, () int32."""
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
    """Number of active arms with a smaller mean, (K,) int32. Ties are broken at random."""
    order = jax.random.uniform(key, means.shape)
    less = (means[None, :] < means[:, None]) | (
        (means[None, :] == means[:, None]) & (order[None, :] < order[:, None])
    )
    return jnp.sum(less & active[None, :], axis=1, dtype=jnp.int32)
