"""Indices, batches, noise and posteriors of learners on stochastic arms, by hand."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import special, stats

from dpjax import audit, learners, noise, privacy
from dpjax.audit import Pair
from dpjax.learners._dp_ts_ucb import draws_of_a_mean
from dpjax.learners._dp_ucb_int import derived_interval, interval_spending, most_releases
from dpjax.learners._thompson import ThompsonState
from dpjax.learners.lazy import LazyState
from dpjax.learners.parts.arm_sums import no_losses, posterior_draws, totals
from dpjax.learners.parts.doubling_means import DoublingMeans
from tests.learners.given_noise import (
    games_of_indices,
    laplace_draws,
    losses_of_games,
    many_games,
    normal_draws,
    play,
)
from tests.maths.test_transport import d_epsilon_by_hand, lower_by_hand
from tests.zcdp import least_epsilon

pytestmark = pytest.mark.usefixtures("quick_compilation")

HORIZON, ARMS, GAMES = 250, 3, 8


def games_of(learner, index):
    """Games of smallest indices, half of them with fractional losses."""
    losses = losses_of_games(1, GAMES, HORIZON, [0.3, 0.5, 0.6]).at[::2].multiply(0.75)
    return games_of_indices(learner, losses, 3, index)


def of_ucb1(t, pulls, sums):
    return sums / pulls - np.sqrt(2 * np.log(t - 1) / pulls)


def of_kl_ucb(t, pulls, sums):
    return np.vectorize(lower_by_hand)(sums / pulls, np.log(t - 1) / pulls, np.inf)


@pytest.mark.parametrize(
    ("make", "index"), [(learners.ucb1, of_ucb1), (learners.kl_ucb, of_kl_ucb)]
)
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
    learner = learners.dp_ucb(HORIZON, ARMS, epsilon=epsilon, failure=failure, split=split)
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

    games = games_of(learners.dp_ucb_bound(HORIZON, ARMS, epsilon=epsilon), index)
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
    learner = learners.dp_ucb_int(horizon, 2, **arguments)
    _, states = play(learner, jnp.full((horizon, 2), 0.5), jr.key(0))
    samples = np.asarray(states.samples[:, 0])
    return int(samples[samples > 0][0]) if samples.any() else horizon


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


@pytest.mark.parametrize(("epsilon", "interval"), [(1.0, 1), (0.3, 4), (0.1, 10), (7.0, 1)])
def test_the_printed_interval_of_dp_ucb_int(epsilon, interval):
    """ceil(1 / epsilon); the declaration is its actual epsilon, which exceeds the requested one."""
    assert interval_of(epsilon=epsilon, calibration="printed") == interval
    declared = learners.dp_ucb_int(2000, 2, epsilon=epsilon, calibration="printed").privacy
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
        return learners.dp_ucb_int(
            HORIZON, ARMS, epsilon=epsilon, exponent=exponent, calibration="printed"
        )

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


BATCHED_ROUNDS, BATCHED_GAMES, ALPHA = 600, 12, 2.0
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
    losses = losses_of_games(1, BATCHED_GAMES, BATCHED_ROUNDS, [0.3, 0.5, 0.6])
    draws = laplace_draws(2, BATCHED_GAMES, BATCHED_ROUNDS)
    all_arms, states = many_games(
        lambda: getattr(learners, name)(BATCHED_ROUNDS, ARMS, **own), 3, losses, draws
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
            if t >= BATCHED_ROUNDS:
                break
            values[arm] = total / rounds if name in EPISODES else values[arm] + total
            np.testing.assert_allclose(state.values[game, t - 1], values, rtol=1e-5, atol=1e-4)
            np.testing.assert_array_equal(state.pulls[game, t - 1], pulls)
    assert decided > 6 * BATCHED_GAMES


DRAWS = 20_000


@pytest.mark.parametrize(
    ("losses", "gains"), [(0.0, 0.0), (3.0, 1.0), (0.5, 7.25), (0.0, 40.0), (2000.0, 1000.0)]
)
def test_posterior_draws_are_beta(losses, gains):
    """Kolmogorov-Smirnov of the draws' logistic against Beta; another parameter is rejected."""
    draw = jax.jit(jax.vmap(posterior_draws, (0, None, None)))
    parameters = [jnp.full(2, value, jnp.float32) for value in (losses, gains)]
    draws = np.asarray(draw(jr.split(jr.key(0), DRAWS), *parameters), np.float64)
    theta = special.expit(draws)
    for column in theta.T:
        assert stats.kstest(column, stats.beta(losses + 1, gains + 1).cdf).pvalue > 1e-3
    # The arms' draws are independent.
    assert abs(stats.spearmanr(theta[:, 0], theta[:, 1]).statistic) < 4 / np.sqrt(DRAWS)
    width = 0.1 * (losses + 1)
    assert stats.kstest(theta[:, 0], stats.beta(losses + 1 + width, gains + 1).cdf).pvalue < 1e-6


def test_draws_near_0_and_1_stay_apart():
    """If float32 rounds theta to 1, ln(theta / (1 - theta)) still orders the arms."""
    draws = posterior_draws(jr.key(0), jnp.full(1000, 1e8), jnp.zeros(1000))
    assert np.isfinite(draws).all()
    assert len(np.unique(draws)) > 900
    low = posterior_draws(jr.key(0), jnp.zeros(1000), jnp.full(1000, 1e8))
    assert len(np.unique(low)) > 900
    assert float(draws.min()) > float(low.max())


def test_counts_by_hand():
    """Ones and zeros of each arm over 200 rounds, with losses 0 and 1 from a table."""
    horizon, games = 200, 4
    losses = losses_of_games(1, games, horizon, [0.2, 0.5, 0.6])
    run = jax.jit(jax.vmap(lambda table, key: play(learners.thompson(horizon, 3), table, key)))
    arms, states = jax.device_get(run(losses, jr.split(jr.key(2), games)))
    for game in range(games):
        seen = np.asarray(losses)[game, np.arange(horizon), arms[game]]
        one_hot = arms[game][:, None] == np.arange(3)
        np.testing.assert_array_equal(states.ones[game], np.cumsum(one_hot * seen[:, None], axis=0))
        zeros = np.cumsum(one_hot * (1 - seen[:, None]), axis=0)
        np.testing.assert_array_equal(states.zeros[game], zeros)
    assert len(np.unique(arms)) == 3


def test_a_fractional_loss_counts_as_one_with_that_probability():
    """A binomial test at 0.3; 0 and 1 are deterministic."""
    none = jnp.zeros(3, jnp.int32)
    start, keys = ThompsonState(none, none, jnp.int32(0)), jr.split(jr.key(4), DRAWS)
    step = jax.jit(jax.vmap(learners.thompson(10, 3).step, (None, 0, None)))
    for loss in (0.0, 0.3, 1.0):
        states, _ = step(start, keys, jnp.float32(loss))
        assert stats.binomtest(int(states.ones[:, 0].sum()), DRAWS, loss).pvalue > 1e-3
        np.testing.assert_array_equal(states.ones[:, 0] + states.zeros[:, 0], 1)


@pytest.mark.parametrize(
    ("pulls", "variance"), [(2, 0.3), pytest.param(0, 1.0, marks=pytest.mark.slow)]
)
def test_games_of_gaussian_thompson_by_hand(pulls, variance):
    """The first pulls are in turn; then the smallest draw plays."""
    horizon, games = 60, 6
    losses = losses_of_games(1, games, horizon, [0.2, 0.5, 0.6])
    keys = jr.split(jr.key(2), games)
    learner = learners.gaussian_thompson(horizon, ARMS, pulls=pulls, variance=variance)
    arms, states = jax.device_get(jax.jit(jax.vmap(partial(play, learner)))(losses, keys))
    losses = np.asarray(losses)
    for game in range(games):
        normal = normal_draws(keys[game], jnp.arange(horizon), ARMS)
        count, total = np.zeros(ARMS), np.zeros(ARMS)
        for t, arm in enumerate(arms[game]):
            drawn = (total + 1 + np.sqrt(variance * (count + 1)) * normal[t]) / (count + 1)
            if t < ARMS * pulls:
                assert arm == t % ARMS
            else:
                assert drawn[arm] <= drawn.min() + 1e-5
            count[arm] += 1
            total[arm] += losses[game, t, arm]
        np.testing.assert_array_equal(states.sums.pulls[game, -1], count)
    assert len(np.unique(arms)) == ARMS


ROUNDS, KEYS = 16, 24


@pytest.mark.parametrize(
    ("pulls", "draws", "least"),
    [
        (0, ROUNDS - 1, 2),
        pytest.param(1, ROUNDS - ARMS, 2, marks=pytest.mark.slow),
        (2, ROUNDS - 2 * ARMS, 3),
    ],
)
def test_gaussian_thompson_spends_its_declaration_on_an_arm_that_never_plays_again(
    pulls, draws, least
):
    """With negligible noise an arm with loss 1 is dropped, but draws from its mean continue.

    Each of them costs 1 / (2 c (n + 1)) after n pulls.
    """
    losses = jnp.zeros((ROUNDS, ARMS)).at[:, 0].set(1.0)
    pair = Pair(losses.at[0].set(1.0), losses.at[0].set(0.0))
    learner = learners.gaussian_thompson(ROUNDS, ARMS, pulls=pulls, variance=1e-4)
    replay = jax.jit(jax.vmap(lambda key: audit.replay(learner, pair, key)))
    found = jax.device_get(replay(jr.split(jr.key(2), KEYS)))
    assert not audit.explain(found)
    declared = float(learner.privacy.rho)
    assert declared == pytest.approx(draws / (2 * 1e-4 * least))
    assert found.rho.max() == pytest.approx(declared, rel=1e-5)


def statistics_by_hand(losses, arms, draws=None, epsilon=np.inf):
    """Samples O and noisy means (T, K) after each round of one game, and the release rounds.

    Round t has draw t, if any, which is used if a buffer is full: at 1, 2, 4, ... losses.
    """
    samples, means = np.zeros(ARMS, int), np.zeros(ARMS)
    buffers = [[] for _ in range(ARMS)]
    all_samples, all_means, renewed = [], [], []
    noise = np.zeros(len(arms)) if draws is None else draws
    for t, arm in enumerate(arms):
        buffers[arm].append(losses[t, arm])
        if len(buffers[arm]) == max(1, 2 * samples[arm]):
            samples[arm] = len(buffers[arm])
            means[arm] = (sum(buffers[arm]) + noise[t] / epsilon) / samples[arm]
            buffers[arm] = []
            renewed.append(t)
        all_samples.append(samples.copy())
        all_means.append(means.copy())
    return np.array(all_samples), np.array(all_means), renewed


@pytest.mark.parametrize(
    ("draws", "exponent"), [(3, 0.0), pytest.param(8, 1.0, marks=pytest.mark.slow)]
)
def test_games_of_dp_ts_ucb_by_hand(draws, exponent):
    """Every arm once, then the arm with the smallest draw, or with the best of a mean's draws."""
    horizon, games = 120, 6
    losses = losses_of_games(1, games, horizon, [0.2, 0.5, 0.6])
    keys = jr.split(jr.key(2), games)
    learner = learners.dp_ts_ucb(horizon, ARMS, draws=draws, exponent=exponent)
    arms, states = jax.device_get(jax.jit(jax.vmap(partial(play, learner)))(losses, keys))
    losses = np.asarray(losses)
    np.testing.assert_array_equal(arms[:, :ARMS], np.tile(np.arange(ARMS), (games, 1)))
    power, spent = np.log(horizon) ** exponent, 0
    for game in range(games):
        normal = normal_draws(keys[game], jnp.arange(1, horizon + 1), ARMS)
        samples, means, renewed = statistics_by_hand(losses[game], arms[game, :-1])
        left, best = np.zeros(ARMS, int), np.full(ARMS, -np.inf)
        for t, (arm, n, mean) in enumerate(zip(arms[game], samples, means, strict=False)):
            if t in renewed:
                left[arm], best[arm] = draws, np.inf
            drawing = (left > 0) & (n > 0).all()
            theta = mean + np.sqrt(power / np.maximum(n, 1)) * normal[t]
            best = np.where(drawing, np.minimum(best, theta), best)
            left -= drawing
            spent += not drawing.any()
            numbers = np.where(drawing, theta, best)
            assert numbers[arms[game, t + 1]] <= numbers.min() + 1e-5
        np.testing.assert_array_equal(states.kept.samples[game, -2], samples[-1])
        np.testing.assert_array_equal(states.left[game, -2], left)
        np.testing.assert_allclose(states.kept.means[game, -2], means[-1], rtol=1e-6)
        np.testing.assert_allclose(states.best[game, -2], best, rtol=1e-4, atol=1e-5)
    assert spent > 100 and len(np.unique(arms)) == ARMS


@pytest.mark.parametrize(
    ("exponent", "draws", "mu", "epsilon"),
    [(0.0, 1396, 37.4, 875), (0.5, 114, 5.80, 43.6), (1.0, 43, 1.93, 10.55)],
)
def test_draws_and_privacy_of_dp_ts_ucb_in_long_games(exponent, draws, mu, epsilon):
    """phi draws, each below the true mean with probability Q, all miss it once in T games."""
    assert int(draws_of_a_mean(10**5, exponent)) == draws
    below = stats.norm.sf(np.sqrt(np.log(1e5) ** (1 - exponent) / 2))
    assert (1 - below) ** draws <= 1e-5 < (1 - below) ** (draws - 1)
    declared = learners.dp_ts_ucb(10**5, 2, exponent=exponent, delta=1e-6).privacy
    assert float(privacy.zcdp_mu(declared.rho)) == pytest.approx(mu, rel=2e-3)
    assert float(declared.epsilon) == pytest.approx(epsilon, rel=2e-3)


def test_short_games_of_dp_ts_ucb_have_fewer_draws_than_a_mean_may_have():
    """Only T - K; none up to round K + 1."""
    declared = learners.dp_ts_ucb(10, 3, draws=100, exponent=0.0).privacy
    assert float(declared.rho) == pytest.approx(3.5)
    declared = learners.dp_ts_ucb(3, 3).privacy
    assert (float(declared.rho), float(declared.epsilon)) == (0.0, 0.0)
    assert np.isfinite(float(learners.dp_ts_ucb(1, 2).privacy.epsilon))


LEARNERS = {"ucb": learners.lazy_ucb, "thompson": learners.lazy_thompson}
LAZY_ROUNDS, LAZY_GAMES = 300, 12


def log_of(t, base):
    return np.log(t) / np.log(base)


@pytest.mark.parametrize(
    ("name", "epsilon", "base"),
    [("ucb", 0.5, 2.0), ("ucb", 3.0, np.e), ("ucb", np.inf, 10.0), ("thompson", 0.5, 2.0)],
)
def test_games_of_lazy_learners_by_hand(name, epsilon, base):
    """Means are of the latest full buffer alone, with the noise of its last round.

    Lazy UCB plays the least mean - sqrt(3 log t / O) - 3 log t / (epsilon O) in round t, with this
    base of the logarithm.
    """
    losses = losses_of_games(1, LAZY_GAMES, LAZY_ROUNDS, [0.1, 0.5, 0.9])
    draws = laplace_draws(2, LAZY_GAMES, LAZY_ROUNDS)

    def make():
        return LEARNERS[name](LAZY_ROUNDS, ARMS, epsilon=epsilon, log_base=base)

    arms, states = many_games(make, 3, losses, draws)
    # Each arm once at first.
    np.testing.assert_array_equal(arms[:, :ARMS], np.tile(np.arange(ARMS), (LAZY_GAMES, 1)))
    for game in range(LAZY_GAMES):
        samples, means, renewed = statistics_by_hand(
            np.asarray(losses[game], np.float64), arms[game], np.asarray(draws[game]), epsilon
        )
        np.testing.assert_array_equal(states.inner.kept.samples[game], samples)
        np.testing.assert_allclose(states.inner.kept.means[game], means, rtol=1e-5, atol=1e-6)
        assert len(renewed) > 9
        if name == "thompson":
            continue
        t = np.arange(1, LAZY_ROUNDS + 1)[ARMS:, None]
        before = slice(ARMS - 1, LAZY_ROUNDS - 1)
        log_t, o = log_of(t, base), samples[before]
        index = means[before] - np.sqrt(3 * log_t / o) - 3 * log_t / (epsilon * o)
        chosen = np.take_along_axis(index, arms[game, ARMS:, None].astype(int), axis=1)[:, 0]
        # Float32 cannot decide it, so it counts as a tie.
        slack = 1e-6 * (1 + np.abs(index).max(axis=1))
        assert (chosen <= index.min(axis=1) + slack).all()
    assert len(np.unique(arms)) == ARMS


SAMPLES, MEANS = np.array([4, 16, 8]), np.array([0.8, 0.5, 0.6])


@jax.jit
def arms_of_round_11(epsilon, base, key):
    """Arms of many games that share these statistics after nine rounds; the tenth changes none."""
    zero, samples = jnp.zeros((), jnp.int32), jnp.asarray(SAMPLES, jnp.int32)
    means = jnp.asarray(MEANS, jnp.float32)
    state = LazyState(jnp.int32(9), DoublingMeans(samples, means, no_losses(ARMS)), zero)
    learner = learners.lazy_thompson(16, ARMS, epsilon=epsilon, log_base=base)
    step = jax.vmap(lambda key: learner.step(state, key, jnp.float32(0.5))[1])
    return step(jr.split(key, 20_000))


@pytest.mark.parametrize("base", [2.0, np.e])
@pytest.mark.parametrize("epsilon", [5.0, np.inf])
def test_lazy_thompson_draws_from_its_posteriors(epsilon, base):
    """The arm of round 11 is the smallest of three Beta draws: chi-square against scipy's.

    The other base of the logarithm is rejected, as is the other sign of the bonus.
    """
    arms = arms_of_round_11(jnp.float32(epsilon), jnp.float32(base), jr.key(1))
    counts = np.bincount(arms, minlength=ARMS)

    def p_value(base, sign=1):
        m = np.clip(MEANS - sign * 3 * log_of(11, base) / (epsilon * SAMPLES), 0, 1)
        draws = np.random.default_rng(0).beta(m * SAMPLES + 1, (1 - m) * SAMPLES + 1, (10**6, 3))
        law = np.bincount(draws.argmin(axis=1), minlength=ARMS) / 10**6
        return stats.chisquare(counts, law * len(arms)).pvalue

    assert p_value(base) > 1e-3
    if np.isfinite(epsilon):
        assert p_value({2.0: np.e, np.e: 2.0}[base]) < 1e-6
        assert p_value(base, sign=-1) < 1e-6
