"""Random vertices with entries 0 and 1, for follow the regularized leader."""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr

from dpjax.core import Numbers
from dpjax.domains._vectors import bisect

# Probabilities of a k-set are multiples of 2^-24, or of a larger unit if k 2^24 exceeds an int32.
_BITS = 24


class Lottery(NamedTuple):
    """Follow the regularized leader over a domain whose vertices have entries 0 and 1.

    A step adds estimates y (d,) to the losses L (d,). It is stable if eta |y_i| is at most entry i
    of ``reach(x)`` for all i; other estimates are skipped. If the sum of E[x_i y_i^2] is V, as in
    :func:`dpjax.learners.semi_bandit_ftrl`, the regret of T rounds is at most
    penalty / eta + eta T V stability.

    Examples:
      >>> pairs = domains.capped_simplex(4, 2).lottery
      >>> action, marginals = pairs.draw(jax.random.key(0), jnp.zeros(4), noise.choose)
      >>> print(jnp.sum(action), marginals)
      2.0 [0.5 0.5 0.5 0.5]
    """

    ones: int  # k, the largest number of ones
    # (key, eta L (d,), choose) -> a vertex (d,), and the probabilities x (d,) of its ones. choose
    # draws an index from probabilities, like dpjax.noise.choose.
    draw: Callable
    reach: Callable  # x (d,) -> (d,), the largest eta |y_i| that is used
    penalty: float
    stability: float
    reads_all: bool  # whether the bound also holds if y estimates the losses of all ones at once


def of_sets(blocks: np.ndarray, capacities: Numbers) -> Lottery:
    """Sets with a fixed number of entries per block, by Tsallis entropy and systematic sampling.

    The marginals are x = argmin <s, x> - 2 sum_i sqrt(x_i), for s = eta L.

    Args:
      blocks: (d,) NumPy integers, the block of each entry.
      capacities: the number of chosen entries of each block.
    """
    members = [np.flatnonzero(blocks == block) for block in range(len(capacities))]
    place = np.argsort(np.concatenate(members))
    root = math.sqrt(len(blocks) * sum(capacities))

    def draw(key, s, choose):
        keys = jr.split(key, len(members))
        drawn = [
            _systematic(keys[i], choose, _in_units(_marginals(s[entries], int(k)), int(k)))
            for i, (entries, k) in enumerate(zip(members, capacities, strict=True))
        ]
        action, marginals = zip(*drawn, strict=True)
        return jnp.concatenate(action)[place], jnp.concatenate(marginals)[place]

    return Lottery(
        int(sum(capacities)),
        draw,
        reach=lambda x: 0.5 / jnp.sqrt(jnp.maximum(x, 2.0**-_BITS)),
        penalty=2.0 * root,
        stability=4.0 * root,
        reads_all=True,
    )


def _marginals(s, k):
    """x (n,) with sum k: x_i = min(1, (s_i + m)^-2), the minimizer of <s, x> - 2 sum_i sqrt(x_i).

    If the k-th smallest s_i is 0, m is in [1, sqrt(n - k + 1)].
    """
    s = s - jnp.sort(s)[k - 1]

    def at(m):
        return 1.0 / jnp.square(jnp.maximum(s + m, 1.0))

    most = jnp.sqrt(jnp.float32(s.shape[0] - k + 1))
    return at(bisect(lambda m: jnp.sum(at(m)) > k, jnp.ones_like(most), most))


def _in_units(x, k):
    """x as integers, in units of 2^-bits, with sum exactly k; and the bits.

    A probability within 2^-20 of 1 becomes 1. Otherwise its last bits would decide whether an
    interval of :func:`_systematic` ends before or after an integer, and these bits may differ
    between compiled programs.
    """
    bits = min(_BITS, 30 - k.bit_length())
    unit = 1 << bits
    units = jnp.round(x * unit).astype(jnp.int32)
    units = jnp.where(x >= 1.0 - 2.0**-20, unit, units)
    missing = k * unit - jnp.sum(units)
    # The first entries between 0 and 1 compensate for rounding.
    room = jnp.where(units == unit, 0, jnp.where(missing > 0, unit - units, units))
    before = jnp.cumsum(room) - room
    return units + jnp.sign(missing) * jnp.clip(jnp.abs(missing) - before, 0, room), bits


def _systematic(key, choose, units_and_bits):
    """(set, x): a random set whose entries have the probabilities x = units / 2^bits.

    Entry i has the interval from x_1 + .. + x_(i-1) to x_1 + .. + x_i. It is in the set if one of
    u, u + 1, u + 2, .. is in its interval, for a uniform u (Madow 1949). Only the position of u
    among the fractional parts of these sums matters, so this position is drawn.
    """
    units, bits = units_and_bits
    unit, ends = 1 << bits, jnp.cumsum(units)
    cuts = jnp.sort(ends & (unit - 1))
    lengths = jnp.append(cuts[1:], unit) - cuts
    u = cuts[choose(key, lengths.astype(jnp.float32) / unit)]
    below = (ends - 1 - u) >> bits  # the number of u, u + 1, .. below the end, minus 1
    action = below - ((ends - units - 1 - u) >> bits)
    return action.astype(jnp.float32), units.astype(jnp.float32) / unit


def of_paths(edges: np.ndarray, order: list, leaving: dict, count: int, longest: int) -> Lottery:
    """Paths with probabilities proportional to exp(-<s, a>), by weight pushing.

    This is follow the regularized leader with the entropy of the law over all paths. Let B(v) be
    the sum of the weights of all paths from v to the target. A random walk from the source takes
    edge (v, w) with probability exp(-s_e) B(w) / B(v) (Takimoto & Warmuth 2003).

    Args:
      edges: (d, 2).
      order: the nodes in topological order, the source first and the target last.
      leaving: the edges that leave each node.
      count: the number of paths.
      longest: the largest number of edges of a path.
    """

    def draw(key, s, choose):
        log_weight, chances = {order[-1]: jnp.zeros(())}, {}
        for v in order[-2::-1]:
            terms = jnp.stack([log_weight[edges[e, 1]] - s[e] for e in leaving[v]])
            log_weight[v] = jax.nn.logsumexp(terms)
            chances[v] = jax.nn.softmax(terms)
        reached = dict.fromkeys(order, jnp.zeros((), bool)) | {order[0]: jnp.ones((), bool)}
        mass = dict.fromkeys(order, jnp.zeros(())) | {order[0]: jnp.ones(())}
        action, marginals = [None] * len(edges), [None] * len(edges)
        for v, node_key in zip(order[:-1], jr.split(key, len(order) - 1), strict=True):
            chosen = choose(node_key, chances[v]) if len(leaving[v]) > 1 else 0
            for i, e in enumerate(leaving[v]):
                w = edges[e, 1]
                action[e], marginals[e] = reached[v] & (chosen == i), mass[v] * chances[v][i]
                reached[w], mass[w] = reached[w] | action[e], mass[w] + marginals[e]
        return jnp.stack(action).astype(jnp.float32), jnp.stack(marginals)

    return Lottery(
        longest,
        draw,
        reach=jnp.ones_like,
        penalty=math.log(count),
        stability=2.0 * len(edges),
        reads_all=False,
    )
