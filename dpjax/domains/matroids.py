"""Convex hulls of the bases, or of the independent sets, of a matroid."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dpjax import _check
from dpjax.core import Numbers
from dpjax.domains import exact_projections
from dpjax.domains.base import TOLERANCE, Domain
from dpjax.domains.from_minimizer import (
    FEW,
    all_subsets,
    distance_to_facets,
    from_minimizer,
    null_space,
)
from dpjax.domains.ranks import ranks


def capped_simplex(dim: int, k: int) -> Domain:
    """Points of [0, 1]^d that sum to k < d: the convex hull of the choices of k out of d.

    These choices are the bases of the uniform matroid. k = 1 gives the simplex.
    """
    return uniform_matroid(dim, k, bases=True)


def uniform_matroid(dim: int, k: int, *, bases: bool = False) -> Domain:
    """Points of [0, 1]^d that sum to at most k, or to exactly k with ``bases``."""
    dim, k = _check.size(2, dim=dim), _check.size(1, k=k)
    if k >= dim + (not bases):
        raise ValueError(f"k must be {'below' if bases else 'at most'} dim, {dim}, got {k}")
    return partition_matroid(np.zeros(dim, int), [k], bases=bases)


def partition_matroid(blocks: Numbers, capacities: Numbers, *, bases: bool = False) -> Domain:
    """Points of [0, 1]^d whose sum over each block is at most its capacity.

    Args:
      blocks: (d,), the block of each entry, counted from 0.
      capacities: for each block its capacity, at least 1 and at most its size.
      bases: whether the sums must equal the capacities.

    Raises:
      ValueError, TypeError: bad arguments, by name.
    """
    blocks, capacities = np.asarray(blocks), np.asarray(capacities)
    if blocks.ndim != 1 or blocks.dtype.kind not in "iu":
        raise TypeError("blocks must be integers (d,), the block of each entry")
    if capacities.ndim != 1 or capacities.dtype.kind not in "iu":
        raise TypeError("capacities must be integers, one a block")
    least = blocks.min()
    sizes = np.bincount(np.maximum(blocks, 0), minlength=len(capacities))
    if least < 0 or len(sizes) != len(capacities):
        raise ValueError(f"blocks must lie in 0 .. {len(capacities) - 1}, one for each capacity")
    if not ((capacities >= 1) & (capacities <= sizes)).all():
        raise ValueError("capacities must be at least 1 and at most the size of their block")
    if bases and (capacities == sizes).all():
        raise ValueError("capacities: with all blocks full there is one point only")
    dim = len(blocks)
    members = (blocks == np.arange(len(capacities))[:, None]).astype(np.float64)  # (blocks, d)
    limits = capacities[blocks]
    minimizer_limits = jnp.asarray(limits, jnp.int32)

    def minimizer(g):
        chosen = ranks(g, blocks) < minimizer_limits
        if not bases:
            chosen = chosen & (g < 0)
        return chosen.astype(jnp.float32)

    rows, caps = jnp.asarray(members, jnp.float32), jnp.asarray(capacities, jnp.float32)

    def sums(x):
        return jnp.sum(rows * x[None], axis=1)

    def project(y):
        """clip(y - tau, 0, 1), with a tau for each block that bisection finds."""

        def shifted(tau):
            return jnp.clip(y - jnp.sum(rows * tau[:, None], axis=0), 0.0, 1.0)

        def halve(_, ends):
            low, high = ends
            middle = (low + high) / 2
            above = sums(shifted(middle)) > caps
            return jnp.where(above, middle, low), jnp.where(above, high, middle)

        most = jnp.full(len(capacities), jnp.max(y))
        least = jnp.full(len(capacities), jnp.min(y) - 1.0 if bases else 0.0)
        low, high = lax.fori_loop(0, 40, halve, (least, jnp.maximum(most, least)))
        return shifted(jnp.where(sums(shifted(least)) <= caps, least, (low + high) / 2))

    def contains(x, tolerance=TOLERANCE):
        over = sums(x) - caps
        off = jnp.abs(over) if bases else over
        return (jnp.max(off) <= tolerance) & (jnp.max(jnp.maximum(-x, x - 1.0)) <= tolerance)

    # For a block of n entries with capacity k, the inradius is the smallest distance of the centre
    # from x_i = 0, from x_i = 1 and from the bound on the sum.
    n, k = sizes[blocks], limits
    if bases:
        centre, free = k / n, k < n
        margins = np.minimum(centre, 1 - centre)[free]
        inradius = np.min(margins / np.sqrt(1 - 1 / n[free]))
        fixed = np.eye(dim)[~free]
        tangent = null_space(np.concatenate([members, fixed]))
        diameter = np.sqrt(2 * np.minimum(capacities, sizes - capacities).sum())
        radius = np.sqrt((capacities * (1 - capacities / sizes)).sum())
    else:
        centre = np.minimum(0.5, k / (n + np.sqrt(n)))
        inradius = np.min(np.minimum(centre, (k - n * centre) / np.sqrt(n)))
        tangent = None
        diameter = np.sqrt(np.minimum(sizes, 2 * capacities).sum())
        # The farthest vertex has in each block as many ones as its capacity, or none.
        c = np.array([centre[blocks == b][0] for b in range(len(capacities))])
        full = capacities * (1 - c) ** 2 + (sizes - capacities) * c**2
        radius = np.sqrt(np.maximum(full, sizes * c**2).sum())
    return from_minimizer(
        dim,
        minimizer,
        centre=centre,
        radius=radius,
        diameter=diameter,
        project=project,
        exact_projection=exact_projections.capped(
            1.0, members.astype(np.float32), capacities.astype(np.float32), equal=bases
        ),
        contains=contains,
        inradius=inradius,
        tangent=tangent,
    )


def forests(edges: Numbers, nodes: int, *, spanning: bool = True) -> Domain:
    """Convex hull of the spanning trees of a connected graph, or of all its forests.

    The matroid is the graphic one, and the linear minimizer is Kruskal's algorithm. The diameter is
    an upper bound. Up to 12 nodes, membership and inradius are exact; they are computed from all
    groups of nodes.

    Args:
      edges: (d, 2) pairs of different nodes, counted from 0.
      nodes: the number of nodes.
      spanning: whether points are spanning trees; else any set of edges without a cycle will do.

    Raises:
      ValueError, TypeError: bad arguments, by name; the graph is not connected, or is a tree.
    """
    nodes = _check.size(2, nodes=nodes)
    edges = np.asarray(edges)
    if edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype.kind not in "iu":
        raise TypeError("edges must be pairs of integers, (d, 2)")
    if edges.min() < 0 or edges.max() >= nodes or (edges[:, 0] == edges[:, 1]).any():
        raise ValueError(f"edges must join two different nodes of 0 .. {nodes - 1}")
    dim = len(edges)
    pairs = jnp.asarray(edges, jnp.int32)

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

    # Without jit each call would compile the loop anew.
    minimize = jax.jit(jax.vmap(minimizer))
    laplacian = np.zeros((nodes, nodes))
    for a, b in edges:
        laplacian[[a, b], [a, b]] += 1
        laplacian[[a, b], [b, a]] -= 1
    if np.sum(np.linalg.eigvalsh(laplacian) > 1e-9) != nodes - 1:
        raise ValueError("edges: the graph is not connected")
    if spanning and dim == nodes - 1:
        raise ValueError("edges: the graph is a tree, its one spanning tree")
    if not spanning:
        # The midpoint between the empty set and the mean of the single edges.
        centre, tangent, longest = np.full(dim, 0.5 / dim), None, 2 * (nodes - 1)
    else:
        # The probability that a uniform spanning tree has the edge is its resistance (Kirchhoff).
        inverse = np.linalg.pinv(laplacian)
        ends = np.eye(nodes)[edges[:, 0]] - np.eye(nodes)[edges[:, 1]]
        centre = np.einsum("ei,ij,ej->e", ends, inverse, ends)
        # The differences of a few hundred random trees span the directions of the affine hull.
        random = np.random.default_rng(0).normal(size=(20 * dim, dim)).astype(np.float32)
        differences = np.asarray(minimize(random), np.float64) - centre
        _, lengths, axes = np.linalg.svd(differences, full_matrices=False)
        tangent = axes[lengths > 1e-6 * lengths[0]].T
        longest = 2 * min(nodes - 1, dim - nodes + 1)
    inradius = contains = None
    if nodes <= FEW:
        groups = all_subsets(nodes)
        within = groups[:, edges[:, 0]] & groups[:, edges[:, 1]]
        # A forest has fewer edges within a group of nodes than the group has nodes (Edmonds 1971).
        rows = np.concatenate([within[1:] * 1.0, -np.eye(dim)])
        bounds = np.concatenate([groups[1:].sum(axis=1) - 1.0, np.zeros(dim)])
        inradius = distance_to_facets(rows, bounds, centre, tangent)
        normals, limits = jnp.asarray(rows, jnp.float32), jnp.asarray(bounds, jnp.float32)

        def contains(x, tolerance=TOLERANCE):
            inside = jnp.max(normals @ x - limits) <= tolerance
            return inside & (not spanning or jnp.abs(jnp.sum(x) - (nodes - 1)) <= tolerance)

    return from_minimizer(
        dim,
        minimizer,
        centre=centre,
        diameter=np.sqrt(min(longest, dim)),
        contains=contains,
        inradius=inradius,
        tangent=tangent,
    )
