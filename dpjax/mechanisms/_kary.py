"""Trees of any odd branching that also subtract nodes: the best trees for Laplace noise."""

from functools import lru_cache
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax import random as jr

from dpjax.core import Array, Mechanism, _check
from dpjax.maths.places import at
from dpjax.mechanisms import prefix
from dpjax.noise import LawName


class KaryState(NamedTuple):
    round: Array  # () int32, t
    walk: Array  # (h, *shape) noise of t without the digits below i, i = 0 .. h - 1
    ahead: Array  # (h - 1, m, *shape) the nodes before the next multiple, already subtracted


def kary(horizon: int, *, noise: LawName = "laplace", k: int | None = None) -> Mechanism:
    """Prefix sums by a k-ary tree, k odd, that may subtract nodes which reach into the future.

    Let t = d_0 + d_1 k + ... with balanced digits -m .. m, where m = (k - 1) / 2. A digit d_i > 0
    adds d_i nodes of length k^i, and a digit below 0 subtracts -d_i of them. So a prefix uses about
    k / 4 nodes of each level; with digits 0 .. k - 1 it would use k / 2. A wide tree has few
    levels.

    Args:
      horizon: T, rounds of the learner.
      noise: as for :func:`tree`.
      k: branching, odd and at least 3. The default has the least mean variance for this horizon and
        law. With k > 2T each value has its own noise.

    Returns:
      A Mechanism of h levels with (L1, L2) sensitivity (h, sqrt h), where h is the least number
      with (k^h - 1) / 2 >= T - 1. The scale of its streams is that of each node's noise. If a node
      reaches ahead, its noise is drawn when the node is first subtracted. Values may still be
      chosen adaptively, since a change of one value can be offset by a shift of the draws that
      depends only on the past.

    Raises:
      ValueError, TypeError: an argument is invalid.

    Reference: Andersson, Pagh, Steiner & Torkamani 2025, "Count on your elders: Laplace vs
    Gaussian noise" (FORC).

    Examples:
      >>> made = mechanisms.tree(1024), mechanisms.kary(1024)
      >>> [x.sensitivity[0] for x in made]  # levels
      [10.0, 3.0]
      >>> errors = [x.sensitivity[0] * x.variance().mean() ** 0.5 for x in made]
      >>> [round(float(error), 1) for error in errors]
      [22.4, 9.2]
    """
    horizon, law = prefix.check(horizon, noise, integers=True)
    count = horizon - 1
    if k is None:
        k = best_branching(count, law.norm)
    k = _check.size(3, k=k)
    if k % 2 == 0:
        raise ValueError(f"k must be odd, got {k}")
    half = (k - 1) // 2
    height = _height(k, count)
    powers = np.array([k**level for level in range(height)], np.int64)

    def prefix_noise(shape, scale):
        # Unsigned, since the longest nodes, and the rounds at their centres, may exceed int32.
        lengths = jnp.asarray(powers, jnp.uint32)

        def init(key):
            del key
            walk = jnp.zeros((height, *shape), jnp.float32)
            ahead = jnp.zeros((max(height - 1, 0), half, *shape), jnp.float32)
            state = KaryState(jnp.zeros((), jnp.int32), walk, ahead)
            return state, jnp.zeros(shape, jnp.float32)

        def step(state, key):
            t = state.round + 1
            if not height:
                return state._replace(round=t), jnp.zeros(shape, jnp.float32)
            unsigned = t.astype(jnp.uint32)
            # The digits below `level` have just wrapped from m to -m, and the digit at `level` grew
            # by 1.
            wrapped = (unsigned + (lengths - 1) // 2) % lengths == 0
            level = jnp.minimum(jnp.sum(wrapped, dtype=jnp.int32), height) - 1
            node = prefix.draw(law, jr.fold_in(key, height), shape, scale)
            if height > 1:
                length = at(lengths, level)
                shifted = ((unsigned + (length - 1) // 2) // length + half) % k
                digit = shifted.astype(jnp.int32) - half
                # If the digit is at most 0, the node was drawn when it was first subtracted.
                known = (digit <= 0) & (level < height - 1)
                node = jnp.where(
                    known, prefix.read(prefix.read(state.ahead, level), digit + half - 1), node
                )
            walk = prefix.write(state.walk, level, prefix.read(state.walk, level) + node)

            def subtract(i, carry):
                walk, ahead = carry
                below = level - 1 - i
                nodes = prefix.draw(law, jr.fold_in(key, below), (half, *shape), scale)
                here = prefix.read(walk, below + 1) - jnp.sum(nodes, axis=0)
                return prefix.write(walk, below, here), prefix.write(ahead, below, nodes)

            walk, ahead = lax.fori_loop(0, level, subtract, (walk, state.ahead))
            return KaryState(t, walk, ahead), walk[0]

        return prefix.PrefixNoise(init, step)

    def variance(rounds):
        t = rounds if isinstance(rounds, np.ndarray) else rounds.astype(jnp.uint32)
        total = prefix.as_floats(t) * 0.0
        for power in powers.tolist():
            shifted = prefix.as_floats(((t + (power - 1) // 2) // np.uint32(power) + half) % k)
            total = total + abs(shifted - half)
        return total

    def matrices():
        ends = _ends(horizon, powers)
        decoders, encoders = [np.zeros((horizon, 0))], [np.zeros((0, count))]
        for level in range(height):
            first, last = ends[level + 1] // powers[level], ends[level] // powers[level]
            nodes = np.arange(1, max(first.max(), last.max()) + 1)
            after = (nodes <= last[:, None]).astype(float)
            decoders.append(after - (nodes <= first[:, None]))
            rounds = np.arange(1, count + 1)
            encoders.append(((rounds - 1) // powers[level] + 1 == nodes[:, None]).astype(float))
        return np.concatenate(decoders, axis=1), np.concatenate(encoders)

    return prefix.from_noise(
        horizon, law, prefix_noise,
        sensitivity=prefix.in_nodes(height), variance=variance, matrices=matrices,
    )  # fmt: skip


def _height(k, count) -> int:
    """The least h with (k^h - 1) / 2 >= count."""
    height = 0
    while (k**height - 1) // 2 < count:
        height += 1
    return height


def _ends(horizon, powers) -> np.ndarray:
    """Row i is t without the digits below i: the multiple of k^i nearest to t; (h + 1, T)."""
    t = np.arange(horizon)
    ends = [(t + (power - 1) // 2) // power * power for power in powers]
    return np.stack([*ends, np.zeros(horizon, np.int64)])


_WIDEST = 2**17


@lru_cache(maxsize=256)
def best_branching(count, norm) -> int:
    """The odd k of least mean variance over the prefixes 1 .. ``count``, at equal privacy.

    The mean variance is h^2 (Laplace) or h (Gaussian) times the mean number of nodes. It is
    computed exactly for every odd k from 3 to 2 ``count`` + 1, at which one level suffices. Ties
    give the least k.

    Trees wider than 2^17 are not tried. Their lowest digits alone use at least k / 9 nodes on
    average. The cost of a tree with k = 3 is at most 21^2 14 (21 levels reach beyond 2^31), which
    is less than 2^17 / 9.
    """
    ks = np.arange(3, min(max(2 * count + 1, 3), _WIDEST) + 1, 2, dtype=np.int64)
    nodes, heights = np.zeros(len(ks)), np.zeros(len(ks), np.int64)
    power, live = np.ones(len(ks), np.int64), np.ones(len(ks), bool)
    while True:
        live = live & ((power - 1) // 2 < count)
        if not live.any():
            break
        nodes[live] += _digit_sum(count, ks[live], power[live])
        heights[live] += 1
        power[live] *= ks[live]
    costs = nodes * heights ** (3 - norm)
    return int(ks[np.argmin(costs)])


def _digit_sum(count, k, power):
    """The exact sum over t = 1 .. count of |d|, where d is the balanced digit of t at k^i = power.

    The digit is that of the multiple of k^i nearest to t. The multiples 0, 1, 2, ... have digits
    0 .. m, -m .. -1, 0 .. m, ..., and each is nearest for ``power`` rounds. (The multiple 0 is
    nearest for fewer, but its digit is 0.)
    """
    half = (k - 1) // 2
    last, rest = np.divmod(count + (power - 1) // 2, power)
    periods, part = np.divmod(last, k)  # of the multiples 0 .. last - 1
    up = np.minimum(part, half + 1)
    down = part - up
    done = periods * half * (half + 1)
    done = done + up * (up - 1) // 2 + down * half - down * (down - 1) // 2
    digit = np.where(part <= half, part, k - part)
    return done * power + digit * (rest + 1)
