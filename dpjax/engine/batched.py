"""Values that differ between the members of a batch, which is their last axis.

:mod:`dpjax.engine.batch_last` evaluates programs on these values. A value is an array if all
members share it, and Batched if it differs between them. Keys of a
:class:`dpjax.generators.Generator` are two separate arrays of words. Functions use two attributes
of their argument ``batch``: ``size``, B, and ``always_true``, () bool, a condition that separates
kernels, or None if kernels need not be separated.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax import random as jr

from dpjax.core import Array
from dpjax.core._versions import Equation
from dpjax.core.generators import Generator, of
from dpjax.engine.evaluate import rebind


class Batched(NamedTuple):
    """A value that differs between the members of the batch."""

    value: Any  # array (..., B), or keys as Words or Deferred


@partial(
    jax.tree_util.register_dataclass, data_fields=("first", "second"), meta_fields=("generator",)
)
@dataclass(frozen=True)
class Words:
    """Keys as two arrays."""

    first: Array  # uint32
    second: Array  # uint32
    generator: Generator


class Deferred(NamedTuple):
    """Keys whose fold-in is deferred to the kernel that draws from them."""

    keys: Any  # Words or Deferred
    data: Array  # uint32, still to be folded in


def is_key_type(atom) -> bool:
    """Whether a variable of a program holds keys."""
    return jnp.issubdtype(atom.aval.dtype, jax.dtypes.prng_key)


def is_key(value) -> bool:
    """Whether a value, shared or Batched, holds keys."""
    if isinstance(value, Batched):
        return isinstance(value.value, Words | Deferred)
    return jnp.issubdtype(jnp.result_type(value), jax.dtypes.prng_key)


def flags_of(values) -> list[bool]:
    """Which values differ between the members."""
    return [isinstance(x, Batched) for x in values]


def as_batched(array) -> Batched:
    """The Batched value of an array with the batch as its last axis; keys become words."""
    return Batched(_words(array) if of(array.dtype) else array)


def _words(keys) -> Words:
    data = jr.key_data(keys)
    generator = of(keys.dtype)
    assert generator is not None  # other keys are excluded by the callers
    return Words(data[..., 0], data[..., 1], generator)


def as_array(value):
    """The array of a value; words become keys again."""
    array = computed(value).value if isinstance(value, Batched) else value
    if isinstance(array, Words):
        return array.generator.wrap(jnp.stack([array.first, array.second], axis=-1))
    return array


def repeated(value, batch) -> Batched:
    """The value as Batched. A shared value is repeated for each member."""
    if isinstance(value, Batched):
        return computed(value)
    value = jnp.asarray(value)
    if of(value.dtype):
        value = _words(value)
    return Batched(jax.tree.map(lambda x: _spread(x, x.shape, batch), value))


def _spread(array, shape, batch):
    """An array without batch axis, () or of the given shape, as (*shape, B)."""
    return lax.broadcast_in_dim(array, (*shape, batch.size), range(array.ndim))


def fit(operand, shape: tuple[int, ...], batch):
    """The array of an operand, which may be a scalar, in the full shape (*shape, B)."""
    if not isinstance(operand, Batched):
        return _spread(operand, shape, batch)
    array = operand.value
    if array.ndim == len(shape) + 1:
        return array
    return lax.broadcast_in_dim(array, (*shape, batch.size), (len(shape),))


def by_vmap(eqn: Equation, operands: Sequence) -> list:
    """The outputs of an equation, mapped by ``jax.vmap``."""
    axes = [-1 if flag else None for flag in flags_of(operands)]
    arrays = [as_array(x) for x in operands]
    outputs = jax.vmap(lambda *xs: rebind(eqn, [*xs]), in_axes=axes, out_axes=-1)(*arrays)
    return [as_batched(x) for x in outputs]


# The following functions separate kernels. CPU compilers repeat a draw in every kernel that reads
# it, whether the draw has twenty instructions or two thousand. But they do not fuse across a
# condition, even one that is always true.


def always_true(arrays):
    """A condition on one of the arrays, () bool. It is always true, but compilers cannot know that.

    None if no array is suitable.
    """
    for array in arrays:
        if array.size and array.dtype.itemsize == 4 and not is_key(array):
            word = lax.bitcast_convert_type(array[(0,) * array.ndim], jnp.uint32)
            return (word | np.uint32(1)) != np.uint32(0)
    return None


def isolated(function: Callable, zeros: Callable, batch, *arrays):
    """``function(*arrays)`` in kernels that are not fused with other operations.

    Args:
      function: takes these arrays.
      zeros: () -> zeros of the types that the function returns. Without it, the function would be
        traced twice, and tracing a game would take a fifth longer.
      batch: see the module docstring.
    """
    if batch.always_true is None:
        return function(*arrays)
    return lax.cond(batch.always_true, function, lambda *_: zeros(), *arrays)


def zeros_of(aval, batch) -> Batched:
    """Zeros of a type for each member; keys are words of zeros."""
    shape, generator = (*aval.shape, batch.size), of(aval.dtype)
    if generator:
        return Batched(Words(jnp.zeros(shape, np.uint32), jnp.zeros(shape, np.uint32), generator))
    return Batched(jnp.zeros(shape, aval.dtype))


def pairs(function: Callable, shape: tuple[int, ...], batch, keys, *arrays) -> Words:
    """The words ``function(keys, *arrays)`` of new keys (*shape, B), computed in one kernel.

    A kernel writes one array, and two kernels would compute every block twice. So one kernel
    returns the two words as the real and imaginary parts of a complex number.
    """
    if batch.always_true is None:
        first, second = function(keys, *arrays)
        return Words(first, second, keys.generator)

    def joined(*arrays):
        real, imaginary = (lax.bitcast_convert_type(x, np.float32) for x in function(*arrays))
        return lax.complex(real, imaginary)

    def zeros():
        return jnp.zeros((*shape, batch.size), np.complex64)

    both = isolated(joined, zeros, batch, keys, *arrays)
    first, second = (
        lax.bitcast_convert_type(x, np.uint32) for x in (lax.real(both), lax.imag(both))
    )
    return Words(first, second, keys.generator)


def computed(value, batch=None):
    """A value with deferred keys computed as Words, in a separate kernel if ``batch`` is given."""
    if not (isinstance(value, Batched) and isinstance(value.value, Deferred)):
        return value
    keys, data = value.value
    keys = computed(Batched(keys), batch).value

    def fold(keys, data):
        return _block(keys.generator.block, keys.first, keys.second, data)[:2]

    if batch:
        return Batched(pairs(fold, data.shape[:-1], batch, keys, data))
    return Batched(Words(*fold(keys, data), keys.generator))


# The following functions make or use keys. The block function is inlined, so that compilers fuse it
# with the code that uses the words. All members of the batch share the counters.


@partial(jax.jit, static_argnums=0)
def _block(block: Callable, *words) -> tuple:
    """A block as one call, so that it is traced and lowered once for all draws of a shape."""
    return block(*words)


def _blocks(keys: Words, shape) -> tuple:
    """Blocks 0, 1, ... of each key (..., B) in a new shape: words (..., *shape, B)."""
    count = int(np.prod(shape))
    low = lax.reshape(lax.iota(np.uint32, count), (*shape, 1))
    inner = keys.first.shape[:-1]
    spread = [x.reshape(*inner, *[1] * len(shape), x.shape[-1]) for x in (keys.first, keys.second)]
    full = (*inner, *shape, keys.first.shape[-1])
    first, second, low = (jnp.broadcast_to(x, full) for x in (*spread, low))
    return _block(keys.generator.block, first, second, low)


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
        drawn = words.generator.number(_blocks(words, shape))
        return lax.convert_element_type(drawn, dtype)

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

    # This is isolated, because a kernel that interleaves is not vectorized with later operations.
    return [Batched(isolated(interleave, lambda: jnp.zeros(shape, np.uint32), batch, words))]


def _random_wrap(eqn, operands, batch) -> list:
    (data,) = operands
    generator = of(eqn.outvars[0].aval.dtype)
    if not generator:
        return by_vmap(eqn, operands)
    return [Batched(Words(data.value[..., 0, :], data.value[..., 1, :], generator))]


# Each is (equation, operands, batch) -> outputs.
KEY_RULES = {
    "random_bits": _random_bits,
    "random_fold_in": _random_fold_in,
    "random_split": _random_split,
    "random_unwrap": _random_unwrap,
    "random_wrap": _random_wrap,
}
