"""Online gradients: textbook descent without noise, any optax optimizer with it."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import random as jr

from dpjax import domains, learners, mechanisms
from tests.learners.test_ftrl import play
from tests.play import play_table

HORIZON = 64


@pytest.mark.parametrize("name", ["ball", "cube"])
def test_without_privacy_it_is_projected_gradient_descent(name):
    """x_(t+1) = projection of x_t - D / (G sqrt t) l_t, in float64."""
    domain = getattr(domains, name)(3)
    losses = jax.vmap(domain.losses.maximizer)(jr.normal(jr.key(0), (HORIZON, 3)))
    points = play(learners.online_gradient(HORIZON, domain, epsilon=np.inf), losses, jr.key(1))
    x, rate = np.zeros(3), domain.diameter
    for t, loss in enumerate(np.asarray(losses, np.float64), start=1):
        np.testing.assert_allclose(points[t - 1], x, atol=1e-5)
        x = x - rate / t**0.5 * loss
        x = np.clip(x, -1, 1) if name == "cube" else x / max(1, np.linalg.norm(x))


@pytest.mark.parametrize(
    "optimizer",
    [
        optax.adam(0.1),
        optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1, momentum=0.9)),
        optax.adagrad(0.5),
    ],
    ids=["adam", "clipped momentum", "adagrad"],
)
def test_any_optimizer_runs_on_private_gradients(optimizer):
    """It follows constant losses to the far side of the ball, despite the noise."""
    domain = domains.ball(3)
    learner = learners.online_gradient(
        HORIZON, domain, optimizer, epsilon=50.0, delta=1e-6, noise="gaussian",
        mechanism=mechanisms.buffered,
    )  # fmt: skip
    losses = jnp.tile(jnp.array([0.0, 1.0, 0.0]), (HORIZON, 1))
    with jax.numpy_dtype_promotion("standard"):  # optax's moments mix dtypes
        points = jax.jit(jax.vmap(lambda key: play(learner, losses, key)))(jr.split(jr.key(0), 20))
    assert np.isfinite(points).all()
    assert (np.linalg.norm(points, axis=-1) < 1 + 1e-5).all()
    assert points[:, HORIZON // 2 :, 1].mean() < -0.7


def test_what_the_optimizer_sees_sums_to_the_release():
    """Gradients are differences of releases, so their noise does not accumulate."""
    domain = domains.ball(2, 1e6)
    learner = learners.online_gradient(HORIZON, domain, optax.sgd(1.0), epsilon=1.0)
    losses = jnp.tile(jnp.array([0.6, 0.0]), (HORIZON, 1))
    game = play_table(learner, losses[:8], jr.key(0))
    np.testing.assert_allclose(game.actions[1:], -game.states.release[1:], rtol=1e-4, atol=1e-3)
