"""Bandit learners in the local model, which see each loss as a randomized bit."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr

from dpjax import _check, noise
from dpjax.core import Arms, Array, Batch, BatchLearner, Learner, Number, Privacy
from dpjax.maths.clipping import clip_loss, within
from dpjax.maths.exact_sums import ExactSum


class RandomizedResponseState(NamedTuple):
    base: Any  # the base learner's state
    clipped: Array  # () int32


class RandomizedResponseReport(NamedTuple):
    clipped: Array  # () int32, losses that were outside [0, 1] and were clipped before the draw
    base: Any  # the base learner's report


class RandomizedSumsState(NamedTuple):
    base: Any  # the base learner's state
    rounds: Array  # () int32, of the batch in play


def randomized_response(
    learner: Learner | BatchLearner, *, epsilon: Number
) -> Learner | BatchLearner:
    """Any bandit learner in the local model: it sees a randomized bit in place of each loss.

    The user of a round sends a bit, which is 1 with probability p + (1 - 2p) loss for
    p = 1 / (1 + e^epsilon). This is a coin whose bias is the loss, flipped with probability p. The
    base learner sees the bits, and no learner needs to know that they are randomized. Each arm's
    mean mu becomes p + (1 - 2p) mu. So the order of the arms stays, and all gaps shrink by the
    factor 1 - 2p = (e^epsilon - 1) / (e^epsilon + 1). An unbiased estimate of the losses would be
    (bit - p) / (1 - 2p), which learners of adversarial losses do not need either: the same factor
    scales the differences of all their estimates.

    Args:
      learner: a Learner or BatchLearner over arms with losses in [0, 1], bandit feedback and no
        declared privacy, such as ``kl_ucb`` or ``tsallis_inf``. A base that declares privacy by its
        own draws alone loses it first: ``exp3(T, K)._replace(privacy=Privacy())``.
      epsilon: privacy of each message; inf flips nothing.

    Returns:
      A learner of the same kind. The report of a Learner counts losses outside [0, 1], which are
      clipped. A BatchLearner sees sums of bits only. Its losses must be 0 or 1, and others are
      rounded to the nearer of them: play ``every_round(learner)`` in place of it on such losses.

    Raises:
      ValueError: the base declares privacy of its own, plays no arms, sees something else than one
        number a round, or is for losses in another range.

    Privacy: epsilon-DP in the local model for each loss by itself, released: the randomized losses,
    and with them actions 1..T. Nothing composes, whatever the base does with the bits.

    Regret: (e^epsilon + 1) / (e^epsilon - 1) times that of the base on losses p + (1 - 2p) l. So
    ``kl_ucb`` has asymptotically sum Delta_a ln T / kl(q(mu_a), q(mu*)), q(mu) = p + (1 - 2p) mu.
    No learner in the local model has less on Bernoulli losses, because what a user may send about
    a bit is a function of its randomized response (Lai & Robbins 1985 on the bits; Kairouz, Oh &
    Viswanath 2016). Near means of 1/2 that is ((e^epsilon + 1) / (e^epsilon - 1))^2 times as much
    as without privacy: 4.68 at epsilon = 1.

    Reference: Warner 1965; Ren, Zhou, Liu & Shroff, "Multi-armed bandits with local differential
    privacy", 2020, whose convert-to-Bernoulli mechanism this is (as recalled).
    """
    if not isinstance(learner, Learner | BatchLearner):
        raise TypeError(f"learner must be a learner, got {type(learner).__name__}")
    epsilon = _check.epsilon(epsilon)
    _check_base(learner)
    declared = Privacy(
        epsilon=epsilon,
        model="local",
        released="randomized losses 1..T",
        accountant="randomized response, each loss",
    )
    wrap = _of_losses if isinstance(learner, Learner) else _of_sums
    return wrap(learner, epsilon)._replace(privacy=declared)


def _check_base(learner) -> None:
    declared, arms = learner.privacy, learner.action_set
    if isinstance(declared.epsilon, jax.core.Tracer) or np.isfinite(declared.epsilon):
        raise ValueError(
            "learner must declare no privacy of its own, since its losses are randomized here; "
            "where it adds no noise, learner._replace(privacy=Privacy()) drops the declaration"
        )
    if tuple(declared.loss_range) != (0.0, 1.0):
        raise ValueError(
            f"learner must be for losses in [0, 1], not {declared.loss_range}: rescale the losses "
            "of the learner that randomized_response returns"
        )
    seen = None
    if isinstance(arms, Arms):
        losses, arm = jnp.zeros(arms.count, jnp.float32), jnp.zeros((), jnp.int32)
        seen = jax.eval_shape(learner.feedback, losses, arm)
    if getattr(seen, "shape", None) != ():
        raise ValueError("learner must play arms and see one number a round, as by feedback.bandit")


def _of_losses(learner, epsilon) -> Learner:
    # p is rounded up to a multiple of 2^-23, as uniform numbers of 23 bits are. The coin then has
    # exactly this law, and the ratio of its probabilities is at most e^epsilon.
    flip = 2.0**-23 * jnp.ceil(2.0**23 * jax.nn.sigmoid(-jnp.asarray(epsilon, jnp.float32)))

    def init(key):
        base, action = learner.init(key)
        return RandomizedResponseState(base, jnp.zeros((), jnp.int32)), action

    def step(state, key, loss):
        coin_key, base_key = jr.split(key)
        inside, clipped = clip_loss(loss, state.clipped)
        bit = noise.coin(coin_key, flip + (1.0 - 2.0 * flip) * inside)
        base, action = learner.step(state.base, base_key, bit.astype(jnp.float32))
        return RandomizedResponseState(base, clipped), action

    def report(state):
        return RandomizedResponseReport(state.clipped, learner.report(state.base))

    return learner._replace(init=init, step=step, report=report)


def _of_sums(learner, epsilon) -> BatchLearner:
    scale = 1.0 / jnp.asarray(epsilon, jnp.float32)

    def pack(base, batch):
        return RandomizedSumsState(base, batch.rounds), batch

    def init(key) -> tuple[RandomizedSumsState, Batch]:
        return pack(*learner.init(key))

    def step(state, key, total):
        bits_key, base_key = jr.split(key)
        ones = noise.randomized_response(bits_key, total.whole, scale, state.rounds)
        return pack(*learner.step(state.base, base_key, ExactSum(ones, jnp.zeros_like(ones))))

    def feedback(loss, arm):
        return jnp.round(within(learner.feedback(loss, arm), 0.0, 1.0))

    return learner._replace(
        init=init,
        step=step,
        feedback=feedback,
        report=lambda state: learner.report(state.base),
    )
