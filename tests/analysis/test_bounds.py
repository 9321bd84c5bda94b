"""Bounds by simulation, by their learners, and their range of validity.

The examples in their docstrings have golden values.
"""

import math

import numpy as np
import pytest

from dpjax import bounds
from dpjax.learners.parts.dartboard import derived_setting


def test_a_memory_as_long_as_a_batch_has_no_bound():
    tau = np.array([1.0, 2.0, 3.0, 4.0])
    for memory in (0, 1, 2, 3, 4, np.inf):
        value = bounds.exp3_minibatch(1000, 3, tau, memory)
        np.testing.assert_array_equal(np.isnan(value), memory >= tau)
    assert np.isnan(bounds.exp3_minibatch(1000, 3, np.nan, 0))


def test_the_noise_term_of_ftrl_bounds_the_range_of_the_noise():
    """E[max <Z, x> - min <Z, x>] over 20 000 sums of 10 Laplace draws; a quarter is too small."""
    draws = np.random.default_rng(0).laplace(size=(20_000, 10, 4)).sum(axis=1)
    means = {  # at epsilon = 1
        "simplex": 80 * np.ptp(draws, axis=1).mean(),
        "ball": 80 * np.linalg.norm(draws, axis=1).mean(),
        "cube": 40 * np.abs(draws).sum(axis=1).mean(),
    }
    for domain, mean in means.items():
        plain, private = (bounds.ftrl(1024, 4, e, domain=domain) for e in (np.inf, 1.0))
        assert (private - plain) / 4 < mean < private - plain


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 10.0, 1e4])
@pytest.mark.parametrize("horizon", [64, 2**16])
def test_the_pure_dartboard_has_at_least_the_eta_of_its_bound(horizon, epsilon):
    """The bound's eta is private by the learner's own formula, and not larger than that."""
    restart = 1 / math.sqrt(8 * horizon)
    eta = min(math.sqrt(math.log(4) / horizon), restart, epsilon * restart / (2 + restart))
    setting = derived_setting(horizon, 4, epsilon, None)
    assert eta <= float(setting.rate) * (1 + 1e-5) <= math.sqrt(math.log(4) / horizon) * (1 + 1e-4)
    assert restart * (1 - 1e-5) <= float(setting.restart)
    found = bounds.shrinking_dartboard_pure(horizon, 4, epsilon)
    assert found == pytest.approx(bounds.shrinking_dartboard(horizon, 4, eta, restart))
    at_learner = bounds.shrinking_dartboard(horizon, 4, float(setting.rate), restart)
    assert np.isnan(at_learner) or at_learner <= found * (1 + 1e-5)


@pytest.mark.parametrize("domain", ["arms", "ball", "cube"])
def test_random_losses_gain_what_their_bound_says(domain):
    """Simulates the best action in hindsight; all other actions lose nothing on average."""
    generator, rounds, games = np.random.default_rng(0), 60, 20_000
    if domain == "arms":
        losses = generator.integers(0, 2, (games, rounds, 3)) - 0.5
        gains = -losses.sum(axis=1).min(axis=1)
    elif domain == "cube":
        signs = generator.choice([-1.0, 1.0], (games, rounds // 3, 3))
        gains = np.abs(signs.sum(axis=1)).sum(axis=1)
    else:  # orthogonal to the sum so far, so that squared lengths add up
        total = np.zeros((games, 3))
        for _ in range(rounds):
            new = np.cross(total, generator.normal(size=(games, 3)))
            new += np.where(total.any(axis=1, keepdims=True), 0.0, [1.0, 0.0, 0.0])
            total += new / np.linalg.norm(new, axis=1, keepdims=True)
        gains = np.linalg.norm(total, axis=1)
    error = gains.std() / np.sqrt(games)
    found = float(bounds.random_losses(rounds, 3, domain=domain))
    assert abs(found - gains.mean()) < 4.0 * error + 1e-6
