"""Games of learners that stop, by batches: stopping times and recommendations."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from jax import random as jr

from dpjax import environments, simulate_batches, sweep
from dpjax.learners import factories

HORIZON = 10**8


class Case(NamedTuple):
    """The settings of a game; the arm with the largest gain, 1 minus its mean loss, is best."""

    gains: Any  # (K,)
    epsilon: Any = np.inf
    failure: Any = 0.1


@cache
def game_of(name, horizon, arms, options):
    """The game of a Case, entirely traced, so that all cases share one program."""

    def game(case):
        sizes = {"arms": arms, "epsilon": case.epsilon, "failure": case.failure}
        learner = factories.build(name, horizon, sizes, failure=case.failure, **dict(options))
        return learner, environments.bernoulli(1.0 - case.gains, regret="pseudo")

    return game


def played(name, cases, trials, *, horizon=HORIZON, seed=0, play=simulate_batches, **options):
    """The report of each trial of each case: leaves (cases, trials)."""
    points = Case(*(np.array(field, np.float32) for field in zip(*cases, strict=True)))
    game = game_of(name, horizon, len(cases[0].gains), tuple(options.items()))
    return sweep(
        game, points, trials, jr.key(seed), play=play, checkpoints=1, progress=False
    ).report
