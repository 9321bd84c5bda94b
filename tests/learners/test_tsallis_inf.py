"""Tsallis-INF: its probabilities, its estimates, its rates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax.learners import tsallis_inf
from dpjax.learners._tsallis_inf import probabilities
from tests.play import play_table


def by_bisection(estimates, rate):
    """(rate L_i + m)^-2 with sum 1, in float64."""
    scaled = rate * (estimates - estimates.min())
    low, high = 1.0, len(estimates) ** 0.5
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if np.sum((scaled + middle) ** -2.0) > 1 else (low, middle)
    return (scaled + low) ** -2.0


@pytest.mark.parametrize("arms", [2, 3, 50, 10_000])
def test_probabilities(arms):
    """Against bisection, for estimates close together, far apart and in two groups."""
    generator = np.random.default_rng(0)
    cases = [
        np.zeros(arms),
        generator.exponential(size=arms),
        10 ** generator.uniform(-3, 7, arms),
        np.where(np.arange(arms) == 1, 0.0, 2.0 * arms**0.5),
    ]
    for estimates in cases:
        estimates = (estimates - estimates.min()).astype(np.float32)
        p = probabilities(jnp.asarray(estimates), jnp.float32(0.5))
        np.testing.assert_allclose(p, by_bisection(estimates.astype(float), 0.5), rtol=1e-5)


def test_three_rounds_by_hand():
    """100 games equal a float64 loop: eta_t = 2 / sqrt(t), and l / p for the played arm."""
    learner = tsallis_inf(3, 3)
    table = np.asarray(jr.uniform(jr.key(1), (3, 3)), np.float64)

    def game(key):
        played = play_table(learner, table.astype(np.float32), key)
        return played.actions, played.states.estimates, played.states.probability

    games = jax.jit(jax.vmap(game))(jr.split(jr.key(2), 100))
    for arms, estimates, chances in zip(*map(np.asarray, games), strict=True):
        sums = np.zeros(3)
        for t in range(1, 5):
            # 4 (eta (L - z))^-2 with eta = 2 / sqrt(t).
            p = by_bisection(sums, (2 / t**0.5) / 2)
            np.testing.assert_allclose(chances[t - 1], p[arms[t - 1]], rtol=1e-5)
            np.testing.assert_allclose(estimates[t - 1], sums - sums.min(), atol=1e-5)
            if t < 4:
                sums[arms[t - 1]] += table[t - 1, arms[t - 1]] / p[arms[t - 1]]
