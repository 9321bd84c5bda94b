"""Counter-based generators: a block function, and the keys and numbers made from its words."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax import random as jr
from jax.extend.random import define_prng_impl


class Generator(NamedTuple):
    """A generator with keys of two words, whose draws are blocks of a key and a counter.

    The i-th 32-bit number of a key is ``number`` of block i. Key i of a split, and the key that
    folds in i, are the first two words of block i.

    Examples:
      >>> generator = generators.of(jax.random.key(0).dtype)
      >>> generator.name, int(generator.number((jnp.uint32(6), jnp.uint32(3))))
      ('threefry2x32', 5)
    """

    name: str
    block: Callable  # (first, second, counter), uint32 that broadcast -> at least two random words
    number: Callable  # the words of a block -> the number that is drawn from it
    impl: Any  # as for ``jax.random.key``
    text: Callable | None = None  # index of a word -> PTX of a block that returns this word

    def wrap(self, words: jax.Array) -> jax.Array:
        """Convert an array of words (..., 2) into keys (...).

        Examples:
          >>> generator = generators.of(jax.random.key(0).dtype)
          >>> generator.wrap(jnp.zeros((3, 2), jnp.uint32)).shape
          (3,)
        """
        return jr.wrap_key_data(words, impl=self.impl)


# Generators by the name of their keys' dtype. Draws depend only on the key, not on the batch.
KNOWN: dict[str, Generator] = {}


def defined(name: str, tag: str, block: Callable, number: Callable, text: Any = None) -> Generator:
    """Define a Generator, with an implementation for JAX.

    Seeds are converted to keys as in JAX's default generator.

    Args:
      name: the name of the generator.
      tag: the dtype of its keys is key<tag>.
      block, number, text: as in :class:`Generator`.
    """

    def blocks(key, shape):
        """The blocks 0, 1, ... of a key, as arrays of this shape."""
        count = math.prod(shape)
        if count >= 2**32:
            raise ValueError(f"shape must have fewer than 2^32 entries for {name}, got {shape}")
        low = lax.iota(np.uint32, count).reshape(shape)
        return block(*(jnp.broadcast_to(word, shape) for word in key), low)

    def from_seed(seed):
        return jr.key_data(jr.key(seed, impl="threefry2x32"))

    def split(key, shape):
        return jnp.stack(blocks(key, shape)[:2], axis=-1)

    def random_bits(key, bit_width, shape):
        if bit_width == 64:
            first, second, *_ = (
                lax.convert_element_type(x, jnp.uint64) for x in blocks(key, shape)
            )
            return lax.shift_left(first, jnp.full_like(first, 32)) | second
        return lax.convert_element_type(number(blocks(key, shape)), f"uint{bit_width}")

    def fold_in(key, data):
        return jnp.stack(block(*key, jnp.asarray(data, jnp.uint32))[:2])

    impl = define_prng_impl(
        key_shape=(2,), seed=from_seed, split=split, random_bits=random_bits, fold_in=fold_in,
        name=name, tag=tag,
    )  # fmt: skip
    generator = KNOWN[f"key<{tag}>"] = Generator(name, block, number, impl, text)
    return generator


def of(dtype: Any) -> Generator | None:
    """The Generator of keys of this dtype, or None.

    For JAX's default keys it is None if the flag ``jax_threefry_partitionable`` is off.

    Examples:
      >>> generators.of(jax.random.key(0, impl=generators.threefry13).dtype).name
      'threefry2x32_13'
      >>> generators.of(jax.random.key(0, impl="rbg").dtype) is None
      True
    """
    if not jnp.issubdtype(dtype, jax.dtypes.prng_key):
        return None
    generator = KNOWN.get(str(dtype))
    partitionable = jax.config.jax_threefry_partitionable  # type: ignore[attr-defined]
    if generator is not None and generator.impl == "threefry2x32" and not partitionable:
        return None
    return generator
