"""Logistic arms: unit features, losses of the stated means, and gaps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import environments
from tests.environments.test_contextual import always, assert_unbiased, rounds


@pytest.mark.parametrize("dim", [1, 3, 12])
def test_features_are_uniform_on_the_sphere_and_theta_is_drawn_once(dim):
    states, outcomes = rounds(environments.glm_arms(dim, 5, scale=2.0), always(0), 400, games=8)
    features, _ = outcomes.loss
    np.testing.assert_allclose(np.linalg.norm(features, axis=-1), 1.0, atol=2e-6)
    theta = np.asarray(states)
    np.testing.assert_allclose(np.linalg.norm(theta, axis=1), 2.0, atol=1e-5)
    assert len(np.unique(theta[:, 0].round(4))) == (8 if dim > 1 else 2)
    points = features.reshape(-1, dim)
    error = len(points) ** -0.5
    assert np.abs(points.mean(axis=0)).max() < 5.0 * error
    moments = points.T @ points / len(points)
    assert np.abs(moments - np.eye(dim) / dim).max() < 5.0 * error


def test_losses_have_logistic_means_and_the_tally_is_the_gap():
    """Losses of half the log-odds are rejected."""
    states, outcomes = rounds(environments.glm_arms(3, 4, scale=3.0), always(2), 4000, games=4)
    features, losses = outcomes.loss
    mean = 1.0 / (1.0 + np.exp(-np.einsum("gtkd,gd->gtk", features, np.asarray(states))))
    assert set(np.unique(losses)) == {0.0, 1.0}
    assert_unbiased(losses[..., 2], mean[..., 2])
    other = 1.0 / (1.0 + np.sqrt(1.0 / mean - 1.0))
    with pytest.raises(AssertionError):
        assert_unbiased(losses[..., 2], other[..., 2])
    np.testing.assert_allclose(outcomes.tally, mean[..., 2] - mean.min(axis=-1), atol=1e-5)


def test_a_traced_scale_has_the_arms_of_a_plain_one():
    key = jr.key(3)

    def features(scale):
        environment = environments.glm_arms(3, scale=scale)
        return environment.step(environment.init(key), key, always(0))[1]

    plain, traced = features(2.0), jax.jit(features)(jnp.float32(2.0))
    assert plain.loss[0].shape == (10, 3)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), plain, traced)
