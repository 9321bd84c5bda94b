"""A small game of every learner, with an environment of matching actions."""

import numpy as np
from jax import random as jr

from dpjax import domains, environments, simulate
from dpjax.core import Arms, Pairs, Policies
from dpjax.engine import programs
from dpjax.learners import factories

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
        return learner, environment_of(learner.action_set)

    return game


def environment_of(action_set):
    """An environment whose rounds draw random numbers, for actions of any kind."""
    if isinstance(action_set, Pairs):
        return environments.dueling(np.linspace(0.3, 0.7, action_set.players))
    if isinstance(action_set, Arms):
        means = np.linspace(0.3, 0.7, action_set.count)
        return environments.bernoulli(means, regret="pseudo")
    if isinstance(action_set, Policies) and action_set.arms:
        return environments.advice(np.linspace(0.3, 0.7, action_set.arms), action_set.dim)
    if isinstance(action_set, Policies):
        return environments.gap_arms(action_set.dim, gap=0.1, arms=4)
    return environments.linear_losses(action_set, "iid")


def traced(game, rounds, play=simulate):
    """The traced program of a game with checkpoints at these rounds."""
    points = np.ones(2, np.float32)
    return programs.trace(game, play, np.array(rounds), points, jr.key(0).dtype)
