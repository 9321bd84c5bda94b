"""The sensitivity of a mechanism to all values of one user together."""

from typing import NamedTuple

import numpy as np
import scipy

from dpjax.core import Mechanism, _check


class UserSensitivity(NamedTuple):
    """The largest (L1, L2) norm of C times a change of k values, each by at most 1.

    Examples:
      >>> privacy.user_sensitivity(mechanisms.tree(8), 1).exact
      True
    """

    l1: float
    l2: float
    exact: bool  # whether ``l2`` is attained; otherwise it is an upper bound


def user_sensitivity(
    mechanism: Mechanism, rounds: int, *, spacing: int | None = None
) -> UserSensitivity:
    """The sensitivity of a mechanism to k values of one user, from its matrix C in NumPy.

    Let d_j be the changes of k values, numbers or vectors of norm at most 1. They move C x by the
    sum of C e_j d_j over these columns j. The L1 norm of this sum is at most the sum of the
    columns' L1 norms. This bound is attained if no entry of C is negative. The squared L2 norm is
    the sum of <C e_i, C e_j> <d_i, d_j>. It is largest for equal d_j if no product of columns is
    negative. The worst k columns are found exactly in three cases:

    - For a fixed ``spacing``, every first column is tried.
    - For a Toeplitz matrix of decreasing nonnegative entries, the first k columns are the worst.
      (The inner product of two columns decreases as their distance grows, and as both move right.)
    - For a tree, in which the sets of values of two nodes are disjoint or nested, the worst columns
      are found by dynamic programming over the nodes.

    Otherwise the L2 norm is bounded: the k largest entries of each row of C^T C are added up, and
    then the k largest of these sums. For one value of a user, the sensitivity is
    ``mechanism.sensitivity``.

    Args:
      mechanism: a Mechanism, with a horizon of a few thousand at most, since C is dense.
      rounds: k, the largest number of values of one user; at least 1.
      spacing: distance between a user's values if it is fixed; None if they may be anywhere.

    Raises:
      ValueError, TypeError: bad arguments, by name.

    Examples:
      >>> tree = mechanisms.tree(8)
      >>> [round(privacy.user_sensitivity(tree, k).l2, 2) for k in (1, 2, 4)]
      [1.73, 3.0, 4.69]
    """
    _check.built(Mechanism, "mechanisms.tree(horizon)", mechanism=mechanism)
    rounds = _check.size(1, rounds=rounds)
    _, encoder = mechanism.matrices()
    width = encoder.shape[1]
    count = min(rounds, width)
    if not count:
        return UserSensitivity(0.0, 0.0, True)
    norms = np.abs(encoder).sum(axis=0)
    aligned = bool((encoder >= 0.0).all())
    if spacing is not None:
        spacing = _check.size(1, spacing=spacing)
        taken = [np.arange(first, width, spacing)[:rounds] for first in range(width)]
        magnitudes = np.abs(encoder.T @ encoder)
        squared = max(magnitudes[np.ix_(columns, columns)].sum() for columns in taken)
        l1 = max(norms[columns].sum() for columns in taken)
        return UserSensitivity(float(l1), float(np.sqrt(squared)), aligned)
    l1 = float(np.sort(norms)[-count:].sum())
    if aligned and _is_decreasing_toeplitz(encoder):
        return UserSensitivity(l1, float(np.linalg.norm(encoder[:, :count].sum(axis=1))), True)
    squared = _of_nested(encoder, count) if aligned else None
    if squared is None:
        magnitudes = np.abs(encoder.T @ encoder)
        largest = np.sort(magnitudes, axis=1)[:, -count:].sum(axis=1)
        return UserSensitivity(l1, float(np.sqrt(np.sort(largest)[-count:].sum())), count == 1)
    return UserSensitivity(l1, float(np.sqrt(squared)), True)


def _is_decreasing_toeplitz(encoder) -> bool:
    column = encoder[:, 0]
    lower = scipy.linalg.toeplitz(column, np.zeros(len(column)))  # square
    return np.array_equal(encoder, lower) and bool((np.diff(column) <= 0.0).all())


def _of_nested(encoder, count):
    """The largest squared norm of a sum of ``count`` columns; None if rows are not nested.

    A node that contains n of the columns adds (weight n)^2. Nodes are processed from small to
    large, and each node joins sets of columns. ``best[root]`` has the largest sums for 0, 1, ...
    columns of a set.
    """
    width = encoder.shape[1]
    root, size = np.arange(width), np.ones(width, int)
    best = {at: np.zeros(2) for at in range(width)}
    order = np.argsort(np.count_nonzero(encoder, axis=1), kind="stable")
    for row in encoder[order]:
        (held,) = np.nonzero(row)
        if not len(held):
            continue
        roots = np.unique(root[held])
        weight = row[held[0]]
        if size[roots].sum() != len(held) or np.any(row[held] != weight):
            return None
        joined = _join([best.pop(at) for at in roots.tolist()], count)
        best[roots[0]] = joined + (weight * np.arange(len(joined))) ** 2
        root[held], size[roots[0]] = roots[0], len(held)
    return _join(list(best.values()), count)[-1]


def _join(parts, count):
    """The largest sums for 0 .. ``count`` columns of a union of disjoint sets."""
    while len(parts) > 1:
        first, second, *rest = parts
        pairs = first[:, None] + second[None, :]
        sizes = np.add.outer(np.arange(len(first)), np.arange(len(second)))
        joined = np.zeros(min(sizes[-1, -1], count) + 1)
        np.maximum.at(joined, sizes[sizes <= count], pairs[sizes <= count])
        parts = [*rest, joined]
    return parts[0][: count + 1]
