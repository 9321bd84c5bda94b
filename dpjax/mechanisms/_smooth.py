"""The smooth binary mechanism, a tree in which every prefix uses the same number of nodes."""

from math import comb
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax import random as jr

from dpjax.core import Array, Mechanism
from dpjax.mechanisms import prefix
from dpjax.noise import LawName

# Leaves have at most 30 bits.
_LONGEST = comb(30, 15)


class SmoothState(NamedTuple):
    leaf: Array  # () int32, the bits of the leaf of prefix t
    walk: Array  # (h + 1, *shape) noise of the nodes at bits i and above of that leaf


def smooth(horizon: int, *, noise: LawName = "laplace") -> Mechanism:
    """Prefix sums by a binary tree whose leaves have as many ones as zeros.

    A tree of even height h has 2^h leaves. Only the leaves with h / 2 ones in their bits are used,
    in order: one leaf more than there are values. Prefix t is read at leaf t: each 1 in the bits of
    the leaf adds the node to its left. So every prefix, even the empty one, has exactly h / 2
    draws. All prefixes have the same law, at less than half the variance of
    :func:`dpjax.mechanisms.tree` with ``identical_law``. Some nodes hold no value; their draws only
    make the laws equal.

    Args:
      horizon: T, rounds of the learner; at most binom(30, 15), about 1.5e8.
      noise: a law of real numbers, such as "laplace" or "gaussian".

    Returns:
      A Mechanism, where h is the least even number with binom(h, h / 2) >= T. Its (L1, L2)
      sensitivity is (u, sqrt u). Here u <= h / 2 is the number of nodes that hold the first value
      and are read by a released prefix (the paper counts h / 2). The scale of its streams is that
      of each node's noise.

    Raises:
      ValueError, TypeError: an argument is invalid.

    Reference: Andersson & Pagh 2023, "A smooth binary mechanism for efficient private continual
    observation".

    Examples:
      >>> made = mechanisms.tree(1024, identical_law=True), mechanisms.smooth(1024)
      >>> [x.variance()[:3].tolist() for x in made]
      [[10.0, 10.0, 10.0], [7.0, 7.0, 7.0]]
    """
    horizon, law = prefix.check(horizon, noise, longest=_LONGEST)
    count = horizon - 1
    height = 0
    while comb(height, height // 2) < horizon:
        height += 2
    ones = height // 2
    # The leaves below the node 0^(j+1) come before the first leaf that reads that node.
    used = sum(comb(height - j - 1, ones) <= count for j in range(ones))

    def prefix_noise(shape, scale):
        def fill(carry, key, top):
            """Add draws for the bits top - 1, ..., 0, which are all 1, to walk[top]."""

            def add(i, walk):
                bit = top - 1 - i
                node = prefix.draw(law, jr.fold_in(key, bit), shape, scale)
                return prefix.write(walk, bit, prefix.read(walk, bit + 1) + node)

            return lax.fori_loop(0, top, add, carry)

        def init(key):
            walk = fill(jnp.zeros((height + 1, *shape), jnp.float32), key, ones)
            return SmoothState(jnp.asarray(2**ones - 1, jnp.int32), walk), walk[0]

        def step(state, key):
            # The next leaf is the next number with equally many ones. The highest 1 of the lowest
            # run of ones moves up by one bit, and the rest of the run moves to the lowest bits.
            leaf = state.leaf
            lowest = leaf & -leaf
            raised = leaf + lowest
            moved = prefix.trailing_zeros(jnp.maximum(raised, 1))
            fallen = jnp.maximum(moved - prefix.trailing_zeros(jnp.maximum(lowest, 1)) - 1, 0)
            node = prefix.draw(law, jr.fold_in(key, height), shape, scale)
            value = prefix.read(state.walk, moved + 1) + node
            levels = jnp.arange(height + 1).reshape(-1, *[1] * len(shape))
            walk = jnp.where(levels <= moved, value, state.walk)
            walk = fill(walk, key, fallen)
            return SmoothState(raised | ((1 << fallen) - 1), walk), walk[0]

        return prefix.PrefixNoise(init, step)

    def matrices():
        numbers = np.arange(2**height, dtype=np.int64)
        leaves = numbers[np.bitwise_count(numbers) == ones][:horizon]
        decoders, encoders = [np.zeros((horizon, 0))], [np.zeros((0, count))]
        for bit in range(height):
            starts = leaves >> bit
            readers = np.unique(starts[starts % 2 == 1])
            decoders.append(starts[:, None] == readers)
            # A node holds the values whose leaves start with its bits. Its last bit is 0, and the
            # prefixes that read it have a 1 there. Value t is at leaf t - 1.
            encoders.append(starts[:count] == readers[:, None] - 1)
        return np.concatenate(decoders, axis=1), np.concatenate(encoders)

    return prefix.from_noise(
        horizon, law, prefix_noise,
        sensitivity=prefix.in_nodes(used),
        variance=prefix.constant(float(ones)),
        matrices=matrices,
    )  # fmt: skip
