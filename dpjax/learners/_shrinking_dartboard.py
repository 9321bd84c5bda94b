"""The private shrinking dartboard: Hedge that rarely draws a new arm."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import random as jr

from dpjax import noise
from dpjax.core import Arms, Array, Batch, BatchLearner, Learner, Number, PyTree, _check
from dpjax.feedback import full
from dpjax.learners.parts import dartboard
from dpjax.learners.parts.fixed_share import jump, share_for, shared
from dpjax.maths import exact_sums
from dpjax.maths.exact_sums import ExactSum
from dpjax.privacy.printed import Calibration, is_printed, stated


class ShrinkingDartboardState(NamedTuple):
    learned: PyTree  # ExactSum (K,) L, the losses; with shifts, minus a correction for sharing, so
    # that the law of the next arm still has the weights (1 - eta)^L
    arm: Array  # () int32, the current arm
    draws: Array  # () int32, k: arms drawn so far, including the first
    refused: Array  # () int32


class ShrinkingDartboardReport(NamedTuple):
    resampled: Array  # () int32, draws after the first, including a last one that is never played
    refused: Array  # () int32, draws called for by coins after the budget ran out; 0 if M = 1


class BatchedDartboardReport(NamedTuple):
    resampled: Array  # () int32, draws after the first, including a last one that is never played
    refused: Array  # () int32, draws called for by coins after the budget ran out; 0 if M = 1
    batch: Array  # () int32, rounds in a batch


def log_base(rate: Number, batch: Number = 1):
    """ln (1 - eta) / B."""
    return jnp.log1p(-rate) / batch


def logits(losses: ExactSum, rate: Number, batch: Number = 1):
    """ln w of the weights w = (1 - eta)^(L / B), up to a constant."""
    return log_base(rate, batch) * exact_sums.excess(losses)


def shrinking_dartboard(
    horizon: int,
    arms: int,
    *,
    epsilon: Number,
    delta: Number | None = None,
    rate: Number | None = None,
    restart: Number | None = None,
    calibration: Calibration = "derived",
    batch: int | None = 1,
    shifts: Number = 0,
) -> Learner | BatchLearner:
    """The private shrinking dartboard: the law of Hedge, with few draws of a new arm.

    Let L (K,) be the sums of the losses so far and w = (1 - eta)^L the weights. The first arm is
    uniform. After a round with losses l the arm x

        is kept with probability (1 - p) (1 - eta)^(l_x), and always after M arms were drawn;
        otherwise a new arm is drawn from P = w / sum w.

    Until the budget of M = floor(4 T p) draws is spent, the arm of each round has Hedge's law P.
    With batches of B rounds the same is done after each batch, with mean losses L / B and l, and
    with n = floor(T / B) instead of T. One round then moves a mean by only 1 / B.

    With S shifts, P is the law of fixed share: (1 - alpha) w / sum w + alpha / K, with w the
    previous P times (1 - eta)^l. A kept arm x jumps to a uniform arm with probability
    alpha = S / (n - 1). Again each arm has the law P.

    Args:
      horizon: T, rounds.
      arms: K, at least 2.
      epsilon: target epsilon for the choice of eta; inf gives Hedge's law throughout, without a
        budget.
      delta: in (0, 1); by default privacy is pure.
      rate: the largest eta, in (0, 1/2]; default sqrt(B D / T). D is ln K, or with shifts ln K + S
        ln(K / alpha) - (n - 1 - S) ln(1 - alpha + alpha / K). The arms have the law of Hedge, and
        the regret bound of Hedge is smallest at the rate 1 - exp(-sqrt(8 ln K / T)). For large T
        this is 2.8 times the default.
      restart: p, in (0, 1/2], raised to eta if it is smaller. The default is 1 / sqrt(8 n), which
        is best for small eta. If delta is given, it is n^(-1/3) / 3, which was found by a search.
        With calibration="printed" it is the paper's.
      calibration: "derived" or "printed", how eta and p follow from epsilon and delta.
      batch: B, in [1, T]. None selects the B among 1, 2, 3, 4, 6, 8, 12, ... with the smallest
        regret bound, or with calibration="printed" the paper's.
      shifts: S, at least 0, how often the best arm may change; may be traced. It must be 0 with
        calibration="printed".

    Returns:
      A Learner with full information that plays arms; for any batch other than 1 a BatchLearner.

    Privacy: epsilon-DP, or (epsilon, delta)-DP if delta is given, central, for replacement of one
    round. Released values: actions 1..T. In both calibrations the declaration counts exactly the
    releases that one round affects: one coin and at most M - 1 draws. With
    w = ln(1 / (1 - eta)) / B, epsilon is

        max(w, ln(1 + (1 - p) (1 - e^-w) / p)) + 2 (M - 1) w,    0 if M = 1,

    or, if delta is given, the epsilon from Renyi divergences if that is smaller. The divergences of
    the coin, which rarely calls for a draw, are exact, and those of the draws follow from zCDP.
    Coin and draws are adaptive releases, so their divergences add up (our derivation). Shifts do
    not change this: the jumps of a kept arm do not depend on data. P is the posterior over
    sequences of arms, and one round moves the exponents of this posterior by at most w. The paper
    states eta / p + 16 T p eta, or, if delta is given,
    5 eta / p + 100 T p eta^2 + 20 eta sqrt(T p ln(1/delta)). Its corollaries set eta and p for
    epsilon <= 1. "derived" uses the largest eta up to ``rate``. At T = 2^16 and epsilon = 0.1 it is
    3.6 times the printed one, and 16.4 times with delta = 1e-6. At epsilon = inf the declared
    epsilon is that of the learner's own coin and draws.

    Regret: at most eta T + B D / eta + S B / 2 + 2 T exp(-n p / 3) in expectation, for oblivious
    losses, eta <= p, and a best sequence of arms with S shifts. For small epsilon, without batches
    and shifts, this is about sqrt(32 T) ln K / epsilon. At delta = 1e-6 it is about
    sqrt(2 ln(1/delta)) T^(1/3) ln K / epsilon. With the best batch it is at most (4 ln K + 1/2)
    sqrt(T / epsilon) plus the last term, since B = 2 / epsilon has this bound.

    Differences from the paper: eta <= p is missing among its hypotheses, though Lemma 14 requires
    that a draw has a probability of at most 2 p. It does not state what is played after the budget
    is spent; we keep the arm. Its batch sums have B + 1 rounds, and ours have B. Theorem 5
    has a factor of 12 under the root that the proof of Corollary 6 omits. Corollary 6 does not
    choose the batch that is best for Theorem 5, and the paper has no batches for pure epsilon.

    Reference: Asi, Feldman, Koren & Talwar, "Private online prediction from experts: separations
    and faster rates", 2023, Algorithm 1, Theorems 2 and 5; Geulen, Voecking & Winkler, "Regret
    minimization for online buffering problems using the weighted majority algorithm", 2010, for
    the dartboard; Herbster & Warmuth, "Tracking the best expert", 1998, for fixed share.

    Examples:
      >>> learner = learners.shrinking_dartboard(1000, 4, epsilon=1.0)
      >>> learner.privacy.delta, learner.privacy.accountant
      (0.0, 'one coin and M - 1 draws: the sum of their log-ratios')
    """
    setting, size, declared = _calibrated(
        horizon, arms, epsilon, delta, rate, restart, calibration, batch, shifts
    )
    eta, p, budget = setting
    single, static = batch == 1, isinstance(shifts, int) and shifts == 0
    alpha = share_for(dartboard.steps(horizon, size), shifts)

    def learn(learned, total):
        learned = exact_sums.add(learned, total)
        return learned if static else shared(learned, -log_base(eta, size), alpha)

    def played(arm):
        return arm if single else Batch(arm, jnp.asarray(size, jnp.int32))

    def init(key):
        zero = jnp.zeros((), jnp.int32)
        learned = exact_sums.nothing((arms,))
        arm = noise.categorical(key, logits(learned, eta, size))
        return ShrinkingDartboardState(learned, arm, zero + 1, zero), played(arm)

    def step(state, key, seen):
        coin_key, arm_key = jr.split(key)
        if single:
            mean, total = seen, exact_sums.of(seen)
        else:
            mean, total = exact_sums.mean(seen, size), seen
        learned = learn(state.learned, total)
        # 1 - (1 - p) (1 - eta)^l; only the second part depends on data.
        moved = -jnp.expm1(jnp.log1p(-eta) * mean[state.arm])
        # If M = 1 no coin can change the arm, so none is counted.
        asked = noise.coin(coin_key, jnp.stack([p, (1.0 - p) * moved])) & (budget > 1)
        granted = asked & (state.draws < budget)
        law = logits(learned, eta, size)
        if static:
            arm = jnp.where(granted, noise.categorical(arm_key, law), state.arm)
        else:
            # A kept arm jumps with its data-independent law.
            law = jnp.where(granted, law, jump(state.arm, arms, alpha))
            arm = noise.categorical(arm_key, law)
        draws = state.draws + granted.astype(jnp.int32)
        refused = state.refused + (asked & ~granted).astype(jnp.int32)
        return ShrinkingDartboardState(learned, arm, draws, refused), played(arm)

    def report(state):
        if single:
            return ShrinkingDartboardReport(state.draws - 1, state.refused)
        size_now = jnp.asarray(size, jnp.int32)
        return BatchedDartboardReport(state.draws - 1, state.refused, size_now)

    kind = Learner if single else BatchLearner
    return kind(init, step, full, Arms(arms), horizon, declared, report)


def _calibrated(horizon, arms, epsilon, delta, rate, restart, calibration, batch, shifts):
    """(Setting, B, Privacy) from the arguments; raises if they are invalid."""
    epsilon = jnp.asarray(epsilon, jnp.float32)
    _check.positive(**_check.specified(rate=rate, restart=restart))
    _check.between(0.0, 0.5, **_check.specified(rate=rate, restart=restart))
    printed = is_printed(calibration)
    _check.non_negative(shifts=shifts)
    if batch is not None:
        batch = _check.size(1, batch=batch)
        if batch > horizon:
            raise ValueError(f"batch must be at most the horizon of {horizon}, got {batch}")
    game = (horizon, arms, epsilon, delta)
    size: Any = batch if batch in (1, None) else jnp.float32(batch)
    if printed:
        _check.between(0.0, 0.0, shifts=shifts)
        if delta is None and batch != 1:
            raise ValueError(
                "batch must be 1 for a printed calibration without delta: the paper has no other"
            )
        size = dartboard.printed_batch(*game) if batch is None else size
        setting = dartboard.printed_setting(*game, rate, restart, size)
    elif batch is None:
        setting, size = dartboard.best_setting(*game, rate, restart, shifts)
    else:
        static = isinstance(shifts, int) and shifts == 0
        if rate is None and not (static and batch == 1):
            rate = dartboard.batch_rate(horizon, arms, batch, shifts)
        setting = dartboard.derived_setting(*game, rate, restart, size)
    paper = dartboard.printed_epsilon(horizon, setting, delta, size)
    paper = jnp.where(jnp.isinf(epsilon), jnp.inf, paper)
    return setting, size, stated(dartboard.declared(setting, delta, size), calibration, paper)
