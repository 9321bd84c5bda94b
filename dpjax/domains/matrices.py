"""Sets of matrices. A point is the vector of a matrix's entries, row by row."""

import jax.numpy as jnp
import numpy as np
from optax import projections

from dpjax import _check
from dpjax.domains.base import TOLERANCE, Domain
from dpjax.domains.from_minimizer import about_zero, from_minimizer
from dpjax.domains.vectors import by_optax, check_radius, unit_vector


def spectrahedron(size: int, trace: float = 1.0) -> Domain:
    """Symmetric positive semidefinite matrices (n, n) of a given trace, as vectors (n^2,).

    The linear minimizer computes a full eigendecomposition, so n should be small.
    """
    n, trace = _check.size(2, size=size), check_radius(trace)

    def symmetric(x):
        matrix = x.reshape(n, n)
        return (matrix + matrix.T) / 2

    def minimizer(g):
        _, vectors = jnp.linalg.eigh(symmetric(g))
        least = vectors[:, 0]
        return (trace * least[:, None] * least[None]).reshape(n * n)

    def contains(x, tolerance=TOLERANCE):
        matrix = symmetric(x)
        even = jnp.max(jnp.abs(x.reshape(n, n) - matrix)) <= tolerance
        values = jnp.linalg.eigvalsh(matrix)
        return even & (values[0] >= -tolerance) & (jnp.abs(jnp.trace(matrix) - trace) <= tolerance)

    def project(x):
        """Projects the eigenvalues of the symmetric part on the simplex."""
        values, vectors = jnp.linalg.eigh(symmetric(x))
        values = by_optax(projections.projection_simplex, values, trace)
        return ((vectors * values[None]) @ vectors.T).reshape(n * n)

    basis = []
    for i in range(n):
        for j in range(i):
            unit = np.zeros((n, n))
            unit[i, j] = unit[j, i] = 2**-0.5
            basis.append(unit.ravel())
    for i in range(1, n):
        unit = np.diag(np.concatenate([np.ones(i), [-i], np.zeros(n - 1 - i)]))
        basis.append((unit / np.linalg.norm(unit)).ravel())
    return from_minimizer(
        n * n,
        minimizer,
        centre=(trace / n * np.eye(n)).ravel(),
        radius=trace * (1 - 1 / n) ** 0.5,
        diameter=trace * 2**0.5,
        project=project,
        contains=contains,
        # This is the distance to the nearest singular matrix of this trace.
        inradius=trace * (n * (n - 1)) ** -0.5,
        tangent=np.array(basis).T,
    )


def nuclear_ball(rows: int, columns: int, radius: float = 1.0) -> Domain:
    """Matrices (p, q) whose singular values sum to at most radius, as vectors (p q,).

    The linear minimizer computes an eigendecomposition of the smaller Gram matrix, so the smaller
    of p and q should be small.
    """
    p, q = _check.size(1, rows=rows), _check.size(1, columns=columns)
    radius = check_radius(radius)

    def minimizer(g):
        matrix = g.reshape(p, q)
        # The matrix is scaled first, so that squares neither overflow nor vanish.
        matrix = matrix / jnp.maximum(jnp.max(jnp.abs(matrix)), 1e-30)
        if q <= p:
            right = jnp.linalg.eigh(matrix.T @ matrix)[1][:, -1]
            left = unit_vector(matrix @ right)
        else:
            left = jnp.linalg.eigh(matrix @ matrix.T)[1][:, -1]
            right = unit_vector(matrix.T @ left)
        return (-radius * left[:, None] * right[None]).reshape(p * q)

    def project(x):
        """Projects the singular values on the L1 ball."""
        left, values, right = jnp.linalg.svd(x.reshape(p, q), full_matrices=False)
        nearest = (left * by_optax(projections.projection_l1_ball, values, radius)[None]) @ right
        return jnp.where(jnp.sum(values) > radius, nearest.reshape(p * q), x)

    def contains(x, tolerance=TOLERANCE):
        values = jnp.linalg.svd(x.reshape(p, q), compute_uv=False)
        return jnp.sum(values) <= radius + tolerance

    return about_zero(
        p * q,
        minimizer,
        radius,
        project=project,
        contains=contains,
        inradius=radius / min(p, q) ** 0.5,
    )
