"""Logistic contextual bandits: losses 0 and 1, whose log-odds are linear in fresh features."""

import jax
import jax.numpy as jnp
from jax import random as jr

from dpjax.core import Environment, Number, Outcome, Policies, _check
from dpjax.environments.arms import pseudo_regret
from dpjax.maths import ellipsoids, laws


def glm_arms(dim: int, arms: int = 10, *, scale: Number = 1.0) -> Environment:
    """Fresh unit vectors as arms in each round, whose losses 0 or 1 have logistic means.

    The loss of an arm x is 1 with probability mu(<theta, x>), mu(s) = 1 / (1 + e^-s). The parameter
    theta is drawn once, uniformly on the sphere of radius S. The arms of a round are independent
    and uniform on the unit sphere.

    Args:
      dim: d, dimension of an arm's features.
      arms: K, at least 2.
      scale: S > 0, the length of theta; may be traced.

    Returns:
      An Environment for policies. Regret is pseudo-regret, the sum of mu(<theta, x>) of the played
      arm minus the least one of the round.

    Raises:
      ValueError: bad arguments, by name.

    Reference: Filippi, Cappe, Garivier & Szepesvari 2010 for the model.

    Examples:
      >>> environment, key = environments.glm_arms(3, 4), jax.random.key(0)
      >>> state, outcome = environment.step(environment.init(key), key, lambda features: 0)
      >>> features, losses = outcome.loss
      >>> features.shape, losses.tolist()
      ((4, 3), [1.0, 1.0, 1.0, 1.0])
    """
    dim, arms = _check.size(1, dim=dim), _check.arms(arms)
    _check.inside(0.0, jnp.inf, scale=scale)

    def init(key):
        return jnp.asarray(scale, jnp.float32) * _unit(laws.normal(key, (1, dim)))[0]

    def step(theta, key, policy):
        feature_key, loss_key = jr.split(key)
        features = _unit(laws.normal(feature_key, (arms * dim,)).reshape(arms, dim))
        means = jax.nn.sigmoid(ellipsoids.inner(theta, features))
        # One uniform number for all arms, because only one arm is seen.
        losses = (jr.uniform(loss_key) < means).astype(jnp.float32)
        gap = means[policy(features)] - jnp.min(means)
        return theta, Outcome((features, losses), gap)

    return Environment(init, step, pseudo_regret, Policies(dim))


def _unit(vectors):
    """Rows (n, d) scaled to length 1."""
    return vectors / jnp.sqrt(jnp.sum(vectors * vectors, axis=1, keepdims=True))
