"""The private shrinking dartboard: its exact law and cost, batches, shifts, and formulas."""

import itertools
from fractions import Fraction
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import bounds, noise
from dpjax.learners._shrinking_dartboard import shrinking_dartboard
from dpjax.learners.parts import dartboard, fixed_share
from dpjax.learners.parts.dartboard import (
    Setting,
    coin_log_ratios,
    derived_setting,
    printed_epsilon,
    printed_setting,
    pure_epsilon,
)
from dpjax.maths import exact_sums
from tests.learners.test_hedge import play
from tests.play import play_table
from tests.renyi import dartboard_epsilon


def table(horizon, arms):
    return np.array(jr.uniform(jr.key(1), (horizon, arms)))


# Its cost, in float64.


def leave(eta, p, batch):
    """ln of the ratio of a draw's probabilities at mean loss 1 / B and at 0."""
    return np.log((1 - (1 - p) * (1 - eta) ** (1 / batch)) / p)


def keep(eta, batch):
    return np.log(1 / (1 - eta)) / batch


def spent(eta, p, batch, most, delta):
    """The worse of a coin's two sides, plus each draw after the first; or less at delta."""
    if most == 1:
        return 0.0
    pure = max(leave(eta, p, batch), keep(eta, batch)) + 2 * (most - 1) * keep(eta, batch)
    return min(pure, dartboard_epsilon(eta, p, batch, most, delta)) if delta else pure


def zcdp(eta, p, batch, most):
    """w^2 / 8 for each draw whose log-ratios lie in an interval of length w."""
    if most == 1:
        return 0.0
    coin = leave(eta, p, batch) + keep(eta, batch)
    return coin**2 / 8 + (most - 1) * (2 * keep(eta, batch)) ** 2 / 8


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
        exact = spent(rate, restart, 1, budget, delta)
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


def game_paths(means, rate, restart, budget, share=0.0):
    """(arms, number of draws, probabilities (count,)) of paths, on means (count, n - 1, K).

    A path also contains the rounds in which an arm was drawn, even if it was the same arm.
    """
    count, steps, arms = means.shape
    law = np.full((count, arms), 1 / arms)
    paths = [((x,), 1, np.full(count, 1 / arms)) for x in range(arms)]
    for t in range(steps):
        law = law * (1 - rate) ** means[:, t]
        law = (1 - share) * law / law.sum(1, keepdims=True) + share / arms
        longer = []
        for played, drawn, probability in paths:
            x = played[-1]
            jump = (1 - share) * np.eye(arms)[x] + share / arms
            keep = (1 - restart) * (1 - rate) ** means[:, t, x] if drawn < budget else 1.0
            for y in range(arms):
                longer.append(((*played, y), drawn, probability * keep * jump[y]))
                if drawn < budget:
                    drawn_anew = probability * (1 - keep) * law[:, y]
                    longer.append(((*played, y), drawn + 1, drawn_anew))
        paths = longer
    return paths


def game_law(means, rate, restart, budget, share=0.0):
    """Different arms of paths, (m, n), and their probabilities, (m, count)."""
    paths = game_paths(means, rate, restart, budget, share)
    names, index = np.unique([path[0] for path in paths], axis=0, return_inverse=True)
    merged = np.zeros((len(names), len(means)))
    np.add.at(merged, index.ravel(), np.stack([path[2] for path in paths]))
    return names, merged


def worst_log_ratio(law, rows, steps, batch):
    """The largest log-ratio of arms between tables that differ in one round of one batch."""
    possible = law[law.any(axis=1)]
    logs = np.log(possible).reshape(-1, *[len(rows)] * steps)
    near = (np.abs(rows[:, None] - rows) <= 1 / batch + 1e-9).all(-1)
    worst = 0.0
    for axis in range(1, steps + 1):
        by_row = np.moveaxis(logs, axis, 0)
        for one, other in np.argwhere(near):
            worst = max(worst, (by_row[one] - by_row[other]).max())
    return worst


@pytest.mark.parametrize("share", [0.0, 0.02])
@pytest.mark.parametrize(("horizon", "batch", "arms"), [(6, 2, 3), (6, 3, 2), (5, 1, 2)])
def test_log_ratios_of_all_small_games(horizon, batch, arms, share):
    """All 0/1 loss sequences in batches: within the formula, and somewhere above half of it."""
    steps = horizon // batch - 1
    rows = np.array(list(itertools.product(np.arange(batch + 1) / batch, repeat=arms)))
    tables = rows[np.array(list(itertools.product(range(len(rows)), repeat=steps)))]
    tightest = 0.0
    for rate, restart in [(0.45, 0.45), (0.3, 0.05), (0.05, 0.2)]:
        for budget in range(2, steps + 2):
            setting = Setting(jnp.float32(rate), jnp.float32(restart), jnp.int32(budget))
            claimed = float(pure_epsilon(setting, jnp.float32(batch)))
            law = game_law(tables, rate, restart, budget, share)[1]
            shown = worst_log_ratio(law, rows, steps, batch)
            assert shown <= claimed * (1 + 1e-5)
            tightest = max(tightest, shown / claimed)
    assert tightest > 0.5


@pytest.mark.parametrize("shifts", [0, 1.5])
@pytest.mark.parametrize("epsilon", [4.0, np.inf])
def test_games_have_the_exact_law(epsilon, shifts):
    """40 000 games of 8 rounds in batches of 2, by chi-square; a wrong rate is rejected."""
    games, horizon, arms, batch = 40_000, 8, 3, 2
    losses = np.array(jr.uniform(jr.key(1), (horizon, arms)))
    losses[:, 0] *= 0.1
    learner = shrinking_dartboard(
        horizon, arms, epsilon=epsilon, rate=0.5, restart=0.5, batch=batch, shifts=shifts
    )
    run = jax.jit(jax.vmap(lambda key: play_table(learner, losses, key).actions))
    played = np.asarray(run(jr.split(jr.key(2), games)))
    blocks = played[:, :-1].reshape(games, horizon // batch, batch)
    assert (blocks == blocks[:, :, :1]).all()
    setting = derived_setting(horizon, arms, epsilon, None, 0.5, 0.5, jnp.float32(batch))
    rate, restart, budget = (float(x) for x in setting)
    means = losses.reshape(horizon // batch, batch, arms).mean(1)[None, :-1]
    share = shifts / (horizon // batch - 1)
    code = np.ravel_multi_index(tuple(blocks[:, :, 0].T), (arms,) * 4)
    counts = np.bincount(code, minlength=arms**4)

    def pvalue(rate):
        names, law = game_law(means, rate, restart, budget, min(share, 0.5))
        expected = np.zeros(arms**4)
        expected[np.ravel_multi_index(tuple(names.T), (arms,) * 4)] = games * law[:, 0]
        order = np.argsort(expected)  # rare paths are counted together
        cells = np.maximum.accumulate(np.cumsum(expected[order]) // 50).astype(int)
        seen, wanted = (np.bincount(cells, x[order]) for x in (counts, expected))
        return stats.chisquare(seen[wanted > 0], wanted[wanted > 0]).pvalue

    assert pvalue(rate) > 1e-3
    assert pvalue(0.6 * rate) < 1e-6


def test_printed_batches():
    """B, p and eta of Corollary 6, and its epsilon by Theorem 5: it omits a root of 12."""
    horizon, arms, epsilon, delta = 2**18, 10, 0.1, 1e-6
    learner = shrinking_dartboard(
        horizon, arms, epsilon=epsilon, delta=delta, calibration="printed", batch=None
    )
    log = np.log(1 / delta)
    batch = round(log**0.4 * np.log(arms) ** 0.6 * horizon**-0.2 * epsilon**-0.6)
    assert int(learner.init(jr.key(0))[1].rounds) == batch
    p = (batch / (horizon * log)) ** (1 / 3)
    eta = batch * p * epsilon / 40
    paper = 5 * eta / (batch * p) + 100 * horizon * p * eta**2 / batch**3
    paper += 20 * eta / batch * np.sqrt(12 * horizon * p / batch * log)
    assert float(learner.privacy.paper_epsilon) == pytest.approx(paper, rel=1e-4)
    assert float(learner.privacy.epsilon) < epsilon < 1.8 * epsilon < paper < 1.9 * epsilon


def test_the_best_batch_is_traced_with_epsilon():
    """Without privacy it is 1; it grows as epsilon falls."""

    def batch(epsilon):
        learner = shrinking_dartboard(2**14, 10, epsilon=epsilon, batch=None)
        return learner.init(jr.key(0))[1].rounds

    found = jax.jit(jax.vmap(batch))(jnp.float32([0.05, 0.1, 1.0, np.inf]))
    assert found[-1] == 1 and (np.diff(found) <= 0).all() and found[1] == 48


# Horizon, arms, epsilon, delta, batch and shifts of the games.
GAMES = [
    (2**12, 10, 0.3, None, 8, 0.0),
    (2**12, 10, 1.0, None, 3, 4.0),
    (1000, 3, 4.0, None, 1, 2.0),
    (2**14, 100, 0.2, 1e-6, 12, 0.0),
    (2**14, 10, 1.0, 1e-6, 1, 3.0),
    (2**14, 10, 30.0, 1e-3, 4, 0.0),
]


def path_cost(rounds, arms, shifts):
    """-ln of the probability of a path with this many shifts, at the share S / (n - 1)."""
    share = min(shifts / (rounds - 1), 0.5)
    moved = shifts * np.log(share / arms) if shifts else 0.0
    return np.log(arms) - moved - (rounds - 1 - shifts) * np.log(1 - share + share / arms)


def bound(horizon, arms, eta, p, batch, shifts):
    steps = horizon // batch
    learning = batch * path_cost(steps, arms, shifts) / eta + shifts * batch / 2
    return eta * horizon + learning + 2 * horizon * np.exp(-steps * p / 3)


def tuned(horizon, arms, epsilon, delta, batch, shifts):
    """(eta, p, M) with the largest eta that is useful and allowed, found by bisection."""
    steps = horizon // batch
    best = steps ** (-1 / 3) / 3 if delta else 1 / np.sqrt(8 * steps)

    def at(eta):
        p = max(eta, min(best, 0.5))
        return eta, p, int(np.clip(np.floor(4 * steps * p), 1, -(-horizon // batch)))

    def cost(eta):
        eta, p, most = at(eta)
        return spent(eta, p, batch, most, delta)

    high = min(np.sqrt(batch * path_cost(steps, arms, shifts) / horizon), 0.5)
    if cost(high) <= epsilon:
        return at(high)
    low = 1e-12
    for _ in range(60):
        middle = np.sqrt(low * high)
        low, high = (middle, high) if cost(middle) <= epsilon else (low, middle)
    return at(low)


@pytest.mark.parametrize("game", GAMES, ids=str)
def test_learners_declare_the_largest_rate_that_epsilon_allows(game):
    """The declared epsilon and rho are those of (eta, p, M)."""
    horizon, arms, epsilon, delta, batch, shifts = game
    declared = shrinking_dartboard(
        horizon, arms, epsilon=epsilon, delta=delta, batch=batch, shifts=shifts or 0
    ).privacy
    eta, p, most = tuned(*game)
    exact = spent(eta, p, batch, most, delta), zcdp(eta, p, batch, most)
    np.testing.assert_allclose(
        [float(x) for x in (declared.epsilon, declared.rho)], exact, rtol=2e-3
    )


@pytest.mark.parametrize("arms", [2, 3])
def test_the_cost_of_a_path_is_its_prior(arms):
    """By the product of the chain's transition probabilities along a path of six rounds."""
    rounds, shifts = 6, 2
    share = shifts / (rounds - 1)
    chain = (1 - share) * np.eye(arms) + share / arms
    prior = np.prod([chain[x, y] for x, y in itertools.pairwise([0, 0, 1, 1, 0, 0])]) / arms
    assert path_cost(rounds, arms, shifts) == pytest.approx(-np.log(prior), rel=1e-12)
    found = fixed_share.complexity(
        jnp.float32(rounds), arms, shifts, fixed_share.share_for(jnp.float32(rounds), shifts)
    )
    assert float(found) == pytest.approx(-np.log(prior), rel=1e-4)


def closed_bound(horizon, arms, epsilon):
    """The bound at p = eta = 1 / (2 sqrt(epsilon T)) and B = 2 / epsilon."""
    eta = 1 / (2 * np.sqrt(epsilon * horizon))
    return bound(horizon, arms, eta, eta, 2 / epsilon, 0.0)


@pytest.mark.parametrize(
    ("formula", "ours", "cases"),
    [
        (partial(bound, shifts=0.0), bounds.shrinking_dartboard,
         [(4096, 5, 0.02, 0.1, 7), (4096, 5, 0.1, 0.1, 1), (100, 2, 0.1, 0.5, 9)]),
        (closed_bound, bounds.shrinking_dartboard_batched,
         [(2**18, 10, 0.125), (2**16, 1000, 1.0), (2**12, 2, 2.0)]),
    ],
)  # fmt: skip
def test_bounds(formula, ours, cases):
    for case in cases:
        assert ours(*case) == pytest.approx(formula(*case), rel=1e-9)


@pytest.mark.parametrize("delta", [None, 1e-6])
@pytest.mark.parametrize(("horizon", "epsilon"), [(2**14, 0.1), (2**18, 1.0)])
def test_the_best_batch_by_a_search_of_our_own(horizon, epsilon, delta):
    found = {}
    for size in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128):
        eta, p, _ = tuned(horizon, 10, epsilon, delta, size, 0.0)
        found[size] = bound(horizon, 10, eta, p, size, 0.0)
    best = min(found, key=found.get)
    setting, size = dartboard.best_setting(horizon, 10, jnp.float32(epsilon), delta)
    assert float(size) == best
    eta, p = float(setting.rate), float(setting.restart)
    ours = bounds.shrinking_dartboard(horizon, 10, eta, p, best)
    assert float(ours) == pytest.approx(found[best], rel=2e-3)
