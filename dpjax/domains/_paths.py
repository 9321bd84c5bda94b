"""Unit flows in an acyclic directed graph, whose vertices are paths."""

import jax.numpy as jnp
import numpy as np

from dpjax.core import Numbers
from dpjax.domains import lotteries
from dpjax.domains._facets import null_space, within_facets
from dpjax.domains._from_minimizer import from_minimizer
from dpjax.domains._vectors import as_edges
from dpjax.domains.base import Domain


def paths(edges: Numbers, source: int, target: int) -> Domain:
    """Unit flows from source to target: the convex hull of the paths of an acyclic graph.

    Entry e of a point is the flow on edge e. The linear minimizer is a shortest path, found by
    dynamic programming in a topological order of the nodes. The centre is the mean of all paths.

    Args:
      edges: (d, 2) pairs (from, to) of nodes, integers. Parallel edges are allowed.
      source: the first node of all paths.
      target: the last node of all paths.

    Raises:
      ValueError, TypeError: bad arguments, by name; the graph has a cycle, an edge that is on no
        path, or only one path.

    Examples:
      >>> graph = domains.paths([(0, 1), (1, 2), (0, 2)], source=0, target=2)
      >>> print(graph.minimizer(jnp.array([1.0, 1.0, 3.0])), graph.centre)
      [1. 1. 0.] [0.5 0.5 0.5]
    """
    edges = as_edges(edges)
    dim = len(edges)
    order = _topological(edges)
    entering = {v: [e for e in range(dim) if edges[e, 1] == v] for v in order}
    leaving = {v: [e for e in range(dim) if edges[e, 0] == v] for v in order}
    for name, node in (("source", source), ("target", target)):
        if node not in entering:
            raise ValueError(f"{name} must be a node of the graph, got {node!r}")
    arrive = _path_counts(source, order, entering, edges[:, 0])
    depart = _path_counts(target, order[::-1], leaving, edges[:, 1])
    through = np.array([float(arrive[a] * depart[b]) for a, b in edges])
    count = arrive[target]
    if (through == 0).any():
        bad = edges[np.argmin(through)].tolist()
        raise ValueError(f"edges: {bad} lies on no path from source to target")
    if count == 1:
        raise ValueError("edges: the graph must have at least two paths, but it has a single path")
    inner = [v for v in order if v not in (source, target)]
    steps = [v for v in order if v != source]
    # Row v: the flow into node v minus the flow out of it.
    conserve = np.array([(edges[:, 1] == v) * 1.0 - (edges[:, 0] == v) for v in [*inner, target]])
    centre, tangent = through / count, null_space(conserve)
    longest = dict.fromkeys(order, 0)
    for v in steps:
        longest[v] = max(longest[edges[e, 0]] + 1 for e in entering[v])
    # An edge on all paths has a zero row in the tangent, and its flow is always 1.
    reach = np.linalg.norm(tangent, axis=1)
    free = reach > 1e-9
    return from_minimizer(
        dim,
        lambda g: _shortest_path(g, edges, source, target, steps, entering),
        centre=centre,
        diameter=np.sqrt(min(2 * longest[target], np.sum(free))),
        contains=within_facets(-np.eye(dim), np.zeros(dim), centre, tangent),
        inradius=np.min(centre[free] / reach[free]),
        tangent=tangent,
    )._replace(lottery=lotteries.of_paths(edges, order, leaving, count, longest[target]))


def _path_counts(start, order, entering, origins) -> dict:
    """The number of paths from ``start`` to each node, by recursion over the last edge."""
    counts = dict.fromkeys(order, 0)
    counts[start] = 1
    for v in order:
        counts[v] += sum(counts[origins[e]] for e in entering[v])
    return counts


def _shortest_path(g, edges, source, target, steps, entering):
    """The edges of the shortest path from source to target as ones, (d,), for lengths g (d,).

    ``steps`` are the nodes other than the source, in topological order. The graph is static, so the
    computation is unrolled edge by edge. Under vmap each operation is on whole vectors.
    """
    distance, enter = {source: jnp.zeros(())}, {}
    for v in steps:
        best, choice = None, None
        for e in entering[v]:
            length = distance[edges[e, 0]] + g[e]
            if best is None:
                best, choice = length, jnp.full((), e, jnp.int32)
            else:
                choice = jnp.where(length < best, e, choice)
                best = jnp.minimum(best, length)
        distance[v], enter[v] = best, choice
    on_path = dict.fromkeys([source, *steps], jnp.zeros((), bool)) | {target: jnp.ones((), bool)}
    flow = [None] * len(edges)
    for v in reversed(steps):
        for e in entering[v]:
            flow[e] = on_path[v] & (enter[v] == e)
            on_path[edges[e, 0]] = on_path[edges[e, 0]] | flow[e]
    return jnp.stack(flow).astype(jnp.float32)


def _topological(edges) -> list:
    """The nodes in topological order: each comes after all nodes with an edge to it."""
    waiting = {int(v) for v in edges.flatten()}
    order = []
    while waiting:
        ready = sorted(v for v in waiting if not any(b == v and a in waiting for a, b in edges))
        if not ready:
            raise ValueError(f"edges: there is a cycle among the nodes {sorted(waiting)}")
        order += ready
        waiting -= set(ready)
    return order
