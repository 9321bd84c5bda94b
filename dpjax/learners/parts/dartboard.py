"""The parameters of the shrinking dartboard, and the privacy loss of its arms.

Rounds may be grouped in batches of B. A step of the algorithm then reads the mean loss of a batch,
which one round moves by at most 1 / B. There are n = floor(T / B) steps.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dpjax import privacy
from dpjax.core import Array, Number, Privacy
from dpjax.learners.parts.fixed_share import complexity, share_for
from dpjax.maths import quotients


class Setting(NamedTuple):
    """The parameters of the algorithm, which follow from the declared privacy."""

    rate: Array  # () eta, at most 1/2; a loss of 1 multiplies a weight by 1 - eta
    restart: Array  # () p, at most 1/2, the smallest probability of a draw in a step
    budget: Array  # () int32 M, number of arms that may be drawn, including the first


def default_rate(horizon: int, arms: int):
    """eta = sqrt(ln K / T), which minimizes eta T + ln K / eta; at most 1/2."""
    return min(float(np.sqrt(np.log(arms) / horizon)), 0.5)


def batch_rate(horizon: int, arms: int, batch: Number, shifts: Number):
    """eta = sqrt(B D / T), which minimizes eta T + B D / eta; at most 1/2.

    D is ln K, or with shifts the :func:`complexity` of n steps.
    """
    return jnp.minimum(jnp.sqrt(batch * _complexity(horizon, arms, batch, shifts) / horizon), 0.5)


def best_restart(horizon: int, batch: Number, delta: Number | None):
    """The p that is best for small eta, with n = T / B; at most 1/2.

    Without delta it is 1 / sqrt(8 n), which minimizes eta / p + 8 n p eta (:func:`pure_epsilon`).
    With delta it is n^(-1/3) / 3, which was found by a search over p for :func:`derived_epsilon`,
    at epsilon = 0.1 and 1. The regret bound is within 1 % of the best for T in [2^12, 2^22].
    """
    if delta is None:
        return jnp.minimum(1.0 / float(np.sqrt(8.0 * horizon)) * batch**0.5, 0.5)
    return jnp.minimum(1.0 / (3.0 * float(np.cbrt(horizon))) * batch ** (1.0 / 3.0), 0.5)


def steps(horizon: Number, batch: Number):
    """n = floor(T / B), the number of batches that are read."""
    return quotients.whole(horizon, batch)[0].astype(jnp.float32)


def switch_budget(horizon: int, restart: Number, batch: Number = 1):
    """M = floor(4 n p), at least 1; if it reaches the number of batches, draws are unlimited."""
    _, begun = quotients.whole(horizon, batch)
    wanted = jnp.floor(4.0 * steps(horizon, batch) * restart)
    return jnp.clip(wanted, 1.0, begun.astype(jnp.float32)).astype(jnp.int32)


def coin_log_ratios(setting: Setting, batch: Number = 1):
    """Log-ratios of a coin at mean losses 1 / B and 0: of a draw, and minus that of no draw.

    At mean loss l a draw has probability 1 - (1 - p) (1 - eta)^l. A round moves l by at most 1 / B,
    and the ratio of a draw is largest at l = 0.
    """
    rate, restart = setting.rate, setting.restart
    keep = -jnp.log1p(-rate) / batch
    moved = jnp.where(batch == 1, rate, -jnp.expm1(-keep))
    return jnp.log1p((1.0 - restart) * moved / restart), keep


def pure_epsilon(setting: Setting, batch: Number = 1, spread: Number = 2.0):
    """The pure epsilon: max(w, ln(1 + (1 - p) eta' / p)) + 2 (M - 1) w, or 0 if M = 1.

    Here w = ln(1 / (1 - eta)) / B and eta' = 1 - e^-w, which is eta if B = 1. The first term is for
    one coin: it is tossed at the end of the replaced round's batch, and depends on the loss of the
    current arm. (If the coin keeps the arm, its log-ratio is at most w, which is the maximum if p
    and eta are near 1/2.) All other coins depend on other batches, and a coin that the budget
    overrules has no effect. The second term is for all later draws, at most M - 1, which depend on
    the round through the weights. The round moves an exponent by at most w, up or down, so the
    log-ratio of a draw is at most 2 w.

    If a round moves all exponents in the same direction, the difference of two exponents moves by
    at most w. The log-ratio of a draw is then at most w, and ``spread`` is 1 instead of 2.
    """
    leave, keep = coin_log_ratios(setting, batch)
    later = spread * (setting.budget - 1).astype(jnp.float32) * keep
    return jnp.where(setting.budget > 1, jnp.maximum(leave, keep) + later, 0.0)


def rho(setting: Setting, batch: Number = 1, spread: Number = 2.0):
    """The zCDP parameter of one coin and M - 1 draws, each of bounded range; 0 if M = 1."""
    leave, keep = coin_log_ratios(setting, batch)
    coin = privacy.bounded_range_rho(leave + keep)
    later = privacy.bounded_range_rho(spread * keep, (setting.budget - 1).astype(jnp.float32))
    return jnp.where(setting.budget > 1, coin + later, 0.0)


def coin_divergences(setting: Setting, batch: Number = 1):
    """Renyi divergences of a coin between mean losses 0 and 1 / B, the larger of both directions.

    At mean loss l the coin calls for a draw with probability q = p + (1 - p) (1 - e^(-w l)). As l
    grows, both divergences between l and l + 1 / B decrease, so l = 0 is the worst case. Proof: let
    x = e^-w, b = 1 - (1 - q) x and r = q / b <= 1. The derivatives in q of the two sums over the
    outcomes are

        a r^(a-1) - (a - 1) r^a x - x^(1-a)   and   a r^(1-a) x - (a - 1) r^-a - x^a,

    which are largest at r = 1. They are at most 0 at r = 1 by Bernoulli's inequality.
    """
    leave, keep = coin_log_ratios(setting, batch)
    chance = setting.restart
    law, ratios = jnp.stack([chance, 1.0 - chance]), jnp.stack([-leave, keep])
    other = law * jnp.exp(-ratios)
    return jnp.maximum(
        privacy.renyi_divergences(law, ratios), privacy.renyi_divergences(other, -ratios)
    )


def derived_epsilon(
    setting: Setting, delta: Number | None, batch: Number = 1, spread: Number = 2.0
):
    """:func:`pure_epsilon`, or, with delta, the epsilon from Renyi divergences if that is smaller.

    The divergence of order alpha is the exact one of the coin plus alpha rho of the draws. If the
    coin rarely calls for a draw, its exact divergence is about alpha p x^2 / 2, with x the
    log-ratio of a draw. Bounded range would only give alpha x^2 / 8.
    """
    pure = pure_epsilon(setting, batch, spread)
    if delta is None:
        return pure
    _, keep = coin_log_ratios(setting, batch)
    later = privacy.bounded_range_rho(spread * keep, (setting.budget - 1).astype(jnp.float32))
    divergences = coin_divergences(setting, batch) + privacy.zcdp_divergences(later)
    smaller = jnp.minimum(pure, privacy.renyi_epsilon(divergences, delta))
    return jnp.where(setting.budget > 1, smaller, 0.0)


def declared(
    setting: Setting, delta: Number | None, batch: Number = 1, spread: Number = 2.0
) -> Privacy:
    """The declared privacy of a setting."""
    renyi = "" if delta is None else ", or their Renyi divergences if smaller"
    return Privacy(
        epsilon=derived_epsilon(setting, delta, batch, spread),
        delta=0.0 if delta is None else delta,
        rho=rho(setting, batch, spread),
        accountant=f"one coin and M - 1 draws: the sum of their log-ratios{renyi}",
    )


def largest_private(is_private: Callable, low: Number, high: Number):
    """The largest private number in [low, high], by 40 bisections of its logarithm.

    ``low`` must be private, and so must all numbers below a private one.
    """

    def bisect(_, ends):
        low, high = ends
        middle = jnp.sqrt(low) * jnp.sqrt(high)
        private = is_private(middle)
        return jnp.where(private, middle, low), jnp.where(private, high, middle)

    low, _ = lax.fori_loop(0, 40, bisect, (low, high))
    return jnp.where(is_private(high), high, low)


# Compiled once for all epsilons and deltas. A loop outside of jit would be compiled in each call.
@partial(jax.jit, static_argnums=(0, 1))
def derived_setting(horizon, arms, epsilon, delta, rate=None, restart=None, batch=1) -> Setting:
    """The largest eta, up to ``rate``, whose :func:`derived_epsilon` is at most epsilon.

    The default ``rate`` is sqrt(ln K / T). p is ``restart``, by default the best for small eta. If
    p would be below eta, it is eta, as the regret bound requires. At epsilon = inf there is no
    budget. ln eta is found by bisection, since an epsilon of 1e-9 requires an eta of 1e-15.
    """
    largest = jnp.asarray(default_rate(horizon, arms) if rate is None else rate, jnp.float32)
    _, begun = quotients.whole(horizon, batch)
    if restart is None:
        least_restart = best_restart(horizon, batch, delta)
    else:
        least_restart = jnp.asarray(restart, jnp.float32)

    def at_rate(rate):
        restart = jnp.maximum(rate, least_restart)
        budget = jnp.where(jnp.isinf(epsilon), begun, switch_budget(horizon, restart, batch))
        return Setting(rate, restart, budget)

    def is_private(rate):
        return derived_epsilon(at_rate(rate), delta, batch) <= epsilon

    # ``low`` is private, since 1 / p and M are at most 4 T and ln(1 / (1 - eta)) <= 2 eta ln 2.
    low = jnp.minimum(largest, epsilon / (16.0 * horizon))
    if restart is not None:  # Then 1 / p has no such limit.
        low = jnp.minimum(low, 0.25 * epsilon * least_restart)
    return at_rate(largest_private(is_private, low, largest))


def candidates(horizon: int):
    """The batches 1, 2, 3, 4, 6, 8, 12, ... up to T, from which :func:`best_setting` chooses."""
    powers = 2 ** np.arange(31)
    every = np.unique(np.concatenate([powers, 3 * powers[:30]]))
    return every[every <= horizon].astype(np.float32)


def _complexity(horizon, arms, batch, shifts):
    count = steps(horizon, batch)
    return complexity(count, arms, shifts, share_for(count, shifts))


def regret_bound(
    horizon: int, arms: int, epsilon: Number, setting: Setting, batch: Number, shifts: Number
):
    """eta T + B D / eta + S B / 2 + 2 T exp(-n p / 3); at epsilon = inf the last term is 0.

    The third term is for shifts of the best arm within a batch. Of the arms before and after the
    shift, the better one over the whole batch loses at most B / 2 more than the two in turn.
    """
    ran_out = 2.0 * horizon * jnp.exp(-steps(horizon, batch) * setting.restart / 3.0)
    learning = batch * _complexity(horizon, arms, batch, shifts) / setting.rate
    plain = setting.rate * horizon + learning + shifts * batch / 2.0
    return plain + jnp.where(jnp.isinf(epsilon), 0.0, ran_out)


@partial(jax.jit, static_argnums=(0, 1))
def best_setting(horizon, arms, epsilon, delta, rate=None, restart=None, shifts=0.0):
    """(Setting, B) for the batch in :func:`candidates` with the smallest :func:`regret_bound`."""

    def at_batch(batch):
        largest = batch_rate(horizon, arms, batch, shifts) if rate is None else rate
        setting = derived_setting(horizon, arms, epsilon, delta, largest, restart, batch)
        return setting, regret_bound(horizon, arms, epsilon, setting, batch, shifts)

    batches = jnp.asarray(candidates(horizon))
    settings, values = jax.vmap(at_batch)(batches)
    best = jnp.argmin(values)
    return jax.tree.map(lambda leaf: leaf[best], (settings, batches))


def printed_batch(horizon: int, arms: int, epsilon: Number, delta: Number):
    """B = ln^(2/5)(1/delta) ln^(3/5)(K) T^(-1/5) epsilon^(-3/5) of Corollary 6, within [1, T]."""
    log_term = jnp.log(1.0 / jnp.asarray(delta, jnp.float32))
    size = log_term**0.4 * float(np.log(arms) ** 0.6 * horizon**-0.2) * epsilon**-0.6
    return jnp.clip(jnp.round(size), 1.0, horizon)


def printed_setting(horizon, arms, epsilon, delta, rate=None, restart=None, batch=1) -> Setting:
    """The parameters of the paper's Corollaries 3, 4 and 6, for epsilon <= 1.

    Without delta p = T^(-1/2) and eta = p epsilon / 20. With delta, p = (T ln(1/delta))^(-1/3) and
    eta = p epsilon_0 / 20 with

        epsilon_0 = min(epsilon / 2, ln^(1/3)(1/delta) T^(-1/6) sqrt(ln K)).

    If ``batch`` is not a Python int, the setting is that for batches:
    p = (B / (T ln(1/delta)))^(1/3) and eta = B p epsilon / 40.

    p is cut at 1/2 and eta at p. If ``restart`` is given, it replaces p. At epsilon = inf the
    setting is the derived one.
    """
    single = isinstance(batch, int)
    if delta is None:
        p, base = jnp.asarray(horizon**-0.5, jnp.float32), epsilon
    else:
        log_term = jnp.cbrt(jnp.log(1.0 / jnp.asarray(delta, jnp.float32)))
        useful = log_term * float(horizon ** (-1 / 6) * np.sqrt(np.log(arms)))
        p = jnp.cbrt(batch) / (np.cbrt(horizon).astype(np.float32) * log_term)
        base = jnp.minimum(epsilon / 2.0, useful) if single else batch * epsilon / 2.0
    p = jnp.minimum(p, 0.5) if restart is None else jnp.asarray(restart, jnp.float32)
    eta = jnp.minimum(p * base / 20.0, p)
    printed = Setting(eta, p, switch_budget(horizon, p, batch))
    if rate is None and not single:
        rate = batch_rate(horizon, arms, batch, 0.0)
    plain = derived_setting(horizon, arms, epsilon, delta, rate, restart, batch)
    return jax.tree.map(lambda x, y: jnp.where(jnp.isinf(epsilon), x, y), plain, printed)


def printed_epsilon(horizon: int, setting: Setting, delta: Number | None, batch: Number = 1):
    """The epsilon that the paper states for a setting (for batches if ``batch`` is no Python int).

    Theorem 2 has eta / p + 16 T p eta, or, if delta is given, 5 eta / p + 100 T p eta^2 + 20 eta
    sqrt(T p ln(1/delta)). For batches Theorem 5 has 5 eta / (B p) + 100 T p eta^2 / B^3 + (20
    eta / B) sqrt(12 (T p / B) ln(1/delta)). The proof of Corollary 6 omits the 12, so for its own
    setting this function returns 1.9 epsilon.
    """
    rate, restart, _ = setting
    if delta is None:
        return rate / restart + 16.0 * horizon * restart * rate
    log_term = jnp.log(1.0 / jnp.asarray(delta, jnp.float32))
    factor = 1.0 if isinstance(batch, int) else 12.0
    root = jnp.sqrt(factor * horizon * restart / batch * log_term)
    square = 100.0 * horizon * restart * rate**2 / batch**3
    return 5.0 * rate / (batch * restart) + square + 20.0 * rate / batch * root
