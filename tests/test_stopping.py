"""DP-NAS: its stopping time, the accuracy of its mean, and the cost of each release."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import noise
from dpjax.learners import stopping
from dpjax.maths import exact_sums

KEYS = jr.split(jr.key(3), 2000)


def run(stream, horizon, keys=None, *, epsilon=1.0, accuracy=0.5, failure=0.1, **arguments):
    """The outcome of one run, or for each key."""

    def one(key):
        return stopping.private_mean(
            key, stream, horizon, epsilon=epsilon, accuracy=accuracy, failure=failure, **arguments
        )

    found = one(jr.key(0)) if keys is None else jax.jit(jax.vmap(one))(keys)
    return jax.tree.map(np.asarray, found)


@jax.jit
@partial(jax.vmap, in_axes=(0, None, None, None, None))
def trials(key, mean, epsilon, accuracy, failure):
    """One program for all means, privacies and accuracies, on values of -1 and 1."""
    return stopping.private_mean(
        key, stopping.two_valued((1.0 + mean) / 2.0), 2**16,
        epsilon=epsilon, accuracy=accuracy, failure=failure, queries="powers_of_two",
    )  # fmt: skip


def limit(t, query, accuracy, failure, epsilon, bound=1.0):
    """The noiseless part of the threshold, in NumPy from the paper's formulas."""
    union = 4.0 if np.isinf(epsilon) else 16.0
    h = bound * np.sqrt(2.0 * t * np.log(union * query**2 / failure))
    sigma, third = 12.0 * bound / epsilon, 4.0 * bound / epsilon
    c = sigma * np.log(4.0 / failure) + sigma * np.log(8.0 * query**2 / failure)
    return h * (1.0 + 1.0 / accuracy) + c + third / accuracy * np.log(4.0 / failure)


@pytest.mark.slow
@pytest.mark.parametrize("queries", ["every_round", "powers_of_two"])
@pytest.mark.parametrize("epsilon", [1.0, np.inf])
def test_it_stops_where_the_sum_passes_the_papers_threshold(queries, epsilon, monkeypatch):
    """Without noise, on a recorded stream: the first query with a large enough sum."""
    monkeypatch.setattr(noise.Law, "total", lambda law, key, total, scale: total)
    monkeypatch.setattr(noise.Law, "__call__", lambda law, key, value, scale: jnp.asarray(value))
    values = np.random.default_rng(0).choice([-1.0, 1.0], p=[0.25, 0.75], size=4096)
    stopped = run(stopping.recorded(values), 4096, epsilon=epsilon, queries=queries)
    times = np.arange(1, 4097) if queries == "every_round" else 2 ** np.arange(13)
    number = np.arange(1, len(times) + 1)
    large = np.abs(np.cumsum(values))[times - 1] >= limit(times, number, 0.5, 0.1, epsilon)
    first = times[np.argmax(large)]
    assert large.any() and stopped.stopped and int(stopped.rounds) == first
    assert float(stopped.mean) == pytest.approx(values[:first].mean(), rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, np.inf])
def test_the_mean_is_known_to_the_asked_accuracy(epsilon):
    """With failure 0.05; the union bound is far from tight, so none fails."""
    stopped = trials(KEYS, 0.2, epsilon, 0.5, 0.05)
    assert stopped.stopped.all()
    assert (np.abs(stopped.mean - 0.2) > 0.5 * 0.2).mean() < 0.05
    # With far less accuracy, far more than 5 % of the trials are off by as much.
    loose = trials(KEYS, 0.2, epsilon, 50.0, 0.999)
    assert (np.abs(loose.mean - 0.2) > 0.5 * 0.2).mean() > 0.05
    # A stream of mean 0 is hardly ever stopped.
    assert trials(KEYS, 0.0, epsilon, 0.5, 0.05).stopped.mean() < 0.05


def test_noise_scales_against_the_sensitivities(monkeypatch):
    """Sparse vector technique: 2R / s + 2 (2R) / s, and 2R for the mean: epsilon in total."""
    drawn = []

    def recording(law, key, value, scale):
        drawn.append(float(scale))
        return value

    monkeypatch.setattr(noise.Law, "__call__", recording)
    monkeypatch.setattr(noise.Law, "total", recording)
    bound, epsilon = 3.0, 0.7
    with jax.disable_jit():
        run(stopping.recorded(np.full(4, 3.0), bound), 4, epsilon=epsilon, bound=bound)
    threshold, *queries, mean = drawn
    sensitivity = 2.0  # of sums in units of the bound
    assert len(queries) == 4 and len(set(queries)) == 1
    spent = sensitivity / threshold + 2.0 * sensitivity / queries[0] + sensitivity / mean
    assert spent == pytest.approx(epsilon, rel=1e-6)


def test_log_ratio_of_stopping_at_once_on_the_worst_pair():
    """A value of 1 or -1 after others with sum s: the probability to stop at query two.

    |sum| changes by 2 if the value is replaced. The stop at t = 2, given none at t = 1, has a
    log-ratio of at most epsilon / 2 over 4e5 trials per world; with an eighth of the noise it is
    well above.
    """
    keys = jr.split(jr.key(11), 400_000)

    def share(values, epsilon):
        arguments = {"epsilon": epsilon, "accuracy": 50.0, "failure": 0.999}
        found = run(stopping.recorded(values), 2, keys, **arguments)
        return np.mean(found.stopped & (found.rounds == 2))

    def log_ratio(epsilon):
        large, small = share([1.0, 1.0], epsilon), share([1.0, -1.0], epsilon)
        error = np.sqrt((1 - large) / large + (1 - small) / small) / np.sqrt(len(keys))
        return np.log(large / small), error

    ratio, error = log_ratio(2.0)
    assert ratio > 5 * error  # it does depend on the value
    assert ratio <= 1.0 + 4 * error
    ratio, error = log_ratio(16.0)  # an eighth of the noise
    assert ratio - 4 * error > 1.0


def test_sums_of_a_billion_values_are_31_queries():
    """The pull of 2^30 values keeps its digits: mean 3e-4, standard error 3e-5."""
    stream = stopping.two_valued(0.5 + 1.5e-4)
    stopped = run(stream, 2**30, KEYS[:64], failure=0.05, queries="powers_of_two")
    assert int(stopped.rounds.max()) == 2**30
    error = float(jnp.mean(stopped.mean)) - 3e-4
    assert abs(error) < 4 * 2.0**-15 / 8


def test_recorded_values_are_clipped():
    stream = stopping.recorded([5.0, -7.0, 0.25], bound=2.0)
    # In units of the bound.
    assert float(exact_sums.to_float(stream(None, 0, 3))) == 0.125
    assert float(exact_sums.to_float(stream(None, 1, 1))) == -1.0
