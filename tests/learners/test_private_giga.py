"""The noisy output gradient method: its hidden sensitivity, and the noise that hides it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import domains, learners, privacy

HORIZON, ALPHA = 20, 0.4
DOMAINS = {"ball": domains.ball(3, 50.0), "cube": domains.cube(3), "simplex": domains.simplex(3)}


def hidden(name, losses):
    """The points that are never shown, after each round, (T, d)."""
    learner = learners.private_giga(
        HORIZON, DOMAINS[name], epsilon=np.inf, delta=1e-6, strong_convexity=ALPHA
    )
    state, _ = learner.init(jr.key(0))

    def one_round(state, loss):
        state, _ = learner.step(state, jr.key(0), loss)
        return state, state.point

    return jax.lax.scan(one_round, state, losses)[1]


@pytest.mark.parametrize("name", DOMAINS)
def test_a_changed_round_moves_the_hidden_point_by_at_most_the_sensitivity_over_t(name):
    """Delta_2 / (alpha t) after round t, for 300 pairs; attained where no border is in the way."""
    losses = DOMAINS[name].losses
    keys = jr.split(jr.key(1), 300)

    def pair(key):
        a, b, c = jr.split(key, 3)
        sequence = jax.vmap(losses.maximizer)(jr.normal(a, (HORIZON, 3)))
        direction = jr.normal(b, (3,))
        t = jr.randint(c, (), 0, HORIZON)
        rows = (jnp.arange(HORIZON) == t)[:, None]
        first = jnp.where(rows, losses.maximizer(direction)[None], sequence)
        second = jnp.where(rows, losses.maximizer(-direction)[None], sequence)
        moved = hidden(name, first) - hidden(name, second)
        return jnp.sqrt(jnp.sum(moved**2, axis=1))

    moved = np.asarray(jax.jit(jax.vmap(pair))(keys))
    allowed = losses.diameters[1] / (ALPHA * np.arange(1, HORIZON + 1))
    assert (moved <= allowed * (1 + 1e-4) + 1e-5).all()
    if name == "ball":
        assert (moved.max(axis=0) > 0.99 * allowed).all()  # so that less noise would not do


def test_the_outputs_compose_to_the_declared_mu():
    """Noise of each of T - 1 outputs by KS; (sensitivity / noise)^2 sums to mu^2, exactly."""
    epsilon, delta = 2.0, 1e-6
    wide = domains.ball(3, 1e6)
    learner = learners.private_giga(
        HORIZON, wide, epsilon=epsilon, delta=delta, strong_convexity=ALPHA
    )

    def shown(key):
        state, _ = learner.init(key)

        def one_round(state, t):
            state, point = learner.step(state, jr.fold_in(key, t), jnp.zeros(3))
            return state, point - state.point

        return jax.lax.scan(one_round, state, jnp.arange(1, HORIZON))[1]

    noise = np.asarray(jax.jit(jax.vmap(shown))(jr.split(jr.key(2), 3000)))
    mu = 1 / float(privacy.gaussian_inverse_mu(epsilon, delta))
    sensitivity = 2.0 / (ALPHA * np.arange(1, HORIZON))
    scale = sensitivity * np.sqrt(HORIZON - 1) / mu
    for t in (0, 5, 18):
        assert stats.kstest(noise[:, t, 0] / scale[t], "norm").pvalue > 1e-3
        assert stats.kstest(noise[:, t, 0] / (scale[t] / 2), "norm").pvalue < 1e-9
    total = np.sum((sensitivity / scale) ** 2)
    assert total == pytest.approx(mu**2)
    assert privacy.gaussian_delta(total**0.5, epsilon) == pytest.approx(delta, rel=1e-3)
    assert privacy.gaussian_delta(2 * total**0.5, epsilon) > 100 * delta  # half the noise
    assert learner.privacy.rho == pytest.approx(mu**2 / 2, rel=1e-5)


def test_without_privacy_it_is_the_mean_of_the_losses():
    """x_(t+1) = -mean(l_1 .. l_t) / alpha where no border is in the way, and nothing is added."""
    losses = jax.vmap(domains.ball_losses(3).maximizer)(jr.normal(jr.key(4), (HORIZON, 3)))
    points = hidden("ball", losses)
    means = np.cumsum(np.asarray(losses, np.float64), axis=0) / np.arange(1, HORIZON + 1)[:, None]
    np.testing.assert_allclose(points, -means / ALPHA, atol=1e-5)


def test_losses_outside_are_clipped_and_counted():
    learner = learners.private_giga(8, domains.ball(3), epsilon=np.inf, delta=1e-6)
    state, _ = learner.init(jr.key(0))
    outside, _ = learner.step(state, jr.key(0), jnp.array([3.0, 4.0, 0.0]))
    inside, _ = learner.step(state, jr.key(0), jnp.array([0.6, 0.8, 0.0]))
    np.testing.assert_allclose(outside.point, inside.point, atol=1e-6)
    assert learner.report(outside).clipped == 1 and learner.report(inside).clipped == 0
