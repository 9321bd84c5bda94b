"""Sparse vector experts: keep an expert until a private comparison finds its loss too large."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import random as jr

from dpjax import noise, privacy
from dpjax.core import Arms, Array, Learner, Number, Privacy, PyTree, _check
from dpjax.feedback import full
from dpjax.learners.parts import selectors
from dpjax.maths import exact_sums


class SparseVectorState(NamedTuple):
    losses: PyTree  # ExactSum (K,) S
    arm: Array  # () int32, the current arm
    since: PyTree  # ExactSum () q, its losses since it was drawn
    armed: Array  # (2,) uint32, words of the key for the noise of the current threshold
    redrawn: Array  # () int32 k, number of draws after the first


class SparseVectorReport(NamedTuple):
    redrawn: Array  # () int32, draws after the first
    spent: Array  # () bool, whether no draws are left, so that the arm is kept for any losses


def draw_budget(horizon: int, arms: int) -> int:
    """M such that M fair coins show heads ln K / ln(8/5) times, except with probability 1 / T.

    By Hoeffding's inequality sqrt(M) = sqrt((ln T) / 2) + sqrt((ln T) / 2 + 2 N) is enough, with
    N = ln K / ln(8/5) + 1. M is rounded up, and is at most T.
    """
    half = 0.5 * math.log(horizon)
    heads = math.log(arms) / math.log(1.6) + 1.0
    return min(math.ceil((math.sqrt(half) + math.sqrt(half + 2.0 * heads)) ** 2), horizon)


def split(epsilon: Number, draws: Number):
    """(epsilon_1, gamma): one half for the comparisons, and 2 gamma for each draw."""
    return 0.5 * epsilon, 0.25 * epsilon / draws


def noise_width(horizon: int, scale: Number):
    """alpha = 2 b ln(2 T^2): bounds all 2 T draws of scale b by alpha / 2, with failure 1 / T."""
    return 2.0 * scale * (math.log(2.0) + 2.0 * math.log(horizon))


def default_threshold(horizon: int, epsilon: Number, draws: Number):
    """L = alpha + ln(4) / gamma: without noise, an arm above it has lost 3/4 of its weight."""
    comparisons, gamma = split(epsilon, draws)
    return noise_width(horizon, 1.0 / comparisons) + math.log(4.0) / gamma


def sparse_vector_experts(
    horizon: int,
    arms: int,
    *,
    epsilon: Number,
    threshold: Number | None = None,
    draws: int | None = None,
) -> Learner:
    """Play an expert until its loss exceeds a noisy threshold; one expert has no loss.

    Let S (K,) be the sums of the losses so far and q the loss of the current arm since it was
    drawn. The first arm is uniform. After each round, while fewer than M new arms were drawn,

        if q + Lap(b) > L + B, where B ~ Lap(b) is drawn once for each drawn arm:
            an arm is drawn from softmax(-gamma S), and q = 0.

    Here b = 2 / epsilon and gamma = epsilon / (4 M), so comparisons and draws each spend half of
    epsilon.

    Args:
      horizon: T, rounds.
      arms: K, at least 2.
      epsilon: privacy parameter; at inf the current arm is replaced at its first loss, by one of
        those with the smallest loss so far, and M = T.
      threshold: L, positive; default alpha + ln(4) / gamma, for which the regret bound holds, with
        alpha = 2 b ln(2 T^2). Privacy does not depend on it. Smaller values are often better.
      draws: M, at least 1; by default they run out with probability at most 1 / T.

    Returns:
      A Learner with full information that plays arms. It reports the draws, since regret is linear
      in T after they have run out.

    Privacy: epsilon-DP, pure, central, for replacement of one round. Released values: actions 1..T.
    A replaced round moves q by some c, |c| <= 1, in all later comparisons of one interval between
    draws, and in no earlier one. If q grows by c, all answers stay the same if the threshold is
    larger by c. If q falls by c, they stay the same if the noise on the last q is larger by c. So
    one of the two noise draws hides the change, and the comparisons cost 1 / b = epsilon / 2. The
    sparse vector technique for arbitrary queries needs both, with scales 2 / epsilon_1 and
    4 / epsilon_1 (Dwork & Roth 2014). Each of at most M draws costs 2 gamma, and has bounded range:
    rho = epsilon^2 / 8 + M gamma^2 / 2.

    Regret: at most 2 (2.13 ln K + 1) (2 alpha + ln(4) / gamma + 1) + 2 in expectation, for
    oblivious losses with a lossless expert. That is O(ln K (ln K + ln T) / epsilon). Proof: fix the
    noise, so that each expert has a time at which it would be replaced. Order the weight by these
    times. With probability 1/2 a drawn expert is in the later half. When it is replaced, the
    earlier half has fallen to a quarter, and the total weight to at most 5/8 of its value. It
    starts at K and never falls below 1. Each interval costs at most L + alpha + 1. No bound is
    claimed if every expert has losses.

    Reference: in the style of Asi, Feldman, Koren & Talwar, "Near-optimal algorithms for private
    online optimization in the realizable regime", 2023, as reconstructed, with our constants. Dwork
    & Roth, "The algorithmic foundations of differential privacy", 2014, Algorithm 1.

    Examples:
      >>> declared = learners.sparse_vector_experts(1000, 4, epsilon=1.0).privacy
      >>> float(declared.epsilon), declared.delta, round(float(declared.rho), 3)
      (1.0, 0.0, 0.126)
    """
    epsilon = jnp.asarray(epsilon, jnp.float32)
    most = draw_budget(horizon, arms) if draws is None else _check.size(1, draws=draws)
    comparisons, gamma = split(epsilon, float(most))
    level = default_threshold(horizon, epsilon, float(most)) if threshold is None else threshold
    level = jnp.asarray(level, jnp.float32)
    budget = jnp.where(jnp.isinf(epsilon), horizon, most) if draws is None else jnp.int32(most)

    def init(key):
        arm_key, armed = jr.split(key)
        none, zero = exact_sums.nothing((arms,)), jnp.zeros((), jnp.int32)
        arm = noise.categorical(arm_key, selectors.exponential(none, 2.0 * gamma))
        armed = jr.key_data(armed)
        return SparseVectorState(none, arm, exact_sums.nothing(), armed, zero), arm

    def step(state, key, loss):
        query_key, arm_key, fresh = jr.split(key, 3)
        losses = exact_sums.add(state.losses, exact_sums.of(loss))
        since = exact_sums.add(state.since, exact_sums.of(loss[state.arm]))
        q = exact_sums.to_float(since)
        lost = noise.exceeds(query_key, state.armed, level, q, 1.0 / comparisons)
        left = lost & (state.redrawn < budget)
        arm = noise.categorical(arm_key, selectors.exponential(losses, 2.0 * gamma))
        arm = jnp.where(left, arm, state.arm)
        since = jax.tree.map(lambda leaf: jnp.where(left, 0, leaf), since)
        armed = jnp.where(left, jr.key_data(fresh), state.armed)
        redrawn = state.redrawn + left.astype(jnp.int32)
        return SparseVectorState(losses, arm, since, armed, redrawn), arm

    def report(state):
        return SparseVectorReport(state.redrawn, state.redrawn >= budget)

    declared = Privacy(
        epsilon=comparisons + 2.0 * gamma * most,
        rho=0.5 * comparisons**2 + privacy.bounded_range_rho(2.0 * gamma, float(most)),
        accountant="sparse vector technique, and an exponential mechanism for each draw",
    )
    return Learner(init, step, full, Arms(arms), horizon, declared, report=report)
