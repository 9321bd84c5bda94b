"""Limited updates: private experts for i.i.d. losses, which use each loss once."""

import jax.numpy as jnp

from dpjax import noise, privacy
from dpjax.core import Arms, Batch, BatchLearner, Number, Privacy, Selector
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


def limited_updates(
    horizon: int,
    arms: int,
    *,
    epsilon: Number,
    selector: Selector = "exponential",
    calibration: Calibration = "derived",
) -> BatchLearner:
    """Follow the leader of the previous batch, drawn privately, in batches that double.

    The first arm is drawn uniformly and played for one round. A batch of n rounds is followed by
    one of 2 n rounds. The arm i of this next batch is drawn once, from the loss sums S (K,) of the
    n rounds only. The selectors are

        "exponential"        i ~ softmax(-epsilon S / 2),
        "permute_and_flip"   i = argmin(S - E), E_j exponential of mean 2 / epsilon,
        "laplace"            i = argmin(S + Z), Z_j ~ Lap(2 / epsilon).

    Args:
      horizon: T, rounds.
      arms: K, at least 2.
      epsilon: privacy parameter; at inf the arm is the best of the previous batch, with ties drawn
        uniformly.
      selector: how the arm of a batch is drawn.
      calibration: "derived", or "printed" for the Laplace selector, with noise of scale
        1 / epsilon.

    Returns:
      A BatchLearner with full information that plays arms.

    Privacy: epsilon-DP, pure, central, for replacement of one round. Released values: actions 1..T.
    One replaced round moves each sum by at most 1 in either direction, so the difference of two
    sums moves by at most 2. This moves a log-likelihood ratio by at most epsilon with each
    selector. For the exponential mechanism only, the range of all log-likelihood ratios is also
    epsilon, so rho = epsilon^2 / 8. The other selectors are declared with rho = epsilon^2 / 2. Each
    round enters one draw, and the arms of later batches are drawn from other rounds, whatever the
    actions are. The printed Laplace selector states epsilon and has 2 epsilon: its scale is correct
    if a round is zeroed out, which moves all sums in one direction.

    Regret: O(sqrt(T ln K) + ln K ln T / epsilon) for i.i.d. losses only. An adversary who knows the
    batches can make it linear in T. The expected pseudo-regret is at most 1 + 3.42
    sqrt(T ln K) + 4 ln K log2(T) / epsilon. After a batch of n rounds, the mean of the drawn arm
    exceeds the best mean in expectation by at most sqrt(ln K / (2 n)), because of the n losses,
    plus 2 ln K / (epsilon n), because of the random draw. The arm is then played for at most 2 n
    rounds. Permute-and-flip is never worse than the exponential mechanism (McKenna & Sheldon). With
    Laplace noise ln K becomes ln K + 0.31 in the last term. For fixed gaps regret does not grow
    with T: it is O(1 / gap + 1 / epsilon) for each arm.

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
    epsilon = jnp.asarray(epsilon, jnp.float32)
    printed = is_printed(calibration)
    if printed and selector != "laplace":
        raise ValueError("calibration: the paper prints the laplace selector only")
    scale = privacy.laplace_scale(1.0 if printed else 2.0, epsilon)

    def draw(key, total, rounds):
        if selector == "laplace":
            arm = noise.least(key, exact_sums.excess(total), scale)
        else:
            arm = noise.categorical(key, LAWS[selector](total, epsilon))
        # The state is the length of the current batch.
        return rounds, Batch(arm, rounds)

    def init(key):
        return draw(key, exact_sums.nothing((arms,)), jnp.ones((), jnp.int32))

    def step(rounds, key, total):
        # Batches of 1, 2, ... 2^30 rounds fill any int32 horizon, so none needs to be longer.
        return draw(key, total, 2 * jnp.minimum(rounds, 2**29))

    spent = 2.0 * epsilon if printed else epsilon
    bounded = selector == "exponential"
    declared = Privacy(
        epsilon=spent,
        rho=privacy.bounded_range_rho(spent) if bounded else 0.5 * spent**2,
        accountant=f"{NAMES[selector]} on each batch, parallel over batches",
    )
    declared = stated(declared, calibration, epsilon)
    return BatchLearner(init, step, full, Arms(arms), horizon, declared)
