"""Linear elimination: radii, a NumPy reference of whole games, releases, and both engines."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import optimize, stats

from dpjax import bounds, environments, noise, simulate, simulate_batches, sweep
from dpjax.combinators import rescale_losses
from dpjax.core import BatchLearner
from dpjax.feedback import seen_inside
from dpjax.learners import linear_elimination
from dpjax.learners.linear_elimination import (
    chernoff_radius,
    exact_radii,
    log_term,
    noise_tilt,
    noise_width,
    phase_length,
    printed_radius,
)
from dpjax.learners.parts import elimination, elimination_phases
from dpjax.maths import designs, exact_sums
from tests.learners.batches import changes_of_releases, reusing, told_sums, with_pulls
from tests.learners.given_noise import laplace_draws, losses_of_games, many_games

MODULE = importlib.import_module("dpjax.learners.linear_elimination")
# Seven actions in the plane, no two of the same length; rewards <THETA, a> in [-1, 1].
ACTIONS = np.array(
    [[1.0, 0.1], [0.7, 0.6], [-0.2, 0.9], [-0.95, 0.2], [-0.5, -0.7], [0.3, -0.85], [0.4, 0.3]]
)
THETA = np.array([0.8, 0.5])
MEANS = 0.5 - 0.5 * ACTIONS @ THETA
ARMS = len(ACTIONS)
SLOW = pytest.mark.slow


# --- radii ---


def tail(u, count, term):
    return (term - count * np.log1p(-(u**2))) / u


def test_the_tilt_is_within_one_percent_of_the_best():
    """For N draws and failures e^-L, N from 1 to 10^9 and L from 2 to 100."""
    for count in 10.0 ** np.arange(0, 10):
        for term in (2.0, 10.0, 40.0, 100.0):
            best = optimize.minimize_scalar(
                lambda u, c=count, t=term: tail(u, c, t), bounds=(1e-5, 1 - 1e-9), method="bounded"
            ).fun
            assert tail(float(noise_tilt(count, term)), count, term) <= 1.01 * best


def test_noise_width_covers_the_noise():
    """P(sum_a c_a z_a > width) <= e^-L for L = 3, but not for 0.4 of the width; 10^5 draws."""
    random = np.random.default_rng(0)
    for draws in ([1, 1, 1, 1], [1, 0, 0, 1], [40, 3, 1, 0]):
        coefficients = np.array([0.3, -1.2, 0.6, 0.9])
        gamma = random.gamma(np.maximum(draws, 1e-9), size=(100_000, 4))
        sums = np.sqrt(2 * gamma) * random.normal(size=gamma.shape) * (np.array(draws) > 0)
        total = sums @ coefficients / 0.5
        width = noise_width(
            jnp.asarray(coefficients, jnp.float32), jnp.asarray(draws, jnp.float32), 3.0, 0.5
        )
        assert np.mean(total > float(width)) <= np.exp(-3.0)
        assert np.mean(total > 0.4 * float(width)) > np.exp(-3.0)


def test_noise_width_by_hand():
    """One draw; many equal draws; no draw; and none at epsilon = inf."""

    def width(coefficients, draws, epsilon=2.0):
        arrays = (jnp.asarray(x, jnp.float32) for x in (coefficients, draws))
        return float(noise_width(*arrays, jnp.float32(30.0), epsilon))

    u = np.sqrt(30 / 31)
    assert width([-0.5, 7.0], [1, 0]) == pytest.approx(0.5 * tail(u, 1, 30) / 2, rel=1e-5)
    u = np.sqrt(30 / 33)
    assert width([0.5] * 3, [1, 1, 1]) == pytest.approx(0.5 * tail(u, 3, 30) / 2, rel=1e-5)
    # Far more draws than L: a Gaussian of variance 2 n / epsilon^2.
    assert width([1.0, 0.0], [1e8, 0]) == pytest.approx(np.sqrt(2 * 2e8 * 30) / 2, rel=1e-3)
    assert width([0.0, 0.0], [1, 1]) == 0.0
    assert width([1.0, 2.0], [1, 1], np.inf) == 0.0
    assert width([1.0, 2.0], [1, 1], 1e-9) == pytest.approx(width([1.0, 2.0], [1, 1], 1.0) * 1e9)


def test_printed_and_chernoff_radius_by_hand():
    """Golden numbers in float64.

    The coefficient of L / epsilon is 2 d in print, and larger by Chernoff's bound; the same at
    epsilon = inf.
    """
    length, dim, core, term = 3000.0, 3, 5, 30.0
    plain = np.sqrt(4 * 3 * 30 / 3000)
    printed = plain + (2 * 5 * 3 + 2 * 3 * 30) / (0.1 * 3000)
    assert float(printed_radius(length, dim, core, term, 0.1)) == pytest.approx(printed, rel=1e-6)
    u = np.sqrt(30 / 35)
    chernoff = plain + 2 * 3 / 3000 * tail(u, 5, 30) / 0.1
    assert float(chernoff_radius(length, dim, core, term, 0.1)) == pytest.approx(chernoff, rel=1e-5)
    # At L = N it is the simple choice u = 1 / sqrt(2): 2.83 d L + 1.96 d N, over epsilon q^i.
    simple = (2.828427 * 3 * 30 + 1.960516 * 3 * 30) / (0.1 * 3000)
    assert float(chernoff_radius(length, dim, 30.0, term, 0.1)) - plain == pytest.approx(
        simple, rel=1e-5
    )
    for radius in (printed_radius, chernoff_radius):
        assert float(radius(length, dim, core, term, np.inf)) == pytest.approx(plain, rel=1e-6)
    local = float(chernoff_radius(length, dim, core, term, 0.1, local=True)) - plain
    u = np.sqrt(30 / 530)
    assert local == pytest.approx(2 * 3 / 3000 * tail(u, 500, 30) / 0.1, rel=1e-5)


def test_exact_radii_of_arms_by_hand():
    """Unit vectors: sqrt(L / (2 n)) and one Laplace draw of scale 1 / (epsilon n)."""
    pulls = np.array([4.0, 8.0, 0.0])
    products = np.diag([1 / 4, 1 / 8, 0.0])
    u = np.sqrt(20 / 21)
    radii = exact_radii(*(jnp.asarray(x, jnp.float32) for x in (products, pulls)), 20.0, 0.5)
    n = pulls[:2]
    np.testing.assert_allclose(
        radii[:2], np.sqrt(20 / (2 * n)) + tail(u, 1, 20) / (0.5 * n), rtol=1e-5
    )
    assert radii[2] == 0.0


def least_squares(actions, active, pulls):
    """x' V^-1 a in float64, (K, K); 0 for inactive actions."""
    chosen = np.where(active[:, None], actions, 0.0)
    information = chosen.T @ (pulls[:, None] * chosen)
    return chosen @ np.linalg.pinv(information, 1e-9, hermitian=True) @ chosen.T


def radii_by_hand(
    kind, products, pulls, active, phase, horizon, dim, epsilon, local=False, shrink=1.0
):
    """gamma_a in float64, with shrink L instead of L."""
    q = (2 * horizon) ** (1 / np.log(horizon))
    term = shrink * np.log(4 * active.sum() * horizon**2)
    core = (pulls > 0).sum()
    plain = np.sqrt(4 * dim * term / q**phase)
    largest = 2 * dim / q**phase
    if kind == "printed":
        gamma = plain + (2 * dim * core + 2 * dim * term) / (epsilon * q**phase)
        return np.full(len(pulls), gamma)
    if kind == "chernoff":
        count = 1 / largest if local else core
        u = np.sqrt(term / (term + count))
        return np.full(len(pulls), plain + largest * tail(u, count, term) / epsilon)
    draws = pulls if local else (pulls > 0).astype(float)
    radii = []
    for row, leverage in zip(products, np.diag(products), strict=True):
        size = np.abs(row) * (draws > 0)
        c = max(size.max(), 1e-30)
        count = np.sum(draws * (size / c) ** 2)
        u = np.sqrt(term / (term + count))
        width = (term - np.sum(draws * np.log1p(-((u * size / c) ** 2)))) * size.max() / u / epsilon
        radii.append(np.sqrt(leverage * term / 2) + width)
    return np.array(radii)


@pytest.mark.parametrize("local", [False, True])
def test_radii_are_ordered(local):
    """exact <= chernoff for every arm of random designs; printed < chernoff except at inf."""
    random = np.random.default_rng(1)
    for _ in range(40):
        actions = random.normal(size=(9, 3))
        active = random.random(9) < 0.7
        active[:4] = True
        phase, epsilon = int(random.integers(1, 18)), 10 ** random.uniform(-3, 2)
        weights = near_optimal(jnp.asarray(actions, jnp.float32), jnp.asarray(active))
        length = float(phase_length(phase, 10**8))
        pulls = np.ceil(np.asarray(weights, float) * length)
        products = least_squares(actions, active, pulls)
        arguments = (products, pulls, active, phase, 10**8, 3, epsilon)
        exact = radii_by_hand("exact", *arguments, local=local)[active]
        chernoff = radii_by_hand("chernoff", *arguments, local=local)[active]
        assert (exact <= chernoff * (1 + 1e-3)).all()
        computed = exact_radii(
            jnp.asarray(products, jnp.float32), jnp.asarray(pulls, jnp.float32),
            log_term(jnp.float32(active.sum()), 10**8), epsilon, local=local,
        )  # fmt: skip
        np.testing.assert_allclose(computed[active], exact, rtol=2e-3)
        if not local:
            printed = radii_by_hand("printed", *arguments)[active]
            assert (printed < chernoff).all()


def test_lengths_of_the_phases():
    """q = (2T)^(1 / ln T); phases up to ln T - 1 have at most 1.1 T rounds in total."""
    for horizon in (100, 10**5, 10**9):
        q = (2 * horizon) ** (1 / np.log(horizon))
        lengths = [float(phase_length(i, horizon)) for i in range(1, 25)]
        np.testing.assert_allclose(lengths, q ** np.arange(1, 25), rtol=1e-5)
        first = int(np.log(horizon)) - 1
        assert sum(lengths[:first]) < 1.11 * horizon < 1.3 * sum(lengths[: first + 1])


# --- a reference in NumPy ---


@pytest.fixture
def in_order(monkeypatch):
    """The arms of a phase play in order of their numbers, not at random."""
    for module in (elimination, elimination_phases):
        monkeypatch.setattr(module, "smallest", lambda key, x: jnp.argmin(x).astype(jnp.int32))


SHRINK = 0.1  # of L; otherwise no arm leaves in games short enough for a test


@pytest.fixture
def small_radii(monkeypatch):
    monkeypatch.setattr(MODULE, "log_term", lambda *arguments: SHRINK * log_term(*arguments))


near_optimal = jax.jit(designs.g_optimal)


def reference(losses, draws, kind, epsilon):
    """Arms of one game (T,), with the i-th draw in the i-th noisy sum; and the masks met."""
    horizon = len(losses)
    points = designs.span_coordinates(ACTIONS)
    q = (2 * horizon) ** (1 / np.log(horizon))
    active, played, phase, draws = np.ones(ARMS, bool), [], 1, iter(draws)
    estimates, masks = np.zeros(ARMS), []
    while True:
        weights = near_optimal(jnp.asarray(points, jnp.float32), jnp.asarray(active))
        pulls = np.ceil(np.asarray(weights, np.float64) * q**phase).astype(int)
        if active.sum() == 1 or pulls.sum() > horizon - len(played):
            best = int(np.argmin(np.where(active, estimates, np.inf)))
            return np.array(played + [best] * (horizon - len(played))), masks
        masks.append(tuple(active))
        sums = np.zeros(ARMS)
        for arm in np.flatnonzero(pulls):
            seen = losses[len(played) : len(played) + pulls[arm], arm]
            sums[arm] = np.sum(seen - 0.5) + next(draws) / epsilon
            played += [arm] * pulls[arm]
        products = least_squares(points, active, pulls)
        estimates = products @ sums
        gamma = radii_by_hand(
            kind, products, pulls, active, phase, horizon, 2, epsilon, shrink=SHRINK
        )
        least = np.min((estimates + gamma)[active])
        active = active & (estimates - gamma <= least)
        phase += 1


@pytest.mark.parametrize(
    "kind", ["exact", *(pytest.param(kind, marks=SLOW) for kind in ("chernoff", "printed"))]
)
def test_games_by_hand(kind, in_order, small_radii):
    """Whole games equal the NumPy reference, arm by arm, with the same noise."""
    horizon, games, epsilon = 3000, 12, 2.0
    losses = losses_of_games(1, games, horizon, MEANS)
    draws = laplace_draws(2, games, 32)

    def make():
        return linear_elimination(horizon, ACTIONS, epsilon=epsilon, radius=kind)

    arms, _ = many_games(make, 3, losses, draws)
    met = set()
    for table, row, mine in zip(losses, draws, arms, strict=True):
        expected, masks = reference(
            np.asarray(table, np.float64), np.asarray(row, np.float64), kind, epsilon
        )
        np.testing.assert_array_equal(mine, expected)
        met |= set(masks)
    assert len(met) >= 3  # arms leave, at different times in different games


# --- what is released ---


@pytest.mark.slow
@pytest.mark.parametrize("wrap", [lambda learner: learner, reusing])
def test_each_loss_enters_one_release_with_sensitivity_one(wrap, small_radii):
    """Each round's loss is replaced in turn, with fixed releases: one sum changes, by 1.

    The noise scale is 1 / epsilon. Learners that reuse losses are found.
    """
    horizon, epsilon = 300, 0.5
    losses = losses_of_games(4, 1, horizon, MEANS)[0]
    released = jr.normal(jr.key(6), (64,)) * 5.0

    def make():
        return wrap(linear_elimination(horizon, ACTIONS, epsilon=epsilon))

    ends, scales, change = changes_of_releases(make, losses, released, jr.key(5))
    assert len(ends) >= 8
    np.testing.assert_array_equal(scales, 1 / epsilon)
    uses = (change > 0).sum(axis=1)
    if wrap is reusing:
        assert uses.max() == 2
        return
    np.testing.assert_array_equal(change.max(axis=1), 1.0)
    np.testing.assert_array_equal(uses, 1)


def first_releases(law):
    """The first noisy sum of 20 000 learners minus the exact sum, at epsilon 1/4 and inf."""

    def release(key, epsilon):
        learner = linear_elimination(10**4, ACTIONS, epsilon=epsilon, noise=law)
        start, step = jr.split(key)
        state, batch = learner.init(start)
        after, _ = learner.step(state, step, exact_sums.of(1.0))
        noise = jnp.sum(after.stage.kept) - (1.0 - 0.5 * batch.rounds.astype(jnp.float32))
        return noise, batch.rounds

    each = jax.vmap(jax.vmap(release, (0, None)), (None, 0))
    drawn, rounds = jax.jit(each)(jr.split(jr.key(7), 20_000), jnp.array([0.25, jnp.inf]))
    assert (rounds == 2).all()
    return np.asarray(drawn, np.float64)


def one_draw(x):
    """Distribution function of a Laplace draw of scale 4."""
    return stats.laplace(scale=4.0).cdf(x)


def two_draws(x):
    """Distribution function of the sum of two such draws."""
    tail = np.exp(-np.abs(x / 4)) * (2 + np.abs(x / 4)) / 4
    return np.where(x < 0, tail, 1 - tail)


@pytest.mark.parametrize(
    ("law", "distribution", "function"),
    [("laplace", one_draw, "total"), ("local_laplace", two_draws, "sum")],
)
def test_law_of_a_release(law, distribution, function, monkeypatch):
    """On the sum of two losses: one Laplace draw of scale 1 / epsilon, or one per loss.

    Half the noise is rejected.
    """
    private, plain = first_releases(law)
    assert stats.kstest(private, distribution).pvalue > 1e-3
    assert (plain == 0).all()
    draw = getattr(noise.Law, function)

    def halved(own, key, total, scale, *count):
        return draw(own, key, total, 0.5 * scale, *count)

    monkeypatch.setattr(noise.Law, function, halved)
    assert stats.kstest(first_releases(law)[0], distribution).pvalue < 1e-6


def test_declarations():
    """Central and local; the range is that of the losses."""
    central = linear_elimination(100, ACTIONS, epsilon=0.5).privacy
    local = linear_elimination(100, ACTIONS, epsilon=0.5, noise="local_laplace").privacy
    assert (central.epsilon, central.delta, central.model) == (0.5, 0.0, "central")
    assert (local.epsilon, local.delta, local.model) == (0.5, 0.0, "local")
    assert "each observed loss" in local.accountant and "parallel" in central.accountant
    assert central.neighbours == local.neighbours == "replace"


# --- elimination ---


def test_the_threshold_is_twice_the_radius_and_strict(monkeypatch, in_order):
    """Four unit vectors, so estimates are mean losses minus 1/2.

    With a radius of 1/4, an arm at distance exactly 1/2 stays, and one beyond it leaves. Unequal
    radii are distinguished.
    """
    monkeypatch.setattr(elimination_phases, "phase_length", lambda *_: jnp.float32(16.0))
    cases = [
        ([0.25] * 4, [True, True, True, False]),
        ([0.125] * 4, [True, True, False, False]),
        # A wide arm's least loss may be small; a surely good arm eliminates others.
        ([0.25, 0.25, 0.25, 0.5], [True, True, True, True]),
        ([0.0, 0.25, 0.5, 0.5], [True, True, True, False]),
    ]

    @jax.jit
    @jax.vmap
    def after_a_phase(radii):
        monkeypatch.setattr(MODULE, "exact_radii", lambda *_, **__: radii)
        learner = linear_elimination(10_000, np.eye(4), epsilon=np.inf)
        state, batch = learner.init(jr.key(0))
        played = [batch]
        for total in (0.0, 1.0, 2.0, 3.0):  # of four rounds each: means 0, 1/4, 1/2, 3/4
            state, batch = learner.step(state, jr.key(0), exact_sums.of(total))
            played.append(batch)
        return state.active, learner.report(state), played[:4]

    active, report, played = after_a_phase(jnp.array([radii for radii, _ in cases]))
    for arm, batch in enumerate(played):
        assert (batch.action == arm).all() and (batch.rounds == 4).all()
    np.testing.assert_array_equal(active, [expected for _, expected in cases])
    np.testing.assert_array_equal(report.active, [3, 2, 4, 3])
    np.testing.assert_array_equal(report.phases, 1)


def test_arms_that_did_not_play_are_judged_by_the_others(monkeypatch, in_order):
    """(1, 1) is the sum of two unit vectors, (1, 0.9) nearly so; neither is observed."""
    monkeypatch.setattr(elimination_phases, "phase_length", lambda *_: jnp.float32(16.0))
    monkeypatch.setattr(MODULE, "exact_radii", lambda *_, **__: jnp.full(4, 0.1))
    actions = np.array([[2.0, 0.0], [0.0, 2.0], [1.0, 1.0], [0.5, 0.5]])
    learner = linear_elimination(1000, actions, epsilon=np.inf)
    # Of 8 rounds each: estimates -1/4 and -1/2, hence -3/8 and -3/16 for the others.
    state, played = told_sums(learner, [2.0, 0.0])
    assert played[:2] == [(0, 8), (1, 8)]
    np.testing.assert_array_equal(state.active, [False, True, True, False])
    # The next phase starts from zero.
    assert (state.number, state.left) == (2, 1000 - 16)
    np.testing.assert_array_equal(state.stage.kept, 0.0)


def test_the_last_arm_plays_on_to_the_end(monkeypatch, in_order):
    """One batch of all remaining rounds, which eliminates nothing."""
    monkeypatch.setattr(elimination_phases, "phase_length", lambda *_: jnp.float32(16.0))
    monkeypatch.setattr(MODULE, "exact_radii", lambda *_, **__: jnp.full(2, 0.1))
    learner = linear_elimination(1000, np.eye(2), epsilon=np.inf)
    state, played = told_sums(learner, [8.0, 0.0, 984.0])
    assert played[:3] == [(0, 8), (1, 8), (1, 984)]
    np.testing.assert_array_equal(state.active, [False, True])
    assert learner.report(state).phases == 1


def test_a_phase_that_does_not_fit_goes_to_the_best_estimate(monkeypatch, in_order):
    """32 rounds fit two phases of 16: with 31 the second does not start; with 33 one is left."""
    monkeypatch.setattr(elimination_phases, "phase_length", lambda *_: jnp.float32(16.0))
    monkeypatch.setattr(MODULE, "exact_radii", lambda *_, **__: jnp.full(2, 10.0))
    for horizon, second in [(31, (1, 15)), (32, (0, 8)), (33, (0, 8))]:
        learner = linear_elimination(horizon, np.eye(2), epsilon=np.inf)
        _, played = told_sums(learner, [8.0, 0.0])
        assert played[2] == second
    _, played = told_sums(learner, [8.0, 0.0, 8.0, 0.0])
    assert played[4] == (1, 1)
    # Not even the first phase fits: any arm plays.
    assert told_sums(linear_elimination(15, np.eye(2), epsilon=1.0), [])[1] == [(0, 15)]


def game(horizon, kind="exact", **keywords):
    def play(epsilon):
        learner = linear_elimination(horizon, ACTIONS, epsilon=epsilon, radius=kind, **keywords)
        return learner, with_pulls(environments.bernoulli(MEANS, regret="pseudo"), ARMS)

    return play


def survivors(epsilons, play=simulate_batches):
    """For 512 games of 2e5 rounds: the regret, and whether the best arm was played at the end.

    A seventh of all rounds are left for the last arm.
    """
    result = sweep(
        game(200_000), np.array(epsilons, np.float32), 512, jr.key(0),
        play=play, checkpoints=1, progress=False,
    )  # fmt: skip
    return result.regret[..., 0], result.tally[1][..., int(np.argmin(MEANS))] > 200_000 / 8


def test_the_best_arm_survives_and_regret_is_below_the_bound():
    """Failures have probability 1 / T."""
    epsilons = np.array([0.05, 0.5, 5.0, np.inf])
    regret, survived = survivors(epsilons)
    assert survived.all()
    bound = bounds.linear_elimination(200_000, ARMS, 2, epsilons)
    assert (regret.max(axis=1) <= bound).all()
    assert (np.diff(regret.mean(axis=1)) < 0).all()


@SLOW
def test_too_small_radii_lose_the_best_arm(monkeypatch):
    """So the test above can fail."""
    monkeypatch.setattr(MODULE, "log_term", lambda *arguments: 0.05 * log_term(*arguments))
    assert not survivors([0.05])[1].all()


@SLOW
def test_masks_that_games_meet_have_small_leverages(small_radii):
    """Leverages of at most 2 d, in float64, for the active set at every round of 40 games."""
    learner = linear_elimination(400, ACTIONS, epsilon=1.0)
    losses = losses_of_games(8, 40, 400, MEANS)
    draws = laplace_draws(9, 40, 32)
    _, states = many_games(lambda: learner, 10, losses, draws)
    inner = states.learner.inner
    masks = np.unique(inner.active[~inner.stage.last], axis=0)
    assert len(masks) >= 5
    for mask in masks:
        weights = np.asarray(near_optimal(
            jnp.asarray(designs.span_coordinates(ACTIONS), jnp.float32), jnp.asarray(mask)
        ), float)  # fmt: skip
        products = least_squares(ACTIONS, mask, weights)
        assert np.diag(products).max() <= 2 * np.linalg.matrix_rank(ACTIONS[mask]) * (1 + 1e-4)
    # Every core set that was played is a subset of its active set.
    assert not (inner.stage.pulls.astype(bool) & ~inner.active).any()


@SLOW
def test_round_by_round_and_by_batches_agree_in_law(small_radii):
    """Kolmogorov-Smirnov on regret and pulls of 300 games; another epsilon is rejected."""
    epsilons, horizon = np.array([0.3, 3.0], np.float32), 1000
    played = game(horizon)
    by_batch, by_round = (
        np.asarray(
            sweep(
                played, epsilons, 300, jr.key(seed), play=play, checkpoints=1, progress=False
            ).tally[1],
            np.float64,
        )
        for seed, play in [(1, simulate_batches), (2, simulate)]
    )
    gaps = MEANS - MEANS.min()
    for point in (0, 1):
        regret, other = (np.round(pulls[point] @ gaps, 6) for pulls in (by_batch, by_round))
        assert stats.ks_2samp(regret, other).pvalue > 1e-3
        elsewhere = np.round(by_round[1 - point] @ gaps, 6)
        assert stats.ks_2samp(regret, elsewhere).pvalue < 1e-6
        for arm in range(ARMS):
            assert stats.ks_2samp(*(p[point, :, arm] for p in (by_batch, by_round))).pvalue > 1e-3
    for pulls in (by_batch, by_round):
        np.testing.assert_array_equal(pulls.sum(axis=2), horizon)


# --- edge cases ---


def arms_played(actions, horizon=400, **keywords):
    """Arms of one game whose only noise is in the losses."""
    learner = linear_elimination(horizon, actions, epsilon=1.0, **keywords)
    losses = losses_of_games(11, 1, horizon, MEANS)
    return many_games(lambda: learner, 12, losses, laplace_draws(13, 1, 64))[0][0]


def test_actions_that_do_not_span_and_other_bases(small_radii):
    """The same arms play if the plane lies in R^4, stretched and rotated."""
    plain = arms_played(ACTIONS)
    embedded = ACTIONS @ np.random.default_rng(14).normal(size=(2, 4))
    np.testing.assert_array_equal(arms_played(embedded), plain)
    assert len(set(plain.tolist())) > 1


@pytest.mark.slow
def test_duplicates_zeros_and_more_dimensions_than_arms(small_radii):
    """They play, and equal actions leave together or not at all."""
    twice = np.concatenate([ACTIONS[:3], ACTIONS[:2], np.zeros((2, 2))])
    losses = losses_of_games(15, 20, 600, [0.9, 0.6, 0.3, 0.9, 0.6, 0.5, 0.5])
    learner = linear_elimination(600, twice, epsilon=2.0)
    _, states = many_games(lambda: learner, 16, losses, laplace_draws(17, 20, 64))
    active = states.learner.inner.active
    np.testing.assert_array_equal(active[..., :2], active[..., 3:5])
    np.testing.assert_array_equal(active[..., 5], active[..., 6])
    assert active.any(axis=-1).all() and not active.all()
    wide = linear_elimination(50, np.random.default_rng(18).normal(size=(3, 8)), epsilon=1.0)
    # Three actions that span three dimensions play once each.
    assert told_sums(wide, [1.0, 1.0])[1][0][1] == np.ceil(float(phase_length(1, 50)) / 3)
    # Only zeros remain once the others have left.
    zeros = linear_elimination(100, [[1.0], [0.0], [0.0]], epsilon=np.inf)
    assert told_sums(zeros, [])[1] == [(0, np.ceil(float(phase_length(1, 100))))]


def test_all_but_zero_actions_leave(monkeypatch, in_order):
    """The remaining set spans nothing: one of its actions continues, and all rounds are played."""
    monkeypatch.setattr(MODULE, "log_term", lambda *arguments: 0.001 * log_term(*arguments))
    learner = linear_elimination(60, [[1.0], [0.0], [0.0]], epsilon=np.inf)
    state, played = told_sums(learner, [4.0])
    np.testing.assert_array_equal(state.active, [False, True, True])
    assert played == [(0, 4), (1, np.ceil(float(phase_length(2, 60))))]


@pytest.mark.slow
@pytest.mark.parametrize("law", ["laplace", pytest.param("local_laplace", marks=SLOW)])
def test_a_billion_rounds_and_extreme_epsilons(law):
    """Finite, and at epsilon = 1e-9 nothing is eliminated: uniform over core sets, or worse."""
    horizon, epsilons = 10**9, np.array([1e-9, 1.0, np.inf], np.float32)
    result = sweep(
        game(horizon, noise=law), epsilons, 4, jr.key(0),
        play=simulate_batches, checkpoints=3, progress=False,
    )  # fmt: skip
    assert np.isfinite(result.regret).all()
    np.testing.assert_allclose(result.tally[1].sum(axis=2), horizon, rtol=1e-6)
    assert (result.report.active[0] == ARMS).all()
    assert (result.report.active[1:] == 1).all()
    assert (result.report.phases[0] >= 18).all()
    final = result.regret[..., -1].mean(axis=1)
    assert final[0] > 1e7 and final[2] < 1e5


def test_linear_losses_in_another_range():
    """Losses -<theta, a> in [-1, 1]: through rescale_losses, with mean 1/2 + linear."""
    learner = rescale_losses(linear_elimination(10, ACTIONS, epsilon=1.0), -1, 1)
    assert isinstance(learner, BatchLearner) and learner.privacy.loss_range == (-1.0, 1.0)
    losses = (-3.0, -1.0, 0.0, 0.5, 1.0)
    seen = [float(seen_inside(learner, jnp.full(ARMS, x), 2)[0]) for x in losses]
    assert seen == [0.0, 0.0, 0.5, 0.75, 1.0]


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        *[({"epsilon": value}, "epsilon") for value in (0.0, -1.0, np.nan)],
        ({"horizon": 0}, "horizon"),
        ({"actions": 3}, "actions"),
        ({"actions": ACTIONS[:1]}, "actions"),
        ({"actions": np.full((3, 2), np.nan)}, "actions"),
        ({"radius": "tight"}, "radius"),
        ({"noise": "shuffled"}, "noise"),
        ({"noise": "local_laplace", "radius": "printed"}, "radius"),
    ],
)
def test_bad_arguments_are_named(arguments, name):
    """One sentence that names the argument."""
    arguments = {"horizon": 64, "actions": ACTIONS, "epsilon": 1.0, **arguments}
    with pytest.raises(ValueError, match=rf"\b{name}\b"):
        linear_elimination(arguments.pop("horizon"), arguments.pop("actions"), **arguments)
