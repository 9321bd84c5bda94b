"""Checks of what learners and environments return, before their game is compiled."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax import random as jr

from dpjax.combinators import _returned, as_learner
from dpjax.core import Array, BatchLearner, Environment, Learner, _check
from dpjax.game.checkpoints import Checkpoints, checkpoint_rounds
from dpjax.game.rounds import one_round, start

# The actions of a user's learner are checked in its first rounds, in this many trials.
_TRIED_ROUNDS, _TRIED_KEYS = 32, 16


def checked_rounds(
    learner: Learner | BatchLearner, environment: Environment, key: Array, checkpoints: Checkpoints
) -> np.ndarray:
    """Check the arguments of a game, and what its functions return, before it is compiled.

    Returns:
      (n,) int32, the rounds at which it records regret.

    Raises:
      TypeError: an argument has another type, or as in ``dpjax.combinators._returned.check_game``.
      ValueError: as in :func:`dpjax.game.checkpoints.checkpoint_rounds` and :func:`check_actions`.
    """
    _check.players(learner, environment)
    _check.key(key=key)
    rounds = checkpoint_rounds(learner, environment, checkpoints)
    if not (_check.is_plain(learner) and _check.is_plain(environment)):
        _returned.check_game(as_learner(learner), environment)
    check_actions(learner, environment, key)
    return rounds


def check_actions(learner: Learner | BatchLearner, environment: Environment, key: Array) -> None:
    """Check that a learner plays actions of its action set, in its first rounds and a few trials.

    In a compiled game JAX replaces an arm out of range by the nearest arm. The factories of
    ``dpjax.learners`` are tested, so their learners are not played. With a traced key, or in a
    function that JAX traces, nothing is checked.

    Raises:
      ValueError: an action is not in the action set, or a batch has no round.
    """
    if _check.is_tested(learner) or _check.is_traced(key):
        return
    one_by_one, actions = as_learner(learner), learner.action_set
    batches, last = isinstance(learner, BatchLearner), min(learner.horizon, _TRIED_ROUNDS)

    def play(key):
        keys, states = start(one_by_one, environment, key)

        def recorded_round(states, t):
            rounds = states[0].batch.rounds if batches else jnp.int32(1)
            states, played = one_round(one_by_one, environment, keys, t, states)
            return states, (rounds, *_returned.within(actions, played.action, played.outcome.loss))

        return lax.scan(recorded_round, states, jnp.arange(1, last + 1, dtype=jnp.int32))[1]

    keys = jax.vmap(partial(jr.fold_in, key))(jnp.arange(_TRIED_KEYS))
    rounds, present, numbers = played = jax.jit(jax.vmap(play))(keys)
    if _check.is_traced(played):
        return
    if rounds.min() < 1:
        raise ValueError(f"learner: a batch must have at least 1 round, got {rounds.min()}")
    _returned.check_within(actions, present, numbers)
