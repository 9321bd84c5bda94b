"""What a learner declares for users who take part in several rounds."""

import jax
import numpy as np

from dpjax import _check, privacy
from dpjax.core import BatchLearner, Learner


def user_level(learner: Learner | BatchLearner, *, rounds_per_user: int) -> Learner | BatchLearner:
    """The same learner, with a declaration for all rounds of one user together.

    The learner does not see who a user is, and plays as before. Its noise has to be for fewer
    losses than a user has, so ask it for the privacy of one round that gives the user the rest::

        user_level(lazy_ucb(horizon, arms, epsilon=epsilon / k), rounds_per_user=k)

    With a delta, :func:`dpjax.privacy.individual_privacy` computes what to ask it for.

    Args:
      learner: a Learner or BatchLearner that declares its privacy for one round.
      rounds_per_user: k, the largest number of rounds of one user; which ones does not matter.

    Returns:
      A learner of the same kind, which declares k epsilon for the unit "user".

    Raises:
      ValueError: the learner declares nothing, declares something for another unit than a round, or
        has a delta of 1 for a user.

    Privacy: group privacy of k rounds (:func:`dpjax.privacy.group_privacy`): k epsilon,
    delta (e^(k epsilon) - 1) / (e^epsilon - 1) and k^2 rho. The k epsilon is spent by Laplace
    noise, for k losses in one noisy sum as well as in k of them. The k^2 rho is spent by Gaussian
    noise where all k losses are in one noisy sum; in k sums they spend k rho. To give a user one
    message, the average of their k losses, changes nothing: the noise in the mean is the same.
    """
    if not isinstance(learner, Learner | BatchLearner):
        raise TypeError(f"learner must be a learner, got {type(learner).__name__}")
    rounds = _check.size(1, rounds_per_user=rounds_per_user)
    declared = learner.privacy
    if declared.unit != "round":
        raise ValueError(f"learner must declare privacy of one round, not of one {declared.unit}")
    traced = any(isinstance(x, jax.core.Tracer) for x in (declared.epsilon, declared.delta))
    if not traced and np.isinf(declared.epsilon):
        raise ValueError("learner declares no privacy, so there is none for a user")
    epsilon, delta = privacy.group_privacy(declared.epsilon, declared.delta, rounds)
    if not traced and delta >= 1.0:
        raise ValueError(
            f"rounds_per_user: {rounds} rounds have delta = 1, which says nothing, where one has "
            f"epsilon = {float(declared.epsilon):g} and delta = {float(declared.delta):g}"
        )
    return learner._replace(
        privacy=declared._replace(
            epsilon=epsilon,
            delta=delta,
            rho=rounds**2 * declared.rho,
            unit="user",
            rounds_per_user=rounds,
            accountant=f"{declared.accountant}; group privacy of {rounds} rounds",
            paper_epsilon=rounds * declared.paper_epsilon,
        )
    )
