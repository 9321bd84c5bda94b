"""Learners made from learners: for losses in other ranges, for arms, and for convex losses."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp

from dpjax import domains, noise
from dpjax.combinators._shared import check_learner
from dpjax.core import Arms, Learner, Number, Policies, _check
from dpjax.domains.action_sets import fits
from dpjax.feedback import clip_seen, full, gradient


def rescale_losses(learner: Learner, low: Number, high: Number) -> Learner:
    """Adapt a learner over arms with losses in [0, 1] to losses in [low, high].

    The learner sees (loss - low) / (high - low), clipped to [0, 1]. Its calibration then holds for
    losses in [low, high]. For rewards r in [a, b], use the losses -r with low = -b and high = -a.
    Regret stays in the units of the environment.

    Args:
      learner: a Learner or BatchLearner over arms, whose declared neighbours replace losses.
      low: the smallest loss, a Python float.
      high: the largest loss.

    Returns:
      A learner of the same kind, with the same declaration except for the range of losses.

    Raises:
      ValueError: the range is empty or not finite, the learner's own range is not [0, 1], or its
        neighbours are not "replace" (rescaled losses of 0 are not 0).

    Examples:
      >>> learner = combinators.rescale_losses(learners.lazy_ucb(1000, 2, epsilon=1.0), -3.0, 1.0)
      >>> learner.privacy.loss_range, float(learner.feedback(jnp.array([-2.0, 9.0]), 0))
      ((-3.0, 1.0), 0.25)
      >>> [float(x) for x in feedback.seen_inside(learner, jnp.array([-2.0, 9.0]), 1)]
      [1.0, 1.0]
    """
    check_learner(learner)
    _check.ordered(low, high)
    if isinstance(learner.action_set, Policies):
        raise ValueError("learner must play arms or points, not policies of contexts")
    if tuple(learner.privacy.loss_range) != (0.0, 1.0):
        raise ValueError(f"learner must be for losses in [0, 1], not {learner.privacy.loss_range}")
    if learner.privacy.neighbours != "replace":
        raise ValueError(
            f"learner must be for neighbours 'replace', not {learner.privacy.neighbours!r}: "
            "rescaled losses of 0 are not 0"
        )

    def see(loss, action):
        return learner.feedback((full(loss, action) - low) / (high - low), action)

    declared = learner.privacy._replace(loss_range=(float(low), float(high)))
    return learner._replace(
        feedback=replace(learner.feedback, see=see),
        privacy=declared,
        clip=partial(clip_seen, learner),
    )


def on_gradients(learner: Learner) -> Learner:
    """Play convex losses: the loss vector of a round is the gradient at the played point.

    A learner of linear losses has the same regret on convex losses, since
    f(x) - f(u) <= <gradient of f at x, x - u>. Use the loss set ``ball_losses(d, G)``, where G is
    the Lipschitz constant of the losses (``Family.lipschitz(0.0)``)::

        losses = domains.ball_losses(domain.dim, family.lipschitz(0.0))
        on_gradients(learners.ftrl(horizon, domain, epsilon=1.0, rate="noisy"))

    Longer gradients are clipped and counted.

    Args:
      learner: a Learner of points with full information, such as ``ftrl``, ``online_gradient`` or
        ``private_ftal``. The bound of ``ftpl`` is for oblivious linear losses only.

    Returns:
      A Learner with the feedback :func:`dpjax.feedback.gradient`, and the same declaration.

    Privacy: that of the learner, for neighbours that differ in the loss function of one round. Such
    a replacement changes one gradient, by at most 2 G. The gradients of later rounds depend on the
    data only through the releases, and the calibration is for adaptively chosen values
    (:mod:`dpjax.mechanisms`).

    Raises:
      ValueError: the learner does not play points, or does not have full information.

    Examples:
      >>> ball = domains.ball(2)
      >>> learner = combinators.on_gradients(learners.ftrl(1000, ball, epsilon=1.0))
      >>> family = loss_families.quadratic(ball)
      >>> loss = jax.tree_util.Partial(family.function, jnp.array([1.0, 0.0]))
      >>> print(learner.feedback(loss, jnp.array([0.25, 0.5])))
      [-0.75  0.5 ]
    """
    check_learner(learner, Learner)
    if not isinstance(learner.action_set, domains.Domain) or learner.feedback.kind != "full":
        raise ValueError("learner must play points of a domain with full information")
    if learner.privacy.unit == "entry":
        raise ValueError("learner must declare privacy of one round: all of a gradient can change")
    return learner._replace(feedback=gradient)


def sample_arms(learner: Learner) -> Learner:
    """Play an arm drawn from the probability vector that a learner on the simplex plays.

    It is for environments over arms. The expected regret is the same. So is the privacy, since the
    draw is post-processing of the released vector.

    Args:
      learner: a Learner whose action is a probability vector, (K,), with full information or linear
        feedback. With linear feedback it sees the loss of the drawn arm, whose mean is the loss of
        its point.

    Raises:
      TypeError: it is not a Learner.
      ValueError: the learner does not play points of a simplex.

    Examples:
      >>> points = learners.ftrl(1000, domains.simplex(4), epsilon=1.0)
      >>> combinators.sample_arms(points).action_set, points.action_set.dim
      (Arms(count=4), 4)
    """
    check_learner(learner, Learner)
    points = learner.action_set
    if (
        not isinstance(points, domains.Domain)
        or points.dim < 2
        or not fits(points, domains.simplex(points.dim))
    ):
        raise ValueError("learner must play points of a simplex, to draw an arm from")
    _, point = jax.eval_shape(learner.init, jax.random.key(0, impl="threefry2x32"))
    if point.shape != (points.dim,):
        raise ValueError("learner must play one point a round, to draw an arm from")

    def see(loss, arm):
        if callable(loss) and not hasattr(loss, "vector"):  # Only one arm has a loss.
            return loss(arm) if learner.feedback.kind in ("linear", "value") else full(loss, arm)
        loss = loss.vector() if hasattr(loss, "vector") else loss
        return learner.feedback(loss, jax.nn.one_hot(arm, loss.shape[0], dtype=jnp.float32))

    def draw(key, state, point):
        # A learner that explores may play points slightly outside of the simplex.
        weights = jnp.maximum(point, 0.0)
        total = jnp.sum(weights)
        return state, noise.choose(key, jnp.where(total > 1.001, weights / total, weights))

    def init(key):
        base_key, arm_key = jax.random.split(key)
        return draw(arm_key, *learner.init(base_key))

    def step(state, key, loss):
        base_key, arm_key = jax.random.split(key)
        return draw(arm_key, *learner.step(state, base_key, loss))

    # The value at a corner is the loss of its arm.
    kind = "bandit" if learner.feedback.kind == "linear" else learner.feedback.kind
    feedback = replace(learner.feedback, see=see, kind=kind)
    return learner._replace(init=init, step=step, feedback=feedback, action_set=Arms(points.dim))
