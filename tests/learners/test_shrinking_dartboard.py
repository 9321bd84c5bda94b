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
from dpjax.learners._hedge import logits as of_hedge
from dpjax.learners._shrinking_dartboard import logits, shrinking_dartboard
from dpjax.learners.parts.dartboard import (
    Setting,
    coin_log_ratios,
    derived_epsilon,
    derived_setting,
    printed_epsilon,
    printed_setting,
    rho,
)
from dpjax.maths import exact_sums
from dpjax.maths.exact_sums import ExactSum
from tests.play import play_table
from tests.renyi import ORDERS, dartboard_epsilon, epsilon_of


def setting_at(rate, restart, budget):
    return Setting(jnp.float32(rate), jnp.float32(restart), jnp.int32(budget))


def play(learner, losses, keys):
    """Arms (n, T + 1), and the last states, in NumPy."""

    def game(key):
        played = play_table(learner, losses, key)
        return played.actions, played.last

    return jax.tree.map(np.asarray, jax.jit(jax.vmap(game))(keys))


def table(horizon, arms):
    return np.array(jr.uniform(jr.key(1), (horizon, arms)))


# The law of the algorithm, in float64 and independent of the learner.


def game_law(losses, rate, restart, budget):
    """Exact probabilities of all paths of arms and draws on tables (n, T - 1, K).

    Returns the arms of each path, (m, T), and probabilities, (n, m). A path also contains the
    rounds in which an arm was drawn, even if it was the same arm.
    """
    count, rounds, arms = losses.shape
    paths = [((x,), 1, np.full(count, 1 / arms)) for x in range(arms)]
    total = np.zeros((count, arms))
    for t in range(rounds):
        total += losses[:, t]
        weights = (1 - rate) ** total
        p = weights / weights.sum(1, keepdims=True)
        longer = []
        for played, drawn, probability in paths:
            x = played[-1]
            if drawn == budget:
                longer.append(((*played, x), drawn, probability))
                continue
            keep = (1 - restart) * (1 - rate) ** losses[:, t, x]
            longer.append(((*played, x), drawn, probability * keep))
            for i in range(arms):
                longer.append(((*played, i), drawn + 1, probability * (1 - keep) * p[:, i]))
        paths = longer
    return np.array([path[0] for path in paths]), np.stack([path[2] for path in paths], 1)


def all_tables(rounds, arms):
    """All 0/1 loss tables (rounds, arms), with the last row varying fastest."""
    rows = np.array(list(itertools.product([0.0, 1.0], repeat=arms)))
    return rows[np.array(list(itertools.product(range(len(rows)), repeat=rounds)))]


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


@pytest.mark.parametrize(
    ("rate", "restart", "budget", "delta"),
    [(0.3, 0.5, 6, 1e-2), (0.05, 0.5, 6, 1e-3), (0.005, 0.01, 2, 1e-3), (0.3, 0.05, 3, 1e-2)],
)
def test_delta_of_the_exact_law(rate, restart, budget, delta):
    """Over all neighbours of small games, at the accountant's epsilon and rho.

    Draws counted with half of their range spend more than delta in the first two games, and a coin
    that counts nothing does in the third.
    """
    horizon, arms = (5, 3) if budget > 2 else (3, 2)
    law = game_law(all_tables(horizon - 1, arms), rate, restart, budget)[1]
    tables = 2**arms
    law = law.reshape(*[tables] * (horizon - 1), -1)
    setting = setting_at(rate, restart, budget)

    def others():
        for axis, shift in itertools.product(range(horizon - 1), range(1, tables)):
            yield np.roll(law, shift, axis)

    def shown(epsilon):
        return max(np.maximum(law - np.exp(epsilon) * x, 0.0).sum(-1).max() for x in others())

    assert shown(float(derived_epsilon(setting, delta))) <= delta
    for order in (1.01, 2.0, 16.0):
        divergence = max((law**order * x ** (1 - order)).sum(-1).max() for x in others())
        divergence = np.log(divergence) / (order - 1) / order
        assert 0.05 < divergence / float(rho(setting)) <= 1 + 1e-5
    if budget == 6:
        assert shown(dartboard_epsilon(rate, restart, 1, budget, delta, width=1.0)) > delta
    if budget == 2:
        w = -np.log1p(-rate)
        assert shown(epsilon_of(ORDERS * w**2 / 2, delta)) > delta


@pytest.mark.parametrize(
    ("logits", "base"), [(logits, 0.99), (of_hedge, np.exp(-0.01))], ids=["dartboard", "hedge"]
)
def test_probabilities_of_large_sums(logits, base):
    """(1 - eta)^L or e^(-eta L) for sums near 2^30 that differ by little, against float64."""
    whole = np.array([2**30, 2**30 + 1, 2**30 + 700], np.int32)
    part = np.array([0.75, 0.0, 0.5])
    exact = base ** (whole.astype(np.float64) + part - 2**30)
    units = (part * 2**30).astype(np.int32)
    sums = ExactSum(jnp.asarray(whole), jnp.asarray(units))
    p = jax.nn.softmax(logits(sums, jnp.float32(0.01)))
    np.testing.assert_allclose(p, exact / exact.sum(), rtol=1e-5)


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
