"""The private shrinking dartboard: its law, and all that its arms reveal, by enumeration."""

import itertools
from fractions import Fraction
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import environments, noise, privacy, sweep
from dpjax.learners.hedge import plain_rate
from dpjax.learners.parts.dartboard import (
    Setting,
    coin_log_ratios,
    derived_epsilon,
    derived_setting,
    printed_epsilon,
    printed_setting,
    pure_epsilon,
    rho,
    switch_budget,
)
from dpjax.learners.shrinking_dartboard import logits, shrinking_dartboard
from dpjax.maths import exact_sums
from dpjax.maths.exact_sums import ExactSum
from tests.play import play_table
from tests.renyi import ORDERS, coin, dartboard_epsilon, epsilon_of

EPSILONS = [1e-9, 1e-3, 0.1, 1.0, 10.0, 1e3, 1e6, np.inf]


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


def of_arms(played, law):
    """The law of the arms alone, summed over paths with the same arms."""
    names, index = np.unique(played, axis=0, return_inverse=True)
    merged = np.zeros((len(names), len(law)))
    np.add.at(merged, index.ravel(), law.T)
    return merged.T


def all_tables(rounds, arms):
    """All 0/1 loss tables (rounds, arms), with the last row varying fastest."""
    rows = np.array(list(itertools.product([0.0, 1.0], repeat=arms)))
    return rows[np.array(list(itertools.product(range(len(rows)), repeat=rounds)))]


def worst_log_ratio(law, rounds, arms):
    """The largest log-ratio of an outcome over all pairs of tables that differ in one row."""
    logs = np.log(law).reshape(*[2**arms] * rounds, -1)
    return max((logs.max(axis) - logs.min(axis)).max() for axis in range(rounds))


SMALL = [(2, 2), (3, 2), (4, 2), (5, 2), (2, 3), (3, 3), (4, 3)]
PARAMETERS = [(0.5, 0.5), (0.45, 0.45), (0.3, 0.3), (0.3, 0.05), (0.05, 0.2), (0.001, 0.002)]


@pytest.mark.parametrize(("horizon", "arms"), SMALL)
def test_log_ratios_of_all_small_games(horizon, arms):
    """Over all tables, replaced rounds and budgets, arms and draws are within pure_epsilon.

    Arms alone reveal less, but for one parameter setting more than 99 % of the declaration.
    """
    tables, tightest = all_tables(horizon - 1, arms), 0.0
    for rate, restart in PARAMETERS:
        for budget in range(1, horizon + 1):
            declared = float(pure_epsilon(setting_at(rate, restart, budget)))
            played, law = game_law(tables, rate, restart, budget)
            paths = worst_log_ratio(law, horizon - 1, arms)
            shown = worst_log_ratio(of_arms(played, law), horizon - 1, arms)
            assert shown <= paths + 1e-9
            assert paths <= declared * (1 + 1e-5)
            if budget > 1:
                tightest = max(tightest, shown / declared)
    assert tightest > 0.99


def test_the_coin_counts_both_ways():
    """Near p = eta = 1/2 a kept arm reveals more than a drawn one; ignoring it is too little.

    Five rounds by paths; the last round may draw, after a coin that kept the arm.
    """
    rate, restart = 0.5, 0.5
    leave, keep = np.log1p((1 - restart) * rate / restart), -np.log1p(-rate)
    assert leave < keep
    for budget in (2, 3):
        _, law = game_law(all_tables(4, 3), rate, restart, budget)
        paths = worst_log_ratio(law, 4, 3)
        without = leave + 2 * (budget - 1) * keep
        declared = float(pure_epsilon(setting_at(rate, restart, budget)))
        assert without < paths <= declared
        assert declared == pytest.approx(keep + 2 * (budget - 1) * keep, rel=1e-6)


def log_law_of(played, losses, rate, restart, budget):
    """ln of the exact probability of an arm sequence, over all ways to draw it."""
    arms, total = losses.shape[1], np.zeros(losses.shape[1])
    drawn = np.zeros(budget + 1)  # probability by number of arms drawn, scaled
    drawn[1], log_law = 1.0, -np.log(arms)
    for t in range(1, len(played)):
        x, y = played[t - 1], played[t]
        total += losses[t - 1]
        weights = (1 - rate) ** (total - total.min())
        keep = (1 - restart) * (1 - rate) ** losses[t - 1, x]
        kept = drawn * (keep if x == y else 0.0)
        kept[budget] = drawn[budget] * (x == y)
        kept[1:] += np.append(drawn[:-1], 0.0)[:-1] * (1 - keep) * weights[y] / weights.sum()
        log_law, drawn = log_law + np.log(kept.sum()), kept / kept.sum()
    return log_law


@pytest.mark.parametrize("budget", [2, 6, 10])
def test_the_sum_of_log_ratios_is_tight(budget):
    """The arms alone come within 1e-4 of the declaration: the coin and all B - 1 draws are needed.

    Arm 0 is far ahead; in one round arm 0 loses, or the others do; then arms 1 and 2 alternate.
    """
    rate, restart, before = 0.2, 0.05, 60
    rounds = before + budget + 1
    ours = np.where(np.arange(3) == 0, 0.0, 1.0) * np.ones((rounds, 1))
    theirs = ours.copy()
    ours[before - 1] = [1.0, 0.0, 0.0]
    played = [0] * before + [1 + i % 2 for i in range(budget - 1)]
    played += [played[-1]] * (rounds - len(played))
    exact = log_law_of(played, ours, rate, restart, budget) - log_law_of(
        played, theirs, rate, restart, budget
    )
    declared = float(pure_epsilon(setting_at(rate, restart, budget)))
    assert 0.9999 * declared < exact <= declared * (1 + 1e-6)
    # The contribution of each part.
    draws = 2 * (budget - 1) * -np.log1p(-rate)
    assert exact > draws
    assert exact > declared + np.log1p(-rate)


def renyi(ours, theirs, order):
    return np.log((ours**order * theirs ** (1 - order)).sum(-1)) / (order - 1)


@pytest.mark.parametrize(("rate", "restart"), [(0.3, 0.3), (0.1, 0.1), (0.3, 0.05), (0.02, 0.2)])
def test_zcdp_of_all_small_games(rate, restart):
    """Renyi divergences of arms and draws, over all neighbours, are at most rho times the order.

    Half of rho is too little somewhere, as is half of the (epsilon, delta) from it.
    """
    horizon, arms = 4, 2
    tightest = 0.0
    for budget in (2, 3, 4):
        setting = setting_at(rate, restart, budget)
        claimed = float(rho(setting))
        law = game_law(all_tables(horizon - 1, arms), rate, restart, budget)[1]
        law = law.reshape(*[4] * (horizon - 1), -1)
        pairs = [(law, np.roll(law, shift, axis)) for axis in range(3) for shift in (1, 2, 3)]
        for order in (1.01, 1.5, 2.0, 4.0, 16.0):
            worst = max(renyi(ours, theirs, order).max() for ours, theirs in pairs)
            assert worst <= claimed * order * (1 + 1e-5)
            tightest = max(tightest, worst / (claimed * order))
        for delta in (1e-2, 1e-4):
            epsilon = float(derived_epsilon(setting, delta))
            assert epsilon <= float(pure_epsilon(setting))
            shown = max(
                np.maximum(ours - np.exp(epsilon) * theirs, 0.0).sum(-1).max()
                for ours, theirs in pairs
            )
            assert shown <= delta
    assert tightest > 0.5


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
@pytest.mark.parametrize("delta", [None, 1e-30, 1e-6, 0.1])
@pytest.mark.parametrize("horizon", [1, 2, 16, 1000, 2**20])
def test_derived_setting(horizon, delta):
    """The largest eta whose epsilon, in float64, is at most the requested one, with its p and B."""
    arms = 6
    cap = min(np.sqrt(np.log(arms) / horizon), 0.5)
    least = 1 / np.sqrt(8 * horizon) if delta is None else horizon ** (-1 / 3) / 3
    rates = []
    for epsilon in EPSILONS:
        setting = derived_setting(horizon, arms, jnp.float32(epsilon), delta)
        rate, restart, budget = (float(x) for x in setting)
        rates.append(rate)
        assert restart == pytest.approx(max(rate, least), rel=1e-6)
        assert 0 < rate <= restart <= 0.5
        wanted = np.clip(np.floor(4 * horizon * np.float32(restart)), 1, horizon)
        assert budget == (horizon if np.isinf(epsilon) else wanted)
        exact = derived_by_hand(setting, delta)
        declared = shrinking_dartboard(horizon, arms, epsilon=epsilon, delta=delta).privacy
        # If delta allows most of it, epsilon is a difference of terms that cancel.
        assert float(declared.epsilon) == pytest.approx(exact, rel=2e-6, abs=1e-6)
        assert float(declared.epsilon) <= epsilon * (1 + 1e-6) + 1e-8
        assert declared.delta == (delta or 0.0)
        if rate < 0.999 * cap:
            # A larger eta is too much, or needs a larger budget, which is too much.
            more = 1.0001 * rate
            larger = max(more, least)
            budget = np.clip(np.floor(4 * horizon * larger), 1, horizon)
            assert derived_by_hand((more, larger, budget), delta) > epsilon
        else:
            assert rate == pytest.approx(cap, rel=1e-6)
    assert (np.diff(rates) >= 0).all()
    assert rates[-1] == pytest.approx(cap, rel=1e-6)


@pytest.mark.parametrize("delta", [None, 1e-6])
def test_a_rate_of_ones_own(delta):
    """It caps eta, and the declaration follows; with Hedge's rate the law is Hedge's."""
    horizon, arms = 2**14, 10
    plain = float(plain_rate(horizon, arms))
    rate = -np.expm1(-plain)
    for epsilon in (0.1, 3.0, np.inf):
        setting = derived_setting(horizon, arms, jnp.float32(epsilon), delta, rate)
        declared = shrinking_dartboard(horizon, arms, epsilon=epsilon, delta=delta, rate=rate)
        exact = derived_by_hand(tuple(float(x) for x in setting), delta)
        assert float(declared.privacy.epsilon) == pytest.approx(exact, rel=1e-5)
        assert exact <= epsilon * (1 + 1e-5)
        assert float(setting.rate) <= rate * (1 + 1e-6)
    assert float(setting.rate) == pytest.approx(rate, rel=1e-6)
    assert float(setting.restart) >= float(setting.rate)
    losses = jnp.float32([3.5, 0.0, 40.25])
    law = np.exp(-plain * np.asarray(losses, np.float64))
    p = jax.nn.softmax(logits(exact_sums.of(losses), setting.rate))
    np.testing.assert_allclose(p, law / law.sum(), rtol=1e-4)
    # By default eta is 2.8 times smaller.
    default = derived_setting(horizon, arms, jnp.float32(np.inf), delta)
    assert plain / float(default.rate) == pytest.approx(8**0.5, rel=1e-5)


@pytest.mark.parametrize("rate", [0.0, -0.1, 0.6, np.nan])
def test_a_rate_that_is_none_is_refused(rate):
    with pytest.raises(ValueError, match="rate must be"):
        shrinking_dartboard(64, 4, epsilon=1.0, rate=rate)


def test_restart_probabilities_are_the_best_for_small_epsilon():
    """At T = 10^6 and epsilon = 0.01: no other p allows an eta larger by more than 1 %."""
    horizon, arms = 10**6, 5
    for delta in (None, 1e-6):
        rate, restart, _ = (
            float(x) for x in derived_setting(horizon, arms, jnp.float32(0.01), delta)
        )
        for factor in (0.5, 0.8, 1.25, 2.0):
            other = factor * restart
            setting = (1.01 * rate, other, np.floor(4 * horizon * other))
            assert derived_by_hand(setting, delta) > 0.01


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


def test_printed_plays_its_setting_and_at_infinity_that_of_hedge():
    """The rate played, estimated from how often an arm that always loses is left."""
    losses, keys = np.ones((64, 3), np.float32), jr.split(jr.key(9), 4000)
    for epsilon, setting in [
        (1.0, printed_setting(64, 3, jnp.float32(1.0), None)),
        (np.inf, derived_setting(64, 3, jnp.float32(np.inf), None)),
    ]:
        learner = shrinking_dartboard(64, 3, epsilon=epsilon, calibration="printed")
        _, state = play(learner, losses, keys)
        rate, restart, _ = (float(x) for x in setting)
        leave = 1 - (1 - restart) * (1 - rate)
        asked = (state.draws - 1 + state.refused).mean()
        assert asked == pytest.approx(64 * leave, abs=4 * np.sqrt(64 * leave / 4000))
    # The privacy of Hedge's law itself, without a requested epsilon.
    plain = shrinking_dartboard(64, 3, epsilon=np.inf).privacy
    assert learner.privacy[:3] == plain[:3] and np.isinf(learner.privacy.paper_epsilon)


@partial(jax.jit, static_argnums=0)
def uniforms(rounds, keys):
    """Each round's coin and the number that draws an arm, and that of the first arm."""

    def of_game(key):
        def of_round(t):
            coin_key, arm_key = jr.split(jr.fold_in(key, t))
            return jr.uniform(coin_key), jr.uniform(arm_key)

        return jax.vmap(of_round)(jnp.arange(1, rounds + 1)), jr.uniform(jr.fold_in(key, 0))

    return jax.vmap(of_game)(keys)


@pytest.mark.parametrize("epsilon", [3.0, np.inf])
def test_games_by_hand(epsilon):
    """200 games of 150 rounds equal a float64 loop with the same coins, arms and counts.

    Calibrated for 17 rounds, so that the budget runs out.
    """
    horizon, arms, rounds = 17, 3, 150
    losses, keys = table(rounds, arms), jr.split(jr.key(2), 200)
    played, state = play(shrinking_dartboard(horizon, arms, epsilon=epsilon), losses, keys)
    setting = derived_setting(horizon, arms, jnp.float32(epsilon), None)
    rate, restart, budget = (float(x) for x in setting)

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
    report = shrinking_dartboard(horizon, arms, epsilon=epsilon).report(state)
    np.testing.assert_array_equal(report.resampled, drawn - 1)
    assert (state.refused.max() > 0) and (budget < horizon) == np.isfinite(epsilon)


LAW_HORIZON, LAW_SEEDS = 200, 40_000


@pytest.fixture(scope="module", params=[(10.0, None), (4.0, 1e-3), (np.inf, None)])
def law_games(request):
    """Losses, setting, arms and states of 40 000 games: arm 2 falls behind, then leads."""
    epsilon, delta = request.param
    losses = 0.5 * table(LAW_HORIZON, 3)
    losses[:100, 2] += 0.5
    losses[100:, :2] += 0.5
    learner = shrinking_dartboard(LAW_HORIZON, 3, epsilon=epsilon, delta=delta)
    setting = derived_setting(LAW_HORIZON, 3, jnp.float32(epsilon), delta)
    played, state = play(learner, losses, jr.split(jr.key(3), LAW_SEEDS))
    return losses, setting, played, state


def test_each_arm_has_the_law_of_hedge(law_games):
    """Until the budget runs out; by chi-square at five rounds, which rejects a rate 10 % off.

    The budget runs out in too few games to matter.
    """
    losses, setting, played, state = law_games
    assert (state.refused > 0).mean() < 1e-3

    def pvalues(rate):
        values = []
        for t in (2, 50, 100, 150, LAW_HORIZON):
            weights = (1 - rate) ** losses[: t - 1].astype(np.float64).sum(0)
            expected = LAW_SEEDS * weights / weights.sum()
            values.append(
                stats.chisquare(np.bincount(played[:, t - 1], minlength=3), expected).pvalue
            )
        return values

    rate = float(setting.rate)
    assert min(pvalues(rate)) > 1e-3
    assert min(pvalues(1.1 * rate)) < 1e-6
    assert min(pvalues(0.9 * rate)) < 1e-6


@pytest.mark.parametrize("loss", [0.0, 1.0])
def test_how_many_arms_are_drawn(loss):
    """Binomial(T, 1 - (1 - p) (1 - eta)^l) if all losses are l; chi-square over 20 000 games.

    The same test rejects twice the p.
    """
    horizon, seeds = 64, 20_000
    learner = shrinking_dartboard(horizon, 4, epsilon=np.inf)
    losses = np.full((horizon, 4), loss, np.float32)
    _, state = play(learner, losses, jr.split(jr.key(4), seeds))
    assert state.refused.max() == 0
    rate, restart, _ = (float(x) for x in derived_setting(horizon, 4, jnp.float32(np.inf), None))

    def pvalue(restart):
        leave = 1 - (1 - restart) * (1 - rate) ** loss
        few, many = stats.binom.ppf([0.001, 0.999], horizon, leave).astype(int)
        pmf = stats.binom.pmf(np.arange(horizon + 1), horizon, leave)
        expected = np.concatenate([[pmf[: few + 1].sum()], pmf[few + 1 : many], [pmf[many:].sum()]])
        counts = np.bincount(np.clip(state.draws - 1, few, many) - few, minlength=len(expected))
        return stats.chisquare(counts, seeds * expected).pvalue

    assert pvalue(restart) > 1e-3
    assert pvalue(2 * restart) < 1e-6


def test_the_budget_is_kept():
    """At most B arms are ever drawn, and later rounds keep the last one."""
    learner = shrinking_dartboard(20, 3, epsilon=0.5)
    setting = derived_setting(20, 3, jnp.float32(0.5), None)
    rounds = 400
    played, state = play(learner, table(rounds, 3), jr.split(jr.key(5), 300))
    assert (state.draws == setting.budget).mean() > 0.99
    assert (np.diff(played, axis=1) != 0).sum(1).max() <= int(setting.budget) - 1
    assert (state.refused > 0).all()
    assert int(switch_budget(20, setting.restart)) == int(setting.budget) == 6


def test_regret_is_within_its_bound():
    """Mean over 400 games with losing leaders, for four epsilons with and without delta."""
    horizon, arms, trials = 1024, 4, 400
    losses, total = np.zeros((horizon, arms), np.float32), np.zeros(arms)
    for t in range(horizon):
        losses[t, np.argsort(total + 1e-6 * np.arange(arms))[: arms // 2]] = 1.0
        total += losses[t]
    losses[horizon // 2 :, 1:] = np.maximum(losses[horizon // 2 :, 1:], 0.5)
    epsilons = np.array([1.0, 10.0, 100.0, np.inf])
    for delta in (None, 1e-4):

        def game(epsilon, delta=delta):
            learner = shrinking_dartboard(horizon, arms, epsilon=epsilon, delta=delta)
            return learner, environments.table(losses)

        result = sweep(game, epsilons, trials, jr.key(6), checkpoints=1, progress=False)
        regret = result.regret[:, :, -1]
        error = regret.std(1) / np.sqrt(trials)
        settings = [derived_setting(horizon, arms, jnp.float32(e), delta) for e in epsilons]
        rate, restart, _ = np.array(settings, np.float64).T
        ran_out = 2 * horizon * np.exp(-horizon * restart / 3) * np.isfinite(epsilons)
        bound = rate * horizon + np.log(arms) / rate + ran_out
        assert (regret.mean(1) + 4 * error <= bound).all()
        assert (np.diff(regret.mean(1)) < 4 * error[1:]).all()


@pytest.mark.usefixtures("quick_compilation")
def test_traced_arguments_give_the_same_declaration():
    """Under jit and vmap, with epsilon and delta traced, in both calibrations."""
    epsilons, deltas = np.float32(EPSILONS), np.geomspace(1e-8, 0.1, 8).astype(np.float32)
    for calibration in ("derived", "printed"):

        def declared(epsilon, delta, calibration=calibration):
            learner = shrinking_dartboard(
                100, 3, epsilon=epsilon, delta=delta, calibration=calibration
            )
            return learner.privacy.epsilon

        traced = jax.jit(jax.vmap(declared))(epsilons, deltas)
        by_one = [declared(float(e), float(d)) for e, d in zip(epsilons, deltas, strict=True)]
        np.testing.assert_allclose(traced, by_one, rtol=2e-6)


def test_renyi_divergences_are_declared_if_they_are_smaller():
    """At a moderate delta they allow the largest rate; at a tiny one the sum of log-ratios does."""
    setting = derived_setting(2**16, 4, jnp.float32(1.0), 1e-6)
    assert float(derived_epsilon(setting, 1e-6)) == pytest.approx(1.0, rel=1e-5)
    assert float(pure_epsilon(setting)) > 5.0
    # zCDP alone, which counts the coin as a draw of bounded range, would give more.
    assert float(privacy.zcdp_epsilon(rho(setting), 1e-6)) > 1.1
    setting = derived_setting(16, 4, jnp.float32(1.0), 1e-30)
    assert float(pure_epsilon(setting)) == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize(
    ("rate", "restart", "budget", "delta"),
    [(0.3, 0.5, 6, 1e-2), (0.05, 0.5, 6, 1e-3), (0.005, 0.01, 2, 1e-3), (0.3, 0.05, 3, 1e-2)],
)
def test_delta_of_the_exact_law(rate, restart, budget, delta):
    """Over all neighbours of small games, at the accountant's epsilon.

    Draws counted with half of their range spend more than delta in the first two games, and a coin
    that counts nothing does in the third.
    """
    horizon, arms = (5, 3) if budget > 2 else (3, 2)
    law = game_law(all_tables(horizon - 1, arms), rate, restart, budget)[1]
    tables = 2**arms
    law = law.reshape(*[tables] * (horizon - 1), -1)

    def shown(epsilon):
        return max(
            np.maximum(law - np.exp(epsilon) * np.roll(law, shift, axis), 0.0).sum(-1).max()
            for axis in range(horizon - 1)
            for shift in range(1, tables)
        )

    declared = float(derived_epsilon(setting_at(rate, restart, budget), delta))
    assert shown(declared) <= delta
    if budget == 6:
        assert shown(dartboard_epsilon(rate, restart, 1, budget, delta, width=1.0)) > delta
    if budget == 2:
        w = -np.log1p(-rate)
        assert shown(epsilon_of(ORDERS * w**2 / 2, delta)) > delta


def test_the_orders_are_close_enough():
    """128 orders give an epsilon within .5 % of that of 20000, for settings of all kinds."""
    dense = 1 + np.geomspace(1e-2, 1e6, 20_000)
    for rate, restart, budget in [(0.004, 0.01, 1365), (0.0025, 0.0052, 5461), (0.1, 0.3, 50)]:
        for delta in (1e-2, 1e-6, 1e-20):
            given = (rate, restart, 1, budget, delta)
            found, best = dartboard_epsilon(*given), dartboard_epsilon(*given, dense)
            assert best <= found <= best * 1.005


def test_a_coin_is_worst_at_loss_zero():
    """Among mean losses l and l + w, as the derivatives predict."""
    for eta, p in [(0.3, 0.3), (0.02, 0.01), (0.5, 0.5)]:
        at_zero = coin(eta, p)
        for loss in (0.1, 0.5, 2.0):
            assert (coin(eta, 1 - (1 - p) * (1 - eta) ** loss) < at_zero).all()


def test_probabilities_of_large_sums():
    """(1 - eta)^L for sums near 2^30 that differ by little, against float64."""
    whole = np.array([2**30, 2**30 + 1, 2**30 + 700], np.int32)
    part = np.array([0.75, 0.0, 0.5])
    exact = 0.99 ** (whole.astype(np.float64) + part - 2**30)
    units = (part * 2**30).astype(np.int32)
    sums = ExactSum(jnp.asarray(whole), jnp.asarray(units))
    p = jax.nn.softmax(logits(sums, jnp.float32(0.01)))
    np.testing.assert_allclose(p, exact / exact.sum(), rtol=1e-5)


@pytest.mark.usefixtures("quick_compilation")
def test_losses_outside_the_range_are_clipped_and_counted():
    """-3 acts as 0 and 7 as 1, with batches and without."""
    wild = jnp.array([[-3.0, 0.5, 7.0], [0.0, 1.0, 1.5], [0.2, 0.3, 0.4], [0.0, 1.0, 0.0]])
    for batch in (1, 2):
        learner = shrinking_dartboard(4, 3, epsilon=1.0, batch=batch)
        game = play_table(learner, wild, jr.key(0))
        tame = play_table(learner, jnp.clip(wild, 0.0, 1.0), jr.key(0))
        jax.tree.map(np.testing.assert_array_equal, game.states, tame.states)
        assert (game.clipped, tame.clipped) == (3, 0)


@pytest.mark.parametrize("shifts", [0.0, jnp.float32(0.0)])
def test_no_shifts_given_as_a_float_are_the_dartboard_draw_for_draw(shifts):
    """An arm recovers after losses at which its weight would be 0 in float32, e^-100."""
    rounds = 300
    losses = np.repeat([[0.0, 1.0], [1.0, 0.0]], rounds // 2, axis=0).astype(np.float32)
    keys = jr.split(jr.key(2), 20)
    given = {"epsilon": np.inf, "rate": 0.5, "restart": 0.5}
    plain, floating = (
        play(shrinking_dartboard(rounds, 2, shifts=x, **given), losses, keys)[1]
        for x in (0, shifts)
    )
    jax.tree.map(np.testing.assert_array_equal, plain.learned, floating.learned)
    p = jax.nn.softmax(logits(jax.tree.map(lambda x: x[0], floating.learned), 0.5))
    np.testing.assert_allclose(p, 0.5, rtol=1e-6)


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
