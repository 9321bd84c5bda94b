"""Positive definite matrices in packed form, for many trials in parallel.

``jax.numpy.linalg`` calls a library once for each matrix, so a game would not be one kernel. Here a
matrix is *packed*: a vector of its lower triangle row by row, with entry (i, j), j <= i, at
i (i + 1) / 2 + j. For at most eight rows the code is unrolled. Larger matrices are factored in
loops over rows, so that the compilation time does not depend on the number of rows. Under vmap
every operation applies to all trials at once.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from dpjax.core import Array, Number

_UNROLLED = 8


class Ellipsoid(NamedTuple):
    """The factors of a symmetric V = L D L', for the squared norm x' V^-1 x."""

    whitener: Array  # (packed) W, lower triangular: W' W = V^-1, so that |W x|^2 = x' V^-1 x
    pivots: Array  # (d,) |D_i|, whose product is |det V|
    definite: Array  # () bool, whether V is positive definite


def packed_size(dim: int) -> int:
    """The number of entries of a packed matrix with ``dim`` rows."""
    return dim * (dim + 1) // 2


def indices(dim: int):
    """The rows i and columns j of the packed entries, as NumPy arrays."""
    return np.tril_indices(dim)


def unpack(packed: Array, dim: int):
    """The symmetric matrix (d, d) from a packed one."""
    rows, columns = np.indices((dim, dim))
    low, high = np.minimum(rows, columns), np.maximum(rows, columns)
    return packed[high * (high + 1) // 2 + low]


def outer(vector: Array):
    """v v', packed."""
    dim = vector.shape[0]
    if dim > _UNROLLED + 1:
        rows, columns = indices(dim)
        return vector[rows] * vector[columns]
    return jnp.stack([vector[i] * vector[j] for i in range(dim) for j in range(i + 1)])


def squared_length(vector: Array):
    """|v|^2, ()."""
    if vector.shape[0] > _UNROLLED:
        return jnp.sum(vector * vector)
    return sum(vector[i] * vector[i] for i in range(vector.shape[0]))


def add_to_diagonal(packed: Array, dim: int, value: Number):
    """V + value I."""
    rows, columns = indices(dim)
    return packed + jnp.where(rows == columns, value, 0.0)


def ellipsoid(packed: Array, dim: int) -> Ellipsoid:
    """The Ellipsoid of a packed V = L D L', by elimination without pivoting.

    V is positive definite if and only if all D_i are positive. A D_i that is not positive is
    replaced by |D_i|. The function works in any dtype.
    """
    tiny = jnp.finfo(packed.dtype).tiny
    eliminate = _by_scalars if dim <= _UNROLLED else _by_rows
    pivots, inverse, rows = eliminate(packed, dim, tiny)
    sizes = jnp.maximum(jnp.abs(pivots), tiny)
    return Ellipsoid(inverse / jnp.sqrt(sizes)[rows], sizes, jnp.all(pivots > 0.0))


def _by_scalars(packed, dim, tiny):
    v = {(i, j): packed[i * (i + 1) // 2 + j] for i, j in zip(*indices(dim), strict=True)}
    below, inverse = {}, {}
    for j in range(dim):
        pivot = jnp.where(jnp.abs(v[j, j]) > tiny, v[j, j], tiny)
        for i in range(j + 1, dim):
            below[i, j] = v[i, j] / pivot
        for i in range(j + 1, dim):
            for k in range(j + 1, i + 1):
                v[i, k] = v[i, k] - below[i, j] * v[k, j]
    one = jnp.ones((), packed.dtype)
    for i in range(dim):
        inverse[i, i] = one
        for j in range(i):
            inverse[i, j] = -sum(below[i, k] * inverse[k, j] for k in range(j, i))
    rows, _ = indices(dim)
    pivots = jnp.stack([v[j, j] for j in range(dim)])
    return pivots, jnp.stack([inverse[i, j] for i, j in zip(*indices(dim), strict=True)]), rows


def _by_rows(packed, dim, tiny):
    matrix = unpack(packed, dim)

    def factor_row(i, factors):
        def eliminate(k, row):
            pivot_row = factors[k]
            pivot = jnp.where(jnp.abs(pivot_row[k]) > tiny, pivot_row[k], tiny)
            multiple = row[k] / pivot
            return lax.dynamic_update_index_in_dim(row - multiple * pivot_row, -multiple, k, 0)

        row = lax.fori_loop(0, i, eliminate, matrix[i])
        return lax.dynamic_update_index_in_dim(factors, row, i, 0)

    # L^-1 below the diagonal, and D L' on and above it.
    factors = lax.fori_loop(0, dim, factor_row, jnp.zeros_like(matrix))
    rows, columns = indices(dim)
    inverse = jnp.where(rows == columns, 1.0, factors[rows, columns])
    return jnp.diag(factors), inverse, rows


def whiten(whitener, points):
    """|W x|^2 for each of the points (K, d), (K,)."""
    dim = points.shape[1]
    if dim > _UNROLLED:
        columns = points.T

        def add_row(i, total):
            return total + jnp.square(_row_times(whitener, i, columns))

        return lax.fori_loop(0, dim, add_row, jnp.zeros_like(columns[0]))
    columns = [points[:, j] for j in range(dim)]
    total = 0.0
    for i in range(dim):
        start = i * (i + 1) // 2
        total = total + jnp.square(sum(whitener[start + j] * columns[j] for j in range(i + 1)))
    return total


def _row_times(whitener, i, columns):
    """Row i of W X, for the rows X (d, ...) of ``columns``."""

    def add(j, sum):
        return sum + whitener[i * (i + 1) // 2 + j] * columns[j]

    return lax.fori_loop(0, i + 1, add, jnp.zeros_like(columns[0]))


def inner(vector: Array, points: Array):
    """<v, x> for each of the points (K, d), (K,)."""
    if points.shape[1] > _UNROLLED:
        return points @ vector
    return sum(vector[j] * points[:, j] for j in range(points.shape[1]))


def solve(whitener: Array, vector: Array):
    """V^-1 v = W' (W v)."""
    dim = vector.shape[0]
    if dim > _UNROLLED:

        def add_row(i, solution):
            white = _row_times(whitener, i, vector)

            def add_entry(j, sums):
                sum = sums[j] + whitener[i * (i + 1) // 2 + j] * white
                return lax.dynamic_update_index_in_dim(sums, sum, j, 0)

            return lax.fori_loop(0, i + 1, add_entry, solution)

        return lax.fori_loop(0, dim, add_row, jnp.zeros_like(vector))
    w = {(i, j): whitener[i * (i + 1) // 2 + j] for i, j in zip(*indices(dim), strict=True)}
    white = [sum(w[i, j] * vector[j] for j in range(i + 1)) for i in range(dim)]
    return jnp.stack([sum(w[i, j] * white[i] for i in range(j, dim)) for j in range(dim)])


def log_determinant(shape: Ellipsoid, scale: Number):
    """ln(|det V| / scale^d) of an Ellipsoid."""
    dim = shape.pivots.shape[0]
    if dim > _UNROLLED:
        return jnp.sum(jnp.log(shape.pivots / scale))
    return sum(jnp.log(shape.pivots[i] / scale) for i in range(dim))
