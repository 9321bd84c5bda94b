"""One trajectory: order of play, keys, checkpoints, tallies and derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import domains, environments, learners, simulate, simulate_batches, trajectory
from dpjax.combinators import count_switches
from dpjax.core import Arms, Environment, Learner, Outcome, Privacy
from dpjax.feedback import bandit, contextual, full, value
from dpjax.game.checkpoints import checkpoint_rounds
from dpjax.game.rounds import one_round, start
from dpjax.maths.places import at
from tests.play import idle

LOSSES = environments.bernoulli([0.2, 0.8], regret="pseudo")


def follow_the_loser(horizon):
    """Plays arm 0 first, then moves to the next arm after each loss of 1."""

    def step(arm, key, loss):
        arm = jnp.where(loss == 1.0, (arm + 1) % 3, arm)
        return arm, arm

    return idle(horizon)._replace(step=step, feedback=bandit, action_set=Arms(3))


@pytest.mark.parametrize("checkpoints", [1, 4])
def test_the_count_of_clipped_losses_does_not_wrap_around(checkpoints):
    """2^30 per round are 2^32 in four rounds; the int32 sum was 0, and after two rounds -2^31."""
    learner = follow_the_loser(4)._replace(clip=lambda seen: (seen, jnp.int32(2**30)))
    game = environments.table(np.zeros((4, 3)))
    result = simulate(learner, game, jr.key(0), checkpoints=checkpoints)
    assert int(result.clipped) == 2**31 - 1


def test_a_three_round_game_by_hand():
    """Losses 1, 0.5, 1 are suffered on arms 0, 1, 1; the best arm, 2, would have lost 0.5.

    The last loss moves to arm 2, which is not played.
    """
    game = environments.table([[1.0, 0.0, 0.0], [1.0, 0.5, 0.25], [0.0, 1.0, 0.25]])
    assert simulate(follow_the_loser(3), count_switches(game), jr.key(0)).tally.switches == 1
    result = simulate(follow_the_loser(3), game, jr.key(0))
    np.testing.assert_array_equal(result.rounds, [1, 2, 3])
    # Cumulative losses: learner 1, 1.5, 2.5; arms (1, 2, 2), (0, .5, 1.5), (0, .25, .5).
    np.testing.assert_array_equal(result.regret, [1.0, 1.25, 2.0])
    np.testing.assert_array_equal(result.tally, [0.5, 1.0, 2.0])
    assert result.report == ()
    recorded = trajectory(
        follow_the_loser(3), game, jr.key(0),
        record=lambda played: (played.t, played.action, played.loss, played.learner),
    )  # fmt: skip
    assert [x.tolist() for x in recorded] == [[1, 2, 3], [0, 1, 1], [1, 0.5, 1], [1, 1, 2]]


@pytest.mark.parametrize(
    ("horizon", "checkpoints", "expected"),
    [
        (10, 5, [2, 4, 6, 8, 10]),
        (7, 3, [2, 4, 7]),
        (3, 100, [1, 2, 3]),
        (1, 1, [1]),
        (10**6, 5, [100, 1000, 10**4, 10**5, 10**6]),
        (10**8, 4, [100, 10**4, 10**6, 10**8]),
        (10**6, 1, [10**6]),
        (10**6 - 1, 3, [333333, 666666, 999999]),
    ],
)
@pytest.mark.parametrize("play", [simulate, simulate_batches])
def test_checkpoints_are_even_in_short_games_and_geometric_in_long_ones(
    horizon, checkpoints, expected, play
):
    """A hundredth of 10^8 rounds is beyond the rounds in which a learner stops exploring."""
    learner = learners.successive_elimination(horizon, 2, epsilon=1.0)
    found = jax.eval_shape(
        lambda key: play(learner, LOSSES, key, checkpoints=checkpoints), jr.key(0)
    )
    assert found.regret.shape == (len(expected),)
    rounds = checkpoint_rounds(learner, LOSSES, checkpoints)
    assert rounds.tolist() == expected and rounds.dtype == np.int32
    for count in (2, 20, 100, 5000, 10**6 - 50, 10**7):
        rounds = checkpoint_rounds(learner, LOSSES, count)
        assert len(rounds) == min(count, horizon) and rounds[-1] == horizon
        assert rounds[0] >= 1 and (np.diff(rounds) >= 1).all()


@pytest.mark.parametrize(("play", "horizon"), [(simulate, 40), (simulate_batches, 10**6)])
def test_regret_does_not_depend_on_the_checkpoints(play, horizon):
    learner = learners.successive_elimination(horizon, 2, epsilon=1.0)
    many, one = (play(learner, LOSSES, jr.key(0), checkpoints=n) for n in (20, 1))
    # The sums are taken in another order.
    np.testing.assert_allclose(many.regret[-1:], one.regret, rtol=1e-6)
    assert many.regret[0] < many.regret[10] <= many.regret[-1]


def recorded_losses(learner, key):
    """The losses (T, K) drawn by nature, whatever was played."""
    environment = environments.bernoulli([0.3, 0.5, 0.7])
    all_losses = lambda played: full(played.outcome.loss, jnp.int32(0))  # noqa: E731
    return trajectory(learner, environment, key, record=all_losses)


def test_every_learner_and_every_epsilon_faces_the_same_nature():
    """Only another key changes nature."""
    games = [
        learners.exp3(32, 3),
        learners.dp_exp3_lap(32, 3, epsilon=0.1),
        learners.dp_exp3_lap(32, 3, epsilon=10.0),
        learners.exp3_minibatch(32, 3, epsilon=1.0),
    ]
    first, *others = [recorded_losses(learner, jr.key(5)) for learner in games]
    for other in others:
        np.testing.assert_array_equal(first, other)
    assert (first != recorded_losses(games[0], jr.key(6))).any()


def test_full_and_bandit_feedback():
    loss = jnp.array([0.25, 0.5, 0.75])
    np.testing.assert_array_equal(full(loss, 1), loss)
    assert bandit(loss, jnp.int32(1)) == 0.5
    assert at(jnp.array([jnp.nan, 2.0]), jnp.int32(1)) == 2.0
    np.testing.assert_array_equal(at(jnp.arange(6.0).reshape(3, 2), jnp.int32(2)), [4.0, 5.0])
    np.testing.assert_array_equal(at(jnp.ones((3, 2)), jnp.int32(3)), [0.0, 0.0])


def test_value_and_contextual_feedback_of_traced_functions():
    """Loss functions and policies are pytrees: they pass through jit with their parameters."""

    @jax.jit
    def seen(loss, policy):
        features, losses = jnp.array([[1.0, 0.0], [0.0, 1.0]]), jnp.array([0.25, 0.75])
        return value(loss, jnp.array([1.0, 2.0])), contextual((features, losses), policy)

    loss = jax.tree_util.Partial(lambda centre, x: jnp.sum((x - centre) ** 2), jnp.ones(2))
    theta = jnp.array([[0.5, 2.0]])
    policy = jax.tree_util.Partial(lambda theta, x: jnp.argmax(jnp.sum(x * theta, axis=1)), theta)
    at_point, (features, lost) = seen(loss, policy)
    assert at_point == 1.0
    np.testing.assert_array_equal(features, [0.0, 1.0])
    assert lost == 0.75


def test_an_account_has_the_shape_that_it_has_now():
    """JAX stores shapes by function, even if a variable that the function reads has changed."""
    arms = 2

    def step(state, key, arm):
        return state, Outcome(jnp.zeros(3), jnp.zeros(arms))

    environment = Environment(lambda key: (), step, lambda state, tally: jnp.sum(tally), Arms(3))
    for arms in (2, 3):
        result = simulate(follow_the_loser(2), environment, jr.key(0), checkpoints=1)
        assert result.tally.shape == (arms,)


def test_learner_and_environment_draw_with_different_keys():
    """At the start and in a round. Each state is the words of the latest key."""

    def step(state, key, seen):
        return jr.key_data(key), jnp.int32(0)

    def answer(state, key, arm):
        return jr.key_data(key), Outcome(jnp.zeros(2), jnp.float32(0.0))

    learner = Learner(lambda key: step((), key, ()), step, bandit, Arms(2), 5, Privacy())
    environment = Environment(jr.key_data, answer, lambda state, tally: tally, Arms(2))

    @jax.jit
    def words(key):
        keys, states = start(learner, environment, key)
        later, _ = one_round(learner, environment, keys, jnp.int32(1), states)
        return jnp.stack([states[0], states[2], later[0], later[2]])

    assert len(np.unique(words(jr.key(0)), axis=0)) == 4


# Derivatives -----------------------------------------------------------------------------------

WALK = np.tile([0.5, -0.3], (16, 1)).astype(np.float32)


def learner(rate):
    return learners.ftrl(16, domains.ball(2), epsilon=1.0, rate=rate)


def played(rate):
    """The sum of all points of a game."""
    environment = environments.linear_losses(domains.ball(2), WALK)
    points = trajectory(learner(rate), environment, jr.key(0), record=lambda each: each.action)
    return points.sum()


def regret(rate):
    environment = environments.linear_losses(domains.ball(2), WALK)
    return simulate(learner(rate), environment, jr.key(0), checkpoints=3).regret[-1]


def by_differences(function, at):
    return (function(at + 2e-3) - function(at - 2e-3)) / 4e-3


def test_a_trajectory_is_differentiated_in_both_modes():
    """Also in round 1, where the released sum is 0 and a norm has no gradient."""
    expected = by_differences(jax.jit(played), 0.3)
    assert abs(expected) > 0.5
    for mode in (jax.grad, jax.jacfwd):
        assert jax.jit(mode(played))(0.3) == pytest.approx(float(expected), rel=1e-2)


def test_a_simulation_is_differentiated_in_forward_mode():
    expected = by_differences(jax.jit(regret), 0.3)
    assert jax.jit(jax.jacfwd(regret))(0.3) == pytest.approx(float(expected), rel=2e-2)
