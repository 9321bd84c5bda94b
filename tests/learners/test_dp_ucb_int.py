"""DP-UCB-Int: its accounting against direct sums, its interval, its bounds by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax.learners import dp_ucb_int
from dpjax.learners._dp_ucb_int import derived_interval, interval_spending, most_releases
from tests.learners.given_noise import laplace_draws, losses_of_games, many_games, play
from tests.zcdp import least_epsilon

ARMS = 3


def by_hand(horizon, arms, interval, delta, exponent):
    """(rho, epsilon) of an arm that plays all rounds after the first K f, by direct sums.

    The release at n pulls is n^(-v / 2)-DP. It precedes an action if n <= T - 1 - (K - 1) f.
    """
    n = np.arange(interval, horizon - (arms - 1) * interval, interval, dtype=np.float64)
    rho = (0.5 * n**-exponent).sum()
    return rho, min((n ** (-0.5 * exponent)).sum(), least_epsilon(rho, delta))


@pytest.mark.parametrize("exponent", [1.0001, 1.1, 1.5])
def test_spending_against_direct_sums(exponent):
    """In float64, for few and many releases, near the power 1, and down to no release."""
    for horizon in (1, 2, 8, 999, 10**5):
        for interval in (1, 2, 3, 10, 333, 2000):
            releases = most_releases(horizon, ARMS, interval)
            found = interval_spending(interval, releases, 1e-6, jnp.float32(exponent))
            exact = by_hand(horizon, ARMS, interval, 1e-6, np.float64(np.float32(exponent)))
            np.testing.assert_allclose([float(x) for x in found], exact, rtol=3e-6)


def interval_of(**arguments):
    """f, the number of losses in the first arm's first mean; the horizon if none is released."""
    horizon = arguments.pop("horizon", 2000)
    learner = dp_ucb_int(horizon, 2, **arguments)
    _, states = play(learner, jnp.full((horizon, 2), 0.5), jr.key(0))
    samples = np.asarray(states.samples[:, 0])
    return int(samples[samples > 0][0]) if samples.any() else horizon


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize(("horizon", "arms"), [(2, 2), (8, 2), (300, 7), (2048, 3)])
def test_the_derived_interval_is_the_smallest_of_all(horizon, arms):
    """Every f is tried, with the epsilons of the direct sums, which fall as f grows."""
    epsilons = np.array([1e-3, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0], np.float32)
    exponents = np.array([1.05, 1.1, 1.5], np.float32)
    for delta in (1e-5, float(horizon) ** -2.0):

        def each(epsilon, exponent, delta=delta):
            return derived_interval(horizon, arms, epsilon, delta, exponent)

        found = jax.jit(jax.vmap(jax.vmap(each, (0, None)), (None, 0)))(epsilons, exponents)
        for row, exponent in zip(np.asarray(found), np.float64(exponents), strict=True):
            longest = (horizon - 1) // arms + 1
            cost = [by_hand(horizon, arms, f, delta, exponent)[1] for f in range(1, longest + 1)]
            assert np.all(np.diff(cost) <= 0.0) and cost[-1] == 0.0
            for f, epsilon in zip(row, np.float64(epsilons), strict=True):
                assert cost[f - 1] <= epsilon * (1 + 1e-5)
                assert f == 1 or cost[f - 2] > epsilon * (1 - 1e-5)


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize(("epsilon", "interval"), [(1.0, 1), (0.3, 4), (0.1, 10), (7.0, 1)])
def test_the_printed_interval(epsilon, interval):
    """ceil(1 / epsilon); the declaration is its actual epsilon, which exceeds the requested one."""
    assert interval_of(epsilon=epsilon, calibration="printed") == interval
    declared = dp_ucb_int(2000, 2, epsilon=epsilon, calibration="printed").privacy
    delta = 2000.0**-2
    exact = by_hand(2000, 2, interval, delta, 1.1)
    assert declared.calibration == "printed" and declared.delta == delta
    np.testing.assert_allclose([declared.rho, declared.epsilon], exact, rtol=1e-5)
    assert float(declared.epsilon) > epsilon


HORIZON, GAMES = 300, 12


@pytest.mark.parametrize(("epsilon", "exponent"), [(0.21, 1.1), (1.0, 1.5), (np.inf, 1.1)])
def test_games_by_hand(epsilon, exponent):
    """Means with n^-(1 - v / 2) draws at multiples of f, kept until the next multiple.

    The bonus sqrt(2 ln t / n) changes every round. The draw is that of the round, and the smallest
    bound plays.
    """
    interval = 1 if np.isinf(epsilon) else int(np.ceil(1 / epsilon))
    losses = losses_of_games(1, GAMES, HORIZON, [0.2, 0.5, 0.8])
    draws = laplace_draws(2, GAMES, HORIZON)

    def make():
        return dp_ucb_int(HORIZON, ARMS, epsilon=epsilon, exponent=exponent, calibration="printed")

    all_arms, states = many_games(make, 3, losses, draws)
    for game in range(GAMES):
        pulls, sums = np.zeros(ARMS, int), np.zeros(ARMS)
        means, samples = np.zeros(ARMS), np.zeros(ARMS, int)
        for t, arm in enumerate(all_arms[game], start=1):
            if t <= ARMS * interval:
                assert arm == (t - 1) % ARMS
            else:
                bounds = means - np.sqrt(2 * np.log(t - 1) / samples)
                assert bounds[arm] <= bounds.min() + 1e-5
            pulls[arm] += 1
            sums[arm] += float(losses[game, t - 1, arm])
            n = pulls[arm]
            if n % interval == 0:
                scale = 0.0 if np.isinf(epsilon) else n ** -(1 - exponent / 2)
                noise = scale * float(draws[game, t - 1])
                means[arm], samples[arm] = sums[arm] / n + noise, n
            inner = states.inner
            np.testing.assert_allclose(inner.means[game, t - 1], means, rtol=1e-5, atol=1e-5)
            np.testing.assert_array_equal(inner.samples[game, t - 1], samples)
    assert len(np.unique(all_arms)) == ARMS
