"""Factorizations A = (A D C^-1)(C D^-1), where D holds the norms of the columns of a Toeplitz C.

Each column of C D^-1 has norm 1. A plain Toeplitz factorization calibrates its noise to the first
column, which is the longest, and so hides late values more than necessary.
"""

import jax.numpy as jnp
import numpy as np
import scipy


def column_norms(column: np.ndarray) -> np.ndarray:
    """d_t for t = 1 .. N: the L2 norms of a Toeplitz matrix's columns, from its first column."""
    return np.sqrt(np.cumsum(column**2))[::-1]


def geometric_norm(decays: np.ndarray, scales: np.ndarray, later):
    """The norm of the column of :func:`buffered` with ``later`` entries below its 1, () traced."""
    ratios = np.outer(decays, decays).ravel()
    limits = jnp.asarray(np.outer(scales, scales).ravel() / (1.0 - ratios), jnp.float32)
    rates = jnp.asarray(np.log(ratios), jnp.float32)
    # Beyond the horizon nothing is released, and the norm is that of the last column.
    terms = limits * -jnp.expm1(rates * jnp.maximum(later, 0).astype(jnp.float32))
    return jnp.sqrt(1.0 + jnp.sum(terms))


def normalized_sensitivity(column: np.ndarray) -> tuple[float, float]:
    """(L1, L2) sensitivity after each column is divided by its L2 norm."""
    if not len(column):
        return 0.0, 0.0
    return float(np.max(np.cumsum(np.abs(column)) / np.sqrt(np.cumsum(column**2)))), 1.0


def with_weights(norms, rows):
    """A D C^-1 z from the plain noise E = A C^-1 z in ``rows``, both (T, ...).

    The sum over u <= t of d_u (E_u - E_(u - 1)) equals d_t E_t plus the sum over u < t of
    (d_u - d_(u + 1)) E_u. The second form sums only small terms, so it is accurate in float32.
    """
    weights = np.concatenate([[0.0], norms])  # The empty prefix has no noise.
    drops = np.concatenate([[0.0], weights[1:-1] - weights[2:], [0.0]])[: len(weights)]
    weights, drops = (
        jnp.asarray(values, jnp.float32).reshape(-1, *[1] * (rows.ndim - 1))
        for values in (weights, drops)
    )
    summed = jnp.cumsum(drops * rows, axis=0)
    return weights * rows + jnp.concatenate([jnp.zeros_like(rows[:1]), summed[:-1]])


def weighted_row_norms(inverse, norms: np.ndarray, series=None) -> np.ndarray:
    """Squared norms of the rows of A D C^-1, (T,), from the first column of C^-1 and from d.

    Without ``series`` the rows are computed in N^2 operations. With the ratios r and amplitudes a
    of the series f of C^-1, N operations suffice: for e = C^-1 z and u < t,
    Cov(e_t, e_u) = sum_i a_i r_i^(t - u - 1) (sum over k < u of f_k r_i^k).
    """
    count = len(inverse)
    if series is None:
        squares = np.zeros(count)
        for first in range(count):
            squares[first:] += np.cumsum(norms[first:] * inverse[: count - first]) ** 2
        return np.concatenate([[0.0], squares])
    crossed = np.zeros(count)  # Cov(e_t, sum over u < t of d_u e_u)
    for ratio, amplitude in zip(*series, strict=True):
        shared = np.cumsum(inverse * ratio ** np.arange(count))
        crossed += amplitude * scipy.signal.lfilter([0.0, 1.0], [1.0, -ratio], norms * shared)
    steps = norms * (norms * np.cumsum(inverse**2) + 2.0 * crossed)
    return np.concatenate([[0.0], np.cumsum(steps)])
