"""The record of a release in a replay, and the interface of the rules that compute its cost."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import random as jr

from dpjax.core import Array, PyTree
from dpjax.noise.release import Site, over_members


class Record(NamedTuple):
    """One release of one run. A site that uses a key without releasing has only its key here.

    Under ``jax.vmap`` a release has several members. All fields but the first two then have
    leading axes of members.
    """

    active: PyTree  # () bool: whether the branch with the release was taken
    key: PyTree  # (n, 2) the words of its keys
    value: PyTree  # the value before noise; for a draw, the probabilities
    scale: PyTree  # the noise scale over the mechanism's sensitivity; for a draw, 1
    law: PyTree  # further parameters of the law of the noise
    release: PyTree  # the released value


class Rule(NamedTuple):
    """How to read a kind of release, and its cost."""

    scale: int | None  # position of the scale among its inputs, after the value; None for a draw
    read: Callable  # (site, *inputs except the key) -> (value, scale, law)
    cost: Callable  # (site, record, twin) -> Cost
    others: Callable  # record -> list of other released values to try instead


def record(rule: Rule, site: Site, inputs: Sequence, release) -> Record:
    """The record of a release, from the inputs of its site. The first input is the key."""

    def read(key, *rest):
        value, scale, law = rule.read(site, *rest)
        return key_data(key), value, jnp.asarray(scale), law

    keys, value, scale, law = over_members(read, site)(*inputs)
    return Record(jnp.bool(True), keys.reshape(-1, 2), value, scale, law, release)


def draw(key: Array) -> Record:
    """The record of a site that uses a key but does not release."""
    return Record(jnp.bool(True), key_data(key), (), (), (), ())


def of_members(function: Callable, site: Site, *records: Record) -> Any:
    """Apply a function of a site's records to each of its members."""
    for _ in site.mapped:
        function = jax.vmap(function, in_axes=len(records) * (Record(None, None, 0, 0, 0, 0),))
    return function(*records)


def key_data(key: Array):
    """The words of a key, or of several keys, (n, 2)."""
    typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    return (jr.key_data(key) if typed else key).reshape(-1, 2)
