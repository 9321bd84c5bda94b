"""The rounds at which a game records regret."""

from collections.abc import Sequence

import numpy as np

from dpjax.core import BatchLearner, Environment, Learner, _check
from dpjax.domains.action_sets import check_fit

# From this horizon on, checkpoints are spaced geometrically, beginning at round _FIRST.
_LONG, _FIRST = 10**6, 100
# The number of rounds at which regret is recorded, or these rounds themselves.
Checkpoints = int | Sequence[int] | np.ndarray


def checkpoint_rounds(
    learner: Learner | BatchLearner,
    environment: Environment,
    checkpoints: Checkpoints,
) -> np.ndarray:
    """The rounds at which a game records regret; the last one is the horizon.

    Args:
      learner: a Learner or BatchLearner.
      environment: an Environment.
      checkpoints: the number of rounds, or the rounds themselves. A number is spaced evenly below a
        horizon of 10^6, and otherwise geometrically from round 100.

    Returns:
      (n,) int32.

    Raises:
      ValueError: the learner and the environment do not fit each other, the environment has fewer
        rounds than the learner plays, or the checkpoints do not increase to the horizon.
      TypeError: the checkpoints are not integers.
    """
    check_fit(learner, environment)
    horizon = learner.horizon
    _check.size(1, horizon=horizon)
    if environment.horizon is not None and environment.horizon < horizon:
        raise ValueError(
            f"horizon: the learner plays {horizon} rounds, "
            f"but the environment has only {environment.horizon}"
        )
    if np.ndim(checkpoints) == 0:
        count = min(_check.size(1, checkpoints=checkpoints), horizon)
        if horizon < _LONG:
            return np.array([horizon * (i + 1) // count for i in range(count)], np.int32)
        steps = np.arange(count)
        spaced = np.rint(np.geomspace(horizon, _FIRST, count)[::-1]).astype(np.int64)
        # Checkpoints are distinct rounds, and each leaves enough rounds for all later ones.
        later = np.maximum.accumulate(spaced - steps) + steps
        return np.minimum(later, horizon - steps[::-1]).astype(np.int32)
    rounds = np.asarray(checkpoints)
    if rounds.dtype.kind not in "iu" or rounds.ndim != 1:
        raise TypeError("checkpoints must be a number, or a sequence of rounds (integers)")
    if not (rounds[:1] >= 1).all() or not (np.diff(rounds) > 0).all() or rounds[-1:] != [horizon]:
        raise ValueError(
            f"checkpoints must increase from at least 1 to the horizon, {horizon}, "
            f"got {rounds.tolist()}"
        )
    return rounds.astype(np.int32)
