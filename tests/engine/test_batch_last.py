"""The map over last axes gives the numbers of jax.vmap, and does not copy unbatched values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax import random as jr

from dpjax import simulate
from dpjax.engine.batch_last import batch_last
from tests import test_conformance as conformance
from tests.engine.beside_vmap import (
    INDEX,
    KEYS,
    MATRIX,
    VECTOR,
    B,
    assert_same_bits,
    both,
    check,
    compiled,
    data,
)


@pytest.mark.parametrize(
    "function",
    [
        lambda m, v, i: (m + v[None], m * 2.0, jnp.exp(m) / jnp.sum(jnp.exp(m)), m[0, 0] * v),
        lambda m, v, i: (m.T, m.reshape(6, 2), m.ravel(), m[1:3, ::2], jnp.flip(m, 1), m[:, None]),
        lambda m, v, i: (
            jnp.sum(m, 0), jnp.max(m, 1), jnp.argmin(m, 0), jnp.cumsum(m, 1), jnp.all(m),
        ),
        lambda m, v, i: (
            jnp.sort(m, 0), jnp.argsort(v), jnp.concatenate([m, m + 1.0]), jnp.stack([v, v]),
        ),
        lambda m, v, i: (
            v[i], m[i], m.at[i].set(v), m.at[2].add(v), lax.dynamic_slice(v, (i,), (2,)),
            jnp.where(i > 1, v, 0.0), jnp.clip(v, -0.5, i.astype(jnp.float32)),
        ),
        lambda m, v, i: (
            m @ v, m.T @ m, jnp.linalg.cholesky(m.T @ m + jnp.eye(3)), jnp.linalg.inv(m[:3]),
        ),
        lambda m, v, i: (
            jnp.pad(m, 1), jnp.pad(v, 1, constant_values=v[0]), lax.erf_inv(v / 9.0),
            jnp.roll(v, 1), jax.nn.relu(v), jax.nn.softplus(v),
        ),
        lambda m, v, i: (
            lax.bitcast_convert_type(v, jnp.int32), lax.bitcast_convert_type(v, jnp.uint8),
            jnp.float32(1.0), jnp.arange(3), jnp.split(m, 2), jnp.unstack(m, axis=1)[0], [*m][1],
        ),
    ],
)  # fmt: skip
def test_operations(function):
    check(function, MATRIX, VECTOR, INDEX)


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
            lax.switch(i, [lambda: v, lambda: 2.0 * v, lambda: -v]),
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
            # The carry becomes batched one entry per round.
            lax.scan(shift, (jnp.zeros(3), jnp.zeros(3), v), jnp.ones((4, 3))),
            lax.scan(lambda c, k: (c + jr.uniform(k), c), 0.0, jr.split(key, 4), reverse=True),
        )

    check(function, VECTOR, INDEX, KEYS)


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


def random_function(seed):
    """A program of fifteen random equations, with one loop and one condition."""
    rng = np.random.default_rng(seed)
    unary = [jnp.sin, jnp.abs, jnp.exp, jnp.cumsum, jnp.sort, jnp.flip, jnp.tanh,
             lambda x: x + jnp.sum(x)]  # fmt: skip
    binary = [
        jnp.add, jnp.multiply, jnp.maximum,
        lambda x, y: jnp.where(x > y, x, -y),
        lambda x, y: jnp.concatenate([x, y])[::2],
        lambda x, y: lax.cond(x[0] > y[0], jnp.sin, jnp.cos, y),
        lambda x, y: lax.fori_loop(0, 3, lambda t, z: jnp.tanh(z + y * t.astype(jnp.float32)), x),
        lambda x, y: lax.scan(lambda c, r: (c * r, c[0]), x, y)[1] + x,
    ]  # fmt: skip
    plan = []
    for size in range(3, 18):
        operations, count = (unary, 1) if rng.random() < 0.5 else (binary, 2)
        plan.append((operations[rng.integers(len(operations))], rng.integers(size, size=count)))

    def function(x, y, key):
        values = [x, y, jr.normal(key, x.shape)]
        for operation, places in plan:
            values.append(jnp.clip(operation(*[values[i] for i in places]), -3.0, 3.0))
        return values

    return function


@pytest.mark.parametrize("seed", range(6))
def test_random_programs(seed):
    """Up to rounding: compilers contract products and sums differently in each layout."""
    batched = [(True, True, True), (True, False, True), (False, False, True)][seed % 3]
    arguments = [VECTOR if flag else VECTOR[:, i] for i, flag in enumerate(batched[:2])]
    expected, found = both(random_function(seed), batched, *arguments, KEYS)
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


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


def test_twice():
    """Over points and then seeds: the outer map still maps what the inner one shares."""

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
    ("batched", "arguments"), [((False,), (VECTOR,)), ((True, True), (VECTOR, VECTOR[:, :2]))]
)
def test_bad_batches_are_refused(batched, arguments):
    with pytest.raises(ValueError, match="one common last axis"):
        batch_last(lambda *xs: xs, batched)(*arguments)


@pytest.mark.parametrize("name", ["ftrl", "successive_elimination", "scrible", "linucb"])
def test_games(name):
    """Over points and then seeds: actions, final states and regret; test_conformance.py has all."""
    environment = conformance.on_table(name, conformance.table())

    def cell(point, seed):
        played = conformance.recorded(conformance.make(name, epsilon=point), environment)
        return simulate(*played, jr.fold_in(jr.key(3), seed), checkpoints=3)

    points, seeds = np.array([0.1, 1.0, np.inf], np.float32), jnp.arange(9)
    inner = jax.vmap(cell, in_axes=(0, None), out_axes=-1)
    expected = compiled(jax.vmap(inner, in_axes=(None, 0), out_axes=-1), points, seeds)
    inner = batch_last(cell, (True, False))
    found = compiled(batch_last(inner, (False, True)), points, seeds)
    for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True):
        # Bits are equal except for sums of products, which compilers may contract, in SCRiBLE. The
        # low word of a compensated sum is the rounding error of numbers about 1, so it differs by
        # as much as they do.
        a, b = data(a), data(b)
        largest = float(np.max(np.abs(a), initial=0.1, where=np.isfinite(a)))
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-6 * largest)
