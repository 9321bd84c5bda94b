"""The shrinking dartboard and probing experts: exact laws and costs, batches, and formulas."""

import itertools
from fractions import Fraction
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import audit, bounds, learners, noise
from dpjax.feedback import contextual
from dpjax.learners._shrinking_dartboard import shrinking_dartboard
from dpjax.learners.parts import dartboard, fixed_share, probing
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
def test_printed_setting_of_the_shrinking_dartboard(horizon):
    """The corollaries' eta and p for epsilon <= 1, by hand; epsilon is at most the given one."""
    for epsilon, delta in itertools.product([1e-3, 0.3, 1.0], [None, 1e-6, 1e-3]):
        setting = dartboard.printed_setting(horizon, 4, jnp.float32(epsilon), delta)
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
        assert exact < float(dartboard.printed_epsilon(horizon, setting, delta))
        assert learner.privacy.calibration == "printed" and float(learner.privacy.rho) > 0
        assert (
            rate
            < float(dartboard.derived_setting(horizon, 4, jnp.float32(epsilon), delta).rate) / 2
        )


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
    setting = dartboard.printed_setting if calibration == "printed" else dartboard.derived_setting
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
    setting = dartboard.derived_setting(horizon, 2, jnp.float32(epsilon), None)
    seen = []

    def toss(key, parts):
        seen.append(np.asarray(parts))
        return jnp.bool(True)

    monkeypatch.setattr(noise, "coin", toss)
    state, _ = learner.init(jr.key(0))
    for loss in np.linspace(0.0, 1.0, 9, dtype=np.float32):
        learner.step(state, jr.key(1), jnp.full(2, loss))
    units = [sum(Fraction(round(Fraction(float(x)) * 2**60), 2**60) for x in p) for p in seen]
    charged, keep = (float(x) for x in dartboard.coin_log_ratios(setting))
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
            setting = dartboard.Setting(jnp.float32(rate), jnp.float32(restart), jnp.int32(budget))
            claimed = float(dartboard.pure_epsilon(setting, jnp.float32(batch)))
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
    setting = dartboard.derived_setting(horizon, arms, epsilon, None, 0.5, 0.5, jnp.float32(batch))
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


pytestmark = pytest.mark.usefixtures("quick_compilation")

# E, a row for each of three experts on two arms.
ADVICE = np.array([[1.0, 0.0], [0.25, 0.75], [0.0, 1.0]], np.float32)
EXPERTS, ARMS = ADVICE.shape


def setting_of(weight=0.2, restart=0.2, budget=3, batch=1.0, mixing=1.0):
    numbers = (jnp.float32(weight), jnp.float32(restart), jnp.int32(budget))
    return probing.Setting(*numbers, jnp.float32(batch), jnp.float32(mixing))


def fixed(monkeypatch, setting, horizon=16, **changes):
    """The learner at a setting, which declares what it costs; ``changes`` are not declared."""
    monkeypatch.setattr(probing, "best_setting", lambda *sizes: setting._replace(**changes))
    monkeypatch.setattr(probing, "throws", lambda played, own=probing.throws: own(setting))
    return learners.probing_experts(horizon, ARMS, EXPERTS, epsilon=1.0)


# The exact law ----------------------------------------------------------------------------------


def all_tables(rounds, arms):
    """All 0/1 loss tables (rounds, arms), with the last row varying fastest."""
    rows = np.array(list(itertools.product([0.0, 1.0], repeat=arms)))
    return rows[np.array(list(itertools.product(range(len(rows)), repeat=rounds)))]


def largest_log_ratio(weight, restart, budget, rounds=3):
    """Of all sequences of experts and draws.

    A batch has one probe, which moves the sums of some of three experts by 1. A replaced loss moves
    all that its arm's advice names the same way.
    """
    paths = game_paths(all_tables(rounds, 3), -np.expm1(-weight), restart, budget)
    logs = np.log(np.stack([law for *_, law in paths if law.all()], axis=1)).reshape(
        *[8] * rounds, -1
    )
    rows = all_tables(1, 3)[:, 0]
    return max(
        np.abs(np.take(logs, i, axis) - np.take(logs, j, axis)).max()
        for axis in range(rounds)
        for i, j in np.ndindex(8, 8)
        if (rows[i] <= rows[j]).all()
    )


def declared_at(*parameters):
    return float(dartboard.pure_epsilon(probing.throws(setting_of(*parameters)), spread=1.0))


@pytest.mark.parametrize("parameters", [(0.2, 0.2, 3), (0.2, 0.2, 2), (0.7, 0.5, 3), (0.1, 0.5, 4)])
def test_all_sequences_of_a_small_game_are_within_the_declared_epsilon(parameters):
    """Half the weight is too little."""
    weight, *rest = parameters
    found = largest_log_ratio(*parameters)
    assert declared_at(weight / 2, *rest) < found <= declared_at(*parameters) * (1 + 1e-6)


# Estimates and steps ----------------------------------------------------------------------------


def test_estimates_of_probing_experts_are_unbiased_and_use_probes_alone(monkeypatch):
    """The mean of K / gamma E_ia l_a over 2^14 rounds is <E_i, l>, within 4 standard errors."""
    runs, mixing, loss = 2**14, 0.25, np.array([0.9, 0.2], np.float32)
    learner = fixed(monkeypatch, setting_of(budget=1, batch=1.0, mixing=mixing), horizon=1)

    def learned(key):
        first, second = jr.split(key)
        state, policy = learner.init(first)
        seen = contextual((jnp.asarray(ADVICE.T), jnp.asarray(loss)), policy)
        return exact_sums.to_float(learner.step(state, second, seen)[0].learned)

    found = np.asarray(jax.jit(jax.vmap(learned))(jr.split(jr.key(1), runs))) * ARMS / mixing
    error = found.std(axis=0, ddof=1) / np.sqrt(runs)
    assert (np.abs(found.mean(axis=0) - ADVICE @ loss) < 4 * error).all()
    probed = found.any(axis=1)
    assert abs(probed.mean() - mixing) < 4 * np.sqrt(mixing / runs)


def test_rounds_of_probing_experts_by_hand(monkeypatch):
    """Batches of three rounds: the arguments of coins and draws, in float64."""
    setting = setting_of(0.3, 0.1, 3, batch=3.0, mixing=0.5)
    learner, eta = fixed(monkeypatch, setting), 0.3 * 3.0 * 0.5 / ARMS
    assert float(learner.report(learner.init(jr.key(0))[0]).rate) == pytest.approx(eta)
    asked, drawn = [], []
    monkeypatch.setattr(noise, "coin", lambda key, p: asked.append(p) or jnp.bool(True))
    two = jnp.int32(2)
    monkeypatch.setattr(noise, "categorical", lambda key, logits: drawn.append(logits) or two)
    state, policy = learner.init(jr.key(3))
    assert np.all(drawn.pop() == 0.0) and state.expert == 2
    state = state._replace(expert=jnp.int32(1))
    total, batch, played = np.zeros(EXPERTS), np.zeros(EXPERTS), []
    rng = np.random.default_rng(0)
    for t in range(1, 13):
        loss = rng.uniform(size=ARMS).astype(np.float32)
        expert, probes, arm = int(state.expert), bool(state.probes), int(policy(ADVICE.T))
        mixture = policy.args[0]
        assert float(mixture.mixing) == float(probes)
        if not probes:
            assert mixture.weights[expert] == 1.0 and mixture.weights.sum() in (0.0, 1.0)
        played.append(probes)
        batch += probes * ADVICE[:, arm] * loss[arm] * ARMS / 0.5
        seen = jnp.asarray(ADVICE[:, arm]), jnp.float32(loss[arm])
        state, policy = learner.step(state, jr.key(t), seen)
        coin, logits = np.asarray(asked.pop(), np.float64), np.asarray(drawn.pop(), np.float64)
        if t % 3:
            np.testing.assert_array_equal(coin[1], 0.0)
            continue
        y, batch = batch / 3.0, np.zeros(EXPERTS)
        total += y
        np.testing.assert_allclose(coin, [0.1, 0.9 * -np.expm1(-eta * y[expert])], rtol=1e-5)
        np.testing.assert_allclose(logits, -eta * (total - total.min()), atol=1e-5)
        # Of three draws the first two are granted, the first expert among them.
        assert learner.report(state)[:2] == (min(t // 3, 2), max(t // 3 - 2, 0))
    assert 0 < sum(played) < 12


# Privacy by replays -----------------------------------------------------------------------------


def test_advice_beyond_1_is_clipped(monkeypatch):
    """The range of a probe does not depend on the environment."""
    learner = fixed(monkeypatch, setting_of(0.2, 0.5, 3))
    advice = jnp.broadcast_to(7.0 * jnp.eye(EXPERTS)[:ARMS], (16, ARMS, EXPERTS))
    losses = jnp.ones((16, ARMS))
    pair = audit.Pair((advice, losses), (advice, losses.at[0].set(0.0)))
    spent = audit.spent(audit.replay(learner, pair, jr.key(3)), learner.privacy.delta)
    assert float(spent) <= float(learner.privacy.epsilon) * (1 + 1e-6)


# Parameters -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("horizon", "epsilon", "delta"),
    [
        *itertools.product([2**14], [0.05, 1.0, np.inf], [None, 1e-6]),
        *itertools.product([1, 2, 2**31 - 1], [1e-12, 1e4], [None]),
    ],
)
def test_the_setting_of_probing_experts_is_private_and_the_largest_or_of_no_use(
    horizon, epsilon, delta
):
    """Its epsilon in float64, which 1 % more would exceed; or else w minimizes the bound."""
    arms, experts = 4, 16
    setting = probing.best_setting(horizon, arms, experts, jnp.float32(epsilon), delta)
    w, p, budget, batch, gamma = (float(x) for x in setting)
    declared = learners.probing_experts(horizon, arms, experts, epsilon=epsilon, delta=delta)

    def exact(w):
        if budget <= 1:
            return 0.0
        leave = np.log1p((1 - p) * -np.expm1(-w) / p)
        pure = max(leave, w) + (budget - 1) * w
        if delta is None:
            return pure
        return min(pure, dartboard_epsilon(-np.expm1(-w), p, 1, budget, delta, width=1.0))

    assert float(declared.privacy.epsilon) == pytest.approx(exact(w), rel=1e-4)
    assert exact(w) <= epsilon * (1 + 1e-4)
    useful = float(probing.useful_weight(horizon, arms, experts, batch, gamma))
    assert exact(1.01 * w) > epsilon or w == pytest.approx(useful, rel=1e-5) or budget <= 1
    if horizon != 2**14:
        return
    if np.isinf(epsilon):
        assert budget == np.ceil(horizon / batch) and w == pytest.approx(useful, rel=1e-6)
    else:
        wanted = np.floor(4 * np.floor(horizon / batch) * p)
        assert budget == min(wanted, np.ceil(horizon / batch))


def test_the_bound_of_probing_experts_by_hand():
    horizon, arms, experts, epsilon = 2**14, 4, 16, 0.5
    setting = probing.best_setting(horizon, arms, experts, jnp.float32(epsilon), None)
    w, p, budget, batch, gamma = (float(x) for x in setting)
    eta, n = w * batch * gamma / arms, horizon // batch
    mean = n * (p + eta)
    chernoff = np.exp(budget - mean - budget * np.log(budget / mean))
    assert stats.binom.sf(budget - 1, n, p + eta) <= chernoff < 1.0
    by_hand = batch * np.log(experts) / eta + gamma * horizon + horizon * chernoff
    by_hand += eta * horizon * (1 + arms / (gamma * batch)) / 2
    found = bounds.probing_experts(horizon, arms, experts, eta, p, batch, gamma)
    assert found == pytest.approx(by_hand, rel=1e-6)
    traced = probing.regret_bound(horizon, arms, experts, setting)
    assert float(traced) == pytest.approx(by_hand, rel=1e-3)
