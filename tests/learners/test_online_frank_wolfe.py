"""Online Frank-Wolfe: its recursion, the length of its summands, replay, bounds, bad input."""

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


def test_the_whole_loss_is_seen():
    loss = functions(jnp.zeros(DIM))
    assert feedback.whole(loss, jnp.ones(DIM)) is loss


def test_longer_summands_are_clipped_and_counted():
    """Quadratics with the constants of linear losses of length 1/2."""
    learner = learners.online_frank_wolfe(HORIZON, ball_of(0.5), epsilon=np.inf)
    game = play_table(learner, functions(targets()), jr.key(0))
    assert int(learner.report(game.last).longer) > 32


def test_a_replaced_loss_spends_what_is_declared():
    """Vectors of length G + beta D against their opposites, by replay.

    The sensitivity 2 G ignores that the points move: with it, replay finds more than declared.
    """
    rows = 4.0 / DIM**0.5 * jnp.ones((8, DIM))
    pair = audit.Pair(rows, rows.at[0].set(-rows[0]))
    learner = learners.online_frank_wolfe(8, epsilon=1.0, **SMOOTH)
    spent = float(audit.spent(audit.replay(learner, pair, jr.key(0)), 0.0))
    assert spent == pytest.approx(1.0, rel=1e-3)
    # The declaration of a learner for G alone, which has half the noise.
    flat = learners.online_frank_wolfe(8, ball_of(2.0), epsilon=1.0)
    assert float(audit.spent(audit.replay(flat, pair, jr.key(0)), 0.0)) == pytest.approx(1.0, 1e-3)
    twice = learners.online_frank_wolfe(8, epsilon=2.0, **SMOOTH)
    assert float(audit.spent(audit.replay(twice, pair, jr.key(0)), 0.0)) > 1.9


def test_functions_that_are_replaced_move_one_summand_by_more_than_twice_g():
    """Slopes of 1 that turn by beta D within the set, and their mirror images, in a late round.

    f(x) = <a, x> + (beta / 2) <b, x>^2 with points moving along b: beyond the gradient, w_t has (t
    - 1)(x_t - x_(t-1)). The change is above 2 G and at most 2 (G + beta D).
    """
    line = domains.ball(1)

    def f(p, x):
        return jnp.sum(p[0] * x + 0.5 * p[1] * x * x)

    rows = jnp.tile(jnp.array([[1.0, 0.0]]), (8, 1))
    # Points move towards -1 while all slopes are positive: x_2 = -1/2 from x_1 = 0.
    rows = rows.at[1].set(jnp.array([-0.5, 1.0]))
    other = rows.at[1].set(jnp.array([0.5, -1.0]))
    learner = learners.online_frank_wolfe(8, line, epsilon=np.inf, smoothness=1.0)
    found = []
    for each in (rows, other):
        x = play_table(learner, jax.tree_util.Partial(f, each), jr.key(0)).actions
        slope = jax.grad(f, argnums=1)
        found.append(2 * slope(each[1], x[1]) - slope(each[1], x[0]))
    change = float(jnp.linalg.norm(found[0] - found[1]))
    assert 2.0 < change <= 2.0 * (1.0 + 2.0)


def pseudo_regret(epsilon, horizon, trials=48):
    """The sum of F(x_t) - min F for the mean F of all rows, and its bound."""
    rows = targets(5, 16)
    centre = rows.mean(axis=0)

    def game(epsilon):
        learner = learners.online_frank_wolfe(horizon, BALL, epsilon=epsilon, **SMOOTH)
        inner = environments.convex_losses(BALL, QUADRATIC, parameters=rows, steps=2)

        def step(state, key, x):
            state, outcome = inner.step(state, key, x)
            return state, outcome._replace(tally=0.5 * jnp.sum((x - centre) ** 2))

        return learner, inner._replace(step=step, regret=lambda state, tally: tally)

    found = sweep(game, np.array([epsilon], np.float32), trials, jr.key(1), checkpoints=1,
                  progress=False)  # fmt: skip
    assert (np.asarray(found.report.longer) == 0).all()
    return found.regret[0, :, 0], float(bounds.online_frank_wolfe(horizon, DIM, epsilon, 2.0, 1.0))


@pytest.mark.parametrize("epsilon", [30.0, np.inf])
def test_the_bound_holds_for_losses_that_are_drawn(epsilon):
    """The best point is inside the ball, like the mean of the targets."""
    found, bound = pseudo_regret(epsilon, 512)
    assert 0 < found.mean() + 4 * stats.sem(found) < bound
    # The centre's loss per round is not so small.
    if epsilon == np.inf:
        assert found.mean() < 0.02 * 512


def test_bad_arguments_and_horizon_one():
    for message, changes in [
        ("smoothness must be", {"smoothness": -1.0}),
        ("delta must be given", {"noise": "gaussian"}),
    ]:
        with pytest.raises(ValueError, match=message):
            learners.online_frank_wolfe(8, BALL, epsilon=1.0, **changes)
    one = learners.online_frank_wolfe(1, BALL, epsilon=1.0)
    played = simulate(one, environments.linear_losses(BALL, "iid"), jr.key(0))
    assert np.isfinite(played.regret).all()
