"""The private shrinking dartboard: its law, and all that its arms reveal, by enumeration."""

import itertools
from fractions import Fraction
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import noise
from dpjax.learners._shrinking_dartboard import shrinking_dartboard
from dpjax.learners.parts.dartboard import (
    coin_log_ratios,
    derived_setting,
    printed_epsilon,
    printed_setting,
)
from dpjax.maths import exact_sums
from tests.learners.test_hedge import play
from tests.renyi import dartboard_epsilon


def table(horizon, arms):
    return np.array(jr.uniform(jr.key(1), (horizon, arms)))


# The law of the algorithm, in float64 and independent of the learner.


def pure_by_hand(budget, rate, restart):
    leave, keep = np.log1p((1 - restart) * rate / restart), -np.log1p(-rate)
    return max(leave, keep) + 2 * (budget - 1) * keep if budget > 1 else 0.0


def derived_by_hand(setting, delta):
    rate, restart, budget = (float(x) for x in setting)
    pure = pure_by_hand(budget, rate, restart)
    if delta is None or budget == 1:
        return pure
    return min(pure, dartboard_epsilon(rate, restart, 1, budget, delta))


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("horizon", [16, 1000, 2**20])
def test_printed_setting(horizon):
    """The corollaries' eta and p for epsilon <= 1, by hand; epsilon is at most the given one."""
    for epsilon, delta in itertools.product([1e-3, 0.3, 1.0], [None, 1e-6, 1e-3]):
        setting = printed_setting(horizon, 4, jnp.float32(epsilon), delta)
        rate, restart, budget = (float(x) for x in setting)
        if delta is None:
            p, base = horizon**-0.5, epsilon
            declared = base / 20 + 16 * horizon * p**2 * base / 20
        else:
            log_term = np.log(1 / delta)
            p = (horizon * log_term) ** (-1 / 3)
            base = min(epsilon / 2, np.cbrt(log_term) * horizon ** (-1 / 6) * np.sqrt(np.log(4)))
            eta = p * base / 20
            declared = 5 * eta / p + 100 * horizon * p * eta**2
            declared += 20 * eta * np.sqrt(horizon * p * log_term)
        assert restart == pytest.approx(p, rel=1e-5)
        assert rate == pytest.approx(p * base / 20, rel=1e-5)
        assert budget == min(horizon, np.floor(4 * horizon * np.float32(restart)))
        learner = shrinking_dartboard(
            horizon, 4, epsilon=epsilon, delta=delta, calibration="printed"
        )
        assert float(learner.privacy.paper_epsilon) == pytest.approx(declared, rel=1e-5)
        assert declared <= epsilon
        # The exact account of the same parameters is smaller: the theorem is loose.
        exact = derived_by_hand(setting, delta)
        assert float(learner.privacy.epsilon) == pytest.approx(exact, rel=1e-4)
        assert exact < float(printed_epsilon(horizon, setting, delta))
        assert learner.privacy.calibration == "printed" and float(learner.privacy.rho) > 0
        assert rate < float(derived_setting(horizon, 4, jnp.float32(epsilon), delta).rate) / 2
    # The privacy of Hedge's law itself, without a requested epsilon.
    printed, plain = (
        shrinking_dartboard(64, 3, epsilon=np.inf, calibration=each).privacy
        for each in ("printed", "derived")
    )
    assert printed[:3] == plain[:3] and np.isinf(printed.paper_epsilon)


@partial(jax.jit, static_argnums=0)
def uniforms(rounds, keys):
    """Each round's coin and the number that draws an arm, and that of the first arm."""

    def of_game(key):
        def of_round(t):
            coin_key, arm_key = jr.split(jr.fold_in(key, t))
            return jr.uniform(coin_key), jr.uniform(arm_key)

        return jax.vmap(of_round)(jnp.arange(1, rounds + 1)), jr.uniform(jr.fold_in(key, 0))

    return jax.vmap(of_game)(keys)


@pytest.mark.parametrize(
    ("epsilon", "calibration"), [(3.0, "derived"), (np.inf, "derived"), (1.0, "printed")]
)
def test_games_by_hand(epsilon, calibration):
    """200 games of 150 rounds equal a float64 loop with the same coins, arms and counts.

    Calibrated for 17 rounds, so that the budget runs out.
    """
    horizon, arms, rounds = 17, 3, 150
    losses, keys = table(rounds, arms), jr.split(jr.key(2), 200)
    learner = shrinking_dartboard(horizon, arms, epsilon=epsilon, calibration=calibration)
    played, state = play(learner, losses, keys)
    setting = printed_setting if calibration == "printed" else derived_setting
    rate, restart, budget = map(float, setting(horizon, arms, jnp.float32(epsilon), None))
    (coins, levels), firsts = jax.tree.map(np.asarray, uniforms(rounds, keys))
    arm = np.floor(3 * firsts).astype(int)
    drawn, refused, total = np.ones(200), np.zeros(200), np.zeros(arms)
    for t in range(rounds):
        np.testing.assert_array_equal(played[:, t], arm)
        row = losses[t].astype(np.float64)
        total += row
        weights = (1 - rate) ** (total - total.min())
        asked = coins[:, t] < 1 - (1 - restart) * (1 - rate) ** row[arm]
        granted = asked & (drawn < budget)
        new = np.searchsorted(np.cumsum(weights / weights.sum())[:-1], levels[:, t], "right")
        arm = np.where(granted, new, arm)
        drawn, refused = drawn + granted, refused + (asked & ~granted)
    np.testing.assert_array_equal(state.draws, drawn)
    np.testing.assert_array_equal(state.refused, refused)
    np.testing.assert_allclose(exact_sums.to_float(state.learned)[0], total, rtol=1e-6)
    assert state.draws.max() <= budget
    report = learner.report(state)
    np.testing.assert_array_equal(report.resampled, drawn - 1)
    assert (state.refused.max() > 0) and (budget < horizon) == np.isfinite(epsilon)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 1.0])
def test_a_coin_of_60_bits_has_the_log_ratio_that_is_charged(monkeypatch, epsilon):
    """At T = 2^20, exactly, from the parts used by a step; a coin of 23 bits has more.

    The coin used to keep the arm by comparing float32 numbers below 1. Two neighbours among them
    are 2^-24 apart, which is 1.7e-4 of a draw probability p of 3.5e-4.
    """
    horizon = 2**20
    learner = shrinking_dartboard(horizon, 2, epsilon=epsilon)
    setting = derived_setting(horizon, 2, jnp.float32(epsilon), None)
    seen = []

    def toss(key, parts):
        seen.append(np.asarray(parts))
        return jnp.bool(True)

    monkeypatch.setattr(noise, "coin", toss)
    state, _ = learner.init(jr.key(0))
    for loss in np.linspace(0.0, 1.0, 9, dtype=np.float32):
        learner.step(state, jr.key(1), jnp.full(2, loss))
    units = [sum(Fraction(round(Fraction(float(x)) * 2**60), 2**60) for x in p) for p in seen]
    charged, keep = (float(x) for x in coin_log_ratios(setting))
    ratio = np.log1p(float((max(units) - min(units)) / min(units)))
    assert 0.99 * charged <= ratio <= charged * (1.0 + 1e-6) + 2.0**-45
    kept = -np.log1p(-float((max(units) - min(units)) / (1 - min(units))))
    assert 0.99 * keep <= kept <= keep * (1.0 + 1e-6) + 2.0**-55
    if epsilon < 1.0:
        levels = [np.ceil(np.float32(1.0 - float(x)) * 2.0**23) for x in units]
        old = np.log((2.0**23 - min(levels)) / (2.0**23 - max(levels)))
        assert not 0.9 * charged <= old <= 1.1 * charged
