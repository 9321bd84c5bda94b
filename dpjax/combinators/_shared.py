"""Checks and steps that several combinators share."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from dpjax.core import Array, BatchLearner, Learner, PyTree


def check_learner(learner: Learner | BatchLearner, kind: Any = Learner | BatchLearner) -> None:
    """Require a learner of this kind."""
    if not isinstance(learner, kind):
        wanted = "Learner" if kind is Learner else "learner"
        raise TypeError(f"learner must be a {wanted}, got {type(learner).__name__}")


def step_before(
    ended, learner: Learner | BatchLearner, state: PyTree, key: Array, loss, action: PyTree
) -> tuple:
    """(state, action) after a loss. If the learner's part has ``ended``, the action is ``action``.

    The declaration does not cover releases after a learner's last action. So the last loss is not
    used, unless a released report depends on it.
    """
    if not learner.privacy.reported:
        return lax.cond(
            ended, lambda: (state, action), lambda: tuple(learner.step(state, key, loss))
        )
    after, following = learner.step(state, key, loss)
    return after, jax.tree.map(partial(jnp.where, ended), action, following)


def check_made(learner: Learner | BatchLearner, horizon: int) -> None:
    """Require that a function ``make`` has returned a Learner of this horizon."""
    if not isinstance(learner, Learner) or learner.horizon != horizon:
        kind = type(learner).__name__
        of = f" of horizon {learner.horizon}" if isinstance(learner, Learner) else ""
        raise TypeError(f"make must return a Learner of horizon {horizon}, got {kind}{of}")
