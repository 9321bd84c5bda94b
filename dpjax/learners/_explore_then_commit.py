"""Explore, then commit: the simplest private learner over arms."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpjax.core import Arms, Array, Batch, BatchLearner, Number, _check
from dpjax.feedback import bandit
from dpjax.learners.parts.sum_noise import sum_noise
from dpjax.maths import exact_sums
from dpjax.maths.laws import smallest


class ExploreThenCommitState(NamedTuple):
    waiting: Array  # (K,) bool, arms still to be explored
    explored: Array  # () int32, number of arms with a mean
    means: Array  # (K,) float32, noisy
    arm: Array  # () int32, the current arm


class ExploreThenCommitReport(NamedTuple):
    rounds: Array  # () int32, m
    arm: Array  # () int32, the arm it committed to; -1 before


def explore_then_commit(
    horizon: int,
    arms: int,
    *,
    epsilon: Number,
    rounds: Number | None = None,
) -> BatchLearner:
    """Explore, then commit: m rounds of each arm, then the arm with the best noisy mean.

    There are K + 1 batches. The first K explore the arms in random order; the loss sum of each is
    released with Laplace noise of scale 1 / epsilon. The last batch contains all remaining rounds.

    Args:
      horizon: T, rounds.
      arms: K, at least 2.
      epsilon: privacy parameter; inf adds no noise.
      rounds: m, at least 1, rounded down and cut to T / K; may be traced. Default
        :func:`derived_rounds`.

    Returns:
      A BatchLearner with bandit feedback.

    Privacy: epsilon-DP for replacement of one round. Released values: actions 1..T. Each loss is in
    at most one released sum, which it moves by at most 1.

    Regret: at most sum_a Delta_a (m + (T - K m) P_a) (:func:`dpjax.bounds.explore_then_commit`).
    Here P_a bounds the probability of committing to arm a
    (:func:`dpjax.bounds.explore_then_commit_error`). With the default m the regret is O~(T^(2/3)
    K^(1/3) + sqrt(K T / epsilon)) on all instances.

    Reference: Lattimore & Szepesvari, "Bandit algorithms", 2020, chapter 6. The noise, m and the
    bounds are our own derivation.

    Examples:
      >>> learner = learners.explore_then_commit(10**6, 4, epsilon=1.0)
      >>> state, batch = jax.jit(learner.init)(jax.random.key(0))
      >>> int(batch.rounds)  # m, of each arm
      9523
    """
    _check.between(1.0, jnp.inf, **_check.specified(rounds=rounds))
    law = sum_noise("laplace", epsilon, None)
    if rounds is None:
        rounds = derived_rounds(horizon, arms, epsilon)
    most = max(horizon // arms, 1)
    length = jnp.minimum(jnp.asarray(rounds, jnp.float32), float(most)).astype(jnp.int32)
    length = jnp.minimum(length, most)  # float32 may have rounded up
    # The last batch is longer than the remaining rounds, so that its sum is never read.
    rest = jnp.maximum(horizon - arms * length, 0) + 1

    def play(key, waiting, explored, means):
        arm = smallest(key, jnp.where(explored < arms, jnp.where(waiting, 0.0, jnp.inf), means))
        state = ExploreThenCommitState(waiting.at[arm].set(False), explored, means, arm)
        return state, Batch(arm, jnp.where(explored < arms, length, rest))

    def init(key):
        zeros = jnp.zeros(arms, jnp.float32)
        return play(key, jnp.ones(arms, bool), jnp.zeros((), jnp.int32), zeros)

    def step(state, key, total):
        noise_key, tie_key = jax.random.split(key)
        mean = exact_sums.mean(law.release(noise_key, total, length), length)
        means = state.means.at[state.arm].set(mean)
        return play(tie_key, state.waiting, state.explored + 1, means)

    def report(state):
        return ExploreThenCommitReport(length, jnp.where(state.explored < arms, -1, state.arm))

    return BatchLearner(init, step, bandit, Arms(arms), horizon, law.privacy, report)


def derived_rounds(horizon: int, arms: int, epsilon: Number):
    """m for the worst-case gap: max((T / K)^(2/3) ln(T)^(1/3), sqrt(T ln(T) / (K epsilon))).

    Returns:
      () float32, rounded up, from 1 to T / K.
    """
    most, epsilon = max(horizon // arms, 1), jnp.asarray(epsilon, jnp.float32)
    share, log = horizon / arms, np.log(max(horizon, 2))
    balanced = jnp.maximum(share ** (2 / 3) * log ** (1 / 3), jnp.sqrt(share * log / epsilon))
    return jnp.clip(jnp.ceil(balanced), 1.0, float(most))
