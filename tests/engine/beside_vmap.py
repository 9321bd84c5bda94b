"""Functions mapped by batch_last and by jax.vmap, for tests that compare the two."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr

from dpjax.engine import one_kernel
from dpjax.engine.batch_last import batch_last

B = 5


def compiled(function, *arguments):
    """The value of a function, compiled as sweeps are.

    LLVM chooses its own vector lengths, and contracts products and sums of short rows in some
    places and not in others. Then the same draws in two layouts differ in their last bits.
    """
    options = one_kernel._OPTIONS_OF_MANY if jax.default_backend() == "cpu" else None
    return jax.jit(function).lower(*arguments).compile(options)(*arguments)


def both(function, batched, *arguments):
    """The compiled values of a function under vmap and under batch_last."""
    axes = tuple(-1 if flag else None for flag in batched)
    expected = compiled(jax.vmap(function, in_axes=axes, out_axes=-1), *arguments)
    return expected, compiled(batch_last(function, batched), *arguments)


def data(leaf):
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jr.key_data(leaf) if is_key else leaf)


def assert_same_bits(expected, found):
    assert jax.tree.structure(expected) == jax.tree.structure(found)
    for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(data(a), data(b))


def check(function, *arguments, batched=None):
    """All arguments are batched by default."""
    assert_same_bits(*both(function, batched or (True,) * len(arguments), *arguments))


VECTOR = np.random.default_rng(0).normal(size=(3, B)).astype(np.float32)
MATRIX = np.random.default_rng(1).normal(size=(4, 3, B)).astype(np.float32)
INDEX = np.arange(B, dtype=np.int32) % 3
KEYS = jr.split(jr.key(0), B)
