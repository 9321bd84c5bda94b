"""EXP2: its estimates, its rates and their condition, its design over vectors."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import bounds, noise
from dpjax.learners import exp2
from dpjax.learners._exp2 import (
    arms_as_actions,
    derived_rates,
    g_optimal_design,
    printed_rates,
    vectors_as_actions,
)

VECTORS = np.array([[1.0, 0.2], [-0.3, 1.0], [0.0, -1.0], [0.8, 0.7], [-1.0, 0.1]])
# In R^3 but in one plane; two of them are equal.
FLAT = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 2.0, 1.0], [1.0, 1.0, 0.0]])
STATES = [np.zeros(5), np.array([0, -1, -2, -0.3, -4.0]), np.array([-9, 0, -9, -9, -0.1])]


def mixed(exponents, mixing, exploration):
    weights = np.exp(exponents)
    return (1 - mixing) * weights / weights.sum() + mixing * exploration


@pytest.mark.parametrize("exponents", STATES)
@pytest.mark.parametrize(
    ("actions", "features"),
    [
        (arms_as_actions(5), np.eye(5)),
        (vectors_as_actions(VECTORS), VECTORS),
        (vectors_as_actions(FLAT), FLAT),
    ],
    ids=["arms", "vectors", "flat"],
)
def test_estimates_are_unbiased(actions, features, exponents):
    """sum_j p_j <l, a_j> <a_i, P^+ a_j> = <l, a_i>, exactly: every draw is enumerated."""
    count = len(features)
    p = mixed(exponents[:count], 0.1, actions.exploration)
    loss = np.linspace(-1, 0.7, features.shape[1])
    seen = features @ loss
    scores = np.stack([actions.scores(jnp.asarray(p, jnp.float32), j) for j in range(count)])
    np.testing.assert_allclose((p * seen) @ scores, seen, atol=2e-5)


def test_three_rounds_by_hand(monkeypatch):
    """One game with noise of exactly one scale: exponents -eta (f - 1/2) / p, in float64."""
    horizon, epsilon, arms = 100, 2.0, 3
    monkeypatch.setattr(noise, "laplace", lambda key, value, scale: value + scale)
    learner = exp2(horizon, arms, epsilon=epsilon)
    scale = 1 / epsilon
    reach = arms * (0.5 + 2 * scale * np.log(horizon))
    price = arms * (0.25 + 2 * scale**2) + reach
    eta = np.sqrt(np.log(arms) / (horizon * price))
    exponents = np.zeros(arms)
    state, arm = learner.init(jr.key(0))
    for t, loss in enumerate([0.2, 0.9, 0.4]):
        p = mixed(exponents, eta * reach, 1 / arms)
        exponents[arm] -= eta * (loss + scale - 0.5) / p[arm]
        state, arm = learner.step(state, jr.key(t), jnp.float32(loss))
        np.testing.assert_allclose(state.base.exponents, exponents - exponents.max(), atol=1e-6)


@pytest.mark.parametrize("horizon", [10, 1000, 10**6])
@pytest.mark.parametrize("arms", [2, 100])
def test_rates_keep_their_conditions(horizon, arms):
    """Derived: gamma >= eta N (M + 2 lambda ln T). Printed: scaled from losses in [-1, 1]."""
    actions = arms_as_actions(arms)
    for epsilon in (0.01, 0.3, 1.0, 10.0, np.inf):
        scale = jnp.float32(2 / epsilon)
        eta, gamma, capped = derived_rates(horizon, actions, (-1.0, 1.0), scale, 0.0)
        reach = arms * (1 + 2 * float(scale) * np.log(horizon))
        assert float(gamma) * (1 + 1e-5) >= float(eta) * reach
        assert bool(capped) == (float(gamma) == 0.5)
        eta, gamma, _ = printed_rates(horizon, actions, (-3.0, 3.0), 3.0 * scale)
        inflation = 1 + 2 * float(scale) ** 2 * np.log(arms * horizon)
        expected = np.sqrt(np.log(arms) / (2 * arms * horizon * inflation))
        assert float(eta) == pytest.approx(expected / 3, rel=1e-5)
        wanted = min(1.0, expected * arms * np.sqrt(inflation))
        assert float(gamma) == pytest.approx(wanted, rel=1e-5)


def test_derived_rates_give_the_bound():
    """bounds.exp2 is ln K / eta + eta T (r (M^2 + 2 lambda^2) + w g (M + B)) + w at its minimum."""
    for horizon, arms, epsilon in [(10**6, 4, 1.0), (10**5, 10, np.inf), (10**6, 3, 5.0)]:
        scale = 1 / epsilon
        eta, _, capped = derived_rates(
            horizon, arms_as_actions(arms), (0.0, 1.0), jnp.float32(scale), 0.5
        )
        assert not capped

        def sum_of_terms(eta, horizon=horizon, arms=arms, scale=scale):
            reach = arms * (0.5 + 2 * scale * np.log(horizon))
            price = arms * (0.25 + 2 * scale**2) + reach
            return np.log(arms) / eta + eta * horizon * price + 1

        best = bounds.exp2(horizon, arms, epsilon)
        assert sum_of_terms(float(eta)) == pytest.approx(best, rel=1e-5)
        assert min(sum_of_terms(0.9 * float(eta)), sum_of_terms(1.1 * float(eta))) > best


def test_violations_and_the_cap_are_reported(monkeypatch):
    """A draw of -50 scales violates eta l~ >= -1, a draw of 50 scales does not; T = 4 is capped."""
    for draw, broken in ((-50.0, 1), (50.0, 0), (-1.0, 0)):
        monkeypatch.setattr(noise, "laplace", lambda key, v, scale, draw=draw: v + draw * scale)
        learner = exp2(1000, 3, epsilon=0.1)
        state, _ = learner.init(jr.key(0))
        report = learner.report(learner.step(state, jr.key(1), jnp.float32(0.5))[0])
        assert (report.violations, report.capped) == (broken, 0)
    learner = exp2(4, 3, epsilon=0.1)
    assert learner.report(learner.init(jr.key(0))[0]).capped == 1


def test_g_optimal_design():
    """Known designs, a random set and a flat one: the spread equals the rank, to 1 %."""
    cross = np.concatenate([np.eye(3), -np.eye(3)])
    mu, spread, white = g_optimal_design(cross)
    np.testing.assert_allclose(mu[:3] + mu[3:], 1 / 3)  # in any division between a and -a
    assert spread == pytest.approx(3.0)
    for vectors, rank in [(np.random.default_rng(0).normal(size=(200, 6)), 6), (FLAT, 2)]:
        mu, spread, white = g_optimal_design(vectors)
        assert mu.min() >= 0 and mu.sum() == pytest.approx(1.0)
        assert rank <= spread <= 1.01 * rank * (1 + 1e-12)
        assert white.shape == (len(vectors), rank)
        leverage = np.sum(vectors @ np.linalg.pinv(vectors.T * mu @ vectors, 1e-10) * vectors, 1)
        assert leverage.max() == pytest.approx(spread)
