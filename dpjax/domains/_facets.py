"""What sets with facets share, computed in NumPy."""

import numpy as np

# Sets of up to this many elements have all their subsets written out.
FEW = 12


def null_space(rows) -> np.ndarray:
    """An orthonormal basis (d, m) of the x with A x = 0, for A (k, d)."""
    rows = np.asarray(rows, np.float64)
    _, lengths, axes = np.linalg.svd(rows)
    rank = int(np.sum(lengths > 1e-9 * lengths[0]))
    return axes[rank:].T


def all_subsets(n) -> np.ndarray:
    """(2^n, n) bool: every subset of n elements as a row."""
    return (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(bool)


def distance_to_facets(rows, bounds, centre, tangent) -> float:
    """The inradius around centre (d,) of the set of x with A x <= b.

    Distances are within the affine hull, whose directions are ``tangent``. Rows of A (k, d) that
    are constant on the hull do not count.
    """
    along = rows if tangent is None else rows @ tangent
    lengths = np.linalg.norm(along, axis=1)
    moves = lengths > 1e-9
    return float(np.min((bounds - rows @ centre)[moves] / lengths[moves]))
