"""Limited updates: private experts for i.i.d. losses, each of which is used once."""

import jax.numpy as jnp

from dpjax import noise, privacy
from dpjax.core import Arms, Batch, BatchLearner, Number, Privacy, _check
from dpjax.feedback import full
from dpjax.learners.parts import selectors
from dpjax.learners.parts.arm_sums import check_arms
from dpjax.maths import exact_sums

# The law of each selector that draws by one.
LAWS = {"exponential": selectors.exponential, "permute_and_flip": selectors.permute_and_flip}
NAMES = {
    "exponential": "exponential mechanism",
    "permute_and_flip": "permute-and-flip",
    "laplace": "report noisy minimum",
}


def limited_updates(
    horizon: int,
    arms: int,
    *,
    epsilon: Number,
    ratio: Number | None = None,
    selector: str = "exponential",
    calibration: str = "derived",
) -> BatchLearner:
    """Follows the leader of the batch before, drawn privately, in batches that double.

    The first arm is uniform, for one round. A batch of n rounds is followed by one of
    ceil(ratio n), whose arm i is drawn once, from the sums S (K,) of the losses of the n rounds
    alone. With selector

        "exponential"        i ~ softmax(-epsilon S / 2),
        "permute_and_flip"   i = argmin(S - E), E_j exponential of mean 2 / epsilon,
        "laplace"            i = argmin(S + Z), Z_j ~ Lap(2 / epsilon).

    Args:
      horizon: T, rounds.
      arms: K, at least 2.
      epsilon: privacy; at inf the arm is the best one of the batch before, ties drawn uniformly.
      ratio: growth of the batches, above 1; default 2, with batches of 1, 2, 4, ... rounds.
      selector: how the arm of a batch is drawn.
      calibration: "derived", or for the Laplace selector "printed", which has noise of scale
        1 / epsilon.

    Returns:
      A BatchLearner with full information that plays arms.

    Privacy: epsilon-DP, pure, central, for replacement of one round, released: actions 1..T. One
    replaced round moves each sum by at most 1, up or down. Two sums may move against each other, by
    2 in all. This moves a log-likelihood ratio by at most epsilon with each selector. Of the
    exponential mechanism alone the range of all log-likelihood ratios is epsilon too, so that it
    has rho = epsilon^2 / 8. The others are declared with epsilon^2 / 2. Each round enters one draw,
    and the arms of later batches are drawn from other rounds, whatever was played. None of this
    depends on the ratio. The printed Laplace selector states epsilon and has 2 epsilon: its scale
    is right where a round is zeroed out, so that all sums move in one direction.

    Regret: O(sqrt(T ln K) + ln K ln T / epsilon) for i.i.d. losses only. An adversary who knows the
    batches makes it linear in T. With ratio 2 the expected pseudo-regret is at most
    1 + 3.42 sqrt(T ln K) + 4 ln K log2(T) / epsilon. For after a batch of n rounds the mean of the
    arm that is drawn exceeds the best mean by at most sqrt(ln K / (2 n)) in expectation, since it
    is judged by n losses, plus 2 ln K / (epsilon n), since it is drawn at random. It is then played
    for at most 2 n rounds. Permute-and-flip is never worse than the exponential mechanism (McKenna
    & Sheldon). With Laplace noise ln K becomes ln K + 0.31 in the last term. At fixed gaps regret
    does not grow with T: see ``analysis.bounds.limited_updates_gaps``.

    Reference: Asi, Feldman, Koren & Talwar, "Private online prediction from experts: separations
    and faster rates", 2023, Algorithm 2 and Theorem 7. Their Corollary 8 draws the experts by
    private stochastic convex optimization in the l1 geometry, not by the exponential mechanism.
    With Laplace noise: Hu, Huang, Mehta & Hegde, "Near-optimal algorithms for private online
    learning in a stochastic environment", 2021, RNM-FTNL, as reconstructed; McKenna & Sheldon,
    "Permute-and-flip: a new mechanism for differentially private selection", 2020.

    Examples:
      >>> laws = ("exponential", "permute_and_flip")
      >>> made = [learners.limited_updates(1000, 4, epsilon=1.0, selector=x) for x in laws]
      >>> [float(x.privacy.rho) for x in made]
      [0.125, 0.5]
    """
    horizon, arms = check_arms(horizon, arms)
    epsilon = jnp.asarray(_check.epsilon(epsilon), jnp.float32)
    _check.inside(1.0, jnp.inf, **_check.given(ratio=ratio))
    _check.one_of(*LAWS, "laplace", selector=selector)
    _check.one_of(
        *(("derived", "printed") if selector == "laplace" else ("derived",)),
        calibration=calibration,
    )
    printed = calibration == "printed"
    scale = privacy.laplace_scale(1.0 if printed else 2.0, epsilon)

    def draw(key, total, rounds):
        if selector == "laplace":
            arm = noise.least(key, exact_sums.excess(total), scale)
        else:
            arm = noise.categorical(key, LAWS[selector](total, epsilon))
        # The state is the length of the batch in play.
        return rounds, Batch(arm, rounds)

    def init(key):
        return draw(key, exact_sums.nothing((arms,)), jnp.ones((), jnp.int32))

    def step(rounds, key, total):
        # Batches of 1, 2, ... 2^30 rounds fill any horizon in int32, so none need be longer.
        if ratio is None:
            return draw(key, total, 2 * jnp.minimum(rounds, 2**29))
        grown = jnp.minimum(jnp.ceil(ratio * rounds.astype(jnp.float32)), 2.0**30)
        return draw(key, total, grown.astype(jnp.int32))

    spent = 2.0 * epsilon if printed else epsilon
    bounded = selector == "exponential"
    declared = Privacy(
        epsilon=spent,
        rho=privacy.bounded_range_rho(spent) if bounded else 0.5 * spent**2,
        accountant=f"{NAMES[selector]} on each batch, parallel over batches",
        calibration=calibration,
        paper_epsilon=epsilon if printed else float("nan"),
    )
    return BatchLearner(init, step, full, Arms(arms), horizon, declared)
