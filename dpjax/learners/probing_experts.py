"""Probing experts: the private shrinking dartboard over experts, on estimates from few rounds."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import random as jr

from dpjax import noise
from dpjax.core import Array, Learner, Number, Policies, Privacy, _check
from dpjax.feedback import contextual
from dpjax.learners.parts import dartboard, probing
from dpjax.learners.parts.advised import Mixture, follow
from dpjax.maths import exact_sums


class ProbingExpertsState(NamedTuple):
    learned: Any  # ExactSum (N,) of E_ia l_a over the probes of all batches that are over
    batch: Any  # ExactSum (N,) of those of this batch
    round: Array  # () int32, of this batch
    probes: Array  # () bool, whether this round is a probe
    expert: Array  # () int32 I, the expert in play
    draws: Array  # () int32, experts drawn so far, the first one included
    refused: Array  # () int32


class ProbingExpertsReport(NamedTuple):
    resampled: Array  # () int32, draws after the first
    refused: Array  # () int32, draws that coins asked for after the budget ran out
    rate: Array  # () eta
    restart: Array  # () p
    batch: Array  # () B
    mixing: Array  # () gamma


def probing_experts(
    horizon: int, arms: int, experts: int, *, epsilon: Number, delta: Number | None = None
) -> Learner:
    """Follow one expert, probe a random arm now and then, and seldom draw another expert.

    Each round is a probe with probability gamma, and then plays a uniform arm. In any other round
    the arm is drawn from the advice E_I of the expert I in play. Only probes are learned from: with
    a of loss l_a, expert i is estimated to lose E_ia l_a K / gamma, whose mean is <E_i, l>. After
    every B rounds, with y the mean estimates (N,) of the batch and L the sum of all y,

        I is kept with probability (1 - p) exp(-eta y_I), and if M experts have been drawn;
        otherwise I is drawn anew from softmax(-eta L).

    It is the dartboard of Asi et al. 2023 on estimates. The first expert is uniform. Of n =
    floor(T / B) batches there may be at most M = floor(4 n p) draws. B, p and gamma are those of a
    grid whose regret bound is least, and eta is as large as epsilon allows, or smaller if that is
    better.

    Estimates from rounds that follow an expert would depend on it. The losses would be adaptive
    then, and the law of Hedge would be lost.

    Args:
      horizon: T, rounds.
      arms: K, at least 2.
      experts: N, at least 2.
      epsilon: privacy; inf has no budget of draws, and the grid's best eta.
      delta: in (0, 1); by default epsilon is pure.

    Returns:
      A Learner with contextual feedback. Its action is a policy, as that of
      :func:`dpjax.learners.exp4`. The report has the draws, those that were refused, and the
      parameters eta, p, B and gamma.

    Privacy: epsilon-DP, or (epsilon, delta)-DP given delta, central, for replacement of one round's
    losses; released: policies 1..T. Advice is public, and so are the coins and arms of probes. One
    loss is in one coin and at most M - 1 draws. It moves exponents by at most w = eta K / (gamma B)
    and all of them the same way, so that a draw has the log-ratio w. (For the dartboard itself it
    is 2 w, since a vector of losses may move some up and others down. It would be 2 w here if
    advice were replaced, too.) The epsilon is

        ln(1 + (1 - p) (1 - e^-w) / p) + (M - 1) w,

    or given delta that of Renyi divergences if that is smaller, as for
    :func:`dpjax.learners.shrinking_dartboard`.

    Regret: at most B ln N / eta + eta T (1 + K / (gamma B)) / 2 + gamma T + T P against the best
    expert, in expectation, for oblivious losses in [0, 1] and advice. P is a bound on the
    probability that draws run out (:func:`dpjax.bounds.probing_experts`). It grows as T^(2/3), also
    at epsilon = inf, where :func:`dpjax.learners.exp4` has sqrt(T). So probes pay if epsilon is
    small: for 16 experts, 4 arms and T = 2^18 the bound is below that of EXP4 if epsilon is below
    0.05, or below 0.13 at delta = 1e-6.

    Reference: Asi, Feldman, Koren & Talwar, "Private online prediction from experts: separations
    and faster rates", 2023, for the dartboard; the estimates and constants are ours.

    Examples:
      >>> learner = learners.probing_experts(2**14, 4, 16, epsilon=0.1, delta=1e-6)
      >>> learner.privacy.model, learner.action_set
      ('central', Policies(dim=16, arms=4))
    """
    horizon, arms = _check.size(1, horizon=horizon), _check.arms(arms)
    experts = _check.size(2, experts=experts)
    epsilon = jnp.asarray(_check.epsilon(epsilon), jnp.float32)
    if delta is not None:
        _check.delta(delta)
    setting = probing.best_setting(horizon, arms, experts, epsilon, delta)
    w, p, budget, size, gamma = setting

    def act(key, state):
        probe_key, arm_key = jr.split(key)
        probes = jr.uniform(probe_key) < gamma
        own = jnp.where(jnp.arange(experts) == state.expert, 1.0, 0.0)
        mixture = Mixture(own, jnp.where(probes, 1.0, 0.0), jr.uniform(arm_key))
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
        # eta y_I = w times the batch's sum, of which a coin reads 1 - (1 - p) exp(-eta y_I).
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

    thrown = probing.throws(setting)
    declared = Privacy(
        epsilon=dartboard.derived_epsilon(thrown, delta, spread=1.0),
        delta=0.0 if delta is None else delta,
        rho=dartboard.rho(thrown, spread=1.0),
        unit="entry",
        released="policies 1..T",
        accountant="one coin and M - 1 draws: the sum of their log-ratios"
        + ("" if delta is None else ", or their Renyi divergences if smaller"),
    )
    return Learner(init, step, contextual, Policies(experts, arms), horizon, declared, report)
