"""Batches that grow with an arm's pulls, of the arm with the smallest index."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from dpjax.core import Arms, Array, Batch, BatchLearner
from dpjax.feedback import bandit
from dpjax.maths.laws import smallest


class GrowingBatchesState(NamedTuple):
    pulls: Array  # (K,) int32, in complete batches
    values: Array  # (K,) float32, the learner's summary of each arm's released sums
    arm: Array  # () int32, the current arm


def growing_batches(horizon, arms, ratio, gather, index, privacy, report) -> BatchLearner:
    """Play the arm with the smallest index in batches that multiply its pulls by a ratio.

    Arms that were never played come first, and ties are broken at random.

    Args:
      horizon, arms: T and K.
      ratio: r > 1. A batch of an arm with N pulls has ceil((r - 1) N) rounds, at least 1.
      gather: (key, the arm's value (), ExactSum of the batch, its rounds) -> the new value ().
      index: (values (K,), pulls (K,) int32, ln of the next round ()) -> (K,).
      privacy, report: as in a BatchLearner.
    """

    def batch(state):
        pulls = state.pulls[state.arm].astype(jnp.float32)
        # The product is a float32, since it may overflow int32.
        grown = jnp.minimum(jnp.ceil((ratio - 1.0) * pulls), horizon).astype(jnp.int32)
        return state, Batch(state.arm, jnp.maximum(grown, 1))

    def init(key):
        del key
        zeros = jnp.zeros(arms, jnp.int32)
        return batch(GrowingBatchesState(zeros, zeros.astype(jnp.float32), jnp.int32(0)))

    def step(state, key, total):
        noise_key, tie_key = jax.random.split(key)
        arm, rounds = batch(state)[1]
        pulls = state.pulls.at[arm].add(rounds)
        values = state.values.at[arm].set(gather(noise_key, state.values[arm], total, rounds))
        log_t = jnp.log(jnp.sum(pulls).astype(jnp.float32) + 1.0)
        indices = jnp.where(pulls == 0, -jnp.inf, index(values, pulls, log_t))
        return batch(GrowingBatchesState(pulls, values, smallest(tie_key, indices)))

    return BatchLearner(init, step, bandit, Arms(arms), horizon, privacy, report)
