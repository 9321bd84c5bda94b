"""Checks that the noise of a run is fresh: each key draws once, and another run has other keys."""

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import i0e

from dpjax.audit.rules import RULES


def _mechanism(name) -> bool:
    """Whether a site is a release of prefix sums. Its draws are sites of their own."""
    return name.endswith("_prefix")


def drawn(names, records):
    """The keys of one round, and whether some release has the same key in every run.

    Args:
      names: the names of the sites.
      records: their records, with a leading axis of two: the run, and a run with another key.

    Returns:
      (rows, stale). A row of ``rows`` (n, 4) uint32 holds the two words of a key, whether it is
      used (1 or 0), and whether its site is something else than a release (1 or 0). ``stale`` is
      () bool.
    """
    rows, stale = [jnp.zeros((0, 4), jnp.uint32)], jnp.bool(False)
    for name, record in zip(names, records, strict=True):
        if _mechanism(name):
            continue
        key = record.key[0]
        flags = jnp.stack([record.active[0], jnp.bool(name not in RULES)]).astype(jnp.uint32)
        rows.append(jnp.concatenate([key, jnp.broadcast_to(flags, key.shape)], axis=1))
        if name in RULES:
            same = (record.key[0] == record.key[1]).all(axis=1).any()
            if name == "exceeds":
                same |= (record.law[1][0] == record.law[1][1]).all()
            stale |= same & record.active.all()
    return jnp.concatenate(rows), stale


def distinct(rows):
    """Whether every used key of a release is only once in the rows of :func:`drawn`."""
    high, low, used, other = rows.T
    high, low, idle, other = lax.sort((high, low, 1 - used, other), num_keys=4)
    # Among equal keys, used ones come first, and of these the ones of releases.
    twice = (high[1:] == high[:-1]) & (low[1:] == low[:-1]) & (idle[1:] == 0) & (idle[:-1] == 0)
    return ~jnp.any(twice & (other[:-1] == 0))


def bare(names, records):
    """For each mechanism's release: whether its branch ran, and which entries ignore the key.

    An entry ignores the key if it is the same in a run with another key. One whose scale is 0 is
    left out, since any change of it is charged as infinite. Integer noise may be the same by
    chance. So the third part is the log of the chance of it, or more.
    """
    return [
        (
            record.active.all(),
            (record.release[0][0] == record.release[0][1]) & (record.scale[0] != 0.0),
            _log_chance_of_equal(name, record),
        )
        for name, record in zip(names, records, strict=True)
        if _mechanism(name)
    ]


def _log_chance_of_equal(name, record):
    """At least the log of the probability that two draws of the noise are equal: that of a zero."""
    nodes = record.law[0][0]
    if name == "discrete_laplace_prefix":
        ratio = jnp.exp(-1.0 / (nodes * record.scale[0]))
        return jnp.log1p(-ratio) - jnp.log1p(ratio)
    if name == "discrete_gaussian_prefix":
        variance = jnp.square(nodes * record.scale[0])
        # Two lower bounds of the sum of exp(-k^2 / (2 variance)) over the integers k.
        terms = jnp.log1p(2.0 * jnp.exp(-0.5 / variance))
        return -jnp.maximum(terms, 0.5 * jnp.log(2.0 * jnp.pi * variance))
    if name == "skellam_prefix":
        return jnp.log(i0e(jnp.square(record.scale[0])))
    return jnp.float32(-jnp.inf)


def ever_bare(found):
    """Whether some number that a mechanism releases has no noise in any round.

    A number counts only if noise would make it so with a probability below 1e-9. Each round draws
    once.

    Args:
      found: what :func:`bare` returns, with a leading axis of rounds.
    """
    unhidden = jnp.bool(False)
    for used, same, chance in found:
        unused = ~used.reshape(-1, *[1] * (same.ndim - 1))
        rare = jnp.sum(jnp.where(used, chance, 0.0)) < np.log(1e-9)
        unhidden |= rare & jnp.any(jnp.all(same | unused, axis=0))
    return unhidden
