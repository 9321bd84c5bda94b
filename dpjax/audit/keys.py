"""Whether the noise of a run is fresh: its keys draw once, and other runs have others."""

import jax.numpy as jnp
from jax import lax

from dpjax.audit.rules import RULES


def _mechanism(name) -> bool:
    """A release of prefix sums, whose draws are sites of their own."""
    return name.endswith("_prefix")


def drawn(names, records):
    """The keys of one round, and whether a release has one that it has in any run.

    Args:
      names: of the sites.
      records: with the run, and a run with another key, in front.

    Returns:
      (rows, stale): (n, 4) uint32 of the two words of a key, 1 if it is used, 0 if by a release;
      and () bool.
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
            stale |= same & record.active.all()
    return jnp.concatenate(rows), stale


def distinct(rows):
    """Whether no used key of a release is in the rows of :func:`drawn` a second time."""
    high, low, used, other = rows.T
    high, low, idle, other = lax.sort((high, low, 1 - used, other), num_keys=4)
    # Of equal keys those of releases come first.
    twice = (high[1:] == high[:-1]) & (low[1:] == low[:-1]) & (idle[1:] == 0) & (idle[:-1] == 0)
    return ~jnp.any(twice & (other[:-1] == 0))


def bare(names, records):
    """Of each mechanism's release whether it was used, and where it is that of another key."""
    return [
        (record.active.all(), record.release[0][0] == record.release[0][1])
        for name, record in zip(names, records, strict=True)
        if _mechanism(name)
    ]


def ever_bare(found):
    """Whether some number that a mechanism releases is without noise in all rounds.

    Args:
      found: of :func:`bare`, with rounds in front.
    """
    unhidden = jnp.bool(False)
    for used, same in found:
        unused = ~used.reshape(-1, *[1] * (same.ndim - 1))
        unhidden |= jnp.any(used) & jnp.any(jnp.all(same | unused, axis=0))
    return unhidden
