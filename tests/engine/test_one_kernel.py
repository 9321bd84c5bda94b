"""Programs compiled as one kernel: the same numbers, and a fallback if that fails."""

import re
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax import random as jr

from dpjax import clear_caches, domains, environments, learners, sweep
from dpjax.engine import compile, one_kernel
from dpjax.engine.batch_last import batch_last
from dpjax.maths import laws
from tests.engine.test_performance import GAMES, compiled_programs

pytestmark = pytest.mark.skipif(
    jax.default_backend() != "cpu", reason="only programs for CPU are compiled so"
)

SHAPE = jax.ShapeDtypeStruct((8, 32), jnp.float32)


def example(shape=SHAPE.shape):
    return jr.normal(jr.key(0), shape)


def compile_for_cpu(function, arguments, batched):
    return compile.compile_for(compile.CPU, function, arguments, batched)


def is_one_kernel(program) -> bool:
    """Whether the program has one call and nothing else but copies to another layout."""
    text = program.as_text()
    entry = text[text.index("ENTRY") :]
    lines = entry[: entry.index("\n}")].splitlines()[1:]
    found = [re.search(r" ([a-z][a-z0-9\-]*)\(", line).group(1) for line in lines]
    copies = sum("calls=%wrapped_copy" in line for line in lines)
    counted = Counter(found)
    return counted["call"] == 1 and counted["fusion"] == copies and not counted["while"]


def looped(x):
    def body(i, x):
        rest = lax.cond(i % 2 == 0, jnp.sin, jnp.cos, x)
        return lax.while_loop(lambda y: jnp.any(y > 1.0), lambda y: 0.5 * y, x + rest)

    return lax.fori_loop(0, 20, body, x)


FUNCTIONS = {
    "loops and conditions": looped,
    "a logarithm": lambda x: jnp.log1p(jnp.abs(x)),
    "an inverse error function": lambda x: lax.erf_inv(jnp.tanh(x)),
    "sums": lambda x: (jnp.sum(x, axis=0), jnp.max(x, axis=1), jnp.argmin(x), jnp.cumsum(x, 0)),
    "products": lambda x: (x @ x.T, x[0] @ x[1], jnp.einsum("ij,kj->ikj", x, x)),
    "slices": lambda x: (x[::-1], x[2:5], jnp.concatenate([x, x]), jnp.pad(x, 1), x.reshape(-1)),
    "indices": lambda x: (x[jnp.argmax(x, axis=0), jnp.arange(32)], x.at[3].set(0.0)),
    "draws": lambda x: x + jr.normal(jr.key(1), x.shape) + jr.gamma(jr.key(2), 2.0, x.shape),
    "constants": lambda x: x + np.arange(8 * 32, dtype=np.float32).reshape(8, 32) ** 2,
    "a tree": lambda x: {"twice": 2.0 * x, "rest": (jnp.zeros(3), x > 0.0)},
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_kernel_has_the_numbers_of_many(name):
    function = FUNCTIONS[name]
    program = compile_for_cpu(function, [SHAPE], [True])
    assert is_one_kernel(program) or name == "indices"
    expected = jax.jit(function)(example())
    # Up to rounding: with many kernels, sums come from a library.
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5),
        program(example()), expected,
    )  # fmt: skip


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.sort(x, axis=0),
        lambda x: x.at[jnp.argmax(x, axis=0), jnp.arange(32)].add(1.0),
        lambda x: jnp.linalg.cholesky(x @ x.T + 9.0 * jnp.eye(8)),
        lambda x: lax.fori_loop(0, 3, lambda i, x: lax.top_k(x, 32)[0] + i, x),
        lambda x: jnp.abs(jnp.fft.fft(x)),
        lambda x: jax.pure_callback(lambda x: np.asarray(x) + 1.0, SHAPE, x),
        lambda x: x + (jax.debug.callback(lambda value: None, x) or 0.0),
        lambda x: jnp.convolve(x[0], x[1]),
    ],
)
def test_what_needs_kernels_of_its_own_has_many(function, capfd):
    program = compile_for_cpu(function, [SHAPE], [True])
    assert not is_one_kernel(program)
    # Up to rounding: jax.jit takes matrix products from another library.
    np.testing.assert_allclose(program(example()), jax.jit(function)(example()), 1e-5, 1e-6)
    # The compiler, which would print many complaints, was not called.
    assert not capfd.readouterr().err


def test_a_compiler_that_refuses(monkeypatch):
    """The compiler gets the options for many kernels, but may make one of so small a loop."""
    compile_, made = jax.stages.Lowered.compile, []

    def refuses(lowered, options=None):
        if options == one_kernel._OPTIONS:
            raise jax.errors.JaxRuntimeError("INVALID_ARGUMENT: no such compile option")
        made.append((options, "xla_cpu_small_call" in lowered.as_text()))
        return compile_(lowered, options)

    monkeypatch.setattr(jax.stages.Lowered, "compile", refuses)
    program = compile_for_cpu(looped, [SHAPE], [True])
    assert made == [(one_kernel._OPTIONS_OF_MANY, False)]
    np.testing.assert_array_equal(program(example()), jax.jit(looped)(example()))


def gradient_game(epsilon):
    # Projection onto the simplex sorts.
    domain = domains.simplex(3)
    learner = learners.online_gradient(32, domain, epsilon=epsilon)
    return learner, environments.linear_losses(domain, "iid")


@pytest.mark.parametrize(("game", "expected"), [(GAMES["exp3"], True), (gradient_game, False)])
def test_sweeps_are_one_kernel_where_they_can(game, expected):
    with compiled_programs() as found:
        sweep(game, np.array([0.1, 0.2]), 4, jr.key(0), checkpoints=2, progress=False)
    (program,) = found
    assert is_one_kernel(program) == expected


@pytest.mark.parametrize("game", [GAMES["exp3"], gradient_game])
def test_pieces_of_a_sweep_change_nothing(game, monkeypatch):
    points, results = np.array([0.1, 0.2]), []
    for trials in (128, 5, 4):
        monkeypatch.setattr(one_kernel, "_TRIALS", trials)
        monkeypatch.setattr(one_kernel, "_TRIALS_OF_MANY", trials)
        clear_caches()  # it does not know these numbers
        results.append(sweep(game, points, 22, jr.key(0), chunk=22, progress=False))
    for other in results[1:]:
        jax.tree.map(np.testing.assert_array_equal, results[0], other)


@pytest.mark.parametrize(("draws", "trials"), [(4, 5), (8, 3), (8, 4), (1, 1), (3, 7)])
def test_a_trial_has_the_same_bits_among_few_and_many(draws, trials):
    """With few trials, LLVM once contracted some products and sums and not others."""
    keys = jr.split(jr.key(0), 300)

    def played(keys):
        game = batch_last(lambda key: laws.normal(key, (draws,)), (True,))
        return np.asarray(compile_for_cpu(game, (keys,), [True])(keys))

    np.testing.assert_array_equal(played(keys)[:, :trials], played(keys[:trials]))


@pytest.mark.parametrize("size", [1, 3, 4, 7, 8])
def test_pieces_are_put_together_again(size):
    """Pieces of at most three; with a shared argument, keys, and leaves of several ranks."""
    numbers = np.arange(2.0 * size, dtype=np.float32).reshape(2, size)
    keys, shared, seen = jr.split(jr.key(0), size), jnp.float32(3.0), []

    def function(shared, numbers, keys):
        seen.append(numbers.shape[-1])
        return {"sum": shared * numbers.sum(axis=0), "rest": (numbers, jr.key_data(keys).T)}

    arguments = shared, {"numbers": numbers}, keys
    found = one_kernel.in_pieces(
        lambda shared, tree, keys: function(shared, tree["numbers"], keys), (False, True, True), 3
    )(*arguments)
    assert max(seen) <= 3 and -(-size // 3) * seen[0] < size + -(-size // 3)
    jax.tree.map(np.testing.assert_array_equal, found, function(shared, numbers, keys))
