"""The map over last axes gives the numbers of jax.vmap, and shares what does not depend on it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax import random as jr

from dpjax import learners, noise, simulate
from dpjax.engine import one_kernel
from dpjax.engine.batch_last import batch_last
from dpjax.generators import threefry2x32
from dpjax.maths import laws
from tests import test_conformance as conformance

B = 5


def compiled(function, *arguments):
    """What a function gives, compiled as sweeps are.

    By its own choice of vectors LLVM contracts the products and sums of a few numbers a row in some
    places and not in others, so that the same draws of two layouts differ in their last bits.
    """
    options = one_kernel._OPTIONS_OF_MANY if jax.default_backend() == "cpu" else None
    return jax.jit(function).lower(*arguments).compile(options)(*arguments)


def both(function, batched, *arguments):
    """What vmap and batch_last make of a function, compiled."""
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
    """All arguments batched, unless said otherwise."""
    assert_same_bits(*both(function, batched or (True,) * len(arguments), *arguments))


VECTOR = np.random.default_rng(0).normal(size=(3, B)).astype(np.float32)
MATRIX = np.random.default_rng(1).normal(size=(4, 3, B)).astype(np.float32)
INDEX = np.arange(B, dtype=np.int32) % 3
KEYS = jr.split(jr.key(0), B)


@pytest.mark.parametrize(
    "function",
    [
        lambda m, v, i: (m + v[None], m * 2.0, jnp.exp(m) / jnp.sum(jnp.exp(m)), m[0, 0] * v),
        lambda m, v, i: (m.T, m.reshape(6, 2), m.ravel(), m[1:3, ::2], jnp.flip(m, 1), m[:, None]),
        lambda m, v, i: (
            jnp.sum(m, 0),
            jnp.max(m, 1),
            jnp.argmin(m, 0),
            jnp.cumsum(m, 1),
            jnp.all(m),
        ),
        lambda m, v, i: (
            jnp.sort(m, 0),
            jnp.argsort(v),
            jnp.concatenate([m, m + 1.0]),
            jnp.stack([v, v]),
        ),
        lambda m, v, i: (
            v[i],
            m[i],
            m.at[i].set(v),
            m.at[2].add(v),
            lax.dynamic_slice(v, (i,), (2,)),
        ),
        lambda m, v, i: (jnp.where(i > 1, v, 0.0), jnp.clip(v, -0.5, i.astype(jnp.float32))),
        lambda m, v, i: (
            m @ v,
            m.T @ m,
            jnp.linalg.cholesky(m.T @ m + jnp.eye(3)),
            jnp.linalg.inv(m[:3]),
        ),
        lambda m, v, i: (
            jnp.pad(m, 1),
            jnp.pad(v, 1, constant_values=v[0]),
            lax.erf_inv(v / 9.0),
            jnp.roll(v, 1),
        ),
        lambda m, v, i: (
            lax.bitcast_convert_type(v, jnp.int32),
            lax.bitcast_convert_type(v, jnp.uint8),
        ),
        lambda m, v, i: (jnp.float32(1.0), jnp.arange(3), jax.nn.relu(v), jax.nn.softplus(v)),
        lambda m, v, i: jnp.split(m, 2),
    ],
)
def test_operations(function):
    check(function, MATRIX, VECTOR, INDEX)


@pytest.mark.parametrize("batched", [(True, False), (False, True)])
def test_an_argument_may_be_shared(batched):
    vector, number = VECTOR if batched[0] else VECTOR[:, 0], INDEX if batched[1] else INDEX[2]

    def function(v, i):
        return v * i.astype(jnp.float32), v[i], jnp.concatenate([v, v]), jnp.sum(v), i + 1

    check(function, vector, number, batched=batched)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
@pytest.mark.parametrize("dtype", [jnp.uint8, jnp.uint16, jnp.uint32])
def test_random_bits(shape, dtype):
    check(lambda key: jr.bits(key, shape, dtype), KEYS)


def test_words_are_kept_whatever_numbers_they_look_like():
    """The two words of a key go from one kernel to the next as one complex number."""
    keys = jr.split(jr.key(1), 2048)
    words = jr.key_data(jax.vmap(lambda key: jr.fold_in(key, 1))(keys))
    floats = np.asarray(words).view(np.float32)
    tiny = np.abs(floats) < np.finfo(np.float32).tiny
    # Of NaN that signal and NaN that do not, infinity aside, and of numbers that are flushed to 0.
    quiet = (np.asarray(words) >> 22 & 1).astype(bool)
    assert (np.isnan(floats) & quiet).any() and (np.isnan(floats) & ~quiet).any() and tiny.any()

    def function(key):
        folded = jr.fold_in(key, 1)
        return folded, jr.split(folded, 3), jr.bits(folded, (2,)), laws.normal(folded, (5,))

    check(function, keys)


@pytest.mark.parametrize("shape", [(), (1,), (4,), (5,), (2, 3)])
def test_noise(shape):
    """Of 64 members: vmap's few short rows are what LLVM contracts in some places only."""
    keys = jr.split(jr.key(0), 64)
    scale = np.arange(64, dtype=np.float32)

    def function(key, scale):
        zero = jnp.zeros(shape, jnp.float32)
        return (
            laws.normal(key, shape),
            noise.laplace(key, zero, scale),
            noise.gaussian(jr.fold_in(key, 3), zero, 1.0),
            noise.laplace_along(key, jnp.float32(0.0), scale, jnp.ones(3)),
        )

    check(function, keys, scale)


def test_draws():
    def function(key, i):
        a, b, c = jr.split(key, 3)
        grid = jr.split(jr.fold_in(b, 7), (2, 2))
        return (
            jr.uniform(a, (4,)),
            jr.normal(b),
            jr.laplace(c, (2,)),
            jr.gumbel(a),
            jr.bernoulli(b, 0.3),
            jr.randint(c, (3,), 0, 9),
            jr.permutation(a, 4),
            jr.choice(b, 4),
            grid,
            jr.uniform(grid[1, 0]),
            jr.fold_in(a, i),
            jr.fold_in(a, jnp.uint8(3)),
            jr.key_data(a),
            jr.wrap_key_data(jr.key_data(b)),
            jnp.where(i > 0, a, b),
            grid.T.ravel(),
            jr.clone(a),
            jr.key(i),
        )

    check(function, KEYS, INDEX)


def test_draws_by_rejection_agree_to_rounding():
    expected, found = both(lambda key: (jr.gamma(key, 0.3), jr.poisson(key, 2.0)), (True,), KEYS)
    np.testing.assert_allclose(expected[0], found[0], rtol=1e-6)
    np.testing.assert_array_equal(expected[1], found[1])


def test_keys_in_shared_and_batched_company():
    check(
        lambda key, i: jr.uniform(jr.fold_in(key, i), (2,)), jr.key(1), INDEX, batched=(False, True)
    )
    check(lambda key, i: jr.fold_in(key, i), KEYS, np.int32(3), batched=(True, False))
    check(lambda keys, i: jnp.stack([*jnp.where(i > 0, keys, jr.key(5))]), KEYS[None], INDEX)


@pytest.mark.parametrize("implementation", ["rbg", "unsafe_rbg"])
def test_other_generators_are_left_to_vmap(implementation):
    keys = jr.split(jr.key(0, impl=implementation), B)
    check(lambda key: (jr.fold_in(key, 3), jr.split(key), jr.key_data(key)), keys)


def test_threefry_without_partitioning_is_left_to_vmap():
    with jax.threefry_partitionable(False):
        check(lambda key: (jr.uniform(key, (3,)), jr.split(key), jr.fold_in(key, 2)), KEYS)


def test_the_block_function_is_threefry():
    """Known answers of Salmon et al. 2011: all zeros, all ones, digits of pi."""
    for key, counter, expected in [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ]:
        words = [jnp.asarray([word], jnp.uint32) for word in (*key, *counter)]
        found = threefry2x32(*words, 20)
        assert tuple(int(word[0]) for word in found) == expected


def test_conditions():
    def function(v, i, shared):
        return (
            lax.cond(i > 0, lambda: v, lambda: jnp.zeros(3)),
            lax.switch(i, [lambda: v, lambda: 2.0 * v, lambda: -v]),
            lax.cond(shared, lambda: (v, jnp.ones(2)), lambda: (jnp.ones(3), jnp.zeros(2))),
            lax.cond(i > 0, lambda k: jr.split(k)[0], lambda k: k, jr.key(0)),
        )

    check(function, VECTOR, INDEX, np.bool_(True), batched=(True, True, False))
    check(function, VECTOR, INDEX, np.bool_(False), batched=(True, True, False))


def test_a_place_of_each_members_own():
    """Among few places, also out of range, where jax moves it inside; among many; of keys."""
    many = np.zeros((1100, B), np.float32)

    def function(m, v, i, key, many):
        keys = jr.split(key, 3)
        return (
            lax.dynamic_update_index_in_dim(m, v, i, 0),
            lax.dynamic_update_index_in_dim(m, v, 2 * i - 1, 0),
            lax.dynamic_update_index_in_dim(m, v, 4 * i, 0),
            lax.dynamic_update_slice(m, v[:1, None], (i, i + 1)),
            lax.dynamic_update_slice(m, m[:2, :1], (i, jnp.int32(1))),
            lax.dynamic_update_slice(v, v[:1], (i,)),
            lax.dynamic_update_index_in_dim(keys, key, i, 0),
            lax.dynamic_update_slice(many, v[:1], (i + 7,)),
        )

    check(function, MATRIX, VECTOR, INDEX, KEYS, many)


NUMBERS = lax.GatherDimensionNumbers, lax.ScatterDimensionNumbers
MODES = ("clip", "fill", "promise_in_bounds")
UPDATES = ("set", "add", "subtract", "multiply", "min", "max")
# What is neither to leak from other places nor to be lost: the sign of 0 and the bits of NaN too.
ODD = np.float32([np.nan, np.inf, -np.inf, -0.0, 0.0])
OUT_OF_RANGE = np.array([-70, -5, -4, -1, 0, 1, 3, 4, 5, 70, 2**31 - 1, -(2**31)], np.int32)


def of_dtype(dtype, shape, seed=0):
    """Random numbers, a third of them odd where they are floats."""
    rng = np.random.default_rng(seed)
    numbers = 3.0 * rng.normal(size=shape)
    if np.issubdtype(dtype, np.floating):
        numbers = np.where(rng.uniform(size=shape) < 0.3, rng.choice(ODD, shape), numbers)
        return numbers.astype(dtype)
    return (numbers > 0) if dtype is bool else np.abs(numbers).astype(dtype)


def same_words(function, *arguments, batched=None):
    """The words of vmap, those of NaN too; and no index of a member's own is left to a gather."""
    flags = batched or (True,) * len(arguments)
    program = str(jax.make_jaxpr(batch_last(function, flags))(*arguments))
    assert not any(word in program for word in ("gather", "scatter", "dynamic_"))
    for a, b in zip(*map(jax.tree.leaves, both(function, flags, *arguments)), strict=True):
        a, b = (np.ascontiguousarray(x) for x in (a, b))
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_array_equal(a.view(np.uint8), b.view(np.uint8))


@pytest.mark.parametrize("mode", MODES)
def test_one_place_of_few_is_read_by_comparison(mode):
    """Rows, columns and entries, at any index: out of range each mode does what it does."""
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
    """The draws of keys, and what stands for one that is missing, are those of vmap."""
    flags = MATRIX > 0.0
    keys = jax.vmap(lambda key: jr.split(key, 4), out_axes=-1)(jr.split(jr.key(0), B))

    def function(flags, keys, i):
        odd = 3 * i - 2
        return (
            flags.at[odd].set(True),
            flags.at[:, odd].min(flags[:, 0]),
            keys[odd],
            jr.uniform(keys[odd]),
            keys.at[odd].set(keys[0]),
            keys.at[odd].get(mode="clip"),
        )

    check(function, flags, keys, INDEX)


def test_many_places_and_functions_of_an_entry_are_left_to_vmap():
    many = np.random.default_rng(2).normal(size=(1100, B)).astype(np.float32)

    def function(many, m, i):
        return (
            many[i + 1070],
            many.at[i + 1070].add(m[0, 0]),
            m.at[i].apply(jnp.square),
            m[jnp.stack([i, i + 1])],
            lax.dynamic_slice(m, (i, 0), (2, 3)),
            lax.complex(m, m)[i],
        )

    check(function, many, MATRIX, INDEX)


def test_random_indexing():
    """Arrays of up to three axes, any of them at an index of each member's own or at a shared one.

    By the functions of lax, whose parts have any size that fits and whose starts are anywhere.
    """
    rng = np.random.default_rng(3)
    for _ in range(3):
        shape = tuple(rng.integers(1, 5, size=rng.integers(1, 4)))
        sizes = [int(rng.choice([1, n])) for n in shape]
        starts = rng.integers(-2, 7, size=(len(shape), B)).astype(np.int32)
        own = rng.random(len(shape)) < 0.7
        operand = of_dtype(np.float32, (*shape, B), int(rng.integers(99)))
        update = of_dtype(np.float32, (*sizes, B), int(rng.integers(99)))
        indexed = tuple(int(a) for a in np.flatnonzero(rng.random(len(shape)) < 0.7))
        window = tuple(range(len(shape)))

        def function(x, u, starts):
            where = [starts[a] if own[a] else jnp.int32(a - 1) for a in range(len(shape))]  # noqa: B023
            vector = jnp.stack([where[a] for a in indexed] or [jnp.int32(0)])[: len(indexed)]  # noqa: B023
            found = [lax.dynamic_slice(x, where, sizes), lax.dynamic_update_slice(x, u, where)]  # noqa: B023
            for mode in MODES:
                read, write = (kind(window, (), indexed) for kind in NUMBERS)  # noqa: B023
                found.append(lax.gather(x, vector, read, sizes, mode=mode))  # noqa: B023
                found += [
                    scatter(x, vector, u, write, mode=mode)
                    for scatter in (lax.scatter, lax.scatter_add, lax.scatter_max, lax.scatter_sub)
                ]
            return found

        check(function, operand, update, starts)


def test_a_branch_that_no_member_takes():
    """Neither its numbers, NaN here, nor its keys are seen, of whatever kind they are."""

    def function(v, i, key, other):
        return (
            lax.cond(i > 5, lambda: jnp.log(v - 9.0), lambda: v),
            lax.switch(i, [lambda: v, lambda: jnp.exp(v), lambda: -v, lambda: v * jnp.nan]),
            lax.cond(i > 5, lambda: jr.fold_in(key, 1), lambda: jr.fold_in(key, i)),
            lax.cond(i > 0, lambda: jr.fold_in(other, 1), lambda: other),
        )

    check(function, VECTOR, INDEX, KEYS, jr.split(jr.key(2, impl="unsafe_rbg"), B))


def test_loops():
    def function(v, i, key):
        def halve(carry):
            x, n, key = carry
            return 0.5 * x, n + 1, jr.fold_in(key, n)

        def shift(carry, row):
            a, b, c = carry
            return (b, c + row, c), (a, jnp.sum(row))

        return (
            lax.while_loop(lambda c: jnp.max(c[0]) > 0.1, halve, (jnp.abs(v), 0, key)),
            lax.fori_loop(0, i, lambda t, x: x + t.astype(jnp.float32), v),
            lax.fori_loop(0, 4, lambda t, x: x.at[t % 3].add(1.0), v),
            # What is carried becomes batched one round after another.
            lax.scan(shift, (jnp.zeros(3), jnp.zeros(3), v), jnp.ones((4, 3))),
            lax.scan(lambda c, k: (c + jr.uniform(k), c), 0.0, jr.split(key, 4), reverse=True),
        )

    check(function, VECTOR, INDEX, KEYS)


def random_function(seed):
    """A program of fifteen random equations, with a loop and a condition in it."""
    rng = np.random.default_rng(seed)
    unary = [
        jnp.sin,
        jnp.abs,
        jnp.exp,
        jnp.cumsum,
        jnp.sort,
        jnp.flip,
        jnp.tanh,
        lambda x: x + jnp.sum(x),
    ]
    binary = [
        jnp.add,
        jnp.multiply,
        jnp.maximum,
        lambda x, y: jnp.where(x > y, x, -y),
        lambda x, y: jnp.concatenate([x, y])[::2],
        lambda x, y: lax.cond(x[0] > y[0], jnp.sin, jnp.cos, y),
        lambda x, y: lax.fori_loop(0, 3, lambda t, z: jnp.tanh(z + y * t.astype(jnp.float32)), x),
        lambda x, y: lax.scan(lambda c, r: (c * r, c[0]), x, y)[1] + x,
    ]
    plan = []
    for size in range(3, 18):
        operations = unary if rng.random() < 0.5 else binary
        count = 1 if operations is unary else 2
        plan.append((operations[rng.integers(len(operations))], rng.integers(size, size=count)))

    def function(x, y, key):
        values = [x, y, jr.normal(key, x.shape)]
        for operation, places in plan:
            values.append(jnp.clip(operation(*[values[i] for i in places]), -3.0, 3.0))
        return values

    return function


@pytest.mark.parametrize("seed", range(6))
def test_random_programs(seed):
    """To rounding: where compilers contract a product and a sum differs between layouts."""
    batched = [(True, True, True), (True, False, True), (False, False, True)][seed % 3]
    arguments = [VECTOR if flag else VECTOR[:, i] for i, flag in enumerate(batched[:2])]
    expected, found = both(random_function(seed), batched, *arguments, KEYS)
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_what_is_shared_carries_no_batch():
    """A round counter stays a number through a loop, and a write at it one slice for all."""

    def function(x):
        def body(t, carry):
            history, counter = carry
            return history.at[counter].set(x), counter + 1

        return lax.fori_loop(0, 4, body, (jnp.zeros(4), jnp.zeros((), jnp.int32)))

    program = jax.make_jaxpr(batch_last(function, (True,)))(VECTOR[0])
    (loop,) = [eqn for eqn in program.eqns if eqn.primitive.name in ("scan", "while")]
    assert sorted(v.aval.shape for v in loop.outvars if v.aval.dtype == jnp.int32) == [(), ()]
    (write,) = [eqn for eqn in loop.params["jaxpr"].eqns if "scatter" in eqn.primitive.name]
    assert write.invars[1].aval.shape == (1,)


def test_draws_are_written_out():
    """No block function is left to a loop of its own."""
    program = jax.make_jaxpr(batch_last(lambda key: jr.uniform(jr.fold_in(key, 1)), (True,)))(KEYS)
    assert "threefry2x32" not in str(program) and "random_bits" not in str(program)


def test_twice():
    """Over points and then over seeds: what the inner map shares, the outer one still maps."""

    def function(point, seed):
        nature = jr.normal(jr.fold_in(jr.key(0), seed), (3,))
        return nature * point, nature, point

    expected = jax.vmap(
        jax.vmap(function, in_axes=(0, None), out_axes=-1), in_axes=(None, 0), out_axes=-1
    )
    found = batch_last(batch_last(function, (True, False)), (False, True))
    points = np.array([0.5, 2.0], np.float32)
    assert_same_bits(expected(points, INDEX), found(points, INDEX))


@pytest.mark.parametrize(
    ("batched", "arguments"),
    [((False,), (VECTOR,)), ((True, True), (VECTOR, VECTOR[:, :2]))],
)
def test_bad_batches_are_refused(batched, arguments):
    with pytest.raises(ValueError, match="one common last axis"):
        batch_last(lambda *xs: xs, batched)(*arguments)


EPSILONS = np.array([0.1, 1.0, np.inf], np.float32)


def check_game(learner, environment, points):
    """A game over points and then seeds, its actions and final state beside its regret."""

    def cell(point, seed):
        played = conformance.recorded(learner(point), environment)
        return simulate(*played, jr.fold_in(jr.key(3), seed), checkpoints=3)

    seeds = jnp.arange(9)
    inner = jax.vmap(cell, in_axes=(0, None), out_axes=-1)
    expected = compiled(jax.vmap(inner, in_axes=(None, 0), out_axes=-1), points, seeds)
    inner = batch_last(cell, (True, False))
    found = compiled(batch_last(inner, (False, True)), points, seeds)
    for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True):
        # Equal bits but for sums of products, which compilers may contract: in SCRiBLE.
        a, b = data(a), data(b)
        largest = float(np.max(np.abs(a), initial=0.0, where=np.isfinite(a)))
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-6 * largest)


def check_learner(name):
    environment = conformance.on_table(name, conformance.table())
    check_game(lambda e: conformance.make(name, epsilon=e), environment, EPSILONS)


@pytest.mark.parametrize("name", ["ftrl", "successive_elimination"])
def test_games(name):
    check_learner(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", learners.__all__)
def test_every_learner(name):
    check_learner(name)
