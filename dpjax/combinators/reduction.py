"""Bandit learners made private by noise on each observed loss."""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from dpjax import noise as laws
from dpjax import privacy
from dpjax.combinators._shared import check_learner
from dpjax.core import Arms, Array, Learner, Number, Privacy, PyTree, _check
from dpjax.feedback import clip_seen
from dpjax.privacy.printed import Calibration, is_printed, stated

# Feedbacks that show more than one number a round.
_MORE = ("full", "gradient", "whole", "values", "semi_bandit", "contextual")


def _check_one_number(learner) -> None:
    """Require a Learner that sees one number a round, to which the noise is added."""
    check_learner(learner, Learner)
    if learner.feedback.kind in _MORE:
        raise ValueError(
            "learner must see one number a round, as with bandit feedback; its feedback is "
            f"{learner.feedback.name!r}"
        )


class LaplaceFeedbackState(NamedTuple):
    """The state of :func:`laplace_feedback`."""

    base: PyTree  # the base learner's state
    rejected: Array  # () int32


class LaplaceFeedbackReport(NamedTuple):
    """The report of :func:`laplace_feedback`.

    Examples:
      >>> learner = learners.dp_exp3_lap(1000, 2, epsilon=1.0)
      >>> state, arm = jax.eval_shape(learner.init, jax.random.key(0))
      >>> jax.eval_shape(learner.report, state)._fields
      ('rejected', 'base')
    """

    rejected: Array  # () int32, rounds whose noisy loss was outside the accepted interval
    base: PyTree  # the base learner's report


def laplace_feedback(
    learner: Learner, *, epsilon: Number, threshold: Number, null_loss: Number
) -> Learner:
    """Run any bandit learner on losses with Laplace noise: DP-Lambda-Lap.

    The observed loss l becomes l~ = l + Lap(1 / epsilon). If l~ is in [-b, 1 + b], the base sees
    (l~ + b) / (2b + 1), which is again in [0, 1]. Otherwise the round is rejected: the base sees
    ``null_loss``, and so draws its next action from the same law as before.

    Args:
      learner: a Learner with losses in [0, 1] that sees one number in each round.
      epsilon: privacy parameter of one round; inf adds no noise.
      threshold: b >= 0. With b = ln T / epsilon a round is rejected with probability at most
        1 / T.
      null_loss: the loss that leaves the base's estimates unchanged: 1 for estimates of gains
        (exp3), 0 for estimates of losses.

    Returns:
      A Learner. Its report counts rejected rounds.

    Privacy: epsilon-DP, central and even local, for replacement of one round. Released values:
    actions 1..T, as printed. Every action depends on the losses only through l~. Given the past, l~
    is an epsilon-DP function of one round's losses for any chosen arm, and all later steps are the
    same for both neighbours. (The paper cites parallel composition, which is stated for a partition
    fixed in advance. This argument covers adaptively chosen arms.)

    Reference: Tossou & Dimitrakakis, "Achieving privacy in the adversarial multi-armed bandit",
    2017, section on noise.

    Examples:
      >>> base = learners.exp3(1000, 4)
      >>> learner = combinators.laplace_feedback(base, epsilon=1.0, threshold=5.0, null_loss=1.0)
      >>> learner.privacy.model, learner.privacy.epsilon, round(float(base.privacy.epsilon))
      ('local', 1.0, 206)
    """
    _check_one_number(learner)
    epsilon = _check.epsilon(epsilon)
    _check.non_negative(threshold=threshold)
    scale = privacy.laplace_scale(1.0, epsilon)  # one loss in [0, 1] replaced by another
    width = jnp.asarray(threshold, jnp.float32)

    def init(key):
        base, action = learner.init(key)
        return LaplaceFeedbackState(base, jnp.zeros((), jnp.int32)), action

    def step(state, key, loss):
        noise_key, base_key = jax.random.split(key)
        noisy = laws.laplace(noise_key, loss, scale)
        accepted = (noisy >= -width) & (noisy <= 1.0 + width)
        fed = jnp.where(accepted, (noisy + width) / (2.0 * width + 1.0), null_loss)
        base, action = learner.step(state.base, base_key, clip_seen(learner, fed)[0])
        rejected = state.rejected + (~accepted).astype(jnp.int32)
        return LaplaceFeedbackState(base, rejected), action

    declared = Privacy(
        epsilon=epsilon, model="local", accountant="Laplace mechanism on each observed loss"
    )

    def report(state):
        return LaplaceFeedbackReport(state.rejected, learner.report(state.base))

    return learner._replace(init=init, step=step, privacy=declared, report=report, clip=None)


class PrivateReductionState(NamedTuple):
    """The state of :func:`private_reduction`."""

    base: PyTree  # the base learner's state
    point: PyTree  # (d,) the current point if the noise depends on it, else ()


def private_reduction(
    learner: Learner,
    *,
    epsilon: Number,
    loss_range: tuple[Number, Number] = (-1.0, 1.0),
    noise: Literal["scalar", "vector"] = "scalar",
    norm: Number | None = None,
    calibration: Calibration = "derived",
) -> Learner:
    """Run any bandit learner on losses with zero-mean noise: the reduction to the non-private case.

    The learner plays x and sees f = <l, x> + xi, whose mean is the loss. xi is one Laplace draw
    ("scalar"), or <Z, x> for a vector Z of d Laplace draws, as printed ("vector"). The scalar is
    better: only one number is observed, so noise on this number suffices. Over arms x is a unit
    vector, and both are one draw.

    The base should tolerate losses outside ``loss_range``. It sees f, clipped to its own range.

    Args:
      learner: a Learner that sees one number a round, linear in its action.
      epsilon: privacy parameter of one round; inf adds no noise.
      loss_range: (low, high) of the observed losses.
      noise: "scalar" or "vector"; the latter for learners that play points (d,).
      norm: |Y|_1, the largest L1 norm of a loss vector; with "vector" only.
      calibration: "derived" or "printed".

    Returns:
      A Learner with the report of the base. With "vector", losses are also clipped to +-|Y|_1
      |x|_inf, the largest value for loss vectors of that norm.

    Privacy: pure, central and even local, for replacement of one round. Released values: actions
    1..T. Every action depends on the losses only through the noisy values, and given the past a
    noisy value is an epsilon-DP function of one round's losses. The scales are:

        scalar   derived (high - low) / epsilon     printed max(|low|, |high|) / epsilon
        vector   derived 2 |Y|_1 / epsilon          printed |Y|_1 / epsilon

    The density of <Z, x> has a log-Lipschitz constant of 1 / (scale |x|_inf), and <l - l', x> is at
    most 2 |Y|_1 |x|_inf, or half of this if values have one sign. The printed scale bounds the
    value of a loss instead of its change. For losses in [0, 1] these are the same. For losses in
    [-1, 1] the printed scale has 2 epsilon under the paper's own Definition 2.1 (replacement), and
    this is declared here. If a round is zeroed out, it has epsilon. With vector noise the
    difference is visible only far in the tails, which depend only on the largest entry of x.

    Regret: that of the base on losses l + Z in expectation (Lemma 4.3), against oblivious losses.

    Reference: Agarwal & Singh, "The price of differential privacy for online learning", 2017,
    Algorithm 4, Lemmas 4.2 and 4.3.

    Examples:
      >>> base, words = learners.tsallis_inf(1000, 4), ("derived", "printed")
      >>> made = [combinators.private_reduction(base, epsilon=1.0, calibration=x) for x in words]
      >>> [float(x.privacy.epsilon) for x in made]  # for losses in [-1, 1]
      [1.0, 2.0]
    """
    _check_one_number(learner)
    epsilon = _check.epsilon(epsilon)
    _check.one_of("scalar", "vector", noise=noise)
    low, high = _check.interval(loss_range=loss_range)
    on_vector = noise == "vector"
    if on_vector:
        if norm is None:
            raise ValueError("norm: vector noise needs the largest L1 norm of a loss vector")
        _check.positive(norm=norm)
        if isinstance(learner.action_set, Arms):
            raise ValueError("noise: over arms vector noise equals scalar noise; pass 'scalar'")
        # If values have one sign, they change by at most |Y|_1 |x|_inf.
        signs = jnp.where((low < 0.0) & (high > 0.0), 2.0, 1.0)
        change, derived, printed = signs * norm, 2.0 * norm, norm
    else:
        change = derived = high - low
        printed = jnp.maximum(jnp.abs(low), jnp.abs(high))
    by_paper = is_printed(calibration)
    scale = privacy.laplace_scale(printed if by_paper else derived, epsilon)
    declared = Privacy(
        epsilon=privacy.noise_ratio(change, scale) if by_paper else epsilon,
        loss_range=(low, high),
        model="local",
        accountant="Laplace mechanism on each observed loss",
    )
    declared = stated(declared, calibration, epsilon)

    def pack(base, action):
        return PrivateReductionState(base, action if on_vector else ()), action

    def init(key):
        return pack(*learner.init(key))

    def step(state, key, loss):
        noise_key, base_key = jax.random.split(key)
        if on_vector:
            largest = norm * jnp.max(jnp.abs(state.point))
            loss = jnp.clip(loss, -largest, largest)
            noisy = laws.laplace.along(noise_key, loss, scale, state.point)
        else:
            noisy = laws.laplace(noise_key, loss, scale)
        return pack(*learner.step(state.base, base_key, clip_seen(learner, noisy)[0]))

    return learner._replace(
        init=init,
        step=step,
        privacy=declared,
        report=lambda state: learner.report(state.base),
        clip=None,
    )
