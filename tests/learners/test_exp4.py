"""EXP4: its law of arms, estimates and rates, and its regret."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import bounds, noise
from dpjax.learners import exp4
from dpjax.learners.parts.advised import Mixture, follow

# E has one row for each of five experts on three arms.
ADVICE = [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.25, 0.5, 0.25], [0.25, 0.625, 0.125], [0, 0, 1.0]]
ADVICE = np.array(ADVICE, np.float32)
EXPERTS, ARMS = ADVICE.shape


def test_no_coin_draws_an_arm_of_probability_0_or_none():
    """The least and the largest float below 1, at gamma = 0."""
    one = Mixture(jnp.eye(EXPERTS, dtype=jnp.float32)[1], jnp.float32(0.0), jnp.float32(0.0))
    assert follow(one, ADVICE.T) == 1  # arm 0 has no weight
    assert follow(one._replace(level=jnp.float32(1.0 - 2.0**-24)), ADVICE.T) == 2


def derived_eta(horizon, epsilon, arms=ARMS, experts=EXPERTS):
    lam = 1 / epsilon
    price = 0.75 + 2 * lam**2 + 2 * lam * np.log(horizon)
    return np.sqrt(np.log(experts) / (horizon * arms * price))


def test_rounds_by_hand(monkeypatch):
    """Noise of exactly one scale: exponents -eta E_ia (f - 1/2) / p, in float64."""
    monkeypatch.setattr(noise, "laplace", lambda key, value, scale: value + scale)
    horizon, epsilon = 5000, 2.0
    learner = exp4(horizon, ARMS, EXPERTS, epsilon=epsilon)
    eta = derived_eta(horizon, epsilon)
    gamma = eta * ARMS * (0.5 + 2 / epsilon * np.log(horizon))
    assert gamma < 0.5
    exponents = np.zeros(EXPERTS)
    state, policy = learner.init(jr.key(0))
    for t, loss in enumerate([0.2, 0.9, 0.4, 0.7]):
        q = np.exp(exponents) / np.exp(exponents).sum()
        np.testing.assert_allclose(policy.args[0].weights, q, rtol=1e-5)
        p = (1 - gamma) * q @ ADVICE + gamma / ARMS
        arm = int(policy(jnp.asarray(ADVICE.T)))
        assert np.searchsorted(np.cumsum(p), float(policy.args[0].level), side="right") == arm
        exponents = exponents - eta * ADVICE[:, arm] * (loss + 1 / epsilon - 0.5) / p[arm]
        seen = jnp.asarray(ADVICE[:, arm]), jnp.float32(loss)
        state, policy = learner.step(state, jr.key(t), seen)
        np.testing.assert_allclose(state.exponents, exponents - exponents.max(), atol=1e-6)
    assert learner.report(state) == (0, 0)


def test_a_short_game_is_capped_and_counts_what_the_proof_excludes():
    """gamma = 1/2 at eps = 0.01; a step above 1 is a violation, one below is not."""
    learner = exp4(10, ARMS, EXPERTS, epsilon=0.01)
    state, policy = learner.init(jr.key(0))
    assert policy.args[0].mixing == 0.5 and learner.report(state).capped == 1
    plain = exp4(100, ARMS, EXPERTS, epsilon=np.inf)
    state, _ = plain.init(jr.key(0))
    seen = [(jnp.asarray(ADVICE[:, 0]), jnp.float32(loss)) for loss in (0.0, -1000.0)]
    assert [int(plain.step(state, jr.key(1), x)[0].violations) for x in seen] == [0, 1]


def test_the_bound_by_hand_and_by_the_sum_of_its_terms():
    """ln N / eta + eta T K (M^2 + 2 lambda^2) + gamma T + 1 at the eta of the learner."""
    horizon, epsilon = 10**6, 1.0
    eta = derived_eta(horizon, epsilon, 4, 16)
    gamma = eta * 4 * (0.5 + 2 * np.log(horizon))
    terms = np.log(16) / eta + eta * horizon * 4 * (0.25 + 2) + gamma * horizon + 1
    assert bounds.exp4(horizon, 4, 16, epsilon) == pytest.approx(terms, rel=1e-9)
    _, policy = exp4(horizon, 4, 16, epsilon=epsilon).init(jr.key(0))
    assert float(policy.args[0].mixing) == pytest.approx(gamma, rel=1e-5)
    assert bounds.exp4(1000, 3, 3, 0.5) == bounds.exp2(1000, 3, 0.5)
    assert bounds.exp4(900, 2, 3, np.inf) == pytest.approx(np.sqrt(900 * 2 * np.log(3) * 3) + 1)
