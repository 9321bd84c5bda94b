"""Programs that differ only in numbers are one program with these numbers as arguments."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax import random as jr

from dpjax import noise
from dpjax.engine import programs
from dpjax.engine.evaluate import equations
from dpjax.engine.lift import Lifted, lifted, with_arguments

X = jnp.float32([0.3, -1.2, 0.0])


def function(factor, steps, table):
    """Numbers in every primitive that calls, loops or chooses, in constants, and in draws."""

    @jax.custom_jvp
    def grown(x):
        return x + factor

    grown.defjvp(lambda primals, tangents: (grown(*primals), tangents[0]))

    def of(x, key):
        called = jax.jit(lambda x: factor * x + 1.0)(x)
        last, rows = lax.scan(lambda c, row: (c * factor, row - factor), x, jnp.asarray(table))
        looped = lax.fori_loop(0, jnp.int32(steps), lambda i, c: jnp.sin(c) + factor, x)
        chosen = lax.cond(x[0] > factor, lambda: x * steps, lambda: x - 1.0 / factor)
        drawn = jax.jit(lambda key: factor * jr.uniform(key, (3,)))(key)
        released = noise.laplace(key, x, factor)
        return called, last, rows, looped, chosen, drawn, released, grown(x), factor * 1.0, steps

    return of


FIRST, SECOND = (
    function(0.7, 3, np.arange(6, dtype=np.float32).reshape(2, 3)),
    function(0.9, 5, np.ones((2, 3), np.float32)),
)


def traced(of):
    return jax.make_jaxpr(of)(X, jr.key(0))


def numbers(of):
    return programs.digests(traced(of))[3]


def test_a_program_with_the_numbers_of_another_computes_the_same_bits():
    """Compiled once for both; each gives the result of its own numbers."""
    closed = [traced(of) for of in (FIRST, SECOND)]
    own = [programs.digests(each) for each in closed]
    assert own[0][1] == own[1][1]  # their texts
    (rest, found), (others, second) = (lifted(own[i][3], own[1 - i][3]) for i in (0, 1))
    assert rest == others
    shared = with_arguments(closed[0], found)
    run = jax.jit(jax.extend.core.jaxpr_as_fun(shared))
    results = [run(X, jr.key(0), *jax.tree.leaves(each.vectors)) for each in (found, second)]
    for of, result in zip((FIRST, SECOND), results, strict=True):
        for a, b in zip(jax.jit(of)(X, jr.key(0)), result, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=3e-7)
    # So wrong numbers would change every output.
    for a, b in zip(*results, strict=True):
        assert not np.array_equal(a, b)


def test_numbers_of_a_type_are_one_vector_without_duplicates():
    found = lifted(numbers(FIRST), numbers(SECOND))[1]
    assert found.vectors.keys() == {"float32", "int32"}
    assert found.vectors["int32"].tolist() == [3]
    # The factor, its negative or its inverse (computed in Python), the steps as a float, the table.
    floats = found.vectors["float32"].tolist()
    assert np.float32(0.7) in floats and floats.count(np.float32(0.7)) == 1
    assert len(floats) <= 6 + 4
    names = {eqn.primitive.name for eqn in equations(traced(FIRST).jaxpr)}
    assert {"jit", "scan", "while", "cond", "custom_jvp_call", "release"} <= names


def test_what_is_equal_in_both_stays():
    """A program with equal numbers is not changed at all."""
    shared = with_arguments(traced(FIRST), lifted(numbers(FIRST), numbers(SECOND))[1])
    left = [x.val for eqn in equations(shared.jaxpr) for x in eqn.invars if hasattr(x, "val")]
    assert 1.0 in left and not any(np.any(np.float32(each) == np.float32(0.7)) for each in left)
    _, found = lifted(numbers(FIRST), numbers(FIRST))
    assert found == Lifted({}, {})
    closed = traced(FIRST)
    assert with_arguments(closed, found) is closed


def test_calls_stay_calls():
    """A draw is one call, which the layout of trials keeps in a separate kernel."""
    own = traced(FIRST)
    shared = with_arguments(own, lifted(programs.digests(own)[3], numbers(SECOND))[1])

    def calls(closed):
        names = [eqn.primitive.name for eqn in equations(closed.jaxpr)]
        return sum(name in ("jit", "release") for name in names)

    assert calls(shared) == calls(own) > 3


def test_numbers_where_no_argument_comes_stay():
    """For instance in a checkpoint, which is not interpreted: another number, another program."""

    def of(factor):
        return lambda x, key: jax.checkpoint(lambda x: jnp.sin(x) * factor)(x) * factor

    rest, found = lifted(numbers(of(2.0)), numbers(of(3.0)))
    assert found.vectors["float32"].tolist() == [2.0]
    assert rest != lifted(numbers(of(4.0)), numbers(of(3.0)))[0]
    shared = with_arguments(own := traced(of(2.0)), lifted(programs.digests(own)[3],
                                                          numbers(of(3.0)))[1])  # fmt: skip
    (result,) = jax.extend.core.jaxpr_as_fun(shared)(X, jr.key(0), jnp.float32([2.0]))
    np.testing.assert_allclose(result, jnp.sin(X) * 4.0, rtol=1e-6)


@pytest.mark.parametrize("first, second", [(0.0, -0.0), (float("nan"), float("inf"))])
def test_numbers_are_compared_by_their_bits(first, second):
    def of(number):
        return lambda x, key: x + jnp.float32(number)

    assert lifted(numbers(of(first)), numbers(of(second)))[1].places
    assert not lifted(numbers(of(first)), numbers(of(first)))[1].places
