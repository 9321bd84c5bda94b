"""Base polytopes of submodular functions, including the permutahedron."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from dpjax.core import Numbers, _arrays, _check
from dpjax.domains import exact_projections
from dpjax.domains._facets import FEW, all_subsets, distance_to_facets, null_space, within_facets
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


def base_polytope(dim: int, chain: Callable) -> Domain:
    """The points x with x(V) = F(V) and x(S) <= F(S) for all S, for a submodular F.

    The linear minimizer is the greedy algorithm (Edmonds 1970). The centre is the mean of the
    vertices of 2 d orders, and the diameter is an upper bound. For at most 12 elements, membership
    and the inradius are computed exactly, from all sets. Submodularity of F is not checked.

    Args:
      dim: d, the size of V.
      chain: maps an order (d,) of the elements of V to the values (d,) of F at the first element,
        the first two, ..., all elements. F of the empty set is 0. See :func:`concave_of_weights`,
        :func:`coverage`, :func:`directed_cut`.

    Raises:
      ValueError, TypeError: bad arguments, by name.

    Examples:
      >>> chain = domains.coverage([[1, 1, 0, 1], [0, 1, 1, 0], [0, 0, 1, 1]])
      >>> domain = domains.base_polytope(3, chain)
      >>> print(jax.jit(domain.minimizer)(jnp.array([1.0, 3.0, 2.0])))  # greedy: 0 first, then 2
      [3. 0. 1.]
    """
    dim = _check.size(2, dim=dim)
    order = jax.ShapeDtypeStruct((dim,), jnp.int32)
    shape = jax.eval_shape(chain, order).shape
    if shape != (dim,):
        raise ValueError(f"chain must return shape ({dim},), got {shape}")

    def minimizer(g):
        order = jnp.argsort(g).astype(jnp.int32)
        values = chain(order)
        steps = values - jnp.concatenate([jnp.zeros(1), values[:-1]])
        return jnp.zeros(dim).at[order].set(steps)

    with jax.core.eval_context():
        cycles = (np.arange(dim)[:, None] + np.arange(dim)[None]) % dim
        orders = np.concatenate([cycles, cycles[:, ::-1]])
        greedy = jax.jit(jax.vmap(lambda order: minimizer(jnp.argsort(order).astype(jnp.float32))))
        centre = np.asarray(greedy(orders), np.float64).mean(axis=0)
        last = np.stack([np.roll(np.arange(dim), -1 - i) for i in range(dim)])  # row i ends with i
        values = np.asarray(jax.jit(jax.vmap(chain))(jnp.asarray(np.concatenate([last, cycles]))))
    whole = values[:dim, -1]
    rest, single = values[:dim, -2], values[dim:, 0]
    widths = single + rest - whole  # x_i lies between F(V) - F(V - i) and F(i)
    diameter = np.sqrt(np.sum(widths.astype(np.float64) ** 2))
    if not diameter > 0:
        raise ValueError("chain: the base polytope must not be a single point, but it is")
    tangent = null_space(np.ones((1, dim)))
    inradius = contains = None
    if dim <= FEW:
        sets = all_subsets(dim)[1:]
        with jax.core.eval_context():
            first = jnp.asarray(np.argsort(~sets, axis=1, kind="stable"), jnp.int32)
            values = np.asarray(jax.jit(jax.vmap(chain))(first), np.float64)
        bounds = values[np.arange(len(sets)), sets.sum(axis=1) - 1]
        # If F(S) + F(V - S) = F(V), x(S) is the same for all points x.
        tight = np.abs(bounds[:-1] + bounds[-2::-1] - bounds[-1]) < 1e-4 * diameter
        tangent = null_space(np.concatenate([np.ones((1, dim)), sets[:-1][tight]]))
        inradius = distance_to_facets(sets * 1.0, bounds, centre, tangent)
        contains = within_facets(sets, bounds, centre, tangent)

    return from_minimizer(
        dim,
        minimizer,
        centre=centre,
        diameter=diameter,
        contains=contains,
        inradius=inradius,
        tangent=tangent,
    )


def concave_of_weights(weights: Numbers, function: Callable = jnp.sqrt) -> Callable:
    """The chain of F(S) = f(sum of the weights of S), for a concave ``function`` f with f(0) = 0.

    The weights (d,) are nonnegative. Equal weights give a permutahedron.

    Examples:
      >>> chain = domains.concave_of_weights([1.0, 3.0, 5.0], lambda x: jnp.minimum(x, 6.0))
      >>> print(chain(jnp.array([1, 0, 2])))  # F of {1}, of {1, 0}, and of all
      [3. 4. 6.]
    """
    weights = constant(_arrays.real("weights", weights, 0.0))
    return lambda order: function(jnp.cumsum(weights[order]))


def coverage(incidence: Numbers) -> Callable:
    """The chain of F(S) = the number of items that S covers, for an incidence matrix (d, items).

    Examples:
      >>> chain = domains.coverage([[1, 1, 0], [0, 1, 1], [0, 0, 1]])
      >>> print(chain(jnp.array([0, 1, 2])))  # the third covers nothing new
      [2. 3. 3.]
    """
    incidence = constant(_arrays.real("incidence", incidence, 0.0))
    return lambda order: jnp.sum(jax.lax.cummax(incidence[order], axis=0), axis=1)


def directed_cut(weights: Numbers) -> Callable:
    """The chain of F(S) = the weight of the arcs that leave S, for nonnegative weights (d, d).

    Examples:
      >>> chain = domains.directed_cut([[0, 2, 1], [0, 0, 3], [0, 0, 0]])
      >>> print(chain(jnp.array([0, 1, 2])))  # nothing leaves all of them
      [3. 4. 0.]
    """
    weights = constant(_arrays.real("weights", weights, 0.0))

    def chain(order):
        arcs = weights[order][:, order]
        i = jnp.arange(arcs.shape[0])
        leaves = (i[None, :, None] <= i[:, None, None]) & (i[None, None, :] > i[:, None, None])
        return jnp.sum(jnp.where(leaves, arcs[None], 0.0), axis=(1, 2))

    return chain
