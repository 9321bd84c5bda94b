"""CTB-TT: top-two sampling in the local model, on individually randomized losses."""

import jax.numpy as jnp

from dpjax import noise, privacy
from dpjax.core import BatchLearner, Number
from dpjax.feedback import to_bit
from dpjax.learners.parts import stopping_rules
from dpjax.learners.parts.arm_sums import check_failure
from dpjax.learners.parts.identification import KEPT, laplace_bounds
from dpjax.learners.parts.sum_noise import sum_noise
from dpjax.learners.parts.top_two import top_two, transport_cost
from dpjax.maths.exact_sums import ExactSum


def ctb_tt(horizon: int, arms: int, *, epsilon: Number, failure: Number = 0.01) -> BatchLearner:
    """CTB-TT: randomized response on each loss, then top-two sampling without noise.

    A loss of 0 or 1 is flipped with probability p = 1 / (1 + e^epsilon) before the learner sees it.
    A mean mu becomes p + (1 - 2p) mu, so the order of the arms is kept. Identification on all
    flipped losses is then non-private: the challenger and the stopping rule are those of
    :func:`dp_tt` without noise. A phase ends when the pulls of an arm have grown by a tenth.

    Args:
      horizon: T, the largest stopping time. A run that has not stopped by then is censored.
      arms: K, at least 2.
      epsilon: privacy parameter; inf flips nothing.
      failure: delta in (0, 1), the allowed probability of a wrong recommendation.

    Returns:
      A BatchLearner with bandit feedback. Losses other than 0 and 1 are rounded to the nearer of
      the two before they are flipped, so use Bernoulli losses. Its report is an
      IdentificationReport: stopped, stopping_time and recommendation.

    Privacy: epsilon-DP in the local model for each loss. Released values: the randomized losses,
    and therefore actions 1..T, the stopping time and the recommendation.

    Regret: that of the played rounds up to the stopping time, then the gap of the recommended arm
    in each round.

    Stopping time: at most about 1.1 T ln(1 / failure) as failure goes to 0. Here T is the
    characteristic time without noise, for mean losses p + (1 - 2p) mu and the shares of pulls that
    the learner plays. The lower bound is :func:`dpjax.bounds.stopping_time_lower_local`.

    Reference: Azize, Jourdan, Al Marjani & Basu, "Differentially private best-arm identification",
    2024, from its abstract. The phases and the threshold are ours.

    Examples:
      >>> learner = learners.ctb_tt(1000, 2, epsilon=1.0)
      >>> learner.privacy.model, learner.privacy.released
      ('local', 'randomized losses 1..T')
    """
    failure = check_failure(failure)
    scale = privacy.laplace_scale(1.0, epsilon)  # 1 / epsilon, in units of one flipped loss

    def release(key, losses, count):
        kept = noise.randomized_response(key, losses.whole, scale, count)
        return ExactSum(kept, jnp.zeros_like(kept))

    declared = sum_noise("randomized_response", epsilon, None).privacy
    rule = stopping_rules.cost_of_transport(arms, failure, KEPT)
    bounds, cost = laplace_bounds(jnp.inf), transport_cost(jnp.inf)
    learner = top_two(horizon, arms, KEPT, bounds, cost, rule, declared, release)
    return learner._replace(clip=to_bit)
