"""UCB1, KL-UCB and private UCBs: indices, batches and noise by hand; accounting of DP-UCB-Int."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import learners, noise
from dpjax.learners import dp_ucb, dp_ucb_bound, dp_ucb_int, kl_ucb, ucb1
from dpjax.learners._dp_ucb_int import derived_interval, interval_spending, most_releases
from dpjax.learners.parts.arm_sums import totals
from tests.learners.given_noise import (
    games_of_indices,
    laplace_draws,
    losses_of_games,
    many_games,
    play,
)
from tests.maths.test_divergences import d_epsilon_by_hand, lower_by_hand
from tests.zcdp import least_epsilon

HORIZON, ARMS, GAMES = 250, 3, 8


def games_of(learner, index):
    """Games of smallest indices, half of them with fractional losses."""
    losses = losses_of_games(1, GAMES, HORIZON, [0.3, 0.5, 0.6]).at[::2].multiply(0.75)
    return games_of_indices(learner, losses, 3, index)


def of_ucb1(t, pulls, sums):
    return sums / pulls - np.sqrt(2 * np.log(t - 1) / pulls)


def of_kl_ucb(t, pulls, sums):
    return np.vectorize(lower_by_hand)(sums / pulls, np.log(t - 1) / pulls, np.inf)


@pytest.mark.parametrize(("make", "index"), [(ucb1, of_ucb1), (kl_ucb, of_kl_ucb)])
def test_games_of_ucb1_and_kl_ucb_by_hand(make, index):
    games = games_of(make(HORIZON, ARMS), index)
    np.testing.assert_array_equal(games.states.sums.pulls, games.pulls)
    np.testing.assert_allclose(totals(games.states.sums), games.sums, rtol=1e-6)


@pytest.fixture
def unit_noise(monkeypatch):
    """Makes every Laplace draw one scale, so that prefix t of a tree has popcount(t) of them."""
    scales = []

    def one_scale(law, key, value, scale):
        del law, key
        scales.append(scale)
        return value + scale

    monkeypatch.setattr(noise.Law, "__call__", one_scale)
    return scales


@pytest.mark.parametrize("split", ["parallel", "paper"])
@pytest.mark.parametrize("epsilon", [2.0, pytest.param(400.0, marks=pytest.mark.slow), np.inf])
def test_games_of_dp_ucb_by_hand(split, epsilon, unit_noise):
    """In round t the smallest L~ / n - sqrt(2 ln t / n) - Gamma / n plays.

    Nodes have scale ceil(log2 T) / e, where e is epsilon or, for the paper's split, epsilon / K.
    """
    failure = 0.2
    learner = dp_ucb(HORIZON, ARMS, epsilon=epsilon, failure=failure, split=split)
    share = epsilon / (ARMS if split == "paper" else 1)
    scale = 8 / share  # 2^7 < 250 <= 2^8
    log_t = np.log(HORIZON)
    gamma = log_t**2 * np.log(ARMS * HORIZON * log_t / failure) / share

    def index(t, pulls, sums):
        released = sums + scale * (t - 1).bit_count()
        return (released - gamma) / pulls - np.sqrt(2 * np.log(t) / pulls)

    games = games_of(learner, index)
    np.testing.assert_allclose(np.array(unit_noise, float), scale, rtol=1e-6)
    np.testing.assert_array_equal(games.states.pulls, games.pulls)


def noise_by_hand(n, epsilon):
    """The noise of a counter with unit draws after n losses.

    It has a total at 1, 2, 4, ..., each at epsilon / 2. After the total at 2^k it has a tree of k
    levels, each at epsilon / (2 k), whose prefix of u losses sums popcount(u) nodes.
    """
    if n == 0:
        return 0.0
    k = n.bit_length() - 1
    return 2 / epsilon * (k + 1) + (n - 2**k).bit_count() * 2 * k / epsilon


@pytest.mark.parametrize("epsilon", [3.0, 100.0, np.inf])
def test_games_of_dp_ucb_bound_by_hand(epsilon, unit_noise):
    """In round t the smallest L~ / n - sqrt(2 ln t / n) - nu / n plays, with nu by hand.

    Each arm's hybrid counter is on the arm's clock.
    """

    def release(pulls, sums):
        return sums + [noise_by_hand(int(n), epsilon) for n in pulls]

    def index(t, pulls, sums):
        power = (pulls & (pulls - 1)) == 0
        nu = np.sqrt(8) / epsilon * np.log(4.0 * t**4) * np.where(power, 1.0, np.log(pulls) + 1)
        return (release(pulls, sums) - nu) / pulls - np.sqrt(2 * np.log(t) / pulls)

    games = games_of(dp_ucb_bound(HORIZON, ARMS, epsilon=epsilon), index)
    np.testing.assert_array_equal(games.states.pulls, games.pulls)
    rows = zip(games.pulls.reshape(-1, ARMS), games.sums.reshape(-1, ARMS), strict=True)
    released = np.reshape([release(*row) for row in rows], games.sums.shape)
    np.testing.assert_allclose(games.states.sums, released, rtol=1e-5, atol=1e-4)
    assert len(np.unique(games.arms)) == ARMS


# DP-UCB-Int -----------------------------------------------------------------------------------


def by_hand(horizon, arms, interval, delta, exponent):
    """(rho, epsilon) of an arm that plays all rounds after the first K f, by direct sums.

    The release at n pulls is n^(-v / 2)-DP. It precedes an action if n <= T - 1 - (K - 1) f.
    """
    n = np.arange(interval, horizon - (arms - 1) * interval, interval, dtype=np.float64)
    rho = (0.5 * n**-exponent).sum()
    return rho, min((n ** (-0.5 * exponent)).sum(), least_epsilon(rho, delta))


@pytest.mark.parametrize("exponent", [1.0001, 1.1, 1.5])
def test_spending_of_dp_ucb_int_against_direct_sums(exponent):
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
def test_the_derived_interval_of_dp_ucb_int_is_the_smallest_of_all(horizon, arms):
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
def test_the_printed_interval_of_dp_ucb_int(epsilon, interval):
    """ceil(1 / epsilon); the declaration is its actual epsilon, which exceeds the requested one."""
    assert interval_of(epsilon=epsilon, calibration="printed") == interval
    declared = dp_ucb_int(2000, 2, epsilon=epsilon, calibration="printed").privacy
    delta = 2000.0**-2
    exact = by_hand(2000, 2, interval, delta, 1.1)
    assert declared.calibration == "printed" and declared.delta == delta
    np.testing.assert_allclose([declared.rho, declared.epsilon], exact, rtol=1e-5)
    assert float(declared.epsilon) > epsilon


@pytest.mark.parametrize(("epsilon", "exponent"), [(0.21, 1.1), (1.0, 1.5), (np.inf, 1.1)])
def test_games_of_dp_ucb_int_by_hand(epsilon, exponent):
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


LONG, FEW, ALPHA = 600, 12, 2.0
EPISODES = ("adap_ucb", "adap_klucb", "adac_ucb")


def index_of(name, epsilon, values, pulls, log_t):
    """The indices (K,) from the means of the latest episodes, or from the sums of all batches."""
    if name in EPISODES:
        n = np.maximum(pulls // 2, 1)
        bonus = ALPHA * log_t / (epsilon * n)
        if name == "adac_ucb":
            return values - np.sqrt(ALPHA * log_t * (1 / (2 * n) + 2 / (epsilon * n) ** 2))
        if name == "adap_ucb":
            return values - np.sqrt(ALPHA * log_t / (2 * n)) - bonus
        means = np.clip(values - bonus, 0, 1)
        return np.vectorize(lower_by_hand)(means, ALPHA * log_t / n, np.inf)
    means = np.clip(values / pulls, 0.0, 1.0)
    if name == "dp_klucb":
        return np.vectorize(lower_by_hand)(means, log_t / pulls, epsilon)
    return pulls * np.vectorize(d_epsilon_by_hand)(means, means.min(), epsilon) + np.log(pulls)


RATIOS = ((0.3, 1.5), (2.0, 2.0), (np.inf, 1.1))
BATCHED = [(name, epsilon, 2.0) for name in EPISODES for epsilon in (0.5, 20.0, np.inf)]
BATCHED += [(name, *of) for name in ("dp_klucb", "dp_imed") for of in RATIOS]


@pytest.mark.parametrize(("name", "epsilon", "ratio"), BATCHED)
def test_games_of_growing_batches_by_hand(name, epsilon, ratio):
    """Batches play an arm of smallest index, and an arm's pulls grow from n to ceil(ratio n).

    The value of an arm is the mean of its latest episode, or the sum of its batches.
    """
    own = {"exploration": ALPHA} if name in EPISODES else {"ratio": ratio}
    own |= {"rho": 0.5 * epsilon**2} if name == "adac_ucb" else {"epsilon": epsilon}
    losses = losses_of_games(1, FEW, LONG, [0.3, 0.5, 0.6])
    draws = laplace_draws(2, FEW, LONG)
    all_arms, states = many_games(
        lambda: getattr(learners, name)(LONG, ARMS, **own), 3, losses, draws
    )
    state, losses, decided = states.learner.inner, np.asarray(losses, np.float64), 0
    for game, arms in enumerate(all_arms):
        t, pulls, values = 0, np.zeros(ARMS, int), np.zeros(ARMS)
        for draw in np.asarray(draws[game], np.float64):
            arm = arms[t]
            if (pulls == 0).any():
                assert pulls[arm] == 0
            else:
                now = index_of(name, epsilon, values, pulls, np.log(t + 1))
                # Float32 cannot decide it, so it counts as a tie.
                assert now[arm] <= now.min() + 2e-5 * (1 + abs(now.min()))
                decided += 1
            rounds = max(1, int(np.ceil(np.float32(ratio - 1) * np.float32(pulls[arm]))))
            assert (arms[t : t + rounds] == arm).all()
            total = losses[game, t : t + rounds, arm].sum() + draw / epsilon
            t, pulls[arm] = t + rounds, pulls[arm] + rounds
            if t >= LONG:
                break
            values[arm] = total / rounds if name in EPISODES else values[arm] + total
            np.testing.assert_allclose(state.values[game, t - 1], values, rtol=1e-5, atol=1e-4)
            np.testing.assert_array_equal(state.pulls[game, t - 1], pulls)
    assert decided > 6 * FEW
