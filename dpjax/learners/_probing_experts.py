"""Probing experts: the private shrinking dartboard over experts, on estimates from few probes."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import random as jr

from dpjax import noise
from dpjax.core import Array, Learner, Number, Policies, PyTree
from dpjax.feedback import contextual
from dpjax.learners.parts import dartboard, probing
from dpjax.learners.parts.advised import Mixture, follow
from dpjax.maths import exact_sums


class ProbingExpertsState(NamedTuple):
    learned: PyTree  # ExactSum (N,) of E_ia l_a over the probes of all complete batches
    batch: PyTree  # ExactSum (N,) of E_ia l_a over the probes of the current batch
    round: Array  # () int32, complete rounds of the current batch
    probes: Array  # () bool, whether this round is a probe
    expert: Array  # () int32 I, the current expert
    draws: Array  # () int32, experts drawn so far, including the first
    refused: Array  # () int32


class ProbingExpertsReport(NamedTuple):
    resampled: Array  # () int32, draws after the first
    refused: Array  # () int32, draws called for by coins after the budget ran out
    rate: Array  # () eta
    restart: Array  # () p
    batch: Array  # () B
    mixing: Array  # () gamma


def probing_experts(
    horizon: int, arms: int, experts: int, *, epsilon: Number, delta: Number | None = None
) -> Learner:
    """Follow one expert, occasionally probe a random arm, and rarely draw another expert.

    With probability gamma a round is a probe, which plays a uniform arm. Any other round draws the
    arm from the advice E_I of the current expert I. Only probes are used for learning: if a probe
    of arm a has loss l_a, the loss of expert i is estimated by E_ia l_a K / gamma, whose mean is
    <E_i, l>. Let y (N,) be the mean estimates of a batch of B rounds, and L the sum of all y so
    far. After the batch,

        I is kept with probability (1 - p) exp(-eta y_I), and always after M experts were drawn;
        otherwise I is drawn anew from softmax(-eta L).

    This is the dartboard of Asi et al. 2023 on estimates. The first expert is uniform. In
    n = floor(T / B) batches at most M = floor(4 n p) experts are drawn. B, p and gamma minimize the
    regret bound over a grid. eta is the largest that epsilon allows, or smaller if that is better.

    Estimates from rounds that follow an expert would depend on this expert. The losses would then
    be adaptive, and the experts would no longer have the law of Hedge.

    Args:
      horizon: T, rounds.
      arms: K, at least 2.
      experts: N, at least 2.
      epsilon: privacy parameter; inf limits neither the draws nor eta.
      delta: in (0, 1); by default privacy is pure.

    Returns:
      A Learner with contextual feedback. Its action is a policy, like that of
      :func:`dpjax.learners.exp4`. The report contains the numbers of draws and of refused draws,
      and the parameters eta, p, B and gamma.

    Privacy: epsilon-DP, or (epsilon, delta)-DP if delta is given, central, for replacement of one
    round's losses. Released values: policies 1..T. Advice is public, and so are the coins and arms
    of probes. One loss enters one coin and at most M - 1 draws. It moves all exponents in the same
    direction, by at most w = eta K / (gamma B), so the log-ratio of a draw is at most w. (For the
    dartboard itself it is 2 w, since a vector of losses may move some exponents up and others down.
    Here it would also be 2 w if advice were replaced, too.) The epsilon is

        max(w, ln(1 + (1 - p) (1 - e^-w) / p)) + (M - 1) w,    0 if M = 1,

    or, if delta is given, the epsilon from Renyi divergences if that is smaller, as for
    :func:`dpjax.learners.shrinking_dartboard`.

    Regret: at most B ln N / eta + eta T (1 + K / (gamma B)) / 2 + gamma T + T P against the best
    expert, in expectation, for oblivious losses in [0, 1] and advice. P is a bound on the
    probability that draws run out (:func:`dpjax.bounds.probing_experts`). The bound grows as
    T^(2/3), even at epsilon = inf, where that of :func:`dpjax.learners.exp4` grows as sqrt(T). So
    probes pay only if epsilon is small. For 16 experts, 4 arms and T = 2^18 the bound is below that
    of EXP4 if epsilon is below 0.05, or below 0.13 at delta = 1e-6.

    Reference: Asi, Feldman, Koren & Talwar, "Private online prediction from experts: separations
    and faster rates", 2023, for the dartboard; the estimates and constants are ours.

    Examples:
      >>> learner = learners.probing_experts(2**14, 4, 16, epsilon=0.1, delta=1e-6)
      >>> learner.privacy.model, learner.action_set
      ('central', Policies(dim=16, arms=4))
    """
    epsilon = jnp.asarray(epsilon, jnp.float32)
    setting = probing.best_setting(horizon, arms, experts, epsilon, delta)
    w, p, budget, size, gamma = setting

    def act(key, state):
        probe_key, arm_key = jr.split(key)
        probes = jr.uniform(probe_key) < gamma
        one_hot = jnp.where(jnp.arange(experts) == state.expert, 1.0, 0.0)
        mixture = Mixture(one_hot, jnp.where(probes, 1.0, 0.0), jr.uniform(arm_key))
        return state._replace(probes=probes), jax.tree_util.Partial(follow, mixture)

    def init(key):
        expert_key, act_key = jr.split(key)
        zero, none = jnp.zeros((), jnp.int32), exact_sums.nothing((experts,))
        expert = noise.categorical(expert_key, jnp.zeros(experts, jnp.float32))
        state = ProbingExpertsState(none, none, zero, jnp.bool(False), expert, zero + 1, zero)
        return act(act_key, state)

    def step(state, key, seen):
        coin_key, draw_key, act_key = jr.split(key, 3)
        advised, loss = seen  # E_ia of all experts for the arm a, (N,), and its loss
        lost = jnp.where(state.probes, jnp.clip(advised, 0.0, 1.0) * loss, 0.0)
        batch = exact_sums.add(state.batch, exact_sums.of(lost))
        over = state.round + 1 >= size.astype(jnp.int32)
        now = jax.tree.map(lambda leaf: jnp.where(over, leaf, 0), batch)
        learned = exact_sums.add(state.learned, now)
        # eta y_I is w times the batch's sum. The coin calls for a draw with probability
        # 1 - (1 - p) exp(-eta y_I).
        moved = -jnp.expm1(-w * exact_sums.to_float(now)[state.expert])
        coin = noise.coin(coin_key, jnp.stack([p, (1.0 - p) * moved]))
        asked = coin & over & (budget > 1)
        granted = asked & (state.draws < budget)
        drawn = noise.categorical(draw_key, -w * exact_sums.excess(learned))
        return act(act_key, ProbingExpertsState(
            learned,
            jax.tree.map(lambda leaf: jnp.where(over, 0, leaf), batch),
            jnp.where(over, 0, state.round + 1),
            state.probes,
            jnp.where(granted, drawn, state.expert),
            state.draws + granted.astype(jnp.int32),
            state.refused + (asked & ~granted).astype(jnp.int32),
        ))  # fmt: skip

    def report(state):
        eta = probing.rate(arms, setting)
        return ProbingExpertsReport(state.draws - 1, state.refused, eta, p, size, gamma)

    declared = dartboard.declared(probing.throws(setting), delta, spread=1.0)
    declared = declared._replace(unit="entry", released="policies 1..T")
    return Learner(init, step, contextual, Policies(experts, arms), horizon, declared, report)
