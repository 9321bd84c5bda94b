"""Rounds on entries have the numbers of the traced rounds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax import random as jr
from jax.extend.core import jaxpr_as_fun

from dpjax import learners, simulate_batches
from dpjax.engine import one_kernel
from dpjax.engine.batch_last import batch_last
from dpjax.kernels import TARGETS, domain, moves, played_by_kernel
from tests.engine import equation_by_equation
from tests.engine.beside_vmap import OPERATIONS
from tests.engine.games import game_of, traced
from tests.kernels import on_entries

FLAGS = [False, True, False]  # of the point, the seed and the key
TRIALS = 4
# The others take minutes in total: every shape is compiled when it first occurs.
SHORT = [x for x in learners.__all__ if x != "track_and_stop"]  # it has a million operations
OFTEN = {"dp_exp3_lap", "dp_ucb", "exp3", "exp3_minibatch", "ftrl", "lazy_ucb", "ucb1"}


def assert_same(program, *given):
    """Bit for bit, since every operation is rounded separately."""
    given = given or (jnp.float32(1.0), jnp.arange(TRIALS, dtype=jnp.int32), jr.key(3))
    expected = equation_by_equation.run(
        batch_last(jaxpr_as_fun(program), FLAGS, isolate_draws=False), *given
    )
    for found, wanted in zip(on_entries.run(program, FLAGS, *given), expected, strict=True):
        np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))


@pytest.fixture(autouse=True)
def rounds_of_any_length(monkeypatch):
    """Removes a limit that is meant for compilers."""
    monkeypatch.setattr(domain, "MOST_OPERATIONS", 10**9)


@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=() if x in OFTEN else pytest.mark.slow) for x in SHORT]
)
def test_every_learner_has_the_same_bits(name):
    assert_same(traced(game_of(name, 10), [4, 10]).program)


@pytest.mark.slow
def test_a_game_played_by_batches_has_the_same_bits():
    game = game_of("successive_elimination", 3000)
    assert_same(traced(game, [1000, 3000], simulate_batches).program)


def looped(function):
    """A function in a loop whose length is unknown at tracing."""

    def play(x, seed, _):
        index = seed % 3
        start = jax.tree.map(jnp.zeros_like, jax.eval_shape(function, x, index))

        def one_round(carry):
            t, x, _ = carry
            return t + 1, x + 0.5, function(x, (index + t) % 3)

        return lax.while_loop(lambda c: c[0] < 4 + 0 * seed, one_round, (0, x, start))

    return play


@pytest.mark.parametrize("function", OPERATIONS, ids=[str(i) for i in range(len(OPERATIONS))])
def test_operations(function):
    x = jnp.asarray(np.random.default_rng(0).normal(size=(3, 3)), jnp.float32)
    program = jax.make_jaxpr(looped(function))(x, jnp.int32(0), jr.key(0))
    assert_same(program, x, jnp.arange(TRIALS, dtype=jnp.int32), jr.key(0))


def test_entries_move_as_their_numbers_do():
    """By a general rule for all primitives, for any index."""
    x = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    program = jax.make_jaxpr(lambda x, i: (lax.rev(x, (0,)), lax.dynamic_slice(x, (i, 0), (2, 3))))
    eqns = program(x, jnp.int32(0)).jaxpr.eqns
    found = moves.Moves(eqns)
    (reverse,) = (eqn for eqn in eqns if eqn.primitive.name == "rev")
    (window,) = (eqn for eqn in eqns if eqn.primitive.name == "dynamic_slice")
    np.testing.assert_array_equal(x.ravel()[found.of(reverse)[0]], x[::-1])
    places = moves.places(moves.index_of(window)).tolist()
    assert places == [[0, 0], [0, 1], [1, 0], [1, 1]]
    for (row, column), numbers in zip(places, found.of(window)[0], strict=True):
        np.testing.assert_array_equal(x.ravel()[numbers], x[row : row + 2, column : column + 3])


def test_products_are_added_up_in_the_order_of_their_entries():
    """The library that JAX calls for a single product rounds product and sum together."""
    x = np.random.default_rng(0).normal(size=(3, 3, 2)).astype(np.float32)
    program = jax.make_jaxpr(lambda x: lax.fori_loop(0, 2, lambda _, x: x.T @ x, x))(x[..., 0])
    (found,) = on_entries.run(program, [True], x)
    for i in range(2):
        y = x[..., i].T @ x[..., i]
        np.testing.assert_allclose(found[..., i], y.T @ y, rtol=1e-5)


def test_a_kernel_says_what_it_cannot_hold():
    def refused(function):
        x = jnp.ones((3, 3, 32))
        program = jax.make_jaxpr(function)(x[..., 0])
        with pytest.raises(one_kernel.Unfit) as error:
            jax.eval_shape(played_by_kernel(program, [True], TARGETS["interpret"]), x)
        return str(error.value)

    def in_a_loop(function):
        return lambda x: lax.while_loop(lambda x: jnp.max(x) < 9.0, function, x)

    assert refused(lambda x: x + 1.0) == "the program has no loop"
    assert refused(in_a_loop(jnp.linalg.cholesky)) == "kernels do not support cholesky"
    large = in_a_loop(lambda x: jnp.tile(x, (100, 100))[:3, :3])
    assert refused(large) == "tile moves too many entries, of arrays (3, 3), (300, 300)"
    assert "sort of more than 16" in refused(
        in_a_loop(lambda x: jnp.sort(jnp.tile(x, (9, 1)), 0)[:3])
    )
