"""Learners for delayed losses."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from dpjax.combinators._shared import check_made, step_before
from dpjax.combinators.batches import as_learner
from dpjax.core import Array, Learner, PyTree, _check


class InterleaveState(NamedTuple):
    """The state of :func:`interleave`.

    Examples:
      >>> learner = combinators.interleave(lambda horizon: learners.exp3(horizon, 2), 100, delay=3)
      >>> state, arm = jax.eval_shape(learner.init, jax.random.key(0))
      >>> state.actions.shape  # one of each copy
      (4,)
    """

    round: Array  # () int32, rounds played
    copies: PyTree  # the states of all copies, with a leading axis (d + 1,)
    actions: PyTree  # the next action of each, with a leading axis (d + 1,)


def interleave(make: Callable, horizon: int, delay: int) -> Learner:
    """Copies of a learner that take turns, for losses that arrive ``delay`` rounds late.

    Copy t mod (d + 1) plays round t. Its next turn is round t + d + 1, when the loss of round t has
    arrived. So no copy waits. ``simulate`` reveals a loss at once, but the learner uses it only d
    rounds later.

    Args:
      make: horizon -> Learner or BatchLearner; it is called once, with ceil(T / (d + 1)).
      horizon: T, rounds.
      delay: d, at least 0. With d = 0 the learner for T itself is returned.

    Returns:
      A Learner. Its report contains the reports of all copies, with a leading axis (d + 1,).

    Raises:
      ValueError, TypeError: an argument is invalid; a copy declares privacy for users of several
        rounds, whose rounds may be in several copies. (Apply ``user_level`` to the result instead.)

    Privacy: that of one copy. Only one copy sees the loss of a round, and the round's number
    determines which copy (parallel composition). All copies declare the same. If learners choose
    delta = T^-2 by their own horizon, the delta of a copy is declared.

    Regret: (d + 1) R(ceil(T / (d + 1))) for any losses, if the regret of a copy in its rounds is at
    most R(T). For R of the order sqrt(T) this is sqrt((d + 1) T).

    Reference: Weinberger & Ordentlich, "On delayed prediction of individual sequences", 2002;
    Joulani, Gyorgy & Szepesvari, "Online learning under delayed feedback", 2013.

    Examples:
      >>> learner = combinators.interleave(lambda horizon: learners.exp3(horizon, 2), 100, delay=3)
      >>> made = learner, learners.exp3(25, 2)  # as each of four copies
      >>> [round(float(x.privacy.epsilon), 1) for x in made]
      [10.6, 10.6]
    """
    horizon, delay = _check.size(1, horizon=horizon), _check.size(0, delay=delay)
    _check.function("a function of a horizon that returns a learner", make=make)
    count = delay + 1
    length = -(-horizon // count)
    learner = as_learner(make(length))
    check_made(learner, length)
    if delay == 0:
        return learner
    declared = learner.privacy
    if declared.rounds_per_user > 1:
        raise ValueError(
            "make must declare privacy of one round, not of a user with several rounds"
        )

    def copy_of(tree, index):
        return jax.tree.map(lambda leaf: leaf[index], tree)

    def init(key):
        keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(count))
        copies, actions = jax.vmap(learner.init)(keys)
        first = copy_of(actions, 0)
        return InterleaveState(jnp.zeros((), jnp.int32), copies, actions), first

    def step(state, key, loss):
        turn, t = state.round % count, state.round + 1
        after, action = step_before(
            t + delay >= horizon, learner, copy_of(state.copies, turn), key, loss,
            copy_of(state.actions, turn),
        )  # fmt: skip
        copies, actions = jax.tree.map(
            lambda all_copies, one: all_copies.at[turn].set(one),
            (state.copies, state.actions), (after, action),
        )  # fmt: skip
        return InterleaveState(t, copies, actions), copy_of(actions, t % count)

    accountant = f"{declared.accountant}; parallel composition of {count} copies"
    return learner._replace(
        init=init,
        step=step,
        horizon=horizon,
        privacy=declared._replace(accountant=accountant, sums=None),
        report=lambda state: jax.vmap(learner.report)(state.copies),
    )
