"""The permutahedron."""

import jax.numpy as jnp
import numpy as np

from dpjax.core import Numbers, _arrays
from dpjax.domains import exact_projections
from dpjax.domains._facets import null_space
from dpjax.domains._from_minimizer import from_minimizer
from dpjax.domains._vectors import constant, ranks
from dpjax.domains.base import Domain


def permutahedron(weights: Numbers) -> Domain:
    """Convex hull of all permutations of ``weights`` (d,), which must not all be equal.

    Examples:
      >>> domain = domains.permutahedron([1.0, 2.0, 3.0])
      >>> print(domain.minimizer(jnp.array([10.0, 30.0, 20.0])), domain.centre)
      [3. 1. 2.] [2. 2. 2.]
    """
    weights = _arrays.real("weights", weights)
    if weights.ndim != 1 or len(weights) < 2:
        raise ValueError(f"weights must have shape (d,) with d at least 2, got {weights.shape}")
    weights = np.sort(weights)[::-1]
    dim = len(weights)
    if np.float32(weights[0]) == np.float32(weights[-1]):
        raise ValueError("weights must not all be equal: the domain would be a single point")
    table = constant(weights)
    tops = np.cumsum(weights)

    def minimizer(g):
        place = ranks(g)
        return jnp.sum(jnp.where(place[:, None] == np.arange(dim)[None], table[None], 0.0), axis=1)

    s = np.arange(1, dim)
    gaps = tops[:-1] - s * weights.mean()
    return from_minimizer(
        dim,
        minimizer,
        centre=np.full(dim, weights.mean()),
        radius=np.linalg.norm(weights - weights.mean()),
        diameter=np.linalg.norm(weights - weights[::-1]),
        project=exact_projections.permutations(weights.astype(np.float32)),
        inradius=np.min(gaps / np.sqrt(s * (dim - s) / dim)),
        tangent=null_space(np.ones((1, dim))),
    )
