"""Checks that the noise of a run is fresh: each key draws once, and another run has other keys."""

import jax.numpy as jnp
from jax import lax

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

    An entry ignores the key where it is the same in a run with another key.
    """
    return [
        (record.active.all(), record.release[0][0] == record.release[0][1])
        for name, record in zip(names, records, strict=True)
        if _mechanism(name)
    ]


def ever_bare(found):
    """Whether some number that a mechanism releases has no noise in any round.

    Args:
      found: what :func:`bare` returns, with a leading axis of rounds.
    """
    unhidden = jnp.bool(False)
    for used, same in found:
        unused = ~used.reshape(-1, *[1] * (same.ndim - 1))
        unhidden |= jnp.any(used) & jnp.any(jnp.all(same | unused, axis=0))
    return unhidden
