"""Checks that noise is fresh: each key is used once, and different runs use different keys."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import lax

from dpjax.core import Array
from dpjax.noise.release import Site


def is_prefix(site: Site) -> bool:
    """Whether a site releases prefix sums. The draws within are separate sites."""
    return isinstance(site, Site) and site.kind == "prefix"


def drawn(sites: Sequence, records: Sequence):
    """The keys of one round, and whether some release has the same key in every run.

    Args:
      sites: the sites of one round.
      records: their records, with a leading axis of two: the run, and a run with another key.

    Returns:
      (rows, stale). A row of ``rows`` (n, 4) uint32 holds the two words of a key, whether it is
      used (1 or 0), and whether its site is not a release (1 or 0). ``stale`` is () bool.
    """
    rows, stale = [jnp.zeros((0, 4), jnp.uint32)], jnp.bool(False)
    for site, record in zip(sites, records, strict=True):
        if is_prefix(site):
            continue
        key, released = record.key[0], isinstance(site, Site)
        flags = jnp.stack([record.active[0], jnp.bool(not released)]).astype(jnp.uint32)
        rows.append(jnp.concatenate([key, jnp.broadcast_to(flags, key.shape)], axis=1))
        if released:
            same = (record.key[0] == record.key[1]).all(axis=1).any()
            if site.kind == "comparison":
                same |= (record.law[1][0] == record.law[1][1]).all()
            stale |= same & record.active.all()
    return jnp.concatenate(rows), stale


def distinct(rows: Array):
    """Whether every used key of a release occurs only once in the rows of :func:`drawn`."""
    high, low, used, other = rows.T
    high, low, idle, other = lax.sort((high, low, 1 - used, other), num_keys=4)
    # Among equal keys, used ones come first, and among these the keys of releases.
    twice = (high[1:] == high[:-1]) & (low[1:] == low[:-1]) & (idle[1:] == 0) & (idle[:-1] == 0)
    return ~jnp.any(twice & (other[:-1] == 0))


def bare(sites: Sequence, records: Sequence):
    """For each mechanism's release: whether its branch ran, and which entries ignore the key.

    An entry ignores the key if it is the same in a run with another key. An entry of scale 0 is
    left out, since any change of it has infinite cost. Integer noise may be equal by chance. So the
    third value is an upper bound on the log-probability of this.
    """
    return [
        (
            record.active.all(),
            (record.release[0] == record.release[1]) & (record.scale[0] != 0.0),
            _log_chance_of_equal(site, record),
        )
        for site, record in zip(sites, records, strict=True)
        if is_prefix(site)
    ]


def _log_chance_of_equal(site, record):
    """An upper bound on the log-probability that two draws of the noise are equal.

    Under a log-concave law of variance v, each integer has probability at most 2 / sqrt(1 + 4 v)
    (Bobkov, Marsiglietti & Melbourne 2022).
    """
    if not site.law.integers:
        return jnp.float32(-jnp.inf)
    scale = jnp.min(record.scale) * site.sensitivity[site.law.norm - 1]
    likeliest = 2.0 / jnp.sqrt(1.0 + 4.0 * site.law.variance(scale))
    return jnp.log(jnp.minimum(likeliest, 1.0))


def ever_bare(bare):
    """Whether some entry of a mechanism's releases has no noise in any round.

    An entry counts only if noise would leave it unchanged with a probability below 1e-9. Each round
    has one draw of the noise.

    Args:
      bare: the result of :func:`bare`, with a leading axis of rounds.
    """
    unhidden = jnp.bool(False)
    for used, same, chance in bare:
        unused = ~used.reshape(-1, *[1] * (same.ndim - 1))
        rare = jnp.sum(jnp.where(used, chance, 0.0)) < np.log(1e-9)
        unhidden |= rare & jnp.any(jnp.all(same | unused, axis=0))
    return unhidden
