"""Anytime-Lazy-UCB and Lazy-DP-TS: doubling buffers, indices and posteriors by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax.learners import lazy_thompson, lazy_ucb
from dpjax.learners.lazy import LazyState
from dpjax.learners.parts.arm_sums import no_losses
from dpjax.learners.parts.doubling_means import DoublingMeans
from tests.learners.given_noise import laplace_draws, losses_of_games, many_games

LEARNERS = {"ucb": lazy_ucb, "thompson": lazy_thompson}
HORIZON, ARMS, GAMES = 300, 3, 12


def statistics_by_hand(losses, arms, draws, epsilon):
    """Samples O and noisy means (T, K) after each round of one game, and the release rounds.

    Round t has draw t, which is used if a buffer is full: at 1, 2, 4, ... losses.
    """
    samples, means = np.zeros(ARMS, int), np.zeros(ARMS)
    buffers = [[] for _ in range(ARMS)]
    all_samples, all_means, renewed = [], [], []
    for t, arm in enumerate(arms):
        buffers[arm].append(losses[t, arm])
        if len(buffers[arm]) == max(1, 2 * samples[arm]):
            samples[arm] = len(buffers[arm])
            means[arm] = (sum(buffers[arm]) + draws[t] / epsilon) / samples[arm]
            buffers[arm] = []
            renewed.append(t)
        all_samples.append(samples.copy())
        all_means.append(means.copy())
    return np.array(all_samples), np.array(all_means), renewed


def log_of(t, base):
    return np.log(t) / np.log(base)


@pytest.mark.parametrize(
    ("name", "epsilon", "base"),
    [("ucb", 0.5, 2.0), ("ucb", 3.0, np.e), ("ucb", np.inf, 10.0), ("thompson", 0.5, 2.0)],
)
def test_games_by_hand(name, epsilon, base):
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
