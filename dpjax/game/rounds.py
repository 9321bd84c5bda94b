"""One round of a game: the environment steps, and the learner observes its loss and steps."""

from typing import NamedTuple

from jax import random as jr

from dpjax.core import Array, Environment, Learner, Outcome, PyTree
from dpjax.feedback import seen_inside


class Round(NamedTuple):
    """The record of one round."""

    t: Array  # () int32, counted from 1
    action: PyTree  # the action that was played
    loss: PyTree  # the feedback of the learner, clipped
    clipped: Array  # () int32, number of observed losses outside the declared range
    outcome: Outcome  # returned by the environment
    learner: PyTree  # the learner's state after the round
    environment: PyTree  # the environment's state after the round


def start(learner: Learner, environment: Environment, key: Array) -> tuple[tuple, tuple]:
    """The keys and states that :func:`one_round` takes in round 1."""
    nature, coins = jr.split(key)
    learner_state, action = learner.init(jr.fold_in(coins, 0))
    return (nature, coins), (learner_state, action, environment.init(jr.fold_in(nature, 0)))


def step_arguments(
    learner: Learner, coins: Array, t: Array | int, states: tuple, loss: PyTree
) -> tuple[tuple, Array]:
    """The arguments of ``learner.step`` in round t: the learner sees its loss, clipped.

    Args:
      learner: a Learner.
      coins: the learner's key. The function folds t into it.
      t: the round, () int32.
      states: (the learner's state, its action) before the round.
      loss: ``Outcome.loss``.

    Returns:
      ((state, key, feedback), number of clipped losses, () int32).
    """
    state, action = states
    seen, clipped = seen_inside(learner, loss, action)
    return (state, jr.fold_in(coins, t), seen), clipped


def first_arguments(learner: Learner, key: Array, loss: PyTree) -> tuple:
    """The arguments of ``learner.step`` in round 1, to trace it.

    Args:
      learner: a Learner.
      key: the learner's key.
      loss: ``Outcome.loss``.
    """
    return step_arguments(learner, key, 1, learner.init(jr.fold_in(key, 0)), loss)[0]


def one_round(
    learner: Learner, environment: Environment, keys: tuple[Array, Array], t: Array, states: tuple
) -> tuple[tuple, Round]:
    """Play round t: first the environment steps, then the learner.

    Args:
      learner: a Learner.
      environment: an Environment.
      keys: nature's key and the learner's key. The function folds t into both.
      t: the round, () int32.
      states: (the learner's state, its action, the environment's state) before the round.

    Returns:
      (states, Round). The states are those after the round, with the learner's next action.
    """
    nature, coins = keys
    state, action, environment_state = states
    environment_state, outcome = environment.step(environment_state, jr.fold_in(nature, t), action)
    arguments, clipped = step_arguments(learner, coins, t, (state, action), outcome.loss)
    state, following = learner.step(*arguments)
    played = Round(t, action, arguments[-1], clipped, outcome, state, environment_state)
    return (state, following, environment_state), played
