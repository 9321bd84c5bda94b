"""Thompson sampling, Gaussian Thompson sampling, DP-TS-UCB, Lazy-DP-TS and Anytime-Lazy-UCB."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import special, stats

from dpjax import audit, privacy
from dpjax.audit import Pair
from dpjax.learners import dp_ts_ucb, gaussian_thompson, lazy_thompson, lazy_ucb, thompson
from dpjax.learners._dp_ts_ucb import draws_of_a_mean
from dpjax.learners._thompson import ThompsonState
from dpjax.learners.lazy import LazyState
from dpjax.learners.parts.arm_sums import no_losses, posterior_draws
from dpjax.learners.parts.doubling_means import DoublingMeans
from tests.learners.given_noise import (
    laplace_draws,
    losses_of_games,
    many_games,
    normal_draws,
    play,
)

pytestmark = pytest.mark.usefixtures("quick_compilation")

DRAWS, ARMS = 20_000, 3


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
    run = jax.jit(jax.vmap(lambda table, key: play(thompson(horizon, 3), table, key)))
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
    step = jax.jit(jax.vmap(thompson(10, 3).step, (None, 0, None)))
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
    learner = gaussian_thompson(horizon, ARMS, pulls=pulls, variance=variance)
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
    learner = gaussian_thompson(ROUNDS, ARMS, pulls=pulls, variance=1e-4)
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
    learner = dp_ts_ucb(horizon, ARMS, draws=draws, exponent=exponent)
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
    declared = dp_ts_ucb(10**5, 2, exponent=exponent, delta=1e-6).privacy
    assert float(privacy.zcdp_mu(declared.rho)) == pytest.approx(mu, rel=2e-3)
    assert float(declared.epsilon) == pytest.approx(epsilon, rel=2e-3)


def test_short_games_of_dp_ts_ucb_have_fewer_draws_than_a_mean_may_have():
    """Only T - K; none up to round K + 1."""
    declared = dp_ts_ucb(10, 3, draws=100, exponent=0.0).privacy
    assert float(declared.rho) == pytest.approx(3.5)
    declared = dp_ts_ucb(3, 3).privacy
    assert (float(declared.rho), float(declared.epsilon)) == (0.0, 0.0)
    assert np.isfinite(float(dp_ts_ucb(1, 2).privacy.epsilon))


LEARNERS = {"ucb": lazy_ucb, "thompson": lazy_thompson}
HORIZON, GAMES = 300, 12


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
    losses = losses_of_games(1, GAMES, HORIZON, [0.1, 0.5, 0.9])
    draws = laplace_draws(2, GAMES, HORIZON)

    def make():
        return LEARNERS[name](HORIZON, ARMS, epsilon=epsilon, log_base=base)

    arms, states = many_games(make, 3, losses, draws)
    # Each arm once at first.
    np.testing.assert_array_equal(arms[:, :ARMS], np.tile(np.arange(ARMS), (GAMES, 1)))
    for game in range(GAMES):
        samples, means, renewed = statistics_by_hand(
            np.asarray(losses[game], np.float64), arms[game], np.asarray(draws[game]), epsilon
        )
        np.testing.assert_array_equal(states.inner.kept.samples[game], samples)
        np.testing.assert_allclose(states.inner.kept.means[game], means, rtol=1e-5, atol=1e-6)
        assert len(renewed) > 9
        if name == "thompson":
            continue
        t = np.arange(1, HORIZON + 1)[ARMS:, None]
        before = slice(ARMS - 1, HORIZON - 1)
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
    learner = lazy_thompson(16, ARMS, epsilon=epsilon, log_base=base)
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
