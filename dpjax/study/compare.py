"""A study of a user's learner beside the built-in ones that fit."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dpjax.core import Array, BatchLearner, _check
from dpjax.game.batches import simulate_batches
from dpjax.game.play import simulate
from dpjax.learners.entrants import field_for, name_of, prepared
from dpjax.study.standard import standard
from dpjax.study.study import Study

EPSILONS = (0.1, 1.0, 10.0, np.inf)
_log = logging.getLogger(__name__)


def compare(
    factory: Callable,
    *,
    against: Sequence[str] | None = None,
    epsilons: Sequence[float] = EPSILONS,
    horizon: int = 10**5,
    trials: int = 200,
    key: Array | int = 0,
) -> Study:
    """A study of a user's learner and all built-in ones that have its actions and feedback.

    All learners play three standard environments at each epsilon with the same trials, so
    differences are paired by trial. A competitor without an epsilon is played once. A competitor
    that refuses the game is left out, and one line of the log at level INFO gives its reason.

    Args:
      factory: makes the user's learner. It is called by name with ``horizon``, with ``epsilon`` if
        it takes one, and with those of arms, domain, actions, dim and delta that it requires. Other
        arguments keep their defaults. ``functools.partial`` sets other sizes, such as ``arms=10``.
      against: names of built-in learners; by default all that fit.
      epsilons: (P,) privacy levels; inf for no privacy.
      horizon: T, in rounds, at least 16. Games are played by batches if all learners allow it, and
        otherwise round by round.
      trials: number of trials.
      key: a PRNG key, or a seed, a whole number from 0 to 2^32 - 1.

    Returns:
      A Study with the axes horizon and, if a learner takes one, epsilon.

    Raises:
      ValueError: the factory requires an argument with no standard value, or returns no learner;
        a name or a number is wrong.

    Examples:
      >>> study = dpjax.compare(learners.ucb1, against=["exp3"], horizon=64, trials=2)
      >>> list(study.learners), list(study.environments)
      (['ucb1 (mine)', 'exp3'], ['wide gap', 'narrow gap', 'deterministic'])
    """
    _check.function("a factory of learners, such as learners.exp3", factory=factory)
    _check.size(16, horizon=horizon)
    mine = prepared(factory, horizon)
    built = mine.build(horizon)
    field = field_for(built, horizon, against)
    for name, reason in field.left_out.items():
        _log.info("%s is left out of the comparison, because %s", name, reason)
    entrants = {name_of(factory): mine, **field.entrants}
    by_batches = all(isinstance(e.build(horizon), BatchLearner) for e in entrants.values())
    games = standard(built.action_set, by_batches)
    grid: dict[str, Any] = {"horizon": int(horizon)}
    if any(entrant.private for entrant in entrants.values()):
        grid["epsilon"] = list(epsilons)
    play = simulate_batches if by_batches else simulate
    factories = {name: entrant.factory for name, entrant in entrants.items()}
    return Study(factories, games, grid, trials, key, min(20, horizon), play)
