"""Functions mapped by batch_last and by jax.vmap, for tests that compare the two."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
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
# Functions of a matrix and an index, which kernels for accelerators compute too.
OPERATIONS = [
    lambda x, i: (jnp.sum(x, 1), jnp.cumsum(x, 0), jnp.argmax(x, 1), jnp.argmin(x, 0)),
    lambda x, i: (x[i], x.at[i].add(2.0), x.at[:, i].set(1.0), x[:, ::-1]),
    lambda x, i: (lax.dynamic_slice(x, (i, i), (2, 2)), jnp.take(x, i, axis=1)),
    lambda x, i: (lax.dynamic_update_slice(x, x[:2, :1], (i, i)), x.at[i, i].min(-1.0)),
    lambda x, i: (jnp.sort(x, 1), jnp.argsort(x, 0), jnp.pad(x, 1), jnp.split(x, 3)[1]),
    lambda x, i: (lax.pad(x, 0.5, ((-1, 2, 1), (0, 0, 0))), x.at[i + 2].mul(3.0)),
    lambda x, i: (lax.cumsum(x, 1, reverse=True), jnp.concatenate([x, x]), jnp.tile(x, 2)),
    lambda x, i: (x[jnp.stack([i, 2 - i])], jnp.take(x, i + 1, axis=0, mode="clip")),
    lambda x, i: (jnp.take(x, i + 1, axis=0, mode="fill"), jax.vmap(lambda r: r[i])(x)),
    lambda x, i: jnp.take_along_axis(x, jnp.stack([i, 1 - i % 2, i])[:, None], 1),
    lambda x, i: lax.switch(i, [lambda: x, lambda: 2.0 * x, lambda: -x]),
    lambda x, i: lax.scan(lambda c, r: (c + r, c * r[0]), x[0], x),
    lambda x, i: lax.scan(lambda c, r: (c + r, ()), x[0], jnp.concatenate([x, x, x]))[0],
    lambda x, i: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2.0), (i, x)),
    lambda x, i: (jr.normal(jr.fold_in(jr.key(1), i), (2,)), jr.bits(jr.split(jr.key(2), 3)[1])),
    lambda x, i: (jnp.where(i > 1, x, 0.0), jnp.all(x > 0.0), jnp.max(x), jnp.prod(x, 0)),
    lambda x, i: (jnp.unstack(x, axis=1)[0], [*x][1]),
    # Each row stops independently.
    lambda x, i: jax.vmap(
        lambda row: lax.while_loop(lambda c: jnp.sum(c) < 9.0, lambda c: 2.0 * c, row)
    )(jnp.abs(x) + jnp.arange(1.0, 4.0)[:, None]),
]
