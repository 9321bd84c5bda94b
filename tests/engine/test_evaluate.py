"""Evaluating programs equation by equation: the same numbers, and the same sites everywhere."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax import random as jr

from dpjax import noise
from dpjax.audit import visits
from dpjax.engine import programs
from dpjax.engine.evaluate import CALLED, CONTROL, DEPENDENCE, ValueDomain, equations
from dpjax.engine.lift import Lifted, lifted, with_arguments
from tests.engine.equation_by_equation import ONE_BY_ONE
from tests.shadow import shadowed


@jax.custom_jvp
def released(key, x):
    """A release within a call other than jit."""
    return noise.laplace(key, x, 1.0)


@jax.custom_vjp
def doubled(x):
    return 2.0 * x


doubled.defvjp(lambda x: (2.0 * x, None), lambda _, g: (2.0 * g,))
released.defjvp(lambda primals, tangents: (released(*primals), tangents[1]))


def function(x, n, key):
    """Every primitive that calls, loops or chooses, and constants of both kinds."""
    table = np.arange(6, dtype=np.float32).reshape(2, 3)
    rows = (jnp.asarray(table), jr.split(key, 2))
    last, sums = lax.scan(lambda c, r: (c + r[0], jnp.sum(c) + jr.uniform(r[1])), x, rows)
    _, back = lax.scan(lambda c, r: (c + 1.0, c * r), 0.5, x, reverse=True, unroll=2)
    steps, _ = lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * x[0]), (0, 1.0))
    chosen = lax.switch(n, [lambda v: v, lambda v: -v, jnp.exp], x)
    return last, sums, back, steps, chosen, jax.nn.relu(-x), doubled(x), released(key, x)


X = jnp.float32([0.3, -1.2, 0.0])


@pytest.mark.parametrize("n", [0, 1, 5])
def test_a_program_that_is_evaluated_returns_the_same_values(n):
    x, key = X, jr.key(0)
    closed = jax.make_jaxpr(function)(x, jnp.int32(n), key)
    names = {eqn.primitive.name for eqn in equations(closed.jaxpr)}
    assert {"jit", "custom_jvp_call", "custom_vjp_call", "scan", "while", "cond"} <= names
    expected = jax.jit(function)(x, jnp.int32(n), key)
    found = jax.jit(lambda *inputs: ValueDomain().evaluate(closed, inputs))(x, jnp.int32(n), key)
    for a, b in zip(expected, found, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    for a, b in zip(expected, ONE_BY_ONE.evaluate(closed, [x, jnp.int32(n), key]), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-6)


def until_five(start):
    """A loop whose number of rounds depends on the start, with a carry of several shapes."""

    def again(carry):
        x, total, key, square = carry
        return 2.0 * x, total + jnp.ones(2), jr.fold_in(key, 1), square + x * jnp.eye(3)

    zeros = jnp.zeros(2), jr.key(0), jnp.zeros((3, 3))
    x, total, key, square = lax.while_loop(lambda carry: carry[0] < 5.0, again, (start, *zeros))
    return x, total, jr.key_data(key), square


STARTS = jnp.float32([0.7, 3.0, 9.0])


@pytest.mark.parametrize("domain", [ValueDomain(), ONE_BY_ONE], ids=["compiled", "one by one"])
def test_members_of_a_mapped_loop_stop_apart(domain):
    """The condition of such a loop is a vector. A stopped member keeps its values."""
    closed = jax.make_jaxpr(jax.vmap(until_five))(STARTS)
    expected = [jnp.stack(column) for column in zip(*map(until_five, STARTS), strict=True)]
    assert expected[1][:, 0].tolist() == [3.0, 1.0, 0.0]
    for a, b in zip(expected, domain.evaluate(closed, [STARTS]), strict=True):
        np.testing.assert_array_equal(a, b)


def test_members_of_a_mapped_loop_stop_apart_in_float64():
    """Sums of thirds, which the shadow adds more accurately."""

    def summed(start):
        carry = lax.while_loop(lambda c: c[0] < 5.0, lambda c: (c[0] + start, c[1] + c[0]),
                               (start, jnp.zeros(())))  # fmt: skip
        return carry[1]

    starts = jnp.float32([1.0 / 3.0, 1.0, 9.0])
    found, shadow = shadowed(jax.vmap(summed), starts)
    np.testing.assert_array_equal(found, jnp.stack(list(map(summed, starts))))
    exact = [np.float64(x) * sum(range(1, int(np.ceil(5.0 / x)))) for x in np.asarray(starts)]
    np.testing.assert_allclose(shadow, exact, rtol=1e-15)
    assert not np.array_equal(found, shadow)


def test_a_primitive_calls_what_its_parameter_holds():
    """The table has every JAX primitive that calls one closed program with all of its operands."""
    closed = jax.make_jaxpr(function)(X, jnp.int32(1), jr.key(0))
    calls = {
        eqn.primitive.name
        for eqn in equations(closed.jaxpr)
        if eqn.primitive.name not in CONTROL
        and any(
            getattr(inner, "in_avals", None) == [atom.aval for atom in eqn.invars]
            for inner in visits.programs(eqn)
        )
    }
    assert calls == {"jit", "custom_jvp_call", "custom_vjp_call", "release"}
    assert calls <= set(CALLED)


def test_releases_are_found_within_any_call():
    x, key = X, jr.key(0)
    closed = jax.make_jaxpr(released)(key, x)
    assert [site[:2] for site in visits.sites(closed)] == [("value", noise.laplace)]

    def visit(index, site, function, inputs):
        return [jnp.full_like(inputs[1], 7.0)], jnp.int32(index)

    outputs, records = visits.run(closed, [key, x], visit)
    assert outputs[0].tolist() == [7.0] * 3 and records == [0]


def flow(function, flags):
    return DEPENDENCE.evaluate(
        jax.make_jaxpr(function)(*map(jnp.float32, range(len(flags)))), flags
    )


def test_dependence_goes_through_calls_conditions_and_loops():
    """It is known exactly: which outputs can change if only the first input changes."""
    first = [True, False, False]
    assert flow(lambda a, b, c: (a, b, b + c, 2.0, jax.nn.relu(a)), first) == [
        True, False, False, False, True,
    ]  # fmt: skip

    def choice(a, b, c):
        same = lax.cond(b > 0, lambda: (b, a, c), lambda: (c, b, c))
        return same, lax.cond(a > 0, lambda: b, lambda: c)

    assert flow(choice, first) == [False, True, False, True]

    def shift(a, b, c):
        """The first moves to the second place in one round and to the third in two."""
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


# Programs that differ only in numbers are one program with these numbers as arguments.


def program_of(factor, steps, table):
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
    program_of(0.7, 3, np.arange(6, dtype=np.float32).reshape(2, 3)),
    program_of(0.9, 5, np.ones((2, 3), np.float32)),
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
