"""A small game of every learner, with an environment of matching actions."""

import numpy as np
from jax import random as jr

from dpjax import domains, simulate
from dpjax.learners import factories
from dpjax.study.standard import drawn
from dpjax.study.traces import trace

ARMS = 3
SIZES = {
    "actions": np.array([[1.0, 0.0], [-1.0, 0.5], [-1.0, -0.5]]),
    "arms": ARMS,
    "delta": 1e-6,
    "dim": ARMS,
    "domain": domains.simplex(ARMS),
    "epsilon": 1.0,
}


def game_of(name, horizon, sizes=SIZES):
    """A game whose point is the learner's epsilon."""

    def game(epsilon):
        learner = factories.build(name, horizon, sizes, epsilon=epsilon)
        return learner, drawn(learner.action_set)

    return game


def traced(game, rounds, play=simulate):
    """The traced program of a game with checkpoints at these rounds."""
    points = np.ones(2, np.float32)
    return trace(game, play, np.array(rounds), points, jr.key(0).dtype)
