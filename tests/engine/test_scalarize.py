"""Rounds as programs of scalars have the numbers of the rounds as they are traced."""

import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax import random as jr
from jax.extend.core import jaxpr_as_fun

from dpjax import clear_caches, environments, learners, simulate_batches, sweep
from dpjax.engine import compile, one_kernel, walk
from dpjax.engine.batch_last import batch_last
from dpjax.engine.equal_values import once
from dpjax.engine.scalarize import carried_numbers, main_loop, scalarized
from tests.engine.equation_by_equation import run
from tests.engine.games import game_of, traced

FLAGS = [False, True, False]  # of the point, the seed and the key
TRIALS = 4
# The others take minutes together: every shape that is met for the first time is compiled.
OFTEN = {"dp_exp3_lap", "dp_ucb", "exp3", "exp3_minibatch", "ftrl", "lazy_ucb", "ucb1"}
# Those whose rounds are not too long for a program of scalars.
SHORT = [name for name in learners.__all__ if name != "track_and_stop"]


def played(program):
    """What a program gives for some seeds, equation by equation."""
    arguments = jnp.float32(1.0), jnp.arange(TRIALS, dtype=jnp.int32), jr.key(3)
    return run(batch_last(jaxpr_as_fun(program), FLAGS, apart=False), *arguments)


def assert_same(program):
    for found, expected in zip(played(scalarized(program, FLAGS)), played(program), strict=True):
        np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


@pytest.mark.parametrize(
    "name",
    [pytest.param(x, marks=() if x in OFTEN else pytest.mark.slow) for x in SHORT],
)
def test_every_learner_has_the_same_bits(name):
    assert_same(traced(game_of(name, 10), [4, 10]).program)


@pytest.mark.slow
def test_a_game_played_by_batches_has_the_same_bits():
    game = game_of("successive_elimination", 3000)
    assert_same(traced(game, [1000, 3000], simulate_batches).program)


def test_rounds_have_no_arrays():
    """But for those that stay whole, which only two programs touch."""
    program = scalarized(traced(game_of("dp_ucb", 4096), [64, 4096]).program, FLAGS)
    rounds = walk.equations(main_loop(program).params["jaxpr"].jaxpr)
    rounds = [eqn for eqn in rounds if eqn.primitive.name == "while"]
    arrays = set()
    for eqn in rounds:
        for inner in eqn.params["body_jaxpr"].jaxpr.eqns:
            if inner.primitive.name != "while" and any(var.aval.shape for var in inner.outvars):
                arrays.add(inner.params.get("name"))
    assert arrays == {"write_window"}


@pytest.mark.parametrize(
    "function",
    [
        lambda x, i: (jnp.sum(x, 1), jnp.cumsum(x, 0), jnp.argmax(x, 1), jnp.argmin(x, 0)),
        lambda x, i: (x[i], x.at[i].add(2.0), x.at[:, i].set(1.0), x[:, ::-1]),
        lambda x, i: (lax.dynamic_slice(x, (i, i), (2, 2)), jnp.take(x, i, axis=1)),
        lambda x, i: (lax.dynamic_update_slice(x, x[:2, :1], (i, i)), x.at[i, i].min(-1.0)),
        lambda x, i: (jnp.sort(x, 1), jnp.argsort(x, 0), jnp.pad(x, 1), jnp.split(x, 3)[1]),
        lambda x, i: (lax.cumsum(x, 1, reverse=True), jnp.concatenate([x, x]), jnp.tile(x, 2)),
        lambda x, i: lax.switch(i, [lambda: x, lambda: 2.0 * x, lambda: -x]),
        lambda x, i: lax.scan(lambda c, r: (c + r, c * r[0]), x[0], jnp.concatenate([x, x, x])),
        lambda x, i: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2.0), (i, x)),
        lambda x, i: (
            jr.normal(jr.fold_in(jr.key(1), i), (2,)),
            jr.bits(jr.split(jr.key(2), 3)[1]),
        ),
        lambda x, i: (jnp.where(i > 1, x, 0.0), jnp.all(x > 0.0), jnp.max(x), jnp.prod(x, 0)),
        lambda x, i: (jnp.unstack(x, axis=1)[0], [*x][1]),
    ],
)
def test_operations(function):
    """Each within a loop, whose length is not known when it is traced."""

    def looped(x, seed, _):
        index = seed % 3
        start = jax.tree.map(jnp.zeros_like, jax.eval_shape(function, x, index))

        def one_round(carry):
            t, x, _ = carry
            return t + 1, x + 0.5, function(x, (index + t) % 3)

        return lax.while_loop(lambda c: c[0] < 4 + 0 * seed, one_round, (0, x, start))

    x = jnp.asarray(np.random.default_rng(0).normal(size=(3, 3)), jnp.float32)
    program = jax.make_jaxpr(looped)(x, jnp.int32(0), jr.key(0))
    found = scalarized(program, FLAGS)
    arguments = x, jnp.arange(TRIALS, dtype=jnp.int32), jr.key(0)
    for a, b in zip(
        run(batch_last(jaxpr_as_fun(found), FLAGS, apart=False), *arguments),
        run(batch_last(jaxpr_as_fun(program), FLAGS, apart=False), *arguments),
        strict=True,
    ):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_products_are_added_up_in_the_order_of_their_entries():
    """The library that JAX calls for a product alone rounds a product and a sum together."""
    x = np.random.default_rng(0).normal(size=(3, 3)).astype(np.float32)
    program = jax.make_jaxpr(lambda x: lax.fori_loop(0, 2, lambda _, x: x.T @ x, x))(x)
    (found,) = jaxpr_as_fun(scalarized(program, [True]))(x)
    np.testing.assert_allclose(found, (x.T @ x).T @ (x.T @ x), rtol=1e-5)


def test_equal_values_are_computed_and_carried_once():
    def function(x, n):
        def one_round(carry):
            t, a, b, c, fixed = carry
            return t + 1, a * 2.0 + fixed, b * 2.0 + fixed, c * 3.0, fixed

        return lax.while_loop(lambda c: c[0] < n, one_round, (0, x, x, x, x))

    program = jax.make_jaxpr(function)(1.0, 5)
    found = once(program)
    (loop,) = (eqn for eqn in found.jaxpr.eqns if eqn.primitive.name == "while")
    assert len(loop.outvars) == 3  # t, a and c
    names = [eqn.primitive.name for eqn in loop.params["body_jaxpr"].jaxpr.eqns]
    assert sorted(names) == ["add", "add", "mul", "mul"]
    assert jaxpr_as_fun(found)(1.0, 5) == jaxpr_as_fun(program)(1.0, 5)


def test_values_that_part_in_a_later_round_are_carried_apart():
    def function(x, n):
        def one_round(carry):
            t, _, b, c, d = carry
            return t + 1, b, c, d, jnp.float32(7.0)

        return lax.while_loop(lambda c: c[0] < n, one_round, (0, x, x, x, x))

    program = jax.make_jaxpr(function)(1.0, 2)
    assert jaxpr_as_fun(once(program))(1.0, 2) == [2, 1.0, 1.0, 7.0, 7.0]


def test_exp3_carries_few_numbers():
    """The weights, the counters and the tally; the action is the arm of the state."""
    assert carried_numbers(scalarized(traced(game_of("exp3", 64), [64]).program, FLAGS)) <= 8


def test_a_program_says_why_it_is_not_written_in_scalars():
    def refused(function):
        with pytest.raises(one_kernel.Unfit) as error:
            scalarized(jax.make_jaxpr(function)(jnp.ones((3, 3))), [True])
        return str(error.value)

    def looped(function):
        return lambda x: lax.while_loop(lambda x: jnp.max(x) < 9.0, function, x)

    assert refused(lambda x: x + 1.0) == "the program has no loop"
    large = looped(lambda x: jnp.tile(x, (40, 40))[:3, :3])
    assert refused(large).startswith("the rounds are 28800 operations")
    assert "no rule on numbers for cholesky" in refused(looped(jnp.linalg.cholesky))


def test_a_sweep_shows_the_reason_on_request(monkeypatch, caplog):
    def game(epsilon):
        learner = learners.exp3(8, 30)
        return learner, environments.bernoulli(np.full(30, 0.5))

    clear_caches()
    monkeypatch.setattr(compile, "platform_of", lambda mesh: compile.ACCELERATOR)
    with caplog.at_level(logging.INFO, logger="dpjax"):
        sweep(game, np.ones(1), 2, jr.key(0), progress=False)
    clear_caches()
    assert "as_numbers does not serve: a round carries" in caplog.text
