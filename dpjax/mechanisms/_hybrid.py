"""The hybrid mechanism, with a tree for each epoch of 2^k rounds, for unknown horizons."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from dpjax.core import Array, Mechanism, _check
from dpjax.mechanisms import prefix
from dpjax.noise import LawName


class HybridState(NamedTuple):
    round: Array  # () int32, t
    before: Array  # (*shape) noise of the last prefix before this epoch
    walk: Array  # (rows, *shape) as in TreeState, within this epoch


def hybrid(horizon: int, *, noise: LawName = "laplace", totals: str = "carried") -> Mechanism:
    """Prefix sums of a stream of unknown length, by a binary tree for each epoch.

    Epoch k holds the rounds 2^k .. 2^(k + 1) - 1. Its tree has k + 1 levels, so its nodes have
    k + 1 times the scale (for Gaussian noise, sqrt(k + 1) times). The noise grows with t, not with
    the horizon. The root is complete at the end of the epoch and is part of all later prefixes. So
    no privacy budget is reserved for the totals of epochs.

    With ``totals="separate"`` half of the budget is reserved. The sums of the rounds
    2^(k - 1) + 1 .. 2^k are released separately, with twice the scale (Gaussian: sqrt(2) times). A
    tree of k levels holds the rounds 2^k + 1 .. 2^(k + 1) - 1, with 2k times the scale (Gaussian:
    sqrt(2k) times). The prefixes 2^k are then less noisy, and the others more.

    Args:
      horizon: T, rounds of the learner. Only the depth of the state depends on it.
      noise: a law of real numbers, such as "laplace" or "gaussian".
      totals: "carried" or "separate".

    Returns:
      A Mechanism. C is weighted so that its sensitivity is 1 in every epoch, in the norm of the
      noise law. The scale of its streams is that of the only node of epoch 0.

    Raises:
      ValueError, TypeError: an argument is invalid.

    Reference: Chan, Shi & Song 2011, "Private and continual release of statistics". Their hybrid
    mechanism has separate totals.

    Examples:
      >>> print(mechanisms.hybrid(8).variance())
      [ 0.  1.  5.  5. 14. 14. 23. 14.]
      >>> print(mechanisms.hybrid(16).variance()[:8])  # the horizon does not matter
      [ 0.  1.  5.  5. 14. 14. 23. 14.]
    """
    horizon, law = prefix.check(horizon, noise)
    count = horizon - 1
    epochs = count.bit_length()
    _check.one_of("carried", "separate", totals=totals)
    separate = totals == "separate"

    def factor(epoch):
        """The scale of an epoch's nodes, in units of ``scale``."""
        nodes = 2.0 * epoch if separate else epoch + 1.0
        return nodes if law.norm == 1 else nodes**0.5

    of_total = 2.0 if law.norm == 1 else 2.0**0.5

    def prefix_noise(shape, scale):
        def init(key):
            del key
            zero = jnp.zeros(shape, jnp.float32)
            walk = jnp.zeros((prefix.rows(epochs), *shape), jnp.float32)
            return HybridState(jnp.zeros((), jnp.int32), zero, walk), zero

        def step(state, key):
            t = state.round + 1
            epoch = 31 - lax.clz(t)
            # The round within the epoch, 1 .. 2^k. With separate totals it is 0 .. 2^k - 1, and 0
            # is the total.
            local = t - (1 << epoch) + (0 if separate else 1)
            parent = local & (local - 1)
            parent_noise = prefix.read(state.walk, prefix.trailing_zeros(parent))
            base = jnp.where(parent == 0, state.before, parent_noise)
            grown = jnp.where(local == 0, of_total, factor(epoch.astype(jnp.float32)))
            node = base + prefix.draw(law, key, shape, scale * grown)
            before = jnp.where(local == (0 if separate else 1 << epoch), node, state.before)
            return HybridState(
                t, before, prefix.write(state.walk, prefix.trailing_zeros(local), node)
            ), node

        return prefix.PrefixNoise(init, step)

    def variance(rounds):
        total, before = prefix.as_floats(rounds) * 0.0, 0.0
        for epoch in range(epochs):
            # The variance of the prefix before the epoch's tree. The epoch adds its own.
            before = before + (of_total**2 if separate else factor(epoch - 1) ** 2)
            local = rounds - 2**epoch + (0 if separate else 1)
            node = before + factor(epoch) ** 2 * prefix.weighted_bits(local, [1.0] * (epoch + 1))
            inside = (rounds >> epoch) == 1
            total = total + prefix.as_floats(inside) * node
        return total

    def matrices():
        decoder, encoder = np.zeros((horizon, count)), np.zeros((count, count))
        for t in range(1, horizon):
            epoch = t.bit_length() - 1
            local = t - 2**epoch + (0 if separate else 1)
            # Column and row t - 1: the node, or the total, that ends at t.
            length, size = (local & -local, factor(epoch)) if local else (t - t // 2, of_total)
            encoder[t - 1, t - length : t] = 1.0 / size
            # The prefix before it: earlier in this epoch, or the end of the previous one.
            decoder[t] = decoder[t - length]
            decoder[t, t - 1] = size
        return decoder, encoder

    return prefix.from_noise(
        horizon, law, prefix_noise,
        sensitivity=_sensitivity(count, separate, factor, of_total),
        variance=variance,
        matrices=matrices,
    )  # fmt: skip


def _sensitivity(count, separate, factor, of_total) -> tuple[float, float]:
    """Largest L1 and L2 norms of a column of C, from the number of totals and nodes of a value."""
    if not count:
        return 0.0, 0.0
    last = count.bit_length() - 1
    # (totals, levels, epoch) of the value of each epoch that is in the most nodes. In the last
    # epoch only the levels that have begun are released, and no total.
    if separate:
        values = [(1, 0, 1)] + [(1, k, k) for k in range(1, last)]
        values += [(0, (count - 2**last).bit_length(), max(last, 1))]
    else:
        values = [(0, k + 1, k) for k in range(last)]
        values += [(0, (count - 2**last + 1).bit_length(), last)]

    def norm(p):
        return max(
            totals / of_total**p + levels / factor(epoch) ** p for totals, levels, epoch in values
        )

    return float(norm(1)), float(norm(2)) ** 0.5
