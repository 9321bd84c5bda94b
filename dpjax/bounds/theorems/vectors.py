"""Theorems on linear bandits, contextual ones and those over a fixed set of vectors."""

from functools import partial

import jax.numpy as jnp
import numpy as np

from dpjax import bounds, environments, learners, privacy
from dpjax.bounds.theorems.statement import Theorem
from dpjax.environments import families
from dpjax.environments.families import Family
from dpjax.learners.parts import probing
from dpjax.learners.parts.gram_calibration import gaussian_regularizer

DIM, ACTIONS = 5, 20
ARMS, EXPERTS = 4, 16
SILOS = 4
GAP = 0.1
# For logistic losses: two arms in the plane, for which greedy choices have E[x x'] = I / 2, and the
# largest strength that the theorem allows for |theta| = 1.
PLANE, LOGISTIC_GAP = 2, np.tanh(0.5)
STRENGTH = 0.25 * (1.0 - np.tanh(0.5) ** 2) / 4.0


def _linucb(horizon, dim, epsilon):
    return learners.linucb(horizon, dim, epsilon=epsilon, delta=privacy.default_delta(horizon))


def _linucb_bound(horizon, epsilon, gap=None):
    """The bound for the regularizer of the learner's Gaussian tree, plus the cost of failures.

    A row has squared length at most 2, and each level of the tree adds noise. With probability at
    most 1 / T a confidence bound fails, and regret is at most 1.5 T.
    """
    return bounds.linucb(horizon, DIM, *_regularizer(horizon, epsilon, horizon), gap=gap) + 1.5


def _regularizer(horizon, epsilon, releases, senders=1):
    """rho_min, rho_max and gamma for the trees of this many senders and releases."""
    delta, levels = privacy.default_delta(float(horizon)), np.ceil(np.log2(releases))
    inverse_mu = float(privacy.gaussian_inverse_mu(float(epsilon), delta))
    deviation = 2.0 * levels * inverse_mu * senders**0.5
    failure = 0.5 / (horizon * releases)
    return map(float, gaussian_regularizer(deviation, DIM, failure, norm_bound="tight")[1:])


def _federated(horizon, dim, epsilon):
    delta = privacy.default_delta(horizon)
    return learners.federated_linucb(horizon, dim, epsilon=epsilon, delta=delta, silos=SILOS)


def _federated_bound(horizon, epsilon, gap=None):
    users = SILOS * np.ceil(np.sqrt(horizon) / SILOS)
    sizes = _regularizer(horizon, epsilon, np.ceil(horizon / users), SILOS)
    return bounds.federated_linucb(horizon, DIM, users, *sizes, gap=gap) + 1.5


def _glm_sgd(horizon, dim, epsilon, model="local"):
    return learners.glm_sgd(horizon, dim, epsilon=epsilon, model=model, strength=STRENGTH)


def _glm_sgd_joint(horizon, epsilon):
    """The bound at the default delta and batch."""
    sigma = privacy.gaussian_scale(1.0, float(epsilon), privacy.default_delta(float(horizon)))
    return bounds.glm_sgd_batched(horizon, PLANE, float(sigma), STRENGTH)


def _sphere(count, seed=1) -> np.ndarray:
    points = np.random.default_rng(seed).normal(size=(count, DIM))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


VECTORS, DIRECTION = _sphere(ACTIONS), _sphere(1, 2)[0]


def _elimination(horizon, epsilon):
    return learners.linear_elimination(horizon, VECTORS, epsilon=epsilon)


def _along(length):
    """A factory of Bernoulli arms with means 1/2 - <theta, x> / 2, for a theta of that length."""
    means = 0.5 - 0.5 * length * VECTORS @ DIRECTION
    return partial(environments.bernoulli, means, regret="pseudo")


def _directions(horizon):
    """Bernoulli arms of the vectors, for any theta up to length 1."""

    def make(theta):
        length = jnp.sqrt(jnp.sum(theta * theta))
        means = 0.5 - 0.5 * jnp.asarray(VECTORS, jnp.float32) @ (theta / jnp.maximum(length, 1.0))
        return environments.bernoulli(means, regret="pseudo")

    return {"theta": Family(make, {"theta": (-np.ones(DIM), np.ones(DIM))})}


def _contexts(horizon):
    return {"contexts": families.contexts(DIM, DIM**2)}


def _logistic(horizon):
    return {"logistic": families.logistic(PLANE, 2)}


def _advice(horizon):
    return {"advice": families.advised(ARMS, EXPERTS)}


def _exp4(horizon, epsilon):
    return learners.exp4(horizon, ARMS, EXPERTS, epsilon=epsilon)


def _probing_experts(horizon, epsilon):
    return learners.probing_experts(horizon, ARMS, EXPERTS, epsilon=epsilon)


def _probing_bound(horizon, epsilon):
    """The bound at the setting of the learner."""
    setting = probing.best_setting(float(horizon), ARMS, EXPERTS, jnp.float32(epsilon), None)
    setting_values = (probing.rate(ARMS, setting), setting.restart, setting.batch, setting.mixing)
    return bounds.probing_experts(horizon, ARMS, EXPERTS, *map(float, setting_values))


def _advised(means, informative):
    return partial(environments.advice, np.asarray(means), EXPERTS, informative=informative)


GOOD = np.eye(EXPERTS)[0]
ADVISED = {
    "one good expert": _advised([0.5] * ARMS, 0.5 * GOOD),
    "ladder": _advised([0.3, 0.5, 0.5, 0.5], None),
    "narrow": _advised([0.5] * ARMS, 0.45 + 0.05 * GOOD),
}


def _largest(horizon):
    return 1.5 * horizon


TWO_ARMS = {"two arms in the plane": partial(environments.glm_arms, arms=2)}


def _logistic_gaps(horizon):
    return LOGISTIC_GAP * horizon


THEOREMS: dict[str, Theorem] = {
    "linucb": Theorem(
        _linucb,
        {"gap 0": partial(environments.gap_arms, gap=0.0),
         "gap 0.1": partial(environments.gap_arms, gap=GAP)},
        {"dim": DIM}, {"printed": _linucb_bound}, {"horizon": 0.5, "epsilon": -0.5}, _largest,
        "shariff2018", "Shariff & Sheffet 2018, Theorem 5, for our noise", _contexts,
    ),
    "linucb-gap": Theorem(
        _linucb, {"gap 0.1": partial(environments.gap_arms, gap=GAP)}, {"dim": DIM},
        {"printed": partial(_linucb_bound, gap=GAP)}, {"horizon": 0.0, "epsilon": -1.0}, _largest,
        "shariff2018", "Shariff & Sheffet 2018, Theorem 6, for our noise",
    ),
    "glm_sgd": Theorem(
        _glm_sgd, TWO_ARMS, {"dim": PLANE},
        {"derived": lambda horizon, epsilon: bounds.glm_sgd(horizon, PLANE, epsilon, STRENGTH)},
        {"horizon": 0.5, "epsilon": -1.0}, _logistic_gaps, "han2021", "ours, for one coin a round",
        _logistic, slow=True,
    ),
    "glm_sgd-joint": Theorem(
        partial(_glm_sgd, model="joint"), TWO_ARMS, {"dim": PLANE}, {"derived": _glm_sgd_joint},
        {"horizon": 0.5}, _logistic_gaps, "han2021", "ours, for noisy sums of batches",
        _logistic, slow=True,
    ),
    "federated_linucb": Theorem(
        _federated,
        {"gap 0": partial(environments.gap_arms, gap=0.0),
         "gap 0.1": partial(environments.gap_arms, gap=GAP)},
        {"dim": DIM}, {"derived": _federated_bound}, {"horizon": 0.5, "epsilon": -0.5}, _largest,
        "dubey2020", "in the style of Dubey & Pentland 2020, with our constants",
        _contexts, slow=True,
    ),
    "linear_elimination": Theorem(
        _elimination, {"theta of length 1": _along(1.0), "theta of length 0.2": _along(0.2)}, {},
        {"rate": bounds.linear_elimination_printed,
         "derived": lambda horizon, epsilon: bounds.linear_elimination(
             horizon, ACTIONS, DIM, epsilon)},
        {"horizon": 0.5}, lambda horizon: horizon,
        "hanna2022", "Hanna et al. 2022, derived with our constants", _directions,
    ),
    "exp4": Theorem(
        _exp4, ADVISED, {},
        {"derived": lambda horizon, epsilon: bounds.exp4(horizon, ARMS, EXPERTS, epsilon)},
        {"horizon": 0.5, "epsilon": -1.0}, lambda horizon: horizon,
        "auer2002", "Auer et al. 2002, Theorem 7.1, with noise and our constants",
        _advice, slow=True,
    ),
    "probing_experts": Theorem(
        _probing_experts, ADVISED, {}, {"derived": _probing_bound},
        {"horizon": 2 / 3, "epsilon": -1 / 3}, lambda horizon: horizon,
        "asi2023", "ours, for the dartboard of Asi et al. 2023 on estimates of probes",
        _advice, slow=True,
    ),
}  # fmt: skip
