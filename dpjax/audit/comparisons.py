"""The privacy loss of comparisons with noisy thresholds, charged once for each armed threshold."""

import jax.numpy as jnp
from jax import lax

from dpjax.audit.records import Record
from dpjax.core import Array


def row(record: Record, units: Array, counts) -> tuple[Array, Array]:
    """A comparison of one round, (units, exceeded, counts), and its threshold's key.

    Args:
      record: the record of ``noise.exceeds`` in the first run.
      units: by how many noise scales the value is larger in the second run, () float32.
      counts: whether anything depends on the answer.
    """
    exceeded = record.release & counts
    flags = jnp.stack([exceeded, counts]).astype(jnp.float32)
    numbers = jnp.concatenate([jnp.where(counts, units, 0.0)[None], flags])
    return numbers, record.law[1].reshape(2)


def costs(rows: tuple, keys: Array):
    """(pure, rho, drawn): the privacy loss of the comparisons of one site in all rounds.

    Consider the comparisons with one armed threshold, and let c_k be the change of the value in
    comparison k, in noise scales. The second run gives the same answers as the first if its noise
    is shifted. The noise of the threshold is shifted by an s that is at least c_k for each
    comparison k that did not exceed the threshold. If the last comparison f exceeded it, and
    s > c_f, the noise of its value is shifted by s - c_f. This changes the density of Laplace noise
    by a factor of at most exp(|s| + max(s - c_f, 0)). Let m be the largest c_k before f. The best s
    is m if m > 0; otherwise the exponent can be made max(-c_f, 0). The cost is the largest such
    exponent over all comparisons that could have been the last, and over both orders of the runs.

    Args:
      rows: (T - 1, 3), from :func:`row`.
      keys: (T - 1, 2) uint32.

    Returns:
      pure and rho, () float32, and rows of :func:`dpjax.audit.keys.distinct`, (T - 1, 4) uint32:
      the keys of thresholds, each marked as used at its first occurrence.
    """
    # Makes the comparisons of one threshold adjacent, even if several thresholds take turns.
    order = jnp.lexsort(keys.T)
    rows, keys = rows[order], keys[order]

    def one(carry, inputs):
        (largest, worst), (pure, rho), (last_key, ended) = carry
        (units, exceeded, counts), key = inputs
        counts = counts > 0.0
        first = counts & (ended | jnp.any(key != last_key))
        pure, rho = (jnp.where(first, total + more, total)
                     for total, more in ((pure, worst), (rho, 0.5 * worst**2)))  # fmt: skip
        largest, worst = jnp.where(first, -jnp.inf, largest), jnp.where(first, 0.0, worst)
        change = jnp.stack([units, -units])
        last = jnp.where(
            largest > 0.0,
            largest + jnp.maximum(largest - change, 0.0),
            jnp.maximum(-change, 0.0),
        )
        after = jnp.maximum(largest, change)
        level = jnp.max(jnp.maximum(last, jnp.maximum(after, 0.0)))
        level = jnp.where(jnp.isnan(level), jnp.inf, level)
        worst = jnp.where(counts, jnp.maximum(worst, level), worst)
        largest = jnp.where(counts, after, largest)
        known = jnp.where(counts, key, last_key), jnp.where(counts, exceeded > 0.0, ended)
        return ((largest, worst), (pure, rho), known), first

    zero = jnp.float32(0.0)
    start = (jnp.full(2, -jnp.inf), zero), (zero, zero), (keys[0], jnp.bool(True))
    ((_, worst), (pure, rho), _), first = lax.scan(one, start, (rows, keys))
    flags = jnp.stack([first, jnp.zeros_like(first)], axis=1).astype(jnp.uint32)
    return pure + worst, rho + 0.5 * worst**2, jnp.concatenate([keys, flags], axis=1)
