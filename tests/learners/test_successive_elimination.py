"""DP-SE: printed epoch lengths, its modes on C2, a NumPy reference, and one release per loss."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import bounds, environments, simulate, simulate_batches, sweep
from dpjax.core import Batch, BatchLearner
from dpjax.feedback import seen_inside
from dpjax.learners import successive_elimination
from dpjax.learners.successive_elimination import epoch_length, epoch_radius
from tests.learners.batches import changes_of_releases, reusing, told_sums, with_pulls
from tests.learners.given_noise import (
    from_draws,
    laplace_draws,
    losses_of_games,
    many_games,
    play,
    with_releases,
)

MODULE = importlib.import_module("dpjax.learners.successive_elimination")
ELIMINATION = importlib.import_module("dpjax.learners.parts.elimination")
# Mean losses of the instance C2 of Sajed & Sheffet.
C2 = np.array([0.25, 0.375, 0.5, 0.625, 0.75])
EPSILONS = np.array([500.0, 1.0, 0.25, 0.1], np.float32)
HORIZON, SEEDS = 10**5, 4000


# ceil(R_e) for |S| = 5 and |S| = 2, e = 1, 2, 3, 4, at failure 1 / T.
LENGTHS = {
    (10**5, 1.0): [(1947, 1830), (8495, 8025), (35635, 33758), (147248, 139741)],
    (10**5, 0.1): [(2323, 2176), (8495, 8025), (35635, 33758), (147248, 139741)],
    (10**7, 1.0): [(2537, 2420), (10852, 10383), (45066, 43190), (184973, 177467)],
    (10**7, 0.1): [(3060, 2913)],
    (5 * 10**7, 1.0): [(2743, 2626), (11676, 11207), (48362, 46486), (198158, 190652)],
    (5 * 10**7, 0.1): [(3317, 3171)],
}


@pytest.mark.parametrize(("horizon", "epsilon"), LENGTHS)
def test_epoch_lengths(horizon, epsilon):
    """Golden numbers, exact to the round."""
    for epoch, lengths in enumerate(LENGTHS[horizon, epsilon], start=1):
        for active, length in zip((5, 2), lengths, strict=True):
            assert np.ceil(epoch_length(epoch, active, epsilon, 1 / horizon)) == length


def by_hand(epoch, active, epsilon, failure):
    """R_e and h_e + c_e in float64."""
    gap = 2.0**-epoch
    first = np.log(8 * active * epoch**2 / failure)
    second = np.log(4 * active * epoch**2 / failure)
    length = max(32 * first / gap**2, 8 * second / (epsilon * gap)) + 1
    return length, np.sqrt(first / (2 * length)) + second / (length * epsilon)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 500.0, np.inf])
def test_lengths_and_radii_in_float64(epsilon):
    """The radius is at most Delta_e / 4: an arm of gap Delta_e stays only after a failure."""
    for epoch in range(1, 13):
        for active in (2, 5):
            length, radius = by_hand(epoch, active, epsilon, 1e-5)
            np.testing.assert_allclose(epoch_length(epoch, active, epsilon, 1e-5), length, 1e-6)
            computed = float(epoch_radius(epoch, active, epsilon, 1e-5))
            assert computed == pytest.approx(radius, rel=1e-6)
            assert computed <= 2.0**-epoch / 4


# --- the modes of C2 ---


def on_c2(epsilon):
    learner = successive_elimination(HORIZON, 5, epsilon=epsilon)
    return learner, environments.bernoulli(C2, regret="pseudo")


@pytest.fixture(scope="module")
def games_on_c2():
    """4000 games at each epsilon, with regret at every hundredth round."""
    return sweep(
        on_c2, EPSILONS, SEEDS, jr.key(0), play=simulate_batches, checkpoints=1000, progress=False
    )


def staying_probability(epsilon, worse):
    """Probability that an arm survives epoch 1 of C2 together with the best one.

    Computed by lattice sums of two binomials and the exact tail of a difference of two Laplace
    draws. It neglects that a third arm may have the smallest mean, which changes little.
    """
    better = C2[0]
    length, radius = by_hand(1, 5, epsilon, 1 / HORIZON)
    n = int(np.ceil(length))
    first, second = (stats.binom(n, mean).pmf(np.arange(n + 1)) for mean in (better, worse))
    pmf = np.convolve(second, first[::-1])
    room = 2 * radius - np.arange(-n, n + 1) / n  # largest change by the noise
    z = np.abs(room) * epsilon * n
    tail = (0.5 + z / 4) * np.exp(-np.minimum(z, 700))
    return float(pmf @ np.where(room >= 0, 1 - tail, tail))


def test_modes_of_the_regret_on_c2(games_on_c2):
    """Regret is 2433.75 or 3436.875 only; at epsilon = 0.1 it is at least 3906.875."""
    final = games_on_c2.regret[:, :, -1]
    for row in final[:3]:
        assert set(np.unique(row)) <= {np.float32(2433.75), np.float32(3436.875)}
    values = np.unique(final[3])
    np.testing.assert_array_equal(values[:2], np.float32([3906.875, 5991.125]))
    assert (final[3] <= 5991.125).mean() > 0.99
    # Epoch 1 ends after 9735 rounds; at round 9700 the last arm, any, has 35 rounds to go.
    rounds = list(games_on_c2.rounds)
    late, gaps = games_on_c2.regret[1, :, rounds.index(9700)], C2 - C2[0]
    values, counts = np.unique(late, return_counts=True)
    np.testing.assert_array_equal(values, np.float32(2433.75 - 35 * gaps[::-1]))
    assert stats.chisquare(counts).pvalue > 1e-3
    # By round 9800 the best arm, or the arm with it, has played 65 more rounds.
    after = np.unique(games_on_c2.regret[1, :, rounds.index(9800)])
    np.testing.assert_array_equal(after, np.float32([2433.75, 2433.75 + 65 * 0.125]))


def test_share_of_the_modes(games_on_c2):
    """Arms survive epoch 1 with the exact probability, by a z-test.

    Arm 2, with a gap of Delta_1 / 4, at epsilon 500, 1 and 1/4, and arm 3 at 1/10.
    """
    final = games_on_c2.regret[:, :, -1]
    stayed = [*(final[:3] > 3000).mean(axis=1), (final[3] > 4000).mean()]
    cases = list(zip(EPSILONS.tolist(), [0.375, 0.375, 0.375, 0.5], strict=True))
    exact = [staying_probability(*case) for case in cases]
    np.testing.assert_allclose(exact, [0.50, 0.84, 1.0, 0.25], atol=0.01)

    def z(share, p):
        return (share - p) / np.sqrt(p * (1 - p) / SEEDS + 1 / SEEDS**2)

    assert max(abs(z(share, p)) for share, p in zip(stayed, exact, strict=True)) < 4


# --- the two engines ---

# A small game with two modes: the second arm's gap is Delta_1 / 4, as on C2.
SMALL = np.array([0.25, 0.375, 0.75])
SMALL_HORIZON, TRIALS = 5000, 1000


def small_game(epsilon):
    learner = successive_elimination(SMALL_HORIZON, 3, epsilon=epsilon, failure=0.5)
    return learner, with_pulls(environments.bernoulli(SMALL, regret="pseudo"), 3)


def played_small(play, epsilons, seed):
    """Final regret (P, S), in thousandths, and pulls (P, S, 3)."""
    result = sweep(
        small_game,
        np.array(epsilons, np.float32),
        TRIALS,
        jr.key(seed),
        play=play,
        checkpoints=1,
        progress=False,
    )
    return np.round(result.regret[:, :, 0] * 1000), result.tally[1]


@pytest.fixture(scope="module")
def small_by_batch():
    """At epsilon 0.2, 1 and inf."""
    return played_small(simulate_batches, [0.2, 1.0, np.inf], 1)


@pytest.mark.slow
def test_round_by_round_and_by_batches_agree_in_law(small_by_batch):
    """Kolmogorov-Smirnov on regret and on each arm's pulls; another epsilon is rejected."""
    regret, pulls = played_small(simulate, [0.2, 1.0], 2)
    for point in (0, 1):
        other = 1 - point
        assert stats.ks_2samp(regret[point], small_by_batch[0][point]).pvalue > 1e-3
        assert stats.ks_2samp(regret[point], small_by_batch[0][other]).pvalue < 1e-6
        for arm in range(3):
            p = stats.ks_2samp(pulls[point, :, arm], small_by_batch[1][point, :, arm]).pvalue
            assert p > 1e-3
    np.testing.assert_array_equal(pulls.sum(axis=2), SMALL_HORIZON)
    np.testing.assert_array_equal(small_by_batch[1].sum(axis=2), SMALL_HORIZON)


def test_epochs_of_half_the_length_are_told_apart(small_by_batch, monkeypatch):
    """So the comparison of laws has power."""
    monkeypatch.setattr(MODULE, "epoch_length", lambda *args: 0.5 * epoch_length(*args))
    learner = successive_elimination(SMALL_HORIZON, 3, epsilon=1.0, failure=0.5)
    environment = environments.bernoulli(SMALL, regret="pseudo")
    one = jax.vmap(lambda key: simulate_batches(learner, environment, key, checkpoints=1).regret[0])
    regret = np.round(np.asarray(jax.jit(one)(jr.split(jr.key(3), TRIALS))) * 1000)
    assert stats.ks_2samp(regret, small_by_batch[0][1]).pvalue < 1e-6


def test_the_best_arm_stays_and_the_others_are_pulled_no_more_than_the_bound(small_by_batch):
    """With probability 1 - beta; the bound on regret holds for the mean."""
    _, pulls = small_by_batch
    for epsilon, row in zip([0.2, 1.0, np.inf], pulls, strict=True):
        for arm in (1, 2):
            gap = SMALL[arm] - SMALL[0]
            epochs = range(1, int(np.ceil(np.log2(1 / gap))) + 1)
            most = sum(np.ceil(by_hand(e, 3, epsilon, 0.5)[0]) for e in epochs)
            assert (row[:, arm] > most).mean() <= 0.5
            # The union bound is loose.
            assert (row[:, arm] > most).mean() < 0.01
        # If another arm remains, one of the two has one round more.
        assert (row[:, 0] >= row.max(axis=1) - 1).mean() > 0.99
        bound = bounds.successive_elimination(SMALL_HORIZON, SMALL, epsilon, failure=0.5)
        assert (row @ (SMALL - SMALL[0])).mean() <= bound
    # At epsilon = inf an arm of gap 1/2 always leaves after the first epoch of 497 rounds.
    assert np.ceil(by_hand(1, 3, np.inf, 0.5)[0]) == 497
    assert (pulls[2, :, 2] == 497).all()


# --- a reference in NumPy ---


@pytest.fixture
def in_order(monkeypatch):
    """The arms of an epoch play in order of their numbers, not at random."""
    monkeypatch.setattr(ELIMINATION, "smallest", lambda key, x: jnp.argmin(x).astype(jnp.int32))


def reference(losses, draws, epsilon, failure):
    """Arms of one game (T,) by the pseudo-code, with the i-th draw in the i-th noisy mean."""
    horizon, arms = losses.shape
    active, played, epoch, draws = list(range(arms)), [], 1, iter(draws)
    while len(active) > 1:
        length, radius = by_hand(epoch, len(active), epsilon, failure)
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
def test_games_by_hand(epsilon, in_order):
    """Whole games equal the NumPy reference, arm by arm, with the same noise."""
    horizon, games = 9000, 12
    losses = losses_of_games(1, games, horizon, [0.625, 0.25, 0.375, 0.5])
    draws = laplace_draws(2, games, 16)

    def make():
        return successive_elimination(horizon, 4, epsilon=epsilon, failure=0.3)

    arms, _ = many_games(make, 3, losses, draws)
    expected = [
        reference(np.asarray(table, np.float64), np.asarray(row, np.float64), epsilon, 0.3)
        for table, row in zip(losses, draws, strict=True)
    ]
    np.testing.assert_array_equal(arms, expected)
    assert len({tuple(np.bincount(row)) for row in arms}) > 1  # games differ


def short_epochs(monkeypatch, radius):
    """Epochs of 4, 7, 10, ... rounds per arm, with a threshold of twice the given radius."""
    monkeypatch.setattr(MODULE, "epoch_length", lambda epoch, *_: 3.0 * epoch.astype(float) + 0.5)
    monkeypatch.setattr(MODULE, "epoch_radius", lambda *_: jnp.float32(radius))


@pytest.mark.parametrize("wrap", [lambda learner: learner, reusing])
def test_each_loss_enters_one_release_with_sensitivity_one(wrap, monkeypatch):
    """Each round's loss is replaced in turn, with fixed releases: one sum changes, by 1.

    The noise scale is 1 / epsilon. Learners that reuse losses are found.
    """
    short_epochs(monkeypatch, 0.2)
    horizon, epsilon = 60, 0.5
    losses = losses_of_games(4, 1, horizon, [0.2, 0.5, 0.9])[0]
    released = jnp.array([1.0, 2.0, 3.5, 2.0, 4.0] + [0.0] * 10)  # arms 0 and 1 survive epoch 1

    def make():
        return wrap(successive_elimination(horizon, 3, epsilon=epsilon, failure=0.5))

    ends, scales, change = changes_of_releases(make, losses, released, jr.key(5))
    # Epochs of 4, 7, 10 rounds per arm, and one that does not fit, whose sums are unused.
    np.testing.assert_array_equal(ends + 1, [4, 8, 12, 19, 26, 36, 46, 53, 60])
    np.testing.assert_array_equal(scales, 1 / epsilon)
    uses = (change > 0).sum(axis=1)
    if wrap is reusing:
        assert uses.max() == 2
        return
    np.testing.assert_array_equal(change.max(axis=1), 1.0)
    np.testing.assert_array_equal(uses, 1)


def test_a_neighbour_moves_each_mean_by_no_more_than_its_noise_allows(in_order):
    """Before noise, the mean of n losses changes by 1 / n.

    The noise of a mean has scale 1 / (epsilon n), where n = ceil(R_1) is the actual number.
    """
    epsilon, failure = 0.7, 0.5
    length = int(np.ceil(by_hand(1, 2, epsilon, failure)[0]))
    horizon = 2 * length + 10
    losses = np.zeros((horizon, 2), np.float32)
    draws = jnp.array([1.0, 0.0, 0.0])

    def last(losses):
        learner = successive_elimination(horizon, 2, epsilon=epsilon, failure=failure)
        states = play(with_releases(learner, from_draws(draws)), losses, jr.key(0))[1]
        return jax.tree.map(lambda leaf: leaf[length - 1], states.learner)

    last = jax.jit(last)
    at_zero = last(losses).inner.stage.kept[0]
    losses[3] = 1.0
    moved = last(losses).inner.stage.kept[0]
    assert float(at_zero) == pytest.approx(1 / (epsilon * length), rel=1e-6)
    assert float(moved - at_zero) == pytest.approx(1 / length, rel=1e-4)


# --- ends of games ---


def test_the_threshold_is_twice_the_radius_and_strict(monkeypatch, in_order):
    """With radius 1/4 an arm at distance exactly 1/2 stays, and one beyond it leaves."""
    short_epochs(monkeypatch, 0.25)
    learner = successive_elimination(1000, 4, epsilon=np.inf, failure=0.5)
    state, played = told_sums(learner, [2.0, 0.0, 1.0, 3.0])
    assert played == [(0, 4), (1, 4), (2, 4), (3, 4), (0, 7)]
    np.testing.assert_array_equal(state.active, [True, True, True, False])
    # Old means and eliminated arms do not count: arm 1, with mean 0 before, is now the worst.
    state, played = told_sums(learner, [2.0, 0.0, 1.0, 3.0, 0.0, 7.0, 0.0])
    np.testing.assert_array_equal(state.active, [True, False, True, False])
    assert played[-1] == (0, 10)
    report = learner.report(state)
    assert (report.epochs, report.active) == (2, 2)


def test_means_of_arms_that_have_left_do_not_count(monkeypatch, in_order):
    """Arm 3 leaves with mean 1/2; in the next epoch all means are 1, so no arm leaves."""
    short_epochs(monkeypatch, 0.125)
    learner = successive_elimination(1000, 4, epsilon=np.inf, failure=0.5)
    state, played = told_sums(learner, [0.0, 1.0, 1.0, 2.0, 7.0, 7.0, 7.0])
    np.testing.assert_array_equal(state.active, [True, True, True, False])
    assert played[-1] == (0, 10)


def test_the_last_arm_plays_on_to_the_end(monkeypatch, in_order):
    """One batch of all remaining rounds."""
    short_epochs(monkeypatch, 0.125)
    learner = successive_elimination(1000, 3, epsilon=np.inf, failure=0.5)
    state, played = told_sums(learner, [4.0, 0.0, 2.0])
    assert played[-1] == (1, 1000 - 12)
    assert learner.report(state).active == 1


def arms_played(horizon, arms):
    learner = successive_elimination(horizon, arms, epsilon=1.0)
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
def test_an_epoch_that_does_not_fit_is_shared_equally(horizon, arms, expected, in_order):
    """Up to one round, for any losses, even if there are fewer rounds than arms."""
    np.testing.assert_array_equal(arms_played(horizon, arms), expected)


def test_an_epoch_that_just_fits_is_evaluated(monkeypatch):
    """Three arms with 4 rounds each fit 12 rounds; with 11 the epoch is cut."""
    short_epochs(monkeypatch, 0.125)
    environment = environments.table(np.tile([0.0, 0.5, 1.0], (13, 1)))
    for horizon, epochs in [(11, 0), (12, 1), (13, 1)]:
        learner = successive_elimination(horizon, 3, epsilon=np.inf, failure=0.5)
        report = simulate(learner, environment, jr.key(0), checkpoints=1).report
        assert report.epochs == epochs
        assert report.active == (3 if epochs == 0 else 1)


def test_epochs_of_more_rounds_than_int32():
    """At epsilon = 1e-9 the first epoch has 10^12 rounds: it is cut even at the largest horizon."""
    horizon = 2**31 - 1
    learner = successive_elimination(horizon, 4, epsilon=1e-9)
    _, batch = learner.init(jr.key(0))
    assert isinstance(batch, Batch)
    assert batch.rounds == horizon // 4 + 1
    environment = environments.bernoulli([0.1, 0.2, 0.3, 0.4], regret="pseudo")
    # Of a cut epoch, only the first arms' losses are drawn, so this takes few steps.
    short = successive_elimination(10**6, 4, epsilon=1e-9)
    result = jax.jit(lambda: simulate_batches(short, environment, jr.key(0), checkpoints=1))()
    assert float(result.regret[-1]) == pytest.approx(0.15 * 10**6, rel=1e-6)


def test_default_failure_is_one_over_the_horizon():
    """Epochs of C2 at T = 1e5; half if T is 1."""
    learner = successive_elimination(HORIZON, 5, epsilon=1.0)
    assert isinstance(learner, BatchLearner)
    assert learner.init(jr.key(0))[1].rounds == 1947
    other = successive_elimination(10**7, 5, epsilon=1.0, failure=1e-5)
    assert other.init(jr.key(0))[1].rounds == 1947


def test_losses_outside_the_range_are_clipped_before_they_are_summed():
    """In a batch of 5 rounds, -3 counts as 0 and 7 as 1."""
    learner = successive_elimination(10, 2, epsilon=np.inf)
    seen = [float(seen_inside(learner, jnp.array([loss, 0.5]), 0)[0]) for loss in (-3.0, 0.25, 7.0)]
    assert seen == [0.0, 0.25, 1.0]
