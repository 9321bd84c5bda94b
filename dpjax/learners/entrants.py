"""Learners that take part in an audit or a comparison: a user's factory, or built-in ones that fit.

A factory that requires arguments gets them in standard sizes.
"""

import warnings
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dpjax import domains, learners
from dpjax.combinators import _returned, as_learner
from dpjax.core import Arms, BatchLearner, Learner, Pairs, Policies
from dpjax.domains import Domain
from dpjax.domains.action_sets import example_loss, fits
from dpjax.learners import factories
from dpjax.learners.factories import taken
from dpjax.privacy import default_delta

ARMS, DIM = 4, 5  # of the standard sizes


class UserError(ValueError):
    """An error in a user's learner. Its ``__cause__`` is the original exception."""


class Entrant(NamedTuple):
    """A learner of a comparison."""

    factory: Callable  # of the horizon and, if it takes one, of epsilon
    private: bool  # whether it takes an epsilon

    def build(self, horizon, epsilon=1.0) -> Learner | BatchLearner:
        """Build the learner for a horizon and an untraced epsilon."""
        return self.factory(horizon=horizon, **({"epsilon": epsilon} if self.private else {}))


class Field(NamedTuple):
    """The competitors of a user's learner."""

    entrants: dict[str, Entrant]
    left_out: dict[str, str]  # the name of a learner that would fit -> why it does not compete
    others: int  # number of built-in learners with other actions or other feedback


def entrant(factory: Callable, horizon: int, known: dict[str, Any] | None = None) -> Entrant:
    """Set the sizes that a factory requires: to ``given``, or by default to the standard sizes.

    Raises:
      ValueError, TypeError: the factory does not take ``horizon``, requires an argument that is not
        a size, or has an argument that cannot be passed by name.
    """
    parameters = taken(factory)
    if "horizon" not in parameters:
        raise ValueError("it must take horizon, the number of rounds")
    bound = factories.arguments(factory, sizes(horizon) if known is None else known)
    bound.pop("epsilon", None)
    return Entrant(partial(factory, **bound), "epsilon" in parameters)


_IN_WORDS: dict[str | None, str] = {
    "bandit": "bandit feedback",
    "contextual": "contextual bandit feedback",
    "difference": "values of the losses at 2 points",
    "full": "full information",
    "gradient": "full information",
    "linear": "values of the losses",
    "semi_bandit": "semi-bandit feedback",
    "value": "values of the losses",
    "whole": "full information",
}


def feedback_of(learner: Learner | BatchLearner) -> str:
    """The feedback of a learner in words, or the feedback's name if it has no description."""
    return _IN_WORDS.get(learner.feedback.kind, learner.feedback.name)


def check_learner(learner: Learner | BatchLearner) -> None:
    """Check that an object is a learner whose functions fit each other.

    Raises:
      TypeError: the object is not a Learner or BatchLearner, or no environment has its actions.
      Exception: its functions raised it when they were traced.
    """
    if not isinstance(learner, Learner | BatchLearner):
        kind = "nothing" if learner is None else type(learner).__name__
        raise TypeError(f"it must return a Learner or BatchLearner, and returned {kind}")
    actions = learner.action_set
    if not isinstance(actions, Arms | Policies | Domain):
        raise TypeError(f"its action_set must be Arms, Policies or a Domain, and is {actions!r}")
    _returned.check_learner(as_learner(learner), example_loss(actions))


def field_for(mine: Learner | BatchLearner, horizon: int, against=None) -> Field:
    """Find all built-in learners with the same actions and feedback as a learner.

    Args:
      mine: a Learner or BatchLearner.
      horizon: T.
      against: names of competitors; None for all.

    Raises:
      ValueError: a name is unknown or given twice, or its learner does not fit.
    """
    names = learners.__all__ if against is None else list(against)
    for name in names:
        factories.check_name(name)
    if len(set(names)) < len(names):
        raise ValueError(f"against: one is named twice in {', '.join(names)}")
    feedback, known = feedback_of(mine), sizes_of(mine.action_set, horizon)
    competitors: dict[str, Entrant] = {}
    left_out: dict[str, str] = {}
    for name in names:
        candidate: Entrant | None = None
        why = ""
        try:
            candidate = entrant(getattr(learners, name), horizon, known)
            built = candidate.build(horizon)
            if not fits(built.action_set, mine.action_set) or feedback_of(built) != feedback:
                why = "plays other actions, or has other feedback"
        except ValueError as error:
            why = "plays other actions"
            if candidate is not None:
                why = left_out[name] = f"it refuses this game: {error}"
        if candidate is not None and not why:
            competitors[name] = candidate
        elif against is not None:
            raise ValueError(f"against: {name} cannot compete here ({why})")
    if not competitors:
        raise ValueError("against: no learner of dpjax plays these actions with this feedback")
    return Field(competitors, left_out, len(names) - len(competitors) - len(left_out))


def sizes(horizon: int) -> dict[str, Any]:
    """The arguments that a factory may require: four arms, a ball or features in R^5.

    The actions of a linear learner are the unit vectors. If delta is required, it is T^-2.
    """
    return {
        "arms": ARMS, "domain": domains.ball(DIM), "dim": DIM, "actions": np.eye(ARMS),
        "epsilon": 1.0, "delta": default_delta(horizon),
    }  # fmt: skip


def sizes_of(actions, horizon: int) -> dict[str, Any]:
    """The arguments of a factory whose learner is to have the given actions."""
    known: dict[str, Any] = {"epsilon": 1.0, "delta": default_delta(horizon)}
    if isinstance(actions, Pairs):
        return known | {"arms": actions.players}
    if isinstance(actions, Arms):
        return known | {"arms": actions.count, "actions": np.eye(actions.count)}
    if isinstance(actions, Domain):
        return known | {"domain": actions}
    advised = actions.arms is not None
    return known | ({"arms": actions.arms, "experts": actions.dim} if advised else
                    {"dim": actions.dim})  # fmt: skip


def name_of(factory: Callable) -> str:
    """The name of a user's learner in tables, different from those of the built-in learners."""
    name = getattr(factory, "__name__", "mine")
    return f"{name} (mine)" if name in learners.__all__ else name


def prepared(factory: Callable, *horizons: int) -> Entrant:
    """The entrant of a user's factory, after a check that its learner can be built and traced
    at all of these horizons.

    Raises:
      UserError: the learner cannot be built or traced. The message names the factory and quotes
        its error.
    """
    with named(name_of(factory)):
        mine = entrant(factory, horizons[0])
        for horizon in {*horizons}:
            check_learner(mine.build(horizon))
    return mine


@contextmanager
def named(name: str):
    """Turn any exception of a user's code into a UserError that begins with ``name``.

    Runtime warnings are suppressed, because a regret that is NaN is an error anyway.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            yield
    except Exception as error:
        kind = "" if isinstance(error, ValueError | TypeError) else f"{type(error).__name__}: "
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(f"{name}: {kind}{first}") from error
