"""Convex hulls of the bases, or of the independent sets, of a matroid."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dpjax.core import Numbers, _arrays, _check
from dpjax.domains import exact_projections, lotteries
from dpjax.domains._facets import FEW, all_subsets, distance_to_facets, null_space, within_facets
from dpjax.domains._from_minimizer import from_minimizer
from dpjax.domains._vectors import as_edges, bisect, constant, ranks
from dpjax.domains.base import Domain


def capped_simplex(dim: int, k: int) -> Domain:
    """Points of [0, 1]^d that sum to k < d: the convex hull of the subsets of size k.

    These subsets are the bases of the uniform matroid. k = 1 gives the simplex.

    Examples:
      >>> pairs = domains.capped_simplex(4, 2)
      >>> print(jax.jit(pairs.minimizer)(jnp.array([3.0, 1.0, 2.0, 4.0])), pairs.centre)
      [0. 1. 1. 0.] [0.5 0.5 0.5 0.5]
    """
    return uniform_matroid(dim, k, bases=True)


def uniform_matroid(dim: int, k: int, *, bases: bool = False) -> Domain:
    """Points of [0, 1]^d that sum to at most k, or to exactly k with ``bases``.

    Examples:
      >>> loss = jnp.array([-2.0, 1.0, 3.0])
      >>> print(domains.uniform_matroid(3, 2).minimizer(loss))
      [1. 0. 0.]
      >>> print(domains.uniform_matroid(3, 2, bases=True).minimizer(loss))
      [1. 1. 0.]
    """
    dim, k = _check.size(2, dim=dim), _check.size(1, k=k)
    if k >= dim + (not bases):
        raise ValueError(f"k must be {'below' if bases else 'at most'} dim, {dim}, got {k}")
    return partition_matroid(np.zeros(dim, int), [k], bases=bases)


def partition_matroid(blocks: Numbers, capacities: Numbers, *, bases: bool = False) -> Domain:
    """Points of [0, 1]^d whose sum over each block is at most its capacity.

    Args:
      blocks: (d,), the block of each entry, counted from 0.
      capacities: for each block its capacity, at least 1 and at most its size.
      bases: True if the sums must equal the capacities.

    Raises:
      ValueError, TypeError: bad arguments, by name.

    Examples:
      >>> domain = domains.partition_matroid([0, 0, 1, 1], [1, 2])
      >>> print(jax.jit(domain.minimizer)(jnp.array([-2.0, -1.0, 4.0, -3.0])))
      [1. 0. 0. 1.]
    """
    blocks, capacities, sizes = _checked_blocks(blocks, capacities)
    if bases and (capacities == sizes).all():
        raise ValueError("capacities: with bases=True, at least one must be below its block's size")
    members = (blocks == np.arange(len(capacities))[:, None]).astype(np.float64)  # (blocks, d)
    limits = constant(capacities[blocks], jnp.int32)

    def minimizer(g):
        chosen = ranks(g, blocks) < limits
        if not bases:
            chosen = chosen & (g < 0)
        return chosen.astype(jnp.float32)

    rows, caps = constant(members), constant(capacities)

    def sums(x):
        return jnp.sum(rows * x[None], axis=1)

    def project(y):
        """clip(y - tau, 0, 1), with a tau for each block, found by bisection."""

        def shifted(tau):
            return jnp.clip(y - jnp.sum(rows * tau[:, None], axis=0), 0.0, 1.0)

        most = jnp.full(len(capacities), jnp.max(y))
        least = jnp.full(len(capacities), jnp.min(y) - 1.0 if bases else 0.0)
        tau = bisect(lambda tau: sums(shifted(tau)) > caps, least, jnp.maximum(most, least))
        return shifted(jnp.where(sums(shifted(least)) <= caps, least, tau))

    exact = exact_projections.capped(
        1.0, members.astype(np.float32), capacities.astype(np.float32), equal=bases
    )
    hull = _hull_of_bases if bases else _hull_of_independent_sets
    return from_minimizer(
        len(blocks),
        minimizer,
        project=project,
        **hull(blocks, members, capacities, sizes),
    )._replace(
        exact_projection=exact, lottery=lotteries.of_sets(blocks, capacities) if bases else None
    )


def _checked_blocks(blocks, capacities):
    """Blocks and capacities as NumPy arrays, and the size of each block."""
    blocks = _arrays.integers("blocks", "integers (d,), the block of each entry", blocks, 1)
    capacities = _arrays.integers("capacities", "integers, one for each block", capacities, 1)
    least = blocks.min()
    sizes = np.bincount(np.maximum(blocks, 0), minlength=len(capacities))
    if least < 0 or len(sizes) != len(capacities):
        raise ValueError(f"blocks must lie in 0 .. {len(capacities) - 1}, one for each capacity")
    if not ((capacities >= 1) & (capacities <= sizes)).all():
        raise ValueError("capacities must be at least 1 and at most the size of their block")
    return blocks, capacities, sizes


# For a block of n entries with capacity k, the inradius is the smallest distance of the centre from
# x_i = 0, from x_i = 1 and, for independent sets, from the bound on the sum.
def _hull_of_bases(blocks, members, capacities, sizes) -> dict:
    """Centre, sizes and tangent of the hull of the bases of a partition matroid."""
    n, k = sizes[blocks], capacities[blocks]
    centre, free = k / n, k < n
    margins = np.minimum(centre, 1 - centre)[free]
    return {
        "centre": centre,
        "radius": np.sqrt((capacities * (1 - capacities / sizes)).sum()),
        "diameter": np.sqrt(2 * np.minimum(capacities, sizes - capacities).sum()),
        "inradius": np.min(margins / np.sqrt(1 - 1 / n[free])),
        # In a full block each entry is 1.
        "tangent": null_space(np.concatenate([members, np.eye(len(blocks))[~free]])),
    }


def _hull_of_independent_sets(blocks, members, capacities, sizes) -> dict:
    """Centre and sizes of the hull of the independent sets of a partition matroid."""
    n, k = sizes[blocks], capacities[blocks]
    centre = np.minimum(0.5, k / (n + np.sqrt(n)))
    # In each block of the farthest vertex, the number of ones is the capacity or 0.
    c = np.array([centre[row][0] for row in members > 0])
    full = capacities * (1 - c) ** 2 + (sizes - capacities) * c**2
    return {
        "centre": centre,
        "radius": np.sqrt(np.maximum(full, sizes * c**2).sum()),
        "diameter": np.sqrt(np.minimum(sizes, 2 * capacities).sum()),
        "inradius": np.min(np.minimum(centre, (k - n * centre) / np.sqrt(n))),
    }


def forests(edges: Numbers, nodes: int, *, spanning: bool = True) -> Domain:
    """Convex hull of the spanning trees of a connected graph, or of all its forests.

    The vertices are bases or independent sets of the graphic matroid, and the linear minimizer is
    Kruskal's algorithm. The diameter is an upper bound. For at most 12 nodes, membership and the
    inradius are computed exactly, from all groups of nodes.

    Args:
      edges: (d, 2) pairs of different nodes, counted from 0.
      nodes: the number of nodes.
      spanning: True for the spanning trees, False for all forests.

    Raises:
      ValueError, TypeError: bad arguments, by name; the graph is not connected; it is a tree, and
        ``spanning`` is True.

    Examples:
      >>> triangle = domains.forests([(0, 1), (1, 2), (0, 2)], nodes=3)
      >>> print(jax.jit(triangle.minimizer)(jnp.array([3.0, 1.0, 2.0])), triangle.centre)
      [0. 1. 1.] [0.66666667 0.66666667 0.66666667]
    """
    nodes = _check.size(2, nodes=nodes)
    edges = as_edges(edges)
    if edges.min() < 0 or edges.max() >= nodes or (edges[:, 0] == edges[:, 1]).any():
        raise ValueError(f"edges must join two different nodes of 0 .. {nodes - 1}")
    dim = len(edges)
    incidence = np.eye(nodes)[edges[:, 0]] - np.eye(nodes)[edges[:, 1]]  # (d, nodes)
    laplacian = incidence.T @ incidence
    if np.sum(np.linalg.eigvalsh(laplacian) > 1e-9) != nodes - 1:
        raise ValueError("edges: the graph is not connected")
    if spanning and dim == nodes - 1:
        raise ValueError("edges: the graph must have a cycle, but it is a tree")
    pairs = constant(edges, jnp.int32)

    def minimizer(g):
        def consider(labels, edge):
            a, b = labels[pairs[edge, 0]], labels[pairs[edge, 1]]
            joins = a != b
            if not spanning:
                joins = joins & (g[edge] < 0)
            return jnp.where(joins & (labels == b), a, labels), joins

        order = jnp.argsort(g)
        _, taken = lax.scan(consider, jnp.arange(nodes), order)
        return jnp.zeros(dim).at[order].set(taken.astype(jnp.float32))

    if spanning:
        # The probability that a uniform spanning tree has the edge is its resistance (Kirchhoff).
        centre = np.einsum("ei,ij,ej->e", incidence, np.linalg.pinv(laplacian), incidence)
        with jax.core.eval_context():  # The game may be traced, but its sets are not.
            tangent = _directions(minimizer, centre)
        longest = 2 * min(nodes - 1, dim - nodes + 1)
    else:
        # The centre is the midpoint between the empty set and the mean of the single edges.
        centre, tangent, longest = np.full(dim, 0.5 / dim), None, 2 * (nodes - 1)
    inradius = contains = None
    if nodes <= FEW:
        groups = all_subsets(nodes)
        within = groups[:, edges[:, 0]] & groups[:, edges[:, 1]]
        # A forest has fewer edges within a group of nodes than the group has nodes (Edmonds 1971).
        rows = np.concatenate([within[1:] * 1.0, -np.eye(dim)])
        bounds = np.concatenate([groups[1:].sum(axis=1) - 1.0, np.zeros(dim)])
        inradius = distance_to_facets(rows, bounds, centre, tangent)
        contains = within_facets(rows, bounds, centre, tangent)

    return from_minimizer(
        dim,
        minimizer,
        centre=centre,
        diameter=np.sqrt(min(longest, dim)),
        contains=contains,
        inradius=inradius,
        tangent=tangent,
    )


def _directions(minimizer, centre) -> np.ndarray:
    """An orthonormal basis (d, m) of the directions in which vertices differ from the centre.

    The minimizers of 20 d random vectors span them.
    """
    dim = len(centre)
    random = np.random.default_rng(0).normal(size=(20 * dim, dim)).astype(np.float32)
    # Without jit each call would compile the minimizer again.
    vertices = np.asarray(jax.jit(jax.vmap(minimizer))(random), np.float64)
    _, lengths, axes = np.linalg.svd(vertices - centre, full_matrices=False)
    return axes[lengths > 1e-6 * lengths[0]].T
