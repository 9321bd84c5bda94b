"""Evaluating programs equation by equation: the same numbers, and the same sites wherever."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dpjax.engine.dependence import depends
from jax import lax
from jax import random as jr

from dpjax import noise
from dpjax.engine import interpret, walk


@jax.custom_jvp
def released(key, x):
    """A release within a call that is not of jit."""
    return noise.laplace(key, x, 1.0)


@jax.custom_vjp
def doubled(x):
    return 2.0 * x


doubled.defvjp(lambda x: (2.0 * x, None), lambda _, g: (2.0 * g,))
released.defjvp(lambda primals, tangents: (released(*primals), tangents[1]))


def function(x, n, key):
    """All that calls, loops and chooses, and constants of both kinds."""
    table = np.arange(6, dtype=np.float32).reshape(2, 3)
    rows = (jnp.asarray(table), jr.split(key, 2))
    last, sums = lax.scan(lambda c, r: (c + r[0], jnp.sum(c) + jr.uniform(r[1])), x, rows)
    _, back = lax.scan(lambda c, r: (c + 1.0, c * r), 0.5, x, reverse=True, unroll=2)
    steps, _ = lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * x[0]), (0, 1.0))
    chosen = lax.switch(n, [lambda v: v, lambda v: -v, jnp.exp], x)
    return last, sums, back, steps, chosen, jax.nn.relu(-x), doubled(x), released(key, x)


def arguments():
    return jnp.float32([0.3, -1.2, 0.0]), jnp.int32(1), jr.key(0)


def by_hand(closed, inputs):
    """Evaluates a program, and all the programs in it, by the functions of walk."""

    def bind(eqn, operands):
        inner = walk.called(eqn)
        if inner is not None:
            return by_hand(inner, operands)
        if eqn.primitive.name == "cond":
            return walk.cond(eqn, operands, by_hand)
        if eqn.primitive.name == "scan":
            return walk.scan(eqn, operands, by_hand)
        if eqn.primitive.name == "while":
            return lax.while_loop(*walk.while_parts(eqn, operands, by_hand, by_hand))
        return walk.bind(eqn, operands)

    return walk.evaluate(closed, inputs, bind)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_a_program_evaluated_by_hand_returns_what_it_returned(n):
    x, _, key = arguments()
    closed = jax.make_jaxpr(function)(x, jnp.int32(n), key)
    names = {eqn.primitive.name for eqn in walk.equations(closed.jaxpr)}
    assert {"jit", "custom_jvp_call", "custom_vjp_call", "scan", "while", "cond"} <= names
    expected = jax.jit(function)(x, jnp.int32(n), key)
    found = jax.jit(lambda *inputs: by_hand(closed, inputs))(x, jnp.int32(n), key)
    for a, b in zip(expected, found, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def test_a_primitive_calls_what_its_parameter_holds():
    """A primitive of JAX that calls one closed program with all of its operands is in the table."""
    closed = jax.make_jaxpr(function)(*arguments())
    calls = {
        eqn.primitive.name
        for eqn in walk.equations(closed.jaxpr)
        if eqn.primitive.name not in ("cond", "scan", "while")
        and any(
            getattr(inner, "in_avals", None) == [atom.aval for atom in eqn.invars]
            for inner in interpret.programs(eqn)
        )
    }
    assert calls == {"jit", "custom_jvp_call", "custom_vjp_call", "release"}
    assert calls <= set(walk.CALLED)


def test_releases_are_found_within_any_call():
    x, _, key = arguments()
    closed = jax.make_jaxpr(released)(key, x)
    assert [site[:2] for site in interpret.sites(closed)] == [("value", noise.laplace)]

    def visit(index, site, function, inputs):
        return [jnp.full_like(inputs[1], 7.0)], jnp.int32(index)

    outputs, records = interpret.run(closed, [key, x], visit)
    assert outputs[0].tolist() == [7.0] * 3 and records == [0]


def flow(function, flags):
    return depends(jax.make_jaxpr(function)(*[jnp.float32(i) for i in range(len(flags))]), flags)


def test_dependence_goes_through_calls_conditions_and_loops():
    """What is known exactly: which outputs can change when the first input alone does."""
    first = [True, False, False]
    assert flow(lambda a, b, c: (a, b, b + c, 2.0, jax.nn.relu(a)), first) == [
        True, False, False, False, True,
    ]  # fmt: skip

    def choice(a, b, c):
        same = lax.cond(b > 0, lambda: (b, a, c), lambda: (c, b, c))
        return same, lax.cond(a > 0, lambda: b, lambda: c)

    assert flow(choice, first) == [False, True, False, True]

    def shift(a, b, c):
        """The first is carried on to the second in one round and to the third in two."""
        carry, rows = lax.scan(lambda x, r: ((x[0], x[0], x[1], x[3] + r), (x[2], x[3])),
                               (a, b, c, c), jnp.ones(3))  # fmt: skip
        return carry, rows

    assert flow(shift, first) == [True, True, True, False, True, False]
    assert flow(shift, [False, True, False]) == [False, True, True, False, True, False]

    def until(a, b, c):
        return lax.while_loop(lambda x: x[0] < 5.0, lambda x: (x[0] + 1.0, x[1] + c, x[2] + 1.0),
                              (a, b, 0.0))  # fmt: skip

    assert flow(until, first) == [True, True, True]
    assert flow(until, [False, False, True]) == [False, True, False]
    assert flow(until, [False, True, False]) == [False, True, False]
