"""The smooth binary mechanism: a tree in which every prefix takes equally many nodes."""

from math import comb
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax import random as jr

from dpjax.core import Array, Mechanism
from dpjax.mechanisms.prefix import (
    PrefixNoise,
    check,
    constant,
    draw,
    from_noise,
    read,
    trailing_zeros,
    write,
)

# Leaves have 30 bits.
_LONGEST = comb(30, 15)


class SmoothState(NamedTuple):
    leaf: Array  # () int32, the bits of the leaf of prefix t
    walk: Array  # (h + 1, *shape) noise of the nodes at bits i and above of that leaf


def smooth(horizon: int, *, noise: str = "laplace") -> Mechanism:
    """Prefix sums by a binary tree whose leaves have as many ones as zeros.

    Of the 2^h leaves of a tree of even height h only those with h / 2 ones in their bits are used,
    in order: one more than values. Prefix t is read at leaf t: a 1 in its bits adds the node on
    its left there. So every prefix, the empty one too, carries exactly h / 2 draws: one law for
    all, for less than half the variance of the tree's completion. Some nodes are empty: their
    draws only even the law.

    Args:
      horizon: T, rounds of the learner that it serves; at most binom(30, 15), some 1.5e8.
      noise: "laplace" or "gaussian".

    Returns:
      A Mechanism; h is the least even number with binom(h, h / 2) >= T. (L1, L2) sensitivity
      (u, sqrt u), u <= h / 2 the nodes around the first value that a released prefix reads (the
      paper counts h / 2). The scale of its streams is that of each node's noise.

    Raises:
      ValueError, TypeError: bad arguments, by name.

    Reference: Andersson & Pagh 2023, "A smooth binary mechanism for efficient private continual
    observation".
    """
    horizon = check(horizon, noise)
    if horizon > _LONGEST:
        raise ValueError(
            f"horizon must be at most {_LONGEST} for smooth, whose leaves are int32, got {horizon}"
        )
    count = horizon - 1
    height = 0
    while comb(height, height // 2) < horizon:
        height += 2
    ones = height // 2
    # The leaves from 0^(j+1) on come before the first one that reads the node 0^(j+1).
    used = sum(comb(height - j - 1, ones) <= count for j in range(ones))

    def added(shape, scale):
        def fill(carry, key, top):
            """Draws the nodes at bits top - 1, ..., 0, all of them ones, on top of walk[top]."""

            def add(i, walk):
                bit = top - 1 - i
                node = draw(noise, jr.fold_in(key, bit), shape, scale)
                return write(walk, bit, read(walk, bit + 1) + node)

            return lax.fori_loop(0, top, add, carry)

        def init(key):
            walk = fill(jnp.zeros((height + 1, *shape), jnp.float32), key, ones)
            return SmoothState(jnp.asarray(2**ones - 1, jnp.int32), walk), walk[0]

        def step(state, key):
            # The next number with as many ones: the lowest run of ones ends in a 1 that moves up a
            # bit, and the others of the run fall to the bottom.
            leaf = state.leaf
            lowest = leaf & -leaf
            raised = leaf + lowest
            moved = trailing_zeros(jnp.maximum(raised, 1))
            fallen = jnp.maximum(moved - trailing_zeros(jnp.maximum(lowest, 1)) - 1, 0)
            node = draw(noise, jr.fold_in(key, height), shape, scale)
            here = read(state.walk, moved + 1) + node
            levels = jnp.arange(height + 1).reshape(-1, *[1] * len(shape))
            walk = jnp.where(levels <= moved, here, state.walk)
            walk = fill(walk, key, fallen)
            return SmoothState(raised | ((1 << fallen) - 1), walk), walk[0]

        def path(key):
            nodes, count = _nodes(horizon, height)
            draws = draw(noise, key, (count, *shape), scale)
            return sum(
                (draws[column] for column in nodes.T), jnp.zeros((horizon, *shape), jnp.float32)
            )

        return PrefixNoise(init, step, path)

    def matrices():
        nodes, total = _nodes(horizon, height)
        decoder = np.zeros((horizon, total))
        np.put_along_axis(decoder, nodes, 1.0, axis=1)
        # A node holds the values whose leaves start with its bits: 0 where the prefixes that read
        # it have a 1. Value t is at leaf t - 1.
        leaves = _leaves(horizon, height)
        encoder = np.zeros((total, count))
        for bit in range(height):
            rows = leaves >> bit & 1 == 1
            reader = leaves[rows] >> bit
            column = nodes[rows, np.bitwise_count(reader) - 1]
            encoder[column] = (leaves[:count] >> bit) == (reader ^ 1)[:, None]
        return decoder, encoder

    return from_noise(
        horizon, noise, added,
        sensitivity=(float(used), float(np.sqrt(used))),
        variance=constant(float(ones)),
        matrices=matrices,
    )  # fmt: skip


def _leaves(horizon, height) -> np.ndarray:
    """The first T numbers of ``height`` bits half of which are ones, in order."""
    numbers = np.arange(2**height, dtype=np.int64)
    return numbers[np.bitwise_count(numbers) == height // 2][:horizon]


def _nodes(horizon, height):
    """Indices of the nodes that each prefix reads, (T, h / 2), high ones first; their number."""
    leaves = _leaves(horizon, height)
    names = np.zeros((horizon, height // 2), np.int64)
    for bit in range(height):
        rows = leaves >> bit & 1 == 1
        reader = leaves[rows] >> bit
        names[rows, np.bitwise_count(reader) - 1] = reader * 64 + bit
    unique, indices = np.unique(names, return_inverse=True)
    return indices.reshape(names.shape), len(unique)
