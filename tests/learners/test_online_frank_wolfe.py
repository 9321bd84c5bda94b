"""Online Frank-Wolfe: its recursion, the length of its summands, replay, bounds, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import domains, environments, learners, loss_families
from tests.play import play_table

HORIZON, DIM = 64, 3
BALL = domains.ball(DIM)
QUADRATIC = loss_families.quadratic(BALL)


def ball_of(longest):
    """The ball with losses whose gradients have length at most ``longest``."""
    return BALL._replace(losses=domains.ball_losses(DIM, longest))


SMOOTH = {"domain": ball_of(2.0), "smoothness": 1.0}


def targets(seed=0, count=HORIZON):
    return jax.vmap(BALL.project)(2.0 * jr.normal(jr.key(seed), (count, DIM)))


def functions(rows):
    return jax.tree_util.Partial(QUADRATIC.function, rows)


def test_the_recursion_of_the_paper():
    """d_t and x_t in float64 without noise; |w_t| <= G + beta D, and sometimes above G."""
    z = np.asarray(targets(), np.float64)
    learner = learners.online_frank_wolfe(HORIZON, epsilon=np.inf, **SMOOTH)
    game = play_table(learner, functions(targets()), jr.key(0))
    x = previous = np.zeros(DIM)
    d, longest = np.zeros(DIM), 0.0
    for t in range(1, HORIZON + 1):
        np.testing.assert_allclose(game.actions[t - 1], x, atol=1e-4)
        now, before = x - z[t - 1], previous - z[t - 1]
        longest = max(longest, np.linalg.norm(t * now - (t - 1) * before))
        d = (t - 1) / t * (d - before) + now
        v = -d / np.linalg.norm(d)
        x, previous = x + (v - x) / (t + 1), x
    assert 1.5 < longest <= 2.0 + 2.0
    assert int(learner.report(game.last).longer) == 0
    assert jax.vmap(BALL.contains)(game.actions).all()


def test_late_steps_are_not_lost_to_rounding():
    """From round 2^22 on, the step to the best corner is below the resolution of numbers near 1."""
    learner = learners.online_frank_wolfe(2**23, domains.simplex(2), epsilon=np.inf)
    environment = environments.linear_losses(domains.simplex(2), jnp.array([[0.0, 1.0]]))
    start = jnp.array([0.9, 0.1])
    state = learner.init(jr.key(0))[0]._replace(point=start, previous=start, round=2**22)
    loss = environment.step(environment.init(jr.key(0)), jr.key(0), start)[1].loss
    step = jax.jit(lambda _, state: learner.step(state, jr.key(0), loss)[0])
    point = jax.lax.fori_loop(0, 2**12, step, state).point
    # The distance to the corner shrinks by the factor 2^22 / (2^22 + 2^12).
    expected = 1.0 - 0.1 * 2**22 / (2**22 + 2**12)
    assert float(point[0]) - 0.9 == pytest.approx(expected - 0.9, rel=1e-2)


def test_longer_summands_are_clipped_and_counted():
    """Quadratics with the constants of linear losses of length 1/2."""
    learner = learners.online_frank_wolfe(HORIZON, ball_of(0.5), epsilon=np.inf)
    game = play_table(learner, functions(targets()), jr.key(0))
    assert int(learner.report(game.last).longer) > 32
    # Linear losses of length 3, between G = 2 and G + beta D = 4.
    rows = 3.0 / DIM**0.5 * jnp.ones((8, DIM))
    for given, clipped in ((SMOOTH, 0), ({"domain": ball_of(2.0)}, 8)):
        learner = learners.online_frank_wolfe(8, epsilon=np.inf, **given)
        assert int(learner.report(play_table(learner, rows, jr.key(0)).last).longer) == clipped
