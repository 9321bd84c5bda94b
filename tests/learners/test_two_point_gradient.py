"""Two points per round: the estimate, its sensitivity by replay, clipping, bounds, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import (
    audit,
    bounds,
    domains,
    environments,
    feedback,
    learners,
    loss_families,
    simulate,
    sweep,
)
from dpjax.learners.parts.one_point import directions
from dpjax.learners.two_point_gradient import default_smoothing
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


@pytest.mark.slow
def test_every_mutant_of_the_noise_is_caught():
    learner = learners.two_point_gradient(16, domains.ball(1), epsilon=1.0)
    made = audit.pairs_for(learner, 16, jr.key(0))
    found = audit.verdict(learner, made, jr.key(1))
    assert found.failed == () and found.spent.max() == pytest.approx(1.0, rel=1e-3)
    caught = audit.replayed_mutants(learner, made, jr.key(1))
    assert len(caught) >= 4 and all(verdict.failed for verdict in caught.values())


def test_steeper_losses_are_clipped_and_counted():
    """Slopes of 2 for G = 1 in one dimension: each difference counts, and the estimate is n G u."""
    line = domains.ball(1)
    learner = learners.two_point_gradient(8, line, epsilon=np.inf, rate=0.01)
    game = play_table(learner, 2.0 * jnp.ones((8, 1)), jr.key(0))
    assert int(game.clipped) == 8
    bases = np.asarray(game.actions).mean(axis=1)[:, 0]
    np.testing.assert_allclose(bases, -0.005 * np.arange(9), atol=1e-5)


def test_the_mean_square_of_an_estimate_is_below_its_bound():
    """n^2 / (n - 1) G^2 for losses of slope 1: linear losses have n, and none exceeds the bound."""
    u = np.random.default_rng(0).normal(size=(20_000, DIM))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    bound = DIM**2 / (DIM - 1)
    for f in (lambda x: x[:, 0], lambda x: np.abs(x[:, 0] - 0.1),
              lambda x: np.linalg.norm(x - 0.3, axis=1)):  # fmt: skip
        square = (DIM / 2 * (f(u) - f(-u))) ** 2
        assert square.mean() < bound
    linear = (DIM * u[:, 0]) ** 2
    assert linear.mean() == pytest.approx(DIM, rel=0.05)
    assert linear.mean() > 0.6 * bound


def regrets(make, epsilon, kind, horizon, trials=32):
    family = loss_families.distance(BALL)

    def game(epsilon):
        return make(horizon, epsilon), environments.convex_losses(BALL, family, kind, steps=100)

    found = sweep(game, np.array([epsilon], np.float32), trials, jr.key(3), checkpoints=1,
                  progress=False)  # fmt: skip
    return found.regret[0, :, 0], found.clipped


@pytest.mark.parametrize("epsilon", [10.0, np.inf])
@pytest.mark.parametrize("kind", ["iid", "adaptive"])
def test_regret_is_below_its_bound(kind, epsilon):
    def two(horizon, epsilon):
        return learners.two_point_gradient(horizon, BALL, epsilon=epsilon)

    found, clipped = regrets(two, epsilon, kind, 512)
    assert (np.asarray(clipped) == 0).all()
    bound = float(bounds.two_point_gradient(512, DIM, epsilon))
    assert found.mean() + 4 * stats.sem(found) < bound
    assert epsilon < np.inf or found.mean() + 4 * stats.sem(found) > 0.1 * bound


def test_two_points_are_worth_more_than_one():
    """On the same losses, trial by trial, without privacy: at most a third of the regret."""

    def two(horizon, epsilon):
        return learners.two_point_gradient(horizon, BALL, epsilon=epsilon)

    def one(horizon, epsilon):
        return learners.private_one_point(horizon, BALL, epsilon=epsilon, loss_range="nonnegative")

    excess = regrets(one, np.inf, "iid", 512)[0] - 3 * regrets(two, np.inf, "iid", 512)[0]
    assert excess.mean() > 3 * stats.sem(excess)


def test_bad_arguments_and_horizon_one():
    unknown = domains.from_minimizer(2, lambda g: -g, centre=np.zeros(2), diameter=2.0)
    for message, domain, changes in [
        ("domain: its inradius is not known", unknown, {}),
        ("smoothing must be", BALL, {"smoothing": 1.0}),
        ("rate must be", BALL, {"rate": 0.0}),
        ("noise must be one of", BALL, {"noise": "discrete_laplace"}),
        ("delta must be given", BALL, {"noise": "gaussian"}),
    ]:
        with pytest.raises(ValueError, match=message):
            learners.two_point_gradient(8, domain, epsilon=1.0, **changes)
    one = learners.two_point_gradient(1, BALL, epsilon=1.0)
    played = simulate(one, environments.linear_losses(BALL, "iid"), jr.key(0))
    assert np.isfinite(played.regret).all()
