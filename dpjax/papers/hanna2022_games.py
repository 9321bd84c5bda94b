"""Hanna et al. 2022: the actions on the sphere, learners and environments of the experiment.

A learner is a function of the horizon, the instance and, if it is private, epsilon.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dpjax import environments, learners
from dpjax.maths import designs
from dpjax.privacy import default_delta


class Instance(NamedTuple):
    """Actions of length 1, and theta."""

    actions: np.ndarray  # (K, d) NumPy
    theta: Any  # (d,)

    def means(self, length=1.0) -> np.ndarray:
        """Mean losses (K,) if theta has this length."""
        return 0.5 - 0.5 * length * self.actions @ self.theta

    def missed(self) -> float:
        """The regret per round of the best action against the best point of the sphere."""
        return float(0.5 - 0.5 * np.max(self.actions @ self.theta))


def on_sphere(arms: int, dim: int, seed: int) -> Instance:
    """Actions and theta drawn uniformly from the unit sphere."""
    random = np.random.default_rng(seed)
    actions, theta = random.normal(size=(arms, dim)), random.normal(size=dim)
    actions /= np.linalg.norm(actions, axis=1, keepdims=True)
    return Instance(actions, theta / np.linalg.norm(theta))


def on_net(zeta: float) -> Instance:
    """A zeta-net of the circle; theta is at the worst place, half-way between two points."""
    actions = designs.circle_net(zeta)
    angle = np.pi / len(actions)
    return Instance(actions, np.array([np.cos(angle), np.sin(angle)]))


INSTANCES = {
    "K = 20, d = 2": on_sphere(20, 2, 1),
    "K = 20, d = 5": on_sphere(20, 5, 1),
    "net, zeta = 0.05": on_net(0.05),
}
MAIN = "K = 20, d = 5"  # the instance of the experiments that have only one
ZETAS = (0.3, 0.1, 0.03, 0.01)  # how fine the nets are
SEED = 2022


def instances(short: bool) -> dict:
    """The instances of the games by batches; one in a short run, because each is compiled."""
    return {MAIN: INSTANCES[MAIN]} if short else INSTANCES


def by_batches(short: bool) -> dict:
    """The learners that play by batches; three in a short run."""
    return {name: BY_BATCHES[name] for name in BY_BATCHES if name in BESIDE or not short}


def zetas(short: bool) -> tuple:
    """The distances zeta of the nets; few in a short run."""
    return ZETAS[:2] if short else ZETAS


def elimination(horizon: int, instance: Instance, epsilon: float, **options: Any):
    """Linear elimination, with the radius and the model of the options."""
    return learners.linear_elimination(horizon, instance.actions, epsilon=epsilon, **options)


BY_BATCHES = {
    "exact": elimination,
    "Chernoff": partial(elimination, radius="chernoff"),
    "printed": partial(elimination, radius="printed"),
    "local, exact": partial(elimination, noise="local_laplace"),
    "local, Chernoff": partial(elimination, noise="local_laplace", radius="chernoff"),
    "DP-SE": lambda horizon, instance, epsilon: learners.successive_elimination(
        horizon, len(instance.actions), epsilon=epsilon
    ),
}
# These are compared with learners that choose in each round.
BESIDE = ("exact", "local, exact", "DP-SE")
# Learners that choose in each round. LinUCB takes the actions as features, in the joint model.
ON_FEATURES = {
    "LinUCB": lambda horizon, instance, epsilon: learners.linucb(
        horizon, instance.actions.shape[1], epsilon=epsilon, delta=default_delta(horizon)
    ),
}
BY_ROUNDS = {
    "Lazy-UCB": lambda horizon, instance, epsilon: learners.lazy_ucb(
        horizon, len(instance.actions), epsilon=epsilon
    ),
    "UCB1": lambda horizon, instance: learners.ucb1(horizon, len(instance.actions)),
}


def as_arms(instance: Instance):
    """The losses of the actions, for learners that choose an arm."""
    return environments.bernoulli(instance.means(), regret="pseudo")


def as_features(instance: Instance):
    """The actions as features, with regret in units of losses in [0, 1]."""
    environment = environments.fixed_actions(instance.actions, -instance.theta)
    # Its losses lie in [-1, 1], so its regret is halved for comparison with losses in [0, 1].
    return environment._replace(regret=lambda state, tally: 0.5 * environment.regret(state, tally))
