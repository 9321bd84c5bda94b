"""Elimination of arms and duels: radii by hand, whole games in NumPy, their ends; sparring."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import Study, audit, bounds, environments, learners, noise, simulate, simulate_batches
from dpjax.combinators import as_learner, sparring
from dpjax.core import Arms, Learner, Pairs, Privacy
from dpjax.environments._heavy_tailed import largest_moment
from dpjax.feedback import bandit
from dpjax.learners._dueling_elimination import exponent
from dpjax.learners._explore_then_commit import derived_rounds
from dpjax.learners._successive_elimination import epoch_length, epoch_radius
from dpjax.learners.parts import elimination, elimination_phases
from dpjax.learners.parts.elimination import EliminationState, Stage
from dpjax.maths import designs, exact_sums
from dpjax.maths.clipped_means import clipped_mean
from tests.environments.test_dueling import CYCLE, NARROW
from tests.learners.given_noise import laplace_draws, losses_of_games, many_games, play, told_sums

pytestmark = pytest.mark.usefixtures("quick_compilation")
SUCCESSIVE = importlib.import_module("dpjax.learners._successive_elimination")


def epoch_by_hand(epoch, active, epsilon, failure):
    """R_e and h_e + c_e in float64."""
    gap = 2.0**-epoch
    first = np.log(8 * active * epoch**2 / failure)
    second = np.log(4 * active * epoch**2 / failure)
    length = max(32 * first / gap**2, 8 * second / (epsilon * gap)) + 1
    return length, np.sqrt(first / (2 * length)) + second / (length * epsilon)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 500.0, np.inf])
def test_lengths_and_radii_of_successive_elimination(epsilon):
    """The radius is at most Delta_e / 4: an arm of gap Delta_e stays only after a failure."""
    for epoch in range(1, 13):
        for active in (2, 5):
            length, radius = epoch_by_hand(epoch, active, epsilon, 1e-5)
            np.testing.assert_allclose(epoch_length(epoch, active, epsilon, 1e-5), length, 1e-6)
            computed = float(epoch_radius(epoch, active, epsilon, 1e-5))
            assert computed == pytest.approx(radius, rel=1e-6)
            assert computed <= 2.0**-epoch / 4


# --- a reference in NumPy ---


def successive_reference(losses, draws, epsilon, failure):
    """Arms of one game (T,) by the pseudo-code, with the i-th draw in the i-th noisy mean."""
    horizon, arms = losses.shape
    active, played, epoch, draws = list(range(arms)), [], 1, iter(draws)
    while len(active) > 1:
        length, radius = epoch_by_hand(epoch, len(active), epsilon, failure)
        length = int(np.ceil(length))
        if length * len(active) > horizon - len(played):
            break
        means = []
        for arm in active:
            seen = losses[len(played) : len(played) + length, arm]
            played += [arm] * length
            means.append(seen.mean() + next(draws) / (epsilon * length))
        best = min(means)
        active = [a for a, mean in zip(active, means, strict=True) if mean - best <= 2 * radius]
        epoch += 1
    share, extra = divmod(horizon - len(played), len(active))
    for i, arm in enumerate(active):
        played += [arm] * (share + (i < extra))
    return np.array(played)


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_games_of_successive_elimination_by_hand(epsilon, in_order):
    """Whole games equal the NumPy reference, arm by arm, with the same noise."""
    horizon, games = 9000, 12
    losses = losses_of_games(1, games, horizon, [0.625, 0.25, 0.375, 0.5])
    draws = laplace_draws(2, games, 16)

    def make():
        return learners.successive_elimination(horizon, 4, epsilon=epsilon, failure=0.3)

    arms, _ = many_games(make, 3, losses, draws)
    expected = [
        successive_reference(
            np.asarray(table, np.float64), np.asarray(row, np.float64), epsilon, 0.3
        )
        for table, row in zip(losses, draws, strict=True)
    ]
    np.testing.assert_array_equal(arms, expected)
    assert len({tuple(np.bincount(row)) for row in arms}) > 1  # games differ


def short_epochs(monkeypatch, radius):
    """Epochs of 4, 7, 10, ... rounds per arm, with a threshold of twice the given radius."""
    monkeypatch.setattr(
        SUCCESSIVE, "epoch_length", lambda epoch, *_: 3.0 * epoch.astype(float) + 0.5
    )
    monkeypatch.setattr(SUCCESSIVE, "epoch_radius", lambda *_: jnp.float32(radius))


# --- ends of games ---


def test_the_threshold_of_successive_elimination_is_twice_the_radius_and_strict(
    monkeypatch, in_order
):
    """With radius 1/4 an arm at distance exactly 1/2 stays, and one beyond it leaves."""
    short_epochs(monkeypatch, 0.25)
    learner = learners.successive_elimination(1000, 4, epsilon=np.inf, failure=0.5)
    state, played = told_sums(learner, [2.0, 0.0, 1.0, 3.0])
    assert played == [(0, 4), (1, 4), (2, 4), (3, 4), (0, 7)]
    np.testing.assert_array_equal(state.active, [True, True, True, False])
    # Old means and eliminated arms do not count: arm 1, with mean 0 before, is now the worst.
    state, played = told_sums(learner, [2.0, 0.0, 1.0, 3.0, 0.0, 7.0, 0.0])
    np.testing.assert_array_equal(state.active, [True, False, True, False])
    assert played[-1] == (0, 10)
    report = learner.report(state)
    assert (report.epochs, report.active) == (2, 2)


def pulls_of(horizon, arms):
    learner = learners.successive_elimination(horizon, arms, epsilon=1.0)
    losses = jnp.tile(jnp.linspace(0.0, 1.0, arms), (horizon, 1))
    played, _ = jax.jit(lambda: play(learner, losses, jr.key(0)))()
    return np.bincount(played, minlength=arms)


@pytest.mark.parametrize(
    ("horizon", "arms", "expected"),
    [
        (103, 5, [21, 21, 21, 20, 20]),
        (100, 5, [20] * 5),
        (3, 5, [1, 1, 1, 0, 0]),
        (1, 2, [1, 0]),
        (5, 5, [1] * 5),
    ],
)
def test_an_epoch_of_successive_elimination_that_does_not_fit_is_shared_equally(
    horizon, arms, expected, in_order
):
    """Up to one round, for any losses, even if there are fewer rounds than arms."""
    np.testing.assert_array_equal(pulls_of(horizon, arms), expected)


LINEAR = importlib.import_module("dpjax.learners._linear_elimination")
# Seven actions in the plane, no two of the same length; rewards <THETA, a> in [-1, 1].
ACTIONS = np.array(
    [[1.0, 0.1], [0.7, 0.6], [-0.2, 0.9], [-0.95, 0.2], [-0.5, -0.7], [0.3, -0.85], [0.4, 0.3]]
)
THETA = np.array([0.8, 0.5])
MEANS = 0.5 - 0.5 * ACTIONS @ THETA
ARMS = len(ACTIONS)


# --- radii ---


def tail(u, count, term):
    return (term - count * np.log1p(-(u**2))) / u


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
def test_radii_of_linear_elimination_by_hand(local):
    """exact <= chernoff for every arm of random designs; printed < chernoff except at inf."""
    random = np.random.default_rng(1)
    for _ in range(40):
        actions = random.normal(size=(9, 3))
        active = random.random(9) < 0.7
        active[:4] = True
        phase, epsilon = int(random.integers(1, 18)), 10 ** random.uniform(-3, 2)
        weights = near_optimal(jnp.asarray(actions, jnp.float32), jnp.asarray(active))
        length = float(LINEAR.phase_length(phase, 10**8))
        pulls = np.ceil(np.asarray(weights, float) * length)
        products = least_squares(actions, active, pulls)
        arguments = (products, pulls, active, phase, 10**8, 3, epsilon)
        exact = radii_by_hand("exact", *arguments, local=local)[active]
        chernoff = radii_by_hand("chernoff", *arguments, local=local)[active]
        assert (exact <= chernoff * (1 + 1e-3)).all()
        computed = LINEAR.exact_radii(
            jnp.asarray(products, jnp.float32), jnp.asarray(pulls, jnp.float32),
            LINEAR.log_term(jnp.float32(active.sum()), 10**8), epsilon, local=local,
        )  # fmt: skip
        np.testing.assert_allclose(computed[active], exact, rtol=2e-3)
        term, given = float(np.log(4 * active.sum() * 1e16)), (length, 3, float((pulls > 0).sum()))
        found = LINEAR.chernoff_radius(*given, term, epsilon, local=local)
        np.testing.assert_allclose(found, chernoff, rtol=1e-4)
        if not local:
            printed = radii_by_hand("printed", *arguments)[active]
            assert (printed < chernoff).all()
            np.testing.assert_allclose(
                LINEAR.printed_radius(*given, term, epsilon), printed, rtol=1e-4
            )


# --- a reference in NumPy ---


@pytest.fixture
def in_order(monkeypatch):
    """The arms of a phase play in order of their numbers, not at random."""
    for module in (elimination, elimination_phases):
        monkeypatch.setattr(module, "smallest", lambda key, x: jnp.argmin(x).astype(jnp.int32))


SHRINK = 0.1  # of L; otherwise no arm leaves in games short enough for a test


@pytest.fixture
def small_radii(monkeypatch):
    exact = LINEAR.log_term
    monkeypatch.setattr(LINEAR, "log_term", lambda *arguments: SHRINK * exact(*arguments))


near_optimal = jax.jit(designs.g_optimal)


def linear_reference(losses, draws, kind, epsilon):
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


@pytest.mark.parametrize("kind", ["exact", "chernoff", "printed"])
def test_games_of_linear_elimination_by_hand(kind, in_order, small_radii):
    """Whole games equal the NumPy reference, arm by arm, with the same noise."""
    horizon, games, epsilon = 3000, 12, 2.0
    losses = losses_of_games(1, games, horizon, MEANS)
    draws = laplace_draws(2, games, 32)

    def make():
        return learners.linear_elimination(horizon, ACTIONS, epsilon=epsilon, radius=kind)

    arms, _ = many_games(make, 3, losses, draws)
    met = set()
    for table, row, mine in zip(losses, draws, arms, strict=True):
        expected, masks = linear_reference(
            np.asarray(table, np.float64), np.asarray(row, np.float64), kind, epsilon
        )
        np.testing.assert_array_equal(mine, expected)
        met |= set(masks)
    assert len(met) >= 3  # arms leave, at different times in different games


# --- elimination ---


def test_a_phase_of_linear_elimination_that_does_not_fit_goes_to_the_best_estimate(
    monkeypatch, in_order
):
    """32 rounds fit two phases of 16: with 31 the second does not start; with 33 one is left."""
    monkeypatch.setattr(elimination_phases, "phase_length", lambda *_: jnp.float32(16.0))
    monkeypatch.setattr(LINEAR, "exact_radii", lambda *_, **__: jnp.full(2, 10.0))
    for horizon, second in [(31, (1, 15)), (32, (0, 8)), (33, (0, 8))]:
        learner = learners.linear_elimination(horizon, np.eye(2), epsilon=np.inf)
        _, played = told_sums(learner, [8.0, 0.0])
        assert played[2] == second
    _, played = told_sums(learner, [8.0, 0.0, 8.0, 0.0])
    assert played[4] == (1, 1)
    # Not even the first phase fits: any arm plays.
    assert told_sums(learners.linear_elimination(15, np.eye(2), epsilon=1.0), [])[1] == [(0, 15)]


# --- edge cases ---


def arms_played(actions):
    """Arms of one game with the same losses and noise."""
    learner = learners.linear_elimination(400, actions, epsilon=1.0)
    losses = losses_of_games(11, 1, 400, MEANS)
    return many_games(lambda: learner, 12, losses, laplace_draws(13, 1, 64))[0][0]


def test_linear_elimination_on_actions_that_do_not_span_and_other_bases(small_radii):
    """The same arms play if the plane lies in R^4, stretched and rotated."""
    plain = arms_played(ACTIONS)
    embedded = ACTIONS @ np.random.default_rng(14).normal(size=(2, 4))
    np.testing.assert_array_equal(arms_played(embedded), plain)
    assert len(set(plain.tolist())) > 1


GOPE = importlib.import_module("dpjax.learners._adac_gope")
RHO = 0.02
GOPE_ACTIONS = np.array(
    [[1.0, 0.2], [0.3, 0.9], [-0.8, 0.4], [-0.5, -0.6], [0.1, -0.7], [0.6, 0.6]]
)
PULLS, SUMS = np.array([30, 0, 25, 0, 18, 0]), np.array([12.25, 0.0, 20.5, 0.0, 3.0, 0.0])


def test_estimates_of_adac_gope_are_least_squares_with_gaussian_noise(monkeypatch):
    """After a phase with SUMS, the covariance is g^2 / (2 rho) X V^-1 X'; gamma by hand."""
    monkeypatch.setattr(GOPE, "elimination_phases", lambda *arguments: arguments)
    _, points, _, nothing, record, evaluate, _ = learners.adac_gope(1000, GOPE_ACTIONS, rho=RHO)
    zero, pulls = jnp.zeros((), jnp.int32), jnp.asarray(PULLS, jnp.int32)
    stage = Stage(pulls, jnp.zeros(6, bool), extra=zero, last=jnp.bool(False), kept=nothing)
    state = EliminationState(zero, active=jnp.ones(6, bool), stage=stage, arm=zero, left=zero)

    @jax.jit
    def told(state, arm, total, rounds):
        state = state._replace(arm=arm)
        kept = record(jr.key(0), state, exact_sums.of(total), rounds)
        return state._replace(stage=state.stage._replace(kept=kept))

    for arm in np.flatnonzero(PULLS):
        state = told(state, jnp.int32(arm), jnp.float32(SUMS[arm]), jnp.int32(PULLS[arm]))
    estimates, gamma = jax.jit(jax.vmap(evaluate, (0, None)))(jr.split(jr.key(1), 20_000), state)
    points = np.asarray(points, np.float64)
    inverse = np.linalg.inv(points.T @ (PULLS[:, None] * points))
    products = points @ inverse @ points.T
    plain = products @ (SUMS - PULLS / 2)
    largest = np.diag(products)[PULLS > 0].max()
    covariance = largest / (2 * RHO) * products
    errors = np.sqrt(np.diag(covariance) / 20_000)
    assert (np.abs(np.mean(estimates, axis=0) - plain) < 4 * errors).all()
    found = np.cov(np.asarray(estimates, np.float64).T)
    np.testing.assert_allclose(found, covariance, atol=0.04 * covariance.max())
    log_term = np.log(4 * 6 * 1000**2)
    radii = np.sqrt(2 * log_term * np.diag(products) * (0.25 + largest / (2 * RHO)))
    np.testing.assert_allclose(gamma[0], radii, rtol=1e-4)


def radius_by_hand(level, rounds, exponent, moment, order, epsilon, model):
    """The radius of the docstring in float64."""
    v = order - 1.0
    bias = v**v / (1 + v) ** (1 + v) * moment * level**-v
    sampling = np.sqrt(2 * moment * level ** (1 - v) * exponent / rounds)
    sampling += 2 * level * exponent / (3 * rounds)
    share = exponent / rounds
    tail = 2 * np.sqrt(share) + share if model == "local" else share
    return bias + sampling + 2 * level / epsilon * tail


@pytest.mark.parametrize("model", ["central", "local"])
@pytest.mark.parametrize("order", [1.3, 1.7, 2.0])
def test_rounds_of_robust_elimination_give_the_radius_and_no_level_needs_fewer(order, model):
    """At R the radius is attained to rounding; over a fine grid of levels R is least to 2 %."""
    for epsilon in (0.1, 1.0, np.inf):
        at = (0.2, 9.0, 1.5, order, epsilon, model)
        level, rounds = (float(x) for x in clipped_mean(*at))
        assert radius_by_hand(level, rounds, *at[1:]) == pytest.approx(0.2, rel=1e-4)
        grid = level * np.geomspace(1e-3, 1e3, 4001)
        assert radius_by_hand(grid, 0.98 * rounds, *at[1:]).min() > 0.2
        assert radius_by_hand(level, 0.9 * rounds, *at[1:]) > 0.2 * 1.001


def test_moments():
    """Against closed forms."""
    found = largest_moment([0.5, 0.0], 2.0, tail=2.1)
    assert found == pytest.approx(0.25 + 2.1 / (1.1**2 * 0.1), rel=1e-6)
    assert largest_moment([0.0, 0.0], 2.0, family="student", tail=3.0) == pytest.approx(3.0)
    with pytest.raises(ValueError, match="order"):
        largest_moment([0.0, 0.0], 2.0, tail=2.0)


@pytest.mark.parametrize("family", ["pareto", "student"])
def test_the_law_of_losses(family):
    """Kolmogorov-Smirnov against SciPy; a tail index of 1.9 instead of 1.6 fails."""
    nature = environments.heavy_tailed([0.0, 2.0], family=family, tail=1.6, spread=[1.0, 0.5])
    keys = jr.split(jr.key(1), 40000)
    loss = jax.vmap(lambda key: nature.step((), key, jnp.int32(0))[1].loss)(keys)
    draws = np.concatenate([loss[:, 0], (loss[:, 1] - 2.0) / 0.5]).astype(float)

    def law(a):
        return stats.t(a) if family == "student" else stats.pareto(a, loc=-1.6 / 0.6)

    assert stats.kstest(draws, law(1.6).cdf).pvalue > 1e-3
    assert stats.kstest(draws, law(1.9).cdf).pvalue < 1e-3


def test_explore_then_commit_explores_all_arms_and_commits_to_the_best():
    """Ten rounds of each arm without noise, in an order that depends on the key."""
    orders = set()
    for seed in range(8):
        learner = learners.explore_then_commit(1000, 3, epsilon=np.inf, rounds=10.9)
        state, batch = learner.init(jr.key(seed))
        played = []
        for _ in range(3):
            played.append(int(batch.action))
            assert batch.rounds == 10 and learner.report(state).arm == -1
            total = exact_sums.of([9.0, 2.0, 5.0][played[-1]])
            state, batch = learner.step(state, jr.key(0), total)
        assert (int(batch.action), int(batch.rounds)) == (1, 1000 - 30 + 1)
        assert (learner.report(state).rounds, learner.report(state).arm) == (10, 1)
        orders.add(tuple(played))
    assert len(orders) > 2


def test_the_bound_on_errors_of_explore_then_commit():
    """Each part is exact or Hoeffding's: Laplace draws alone, and 0 or 1 instead of a tail."""
    assert bounds.explore_then_commit_error(0.2, 1000.0, np.inf) == pytest.approx(np.exp(-10.0))
    rng = np.random.default_rng(0)
    draws = rng.laplace(size=(2, 10**6))
    tail = (draws[0] - draws[1] >= 3.0).mean()
    value = bounds.explore_then_commit_error(1.0, 60.0, 0.1) - np.exp(-15.0)
    assert value == pytest.approx(tail, abs=4e-4)
    assert bounds.explore_then_commit_error(0.1, 1.0, 0.01) == 1.0
    # At m = 60, losses of both arms with noise err less often than the bound.
    for epsilon in (0.1, 1.0):
        sums = rng.binomial(60, [[0.2], [0.5]], (2, 10**5)) + rng.laplace(size=(2, 10**5)) / epsilon
        wrong = (sums[0] >= sums[1]).mean()
        assert 0.0 < wrong < bounds.explore_then_commit_error(0.3, 60.0, epsilon)


def test_the_default_rounds_of_explore_then_commit():
    """By hand."""
    horizon = 10**4
    log = np.log(horizon)
    assert derived_rounds(horizon, 2, np.inf) == np.ceil(5000 ** (2 / 3) * log ** (1 / 3))
    assert derived_rounds(horizon, 2, 1e-3) == 5000
    assert derived_rounds(horizon, 2, 0.1) == np.ceil(
        max(5000 ** (2 / 3) * log ** (1 / 3), np.sqrt(5e4 * log))
    )
    assert derived_rounds(2, 5, 1.0) == 1.0


def test_all_failures_add_up_to_less_than_beta():
    """3 s e^-x over all phases. With 4 instead of 5 they would be 1.23 beta."""
    phases = np.arange(1.0, 1e5)
    total = np.sum(3 * 7 * np.exp(-np.asarray(exponent(phases, 7.0, 0.1), np.float64)))
    assert 0.98 * 0.1 < total < 0.1 < 5 / 4 * total


def duels_by_hand(bits, horizon, means_count, epsilon, failure, compare, draws):
    """The pairs of a game (T,) in NumPy, on bits (T, K, K), with standard Laplace draws."""
    active, played, phase, draws = list(range(means_count)), [], 1, iter(draws)
    scale = (1.0 if compare == "pairs" else 2.0) / epsilon
    while len(active) > 1:
        s, left = len(active), horizon - len(played)
        meets = [(i, j) for i in active for j in active if i < j]
        x = np.log(5 * s * phase**2 / failure)
        width = 2.0**-phase / 4 if compare == "pairs" else 2.0**-phase / 8 * s / (s - 1)
        n = x * ((np.sqrt(0.5) + np.sqrt(0.5 + 4 * scale * width)) / (2 * width)) ** 2
        m = int(np.ceil(n if compare == "pairs" else n / (s - 1)))
        if m * len(meets) > left:
            m = -(-left // len(meets))
            for pair in meets:
                played += [pair] * m
            return np.array(played[:horizon])
        lost = np.zeros((means_count, means_count))
        for i, j in meets:
            here = np.arange(len(played), len(played) + m)
            lost[i, j], lost[j, i] = bits[here, i, j].sum(), m - bits[here, i, j].sum()
            played += [(i, j)] * m
        noisy = next(draws) * scale
        if compare == "pairs":
            upper = np.triu(lost + noisy, 1)
            rates = upper / m + np.tril(1 - upper.T / m, -1)
            w = np.sqrt(x / (2 * m)) + scale * x / m
            active = [i for i in active if all(rates[i, j] <= 0.5 + w for j in active if j != i)]
        else:
            n = m * (s - 1)
            scores = (lost.sum(axis=1) + noisy) / n
            w = np.sqrt(x / (2 * n)) + scale * x / n
            active = [i for i in active if scores[i] <= min(scores[active]) + 2 * w]
        phase += 1
    played += [(active[0], active[0])] * (horizon - len(played))
    return np.array(played)


@pytest.mark.parametrize("compare", ["scores", "pairs"])
def test_games_of_dueling_elimination_by_hand(compare, monkeypatch):
    """Whole games equal the NumPy reference, pair by pair, with the same noise."""
    horizon, games, arms, epsilon = 2500, 8, 3, 0.4
    monkeypatch.setattr(elimination, "smallest", lambda key, x: jnp.argmin(x).astype(jnp.int32))
    rng = np.random.default_rng(0)
    means = np.array([0.2, 0.45, 0.7])  # the second arm leaves after phase 1 or 2
    lost = 0.5 + 0.5 * (means[:, None] - means)
    bits = (rng.random((games, horizon, arms, arms)) < lost).astype(np.float32)
    shape = (arms, arms) if compare == "pairs" else (arms,)
    draws = rng.laplace(size=(games, 8, *shape)).astype(np.float32)

    def play(bits, draws):
        def total(law, key, counts, scale):
            del law
            return exact_sums.of(exact_sums.to_float(counts) + scale * key.reshape(-1))

        learner = learners.dueling_elimination(
            horizon, arms, epsilon=epsilon, failure=0.9, compare=compare
        )
        learner = as_learner(learner)

        def one(carry, bit):
            state, pair = carry
            # The phase's draw replaces the noise key.
            monkeypatch.setattr(jr, "split", lambda key: (draws[state.learner.number - 1], key))
            return learner.step(state, jr.key(0), bit.reshape(-1)[pair]), pair

        monkeypatch.setattr(noise.Law, "total", total)
        return jax.lax.scan(one, learner.init(jr.key(0)), bits)[1]

    found = np.asarray(jax.jit(jax.vmap(play))(bits, draws))
    expected = [
        duels_by_hand(game, horizon, arms, epsilon, 0.9, compare, row)
        for game, row in zip(bits, draws, strict=True)
    ]
    np.testing.assert_array_equal(found, np.array(expected) @ [arms, 1])
    assert len({tuple(np.bincount(row, minlength=9)) for row in found}) > 1


def reports(learner, environment, games=20):
    run = jax.jit(jax.vmap(
        lambda key: simulate_batches(learner, environment, key, checkpoints=1).report
    ))  # fmt: skip
    return run(jr.split(jr.key(0), games))


@pytest.mark.parametrize(("compare", "winner"), [("scores", 1), ("pairs", 0)])
def test_scores_remove_a_condorcet_winner_that_loses_by_borda_and_pairs_keep_it(compare, winner):
    learner = learners.dueling_elimination(10**6, 4, epsilon=1.0, compare=compare)
    report = reports(learner, environments.dueling(NARROW))
    assert (np.asarray(report.recommendation) == winner).all() and np.all(report.stopped)


def test_in_a_cycle_no_arm_leaves():
    """Each arm loses to another; a phase then ends with all three arms."""
    learner = learners.dueling_elimination(10**5, 3, epsilon=np.inf, compare="pairs", failure=0.5)
    report = reports(learner, environments.dueling(CYCLE, regret="borda"), 1)
    assert int(report.active[0]) == 3 and int(report.epochs[0]) >= 3


def test_the_best_arm_of_duels_is_an_arm_and_no_pair():
    study = Study(
        learners.dueling_elimination, {"duels": environments.dueling([0.9, 0.1])},
        {"epsilon": [np.inf], "horizon": 4096, "arms": 2}, trials=3,
    )  # fmt: skip
    data = study.run(progress=False)
    assert data["report_recommendation"].values.ravel().tolist() == [1, 1, 1]
    assert float(data.dpjax.identification()["error"].max()) == 0.0


# --- sparring ---


def test_sparring_spends_epsilon_in_two_halves():
    learner = sparring(learners.dp_exp3_lap, 8, 2, epsilon=1.0)
    assert float(learner.privacy.epsilon) == pytest.approx(1.0)
    found = audit.verdict(learner, audit.pairs_for(learner, 12, jr.key(0)), jr.key(1))
    assert found.failed == () and found.touched == 2
    assert found.spent.max() == pytest.approx(1.0, rel=1e-3)


def test_rho_and_delta_of_sparring_are_twice_a_players():
    def player(horizon, arms, *, epsilon):
        return learners.adac_ucb(horizon, arms, rho=0.5 * epsilon**2, delta=1e-6)

    learner, own = sparring(player, 64, 3, epsilon=1.0), player(64, 3, epsilon=0.5)
    assert float(learner.privacy.rho) == pytest.approx(2 * float(own.privacy.rho))
    assert float(learner.privacy.delta) == pytest.approx(2e-6)


def test_the_column_player_wins_what_the_row_player_loses():
    """Two fixed players that report their observations."""

    def player(horizon, arms, *, epsilon):
        zero = jnp.zeros((), jnp.int32)
        return Learner(
            lambda key: (jnp.float32(0.0), zero), lambda seen, key, loss: (seen + loss, zero),
            bandit, Arms(arms), horizon, Privacy(), lambda seen: seen,
        )  # fmt: skip

    learner = sparring(player, 8, 2, epsilon=np.inf)
    environment = environments.table(np.full((8, 4), 0.25))._replace(action_set=Pairs(4))
    report = simulate(learner, environment, jr.key(0)).report
    assert (float(report.row), float(report.column)) == (2.0, 6.0)
