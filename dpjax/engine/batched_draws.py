"""Equations on batched values that make or consume keys: draws, splits and folds.

The block function is written out here, so that it joins what uses it in one kernel. The counters
are shared by all members of the batch.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dpjax.core.generators import of
from dpjax.engine.batched import (
    Batched,
    Deferred,
    Words,
    by_vmap,
    computed,
    fit,
    is_key,
    isolated,
    pairs,
    repeated,
    zeros_of,
)


def _blocks(keys: Words, shape) -> tuple:
    """Block 0, 1, ... of each key (..., B) in a new shape: words (..., *shape, B)."""
    count = int(np.prod(shape))
    low = lax.reshape(lax.iota(np.uint32, count), (*shape, 1))
    inner = keys.first.shape[:-1]
    spread = [x.reshape(*inner, *[1] * len(shape), x.shape[-1]) for x in (keys.first, keys.second)]
    full = (*inner, *shape, keys.first.shape[-1])
    first, second, low = (jnp.broadcast_to(x, full) for x in (*spread, low))
    return keys.generator.block(first, second, low)


def _random_bits(eqn, operands, batch) -> list:
    (keys,) = operands
    width, shape = eqn.params["bit_width"], eqn.params["shape"]
    if not is_key(keys) or width == 64 or np.prod(shape) >= 2**32:
        return by_vmap(eqn, operands)
    if np.prod(shape) != 1:
        keys = computed(keys, batch)  # once for all the draws
    dtype = eqn.outvars[0].aval.dtype

    def draw(keys):
        words = computed(keys).value
        found = words.generator.drawn(partial(_blocks, words), shape, axis=-2)
        return lax.convert_element_type(found, dtype)

    return [
        Batched(isolated(draw, lambda: zeros_of(eqn.outvars[0].aval, batch).value, batch, keys))
    ]


def _random_split(eqn, operands, batch) -> list:
    (keys,) = operands
    if not is_key(keys):
        return by_vmap(eqn, operands)
    keys, shape = computed(keys, batch).value, eqn.outvars[0].aval.shape

    def split(keys):
        return _blocks(keys, eqn.params["shape"])[:2]

    return [Batched(pairs(split, shape, batch, keys))]


def _random_fold_in(eqn, operands, batch) -> list:
    keys, data = operands
    if not of(eqn.invars[0].aval.dtype) or eqn.invars[1].aval.dtype.itemsize > 4:
        return by_vmap(eqn, operands)
    shape = eqn.outvars[0].aval.shape
    data = fit(data, shape, batch).astype(np.uint32)
    if not isinstance(keys, Batched) or eqn.invars[0].aval.shape != shape:
        words = repeated(keys, batch).value
        keys = Batched(jax.tree.map(lambda x: fit(Batched(x), shape, batch), words))
    return [Batched(Deferred(keys.value, data))]


def _random_unwrap(eqn, operands, batch) -> list:
    (keys,) = operands
    if not is_key(keys):
        return by_vmap(eqn, operands)
    words = computed(keys, batch).value
    if batch.always_true is None:
        return [Batched(jnp.stack([words.first, words.second], axis=-2))]
    shape = (*words.first.shape[:-1], 2, batch.size)

    def interleave(words):
        odd = lax.broadcasted_iota(np.int32, shape, len(shape) - 2) == 1
        words = (words.first, words.second)
        first, second = (jnp.broadcast_to(jnp.expand_dims(x, -2), shape) for x in words)
        return lax.select(odd, second, first)

    # It stays apart, because a kernel that interleaves is not vectorized with what follows.
    return [Batched(isolated(interleave, lambda: jnp.zeros(shape, np.uint32), batch, words))]


def _random_wrap(eqn, operands, batch) -> list:
    (data,) = operands
    generator = of(eqn.outvars[0].aval.dtype)
    if not generator:
        return by_vmap(eqn, operands)
    return [Batched(Words(data.value[..., 0, :], data.value[..., 1, :], generator))]


# Each is (equation, operands, batch) -> outputs.
RULES = {
    "random_bits": _random_bits,
    "random_fold_in": _random_fold_in,
    "random_split": _random_split,
    "random_unwrap": _random_unwrap,
    "random_wrap": _random_wrap,
}
