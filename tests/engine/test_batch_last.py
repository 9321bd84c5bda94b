"""The map over last axes gives the numbers of jax.vmap, and does not copy unbatched values."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax import random as jr

from dpjax import noise
from dpjax.engine.batch_last import batch_last
from dpjax.maths import laws
from tests.engine.beside_vmap import INDEX, KEYS, MATRIX, OPERATIONS, VECTOR, B, both, check
from tests.refusals import refuses

# Those that no kernel for accelerators computes, and cases that only batching tells apart.
MORE = [
    lambda m, i: (m + m[:1], jnp.exp(m) / jnp.sum(jnp.exp(m)), m[0, 0] * m[1], m.T, m.ravel()),
    lambda m, i: (m @ m[0], m.T @ m, jnp.linalg.cholesky(m.T @ m + jnp.eye(3)), jnp.linalg.inv(m)),
    lambda m, i: (jnp.pad(m[0], 1, constant_values=m[0, 0]), lax.erf_inv(m / 9.0), m[1:3, ::2]),
    lambda m, i: (jnp.clip(m, -0.5, i.astype(jnp.float32)), jnp.roll(m, 1), jax.nn.softplus(m)),
    lambda m, i: (
        lax.bitcast_convert_type(m, jnp.int32), lax.bitcast_convert_type(m, jnp.uint8),
        jnp.float32(1.0), jnp.arange(3), m[:, None], jnp.stack([m, m]),
    ),
    lambda m, i: lax.fori_loop(0, i, lambda t, x: x + t.astype(jnp.float32), m),
    lambda m, i: lax.fori_loop(0, 4, lambda t, x: x.at[t % 3].add(1.0), m),
    # The carry becomes batched one entry per round.
    lambda m, i: lax.scan(
        lambda c, row: ((c[1], c[2] + row, c[2]), (c[0], jnp.sum(row))),
        (jnp.zeros(3), jnp.zeros(3), m[0]), jnp.ones((4, 3)),
    ),
    lambda m, i: lax.scan(
        lambda c, k: (c + jr.uniform(k), c), 0.0, jr.split(jr.fold_in(jr.key(0), i), 4),
        reverse=True,
    ),
]  # fmt: skip


@pytest.mark.parametrize("function", OPERATIONS + MORE)
def test_operations(function):
    check(function, MATRIX[:3], INDEX)


@pytest.mark.parametrize("batched", [(True, False), (False, True)])
def test_an_argument_may_be_shared(batched):
    vector, number = VECTOR if batched[0] else VECTOR[:, 0], INDEX if batched[1] else INDEX[2]

    def function(v, i):
        return v * i.astype(jnp.float32), v[i], jnp.concatenate([v, v]), jnp.sum(v), i + 1

    check(function, vector, number, batched=batched)


def test_conditions():
    def function(v, i, shared):
        return (
            lax.cond(i > 0, lambda: v, lambda: jnp.zeros(3)),
            lax.cond(shared, lambda: (v, jnp.ones(2)), lambda: (jnp.ones(3), jnp.zeros(2))),
            lax.cond(i > 0, lambda k: jr.split(k)[0], lambda k: k, jr.key(0)),
        )

    check(function, VECTOR, INDEX, np.bool_(True), batched=(True, True, False))
    check(function, VECTOR, INDEX, np.bool_(False), batched=(True, True, False))


def test_a_branch_that_no_member_takes():
    """Its numbers (NaN here) and its keys of any kind have no effect."""

    def function(v, i, key, other):
        return (
            lax.cond(i > 5, lambda: jnp.log(v - 9.0), lambda: v),
            lax.switch(i, [lambda: v, lambda: jnp.exp(v), lambda: -v, lambda: v * jnp.nan]),
            lax.cond(i > 5, lambda: jr.fold_in(key, 1), lambda: jr.fold_in(key, i)),
            lax.cond(i > 0, lambda: jr.fold_in(other, 1), lambda: other),
        )

    check(function, VECTOR, INDEX, KEYS, jr.split(jr.key(2, impl="unsafe_rbg"), B))


@pytest.mark.parametrize("batched", [(True, False), (False, True), (True, True)])
def test_members_of_a_mapped_loop_stop_apart(batched):
    """For members of a jax.vmap. All axes have the same length, so that a mix-up is found."""

    def function(starts, shared):
        def until_five(start):
            def again(carry):
                x, total, square, rest = carry
                return 2.0 * x, total + jnp.ones(B), square + jnp.diag(shared), rest - 1.0

            zeros = jnp.zeros(B), jnp.zeros((B, B)), shared[0]
            return lax.while_loop(lambda carry: carry[0] < 5.0, again, (start, *zeros))

        return jax.vmap(until_five)(starts)

    starts = np.float32([0.1, 9.0, 0.5, 0.25, 3.0])
    starts = starts[:, None] * np.float32([1.0, 2.0, 4.0, 0.5, 1.0]) if batched[0] else starts
    shared = np.ones((B, B), np.float32) if batched[1] else np.ones(B, np.float32)
    check(function, starts, shared, batched=batched)


def test_what_is_shared_carries_no_batch():
    """A round counter stays a scalar in a loop, and a write at it is one slice for all members."""

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


def test_bad_batches_are_refused():
    for batched, arguments in ((False,), (VECTOR,)), ((True, True), (VECTOR, VECTOR[:, :2])):
        refuses("one common last axis", batch_last(lambda *xs: xs, batched), arguments)


def test_words_are_kept_whatever_numbers_they_look_like():
    """The two words of a key pass between kernels as one complex number."""
    keys = jr.split(jr.key(1), 2048)
    words = jr.key_data(jax.vmap(lambda key: jr.fold_in(key, 1))(keys))
    floats = np.asarray(words).view(np.float32)
    tiny = np.abs(floats) < np.finfo(np.float32).tiny
    # Signalling and quiet NaN, infinity, and numbers that would be flushed to 0.
    quiet = (np.asarray(words) >> 22 & 1).astype(bool)
    assert (np.isnan(floats) & quiet).any() and (np.isnan(floats) & ~quiet).any() and tiny.any()

    def function(key):
        folded = jr.fold_in(key, 1)
        return folded, jr.split(folded, 3), jr.bits(folded, (2,)), laws.normal(folded, (5,))

    check(function, keys)


@pytest.mark.parametrize("shape", [(), (1,), (4,), (5,), (2, 3)])
def test_noise(shape):
    """For 64 members, since LLVM contracts vmap's few short rows in some places only."""
    keys = jr.split(jr.key(0), 64)
    scale = np.arange(64, dtype=np.float32)

    def function(key, scale):
        zero = jnp.zeros(shape, jnp.float32)
        return (
            laws.normal(key, shape),
            noise.laplace(key, zero, scale),
            noise.gaussian(jr.fold_in(key, 3), zero, 1.0),
            noise.laplace.along(key, jnp.float32(0.0), scale, jnp.ones(3)),
        )

    check(function, keys, scale)


def test_draws():
    def function(key, i):
        a, b, c = jr.split(key, 3)
        grid = jr.split(jr.fold_in(b, 7), (2, 2))
        kinds = product([(), (3,), (2, 3)], [jnp.uint8, jnp.uint16, jnp.uint32])
        return [jr.bits(a, shape, dtype) for shape, dtype in kinds], (
            jr.uniform(a, (4,)), jr.normal(b), jr.laplace(c, (2,)), jr.gumbel(a),
            jr.bernoulli(b, 0.3), jr.randint(c, (3,), 0, 9), jr.permutation(a, 4), jr.choice(b, 4),
            grid, jr.uniform(grid[1, 0]), grid.T.ravel(), jr.fold_in(a, i),
            jr.fold_in(a, jnp.uint8(3)), jr.key_data(a), jr.wrap_key_data(jr.key_data(b)),
            jnp.where(i > 0, a, b), jr.clone(a), jr.key(i),
        )  # fmt: skip

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


def test_draws_are_written_out():
    """No block function is left in a loop."""
    program = jax.make_jaxpr(batch_last(lambda key: jr.uniform(jr.fold_in(key, 1)), (True,)))(KEYS)
    assert "threefry2x32" not in str(program) and "random_bits" not in str(program)


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
