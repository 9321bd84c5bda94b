"""The hybrid mechanism: a tree for each dyadic epoch, whatever the horizon."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from dpjax.core import Array, Mechanism
from dpjax.mechanisms.prefix import (
    Factorization,
    check,
    draw,
    draw_rounds,
    from_noise,
    interleave,
    read,
    trailing_zeros,
    write,
)


class HybridState(NamedTuple):
    round: Array  # () int32, t
    before: Array  # (*shape) noise of the last prefix before this epoch
    walk: Array  # (h, *shape) as in TreeState, within this epoch


def hybrid(horizon, shape, *, scale, noise="laplace") -> Mechanism:
    """Prefix sums of a stream whose length need not be known: a binary tree an epoch.

    Epoch k holds the rounds 2^k .. 2^(k + 1) - 1. Its tree has k + 1 levels, so its nodes get
    k + 1 times the scale (Gaussian noise: the root of it), and the noise grows with t, not with
    the horizon. The root, complete with the epoch, is carried along in all later prefixes: no
    budget is set aside for totals.

    Args:
      horizon: T, rounds of the learner that it serves; only the depth of its state depends on it.
      shape: of a value.
      scale: of the noise of epoch 0's node, as in :func:`dpjax.mechanisms.tree`.
      noise: "laplace" or "gaussian".

    Returns:
      A Mechanism. The weights of C make the sensitivity of its own law 1 in every epoch.

    Raises:
      ValueError, TypeError: bad arguments, by name.

    Reference: Chan, Shi & Song 2011, "Private and continual release of statistics", the hybrid
    mechanism; here the epoch's root serves as its total, where they halve the budget.
    """
    horizon, shape = check(horizon, shape, scale, noise)
    count = horizon - 1
    epochs = count.bit_length()

    def factor(epoch):
        """How much the noise of an epoch exceeds that of epoch 0."""
        return epoch + 1.0 if noise == "laplace" else (epoch + 1.0) ** 0.5

    def init(key):
        del key
        zero = jnp.zeros(shape, jnp.float32)
        walk = jnp.zeros((epochs, *shape), jnp.float32)
        return HybridState(jnp.zeros((), jnp.int32), zero, walk), zero

    def step(state, key):
        t = state.round + 1
        epoch = 31 - lax.clz(t)
        local = t - (1 << epoch) + 1  # 1 .. 2^k
        parent = local & (local - 1)
        parent_noise = read(state.walk, trailing_zeros(parent))
        base = jnp.where(parent == 0, state.before, parent_noise)
        grown = scale * factor(epoch.astype(jnp.float32))
        here = base + draw(noise, key, shape, grown)
        before = jnp.where(local == 1 << epoch, here, state.before)
        return HybridState(t, before, write(state.walk, trailing_zeros(local), here)), here

    def path(key):
        rows = [jnp.zeros((1, *shape), jnp.float32)]
        for epoch in range(epochs):
            first, last = 2**epoch, 2 ** (epoch + 1) - 1
            steps = draw_rounds(noise, key, first, last, shape, scale * factor(epoch))
            # steps[u - 1] belongs to the local round u.
            walk = rows[-1][-1:]
            for level in reversed(range(epoch)):
                walk = interleave(walk, walk + steps[2**level - 1 :: 2 ** (level + 1)])
            rows.append(jnp.concatenate([walk[1:], walk[:1] + steps[-1:]]))
        return jnp.concatenate(rows)[:horizon]

    def variance():
        t = np.arange(1, horizon)
        epoch = np.floor(np.log2(t)).astype(int)
        local = t - 2**epoch + 1
        factors = np.array([factor(k) ** 2 for k in range(epochs)])
        before = np.concatenate([[0.0], np.cumsum(factors)])
        rows = before[epoch] + np.take(factors, epoch) * np.bitwise_count(local)
        return np.concatenate([[0.0], rows])

    def matrices():
        decoder, encoder = np.zeros((horizon, count)), np.zeros((count, count))
        for t in range(1, horizon):
            epoch = t.bit_length() - 1
            local = t - 2**epoch + 1
            length = local & -local
            # Column and row t - 1: the node that ends at t.
            encoder[t - 1, t - length : t] = 1.0 / factor(epoch)
            # The prefix before that node: earlier in this epoch, or the end of the last one.
            decoder[t] = decoder[t - length]
            decoder[t, t - 1] = factor(epoch)
        return decoder, encoder

    # Nodes around an epoch's first value: all its levels, or those begun in the last epoch.
    levels = np.arange(epochs) + 1
    if epochs:
        levels[-1] = (count - 2 ** (epochs - 1) + 1).bit_length()
    weights = np.array([1.0 / factor(epoch) for epoch in range(epochs)])
    sensitivity = (
        float(np.max(levels * weights, initial=0.0)),
        float(np.max(np.sqrt(levels) * weights, initial=0.0)),
    )
    return from_noise(
        init, step, path, horizon, shape, Factorization(sensitivity, variance, matrices)
    )
