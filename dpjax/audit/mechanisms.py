"""Audits of a mechanism of prefix sums by itself, without a learner."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from dpjax.core import Learner, Mechanism, Number, Privacy, PyTree, _arrays, _check
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


def group_sensitivity(mechanism: Mechanism, changes: PyTree) -> tuple[float, float]:
    """The (L1, L2) norms of C x for values that change by x, from the matrices in NumPy.

    For a group of k changed rounds these are at most k times the norms for one round. They are
    smaller if changes cancel in the mechanism's sums, or if some sums do not contain all rounds.
    Divided by the noise scale, they give the privacy loss of the group.

    Args:
      mechanism: a Mechanism, with a horizon of a few thousand at most.
      changes: x, (T - 1,), 0 for values that do not change.

    Examples:
      >>> tree = mechanisms.tree(8)
      >>> [round(x, 2) for x in audit.group_sensitivity(tree, [1, -1, 0, 0, 0, 0, 0])]
      [1.0, 1.0]
    """
    _check.built(Mechanism, "mechanisms.tree(horizon)", mechanism=mechanism)
    _, encoder = mechanism.matrices()
    changes = _arrays.real("changes", changes)
    if changes.shape != (mechanism.horizon - 1,):
        raise ValueError(f"changes must have shape ({mechanism.horizon - 1},), got {changes.shape}")
    moved = encoder @ changes
    return float(np.abs(moved).sum()), float(np.linalg.norm(moved))


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


def prefix_statistic(
    mechanism: Mechanism, scale: Number, change: PyTree, *, round: int = 1
) -> Callable:
    """The log-likelihood ratio of a mechanism's releases when value ``round`` changes.

    For Gaussian noise it is exact: linear in the releases, with the weights (A e)^T (B B^T)^-1. For
    Laplace noise the mechanism must be :func:`dpjax.mechanisms.tree` and ``round`` must be 1. Then
    the prefixes 1, 2, 4, ... are the nodes y that contain the first value, and the statistic is the
    sum of (|y| - |y - d|) / b over them. It is large if the releases contain the changed value.

    Args:
      mechanism: a Mechanism, with a horizon of a few thousand at most.
      scale: the scale of each draw.
      change: d, by how much value ``round`` is larger on ``pair.losses`` than on ``pair.others``,
        in the shape of a value. All other values are 0.
      round: 1 .. T - 1.

    Returns:
      A function of the releases, (T, *shape) -> ().

    Examples:
      >>> ratio = audit.prefix_statistic(mechanisms.tree(8), 1.0, 1.0)
      >>> float(ratio(jnp.zeros(8)))
      -3.0
    """
    _check.built(Mechanism, "mechanisms.tree(horizon)", mechanism=mechanism)
    change = _arrays.real("change", change)
    if mechanism.noise == "laplace":
        if round != 1:
            raise ValueError(f"round must be 1 if the noise is Laplace, got {round}")
        powers = 2 ** np.arange((mechanism.horizon - 1).bit_length())

        def of_nodes(actions):
            nodes = actions[powers]
            moved = jnp.asarray(change, jnp.float32)
            differences = jnp.abs(nodes) - jnp.abs(nodes - moved[None])
            return jnp.sum(differences) / scale

        return of_nodes
    decoder, encoder = mechanism.matrices()
    shows = decoder @ encoder[:, round - 1]
    # The empty prefix is released without noise and carries no information. The pseudo-inverse
    # drops it.
    weights = np.linalg.pinv(decoder @ decoder.T) @ shows

    def linear(actions):
        flat = actions.reshape(mechanism.horizon, -1)
        values = flat @ jnp.asarray(change.reshape(-1), jnp.float32)
        return jnp.sum(values * jnp.asarray(weights, jnp.float32)) / scale**2

    return linear
