"""One trajectory: order of play, keys, checkpoints, tallies."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import (
    Environment,
    Learner,
    Outcome,
    environments,
    learners,
    simulate,
    simulate_batches,
    trajectory,
)
from dpjax.combinators import as_learner, count_switches
from dpjax.core import Arms, Privacy
from dpjax.feedback import bandit, contextual, full, value
from dpjax.game.checkpoints import checkpoint_rounds
from dpjax.game.rounds import one_round, start
from dpjax.maths.places import at


def follow_the_loser(horizon):
    """Plays arm 0 first, then moves to the next arm after each loss of 1."""

    def step(arm, key, loss):
        del key
        arm = jnp.where(loss == 1.0, (arm + 1) % 3, arm)
        return arm, arm

    zero = jnp.zeros((), jnp.int32)
    return Learner(lambda key: (zero, zero), step, bandit, Arms(3), horizon, Privacy())


@pytest.mark.parametrize("checkpoints", [1, 4])
def test_the_count_of_clipped_losses_does_not_wrap_around(checkpoints):
    """2^30 per round are 2^32 in four rounds; the int32 sum was 0, and after two rounds -2^31."""
    learner = follow_the_loser(4)._replace(clip=lambda seen: (seen, jnp.int32(2**30)))
    game = environments.table(np.zeros((4, 3)))
    result = simulate(learner, game, jr.key(0), checkpoints=checkpoints)
    assert int(result.clipped) == 2**31 - 1


def test_a_three_round_game_by_hand():
    """Losses 1, 0.5, 1 are suffered on arms 0, 1, 1; the best arm, 2, would have lost 0.5."""
    losses = [[1.0, 0.0, 0.0], [1.0, 0.5, 0.25], [0.0, 1.0, 0.25]]
    result = simulate(follow_the_loser(3), environments.table(losses), jr.key(0))
    np.testing.assert_array_equal(result.rounds, [1, 2, 3])
    # Cumulative losses: learner 1, 1.5, 2.5; arms (1, 2, 2), (0, .5, 1.5), (0, .25, .5).
    np.testing.assert_array_equal(result.regret, [1.0, 1.25, 2.0])
    np.testing.assert_array_equal(result.tally, [0.5, 1.0, 2.0])
    assert result.report == ()


def test_the_last_action_is_never_played_and_the_first_is():
    """The environment steps T times, on the actions of rounds 1..T."""
    losses = np.zeros((3, 3))
    losses[2] = [1.0, 1.0, 1.0]
    seen = simulate(
        follow_the_loser(3), count_switches(environments.table(losses)), jr.key(0)
    ).tally.switches
    assert seen == 0.0  # affects only the action of round 4, which is not played


@pytest.mark.parametrize(
    ("horizon", "checkpoints", "expected"),
    [(10, 5, [2, 4, 6, 8, 10]), (7, 3, [2, 4, 7]), (3, 100, [1, 2, 3]), (1, 1, [1])],
)
def test_checkpoints_are_even_and_end_at_the_horizon(horizon, checkpoints, expected):
    result = simulate(
        learners.exp3(horizon, 3),
        environments.table(np.full((horizon, 3), 0.5)),
        jr.key(0),
        checkpoints=checkpoints,
    )
    np.testing.assert_array_equal(result.rounds, expected)
    assert result.regret.shape == (len(expected),)


@pytest.mark.parametrize(
    ("horizon", "checkpoints", "expected"),
    [
        (10**6, 5, [100, 1000, 10**4, 10**5, 10**6]),
        (10**8, 4, [100, 10**4, 10**6, 10**8]),
        (10**6, 1, [10**6]),
        (10**6 - 1, 3, [333333, 666666, 999999]),
    ],
)
@pytest.mark.parametrize("play", [simulate, simulate_batches])
def test_checkpoints_of_long_games_are_geometric(horizon, checkpoints, expected, play):
    """A hundredth of 10^8 rounds is beyond the rounds in which a learner stops exploring."""
    learner = learners.successive_elimination(horizon, 2, epsilon=1.0)
    losses = environments.bernoulli([0.2, 0.8], regret="pseudo")
    found = jax.eval_shape(
        lambda key: play(learner, losses, key, checkpoints=checkpoints), jr.key(0)
    )
    assert found.regret.shape == (len(expected),)
    rounds = checkpoint_rounds(learner, losses, checkpoints)
    np.testing.assert_array_equal(rounds, expected)
    assert rounds.dtype == np.int32


@pytest.mark.parametrize("count", [2, 20, 100, 5000, 10**6 - 50, 10**6, 10**7])
def test_any_number_of_checkpoints_fits_a_long_game(count):
    learner = learners.successive_elimination(10**6, 2, epsilon=1.0)
    rounds = checkpoint_rounds(learner, environments.bernoulli([0.2, 0.8]), count)
    assert len(rounds) == min(count, 10**6) and rounds[-1] == 10**6
    assert rounds[0] >= 1 and (np.diff(rounds) >= 1).all()


def test_checkpoints_of_a_long_game_play_the_game_of_the_last_one():
    learner = learners.successive_elimination(10**6, 2, epsilon=1.0)
    losses = environments.bernoulli([0.2, 0.8], regret="pseudo")
    several = simulate_batches(learner, losses, jr.key(0), checkpoints=20)
    last = simulate_batches(learner, losses, jr.key(0), checkpoints=1)
    np.testing.assert_array_equal(several.regret[-1:], last.regret)
    assert several.regret[0] < several.regret[10] <= several.regret[-1]


def test_regret_does_not_depend_on_the_number_of_checkpoints():
    environment = environments.table(jr.uniform(jr.key(1), (40, 3)))
    fine = simulate(learners.exp3(40, 3), environment, jr.key(0), checkpoints=40)
    coarse = simulate(learners.exp3(40, 3), environment, jr.key(0), checkpoints=4)
    # The sums are taken in another order, hence float32 rounding of 40 terms.
    np.testing.assert_allclose(coarse.regret, fine.regret[9::10], atol=40 * 2**-22)


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


def test_a_learner_longer_than_the_environment_is_refused():
    with pytest.raises(ValueError, match=r"horizon: the learner plays 4 rounds, but the .* only 3"):
        simulate(learners.exp3(4, 2), environments.table(np.zeros((3, 2))), jr.key(0))


def test_a_horizon_beyond_int32_is_refused():
    with pytest.raises(ValueError, match="horizon must be at most 2147483647"):
        simulate(learners.exp3(2**31, 2), environments.bernoulli([0.2, 0.6]), jr.key(0))


def test_checkpoints_must_be_positive():
    with pytest.raises(ValueError, match="checkpoints"):
        simulate(
            learners.exp3(4, 2), environments.table(np.zeros((4, 2))), jr.key(0), checkpoints=0
        )


def test_tallies_of_millions_of_rounds_stay_accurate():
    """2^22 times 0.1 with one checkpoint: to relative 1e-4; a plain float32 sum loses 1 %."""
    horizon = 2**22
    zero = jnp.zeros((), jnp.int32)
    constant = Environment(
        lambda key: (),
        lambda state, key, action: (state, Outcome(jnp.zeros(2), jnp.float32(0.1))),
        lambda state, tally: tally,
        Arms(2),
    )
    idle = Learner(
        lambda key: (zero, zero), lambda state, key, loss: (state, state), bandit, Arms(2),
        horizon, Privacy(),
    )  # fmt: skip
    play = jax.jit(lambda: simulate(idle, constant, jr.key(0), checkpoints=1).tally)
    exact = horizon * float(np.float32(0.1))
    naive = float(np.cumsum(np.full(horizon, 0.1, np.float32))[-1])
    assert abs(float(play()) - exact) < 1e-4 * exact
    assert abs(naive - exact) > 1e-2 * exact


def test_an_account_has_the_shape_that_it_has_now():
    """JAX stores shapes by function, even if a variable that the function reads has changed."""
    arms = 2

    def step(state, key, arm):
        return state, Outcome(jnp.zeros(3), jnp.zeros(arms))

    environment = Environment(lambda key: (), step, lambda state, tally: jnp.sum(tally), Arms(3))
    for arms in (2, 3):
        result = simulate(follow_the_loser(2), environment, jr.key(0), checkpoints=1)
        assert result.tally.shape == (arms,)


def game_of_two(key, name):
    """The whole trajectory of a small game, and the result of ``simulate`` on it."""
    learner = {
        "exp3": lambda: learners.exp3(48, 3),
        "adap_ucb": lambda: learners.adap_ucb(48, 3, epsilon=1.0),  # a BatchLearner
    }[name]()
    environment = environments.memory([0.3, 0.5, 0.7], rounds=2)
    rounds = trajectory(learner, environment, key, record=lambda played: played)
    result = simulate(learner, environment, key, checkpoints=48)
    states = jax.tree.map(lambda leaf: leaf[-1], rounds.learner)
    return rounds, result, as_learner(learner).report(states)


@pytest.mark.parametrize("name", ["exp3", "adap_ucb"])
def test_a_trajectory_is_the_game_that_simulate_plays(name):
    """Regret of every round and the report, from the recording; losses are those of the arm."""
    keys = jr.split(jr.key(3), 8)
    rounds, result, report = jax.jit(jax.vmap(lambda key: game_of_two(key, name)))(keys)
    np.testing.assert_array_equal(rounds.t, np.tile(np.arange(1, 49), (8, 1)))
    jax.tree.map(np.testing.assert_array_equal, report, result.report)
    tally = jax.tree.map(lambda leaf: np.cumsum(leaf, axis=1)[:, -1], rounds.outcome.tally)
    # Sums of 48 terms in two orders.
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), tally, result.tally)
    assert len(np.unique(rounds.action)) == 3
    losses = np.asarray(jax.vmap(jax.vmap(bandit))(rounds.outcome.loss, rounds.action))
    np.testing.assert_array_equal(rounds.loss, losses)
    regret = jax.vmap(environments.memory([0.3, 0.5, 0.7], rounds=2).regret)
    last = jax.tree.map(lambda leaf: leaf[:, -1], rounds.environment)
    np.testing.assert_allclose(regret(last, result.tally), result.regret[:, -1], atol=1e-5)


def test_a_trajectory_records_what_it_is_asked_to():
    """By hand: the arms of rounds 1 .. 3, and the learner's state after each."""
    losses = [[1.0, 0.0, 0.0], [1.0, 0.5, 0.25], [0.0, 1.0, 0.25]]
    recorded = trajectory(
        follow_the_loser(3),
        environments.table(losses),
        jr.key(0),
        record=lambda played: (played.t, played.action, played.loss, played.learner),
    )
    for column, expected in zip(
        recorded, [[1, 2, 3], [0, 1, 1], [1, 0.5, 1], [1, 1, 2]], strict=True
    ):
        np.testing.assert_array_equal(column, expected)


def test_a_trajectory_refuses_what_simulate_refuses():
    short = environments.table(np.zeros((4, 3)))
    with pytest.raises(ValueError, match="horizon: the learner plays 8 rounds"):
        trajectory(learners.exp3(8, 3), short, jr.key(0), record=lambda played: played.action)
    with pytest.raises(TypeError, match="record must be a function of a Round"):
        trajectory(learners.exp3(4, 3), short, jr.key(0), record="action")


def test_a_function_as_feedback_is_refused_in_a_sentence():
    learner = learners.exp3(4, 2)._replace(feedback=lambda loss, arm: loss[arm])
    with pytest.raises(TypeError, match="must be a Feedback, such as feedback.bandit; "):
        simulate(learner, environments.table([[0.0, 1.0]] * 4), jr.key(0))


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
