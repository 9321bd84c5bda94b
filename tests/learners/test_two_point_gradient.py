"""Two points per round: the estimate, its sensitivity by replay, clipping, bounds, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import audit, domains, feedback, learners
from dpjax.learners._two_point_gradient import default_smoothing
from dpjax.learners.parts.one_point import directions
from tests.play import play_table

HORIZON, DIM = 64, 3
BALL = domains.ball(DIM)


@pytest.mark.parametrize("domain", [BALL, domains.simplex(4)], ids=["ball", "simplex"])
def test_the_updates(domain):
    """In NumPy without noise, with u_t from the learners' keys; both points are in the set."""
    given = np.asarray(0.5 * jr.normal(jr.key(0), (HORIZON, domain.dim)))
    steep = domain._replace(losses=domains.ball_losses(domain.dim, 3.0))
    learner = learners.two_point_gradient(HORIZON, steep, epsilon=np.inf)
    game = play_table(learner, given, jr.key(1))
    space, zeta = directions(domain), default_smoothing(HORIZON, domain)
    n = space.dim
    assert zeta == min(domain.radius / HORIZON, domain.inradius / 2)
    eta = domain.radius / np.sqrt(HORIZON * n**2 * 9.0 / (4 * (n - 1)))
    inner = domains.shrunk(domain, 1.0 - zeta / domain.inradius)
    total = np.zeros(domain.dim)
    for t in range(HORIZON):
        u = np.asarray(space.lift(space.draw(jr.split(jr.fold_in(jr.key(1), t))[0])))
        base = np.asarray(inner.project(jnp.asarray(domain.centre - eta / 2 * total, jnp.float32)))
        expected = base + zeta * np.array([[1.0], [-1.0]]) * u
        np.testing.assert_allclose(game.actions[t], expected, atol=2e-4)
        total = total + n * (given[t] @ u) * u  # <l, x+ - x-> / (2 zeta) = <l, u>
    assert jax.vmap(jax.vmap(domain.contains))(game.actions).all()
    assert int(game.clipped) == 0


def test_values_and_their_mean_are_those_of_the_points():
    points = jnp.array([[1.0, 0.0, 0.0], [0.0, 0.5, 0.0]])
    loss = jnp.array([0.25, 1.0, 0.0])
    np.testing.assert_array_equal(feedback.values(loss, points), [0.25, 0.5])
    assert float(feedback.mean_value(loss, points)) == 0.375
    assert float(feedback.mean_value(loss, points[0])) == 0.25
    np.testing.assert_array_equal(feedback.middle(points), [0.5, 0.25, 0.0])
    np.testing.assert_array_equal(feedback.middle(points[0]), points[0])


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("domain", [BALL, domains.ball(1)], ids=["3", "1"])
def test_a_replaced_loss_spends_at_most_what_is_declared(domain):
    """Opposite slopes of 100 are clipped to 2 n G along u; half the noise would spend twice that.

    In L1 a direction has norm sqrt(n) only if its entries are equal in size: in one dimension
    always.
    """
    rows = 100.0 * jnp.ones((8, domain.dim))
    pair = audit.Pair(rows, rows.at[0].set(-rows[0]))
    learner = learners.two_point_gradient(8, domain, epsilon=1.0)
    spent = float(audit.spent(audit.replay(learner, pair, jr.key(0)), 0.0))
    assert 0.6 < spent <= 1.0 + 1e-3
    assert domain.dim > 1 or spent == pytest.approx(1.0, rel=1e-3)
