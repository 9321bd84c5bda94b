"""Threefry2x32, the generator of jax.random, and a faster variant with fewer rounds.

The key decides which one is used. ``jax.random.key(0)`` has the 20 rounds of JAX's default, and
``jax.random.key(0, impl=threefry13)`` has 13, at two thirds of the cost. Salmon et al. chose 20 to
have a margin; 13 are the fewest that they found to pass the BigCrush battery of TestU01. Words that
were drawn in the order in which trajectories draw them passed its Crush battery
(benchmarks/README.md).

Reference: Salmon, Moraes, Dror & Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax import random as jr
from jax.extend.random import define_prng_impl

# The key dtypes whose draws depend on the key alone, and not on what is drawn beside them.
_NAMES = {"key<fry>"}


def threefry2x32(first, second, high, low, rounds):
    """The block function: two random words from two words of the key and two of the counter.

    All are arrays of uint32 that broadcast. The rounds are unrolled, so that compilers fuse them
    with the code that uses the words.

    Examples:
      >>> words = np.zeros((4, 1), np.uint32)  # the key and the counter
      >>> [hex(x.item()) for x in generators.threefry2x32(*words, rounds=20)]
      ['0x6b200159', '0x99ba4efe']
    """
    schedule = (first, second, first ^ second ^ np.uint32(0x1BD11BDA))
    x, y = high + first, low + second
    for i in range(rounds):
        rotation = (13, 15, 26, 6, 17, 29, 16, 24)[i % 8]
        x = x + y
        y = (y << np.uint32(rotation)) | (y >> np.uint32(32 - rotation))
        y = x ^ y
        if i % 4 == 3:
            group = i // 4 + 1
            x = x + schedule[group % 3]
            y = y + schedule[(group + 1) % 3] + np.uint32(group)
    return x, y


def implementation(rounds, name, tag):
    """JAX's generator with this number of rounds, to pass to ``jax.random.key`` as ``impl``.

    Examples:
      >>> keys = jax.random.key(0), jax.random.key(0, impl=generators.threefry13)
      >>> [generators.rounds_of(x.dtype) for x in keys]
      [20, 13]
    """

    def blocks(key, shape):
        """The blocks 0, 1, ... of a key, as two arrays of this shape."""
        count = math.prod(shape)
        if count >= 2**32:
            raise ValueError(f"shape must have fewer than 2^32 entries for {name}, got {shape}")
        low = lax.iota(np.uint32, count).reshape(shape)
        return threefry2x32(
            *(jnp.broadcast_to(word, shape) for word in key), np.uint32(0), low, rounds
        )

    def from_seed(seed):
        return jr.key_data(jr.key(seed, impl="threefry2x32"))

    def split(key, shape):
        return jnp.stack(blocks(key, shape), axis=-1)

    def random_bits(key, bit_width, shape):
        first, second = blocks(key, shape)
        if bit_width == 64:
            first, second = (lax.convert_element_type(x, jnp.uint64) for x in (first, second))
            return lax.shift_left(first, jnp.full_like(first, 32)) | second
        return lax.convert_element_type(first ^ second, f"uint{bit_width}")

    def fold_in(key, data):
        words = threefry2x32(*key, np.uint32(0), jnp.asarray(data, jnp.uint32), rounds)
        return jnp.stack(words)

    _NAMES.add(f"key<{tag}>")
    return define_prng_impl(
        key_shape=(2,), seed=from_seed, split=split, random_bits=random_bits, fold_in=fold_in,
        name=name, tag=tag,
    )  # fmt: skip


threefry13 = implementation(13, "threefry2x32_13", "fry13")


def is_of_the_key_alone(dtype) -> bool:
    """Whether draws from keys of this dtype depend on the key alone, and not on the batch size.

    Examples:
      >>> generators.is_of_the_key_alone(jax.random.key(0).dtype)
      True
      >>> generators.is_of_the_key_alone(jax.random.key(0, impl="rbg").dtype)
      False
    """
    return str(dtype) in _NAMES


def rounds_of(dtype) -> int | None:
    """How many threefry rounds keys of this dtype have; None for any other generator.

    Examples:
      >>> generators.rounds_of(jax.random.key(0).dtype)
      20
      >>> generators.rounds_of(jax.random.key(0, impl=generators.threefry13).dtype)
      13
    """
    if not jnp.issubdtype(dtype, jax.dtypes.prng_key):
        return None
    if str(dtype) == "key<fry13>":
        return 13
    partitionable = jax.config.jax_threefry_partitionable  # type: ignore[attr-defined]
    return 20 if str(dtype) == "key<fry>" and partitionable else None


def wrap(words, rounds):
    """Turns an array of words (..., 2) into threefry keys with this number of rounds.

    Examples:
      >>> key = generators.wrap(jnp.zeros(2, jnp.uint32), 13)
      >>> generators.rounds_of(key.dtype)
      13
    """
    return jr.wrap_key_data(words, impl="threefry2x32" if rounds == 20 else threefry13)
