"""Sets of matrices. A point is the vector of a matrix's entries, row by row."""

import jax.numpy as jnp
import numpy as np

from dpjax.core import _check
from dpjax.domains._from_minimizer import from_minimizer
from dpjax.domains._vectors import bisect, onto_simplex
from dpjax.domains.base import Domain, LossSet, Regularizer


def _symmetric(x, n):
    """The symmetric part (n, n) of a vector of entries (n^2,)."""
    matrix = x.reshape(n, n)
    return (matrix + matrix.T) / 2


def _matrix(values, vectors):
    """The symmetric matrix with these eigenvalues (n,) and eigenvectors (n, n), as (n^2,)."""
    return ((vectors * values[None]) @ vectors.T).reshape(values.shape[0] ** 2)


def _traceless(n) -> np.ndarray:
    """An orthonormal basis of the symmetric matrices of trace 0, (n^2, n (n + 1) / 2 - 1)."""
    basis = []
    for i in range(n):
        for j in range(i):
            unit = np.zeros((n, n))
            unit[i, j] = unit[j, i] = 2**-0.5
            basis.append(unit.ravel())
    for i in range(1, n):
        unit = np.diag(np.concatenate([np.ones(i), [-i], np.zeros(n - 1 - i)]))
        basis.append((unit / np.linalg.norm(unit)).ravel())
    return np.array(basis).T


def gram_losses(size: int) -> LossSet:
    """The losses -M of online PCA, M (n, n) positive semidefinite of trace at most 1, as (n^2,).

    The extreme losses are -v v' with |v| = 1, and 0. Under the loss -v v' a point X suffers
    -<X, v v'>, which is -|X v|^2 if X is a projection. Two losses -v v' and -w w' are farthest
    apart if v and w are orthogonal. So a replacement changes a loss by at most sqrt 2 in L2, not by
    twice its norm. The L1 norm is at most n, attained if all |v_i| are equal. The L1 distance is at
    most n sqrt 2, attained for n = 2 and n = 4.

    Vectors are clipped to the nearest vector of the set, by an eigendecomposition.

    Examples:
      >>> losses = domains.gram_losses(2)
      >>> losses.dim, round(losses.norms[1], 3), round(losses.diameters[1], 3)  # L2
      (4, 1.0, 1.414)
    """
    n = _check.size(2, size=size)

    def clip(loss):
        values, vectors = jnp.linalg.eigh(_symmetric(loss, n))
        gains = jnp.maximum(-values, 0.0)
        nearest = onto_simplex(-values)
        return _matrix(-jnp.where(jnp.sum(gains) > 1.0, nearest, gains), vectors)

    def maximizer(g):
        values, vectors = jnp.linalg.eigh(_symmetric(g, n))
        least = vectors[:, 0]
        size = jnp.where(values[0] < 0.0, 1.0, 0.0)
        return -(size * least[:, None] * least[None]).reshape(n * n)

    return LossSet(
        dim=n * n,
        clip=clip,
        maximizer=maximizer,
        centre=-np.eye(n).ravel() / (2 * n),
        norms=(float(n), 1.0),
        diameters=(n * 2**0.5, 2**0.5),
        spread=(1 + 2**0.5) / 2,  # for v = (cos(pi / 8), -sin(pi / 8), 0, ..)
        entry=(-1.0, 0.5),
    )


def von_neumann_entropy(size: int) -> Regularizer:
    """tr X ln X on the spectrahedron of trace 1, for matrix exponentiated gradient.

    For a matrix s, the argmin is exp(-rate s) / tr exp(-rate s), and D_R = ln n. For losses whose
    eigenvalues are in an interval of length w, the stability is w^2 / 8 by the Golden-Thompson
    inequality. A matrix of Frobenius norm G has w at most sqrt(2) G, so the stability is G^2 / 4.
    Gram losses have w = 1, and the rate for the stability 1 / 8 is sqrt(8 ln n / T).

    Reference: Tsuda, Ratsch & Warmuth 2005, "Matrix exponentiated gradient updates".

    Examples:
      >>> entropy = domains.von_neumann_entropy(2)
      >>> round(entropy.range, 3), entropy.stability(domains.gram_losses(2))
      (0.693, 0.25)
    """
    n = _check.size(2, size=size)

    def argmin(s, rate=1.0):
        values, vectors = jnp.linalg.eigh(_symmetric(rate * s, n))
        weights = jnp.exp(values[0] - values)
        return _matrix(weights / jnp.sum(weights), vectors)

    return Regularizer(argmin, float(np.log(n)), lambda losses: losses.norms[1] ** 2 / 4)


def fantope(size: int, rank: int) -> Domain:
    """The hull of the projections of rank k in R^n: 0 <= X <= I, tr X = k, as vectors (n^2,).

    This is the domain of online PCA with k components, by default with :func:`gram_losses`. For
    k = 1 it is the spectrahedron. The linear minimizer and the projection compute a full
    eigendecomposition.

    Args:
      size: n, at least 2.
      rank: k, from 1 to n - 1.

    Reference: Warmuth & Kuzmin 2008, "Randomized online PCA algorithms with regret bounds that are
    logarithmic in the dimension".

    Examples:
      >>> fantope = domains.fantope(3, 2)
      >>> fantope.dim, fantope.losses.dim, np.trace(fantope.centre.reshape(3, 3)).round(3).item()
      (9, 9, 2.0)
    """
    n, k = _check.size(2, size=size), _check.size(1, rank=rank)
    if k >= n:
        raise ValueError(f"rank must be below the size {n}, got {k}")

    def minimizer(g):
        _, vectors = jnp.linalg.eigh(_symmetric(g, n))
        least = vectors[:, :k]
        return (least @ least.T).reshape(n * n)

    def nearest(values):
        def shifted(tau):
            return jnp.clip(values - tau, 0.0, 1.0)

        return shifted(bisect(lambda tau: jnp.sum(shifted(tau)) > k, values[0] - 1.0, values[-1]))

    def project(x):
        values, vectors = jnp.linalg.eigh(_symmetric(x, n))
        return _matrix(nearest(values), vectors)

    return from_minimizer(
        n * n,
        minimizer,
        project=project,
        centre=(k / n * np.eye(n)).ravel(),
        tangent=_traceless(n),
        radius=(k * (n - k) / n) ** 0.5,
        diameter=(2 * min(k, n - k)) ** 0.5,
        losses=gram_losses(n),
        # The least distance at which an eigenvalue becomes 0 or 1 along a traceless direction.
        inradius=min(k, n - k) * (n * (n - 1)) ** -0.5,
    )
