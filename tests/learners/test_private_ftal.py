"""Private follow the approximate leader: it minimizes the stated function."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr
from scipy import optimize

from dpjax import domains, learners
from tests.play import play_table

HORIZON, CURVATURE = 12, 0.3


def test_each_point_minimizes_the_noisy_sum_plus_quadratics_around_its_own_past():
    """On the ball, against scipy.optimize at the released sums, with noise and without."""
    domain = domains.ball(3)
    losses = np.array(jr.normal(jr.key(0), (HORIZON, 3)))
    losses /= np.linalg.norm(losses, axis=1, keepdims=True)
    for epsilon in (5.0, np.inf):
        learner = learners.private_ftal(
            HORIZON, domain, epsilon=epsilon, strong_convexity=CURVATURE
        )
        game = jax.device_get(play_table(learner, losses[:-1], jr.key(1)))
        points, inner = game.actions.astype(np.float64), game.states.sums
        for t in range(1, HORIZON):
            # The released value: the mechanism's sum with its noise.
            level = (t & -t).bit_length() - 1
            release = (inner.total[t] + inner.noise.walk[t, level]).astype(np.float64)

            def objective(w, release=release, past=points[:t]):
                return release @ w + CURVATURE / 2 * sum(np.sum((w - v) ** 2) for v in past)

            found = optimize.minimize(
                objective, np.zeros(3), method="SLSQP", options={"ftol": 1e-12, "maxiter": 300},
                constraints={"type": "ineq", "fun": lambda w: 1 - w @ w},
            )  # fmt: skip
            assert objective(points[t]) <= found.fun + 1e-4 * (1 + abs(found.fun))
            assert np.linalg.norm(points[t]) <= 1 + 1e-6


def test_default_curvature_is_the_least_of_its_bound():
    """H = sqrt(2 A / (D^2 T)), A = (G^2 / 2)(1 + ln T), seen from the step after a small loss."""
    domain, loss = domains.ball(3, 100.0), jnp.array([0.001, 0.0, 0.0])
    learner = learners.private_ftal(100, domain, epsilon=np.inf)
    _, point = learner.step(learner.init(jr.key(0))[0], jr.key(0), loss)
    curvature = np.sqrt((1 + np.log(100)) / (200.0**2 * 100))
    np.testing.assert_allclose(point, [-0.001 / curvature, 0, 0], rtol=1e-4)
