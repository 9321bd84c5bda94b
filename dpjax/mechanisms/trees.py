"""The binary tree mechanism, plain and with online variance reduction."""

from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax import random as jr

from dpjax.core import Array, Mechanism
from dpjax.mechanisms import prefix
from dpjax.noise import LawName, gaussian


class TreeState(NamedTuple):
    round: Array  # () int32, t
    walk: Array  # (rows, *shape) noise of the latest prefix whose lowest set bit is i = 0, 1, ...
    parent: Array  # (*shape) the row of walk from which the next prefix continues


def tree(horizon: int, *, noise: LawName = "laplace", identical_law: bool = False) -> Mechanism:
    """Prefix sums by the binary tree mechanism, with noise on each node's sum.

    Prefix t is the sum of one node for each set bit of t. Let i be the lowest set bit. Its node
    ends at t, and the other nodes make up the prefix t - 2^i. So the noise is a walk
    Z_t = Z_(t - 2^i) + z_t, with one fresh draw and one addition in each round.

    Args:
      horizon: T, rounds of the learner; the prefixes 0 .. T - 1 are released.
      noise: "laplace", "gaussian", or another law of ``dpjax.noise.LAWS``. Most other laws are
        integer-valued. Values are then rounded to a neighbouring integer at random, without bias.
      identical_law: adds h - popcount(t) fresh draws to prefix t, so that all prefixes are equally
        noisy, including the empty one. This doubles the mean variance. A proof uses it: the
        expected regret is then that of noise drawn once.

    Returns:
      A Mechanism of h = ceil(log2 T) levels, with (L1, L2) sensitivity (h, sqrt h). The scale of
      its streams is that of each node's noise.

    Raises:
      ValueError, TypeError: an argument is invalid.

    Reference: Dwork, Naor, Pitassi & Rothblum 2010; Chan, Shi & Song 2011. identical_law:
    Agarwal & Singh 2017, Algorithm 2.

    Examples:
      >>> mechanism = mechanisms.tree(8)
      >>> mechanism.sensitivity[0]  # levels
      3.0
      >>> print(mechanism.variance(), mechanisms.tree(8, identical_law=True).variance())
      [0. 1. 1. 2. 1. 2. 2. 3.] [3. 3. 3. 3. 3. 3. 3. 3.]
    """
    horizon, law = prefix.check(horizon, noise, integers=True)
    height = (horizon - 1).bit_length()

    def prefix_noise(shape, scale):
        def complete(key, t, walk):
            """Add fresh draws, so that the prefix has h draws in total."""
            # Beyond the horizon nothing is released, and t may have more than h bits.
            missing = jnp.maximum(height - lax.population_count(t), 0)
            if law is gaussian:
                extra = jnp.sqrt(missing.astype(jnp.float32)) * prefix.draw(law, key, shape, scale)
                return walk + extra
            # They are drawn one by one. The sum of r Laplace draws is the difference of two gamma
            # draws, but these are slower than h / 2 Laplace draws.
            return lax.fori_loop(
                0,
                missing,
                lambda i, sum: sum + prefix.draw(law, jr.fold_in(key, i), shape, scale),
                walk,
            )

        def release(key, t, value):
            return complete(jr.fold_in(key, 1), t, value) if identical_law else value

        def init(key):
            zero, empty = jnp.zeros((), jnp.int32), jnp.zeros(shape, jnp.float32)
            walk = jnp.zeros((prefix.rows(height), *shape), jnp.float32)
            return TreeState(zero, walk, empty), release(key, zero, empty)

        def step(state, key):
            t = state.round + 1
            node_key = jr.fold_in(key, 0) if identical_law else key
            value = state.parent + prefix.draw(law, node_key, shape, scale)
            # The row is written before another is read, so that the compiler updates in place. The
            # prefix of all T rounds, which is not released, may overwrite the last row.
            walk = lax.dynamic_update_index_in_dim(state.walk, value, prefix.trailing_zeros(t), 0)
            # The parent's row has not been overwritten, since the next prefix with the same lowest
            # bit is beyond t + 1. The empty prefix has no row (32 trailing zeros) and reads as 0.
            parent = prefix.read(walk, prefix.trailing_zeros(t & (t + 1)))
            return TreeState(t, walk, parent), release(key, t, value)

        return prefix.PrefixNoise(init, step)

    bits = partial(prefix.weighted_bits, weights=[1.0] * height)
    variance = prefix.constant(float(height)) if identical_law else bits

    def matrices():
        return _matrices(horizon, height, np.ones(height), identical_law)

    return prefix.from_noise(
        horizon, law, prefix_noise,
        sensitivity=prefix.in_nodes(height), variance=variance, matrices=matrices,
    )  # fmt: skip


class HonakerState(NamedTuple):
    round: Array  # () int32, t
    walk: Array  # (rows, *shape) as in TreeState
    left: Array  # (rows, *shape) noise of the estimate of the latest left child at level i


def honaker(horizon: int, *, noise: LawName = "laplace") -> Mechanism:
    """The binary tree mechanism with each node estimated from all noisy sums below it.

    When a node of level l is complete, its estimate is w times its own noisy sum plus 1 - w times
    the sum of its children's estimates, for w = 2^l / (2^(l + 1) - 1). The variance of the estimate
    is also w, in units of one draw. The estimate uses only earlier releases, so the privacy is that
    of the tree.

    Args:
      horizon: T, rounds of the learner.
      noise: a law of real numbers, such as "laplace" or "gaussian".

    Returns:
      A Mechanism of h = ceil(log2 T) levels, with (L1, L2) sensitivity (h, sqrt h). The scale of
      its streams is that of each node's noise.

    Raises:
      ValueError, TypeError: an argument is invalid.

    Reference: Honaker 2015, "Efficient use of differentially private binary trees", the estimate
    from below.

    Examples:
      >>> made = mechanisms.tree(8), mechanisms.honaker(8)
      >>> [round(float(x.variance().mean()), 2) for x in made], [x.sensitivity[0] for x in made]
      ([1.5, 1.12], [3.0, 3.0])
    """
    horizon, law = prefix.check(horizon, noise)
    height = (horizon - 1).bit_length()
    levels = np.arange(prefix.rows(height))
    weights = 2.0**levels / (2.0 ** (levels + 1) - 1)

    def prefix_noise(shape, scale):
        weight = jnp.asarray(weights, jnp.float32)

        def init(key):
            del key
            zeros = jnp.zeros((len(levels), *shape), jnp.float32)
            state = HonakerState(jnp.zeros((), jnp.int32), zeros, zeros)
            return state, jnp.zeros(shape, jnp.float32)

        def step(state, key):
            t = state.round + 1
            lowest = prefix.trailing_zeros(t)

            def close(level, estimate):
                drawn = prefix.draw(law, jr.fold_in(key, level), shape, scale)
                children = prefix.read(state.left, level - 1) + estimate
                return weight[level] * drawn + (1.0 - weight[level]) * children

            # The loop ends with the highest node that ends at t, after two draws on average.
            leaf = prefix.draw(law, jr.fold_in(key, 0), shape, scale)
            estimate = lax.fori_loop(1, jnp.minimum(lowest, height - 1) + 1, close, leaf)
            value = prefix.read(state.walk, prefix.trailing_zeros(t & (t - 1))) + estimate
            # Only the highest node that ends at t is a left child.
            walk, left = (
                prefix.write(state.walk, lowest, value),
                prefix.write(state.left, lowest, estimate),
            )
            return HonakerState(t, walk, left), value

        return prefix.PrefixNoise(init, step)

    variance = partial(prefix.weighted_bits, weights=weights[:height].tolist())

    def matrices():
        return _matrices(horizon, height, weights, False)

    return prefix.from_noise(
        horizon, law, prefix_noise,
        sensitivity=prefix.in_nodes(height), variance=variance, matrices=matrices,
    )  # fmt: skip


def _matrices(horizon, height, weights, identical_law):
    """B (T, m) and C (m, N) of a tree, with these weights of a node's own sum in its estimate."""
    count = horizon - 1
    ends = [(level, end) for level in range(height) for end in range(2**level, count + 1, 2**level)]
    column = {node: index for index, node in enumerate(ends)}
    encoder = np.zeros((len(ends), count))
    estimates = np.zeros((len(ends), len(ends)))
    for node, index in column.items():
        level, end = node
        encoder[index, end - 2**level : end] = 1.0
        estimates[index, index] = weights[level] if level else 1.0
        if level:
            children = (level - 1, end - 2 ** (level - 1)), (level - 1, end)
            for child in children:
                estimates[index] += (1.0 - weights[level]) * estimates[column[child]]
    decoder = np.zeros((horizon, len(ends)))
    for t in range(horizon):
        for level in range(height):
            if t >> level & 1:
                decoder[t] += estimates[column[level, t >> level << level]]
    # A node that no released prefix uses is not part of the release.
    used = np.any(decoder != 0.0, axis=0)
    decoder, encoder = decoder[:, used], encoder[used]
    if identical_law:
        missing = height - np.bitwise_count(np.arange(horizon)).astype(int)
        fresh = np.repeat(np.eye(horizon), missing, axis=1)
        decoder = np.concatenate([decoder, fresh], axis=1)
        encoder = np.concatenate([encoder, np.zeros((fresh.shape[1], count))])
    return decoder, encoder
