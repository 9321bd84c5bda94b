"""Feedback of a round: all losses, a gradient, or the losses of the played action or policy.

Each :class:`dpjax.Feedback` maps (Outcome.loss, action) to the values that the learner sees. A
learner names one as its ``feedback``. The engine passes :func:`seen_inside` to a learner's
``step``.
"""

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp

from dpjax.core import Array, BatchLearner, Feedback, Learner, PyTree
from dpjax.maths.clipping import add_counts, into_range


def _feedback(see: Callable, losses: PyTree = True) -> Feedback:
    name: Any = see.__name__
    return Feedback(name, see, losses, kind=name)


def clip_seen(learner: Learner | BatchLearner, seen: PyTree) -> tuple:
    """Clip the feedback of a learner to its declared losses.

    Every caller of a learner's ``step`` clips first. So losses outside the declared range cannot
    violate the declaration.

    Args:
      learner: a Learner or BatchLearner.
      seen: the result of the learner's ``feedback``.

    Returns:
      (input of ``step``, how many losses were outside, () int32). NaN counts as outside. A loss
      that exceeds the range by at most a millionth of the range's width does not count.

    Examples:
      >>> learner = learners.exp3(1000, 4)
      >>> [float(x) for x in feedback.clip_seen(learner, jnp.float32(1.5))]
      [1.0, 1.0]
    """
    if learner.clip is not None:
        return learner.clip(seen)
    low, high = learner.privacy.loss_range
    counts = []

    def clip(leaf: PyTree):
        inside, outside = into_range(leaf, low, high)
        counts.append(outside)
        return inside

    def clip_losses(are_losses: PyTree, part: PyTree):
        return jax.tree.map(clip, part) if are_losses else part

    inside = jax.tree.map(clip_losses, learner.feedback.losses, seen)
    return inside, reduce(add_counts, counts) if counts else jnp.zeros((), jnp.int32)


def seen_inside(learner: Learner | BatchLearner, loss: PyTree, action: PyTree) -> tuple:
    """Compute the feedback of a round and clip it, as :func:`clip_seen` does.

    Args:
      learner: a Learner or BatchLearner.
      loss: ``Outcome.loss``.
      action: the played action.

    Examples:
      >>> learner = learners.hedge(1000, 2, epsilon=1.0)
      >>> inside, outside = feedback.seen_inside(learner, jnp.array([0.5, -3.0]), 0)
      >>> inside.tolist(), int(outside)
      ([0.5, 0.0], 1)
    """
    return clip_seen(learner, learner.feedback(loss, action))


def to_bit(seen: PyTree) -> tuple:
    """The ``clip`` of a learner whose noise hides only bits: round to the nearer of 0 and 1.

    Only losses outside [0, 1] are counted.

    Examples:
      >>> [float(x) for x in feedback.to_bit(jnp.float32(0.75))]
      [1.0, 0.0]
    """
    inside, outside = into_range(seen, 0.0, 1.0)
    return jnp.round(inside), outside


def unclipped(seen: PyTree) -> tuple:
    """The ``clip`` of a learner that accepts any losses.

    Examples:
      >>> [float(x) for x in feedback.unclipped(jnp.float32(-7.0))]
      [-7.0, 0.0]
    """
    return seen, jnp.zeros((), jnp.int32)


@_feedback
def full(loss: PyTree, action: PyTree) -> Array:
    """Full information: the loss of every action is seen.

    Raises:
      TypeError: the loss is a function that can only be evaluated.

    Examples:
      >>> loss = jnp.array([0.25, 0.5, 1.0])
      >>> feedback.full(loss, 2).tolist()
      [0.25, 0.5, 1.0]
    """
    if callable(loss) and not hasattr(loss, "vector"):
        raise TypeError(
            "learner: needs the loss of every action (or, by combinators.on_gradients, gradients), "
            "but this environment's losses are functions"
        )
    return loss.vector() if hasattr(loss, "vector") else loss


@_feedback
def gradient(loss: PyTree, point: Array) -> Array:
    """Full information about convex losses: the gradient of the loss at the played point x, (d,).

    The loss is a callable pytree, or a vector l (d,) for x -> <l, x>. At points where a maximum or
    an absolute value has no gradient, JAX returns a subgradient.

    Examples:
      >>> feedback.gradient(lambda x: jnp.sum(x**2), jnp.array([1.0, -2.0])).tolist()
      [2.0, -4.0]
    """
    return jax.grad(loss)(point) if callable(loss) else jnp.asarray(loss)


@partial(_feedback, losses=False)
def whole(loss: PyTree, point: Array) -> Any:
    """Full information about convex losses: the loss itself, to be evaluated at any point.

    The loss is a callable pytree, or a vector l (d,) for x -> <l, x>.

    Examples:
      >>> loss = jnp.array([0.25, 0.5, 1.0])
      >>> feedback.whole(loss, jnp.ones(3)) is loss
      True
    """
    return loss


@_feedback
def bandit(loss: PyTree, action: PyTree) -> Array:
    """Bandit feedback: the loss of the played arm, (), out of losses (K,).

    Examples:
      >>> loss = jnp.array([0.25, 0.5, 1.0])
      >>> float(feedback.bandit(loss, 2))
      1.0
    """
    return loss(action) if callable(loss) else jnp.asarray(loss)[action]


@_feedback
def value(loss: PyTree, action: PyTree) -> Array:
    """Value feedback: the value of the loss function at the played point, ().

    The loss is a callable pytree, or a vector l (d,) for x -> <l, x>.

    Examples:
      >>> float(feedback.value(lambda x: jnp.sum(x**2), jnp.array([1.0, -2.0])))
      5.0
    """
    return loss(action) if callable(loss) else linear(loss, action)


@_feedback
def values(loss: PyTree, points: Array) -> Array:
    """Value feedback at several points a round: the losses (m,) at the played points (m, d).

    The suffered loss is the mean of these values.

    Examples:
      >>> points = jnp.array([[1.0, 0.0], [1.0, 2.0]])
      >>> feedback.values(lambda x: jnp.sum(x**2), points).tolist()
      [1.0, 5.0]
    """
    return jax.vmap(lambda point: value(loss, point))(points)


@_feedback
def difference(loss: PyTree, points: Array) -> Array:
    """Difference feedback, (): of two played points (2, d), the loss at the first minus the second.

    Examples:
      >>> points = jnp.array([[1.0, 0.0], [1.0, 2.0]])
      >>> float(feedback.difference(lambda x: jnp.sum(x**2), points))
      -4.0
    """
    first, second = values(loss, points)
    return first - second


def mean_value(loss: PyTree, action: PyTree) -> Array:
    """The suffered loss of a round, (): at a point (d,), or the mean over points (m, d).

    Environments whose actions are points compute their losses with it.

    Examples:
      >>> points = jnp.array([[1.0, 0.0], [1.0, 2.0]])
      >>> float(feedback.mean_value(lambda x: jnp.sum(x**2), points))
      3.0
    """
    return value(loss, action) if jnp.ndim(action) == 1 else jnp.mean(values(loss, action))


def middle(action: PyTree) -> Array:
    """The played point (d,), or the mean (d,) of several points (m, d).

    Examples:
      >>> feedback.middle(jnp.array([[1.0, 0.0], [1.0, 2.0]])).tolist()
      [1.0, 1.0]
    """
    return action if jnp.ndim(action) == 1 else jnp.mean(action, axis=0)


@_feedback
def linear(loss: PyTree, point: Array) -> Array:
    """Value feedback of a linear loss l (d,): <l, x> at the played point x, ().

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


@_feedback
def semi_bandit(loss: PyTree, action: PyTree) -> Array:
    """Semi-bandit feedback: the played entries l * x (d,) of a linear loss l (d,).

    The action x is a vertex of ones and zeros. Entries with x = 0 are not seen and are returned as
    0.

    Raises:
      TypeError: the loss is a function that is not linear.

    Examples:
      >>> loss = jnp.array([0.25, 0.5, 1.0])
      >>> feedback.semi_bandit(loss, jnp.array([1.0, 0.0, 1.0])).tolist()
      [0.25, 0.0, 1.0]
    """
    if callable(loss):
        raise TypeError("learner: needs linear losses, but this environment's losses are functions")
    return action * jnp.where(action == 0, 0.0, loss)


@partial(_feedback, losses=(False, True))
def contextual(loss: PyTree, policy: PyTree) -> Any:
    """Contextual bandit feedback: features (d,) and loss () of the arm that the policy selects.

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
