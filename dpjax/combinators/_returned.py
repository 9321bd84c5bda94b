"""Checks of what the functions of a learner and an environment return.

They look at shapes and types, so they compute nothing. Whether an action is one of the action set
is checked by ``check_actions`` in :mod:`dpjax.game.checks` and in :mod:`dpjax.audit.epsilon`.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr

from dpjax.core import (
    Arms,
    Array,
    Batch,
    BatchLearner,
    Environment,
    Learner,
    Outcome,
    Policies,
    PyTree,
    _check,
)
from dpjax.core._check import _kind
from dpjax.domains import Domain
from dpjax.feedback import seen_inside


def first(learner: Learner | BatchLearner, key: Array) -> tuple:
    """(state, action) of ``init``, or (state, Batch) if it is a BatchLearner."""
    name = "learner: init"
    state, action = _action(name, learner, _called(name, learner.init, key))
    _avals(name, {"state": state})
    return state, action


def following(
    learner: Learner | BatchLearner, state: PyTree, action: PyTree, key: Array, seen: PyTree
) -> tuple:
    """The result of ``step``, which is like the state and the action (or Batch) before."""
    name = "learner: step"
    after, later = _action(name, learner, _called(name, learner.step, state, key, seen))
    _check_alike(name, "state", state, after, isinstance(learner, Learner))
    _check_alike(name, "action", action, later, isinstance(learner, Learner))
    return after, later


def check_learner(learner: Learner, loss) -> None:
    """Check what a learner returns in the first round, if this is ``Outcome.loss``.

    Args:
      learner: a Learner.
      loss: a pytree of arrays, or of their shapes and dtypes.

    Raises:
      TypeError: ``init`` or ``step`` does not return a state and an action of the action set, the
        two return different shapes or dtypes, or a function branches on a traced value.
      Exception: a function raised it.
    """

    def first_round(loss):
        begin, turn = jr.split(_key())
        _check_step(learner, turn, *first(learner, begin), loss)

    jax.eval_shape(first_round, loss)


def check_game(learner: Learner, environment: Environment) -> None:
    """Check what a learner and an environment return in the first round.

    Raises:
      TypeError: as in :func:`check_learner`; or the environment's ``step`` does not return a state
        and an Outcome, its losses are not those of its actions, or its regret is not one number.
      Exception: a function raised it.
    """

    def first_round():
        keys = jr.split(_key(), 4)
        state, action = first(learner, keys[0])
        before, name = _called("environment: init", environment.init, keys[1]), "environment: step"
        _avals("environment: init", {"state": before})
        returned = _called(name, environment.step, before, keys[2], action)
        after, outcome = _pair(name, Outcome, returned)
        _check_alike(name, "state", before, after)
        _avals(name, {"tally": outcome.tally})
        _check_losses(environment.action_set, outcome.loss)
        _check_step(learner, keys[3], state, action, outcome.loss)
        _avals("learner: report", {"report": _called("learner: report", learner.report, state)})
        name = "environment: regret"
        regret = _called(name, environment.regret, after, outcome.tally)
        is_number = [aval.shape for _, aval in _avals(name, {"regret": regret})] == [()]
        _require(is_number, name, "one number", regret)

    jax.eval_shape(first_round)


def check_batch(learner: BatchLearner, environment: Environment) -> None:
    """Check what an environment's ``batch`` returns; it raises errors as :func:`check_game`."""

    def first_batch():
        keys = jr.split(_key(), 3)
        _, batch = first(learner, keys[0])
        before, name = environment.init(keys[1]), "environment: batch"
        see = partial(seen_inside, learner)
        returned = _called(
            name, environment.batch, before, keys[2], batch.action, batch.rounds, see
        )
        after, _, tally = _check.parts(name, "a triple (state, total, tally)", returned)
        _check_alike(name, "state", before, after)
        _avals(name, {"tally": tally})

    jax.eval_shape(first_batch)


def within(actions, action: PyTree, loss) -> tuple:
    """Whether an action is in the action set, () bool, and numbers for :func:`check_within`.

    A point may be outside of its domain by a thousandth of the diameter.
    """
    if isinstance(actions, Domain):
        contains = partial(actions.contains or _anything, tolerance=1e-3 * actions.diameter)
        return jnp.all(jax.vmap(contains)(jnp.atleast_2d(action))), action
    arms = len(loss[0]) if isinstance(actions, Policies) else actions.count
    arm = action(loss[0]) if isinstance(actions, Policies) else action
    return (arm >= 0) & (arm < arms), jnp.stack([arm, arms])


def _anything(point, tolerance):
    return jnp.bool(True)


def check_within(actions, present: PyTree, numbers) -> None:
    """Raise ValueError for the first action outside of the action set, if there is one.

    Args:
      actions: the action set.
      present, numbers: results of :func:`within` with leading axes (runs, rounds).
    """
    if present.all():
        return
    run, t = np.argwhere(~np.asarray(present))[0]
    wrong = np.asarray(numbers)[run, t]
    if isinstance(actions, Domain):
        reason = f"the point {wrong.tolist()} is outside of its domain; project it on the domain"
    else:
        reason = f"it is arm {wrong[0]}, but the arms are numbered from 0 to {wrong[1] - 1}"
    raise ValueError(f"learner: its action in round {t + 1} is not in its action set: {reason}")


def _key():
    return jr.key(0, impl="threefry2x32")


def _called(name, function, *arguments):
    with _check.traceable(name):
        return function(*arguments)


def _check_step(learner, key, state, action, loss) -> None:
    """Check the step of a learner that played an action."""
    seen, _ = _called("learner: feedback", partial(seen_inside, learner), loss, action)
    following(learner, state, action, key, seen)


def _action(name, learner, returned) -> tuple:
    """The given pair of a state and an action of the learner, or its batch."""
    if isinstance(learner, BatchLearner):
        state, action = _pair(name, Batch, returned)
        _require(_is_whole(name, action.rounds), name, "a whole number of rounds", action.rounds)
        played = action.action
    else:
        state, action = _check.parts(name, "a pair (state, action)", returned)
        played = action
    actions = learner.action_set
    if isinstance(actions, Arms):
        _require(_is_whole(name, played), name, "an arm, which is a whole number", played)
    elif isinstance(actions, Domain):
        shapes = [aval.shape for _, aval in _avals(name, {"action": played})]
        fits = [shape[-1:] for shape in shapes] == [(actions.dim,)] and len(shapes[0]) <= 2
        _require(fits, name, f"a point of shape ({actions.dim},) or several points", played)
    elif isinstance(actions, Policies):
        _require(callable(played), name, "a policy, which is a callable pytree", played)
    return state, action


def _pair(name, kind, returned) -> tuple:
    """The given pair of a state and an object of this kind."""
    wanted = f"a pair (state, {kind.__name__})"
    state, second = _check.parts(name, wanted, returned)
    if not isinstance(second, kind):
        raise TypeError(
            f"{name} must return {wanted}, but it returned {_kind(second)} for the {kind.__name__}"
        )
    return state, second


def _is_whole(name, value) -> bool:
    """Whether a value is an integer scalar."""
    avals = [aval for _, aval in _avals(name, {"action": value})]
    return [aval.shape for aval in avals] == [()] and jnp.issubdtype(avals[0].dtype, jnp.integer)


def _require(holds, name, wanted, returned) -> None:
    if not holds:
        raise TypeError(f"{name} must return {wanted}, but it returned {_kind(returned)}")


def _check_losses(actions, loss) -> None:
    """Require the losses of all actions, unless the loss is a function."""
    if callable(loss):
        return
    shapes = [jnp.shape(leaf) for leaf in jax.tree.leaves(loss)]
    if isinstance(actions, Policies):
        wanted = f"features ({actions.arms or 'K'}, {actions.dim}) and losses of as many arms"
        arms = (actions.arms,) if actions.arms else (shapes or [()])[-1][:1]
        fits = shapes == [(*arms, actions.dim), arms] and len(arms) == 1
    else:
        count = actions.count if isinstance(actions, Arms) else actions.dim
        wanted, fits = f"losses of shape ({count},)", shapes == [(count,)]
    if not fits:
        listed = " and ".join(map(str, shapes)) or "nothing"
        raise TypeError(f"environment: step must return {wanted}, but their shapes are {listed}")


def _check_alike(name, what, before, after, converted=True) -> None:
    """Require a pytree with the structure, shapes and dtypes of another.

    A loop of JAX converts a number of Python to the dtype that it has after a round. Nothing is
    ``converted`` in a batch learner, whose step is a branch.
    """
    old, new = (_avals(name, {what: tree}) for tree in (before, after))
    one, other = map(str, map(jax.tree.structure, (before, after)))
    if one != other:
        raise TypeError(
            f"{name} must keep the structure of the {what}, but it changed from {one} to {other}"
        )
    for (place, one), (_, other) in zip(old, new, strict=True):
        dtype = one.dtype
        if one.weak_type and converted:
            with jax.numpy_dtype_promotion("standard"):
                dtype = jnp.result_type(one.dtype.type(0).item(), other.dtype)
        if (one.shape, dtype) != (other.shape, other.dtype):
            raise TypeError(
                f"{name} must keep the shape and dtype of the {what}, but {place} changed from "
                f"{one.dtype} of shape {one.shape} to {other.dtype} of shape {other.shape}"
            )


def _avals(name, tree) -> list[tuple[str, Any]]:
    """(place, type) of each leaf of a pytree; a TypeError if a leaf is neither array nor number."""
    avals = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        place = jax.tree_util.keystr(path[:1], simple=True) + jax.tree_util.keystr(path[1:])
        try:
            avals.append((place, jax.typeof(leaf)))
        except TypeError:
            raise TypeError(
                f"{name} must return arrays and numbers, but {place} is {_kind(leaf)}"
            ) from None
    return avals
