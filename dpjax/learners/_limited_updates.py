"""Limited updates: private experts for i.i.d. losses, which use each loss at most once."""

from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import random as jr

from dpjax import noise, privacy
from dpjax.core import Arms, Array, Batch, BatchLearner, Number, Privacy, Selector
from dpjax.feedback import full
from dpjax.learners.parts import selectors
from dpjax.maths import exact_sums
from dpjax.privacy.printed import Calibration, is_printed, stated

# The law of each selector.
LAWS = {"exponential": selectors.exponential, "permute_and_flip": selectors.permute_and_flip}
NAMES = {
    "exponential": "exponential mechanism",
    "permute_and_flip": "permute-and-flip",
    "laplace": "report noisy minimum",
}


class PrefixState(NamedTuple):
    rounds: Array  # () int32 n, the length of the current batch
    rest: Array  # () int32, its rounds after the prefix
    arm: Array  # () int32, its arm
    following: Array  # () int32, the arm of the next batch; -1 during the prefix


def limited_updates(
    horizon: int,
    arms: int,
    *,
    epsilon: Number,
    selector: Selector = "exponential",
    prefix: Literal["whole", "random"] = "whole",
    calibration: Calibration = "derived",
) -> BatchLearner:
    """Follow the leader of the previous batch, drawn privately, in batches that double.

    The first arm is drawn uniformly and played for one round. A batch of n rounds is followed by
    one of 2 n rounds. The arm i of this next batch is drawn once, from the loss sums S (K,) of the
    n rounds only. The selectors are

        "exponential"        i ~ softmax(-epsilon S / 2),
        "permute_and_flip"   i = argmin(S - E), E_j exponential of mean 2 / epsilon,
        "laplace"            i = argmin(S + Z), Z_j ~ Lap(2 / epsilon).

    With a random prefix, S is the sum over the first M of these n rounds, and the others are not
    read. M is uniform on {n / 2 + 1, ..., n}, and M = 1 if n = 1.

    Args:
      horizon: T, rounds.
      arms: K, at least 2.
      epsilon: privacy parameter; at inf the arm is the best of the previous batch, with ties drawn
        uniformly.
      selector: how the arm of a batch is drawn.
      prefix: "whole" reads each batch to its end, and "random" reads a random prefix of it. The
        whole batch usually has less regret, and the random prefix has a proof for fixed gaps.
      calibration: "derived", or "printed" for the Laplace selector, with noise of scale
        1 / epsilon.

    Returns:
      A BatchLearner with full information that plays arms.

    Privacy: epsilon-DP, pure, central, for replacement of one round. Released values: actions 1..T.
    One replaced round moves each sum by at most 1 in either direction, so the difference of two
    sums moves by at most 2. This moves a log-likelihood ratio by at most epsilon with each
    selector. For the exponential mechanism only, the range of all log-likelihood ratios is also
    epsilon, so rho = epsilon^2 / 8. The other selectors are declared with rho = epsilon^2 / 2. Each
    round enters at most one draw, and the arms of later batches are drawn from other rounds,
    whatever the actions are. A random M does not depend on the losses. The printed Laplace selector
    states epsilon and has 2 epsilon: its scale is correct if a round is zeroed out, which moves all
    sums in one direction.

    Regret: O(sqrt(T ln K) + ln K ln T / epsilon) for i.i.d. losses only. An adversary who knows the
    batches can make it linear in T. The expected pseudo-regret is at most 1 + 3.42
    sqrt(T ln K) + 4 ln K log2(T) / epsilon. After a batch of n rounds, the mean of the drawn arm
    exceeds the best mean in expectation by at most sqrt(ln K / (2 n)), because of the n losses,
    plus 2 ln K / (epsilon n), because of the random draw. The arm is then played for at most 2 n
    rounds. Permute-and-flip is never worse than the exponential mechanism (McKenna & Sheldon). With
    Laplace noise ln K becomes ln K + 0.31 in the last term. For fixed gaps regret does not grow
    with T: it is O(1 / gap + 1 / epsilon) for each arm.

    Regret with a random prefix: O(ln K / gap + ln K / epsilon) for every T and i.i.d. losses, with
    the exponential mechanism and the smallest gap (:func:`dpjax.bounds.limited_updates_prefix`).
    Proof: let p_m be the law of an arm that is drawn from m rounds. After a batch of n > 1 rounds,
    the next 2 n rounds cost 4 times the sum of <gaps, p_m> over m in {n / 2 + 1, ..., n}. No m
    occurs twice, so regret is at most 1 + 4 sum_m E <gaps, p_m>. Let eta = epsilon / 2.

    - Gaps D of at least eta, with eta <= 1. Let W_m be the sum of exp(eta (S_best - S_i)) over the
      best arm and the arms with such gaps, after m rounds. By the inequalities of Jensen and
      Hoeffding, another round lowers E ln W by (1 - e^(-1/2)) eta times the cost of these arms, or
      more. Since ln W falls from at most ln K and is never below 0, their cost over all m is at
      most 2.55 ln K / eta.
    - Gaps D < eta. By Hoeffding's inequality E p_m(i) <= exp(-D^2 m / 2). Let
      a = 2 sqrt(ln K / m). Arms with D <= a together cost at most a, and nothing if a is below the
      smallest gap. The others cost at most the sum of D exp(-D^2 m / 2). Over all m this is at most
      (8 (1 + 1 / K) ln K + 5 / K) / gap.

    Without the random prefix we know no such proof.

    Reference: Asi, Feldman, Koren & Talwar, "Private online prediction from experts: separations
    and faster rates", 2023, Algorithm 2 and Theorem 7. Their Corollary 8 draws the experts by
    private stochastic convex optimization in the l1 geometry, not by the exponential mechanism.
    With Laplace noise: Hu, Huang, Mehta & Hegde, "Near-optimal algorithms for private online
    learning in a stochastic environment", 2021, RNM-FTNL, as reconstructed; McKenna & Sheldon,
    "Permute-and-flip: a new mechanism for differentially private selection", 2020. With a random
    prefix: Cesari & Colomboni, "Optimal gap-dependent regret for private stochastic
    decision-theoretic online learning", 2026, as reconstructed: we read its abstract, and the law
    of M and the proof are ours.

    Examples:
      >>> laws = ("exponential", "permute_and_flip")
      >>> made = [learners.limited_updates(1000, 4, epsilon=1.0, selector=x) for x in laws]
      >>> [float(x.privacy.rho) for x in made]
      [0.125, 0.5]
    """
    epsilon = jnp.asarray(epsilon, jnp.float32)
    printed = is_printed(calibration)
    if printed and selector != "laplace":
        raise ValueError("calibration: the paper prints the laplace selector only")
    scale = privacy.laplace_scale(1.0 if printed else 2.0, epsilon)

    def draw(key, total):
        if selector == "laplace":
            return noise.least(key, exact_sums.excess(total), scale)
        return noise.categorical(key, LAWS[selector](total, epsilon))

    # Batches of 1, 2, ... 2^30 rounds fill any int32 horizon, so none needs to be longer.
    def doubled(rounds):
        return 2 * jnp.minimum(rounds, 2**29)

    def whole(key, total, rounds):
        # The state is the length of the current batch.
        return rounds, Batch(draw(key, total), rounds)

    def begin(key, arm, rounds):
        rest = jr.randint(key, (), 0, jnp.maximum(rounds // 2, 1))
        state = PrefixState(rounds, rest, arm, jnp.full((), -1, jnp.int32))
        return state, Batch(arm, rounds - rest)

    def init(key):
        nothing, one = exact_sums.nothing((arms,)), jnp.ones((), jnp.int32)
        if prefix == "whole":
            return whole(key, nothing, one)
        arm_key, prefix_key = jr.split(key)
        return begin(prefix_key, draw(arm_key, nothing), one)

    def step(state, key, total):
        if prefix == "whole":
            return whole(key, total, doubled(state))
        arm_key, prefix_key = jr.split(key)
        read = state.following < 0  # The sum of the rest is not read.
        drawn = draw(arm_key, jax.tree.map(lambda leaf: jnp.where(read, leaf, 0), total))
        following = jnp.where(read, drawn, state.following)
        # The arm of the batch is played for the rest of it, then the following one.
        rest = state._replace(following=following), Batch(state.arm, state.rest)
        return jax.tree.map(
            partial(jnp.where, read & (state.rest > 0)), rest,
            begin(prefix_key, following, doubled(state.rounds)),
        )  # fmt: skip

    spent = 2.0 * epsilon if printed else epsilon
    bounded = selector == "exponential"
    declared = Privacy(
        epsilon=spent,
        rho=privacy.bounded_range_rho(spent) if bounded else 0.5 * spent**2,
        accountant=f"{NAMES[selector]} on each batch, parallel over batches",
    )
    declared = stated(declared, calibration, epsilon)
    return BatchLearner(init, step, full, Arms(arms), horizon, declared)
