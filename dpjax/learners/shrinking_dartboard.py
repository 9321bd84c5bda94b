"""The private shrinking dartboard: Hedge that draws a new arm only now and then."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax import random as jr

from dpjax import _check, noise, privacy
from dpjax.core import Arms, Array, Learner, Number, Privacy
from dpjax.feedback import full
from dpjax.learners.parts.arm_sums import check_arms
from dpjax.maths import exact_sums
from dpjax.maths.clipping import clip_loss
from dpjax.maths.exact_sums import ExactSum


class ShrinkingDartboardState(NamedTuple):
    losses: ExactSum  # (K,) L
    arm: Array  # () int32, the arm in play
    draws: Array  # () int32, k: arms drawn so far, the first one included
    refused: Array  # () int32
    clipped: Array  # () int32, losses seen outside [0, 1]


class ShrinkingDartboardReport(NamedTuple):
    resampled: Array  # () int32, draws after the first, with a last one that is never played
    refused: Array  # () int32, draws that the coins asked for after the budget had run out
    clipped: Array  # () int32, losses that were outside [0, 1] and were clipped


class Setting(NamedTuple):
    """The parameters of the algorithm, which follow from the declared privacy."""

    rate: Array  # () eta, at most 1/2; a loss of 1 multiplies a weight by 1 - eta
    restart: Array  # () p, at most 1/2, the least probability of a draw in a round
    budget: Array  # () int32 B, how many arms may be drawn, the first one included


def default_rate(horizon, arms):
    """eta = sqrt(ln K / T), which minimizes eta T + ln K / eta; at most 1/2."""
    return min(float(np.sqrt(np.log(arms) / horizon)), 0.5)


def pure_restart(horizon) -> float:
    """p = 1 / sqrt(8 T) minimizes eta / p + 8 T p eta, :func:`pure_epsilon` for small eta."""
    return 1.0 / float(np.sqrt(8.0 * horizon))


def zcdp_restart(horizon) -> float:
    """p = T^(-1/3) / 2 minimizes eta^2 / (8 p^2) + 2 T p eta^2, :func:`rho` for small eta."""
    return 0.5 / float(np.cbrt(horizon))


def switch_budget(horizon, restart):
    """B = floor(4 T p), between 1 and T. A budget of T draws is no restriction."""
    return jnp.clip(jnp.floor(4.0 * horizon * restart), 1.0, horizon).astype(jnp.int32)


def coin_log_ratios(setting):
    """Log-likelihood ratios of one coin between losses 1 and 0: of a draw, and minus that of none.

    At loss l a draw has probability 1 - (1 - p) (1 - eta)^l, which lies between p and
    p + (1 - p) eta.
    """
    rate, restart = setting.rate, setting.restart
    return jnp.log1p((1.0 - restart) * rate / restart), -jnp.log1p(-rate)


def pure_epsilon(setting):
    """ln(1 + (1 - p) eta / p) + 2 (B - 1) ln(1 / (1 - eta)). It is 0 for B = 1.

    A replaced round s enters the coin of round s + 1, with the loss of the arm in play. Through the
    weights it also enters every draw from then on, of which there are at most B - 1. All other
    coins read other rounds. A coin that the budget overrules is not seen. An exponent changes by at
    most ln(1 / (1 - eta)), up or down, and so the log-ratio of a draw by at most twice that. (To
    keep the arm has the log-ratio ln(1 / (1 - eta)), which is the larger one of the coin where p
    and eta are near 1/2.)
    """
    leave, keep = coin_log_ratios(setting)
    later = 2.0 * (setting.budget - 1).astype(jnp.float32) * keep
    return jnp.where(setting.budget > 1, jnp.maximum(leave, keep) + later, 0.0)


def rho(setting):
    """rho of one coin and B - 1 draws, each of which has bounded range."""
    leave, keep = coin_log_ratios(setting)
    coin = privacy.bounded_range_rho(leave + keep)
    later = privacy.bounded_range_rho(2.0 * keep, (setting.budget - 1).astype(jnp.float32))
    return jnp.where(setting.budget > 1, coin + later, 0.0)


def derived_epsilon(setting, delta):
    """:func:`pure_epsilon`, or given delta the smaller of that and the epsilon of zCDP."""
    pure = pure_epsilon(setting)
    return pure if delta is None else jnp.minimum(pure, privacy.zcdp_epsilon(rho(setting), delta))


# It is compiled once for all epsilons and deltas. A bare loop would be compiled in each call.
@partial(jax.jit, static_argnums=(0, 1))
def derived_setting(horizon, arms, epsilon, delta, rate=None, restart=None) -> Setting:
    """The largest eta, of at most ``rate``, whose :func:`derived_epsilon` is within epsilon.

    ``rate`` is sqrt(ln K / T) by default. p is ``restart``, by default the one that is best for
    small eta, and at least eta, which the regret bound needs. At epsilon = inf there is no budget.
    ln eta is found by bisection, since an epsilon of 1e-9 asks for an eta of 1e-15.
    """
    largest = jnp.asarray(default_rate(horizon, arms) if rate is None else rate, jnp.float32)
    least_restart: Number = pure_restart(horizon) if delta is None else zcdp_restart(horizon)
    if restart is not None:
        least_restart = jnp.asarray(restart, jnp.float32)

    def at_rate(rate):
        restart = jnp.maximum(rate, least_restart)
        budget = jnp.where(jnp.isinf(epsilon), horizon, switch_budget(horizon, restart))
        return Setting(rate, restart, budget)

    def is_private(rate):
        return derived_epsilon(at_rate(rate), delta) <= epsilon

    def bisect(_, ends):
        low, high = ends
        middle = jnp.sqrt(low) * jnp.sqrt(high)
        private = is_private(middle)
        return jnp.where(private, middle, low), jnp.where(private, high, middle)

    # This end is private, as 1 / p and B are at most 4 T and ln(1 / (1 - eta)) <= 2 eta ln 2.
    low = jnp.minimum(largest, epsilon / (16.0 * horizon))
    if restart is not None:  # Then 1 / p has no such limit.
        low = jnp.minimum(low, 0.25 * epsilon * least_restart)
    low, _ = lax.fori_loop(0, 40, bisect, (low, largest))
    return at_rate(jnp.where(is_private(largest), largest, low))


def printed_setting(horizon, arms, epsilon, delta, rate=None, restart=None) -> Setting:
    """The parameters of the paper's corollaries, for epsilon <= 1, as reconstructed.

    Without delta p = T^(-1/2) and eta = p epsilon / 20. Given delta, p = (T ln(1/delta))^(-1/3) and
    eta = p epsilon_0 / 20 with

        epsilon_0 = min(epsilon / 2, ln^(1/3)(1/delta) T^(-1/6) sqrt(ln K)).

    p is cut at 1/2 and eta at p. A ``restart`` that is given takes the place of p. At epsilon = inf
    the setting is the derived one.
    """
    if delta is None:
        p, base = jnp.asarray(horizon**-0.5, jnp.float32), epsilon
    else:
        log_term = jnp.cbrt(jnp.log(1.0 / jnp.asarray(delta, jnp.float32)))
        p = 1.0 / (np.cbrt(horizon).astype(np.float32) * log_term)
        useful = log_term * float(horizon ** (-1 / 6) * np.sqrt(np.log(arms)))
        base = jnp.minimum(epsilon / 2.0, useful)
    p = jnp.minimum(p, 0.5) if restart is None else jnp.asarray(restart, jnp.float32)
    eta = jnp.minimum(p * base / 20.0, p)
    printed = Setting(eta, p, switch_budget(horizon, p))
    plain = derived_setting(horizon, arms, epsilon, delta, rate, restart)
    return jax.tree.map(lambda x, y: jnp.where(jnp.isinf(epsilon), x, y), plain, printed)


def printed_epsilon(horizon, setting, delta):
    """The epsilon that the paper states for a setting, as reconstructed.

    It is eta / p + 16 T p eta, or given delta
    5 eta / p + 100 T p eta^2 + 20 eta sqrt(T p ln(1/delta)).
    """
    rate, restart, _ = setting
    if delta is None:
        return rate / restart + 16.0 * horizon * restart * rate
    root = jnp.sqrt(horizon * restart * jnp.log(1.0 / jnp.asarray(delta, jnp.float32)))
    square = 100.0 * horizon * restart * rate**2
    return 5.0 * rate / restart + square + 20.0 * rate * root


def probabilities(losses, rate):
    """P = w / sum w with weights w = (1 - eta)^L."""
    weights = jnp.exp(jnp.log1p(-rate) * exact_sums.excess(losses))
    return weights / jnp.sum(weights)


def shrinking_dartboard(
    horizon: int,
    arms: int,
    *,
    epsilon: Number,
    delta: Number | None = None,
    rate: Number | None = None,
    restart: Number | None = None,
    calibration: str = "derived",
) -> Learner:
    """The private shrinking dartboard: Hedge's law, but it seldom draws a new arm.

    Let L (K,) be the sums of the losses so far and w = (1 - eta)^L the weights. The first arm is
    uniform. After a round with losses l the arm x

        is kept with probability (1 - p) (1 - eta)^(l_x), and if B arms have been drawn;
        otherwise an arm is drawn anew from P = w / sum w.

    As long as the budget of B = floor(4 T p) draws lasts, the arm of each round has the law P of
    Hedge.

    Args:
      horizon: T, rounds.
      arms: K, at least 2.
      epsilon: privacy to reach by the choice of eta; inf gives Hedge's law throughout, without a
        budget.
      delta: in (0, 1); by default epsilon is pure.
      rate: the largest eta, in (0, 1/2]; default sqrt(ln K / T). The regret bound of Hedge itself,
        whose law the arms have, is least at 1 - exp(-sqrt(8 ln K / T)), which is 2.8 times as much
        for large T.
      restart: p, in (0, 1/2], raised to eta where it is below that; default 1 / sqrt(8 T), or given
        delta T^(-1/3) / 2. Either is best for small eta. With calibration="printed" the default is
        the paper's.
      calibration: "derived" or "printed", how eta and p follow from epsilon and delta.

    Returns:
      A Learner with full information that plays arms. Losses outside [0, 1] are clipped and
      counted.

    Privacy: epsilon-DP, or (epsilon, delta)-DP given delta, central, for replacement of one round,
    released: actions 1..T. What is declared in both calibrations counts exactly what one round
    enters, which is one coin and at most B - 1 draws. It is

        ln(1 + (1 - p) eta / p) + 2 (B - 1) ln(1 / (1 - eta)),

    or given delta the epsilon of zCDP where that is smaller. The paper, as reconstructed, states
    eta / p + 16 T p eta, or 5 eta / p + 100 T p eta^2 + 20 eta sqrt(T p ln(1/delta)), and its
    corollaries set eta and p for epsilon <= 1 (:func:`printed_setting`). "derived" takes the
    largest eta up to ``rate``. At T = 2^16 and epsilon = 0.1 it is 3.6 times the printed one, and
    10.6 times given delta = 1e-6. At epsilon = inf the declaration is what the law has by itself.

    Regret: at most eta T + ln K / eta + 2 T exp(-T p / 3) in expectation, for oblivious losses and
    eta <= p. For small epsilon that is about sqrt(32 T) ln K / epsilon, or given delta
    sqrt(6 ln(1/delta)) T^(1/3) ln K / epsilon.

    Reference: Asi, Feldman, Koren & Talwar, "Private online prediction from experts: separations
    and faster rates", 2023, Algorithm 1, as reconstructed; Geulen, Voecking & Winkler, "Regret
    minimization for online buffering problems using the weighted majority algorithm", 2010, for
    the dartboard.
    """
    horizon, arms = check_arms(horizon, arms)
    epsilon = jnp.asarray(_check.epsilon(epsilon), jnp.float32)
    if delta is not None:
        _check.delta(delta)
    _check.positive(**_check.given(rate=rate, restart=restart))
    _check.between(0.0, 0.5, **_check.given(rate=rate, restart=restart))
    _check.one_of("derived", "printed", calibration=calibration)
    setting = derived_setting(horizon, arms, epsilon, delta, rate, restart)
    declared = Privacy(
        epsilon=derived_epsilon(setting, delta),
        delta=0.0 if delta is None else delta,
        rho=rho(setting),
        accountant="one coin and B - 1 draws: the sum of their log-ratios"
        + ("" if delta is None else ", or their zCDP where smaller"),
    )
    if calibration == "printed":
        setting = printed_setting(horizon, arms, epsilon, delta, rate, restart)
        formula = printed_epsilon(horizon, setting, delta)
        declared = declared._replace(
            epsilon=derived_epsilon(setting, delta),
            rho=rho(setting),
            calibration="printed",
            paper_epsilon=jnp.where(jnp.isinf(epsilon), jnp.inf, formula),
        )
    eta, p, budget = setting

    def init(key):
        zero = jnp.zeros((), jnp.int32)
        losses = exact_sums.nothing((arms,))
        arm = noise.choose(key, probabilities(losses, eta))
        return ShrinkingDartboardState(losses, arm, zero + 1, zero, zero), arm

    def step(state, key, loss):
        coin_key, arm_key = jr.split(key)
        inside, clipped = clip_loss(loss, state.clipped)
        losses = exact_sums.add(state.losses, exact_sums.of(inside))
        keep = (1.0 - p) * jnp.exp(jnp.log1p(-eta) * inside[state.arm])
        asked = ~noise.coin(coin_key, keep)
        granted = asked & (state.draws < budget)
        arm = noise.choose(arm_key, probabilities(losses, eta))
        arm = jnp.where(granted, arm, state.arm)
        draws = state.draws + granted.astype(jnp.int32)
        refused = state.refused + (asked & ~granted).astype(jnp.int32)
        return ShrinkingDartboardState(losses, arm, draws, refused, clipped), arm

    def report(state):
        return ShrinkingDartboardReport(state.draws - 1, state.refused, state.clipped)

    return Learner(
        init=init,
        step=step,
        feedback=full,
        action_set=Arms(arms),
        horizon=horizon,
        privacy=declared,
        report=report,
    )
