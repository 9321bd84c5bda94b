"""Reads and writes at an index per member give the numbers of jax.vmap."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax import random as jr

from dpjax.engine.batch_last import batch_last
from tests.engine.beside_vmap import INDEX, MATRIX, B, both, check

MODES = ("clip", "fill", "promise_in_bounds")
UPDATES = ("set", "add", "subtract", "multiply", "min", "max")
# Must neither leak from other places nor get lost: the sign of 0 and the bits of NaN.
ODD = np.float32([np.nan, np.inf, -np.inf, -0.0, 0.0])
OUT_OF_RANGE = np.array([-70, -5, -4, -1, 0, 1, 3, 4, 5, 70, 2**31 - 1, -(2**31)], np.int32)


def of_dtype(dtype, shape, seed=0):
    """Random numbers; of floats, a third are special values."""
    rng = np.random.default_rng(seed)
    numbers = 3.0 * rng.normal(size=shape)
    if np.issubdtype(dtype, np.floating):
        numbers = np.where(rng.uniform(size=shape) < 0.3, rng.choice(ODD, shape), numbers)
        return numbers.astype(dtype)
    return (numbers > 0) if dtype is bool else np.abs(numbers).astype(dtype)


def same_words(function, *arguments, batched=None):
    """The words equal vmap's, including NaN; and no index per member is left to a gather."""
    flags = batched or (True,) * len(arguments)
    program = str(jax.make_jaxpr(batch_last(function, flags))(*arguments))
    assert not any(word in program for word in ("gather", "scatter", "dynamic_"))
    for a, b in zip(*map(jax.tree.leaves, both(function, flags, *arguments)), strict=True):
        a, b = (np.ascontiguousarray(x) for x in (a, b))
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_array_equal(a.view(np.uint8), b.view(np.uint8))


@pytest.mark.parametrize("mode", MODES)
def test_one_place_of_few_is_read_by_comparison(mode):
    """Rows, columns and entries, at any index: out of range, each mode behaves as usual."""
    count = len(OUT_OF_RANGE)
    matrix, cube = (of_dtype(np.float32, shape, 1) for shape in ((4, 3, count), (4, 1, 3, count)))

    def function(m, c, i):
        j = i // 2
        parts = [m.at[i], m.at[:, i], m.at[i, j], c.at[i, 0, j], c.at[i, i]]
        raw = [x.get(mode=mode, wrap_negative_indices=False) for x in parts]
        return raw, m.at[i].get(mode=mode), m[i], m[:, i], m[i, j]

    same_words(function, matrix, cube, OUT_OF_RANGE)


@pytest.mark.parametrize("update", UPDATES)
def test_one_place_of_few_is_written_by_comparison(update):
    count = len(OUT_OF_RANGE)
    matrix, vector = (of_dtype(np.float32, shape, 1) for shape in ((4, 3, count), (4, count)))

    def function(m, v, i):
        parts = [(m.at[i], v[:3]), (m.at[:, i], v), (m.at[i, i // 2], v[0]), (v.at[i], v[1])]
        return [getattr(part, update)(x, mode=mode) for part, x in parts for mode in MODES]

    same_words(function, matrix, vector, OUT_OF_RANGE)


@pytest.mark.parametrize("dtype", [np.float16, np.int32, np.uint8, bool])
def test_places_of_other_types(dtype):
    matrix = of_dtype(dtype, (4, 3, len(OUT_OF_RANGE)))

    def function(m, i):
        own = m.at[i]
        sums = () if dtype is bool else (own.add(m[0]), own.subtract(m[1]), own.multiply(m[2]))
        read = [own.get(mode=mode) for mode in MODES]
        return read, m[i, i], own.set(m[0]), own.min(m[1]), own.max(m[2]), sums

    same_words(function, matrix, OUT_OF_RANGE)


@pytest.mark.parametrize("shared", [0, 1])
def test_places_in_what_is_shared(shared):
    matrix, vector = (of_dtype(np.float16, shape) for shape in ((4, 3, 12), (4, 12)))
    arguments = [matrix, vector]
    arguments[shared] = arguments[shared][..., 0]

    def function(m, v, i):
        return m[i], v[i], m.at[:, i].set(v), m.at[i, 1].add(v[0]), v.at[i].multiply(np.float16(2))

    batched = (shared != 0, shared != 1, True)
    same_words(function, *arguments, OUT_OF_RANGE, batched=batched)


@pytest.mark.parametrize("index", [np.uint8, np.int8, np.uint32])
def test_indices_of_other_types(index):
    places = np.array([0, 3, 4, 100, 255], np.int64).astype(index)
    modes = [{"mode": mode, "wrap_negative_indices": False} for mode in MODES]

    def function(m, i):
        return [m.at[i].get(**mode) for mode in modes], [m.at[i].add(m[0], **m_) for m_ in modes]

    same_words(function, MATRIX, places)


def test_flags_and_keys_at_a_place():
    """The draws of keys, and the values for missing ones, are those of vmap."""
    keys = jax.vmap(lambda key: jr.split(key, 4), out_axes=-1)(jr.split(jr.key(0), B))

    def function(flags, keys, i):
        odd = 3 * i - 2
        return (
            flags.at[odd].set(True), flags.at[:, odd].min(flags[:, 0]), keys[odd],
            jr.uniform(keys[odd]), keys.at[odd].set(keys[0]), keys.at[odd].get(mode="clip"),
        )  # fmt: skip

    check(function, MATRIX > 0.0, keys, INDEX)


def test_many_places_and_functions_of_an_entry_are_left_to_vmap():
    many = np.random.default_rng(2).normal(size=(1100, B)).astype(np.float32)

    def function(many, m, i):
        return (
            many[i + 1070], many.at[i + 1070].add(m[0, 0]), m.at[i].apply(jnp.square),
            m[jnp.stack([i, i + 1])], lax.dynamic_slice(m, (i, 0), (2, 3)), lax.complex(m, m)[i],
        )  # fmt: skip

    check(function, many, MATRIX, INDEX)
