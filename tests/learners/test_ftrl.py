"""FTRL: the paper's key lemma, its bound, plain FTRL without noise, and the effect of noise."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import domains, learners, mechanisms
from tests.play import play_table

HORIZON = 64
DOMAINS = {"simplex": domains.simplex(3), "ball": domains.ball(3), "cube": domains.cube(3)}


def numpy_ftrl(domain, losses, rate):
    """The points x_1 .. x_T in float64, from the equations."""
    sums = np.concatenate([np.zeros((1, losses.shape[1])), np.cumsum(losses, axis=0)])[:-1]
    if domain == "simplex":
        weights = np.exp(-rate * (sums - sums.min(axis=1, keepdims=True)))
        return weights / weights.sum(axis=1, keepdims=True)
    points = -rate * sums / 2
    if domain == "cube":
        return np.clip(points, -1, 1)
    return points / np.maximum(1, np.linalg.norm(points, axis=1, keepdims=True))


def play(learner, losses, key):
    """The points of a learner on a table of losses, (T, d)."""
    return play_table(learner, losses, key).actions[:-1]


@cache
def table(name):
    """Losses from a domain's own set, with one dominant direction."""
    losses = DOMAINS[name].losses
    directions = jr.normal(jr.key(3), (HORIZON, 3)) + jnp.array([0.5, 0.0, -0.5])[None]
    return jax.vmap(losses.maximizer)(directions)


@pytest.mark.parametrize(
    ("name", "mechanism"),
    [("simplex", "tree"), ("cube", "tree"), *(("ball", name) for name in mechanisms.__all__)],
)
def test_without_privacy_it_is_ftrl(name, mechanism):
    """Exponential weights and lazy projections, in float64; the default rate is explicit."""
    rate = {"simplex": np.sqrt(8 * np.log(3) / 64), "ball": 2 / 8, "cube": np.sqrt(4 * 3 / 64)}
    law = {"noise": "gaussian", "delta": 1e-6} if mechanism == "unbounded" else {}
    learner = learners.ftrl(
        HORIZON, DOMAINS[name], epsilon=np.inf, mechanism=getattr(mechanisms, mechanism), **law
    )
    expected = numpy_ftrl(name, np.asarray(table(name), np.float64), rate[name])
    np.testing.assert_allclose(play(learner, table(name), jr.key(0)), expected, atol=2e-6)
    assert learner.privacy.epsilon == np.inf


def test_printed_scale():
    """|Y|_1 log2 T / epsilon: half of ours for symmetric losses at T = 64, ours for [0, 1]."""
    domain = domains.simplex(3)._replace(losses=domains.box_losses(3))
    printed = learners.ftrl(64, domain, epsilon=1.0, calibration="printed")
    assert printed.privacy.calibration == "printed"

    def spread(learner):
        keys = jr.split(jr.key(0), 2000)
        step = jax.jit(
            jax.vmap(lambda key: learner.step(learner.init(key)[0], key, jnp.zeros(3))[0])
        )
        return np.asarray(step(keys).noise.walk).std()

    derived = learners.ftrl(64, domain, epsilon=1.0)
    assert spread(derived) / spread(printed) == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize("name", DOMAINS)
def test_the_anytime_rate_does_not_know_the_horizon(name):
    """sqrt(D_R / (2 S t)) without noise; the same actions for two horizons with noise."""
    regularizer, losses = DOMAINS[name].regularizer, table(name)
    first = np.sqrt(regularizer.range / (2 * regularizer.stability(DOMAINS[name].losses)))
    rates = first / np.sqrt(np.arange(1.0, HORIZON + 1))[:, None]
    made = [
        learners.ftrl(horizon, DOMAINS[name], epsilon=epsilon, delta=1e-6, noise="gaussian",
                      rate="anytime", mechanism=mechanisms.hybrid)
        for horizon, epsilon in ((HORIZON, np.inf), (HORIZON, 10.0), (8 * HORIZON, 10.0))
    ]  # fmt: skip
    plain, short, long = (play(learner, losses, jr.key(0)) for learner in made)
    expected = numpy_ftrl(name, np.asarray(losses, np.float64), rates)
    np.testing.assert_allclose(plain, expected, atol=2e-6)
    np.testing.assert_array_equal(short, long)
    assert np.abs(short - plain).max() > 0.1
