"""What a replay records of a release, and the shape of a rule that says what it costs."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import random as jr

from dpjax.core import Array


class Record(NamedTuple):
    """One release of one run. What consumes a key and is no release has only its key here."""

    active: Array  # () bool: whether the branch with the release was taken
    key: Array  # the words of its key
    value: Any  # what noise was added to; for a draw, the probabilities
    scale: Any  # the scale of the noise over the mechanism's sensitivity; for a draw, 1
    law: Any  # what else the law of the noise depends on
    release: list  # the arrays that were released


class Cost(NamedTuple):
    pure: Array  # () epsilon, by basic composition
    rho: Array  # () in zCDP
    gaussian: Array  # () the part of rho that comes from Gaussian noise


class Rule(NamedTuple):
    """How a release is read and what it costs. Positions count the arguments of its site."""

    key: int  # position of the key
    scale: int | None  # position of the scale; None for a draw
    read: Callable  # arguments -> (value, scale, law)
    cost: Callable  # (record, twin) -> Cost
    others: Callable  # record -> list of other releases to try in its place
    integer: int | None = None  # for noise whose privacy the host knows, the place of its law:
    # one of INTEGER_LAWS, VECTORS or PREFIXES


def record(rule, inputs, release) -> Record:
    """The record of a release, from the arguments of its site."""
    value, scale, law = rule.read(*inputs)
    return Record(
        jnp.bool(True), key_data(inputs[rule.key]), value, jnp.asarray(scale), law, list(release)
    )


def draw(key) -> Record:
    """The record of a site that consumes a key and is no release."""
    return Record(jnp.bool(True), key_data(key), (), (), (), [])


def key_data(key):
    """The words of a key, or of several keys, (n, 2)."""
    typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    return (jr.key_data(key) if typed else key).reshape(-1, 2)
