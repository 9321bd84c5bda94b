"""Functions shared by domains with facets."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from dpjax.core import Numbers
from dpjax.domains._vectors import constant
from dpjax.domains.base import TOLERANCE

# All subsets of a set are enumerated if it has at most this many elements.
FEW = 12


def null_space(rows: Numbers) -> np.ndarray:
    """An orthonormal basis (d, m) of the x with A x = 0, for A (k, d)."""
    rows = np.asarray(rows, np.float64)
    _, lengths, axes = np.linalg.svd(rows)
    rank = int(np.sum(lengths > 1e-9 * lengths[0]))
    return axes[rank:].T


def all_subsets(n: int) -> np.ndarray:
    """(2^n, n) bool: every subset of n elements as a row."""
    return (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(bool)


def within_facets(
    rows: np.ndarray, bounds: np.ndarray, centre: np.ndarray, tangent: np.ndarray | None
) -> Callable:
    """A function (x, tolerance) -> whether A x <= b and x is in the affine hull of the set.

    The hull contains ``centre`` (d,). ``tangent`` (d, m) is a basis of its directions; None if the
    hull is R^d.
    """
    normals, limits, middle = constant(rows), constant(bounds), constant(centre)
    across = None if tangent is None else constant(null_space(tangent.T).T)

    def contains(x, tolerance=TOLERANCE):
        inside = jnp.max(jnp.sum(normals * x[None], axis=1) - limits) <= tolerance
        if across is None:
            return inside
        off = jnp.sum(across * (x - middle)[None], axis=1)
        return inside & jnp.all(jnp.abs(off) <= tolerance)

    return contains


def distance_to_facets(
    rows: np.ndarray, bounds: np.ndarray, centre: np.ndarray, tangent: np.ndarray | None
) -> float:
    """The inradius around centre (d,) of the set of x with A x <= b.

    Distances are within the affine hull, with directions ``tangent``. Rows of A (k, d) that are
    constant on the hull are ignored.
    """
    along = rows if tangent is None else rows @ tangent
    lengths = np.linalg.norm(along, axis=1)
    moves = lengths > 1e-9
    return float(np.min((bounds - rows @ centre)[moves] / lengths[moves]))
