"""Limited updates: private experts for i.i.d. losses, each of which is used once."""

import jax.numpy as jnp

from dpjax import _check, noise, privacy
from dpjax.core import Arms, Batch, BatchLearner, Number, Privacy
from dpjax.feedback import clipped_full
from dpjax.learners.parts.arm_sums import check_arms
from dpjax.maths import exact_sums


def probabilities(total, epsilon):
    """softmax(-epsilon S / 2). At epsilon = inf it is uniform over the smallest entries of S."""
    excess = exact_sums.excess(total)
    # The product would be 0 * inf = nan for the smallest entries.
    exponents = jnp.where(excess > 0.0, -0.5 * epsilon * excess, 0.0)
    weights = jnp.exp(exponents)
    return weights / jnp.sum(weights)


def limited_updates(
    horizon: int, arms: int, *, epsilon: Number, ratio: Number | None = None
) -> BatchLearner:
    """Follows the leader of the batch before, drawn privately, in batches that double.

    The first arm is uniform, for one round. A batch of n rounds is followed by one of
    ceil(ratio n), whose arm is drawn once, from the sums S (K,) of the losses of the n rounds
    alone:

        i ~ softmax(-epsilon S / 2).

    Args:
      horizon: T, rounds.
      arms: K, at least 2.
      epsilon: privacy; at inf the arm is the best one of the batch before, ties drawn uniformly.
      ratio: growth of the batches, above 1; default 2, with batches of 1, 2, 4, ... rounds.

    Returns:
      A BatchLearner with full information that plays arms. Losses outside [0, 1] are clipped before
      they are summed.

    Privacy: epsilon-DP, pure, central, for replacement of one round, released: actions 1..T. Each
    draw is an exponential mechanism: one replaced round moves each exponent by at most epsilon / 2,
    up or down, and so a log-likelihood ratio by at most epsilon. Each round enters one draw, and
    the arms of later batches are drawn from other rounds, whatever was played. None of this
    depends on the ratio.

    Regret: O(sqrt(T ln K) + ln K ln T / epsilon) for i.i.d. losses only. An adversary who knows the
    batches makes it linear in T. With ratio 2 the expected pseudo-regret is at most
    1 + 3.42 sqrt(T ln K) + 4 ln K log2(T) / epsilon. For after a batch of n rounds the mean of the
    arm that is drawn exceeds the best mean by at most sqrt(ln K / (2 n)) in expectation, since it
    is judged by n losses, plus 2 ln K / (epsilon n), since it is drawn at random. It is then played
    for at most 2 n rounds.

    Reference: Asi, Feldman, Koren & Talwar, "Private online prediction from experts: separations
    and faster rates", 2023, Algorithm 2 and Theorem 7. Their Corollary 8 draws the experts by
    private stochastic convex optimization in the l1 geometry, not by the exponential mechanism.
    """
    horizon, arms = check_arms(horizon, arms)
    epsilon = jnp.asarray(_check.epsilon(epsilon), jnp.float32)
    _check.inside(1.0, jnp.inf, **_check.given(ratio=ratio))

    def draw(key, total, rounds):
        # The state is the length of the batch in play.
        return rounds, Batch(noise.choose(key, probabilities(total, epsilon)), rounds)

    def init(key):
        return draw(key, exact_sums.nothing((arms,)), jnp.ones((), jnp.int32))

    def step(rounds, key, total):
        # Batches of 1, 2, ... 2^30 rounds fill any horizon in int32, so none need be longer.
        if ratio is None:
            return draw(key, total, 2 * jnp.minimum(rounds, 2**29))
        grown = jnp.minimum(jnp.ceil(ratio * rounds.astype(jnp.float32)), 2.0**30)
        return draw(key, total, grown.astype(jnp.int32))

    declared = Privacy(
        epsilon=epsilon,
        rho=privacy.bounded_range_rho(epsilon),
        accountant="exponential mechanism on each batch, parallel over batches",
    )
    return BatchLearner(
        init=init,
        step=step,
        feedback=clipped_full,
        action_set=Arms(arms),
        zero=jnp.zeros(arms, jnp.float32),
        horizon=horizon,
        privacy=declared,
    )
