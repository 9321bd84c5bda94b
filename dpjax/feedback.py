"""What a learner sees of a round: all losses, a gradient, or what its action or policy picks.

Each function maps (Outcome.loss, action) to what is seen. A learner names one as its ``feedback``.
"""

import jax
import jax.numpy as jnp

from dpjax.maths.clipping import within


def full(loss, action):
    """Full information: the loss of every action is seen.

    Raises:
      TypeError: the loss is a function, of which only values can be seen.

    Examples:
      >>> loss = jnp.array([0.25, 0.5, 1.0])
      >>> feedback.full(loss, 2).tolist()
      [0.25, 0.5, 1.0]
    """
    del action
    if callable(loss) and not hasattr(loss, "vector"):
        raise TypeError(
            "learner: needs the loss of every action (or, by combinators.on_gradients, gradients), "
            "but this environment's losses are functions"
        )
    return loss.vector() if hasattr(loss, "vector") else loss


def gradient(loss, point):
    """Full information about convex losses: the gradient of the loss at the played point x, (d,).

    The loss is a callable pytree, or a vector l (d,) that stands for x -> <l, x>. Where a loss has
    no gradient, JAX gives one of its subgradients if it is a maximum or an absolute value.

    Examples:
      >>> feedback.gradient(lambda x: jnp.sum(x**2), jnp.array([1.0, -2.0])).tolist()
      [2.0, -4.0]
    """
    return jax.grad(loss)(point) if callable(loss) else jnp.asarray(loss)


def whole(loss, point):
    """Full information about convex losses: the loss itself, to be evaluated at any point.

    The loss is a callable pytree, or a vector l (d,) that stands for x -> <l, x>.

    Examples:
      >>> loss = jnp.array([0.25, 0.5, 1.0])
      >>> feedback.whole(loss, jnp.ones(3)) is loss
      True
    """
    del point
    return loss


def bandit(loss, action):
    """Bandit feedback: of the (K,) losses only that of the played arm is seen, ().

    Examples:
      >>> loss = jnp.array([0.25, 0.5, 1.0])
      >>> float(feedback.bandit(loss, 2))
      1.0
    """
    return loss(action) if callable(loss) else jnp.asarray(loss)[action]


def value(loss, action):
    """Value feedback: what the loss function gives at the played point, ().

    The loss is a callable pytree, or a vector l (d,) that stands for x -> <l, x>.

    Examples:
      >>> float(feedback.value(lambda x: jnp.sum(x**2), jnp.array([1.0, -2.0])))
      5.0
    """
    return loss(action) if callable(loss) else linear(loss, action)


def values(loss, points):
    """Value feedback at several points a round: the loss at each of the played points (m, d), (m,).

    The environment counts the mean of these values as suffered.

    Examples:
      >>> points = jnp.array([[1.0, 0.0], [1.0, 2.0]])
      >>> feedback.values(lambda x: jnp.sum(x**2), points).tolist()
      [1.0, 5.0]
    """
    return jax.vmap(lambda point: value(loss, point))(points)


def mean_value(loss, action):
    """What a round adds to the suffered loss, (): at a point (d,), or the mean over points (m, d).

    Environments over points count by it.

    Examples:
      >>> points = jnp.array([[1.0, 0.0], [1.0, 2.0]])
      >>> float(feedback.mean_value(lambda x: jnp.sum(x**2), points))
      3.0
    """
    return value(loss, action) if jnp.ndim(action) == 1 else jnp.mean(values(loss, action))


def middle(action):
    """The played point (d,), or the mean (d,) of several ones (m, d).

    Examples:
      >>> feedback.middle(jnp.array([[1.0, 0.0], [1.0, 2.0]])).tolist()
      [1.0, 1.0]
    """
    return action if jnp.ndim(action) == 1 else jnp.mean(action, axis=0)


def linear(loss, point):
    """Value feedback of a linear loss l (d,): only <l, x> is seen at the played point x, ().

    Raises:
      TypeError: the loss is a function that is not linear.

    Examples:
      >>> loss = jnp.array([0.25, 0.5, 1.0])
      >>> float(feedback.linear(loss, jnp.array([1.0, 0.0, 0.5])))
      0.75
    """
    if callable(loss):
        raise TypeError("learner: needs linear losses, but this environment's losses are functions")
    return jnp.sum(loss * point)


def semi_bandit(loss, action):
    """Semi-bandit feedback: of a linear loss l (d,) the entries that are played, l * x, (d,).

    The action x is a vertex of ones and zeros. Where it is 0 nothing is seen, and 0 is returned.

    Raises:
      TypeError: the loss is a function that is not linear.

    Examples:
      >>> loss = jnp.array([0.25, 0.5, 1.0])
      >>> feedback.semi_bandit(loss, jnp.array([1.0, 0.0, 1.0])).tolist()
      [0.25, 0.0, 1.0]
    """
    if callable(loss):
        raise TypeError("learner: needs linear losses, but this environment's losses are functions")
    return loss * action


def contextual(loss, policy):
    """Contextual bandit feedback: features (d,) and loss () of the arm that the policy picks.

    ``loss`` is a pair of the round's features (K, d) and losses (K,); ``policy``, a callable
    pytree, maps features to an arm.

    Examples:
      >>> loss = jnp.eye(3), jnp.array([0.25, 0.5, 1.0])
      >>> features, seen = feedback.contextual(loss, lambda features: 1)
      >>> features.tolist(), float(seen)
      ([0.0, 1.0, 0.0], 0.5)
    """
    features, losses = loss
    arm = policy(features)
    return jnp.asarray(features)[arm], jnp.asarray(losses)[arm]


def clipped_bandit(loss, action):
    """Bandit feedback clipped to [0, 1], (), for learners that see only sums over rounds.

    Such a learner cannot clip the terms of a sum, nor count those that were out of range.

    Examples:
      >>> float(feedback.clipped_bandit(jnp.array([0.25, 1.5]), 1))
      1.0
    """
    return within(bandit(loss, action), 0.0, 1.0)


def clipped_full(loss, action):
    """Full information clipped to [0, 1], (K,), for learners that see only sums over rounds.

    Examples:
      >>> feedback.clipped_full(jnp.array([0.25, 1.5, -1.0]), 1).tolist()
      [0.25, 1.0, 0.0]
    """
    return within(full(loss, action), 0.0, 1.0)
