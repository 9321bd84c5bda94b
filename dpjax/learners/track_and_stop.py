"""Track-and-Stop: identification without privacy at the optimal shares of pulls."""

import jax.numpy as jnp

from dpjax.core import BatchLearner, Number
from dpjax.learners.parts import stopping_rules
from dpjax.learners.parts.arm_sums import check_arms, check_failure, one_release
from dpjax.learners.parts.identification import (
    KEPT,
    identification_learner,
)
from dpjax.maths import transport
from dpjax.maths.laws import smallest


def track_and_stop(horizon: int, arms: int, *, failure: Number = 0.01) -> BatchLearner:
    """Track-and-Stop: pulls that follow the optimal shares for the means so far.

    Each batch plays the arm a that is furthest behind t w_a, where w are the optimal shares for the
    present means (:func:`dpjax.maths.transport.optimal_weights`). But an arm with fewer than
    sqrt(t / K) pulls plays first. It stops when the cost of transport of each other arm passes its
    threshold, as :func:`dp_tt` does. A batch lasts an eighth of the arm's pulls, and a phase ends
    when they have grown by a tenth.

    Args:
      horizon: T, rounds, the largest stopping time. A run that has not stopped by then is censored.
      arms: K, at least 2.
      failure: delta in (0, 1), the probability of a wrong recommendation that is allowed.

    Returns:
      A BatchLearner with bandit feedback.
      Its report is an IdentificationReport: stopped, stopping_time and recommendation.

    Privacy: none.

    Regret: up to the stopping time, that of the rounds that were played; then the gap of the
    recommended arm, each round.

    Stopping time: at most about 1.1 T ln(1 / failure) as failure goes to 0, for Bernoulli losses
    and their characteristic time T (:func:`dpjax.bounds.characteristic_time`). Nobody
    needs less than T ln(1 / (2.4 failure)).

    Reference: Garivier & Kaufmann, "Optimal best arm identification with fixed confidence", 2016,
    played by batches; the threshold is ours.

    Examples:
      >>> learner = learners.track_and_stop(10**5, 2, failure=0.05)
      >>> round(bounds.stopping_time_lower([0.4, 0.6], float("inf"), 0.05))  # rounds
      132
    """
    horizon, arms = check_arms(horizon, arms)
    failure = check_failure(failure)

    def choose(key, phases, memory):
        pulls = phases.pulls.astype(jnp.float32)
        rounds = jnp.sum(phases.pulls, dtype=jnp.int32).astype(jnp.float32)
        behind = pulls - rounds * transport.optimal_weights(phases.means, jnp.inf)
        forced = jnp.min(pulls) < jnp.sqrt(rounds / arms)
        arm = smallest(key, jnp.where(forced, pulls, behind))
        return KEPT.batch(phases, arm, phases.pulls[arm]), memory

    rule = stopping_rules.cost_of_transport(arms, failure, KEPT)
    declared = one_release(jnp.inf)
    return identification_learner(
        horizon, arms, grid=KEPT, choose=choose, rule=rule, privacy=declared
    )
