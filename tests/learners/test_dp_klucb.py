"""DP-KLUCB and DP-IMED: geometric batches, indices by hand, and one release per loss."""

import jax
import numpy as np
import pytest
from jax import random as jr
from scipy import optimize

from dpjax import bounds, environments, simulate_batches, sweep
from dpjax.learners import dp_imed, dp_klucb, successive_elimination
from dpjax.maths import exact_sums
from tests.learners.batches import (
    changes_of_releases,
    check_both_engines_agree,
    check_even_ties,
    reusing,
)
from tests.learners.given_noise import laplace_draws, losses_of_games, many_games

LEARNERS = {"klucb": dp_klucb, "imed": dp_imed}
C2 = np.array([0.25, 0.375, 0.5, 0.625, 0.75])
HORIZON, ARMS, GAMES = 400, 3, 12
every_learner = pytest.mark.parametrize("name", LEARNERS)


def kl(p, q):
    """In float64; inf if q is 0 and p is not."""
    with np.errstate(divide="ignore"):
        return sum(
            a * (np.log(a) - np.log(b)) if a > 0 else 0.0 for a, b in ((p, q), (1 - p, 1 - q))
        )


def divergence(x, y, epsilon):
    """The definition with a numerical infimum: epsilon (x - z) + kl(z, y) over z in [y, x]."""
    if x <= y:
        return 0.0
    if np.isinf(epsilon):
        return kl(x, y)
    if y == 0.0:
        return epsilon * x

    def cost(z):
        return epsilon * (x - z) + kl(z, y)

    found = optimize.minimize_scalar(cost, bounds=(y, x), method="bounded", options={"xatol": 1e-9})
    return min(found.fun, cost(x), cost(y))


def index_by_hand(name, means, pulls, t, epsilon):
    if name == "imed":
        return [
            n * divergence(mean, means.min(), epsilon) + np.log(n)
            for mean, n in zip(means, pulls, strict=True)
        ]
    lowest = []
    for mean, n in zip(means, pulls, strict=True):
        excess = lambda q, mean=mean, n=n: divergence(mean, q, epsilon) - np.log(t) / n  # noqa: E731
        if mean == 0.0 or excess(1e-12) <= 0.0:
            lowest.append(0.0)
        else:
            lowest.append(optimize.brentq(excess, 1e-12, mean, xtol=1e-10))
    return lowest


@every_learner
@pytest.mark.parametrize(
    ("epsilon", "ratio"),
    [pytest.param(0.3, 1.5, marks=pytest.mark.slow), (2.0, 2.0), (np.inf, 1.5)],
)
def test_games_by_hand(name, epsilon, ratio):
    """Batches play an arm of smallest index and grow from n to ceil(ratio n); sums add up."""
    losses = losses_of_games(1, GAMES, HORIZON, [0.3, 0.5, 0.6])
    draws = laplace_draws(2, GAMES, HORIZON)

    def make():
        return LEARNERS[name](HORIZON, ARMS, epsilon=epsilon, ratio=ratio)

    all_arms, states = many_games(make, 3, losses, draws)
    checked = 0
    for game in range(GAMES):
        arms, state = all_arms[game], states.learner.inner
        t, pulls, totals = 0, np.zeros(ARMS, int), np.zeros(ARMS)
        batch = 0
        while t < HORIZON:
            arm = arms[t]
            if (pulls == 0).any():
                assert pulls[arm] == 0
            else:
                means = np.clip(totals / pulls, 0.0, 1.0)
                index = index_by_hand(name, means, pulls, t + 1, epsilon)
                # Float32 cannot decide it, so it counts as a tie.
                assert index[arm] <= min(index) + 2e-5 * (1 + abs(min(index)))
                checked += 1
            rounds = int(np.ceil(ratio * pulls[arm])) - pulls[arm] or 1
            assert (arms[t : t + rounds] == arm).all()
            seen = np.asarray(losses[game, t : t + rounds, arm], np.float64)
            t += rounds
            if t > HORIZON:
                break
            totals[arm] += seen.sum() + float(draws[game, batch]) / epsilon
            pulls[arm] += rounds
            batch += 1
            np.testing.assert_allclose(state.values[game, t - 1], totals, rtol=1e-5, atol=1e-4)
            np.testing.assert_array_equal(state.pulls[game, t - 1], pulls)
    assert checked > 8 * GAMES


@pytest.mark.slow
@every_learner
@pytest.mark.parametrize("wrap", [lambda learner: learner, reusing])
def test_each_loss_enters_one_release_with_sensitivity_one(name, wrap):
    """Each round's loss is replaced in turn, with fixed releases: one sum changes, by 1."""
    horizon, epsilon = 60, 0.25
    losses = losses_of_games(4, 1, horizon, [0.2, 0.5, 0.9])[0]
    released = jr.uniform(jr.key(6), (horizon,)) * 2.0

    def make():
        return wrap(LEARNERS[name](horizon, ARMS, epsilon=epsilon, ratio=1.6))

    ends, scales, change = changes_of_releases(make, losses, released, jr.key(5))
    np.testing.assert_array_equal(scales, 1 / epsilon)
    uses = (change > 0).sum(axis=1)
    if wrap is reusing:
        assert uses.max() == 2
        return
    last = ends[-1] + 1
    assert last > 20 and len(ends) > 6
    np.testing.assert_array_equal(uses, (np.arange(horizon) < last).astype(int))
    np.testing.assert_array_equal(change.max(axis=1)[:last], 1.0)


@every_learner
def test_ties_are_broken_evenly(name):
    check_even_ties(LEARNERS[name](1000, 4, epsilon=np.inf))


@pytest.mark.parametrize("ratio", [1.05, 1.1, 1.25, 1.5, 2.0, 3.0])
def test_batches_of_one_arm_grow_by_the_ratio(ratio):
    """Pulls n, ceil(ratio n), ...: exact for n up to 2000, and cut at the horizon."""
    learner = dp_klucb(2000, 2, epsilon=np.inf, ratio=ratio)
    step = jax.jit(learner.step)
    state, batch = learner.init(jr.key(0))
    n = 0
    while n < 2000:
        # Losses of 0 for arm 0, and 1 for the other.
        arm, rounds = int(batch.action), int(batch.rounds)
        if arm == 0:
            # Up to the float32 rounding of a product close to an integer.
            exact = ratio * n
            allowed = (
                {1} if n == 0 else {int(np.ceil(exact * (1 + e))) - n for e in (-1e-7, 0, 1e-7)}
            )
            assert rounds in {max(1, value) for value in allowed} or rounds == 2000
            n += rounds
        state, batch = step(state, jr.key(1), exact_sums.of(0.0 if arm == 0 else rounds))


# --- regret ---


@pytest.mark.slow
def test_round_by_round_and_by_batches_agree_in_law():
    def game(epsilon):
        learner = dp_klucb(400, 3, epsilon=epsilon, ratio=1.3)
        return learner, environments.bernoulli([0.2, 0.5, 0.7], regret="pseudo")

    check_both_engines_agree(game)


@pytest.mark.slow
def test_regret_lies_between_the_lower_bound_and_dp_se():
    """On C2 at T = 1e5, epsilon 1/4 and 1, with standard errors; batches double.

    The lower bound is asymptotic, so regret must exceed half of it. With smaller ratios more noise
    adds up early, and a few games stay with a bad arm: their regret is heavy-tailed.
    """
    environment = environments.bernoulli(C2, regret="pseudo")
    epsilons = np.array([0.25, 1.0], np.float32)

    def regrets(learner, **arguments):
        def game(epsilon):
            return learner(10**5, 5, epsilon=epsilon, **arguments), environment

        return (
            sweep(
                game, epsilons, 200, jr.key(3), play=simulate_batches, checkpoints=1, progress=False
            )
            .regret[:, :, 0]
            .astype(np.float64)
        )

    elimination = regrets(successive_elimination).mean(axis=1)
    lower = bounds.d_epsilon(10**5, C2, epsilons)
    for learner in LEARNERS.values():
        final = regrets(learner, ratio=2.0)
        mean, error = final.mean(axis=1), final.std(axis=1) / np.sqrt(200)
        assert (mean + 4 * error < elimination).all()
        assert (mean > 0.5 * lower).all()
        # More privacy costs more.
        assert np.median(final[0]) > np.median(final[1])
