"""What a replay records of a release, and the shape of a rule that says what it costs."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import random as jr

from dpjax.noise.release import Site, over_members


class Record(NamedTuple):
    """One release of one run. What consumes a key and is no release has only its key here.

    Under ``jax.vmap`` a release has several members. Then all fields but the first two have
    leading axes of members.
    """

    active: Any  # () bool: whether the branch with the release was taken
    key: Any  # (n, 2) the words of its keys
    value: Any  # what noise was added to; for a draw, the probabilities
    scale: Any  # the scale of the noise over the mechanism's sensitivity; for a draw, 1
    law: Any  # what else the law of the noise depends on
    release: Any  # what was released


class Rule(NamedTuple):
    """How a kind of release is read, and what it costs."""

    scale: int | None  # position of the scale among its inputs, after the value; None for a draw
    read: Callable  # (site, *inputs but the key) -> (value, scale, law)
    cost: Callable  # (site, record, twin) -> Cost
    others: Callable  # record -> list of other releases to try in its place


def record(rule: Rule, site: Site, inputs, release) -> Record:
    """The record of a release, from the inputs of its site, the first of which is the key."""

    def read(key, *rest):
        value, scale, law = rule.read(site, *rest)
        return key_data(key), value, jnp.asarray(scale), law

    keys, value, scale, law = over_members(read, site)(*inputs)
    return Record(jnp.bool(True), keys.reshape(-1, 2), value, scale, law, release)


def draw(key) -> Record:
    """The record of a site that consumes a key and is no release."""
    return Record(jnp.bool(True), key_data(key), (), (), (), ())


def of_members(function: Callable, site: Site, *records: Record) -> Any:
    """A function of records of a site, mapped over its members."""
    for _ in site.mapped:
        function = jax.vmap(function, in_axes=len(records) * (Record(None, None, 0, 0, 0, 0),))
    return function(*records)


def key_data(key):
    """The words of a key, or of several keys, (n, 2)."""
    typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    return (jr.key_data(key) if typed else key).reshape(-1, 2)
