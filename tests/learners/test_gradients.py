"""Learners of linear losses on gradients of convex losses: bounds, clipping, and privacy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import audit, domains, feedback, learners, loss_families
from dpjax.combinators import on_gradients
from dpjax.learners.parts.prefix_sums import noise_length, prefix_sums
from dpjax.mechanisms import tree
from tests.play import play_table

HORIZON, DIM = 64, 3
BALL = domains.ball(DIM)


def loss_set(family, **changes):
    return domains.ball_losses(DIM, family.lipschitz(0.0))._replace(**changes)


def ball_of(losses):
    """The ball with these losses."""
    return BALL._replace(losses=losses)


def follower(family, **options):
    """FTRL on gradients of a family's losses on the ball."""
    options = {"domain": ball_of(loss_set(family)), "rate": "noisy", **options}
    return on_gradients(learners.ftrl(HORIZON, **options))


@pytest.mark.parametrize("name", ["ftrl", "online_gradient", "private_ftal"])
def test_on_linear_losses_it_is_full_information(name):
    """The same losses as functions and as vectors: equal plays up to rounding."""
    family = loss_families.linear(BALL)
    rows = jax.vmap(family.draw)(
        jr.split(jr.key(0), HORIZON), jr.uniform(jr.key(1), (HORIZON, DIM))
    )
    vectors = getattr(learners, name)(HORIZON, ball_of(loss_set(family)), epsilon=20.0)
    functions = jax.tree_util.Partial(family.function, rows)
    ours = play_table(on_gradients(vectors), functions, jr.key(2))
    theirs = play_table(vectors, rows[0], jr.key(2))
    np.testing.assert_allclose(ours.actions, theirs.actions, atol=1e-6)
    np.testing.assert_allclose(ours.seen, rows[0], rtol=1e-6)
    assert np.linalg.norm(ours.actions[-1]) > 0.1
    assert int(ours.clipped) == 0


def test_the_gradient_is_taken_at_the_play():
    """For |x - z|^2 / 2 it is x - z; a vector is its own gradient."""
    z, x = jnp.array([0.5, 0.0, 0.0]), jnp.array([0.0, 1.0, 0.0])
    loss = jax.tree_util.Partial(loss_families.quadratic(BALL).function, z)
    np.testing.assert_allclose(feedback.gradient(loss, x), x - z, rtol=1e-6)
    np.testing.assert_array_equal(feedback.gradient(z, x), z)


def test_the_rate_is_that_of_its_formula():
    """eta = D / sqrt(T (G^2 / 4 + G z / 2)): inside the ball x = -eta L~ / 2."""
    losses = domains.ball_losses(DIM, 2.0)
    sums = prefix_sums(HORIZON, losses, epsilon=1e4, delta=None, mechanism=tree, noise="laplace")
    z = float(noise_length(HORIZON, DIM, sums))
    rate = 1 / np.sqrt(HORIZON * (2.0**2 / 4 + 2.0 * z / 2))
    rows = jnp.full((HORIZON, DIM), 0.1)

    def plays(**options):
        return play_table(
            learners.ftrl(HORIZON, ball_of(losses), **options), rows, jr.key(0)
        ).actions

    ours, theirs = plays(epsilon=1e4, rate="noisy"), plays(epsilon=1e4, rate=rate)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    ours, theirs = plays(epsilon=np.inf, rate="noisy"), plays(epsilon=np.inf)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_longer_gradients_are_clipped_and_counted():
    """Quadratics with the G of distances: each gradient longer than 1 counts."""
    made = loss_families.quadratic(BALL)
    learner = follower(made, epsilon=5.0, domain=ball_of(domains.ball_losses(DIM, 1.0)))
    rows = jax.vmap(BALL.project)(jr.normal(jr.key(0), (HORIZON, DIM)))
    game = play_table(learner, jax.tree_util.Partial(made.function, rows), jr.key(1))
    longer = (np.linalg.norm(game.actions[:HORIZON] - rows, axis=1) > 1.0).sum()
    assert int(game.clipped) == longer
    assert 5 < longer < HORIZON - 5


@pytest.mark.parametrize("name", ["ftrl", "online_gradient", "private_ftal"])
def test_a_replaced_function_spends_what_is_declared(name):
    """Distances to opposite points have opposite gradients at the centre, 2 G apart.

    With sensitivity G, that of a zeroed loss, replay finds 2 epsilon.
    """
    family = loss_families.distance(BALL)
    rows, losses = jnp.tile(jnp.ones(DIM) / DIM**0.5, (8, 1)), loss_set(family)
    sides = (rows, rows.at[0].multiply(-1.0))
    pair = audit.Pair(*(jax.tree_util.Partial(family.function, side) for side in sides))
    for factor, sizes in ((1.0, losses.diameters), (2.0, losses.norms)):
        learner = getattr(learners, name)(8, ball_of(losses._replace(diameters=sizes)), epsilon=1.0)
        replayed = audit.replay(on_gradients(learner), pair, jr.key(0))
        assert float(audit.spent(replayed, 0.0)) == pytest.approx(factor, rel=1e-3)
