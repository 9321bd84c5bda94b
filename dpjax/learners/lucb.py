"""LUCB: identification without privacy, by confidence intervals of the two arms that matter."""

import jax.numpy as jnp

from dpjax.core import BatchLearner, Number
from dpjax.learners.parts import identification
from dpjax.learners.parts.arm_sums import check_arms, check_failure, one_release
from dpjax.maths.laws import smallest


def lucb(horizon: int, arms: int, *, failure: Number = 0.01) -> BatchLearner:
    """LUCB: plays the best arm and its closest rival until their intervals part.

    After n losses and j phases an arm's mean may be off by

        sqrt(ln(2 K j (j + 1) / failure) / (2 n)).

    Of the arm with the least mean and the other arm with the least lower bound, the one that was
    played less plays for an eighth of its pulls. The learner stops when the upper bound of the
    first is at most the lower bound of the second. A phase ends when the pulls have grown by a
    tenth.

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

    Stopping time: O(H ln(H / failure)) with H = sum_a 1 / Delta_a^2, where the best arm has the
    smallest of the gaps.

    Reference: Kalyanakrishnan, Tewari, Auer & Stone, "PAC subset selection in stochastic
    multi-armed bandits", 2012. Their bounds hold for all rounds at once. Ours hold at the ends of
    phases, where a smaller radius suffices.

    Examples:
      >>> learner = learners.lucb(1000, 4, failure=0.05)
      >>> local = combinators.randomized_response(learner, epsilon=1.0)
      >>> learner.privacy.epsilon, local.privacy.epsilon, local.privacy.model
      (inf, 1.0, 'local')
    """
    horizon, arms = check_arms(horizon, arms)
    failure = check_failure(failure)

    def bounds(phases):
        """(means, radii), each (K,)."""
        phase = jnp.maximum(phases.complete, 1).astype(jnp.float32)
        exponent = jnp.log(2.0 * arms / failure) + jnp.log(phase) + jnp.log(phase + 1.0)
        samples = jnp.maximum(phases.samples, 1).astype(jnp.float32)
        return phases.means, jnp.sqrt(exponent / (2.0 * samples))

    def rival(key, phases, best):
        """The other arm with the least lower bound."""
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
