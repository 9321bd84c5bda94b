"""EXP3 against the formulas of Auer et al. 2002, and its own privacy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax.learners._exp3 import exp3
from tests.play import play_table
from tests.zcdp import least_epsilon


def test_three_rounds_by_hand():
    """Exponents, probabilities and arms of 200 games equal a float64 loop with unshifted G."""
    arms, mixing = 3, 0.3
    losses = np.array([[0.9, 0.1, 0.5], [0.0, 1.0, 0.25], [0.6, 0.3, 0.7]])
    learner = exp3(3, arms, mixing=mixing)

    def game(key):
        # The uniform number of the learner's single draw per round.
        uniform = [jr.uniform(jr.fold_in(key, t)) for t in range(4)]
        return play_table(learner, losses.astype(np.float32), key).states, jnp.stack(uniform)

    games = jax.jit(jax.vmap(game))(jr.split(jr.key(1), 200))
    states, uniforms = jax.tree.map(np.asarray, games)
    for *leaves, uniform in zip(*states, uniforms, strict=True):
        exponents, played, probability = leaves
        estimates = np.zeros(arms)
        for t in range(4):
            weights = np.exp(mixing * estimates / arms)
            p = (1 - mixing) * weights / weights.sum() + mixing / arms
            arm = int(np.searchsorted(np.cumsum(p)[:-1], uniform[t], side="right"))
            assert played[t] == arm
            # A dozen float32 operations, each within 2^-24 = 6e-8.
            assert probability[t] == pytest.approx(p[arm], rel=2e-6)
            theta = mixing * estimates / arms
            np.testing.assert_allclose(exponents[t], theta - theta.max(), atol=1e-6)
            if t < 3:
                estimates[arm] += (1 - losses[t, arm]) / p[arm]
    assert len(np.unique(states.arm, axis=0)) > 20  # many different games


def cap_by_hand(arms, mixing):
    return np.log((arms * (1 - mixing) + mixing) / mixing)


@pytest.mark.parametrize("mixing", [None, 0.0035, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("arms", [2, 4, 10])
def test_declared_epsilon(arms, mixing):
    """T - 1 draws of bounded range 1, or by their log-ratios, in float64; and the printed value."""
    for horizon in (1, 2, 64, 2**18, 2**20):
        derived = exp3(horizon, arms, mixing=mixing).privacy
        printed = exp3(horizon, arms, mixing=mixing, calibration="printed").privacy
        gamma = mixing or min(1.0, np.sqrt(arms * np.log(arms) / ((np.e - 1) * horizon)))
        cap, delta, draws = cap_by_hand(arms, gamma), 1 / max(horizon, 2) ** 2, horizon - 1
        rho = draws * min(1, 2 * cap) ** 2 / 8
        epsilon = min(draws * min(1, cap), least_epsilon(rho, delta))
        # The logarithm of the cap cancels if gamma is close to 1: a few 2^-24 over 0.1.
        assert float(derived.epsilon) == pytest.approx(epsilon, rel=1e-5, abs=2e-6)
        assert float(derived.rho) == pytest.approx(rho, rel=1e-5)
        mixed = 2 * (1 - gamma) * horizon + np.sqrt(2 * horizon * np.log(1 / delta))
        paper = min(2 * horizon, horizon * cap, mixed)
        assert float(printed.paper_epsilon) == pytest.approx(paper, rel=1e-5)
        assert (printed.epsilon, printed.rho) == (derived.epsilon, derived.rho)
        assert derived.delta == printed.delta == delta
