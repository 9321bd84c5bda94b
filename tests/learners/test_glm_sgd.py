"""Private logistic SGD: its gradients, its messages, their privacy, and its regret."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import bounds, learners
from dpjax.learners._glm_sgd import coin_lead, coin_message, coin_stretch
from dpjax.maths.logistic import gradient_ball
from tests.play import play_table


def logistic(x):
    return 1.0 / (1.0 + np.exp(-x))


# Gradients


@pytest.mark.parametrize("length", [0.0, 1.0, 5.0, 40.0])
def test_the_ball_holds_all_gradients_and_no_smaller_one_does(length):
    """By brute force over features of any length up to 1, in the plane of theta and x."""
    centre, radius = map(float, gradient_ball(length))
    angle, size = np.meshgrid(np.linspace(0.0, np.pi, 1001), np.linspace(0.0, 1.0, 101))
    along, across = size * np.cos(angle), size * np.sin(angle)
    gradients = [
        (logistic(length * along) - loss)[..., None] * np.stack([along, across], -1)
        for loss in (0.0, 1.0)
    ]
    gradients = np.concatenate([each.reshape(-1, 2) for each in gradients])
    gradients = np.concatenate([gradients, gradients * [1.0, -1.0]])
    distances = np.linalg.norm(gradients - [centre, 0.0], axis=1)
    assert distances.max() <= radius + 1e-6
    # Two gradients are a diameter apart, so a smaller ball holds only one of them.
    farthest = gradients[np.argmax(np.abs(gradients[:, 1]))]
    assert 2.0 * abs(farthest[1]) == pytest.approx(2.0 * radius, abs=1e-5)
    if 1.0 <= length <= 5.0:  # A ball of this radius around 0 misses some gradients.
        assert np.linalg.norm(gradients, axis=1).max() > radius + 0.1


# The local message


@pytest.mark.parametrize("offset", [[0.2, -0.1, 0.4], [0.0, 0.0, 0.0], [0.55, 0.0], [-0.3]])
def test_messages_are_unbiased_and_have_one_length(offset):
    radius, epsilon, count = 0.55, 1.5, 2**17
    lead = coin_lead(jnp.float32(epsilon))
    draw = jax.jit(jax.vmap(lambda key: coin_message(key, jnp.float32(offset), radius, lead)))
    drawn = np.asarray(draw(jr.split(jr.key(0), count)), np.float64)
    errors = drawn.std(axis=0) / count**0.5
    assert (np.abs(drawn.mean(axis=0) - offset) < 4.0 * errors).all()
    expected = radius * float(coin_stretch(len(offset))) / np.tanh(0.5 * epsilon)
    np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), expected, rtol=1e-5)


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 10.0, 20.0])
def test_the_coin_has_its_epsilon(epsilon):
    """In float32 the ratio of its probabilities is at most e^epsilon, and close to it up to 15."""
    half, lead = np.float64(0.5), np.float64(coin_lead(jnp.float32(epsilon)))
    ratio = np.log((half + lead) / (half - lead))
    assert ratio <= epsilon * (1.0 + 1e-6)
    assert ratio >= epsilon * (1.0 - 1e-4) or epsilon > 15.0


# Privacy


# The algorithm


def table(horizon, arms, dim, seed=0):
    """Random features of length at most 1, and losses 0 or 1 with logistic means."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(horizon, arms, dim))
    features /= np.linalg.norm(features, axis=2, keepdims=True)
    features *= rng.uniform(0.5, 1.0, (horizon, arms, 1))
    means = logistic(features @ np.array([1.5, -1.0, 0.5])[:dim])
    losses = rng.random((horizon, arms)) < means
    return features.astype(np.float32), losses.astype(np.float32)


def in_numpy(features, losses, batch, m, bound):
    """Greedily played SGD: theta (T + 1, d) per round, and the number of clipped steps."""
    theta, total, waiting, j, cut = np.zeros(features.shape[2]), 0.0, 0, 0, 0
    thetas = [theta]
    for x, y in zip(features.astype(np.float64), losses, strict=True):
        arm = int(np.argmin(x @ theta))
        total = total + (logistic(x[arm] @ theta) - y[arm]) * x[arm]
        waiting += 1
        if waiting == batch:
            theta = theta - total / batch / (m * (j + 1.0 + 0.25 / m))
            length = np.linalg.norm(theta)
            if length > bound:
                theta, cut = theta * bound / length, cut + 1
            total, waiting, j = 0.0, 0, j + 1
        thetas.append(theta)
    return np.array(thetas), j, cut


@pytest.mark.parametrize(("batch", "model"), [(7, "shuffle"), (None, "local")])
def test_without_privacy_it_is_greedy_sgd(batch, model):
    features, losses = table(200, 5, 3)
    learner = learners.glm_sgd(
        200, 3, epsilon=np.inf, model=model, batch=batch, strength=0.05, parameter_bound=0.9
    )
    game = play_table(learner, (features, losses), jr.key(0))
    thetas, updates, cut = in_numpy(features, losses, batch or 1, 0.05, 0.9)
    np.testing.assert_allclose(game.actions.args[0], thetas, atol=1e-4)
    report = learner.report(game.last)
    assert (report.updates, report.cut) == (updates, cut) and cut > 0


# Regret


def test_the_bounds_by_hand():
    """T = 1000, d = 3, S = 1, m = 0.05: R = 0.5495, B_3 = 2."""
    start = 0.5 * (1.0 + np.log(1.0 + 0.2 * 999) / 0.2)
    roots = np.sqrt(1005.0) - np.sqrt(6.0)
    local = start + 0.54955 * 2.0 / np.tanh(0.5) / 0.05 * roots
    assert bounds.glm_sgd(1000, 3, 1.0, 0.05) == pytest.approx(local, rel=1e-4)
    plain = start + 0.54955 / 0.05 * roots
    assert bounds.glm_sgd(1000, 3, np.inf, 0.05) == pytest.approx(plain, rel=1e-4)
    assert bounds.glm_sgd_batched(1000, 3, 0.0, 0.05) == pytest.approx(plain, rel=1e-4)
    start = 0.5 * 10.0 * (1.0 + np.log(1.0 + 0.2 * 99) / 0.2)
    variance = 0.54955**2 * (1.0 + 12.0 * 4.0 / 10.0)
    noise = np.sqrt(10.0 * variance) / 0.05 * (np.sqrt(105.0) - np.sqrt(6.0))
    batched = bounds.glm_sgd_batched(1000, 3, 2.0, 0.05, batch=10)
    assert batched == pytest.approx(start + noise, rel=1e-4)
