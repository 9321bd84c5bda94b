"""Private bandits by batches: a noise-tolerant learner plays on noisy batch averages."""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from dpjax import noise, privacy
from dpjax.combinators import minibatch
from dpjax.core import Arms, Array, BatchLearner, Learner, Number, Privacy
from dpjax.feedback import bandit, unclipped
from dpjax.learners._exp2 import arms_as_actions, derived_rates, exponential_weights
from dpjax.learners._tsallis_inf import add, probabilities
from dpjax.learners.parts.arm_sums import one_release
from dpjax.maths import quotients

# Theta at alpha = 2: min(1 - 2^(-1/3), e^(-1/2)).
_THRESHOLD = 1.0 - 2.0 ** (-1.0 / 3.0)


class HtinfState(NamedTuple):
    estimates: Array  # (K,) sums of estimated losses, shifted so that the smallest is 0
    arm: Array  # () int32, the current arm
    probability: Array  # () float32, its probability when it was drawn
    round: Array  # () int32, the current round, from 1
    skipped: Array  # () int32


class HtinfReport(NamedTuple):
    skipped: Array  # () int32, losses beyond the threshold, which were ignored


def htinf(horizon: int, arms: int, deviation: Number) -> Learner:
    """HTINF at alpha = 2: Tsallis-INF for losses with E[l^2] <= sigma^2, possibly negative.

    With eta_t = 1 / (sigma sqrt(t)) it draws from p = argmin <L, p> - (2 / eta_t) sum_i sqrt(p_i).
    Losses beyond 0.206 sqrt(p_a) / eta_t are skipped: they count as 0, but t still advances. The
    analysis requires E[l 1{|l| > b}] >= 0 for every b. This holds for nonnegative losses plus
    symmetric noise, so losses are not centred here.

    Args:
      horizon: T, rounds. The algorithm does not use it.
      arms: K, at least 2.
      deviation: sigma; may be traced.

    Reference: Huang, Dai & Huang, "Adaptive best-of-both-worlds algorithm for heavy-tailed
    multi-armed bandits", 2022, Algorithm 1, as recalled.
    """

    def inverse_rate(t):
        return deviation * jnp.sqrt(t.astype(jnp.float32))

    def draw(key, estimates, t, skipped):
        p = probabilities(estimates, 1.0 / inverse_rate(t))
        arm = noise.choose(key, p)
        return HtinfState(estimates, arm, p[arm], t, skipped), arm

    def init(key):
        zero = jnp.zeros((), jnp.int32)
        return draw(key, jnp.zeros(arms, jnp.float32), zero + 1, zero)

    def step(state, key, loss):
        threshold = _THRESHOLD * jnp.sqrt(state.probability) * inverse_rate(state.round)
        used = jnp.abs(loss) <= threshold
        estimate = jnp.where(used, loss / state.probability, 0.0)
        estimates = add(state.estimates, state.arm, estimate)
        skipped = state.skipped + (~used).astype(jnp.int32)
        return draw(key, estimates, state.round + 1, skipped)

    def report(state):
        return HtinfReport(state.skipped)

    return Learner(init, step, bandit, Arms(arms), horizon, Privacy(), report, clip=unclipped)


def batch_rounds(horizon: int, epsilon: Number):
    """tau = ceil(1 / epsilon) within [1, T], a float because large values overflow int32."""
    return jnp.clip(jnp.ceil(1.0 / jnp.asarray(epsilon, jnp.float32)), 1.0, horizon)


def batched_bandit(
    horizon: int,
    arms: int,
    *,
    epsilon: Number,
    base: Literal["htinf", "exp2"] = "htinf",
    tau: Number | None = None,
    rate: Number | None = None,
) -> BatchLearner:
    """Run a base learner in batches of ceil(1 / epsilon) rounds, with Laplace noise.

    Each arm chosen by a base learner is played for tau rounds, and the base learner receives their
    average loss plus Lap(1 / (epsilon tau)). By default the scale of this noise is at most 1 for
    every epsilon.

    Args:
      horizon: T, rounds.
      arms: K, at least 2.
      epsilon: privacy parameter; inf gives batches of one round without noise.
      base: "htinf", or "exp2" with the rates of :func:`exp2` for T / tau rounds with this noise.
      tau: rounds in a batch, at least 1, rounded down; may be traced. Default ceil(1 / epsilon).
      rate: learning rate of the base, positive. For "exp2" it is eta. For "htinf" it is eta_1 in
        eta_t = eta_1 / sqrt(t), by default 1 / sigma with sigma^2 = 1 + 2 / (epsilon tau)^2.

    Returns:
      A BatchLearner with bandit feedback. Its report is that of the base.

    Privacy: epsilon-DP for replacement of one round. Released values: actions 1..T. A loss in
    [0, 1] is in one sum, which it moves by at most 1 for every tau and rate. Given the past, the
    noisy sum is an epsilon-DP function of that loss, and later actions depend on the loss only
    through that sum. A last batch that is cut short by the horizon is never read. The noise is
    added to sums, so the model is central. (If epsilon >= 1, default batches have one round, and
    the local model holds too.)

    Regret: at most 30 sigma sqrt(K tau (T + tau)) + tau with HTINF and its default rate, in
    expectation (oblivious losses; the constant is as recalled). With the default tau and
    epsilon <= 1 this is O(sqrt(K T / epsilon) + 1 / epsilon). It is sublinear for epsilon >> 1 / T,
    while noise on each loss needs epsilon >> T^(-1/2). The paper's sigma is sqrt(6), which is at
    least ours.

    Reference: Asi, Raman & Talwar, "Faster rates for private adversarial bandits", 2025.

    Examples:
      >>> learner = learners.batched_bandit(1000, 4, epsilon=0.05)
      >>> state, batch = jax.jit(learner.init)(jax.random.key(0))
      >>> int(batch.rounds), learner.privacy.accountant
      (20, 'Laplace mechanism on the sum of each batch')
    """
    if tau is None:
        tau = batch_rounds(horizon, epsilon)
    else:
        tau = jnp.minimum(jnp.floor(jnp.asarray(tau, jnp.float32)), horizon)
    scale = privacy.laplace_scale(1.0 / tau, epsilon)
    if base == "htinf":
        plain = htinf(
            horizon, arms, jnp.sqrt(1.0 + 2.0 * scale * scale) if rate is None else 1.0 / rate
        )
    else:
        actions, batches = (
            arms_as_actions(arms),
            quotients.whole(horizon, tau)[0].astype(jnp.float32),
        )
        rates = derived_rates(batches, actions, (0.0, 1.0), scale, 0.5, rate=rate)
        plain = exponential_weights(horizon, actions, rates, 0.5)
    batched = minibatch(plain, horizon, tau)

    def step(state, key, total):
        noise_key, base_key = jax.random.split(key)
        released = noise.laplace.total(noise_key, total, privacy.laplace_scale(1.0, epsilon))
        return batched.step(state, base_key, released)

    return batched._replace(
        step=step,
        clip=None,
        privacy=one_release(epsilon, "Laplace mechanism on the sum of each batch"),
    )
