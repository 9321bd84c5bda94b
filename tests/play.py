"""Half a game: a learner on given losses, or an environment with given actions."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax import random as jr

from dpjax.combinators import as_learner
from dpjax.core import Arms, Feedback, Learner, Privacy
from dpjax.feedback import clip_seen, full, seen_inside


def idle(horizon) -> Learner:
    """A learner of two arms that always plays the first one."""
    zero = jnp.zeros((), jnp.int32)
    return Learner(
        lambda key: (zero, zero),
        lambda state, key, loss: (state, state),
        full,
        Arms(2),
        horizon,
        Privacy(),
    )


class Game(NamedTuple):
    """Round by round, with the values before the first loss in front."""

    actions: Any  # (T + 1, ...), the last of which meets no loss
    states: Any  # (T + 1, ...), the state with each action
    last: Any  # the last state
    seen: Any  # (T, ...), the revealed losses, clipped
    clipped: Any  # () int32, number of clipped losses


def play_table(learner, losses, key) -> Game:
    """A learner on losses with rounds on the first axis; round t has the key folded with t.

    For a BatchLearner the states are those of ``every_round``.
    """
    learner = as_learner(learner)

    def one_round(carry, t_and_loss):
        state, action = carry
        t, loss = t_and_loss
        seen, clipped = seen_inside(learner, loss, action)
        after = learner.step(state, jr.fold_in(key, t), seen)
        return after, (after, seen, clipped)

    start = learner.init(jr.fold_in(key, 0))
    losses = jax.tree.map(jnp.asarray, losses)
    rounds = jnp.arange(1, len(jax.tree.leaves(losses)[0]) + 1)
    (last, _), (rest, seen, clipped) = lax.scan(one_round, start, (rounds, losses))
    states, actions = jax.tree.map(
        lambda first, others: jnp.concatenate([jnp.asarray(first)[None], others]), start, rest
    )
    return Game(actions, states, last, seen, jnp.sum(clipped))


def step(learner, state, key, seen):
    """A learner's step on its observation, clipped as by the frame."""
    return learner.step(state, key, clip_seen(learner, seen)[0])


def told(learner, losses) -> Game:
    """A learner that observes these numbers, (T,), whatever it plays."""
    learner = as_learner(learner)._replace(feedback=Feedback("told", lambda loss, action: loss))
    return play_table(learner, jnp.asarray(losses, jnp.float32), jr.key(0))


def play_actions(environment, actions, nature, probes=None):
    """Outcomes, losses of ``probes``, and regret after each round; all (T, ...).

    Outcomes contain the losses of all actions. Regret is computed from cumulative sums of the
    tally.

    Args:
      environment: an Environment.
      actions: the actions played, (T, ...).
      nature: the environment's key in ``simulate``, folded with the round.
      probes: other actions (n, ...), whose losses are returned as if they had been played.
    """

    def one_step(state, key, action):
        state, outcome = environment.step(state, key, action)
        return state, outcome._replace(loss=full(outcome.loss, action))

    def one_round(carry, t_and_action):
        state, total = carry
        t, action = t_and_action
        key = jr.fold_in(nature, t)
        met = ()
        if probes is not None:
            met = jax.vmap(lambda other: one_step(state, key, other)[1].loss)(probes)
        state, outcome = one_step(state, key, action)
        total = jax.tree.map(jnp.add, total, outcome.tally)
        return (state, total), (outcome, met, environment.regret(state, total))

    start = environment.init(jr.fold_in(nature, 0))
    tally = jax.eval_shape(one_step, start, nature, actions[0])[1].tally
    total = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), tally)
    rounds = jnp.arange(1, len(actions) + 1)
    return lax.scan(one_round, (start, total), (rounds, actions))[1]
