"""Contextual environments, whose actions are policies: features (K, d) -> arm.

A round has features (K, d) and losses (K,). A learner observes those of the arm that its policy
picks (:func:`dpjax.feedback.contextual`).
"""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import random as jr
from numpy.polynomial import chebyshev

from dpjax.core import Array, Environment, Numbers, Outcome, Policies, _arrays, _check
from dpjax.environments.arms import pseudo_regret
from dpjax.maths import laws

# The mean reward of the best arm of a round. Those of the other arms are at least its negative.
BEST_REWARD = 0.75


def _two_valued(level, means):
    """Losses -1 and 1 of given means, from one uniform number, because only one arm is seen."""
    return jnp.where(level < 0.5 * (1.0 + means), 1.0, -1.0)


class GapArmsState(NamedTuple):
    parameter: Array  # (d,) theta, the mean loss of an arm x is <theta, x>
    mirror: Array  # (d,) unit vector along e_1 + theta, whose reflection takes e_1 to -theta


def gap_arms(
    dim: int,
    *,
    gap: float = 0.1,
    arms: int | None = None,
    losses: Literal["bernoulli", "gaussian"] = "bernoulli",
) -> Environment:
    """Fresh unit vectors as arms in each round; one is best by at least a gap.

    theta is uniform on the sphere. In each round the arms are uniform on the part of the sphere
    where their mean loss <theta, x> is in [-0.75 + gap, 0.75]. Then a random one of them gets a
    mean loss of -0.75.

    Args:
      dim: d, at least 2.
      gap: in [0, 1.5); may be traced.
      arms: K, at least 2; by default d^2, as in the paper.
      losses: "bernoulli", -1 or 1, or "gaussian", with standard deviation 1.

    Returns:
      An Environment for policies. Regret is pseudo-regret in units of the losses, as in the paper.

    Reference: the experiments of Shariff & Sheffet 2018, as in the authors' program. Losses are its
    rewards with the opposite sign.

    Examples:
      >>> environment, key = environments.gap_arms(3), jax.random.key(0)
      >>> state = jax.eval_shape(environment.init, key)
      >>> new, outcome = jax.eval_shape(lambda x: environment.step(x, key, lambda _: 0), state)
      >>> [x.shape for x in outcome.loss]  # features and losses of d^2 arms
      [(9, 3), (9,)]
    """
    dim = _check.size(2, dim=dim)
    arms = dim * dim if arms is None else _check.arms(arms)
    _check.one_of("bernoulli", "gaussian", losses=losses)
    _check.between(0.0, 1.499, gap=gap)
    return offered(dim, arms, gap if isinstance(gap, jax.core.Tracer) else float(gap), losses)


def offered(dim, arms, gap, losses="bernoulli", parameter=None, scales=None) -> Environment:
    """The environment of :func:`gap_arms`, with a given direction and distribution of contexts.

    Args:
      dim, arms, gap, losses: as in :func:`gap_arms`, without defaults for arms.
      parameter: (d,), not 0; theta is its direction. By default theta is drawn.
      scales: (d,) positive, by default 1. The first scales how far the mean rewards of the other
        arms are below 0.75 - gap. The others scale the coordinates orthogonal to theta before these
        are normalised.
    """
    coefficients = _reward_series(dim, gap)

    def init(key):
        theta = laws.normal(key, (dim,)) if parameter is None else parameter
        theta = theta / jnp.sqrt(jnp.sum(theta * theta))
        mirror = theta + jnp.where(jnp.arange(dim) == 0, 1.0, 0.0)
        return GapArmsState(theta, mirror / jnp.sqrt(jnp.sum(mirror * mirror)))

    def step(state, key, policy):
        normal_key, uniform_key, loss_key = jr.split(key, 3)
        # Each coordinate has a row: first the one along -theta, then those orthogonal to it. They
        # are drawn as one vector, because some draws of shape (d, K) take four times as long on
        # CPU.
        flat = laws.normal(normal_key, (dim * arms,))
        if scales is not None:
            flat = flat * jnp.repeat(jnp.asarray(scales).at[0].set(1.0), arms)
        if dim > _UNROLLED:
            normal = flat.reshape(dim, arms)
        else:
            normal = [flat[i * arms : (i + 1) * arms] for i in range(dim)]
        best_level, level = jr.uniform(uniform_key, (2,))
        reward = _series(coefficients, jnp.clip(normal[0] / _REACH, -1.0, 1.0))
        reward = jnp.clip(reward, -BEST_REWARD, BEST_REWARD - gap)
        if scales is not None:
            reward = BEST_REWARD - gap - scales[0] * (BEST_REWARD - gap - reward)
        best = jnp.floor(best_level * arms).astype(jnp.int32)
        reward = reward.at[best].set(BEST_REWARD)

        features = _mirrored(state.mirror, reward, normal[1:])

        if losses == "bernoulli":
            loss = _two_valued(level, -reward)
        else:
            loss = laws.normal(loss_key) - reward
        return state, Outcome((features, loss), BEST_REWARD - reward[policy(features)])

    return Environment(init, step, pseudo_regret, Policies(dim))


# Up to this many coordinates, each is computed by separate operations. This is faster for a few
# coordinates, but compiles slowly for many. The two forms round differently.
_UNROLLED = 8


def _mirrored(mirror, reward, across):
    """Unit vectors (K, d) with ``reward`` (K,) along -theta and the rest along ``across``.

    Args:
      mirror: (d,) unit vector of the reflection that maps e_1 to -theta.
      reward: (K,).
      across: d - 1 rows (K,), of any length.
    """
    if len(mirror) > _UNROLLED:
        length = jnp.sqrt((1.0 - reward * reward) / jnp.sum(across * across, axis=0))
        plain = jnp.concatenate([reward[None], length[None] * across])
        along = 2.0 * jnp.sum(mirror[:, None] * plain, axis=0)
        return (plain - mirror[:, None] * along[None]).T
    length = jnp.sqrt((1.0 - reward * reward) / sum(x * x for x in across))
    plain = [reward, *(length * x for x in across)]
    along = 2.0 * sum(mirror[i] * x for i, x in enumerate(plain))
    return jnp.stack([x - mirror[i] * along for i, x in enumerate(plain)], axis=1)


_REACH = 6.0


def _reward_series(dim, gap) -> list:
    """Chebyshev coefficients of the quantile of the mean reward at Phi(z), z in [-6, 6].

    The coordinate of a uniform point of the sphere along a fixed direction is 2b - 1 for
    b ~ Beta((d-1)/2, (d-1)/2). Here it is restricted to [-0.75, 0.75 - gap]. The quantiles are
    smooth functions of z, including the tails, and the series is within 1e-4 of them. A table would
    cost a gather. If the gap is traced, the coefficients are Chebyshev series in it.
    """
    if isinstance(gap, jax.core.Tracer):

        def rows_at(points):  # A gap of 0.75 (1 + x) is in [0, 1.5].
            return np.array([_reward_series(dim, BEST_REWARD * (1.0 + x)) for x in points])

        rows = chebyshev.chebinterpolate(rows_at, 31)  # type: ignore[type-var]
        return list(_series([*jnp.asarray(rows, jnp.float32)], gap / BEST_REWARD - 1.0))
    shape = 0.5 * (dim - 1)
    low = scipy.special.betainc(shape, shape, 0.5 * (1.0 - BEST_REWARD))
    high = scipy.special.betainc(shape, shape, 0.5 * (1.0 + BEST_REWARD - gap))

    def quantile(x):
        value = (
            2.0
            * scipy.special.betaincinv(
                shape, shape, low + scipy.special.ndtr(_REACH * x) * (high - low)
            )
            - 1.0
        )
        return np.clip(value, -BEST_REWARD, BEST_REWARD - gap)

    return chebyshev.chebinterpolate(quantile, 31).tolist()


def _series(coefficients, x):
    """The Chebyshev series at x in [-1, 1], by Clenshaw's recurrence."""
    before, last = jnp.zeros_like(x), jnp.zeros_like(x)
    for coefficient in coefficients[:0:-1]:
        before, last = last, coefficient + 2.0 * x * last - before
    return coefficients[0] + x * last - before


def fixed_actions(actions: Numbers, parameter: Numbers) -> Environment:
    """The same arms in each round, whose losses -1 and 1 have mean <theta, x>.

    If the actions are the unit vectors, it is a bandit with d arms.

    Args:
      actions: (K, d), K at least 2, not traced; they must span R^d.
      parameter: theta (d,) with <theta, x> in [-1, 1] for each action; may be traced.

    Returns:
      An Environment for policies; regret is pseudo-regret.

    Raises:
      ValueError: bad arguments, by name.

    Examples:
      >>> environment = environments.fixed_actions(np.eye(2), [-0.5, 0.25])
      >>> state, outcome = environment.step((), jax.random.key(0), lambda features: 1)
      >>> float(outcome.tally)  # the gap of arm 1
      0.75
    """
    actions = _arrays.real("actions", actions)
    if actions.ndim != 2 or len(actions) < 2:
        raise ValueError(f"actions must have shape (K, d) with K at least 2, got {actions.shape}")
    dim = actions.shape[1]
    rank = int(np.linalg.matrix_rank(actions))
    if rank < dim:
        raise ValueError(f"actions must span R^{dim}, their rank is {rank}: change coordinates")
    parameter = _arrays.entries(parameter=parameter)
    theta = jnp.asarray(parameter, jnp.float32)
    if theta.shape != (dim,):
        raise ValueError(
            f"parameter must have shape ({dim},), the dimension of the actions, got {theta.shape}"
        )
    if not isinstance(parameter, jax.core.Tracer):
        largest = np.max(np.abs(actions @ parameter))
        if not largest <= 1.00001:
            raise ValueError(
                f"parameter: mean losses must be in [-1, 1], got one of size {largest:g}"
            )
    features = jnp.asarray(actions, jnp.float32)
    means = jnp.sum(features * theta[None], axis=1)

    def step(state, key, policy):
        gap = means[policy(features)] - jnp.min(means)
        return state, Outcome((features, _two_valued(jr.uniform(key), means)), gap)

    return Environment(
        init=lambda key: (), step=step, regret=pseudo_regret, action_set=Policies(dim)
    )


class TableTally(NamedTuple):
    suffered: Array  # () loss of the played arm
    compared: Array  # () loss of the comparator's arm


def contextual_table(features: Numbers, losses: Numbers) -> Environment:
    """A user's own features and losses, played row by row without randomness.

    Regret is against a linear policy fitted in hindsight. It plays the arm with the least <w, x>,
    where w is the least-squares fit of all losses on all features. Regret may be negative.

    Args:
      features: (T, K, d), K at least 2, not traced.
      losses: (T, K), not traced. All arms have losses, because the learner may play any arm.

    Returns:
      An Environment of T rounds for policies.

    Raises:
      ValueError: shapes that do not match, or an entry that is missing or not a finite number; the
        message names its place, counted from 1.

    Examples:
      >>> features, losses = np.array([[[0.0], [1.0]]] * 2), np.array([[0.25, 0.5]] * 2)
      >>> environment = environments.contextual_table(features, losses)
      >>> state, outcome = environment.step(0, None, lambda x: jnp.argmax(x[:, 0]))
      >>> float(outcome.tally.suffered), float(outcome.tally.compared)
      (0.5, 0.25)
    """
    features, losses = _arrays.real("features", features), _arrays.real("losses", losses)
    if features.ndim != 3 or features.shape[1] < 2 or 0 in features.shape:
        raise ValueError(
            f"features must have shape (T, K, d) with K at least 2, got {features.shape}"
        )
    if losses.shape != features.shape[:2]:
        raise ValueError(
            f"losses must have shape {features.shape[:2]} as the features have, got {losses.shape}"
        )
    dim = features.shape[2]
    fit = np.linalg.lstsq(features.reshape(-1, dim), losses.reshape(-1), rcond=None)[0]
    best = np.argmin(features @ fit, axis=1)
    compared = jnp.asarray(np.take_along_axis(losses, best[:, None], axis=1)[:, 0], jnp.float32)
    features, losses = jnp.asarray(features, jnp.float32), jnp.asarray(losses, jnp.float32)

    def init(key):
        return jnp.zeros((), jnp.int32)

    def step(t, key, policy):
        suffered = losses[t][policy(features[t])]
        return t + 1, Outcome((features[t], losses[t]), TableTally(suffered, compared[t]))

    def regret(state, tally):
        return tally.suffered - tally.compared

    return Environment(init, step, regret, Policies(dim), horizon=len(losses))
