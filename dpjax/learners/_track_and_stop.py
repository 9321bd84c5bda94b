"""Track-and-Stop: non-private identification with the optimal shares of pulls."""

import jax.numpy as jnp

from dpjax.core import BatchLearner, Number
from dpjax.learners.parts import stopping_rules
from dpjax.learners.parts.arm_sums import check_failure, one_release
from dpjax.learners.parts.identification import KEPT, identification_learner
from dpjax.maths import transport
from dpjax.maths.laws import smallest


def track_and_stop(horizon: int, arms: int, *, failure: Number = 0.01) -> BatchLearner:
    """Track-and-Stop: pulls that follow the optimal shares for the current means.

    Each batch plays the arm a that is furthest behind t w_a, where w are the optimal shares for the
    current means (:func:`dpjax.maths.transport.optimal_weights`). Arms with fewer than sqrt(t / K)
    pulls are played first. The learner stops when the transport cost of every other arm exceeds its
    threshold, as in :func:`dp_tt`. A batch lasts an eighth of the arm's pulls, and a phase ends
    when the pulls have grown by a tenth.

    Args:
      horizon: T, the largest stopping time. A run that has not stopped by then is censored.
      arms: K, at least 2.
      failure: delta in (0, 1), the allowed probability of a wrong recommendation.

    Returns:
      A BatchLearner with bandit feedback.
      Its report is an IdentificationReport: stopped, stopping_time and recommendation.

    Privacy: none.

    Regret: that of the played rounds up to the stopping time, then the gap of the recommended arm
    in each round.

    Stopping time: at most about 1.1 T ln(1 / failure) as failure goes to 0, for Bernoulli losses
    and their characteristic time T (:func:`dpjax.bounds.characteristic_time`). The lower bound is T
    ln(1 / (2.4 failure)).

    Reference: Garivier & Kaufmann, "Optimal best arm identification with fixed confidence", 2016,
    played in batches; the threshold is ours.

    Examples:
      >>> learner = learners.track_and_stop(10**5, 2, failure=0.05)
      >>> round(bounds.stopping_time_lower([0.4, 0.6], float("inf"), 0.05))  # rounds
      132
    """
    failure = check_failure(failure)

    def choose(key, phases, memory):
        pulls = phases.pulls.astype(jnp.float32)
        rounds = jnp.sum(phases.pulls, dtype=jnp.int32).astype(jnp.float32)
        shares = pulls / rounds
        behind = shares - transport.optimal_weights(phases.means, jnp.inf)
        forced = jnp.min(pulls) < jnp.sqrt(rounds / arms)
        arm = smallest(key, jnp.where(forced, shares, behind))
        return KEPT.batch(phases, arm, phases.pulls[arm]), memory

    rule = stopping_rules.cost_of_transport(arms, failure, KEPT)
    declared = one_release(jnp.inf)
    return identification_learner(
        horizon, arms, grid=KEPT, choose=choose, rule=rule, privacy=declared
    )
