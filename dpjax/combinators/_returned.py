"""Checks of what the functions of a learner and an environment return.

They look at shapes and types, so they compute nothing. Whether an action is one of the action set
is checked by ``dpjax.study.simulate.check_actions``.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import random as jr

from dpjax.core import Arms, Batch, BatchLearner, Environment, Learner, Outcome, Policies, _check
from dpjax.core._check import _kind
from dpjax.domains import Domain
from dpjax.feedback import seen_inside


def first(learner: Learner | BatchLearner, key) -> tuple:
    """(state, action) of ``init``, or (state, Batch) if it is a BatchLearner."""
    state, action = _action("learner: init", learner, _called("learner: init", learner.init, key))
    _avals("learner: init", {"state": state})
    return state, action


def following(learner: Learner | BatchLearner, state, key, seen) -> tuple:
    """The result of ``step``, whose state is like the state before."""
    name = "learner: step"
    after, action = _action(name, learner, _called(name, learner.step, state, key, seen))
    _alike(name, "state", state, after)
    return after, action


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
    jax.eval_shape(partial(_after_one_round, learner), _key(), loss)


def check_game(learner: Learner, environment: Environment) -> None:
    """Check what a learner and an environment return in the first round.

    Raises:
      TypeError: as in :func:`check_learner`; or the environment's ``step`` does not return a state
        and an Outcome, its losses are not those of its actions, or its regret is not one number.
      Exception: a function raised it.
    """

    def first_round(key):
        state, action = first(learner, key)
        before, name = _called("environment: init", environment.init, key), "environment: step"
        _avals("environment: init", {"state": before})
        returned = _called(name, environment.step, before, key, action)
        after, outcome = _check.pair(name, "(state, Outcome)", returned)
        if not isinstance(outcome, Outcome):
            raise TypeError(
                f"{name} must return a pair (state, Outcome), but instead of the Outcome it "
                f"returned {_kind(outcome)}"
            )
        _alike(name, "state", before, after)
        _check_losses(environment.action_set, outcome.loss)
        _after(learner, key, state, action, outcome.loss)
        regret = _called("environment: regret", environment.regret, after, outcome.tally)
        (shape,) = _shapes("environment: regret", {"regret": regret}) or [None]
        if shape != ():
            found = "nothing" if shape is None else f"an array of shape {shape}"
            raise TypeError(f"environment: regret must return one number, but it returned {found}")

    jax.eval_shape(first_round, _key())


def placed(actions, action, loss) -> tuple:
    """(whether an action is in the action set, () bool; the arm or points to show if it is not)."""
    if isinstance(actions, Domain):
        points = jnp.atleast_2d(action)
        within = jax.vmap(lambda x: actions.contains(x, 1e-3 * actions.diameter))
        return jnp.all(within(points)), points
    arms = len(loss[0]) if isinstance(actions, Policies) else actions.count
    arm = action(loss[0]) if isinstance(actions, Policies) else action
    return (arm >= 0) & (arm < arms), jnp.stack([arm, arms])


def _key():
    return jr.key(0, impl="threefry2x32")


def _after_one_round(learner, key, loss):
    _after(learner, key, *first(learner, key), loss)


def _after(learner, key, state, action, loss):
    """Check the step of a learner that played an action."""
    seen, _ = _called("learner: feedback", partial(seen_inside, learner), loss, action)
    _, after = following(learner, state, key, seen)
    _alike("learner: step", "action", action, after)


def _called(name, function, *arguments):
    with _check.traceable(name):
        return function(*arguments)


def _action(name, learner, returned) -> tuple:
    """The given pair of a state and an action of the learner, or its batch."""
    batches = isinstance(learner, BatchLearner)
    state, action = _check.pair(name, "(state, Batch)" if batches else "(state, action)", returned)
    played, actions = action, learner.action_set
    if batches:
        if not isinstance(action, Batch):
            raise TypeError(
                f"{name} must return a pair (state, Batch), but instead of the Batch it returned "
                f"{_kind(action)}"
            )
        _whole(name, "a Batch of a whole number of rounds", action.rounds)
        played = action.action
    if isinstance(actions, Arms):
        _whole(name, "an arm, a whole number,", played)
    elif isinstance(actions, Domain):
        shapes = _shapes(name, {"action": played})
        if [shape[-1:] for shape in shapes] != [(actions.dim,)] or len(shapes[0]) > 2:
            raise TypeError(
                f"{name} must return a point of shape ({actions.dim},), or several of shape "
                f"(m, {actions.dim}), but it returned {_kind(played)}"
            )
    elif isinstance(actions, Policies) and not callable(played):
        raise TypeError(
            f"{name} must return a policy, a callable pytree, but it returned {_kind(played)}"
        )
    return state, action


def _whole(name, wanted, value) -> None:
    """Require an integer scalar."""
    avals = _avals(name, {"action": value})
    if [(aval.shape, jnp.issubdtype(aval.dtype, jnp.integer)) for _, aval in avals] != [((), True)]:
        raise TypeError(f"{name} must return {wanted} but it returned {_kind(value)}")


def _check_losses(actions, loss) -> None:
    """Require the losses of all actions, unless the loss is a function."""
    shapes = [jnp.shape(leaf) for leaf in jax.tree.leaves(loss)]
    if callable(loss):
        return
    if isinstance(actions, Arms | Domain):
        wanted = [(actions.count if isinstance(actions, Arms) else actions.dim,)]
    elif isinstance(actions, Policies):
        arms = actions.arms or (shapes[-1][:1] or (0,))[0]
        wanted = [(arms, actions.dim), (arms,)]
    if shapes != wanted:
        raise TypeError(
            f"environment: step must return losses of shape {' and '.join(map(str, wanted))}, "
            f"but it returned {' and '.join(map(str, shapes))}"
        )


def _alike(name, what, before, after) -> None:
    """Require a pytree with the structure, shapes and dtypes of another."""
    old, new = (_avals(name, {what: tree}) for tree in (before, after))
    if jax.tree.structure(before) != jax.tree.structure(after):
        raise TypeError(
            f"{name} must return {what}s of one structure, but the structure of the {what} changed "
            f"from {jax.tree.structure(before)} to {jax.tree.structure(after)}"
        )
    for (place, one), (_, other) in zip(old, new, strict=True):
        # JAX converts numbers of Python to the dtype that they get in the loop.
        weak = one.weak_type and jnp.promote_types(one.dtype, other.dtype) == other.dtype
        if one.shape != other.shape or not (weak or one.dtype == other.dtype):
            raise TypeError(
                f"{name} must keep the shape and dtype of the {what}, but {place} changed from "
                f"{one.dtype} of shape {one.shape} to {other.dtype} of shape {other.shape}"
            )


def _avals(name, tree) -> list[tuple[str, Any]]:
    """(place, type) of each leaf of a pytree; a TypeError if a leaf is neither array nor number."""
    found = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        place = jax.tree_util.keystr(path[:1], simple=True) + jax.tree_util.keystr(path[1:])
        try:
            found.append((place, jax.typeof(leaf)))
        except TypeError:
            raise TypeError(
                f"{name} must return arrays and numbers, but {place} is {_kind(leaf)}"
            ) from None
    return found


def _shapes(name, tree) -> list[tuple[int, ...]]:
    return [aval.shape for _, aval in _avals(name, tree)]
