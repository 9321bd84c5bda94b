"""Random Fourier features of contexts, with which linear learners play kernel bandits."""

import jax
import jax.numpy as jnp
import numpy as np

from dpjax.core import Array, Environment, Number, Policies, _check
from dpjax.maths.laws import normal as _normal


def fourier_features(
    environment: Environment, count: int, *, scale: Number, key: Array
) -> Environment:
    """Replace the features x in R^d of a contextual environment by random Fourier features.

    They are phi(x) = (cos W x, sin W x) / sqrt(m / 2). W is (m / 2, d), with independent normal
    entries of standard deviation 1 / scale. The mean of <phi(x), phi(y)> is the Gaussian kernel,
    exp(-|x - y|^2 / (2 scale^2)), so a linear learner plays a kernel bandit. phi(x) has length 1
    for every x, and W does not depend on the data. So the privacy of a linear learner with
    ``feature_bound=1`` is unchanged. ``scale`` must not depend on the data either.

    Args:
      environment: over policies, such as ``contextual_table``.
      count: m, the number of features; even.
      scale: the length scale of the kernel, positive; may be traced.
      key: PRNG key of W.

    Returns:
      An Environment for policies on features (K, m), with the same losses and regret.

    Raises:
      ValueError: the environment is not over policies, m is odd, or the scale is not positive.

    Reference: Rahimi & Recht, "Random features for large-scale kernel machines", 2007.

    Examples:
      >>> plain = environments.contextual_table(np.ones((4, 2, 3)), np.zeros((4, 2)))
      >>> key = jax.random.key(0)
      >>> kernel = combinators.fourier_features(plain, 8, scale=0.5, key=key)
      >>> state, outcome = kernel.step(kernel.init(key), key, lambda x: 0)
      >>> x, losses = outcome.loss
      >>> x.shape, [round(float(length), 6) for length in jnp.linalg.norm(x, axis=1)]
      ((2, 8), [1.0, 1.0])
    """
    if not isinstance(environment.action_set, Policies):
        raise ValueError("environment must be contextual, over policies")
    count = _check.size(2, count=count)
    if count % 2:
        raise ValueError(f"count must be even, got {count}")
    _check.positive(scale=scale)
    _check.key(key=key)
    weights = _normal(key, (count // 2, environment.action_set.dim)) / scale

    def phi(x):
        angles = x @ weights.T
        return jnp.concatenate([jnp.cos(angles), jnp.sin(angles)], axis=-1) / np.sqrt(count / 2)

    def seen(policy, x):
        return policy(phi(x))

    def step(state, key, policy):
        plain = jax.tree_util.Partial(seen, policy)
        state, outcome = environment.step(state, key, plain)
        features, losses = outcome.loss
        return state, outcome._replace(loss=(phi(features), losses))

    return environment._replace(step=step, action_set=Policies(count))
