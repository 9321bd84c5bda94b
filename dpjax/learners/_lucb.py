"""LUCB: non-private identification by the confidence intervals of the two critical arms."""

import jax.numpy as jnp

from dpjax.core import BatchLearner, Number
from dpjax.learners.parts import identification
from dpjax.learners.parts.arm_sums import check_failure, one_release
from dpjax.maths.laws import smallest


def lucb(horizon: int, arms: int, *, failure: Number = 0.01) -> BatchLearner:
    """LUCB: play the best arm and its closest rival until their intervals separate.

    After n losses and j phases, the confidence radius of an arm's mean is

        sqrt(ln(2 K j (j + 1) / failure) / (2 n)).

    Consider the arm with the smallest mean and, among the others, the arm with the smallest lower
    bound. Of these two, the arm with fewer pulls is played for a batch of an eighth of its pulls so
    far. The learner stops when the upper bound of the first is at most the lower bound of the
    second. A phase ends when the pulls have grown by a tenth.

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

    Stopping time: O(H ln(H / failure)) with H = sum_a 1 / Delta_a^2, where Delta_a for the best arm
    is the smallest other gap.

    Reference: Kalyanakrishnan, Tewari, Auer & Stone, "PAC subset selection in stochastic
    multi-armed bandits", 2012. Their bounds hold for all rounds simultaneously. Ours hold at the
    ends of phases, for which a smaller radius suffices.

    Examples:
      >>> learner = learners.lucb(1000, 4, failure=0.05)
      >>> local = combinators.randomized_response(learner, epsilon=1.0)
      >>> learner.privacy.epsilon, local.privacy.epsilon, local.privacy.model
      (inf, 1.0, 'local')
    """
    failure = check_failure(failure)

    def bounds(phases):
        """(means, radii), each (K,)."""
        phase = jnp.maximum(phases.complete, 1).astype(jnp.float32)
        exponent = jnp.log(2.0 * arms / failure) + jnp.log(phase) + jnp.log(phase + 1.0)
        samples = jnp.maximum(phases.samples, 1).astype(jnp.float32)
        return phases.means, jnp.sqrt(exponent / (2.0 * samples))

    def rival(key, phases, best):
        """The arm with the smallest lower bound, other than the best one."""
        means, radii = bounds(phases)
        others = jnp.arange(arms) != best
        return smallest(key, jnp.where(others, means - radii, jnp.inf))

    def choose(key, phases, memory):
        best = identification.best_arm(key, phases)
        other = rival(key, phases, best)
        arm = jnp.where(phases.pulls[other] < phases.pulls[best], other, best)
        return identification.KEPT.batch(phases, arm, phases.pulls[arm]), memory

    def verdict(key, phases):
        best = identification.best_arm(key, phases)
        other = rival(key, phases, best)
        means, radii = bounds(phases)
        return means[best] + radii[best] <= means[other] - radii[other], best

    rule = identification.StoppingRule(jnp.int32(1), verdict)
    declared = one_release(jnp.inf)
    return identification.identification_learner(
        horizon, arms, grid=identification.KEPT, choose=choose, rule=rule, privacy=declared
    )
