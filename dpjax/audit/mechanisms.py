"""Audits of a mechanism of prefix sums by itself, without a learner."""

from typing import NamedTuple

import numpy as np

from dpjax.core import Learner, Mechanism, Number, Privacy, _check
from dpjax.engine.settings import in_float32
from dpjax.feedback import full, unclipped


class Sensitivity(NamedTuple):
    """The sensitivity of all releases together, and the error of the factorization B C of A."""

    l1: float  # the largest L1 norm of a column of C
    l2: float  # the largest L2 norm of a column of C
    error: float  # the largest entry of |B C - A|; 1 if releases wait for a batch


@in_float32
def sensitivity(mechanism: Mechanism) -> Sensitivity:
    """The exact sensitivity of a mechanism to one value, from its matrices in NumPy.

    The releases are post-processing of C x + z. If B C = A, the matrix of prefix sums,
    ``mechanism.sensitivity`` has to be at least the largest L1 and L2 norms of a column of C.

    Args:
      mechanism: a Mechanism, with a horizon of a few thousand at most, since matrices are dense.

    Examples:
      >>> [round(x, 2) for x in audit.sensitivity(mechanisms.tree(8))]
      [3.0, 1.73, 0.0]
    """
    _check.built(Mechanism, "mechanisms.tree(horizon)", mechanism=mechanism)
    decoder, encoder = mechanism.matrices()
    norms = [np.linalg.norm(encoder, ord=p, axis=0).max(initial=0.0) for p in (1, 2)]
    prefix = np.tri(mechanism.horizon, mechanism.horizon - 1, -1)
    error = np.abs(decoder @ encoder - prefix).max(initial=0.0)
    return Sensitivity(float(norms[0]), float(norms[1]), float(error))


def releases(
    mechanism: Mechanism, shape: tuple[int, ...], *, scale: Number, privacy: Privacy | None = None
) -> Learner:
    """A learner whose losses are a mechanism's values and whose actions are the released sums.

    Its first action is the release of the empty prefix.

    Args:
      mechanism: a Mechanism.
      shape: the shape of a value.
      scale: the scale of each draw.
      privacy: the declaration to audit. By default nothing is declared.

    Examples:
      >>> learner = audit.releases(mechanisms.tree(8), (2,), scale=1.0)
      >>> learner.horizon, learner.privacy.epsilon
      (8, inf)
    """
    _check.built(Mechanism, "mechanisms.tree(horizon)", mechanism=mechanism)
    stream = mechanism.stream(shape, scale=scale)
    return Learner(
        init=stream.init,
        step=stream.step,
        feedback=full,
        action_set=None,
        horizon=mechanism.horizon,
        privacy=Privacy() if privacy is None else privacy,
        clip=unclipped,
    )
