"""Robust elimination: DP-SE for heavy-tailed losses, which are clipped in each epoch."""

import jax.numpy as jnp

from dpjax import noise, privacy
from dpjax.combinators.batches import every_round
from dpjax.core import Learner, Model, Number, Privacy, _check
from dpjax.learners.parts.arm_sums import check_failure
from dpjax.learners.parts.elimination import elimination_learner
from dpjax.maths import exact_sums
from dpjax.maths.clipped_means import LARGEST, epoch_plan
from dpjax.maths.clipping import within


def robust_elimination(
    horizon: int,
    arms: int,
    *,
    epsilon: Number,
    moment: Number = 1.0,
    order: Number = 2.0,
    largest_gap: Number = 1.0,
    model: Model = "central",
    failure: Number | None = None,
) -> Learner:
    """Robust elimination: successive elimination of arms with heavy-tailed losses.

    Epoch e targets the gap Delta_e = largest_gap 2^-e. Each active arm is played R_e rounds. Losses
    are clipped to [-B_e, B_e], and arms are eliminated if their noisy mean exceeds the smallest by
    more than Delta_e / 2. B_e and R_e depend on the moment, not on losses: R_e is the smallest
    number of rounds, over all B, for which the error bound of a mean is Delta_e / 4
    (:func:`dpjax.maths.clipped_means.clipped_mean`). The rest is as in
    :func:`successive_elimination`.

    Args:
      horizon: T, rounds.
      arms: K, at least 2.
      epsilon: privacy parameter; inf adds no noise but still clips losses.
      moment: u, an upper bound on E|loss|^p for every arm. The moment is not centred, so it
        includes the means.
      order: p in (1, 2]; a smaller p allows heavier tails.
      largest_gap: the largest gap between two means.
      model: "central", or "local", in which each clipped loss has its own noise.
      failure: beta in (0, 1), the probability that the best arm is eliminated, or that some epoch
        does not eliminate all arms with a gap of at least Delta_e; default 1 / T (1/2 if T is 1).

    Returns:
      A Learner with bandit feedback. The losses of an epoch, divided by B_e, are summed exactly.

    Privacy: epsilon-DP for replacement of one round, for any losses. Released values: actions 1..T,
    or in the local model the noisy losses. A replaced loss moves one sum by at most 2 B_e, and the
    noise has scale 2 B_e / epsilon.

    Regret: O(sum_a (u / Delta_a)^(1 / v) ln T / epsilon) for v = p - 1 and epsilon <= 1.

    Reference: in the style of Tao, Wu, Zhao & Wang, "Optimal rates of (locally) differentially
    private heavy-tailed multi-armed bandits", 2022. They set losses beyond B to 0; clipping has
    less bias. The constants and the local model are ours.

    Examples:
      >>> learner = learners.robust_elimination(1000, 4, epsilon=1.0, moment=2.0, order=1.5)
      >>> float(learner.feedback(jnp.array([-7.5, 2.0]), 0)), learner.privacy.epsilon
      (-7.5, 1.0)
    """
    _check.between(1.0, 2.0, order=order)
    _check.inside(1.0, jnp.inf, order=order)
    failure = check_failure(failure, 1.0 / max(horizon, 2))
    moment, largest_gap = jnp.asarray(moment, jnp.float32), jnp.asarray(largest_gap, jnp.float32)
    scale = privacy.laplace_scale(2.0, epsilon)  # of losses divided by B, in [-1, 1]

    def plan_of(epoch, active):
        budget = jnp.asarray(epsilon, jnp.float32)
        return epoch_plan(epoch, active, failure, largest_gap, moment, order, budget, model)

    def mean_of(key, epoch, active, total, rounds):
        if model == "local":
            total = noise.laplace.sum(key, total, scale, rounds)
        else:
            total = noise.laplace.total(key, total, scale)
        return plan_of(epoch, active)[0] * exact_sums.mean(total, rounds)

    noised = "each loss" if model == "local" else "sums, in parallel"
    declared = Privacy(
        epsilon=epsilon, loss_range=(-LARGEST, LARGEST), model=model,
        released="randomized losses 1..T" if model == "local" else "actions 1..T",
        accountant=f"Laplace mechanism on {noised}",
    )  # fmt: skip
    base = every_round(
        elimination_learner(horizon, arms, lambda *at: plan_of(*at)[1:], mean_of, declared)
    )

    def step(state, key, loss):
        active = jnp.sum(state.learner.active, dtype=jnp.int32)
        level = plan_of(state.learner.number, active)[0]
        return base.step(state, key, within(loss / level, -1.0, 1.0))

    return base._replace(step=step)
