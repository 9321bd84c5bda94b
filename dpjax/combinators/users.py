"""User-level privacy: declarations for users who take part in several rounds."""

import numpy as np

from dpjax import noise, privacy
from dpjax.combinators._shared import check_learner
from dpjax.core import BatchLearner, Learner, Mechanism, Privacy, _check


def user_level(
    learner: Learner | BatchLearner,
    *,
    rounds_per_user: int,
    rounds_per_release: int | None = None,
    mechanism: Mechanism | None = None,
    spacing: int | None = None,
) -> Learner | BatchLearner:
    """Declare a learner's privacy for all rounds of one user together.

    The learner does not know users, and plays as before. For epsilon at the user level, request
    less epsilon for one round::

        user_level(lazy_ucb(horizon, arms, epsilon=epsilon / k), rounds_per_user=k)

    With a delta, :func:`dpjax.privacy.individual_privacy` computes the epsilon and delta to
    request. The declared epsilon is smaller if more is known about a user's rounds: how many of
    them are in one released sum, or which mechanism sums them. The declaration then covers only
    such users.

    Args:
      learner: a Learner or BatchLearner that declares its privacy for one round.
      rounds_per_user: k, the largest number of rounds of one user, in any positions.
      rounds_per_release: c, the largest number of them in one released sum. A release can span
        several batches, such as all batches of one phase. Only for BatchLearners with Gaussian
        noise in which each loss is in one released sum.
      mechanism: the Mechanism with which the learner sums losses, one value for each round. Only
        for Laplace, Gaussian, discrete Laplace and discrete Gaussian noise.
      spacing: the distance between consecutive rounds of a user if it is fixed; with ``mechanism``
        only.

    Returns:
      A learner of the same kind, which declares at most k epsilon for the unit "user".

    Raises:
      ValueError: the learner declares nothing, declares privacy for a unit other than a round, or
        has a delta of 1 for a user; an argument is invalid.

    Privacy: group privacy of k rounds (:func:`dpjax.privacy.group_privacy`): k epsilon,
    delta (e^(k epsilon) - 1) / (e^epsilon - 1) and k^2 rho. Laplace noise spends k epsilon, whether
    the k losses are in one noisy sum or in k. Gaussian noise spends k^2 rho if all k losses are in
    one noisy sum, and k rho if they are in k sums. Averaging a user's k losses into one message
    changes nothing: the noise in the mean is the same.

    With ``rounds_per_release`` a user spends at most (c_1^2 + c_2^2 + ...) rho for c_i rounds in
    release i, since c_i rounds move a released sum by at most c_i. The largest value is
    (floor(k / c) c^2 + (k mod c)^2) rho, which is k rho at c = 1. With ``mechanism``, consider the
    ratio of the mechanism's sensitivity to k values (:func:`dpjax.privacy.user_sensitivity`) to
    that to one value. Laplace noise multiplies epsilon by this ratio in L1. Gaussian noise
    multiplies rho by the square of this ratio in L2. Delta does not change, and with Gaussian noise
    epsilon follows from rho. This is our derivation.

    Examples:
      >>> learner = learners.adac_ucb(1000, 4, rho=0.01, delta=1e-6)
      >>> users = combinators.user_level(learner, rounds_per_user=4, rounds_per_release=1)
      >>> round(float(learner.privacy.epsilon), 2), round(float(users.privacy.epsilon), 2)
      (0.58, 1.21)
      >>> users.privacy.unit, round(float(users.privacy.rho), 3)  # 4 rho, not 16 rho
      ('user', 0.04)
    """
    check_learner(learner)
    rounds = _check.size(1, rounds_per_user=rounds_per_user)
    declared = learner.privacy
    if declared.unit != "round":
        raise ValueError(f"learner must declare privacy of one round, not of one {declared.unit}")
    if not _check.is_traced((declared.epsilon, declared.delta)) and np.isinf(declared.epsilon):
        raise ValueError("learner declares no privacy, so there is none for a user")
    if mechanism is None and spacing is not None:
        raise ValueError("spacing must be left out if no mechanism is given")
    if mechanism is not None and rounds_per_release is not None:
        raise ValueError("rounds_per_release must be left out if a mechanism is given")
    if mechanism is not None:
        grouped = _summed(learner, rounds, mechanism, spacing)
    elif rounds_per_release is not None:
        grouped = _capped(learner, rounds, _check.size(1, rounds_per_release=rounds_per_release))
    else:
        grouped = _of_group(declared, rounds)
    return learner._replace(
        privacy=grouped._replace(
            unit="user", rounds_per_user=rounds, paper_epsilon=rounds * declared.paper_epsilon
        )
    )


def _of_group(declared, rounds) -> Privacy:
    epsilon, delta = privacy.group_privacy(declared.epsilon, declared.delta, rounds)
    if not _check.is_traced((declared.epsilon, declared.delta)) and delta >= 1.0:
        raise ValueError(
            f"rounds_per_user: {rounds} rounds have delta = 1, which is no privacy, if one has "
            f"epsilon = {float(declared.epsilon):g} and delta = {float(declared.delta):g}"
        )
    return declared._replace(
        epsilon=epsilon,
        delta=delta,
        rho=rounds**2 * declared.rho,
        accountant=f"{declared.accountant}; group privacy of {rounds} rounds",
        sums=None,
    )


def _capped(learner, rounds, most) -> Privacy:
    """The declaration for users with at most ``most`` of their rounds in one released sum."""
    declared = learner.privacy
    once = declared.sums is not None and declared.sums.over == "releases"
    if not isinstance(learner, BatchLearner) or not once:
        raise ValueError(
            "rounds_per_release must be left out unless each loss is in one released sum with "
            f"Gaussian noise; the learner declares {declared.accountant!r}"
        )
    most = min(most, rounds)
    squares = rounds // most * most**2 + (rounds % most) ** 2
    return _with_rho(declared, squares, f"at most {most} of {rounds} rounds in a release")._replace(
        rounds_per_release=most
    )


def _summed(learner, rounds, mechanism, spacing) -> Privacy:
    """The declaration for users whose values are summed by a mechanism."""
    _check.built(Mechanism, "mechanisms.tree(horizon)", mechanism=mechanism)
    declared = learner.privacy
    sums = mechanism.sums
    if sums != declared.sums or mechanism.horizon != learner.horizon:
        raise ValueError(
            f"mechanism must be the learner's: it has {sums}, but the learner of "
            f"{learner.horizon} rounds declares {declared.sums or 'no sums'}"
        )
    law = noise.LAWS[mechanism.noise]
    if law.of_rho is None:
        raise ValueError(f"mechanism must not have {law.name} noise, whose rho is not declared")
    sensitivity = privacy.user_sensitivity(mechanism, rounds, spacing=spacing)
    one = mechanism.sensitivity
    of = f"{rounds} columns" + ("" if spacing is None else f", {spacing} rounds apart")
    if law.norm == 2:
        return _with_rho(declared, (sensitivity.l2 / one[1]) ** 2, of)._replace(spacing=spacing)
    return declared._replace(
        epsilon=sensitivity.l1 / one[0] * declared.epsilon,
        accountant=f"{declared.accountant}; {of}",
        spacing=spacing,
    )


def _with_rho(declared, factor, of) -> Privacy:
    """The declaration with ``factor`` times its rho, and its epsilon at the same delta."""
    rho = factor * declared.rho
    epsilon = noise.LAWS[declared.sums.noise].of_rho(rho, declared.delta)
    return declared._replace(epsilon=epsilon, rho=rho, accountant=f"{declared.accountant}; {of}")
