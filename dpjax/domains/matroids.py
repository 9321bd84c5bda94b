"""Convex hulls of the bases of a matroid."""

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
    dim, k = _check.size(2, dim=dim), _check.size(1, k=k)
    if k >= dim:
        raise ValueError(f"k must be below dim, {dim}, got {k}")
    return partition_matroid(np.zeros(dim, int), [k])


def partition_matroid(blocks: Numbers, capacities: Numbers) -> Domain:
    """Points of [0, 1]^d whose sum over each block is its capacity: bases of a partition matroid.

    Args:
      blocks: (d,), the block of each entry, counted from 0.
      capacities: for each block its capacity, at least 1 and at most its size; for one block or
        more, below its size.

    Raises:
      ValueError, TypeError: bad arguments, by name.

    Examples:
      >>> domain = domains.partition_matroid([0, 0, 1, 1], [1, 2])
      >>> print(jax.jit(domain.minimizer)(jnp.array([-2.0, -1.0, 4.0, -3.0])))
      [1. 0. 1. 1.]
    """
    blocks, capacities, sizes = _checked_blocks(blocks, capacities)
    members = (blocks == np.arange(len(capacities))[:, None]).astype(np.float64)  # (blocks, d)
    limits = constant(capacities[blocks], jnp.int32)
    rows, caps = constant(members), constant(capacities)

    def sums(x):
        return jnp.sum(rows * x[None], axis=1)

    def project(y):
        """clip(y - tau, 0, 1), with a tau for each block, found by bisection."""

        def shifted(tau):
            return jnp.clip(y - jnp.sum(rows * tau[:, None], axis=0), 0.0, 1.0)

        most = jnp.full(len(capacities), jnp.max(y))
        least = jnp.full(len(capacities), jnp.min(y) - 1.0)
        tau = bisect(lambda tau: sums(shifted(tau)) > caps, least, most)
        return shifted(jnp.where(sums(shifted(least)) <= caps, least, tau))

    exact = exact_projections.capped(
        1.0, members.astype(np.float32), capacities.astype(np.float32), equal=True
    )
    n, k = sizes[blocks], capacities[blocks]
    centre, free = k / n, k < n
    # The smallest distance of the centre from x_i = 0 and x_i = 1.
    margins = np.minimum(centre, 1 - centre)[free]
    return from_minimizer(
        len(blocks),
        lambda g: (ranks(g, blocks) < limits).astype(jnp.float32),
        project=project,
        centre=centre,
        radius=np.sqrt((capacities * (1 - capacities / sizes)).sum()),
        diameter=np.sqrt(2 * np.minimum(capacities, sizes - capacities).sum()),
        inradius=np.min(margins / np.sqrt(1 - 1 / n[free])),
        # In a full block each entry is 1.
        tangent=null_space(np.concatenate([members, np.eye(len(blocks))[~free]])),
    )._replace(exact_projection=exact, lottery=lotteries.of_sets(blocks, capacities))


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
    if (capacities == sizes).all():
        raise ValueError("capacities: at least one must be below its block's size")
    return blocks, capacities, sizes


def spanning_trees(edges: Numbers, nodes: int) -> Domain:
    """Convex hull of the spanning trees of a connected graph.

    The vertices are bases of the graphic matroid, and the linear minimizer is
    Kruskal's algorithm. The diameter is an upper bound. For at most 12 nodes, membership and the
    inradius are computed exactly, from all groups of nodes.

    Args:
      edges: (d, 2) pairs of different nodes, counted from 0.
      nodes: the number of nodes.

    Raises:
      ValueError, TypeError: bad arguments, by name; the graph is not connected, or it is a tree.

    Examples:
      >>> triangle = domains.spanning_trees([(0, 1), (1, 2), (0, 2)], nodes=3)
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
    if dim == nodes - 1:
        raise ValueError("edges: the graph must have a cycle, but it is a tree")
    pairs = constant(edges, jnp.int32)

    def minimizer(g):
        def consider(labels, edge):
            a, b = labels[pairs[edge, 0]], labels[pairs[edge, 1]]
            joins = a != b
            return jnp.where(joins & (labels == b), a, labels), joins

        order = jnp.argsort(g)
        _, taken = lax.scan(consider, jnp.arange(nodes), order)
        return jnp.zeros(dim).at[order].set(taken.astype(jnp.float32))

    # The probability that a uniform spanning tree has the edge is its resistance (Kirchhoff).
    centre = np.einsum("ei,ij,ej->e", incidence, np.linalg.pinv(laplacian), incidence)
    with jax.core.eval_context():  # The game may be traced, but its sets are not.
        tangent = _directions(minimizer, centre)
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
        diameter=np.sqrt(min(2 * min(nodes - 1, dim - nodes + 1), dim)),
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
