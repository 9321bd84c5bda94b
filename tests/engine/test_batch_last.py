"""The map over last axes gives the numbers of jax.vmap, and does not copy unbatched values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax import random as jr

from dpjax.engine.batch_last import batch_last
from tests.engine.beside_vmap import INDEX, KEYS, MATRIX, OPERATIONS, VECTOR, B, check

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


@pytest.mark.parametrize(
    ("batched", "arguments"), [((False,), (VECTOR,)), ((True, True), (VECTOR, VECTOR[:, :2]))]
)
def test_bad_batches_are_refused(batched, arguments):
    with pytest.raises(ValueError, match="one common last axis"):
        batch_last(lambda *xs: xs, batched)(*arguments)
