"""One kernel for all rounds: it lowers for absent accelerators, and has the numbers of a sweep.

No accelerator runs these tests. JAX lowers the kernels, which shows what they cannot hold, and
Pallas's interpreter runs them on CPU.
"""

import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax import random as jr
from jax.extend.core import jaxpr_as_fun

from dpjax import clear_caches, domains, environments, learners, simulate_batches, sweep
from dpjax.core import generators
from dpjax.engine import compile, devices, one_kernel
from dpjax.engine.batch_last import batch_last
from dpjax.kernels import TARGETS, domain, played_by_kernel
from dpjax.kernels import one_kernel as as_one_kernel
from dpjax.kernels.entries import Entry, filled
from dpjax.kernels.moves import Moves
from dpjax.kernels.targets import MosaicGPU, Target
from dpjax.learners import factories
from tests.engine import abstract_devices
from tests.engine.abstract_devices import KERNEL, KIND, lowered
from tests.engine.games import SIZES, game_of, traced
from tests.test_action_sets import ENVIRONMENTS

FLAGS = [False, True, False]  # of the point, the seed and the key
TRIALS = 40  # more than one block of 32, and less than two
# Compiling takes some ten seconds for each of the others.
OFTEN = {"dp_exp3_lap", "exp3", "successive_elimination"}
COMPILED = [
    pytest.param(name, marks=() if name in OFTEN else pytest.mark.slow) for name in learners.__all__
]


@pytest.fixture(autouse=True)
def rounds_of_any_length(monkeypatch):
    """Removes a limit that is meant for compilers, which are slow on some."""
    monkeypatch.setattr(domain, "MOST_OPERATIONS", 10**6)


def arguments(trials=TRIALS):
    return jnp.float32(1.0), jnp.arange(trials, dtype=jnp.int32), jr.key(3)


def kernels(program, target) -> int:
    """The number of Pallas kernels of a game."""
    function = played_by_kernel(program, FLAGS, TARGETS[target])
    return lowered(function, arguments(2048), KIND[target]).count(KERNEL[target])


@pytest.mark.parametrize("name", learners.__all__)
def test_every_learner_lowers_as_one_kernel(name):
    program = traced(game_of(name, 1024), [512, 1024]).program
    assert {kernels(program, target) for target in KERNEL} == {1}


@pytest.mark.parametrize("name", ["linear_elimination", "successive_elimination"])
def test_a_game_played_by_batches_lowers_as_one_kernel(name):
    program = traced(game_of(name, 10**6), [10**5, 10**6], simulate_batches).program
    assert {kernels(program, target) for target in KERNEL} == {1}


def test_each_device_of_a_mesh_has_a_kernel():
    names = devices.local(jax.make_mesh((1,), ("one",))).axis_names
    one, size = traced(game_of("exp3", 64), [64]), (2, 1024)
    for target in KERNEL:
        mesh = abstract_devices.mesh(KIND[target], (1,), names)
        function = as_one_kernel(one.program, size, None, target=target)
        shapes = compile.block_shapes(one, size, mesh)
        text = lowered(devices.shard(function, mesh), shapes, KIND[target])
        assert text.count(KERNEL[target]) == 1


def test_numbers_that_are_arguments_are_arguments_of_the_kernel():
    """It lowers for accelerators, and with another horizon's numbers it is that horizon's game."""
    games = [traced(game_of("exp3", horizon), [horizon]) for horizon in (48, 64)]
    first, second = (game.compared(game.differences(other)) for game, other in (games, games[::-1]))
    assert first == second and first.lifted.places
    shapes = compile.block_shapes(first, (2, 1024), None)
    for target in KERNEL:
        function = as_one_kernel(first.to_compile(), (2, 1024), None, target=target)
        assert lowered(function, shapes, KIND[target]).count(KERNEL[target]) == 1
    function = as_one_kernel(first.to_compile(), (1, TRIALS), None, target="interpret")
    point, seeds, key = arguments()
    for one in (first, second):
        regret = function([point[None]], seeds, (key, one.lifted.vectors))[0]
        expected = jax.vmap(jaxpr_as_fun(one.program), (None, 0, None), -1)(point, seeds, key)[0]
        np.testing.assert_allclose(regret[..., 0, :], expected, rtol=1e-4, atol=1e-5)


# No kernel reads data rows that differ between trials, searches rows, or computes eigenvectors.
WITHOUT = {"classification", "logged", "spiked_covariance"}
OF_LEARNERS = {"bernoulli", "dueling", "gap_arms"}  # in the games of all learners
LOWERED = [x for x in ENVIRONMENTS if x.partition(",")[0] not in WITHOUT | OF_LEARNERS]


@pytest.mark.parametrize("name", LOWERED)
def test_every_environment_lowers_as_one_kernel(name):
    def game(epsilon):
        domain = domains.ball(3)
        environment = ENVIRONMENTS[name](domain)._replace(horizon=None)  # nothing is played
        kind = type(environment.action_set).__name__
        learner = {"Arms": "exp3", "Policies": "linucb"}.get(kind, "projection_free")
        learner = "exp4" if name == "advice" else learner
        sizes = {**SIZES, "domain": domain}
        if kind == "Arms":
            sizes["arms"] = environment.action_set.count
        return factories.build(learner, 64, sizes, epsilon=epsilon), environment

    program = traced(game, [32, 64]).program
    assert {kernels(program, target) for target in KERNEL} == {1}


def assert_same(program, play):
    """Up to the last bits, which change when compilers contract products and sums."""
    options = {"xla_cpu_prefer_vector_width": 512}

    def run(function):
        return jax.jit(function).lower(*arguments()).compile(options)(*arguments())

    expected = run(batch_last(jaxpr_as_fun(program), FLAGS, isolate_draws=False))
    for found, want in zip(run(play), expected, strict=True):
        np.testing.assert_allclose(np.asarray(found), np.asarray(want), rtol=1e-4, atol=1e-4)
    return expected


@pytest.mark.parametrize("name", COMPILED)
def test_a_kernel_has_the_numbers_of_a_sweep(name, quick_compilation):
    program = traced(game_of(name, 12), [5, 12]).program
    assert_same(program, played_by_kernel(program, FLAGS, TARGETS["interpret"]))


class Formulas(Target):
    """The interpreter, with the formulas for NVIDIA GPUs through Mosaic."""

    lanes = MosaicGPU.lanes
    replaced = MosaicGPU.replaced


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dp_klucb", "ftrl", "robust_elimination"])
def test_formulas_have_the_numbers_of_a_sweep(name, quick_compilation):
    """Together these learners use every formula that a learner uses."""
    program = traced(game_of(name, 12), [5, 12]).program
    assert_same(program, played_by_kernel(program, FLAGS, Formulas()))


@pytest.mark.slow
def test_a_kernel_plays_by_batches(quick_compilation):
    program = traced(
        game_of("successive_elimination", 3000), [1000, 3000], simulate_batches
    ).program
    assert_same(program, played_by_kernel(program, FLAGS, TARGETS["interpret"]))


def test_a_sweep_by_kernels_has_its_numbers(monkeypatch, caplog):
    """Points and seeds form one axis of trials there."""

    def game(epsilon):
        return learners.dp_exp3_lap(8, 3, epsilon=epsilon), environments.bernoulli([0.3, 0.5, 0.5])

    def played(key):
        clear_caches()
        return sweep(game, np.array([0.5, 1.0, 2.0]), 5, key, checkpoints=2, progress=False)

    key = jr.key(0, impl=generators.threefry13)
    expected = played(key)
    layouts = (lambda *given: as_one_kernel(*given, target="interpret"), compile.trials_last)
    here = compile.ACCELERATOR._replace(layouts=layouts)
    monkeypatch.setattr(compile, "platform_of", lambda mesh: here)
    with caplog.at_level(logging.INFO, logger="dpjax"):
        found = played(key)
    clear_caches()
    assert not caplog.records
    for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_arrays_in_memory():
    """A sieve, and numbers per trial, updated at places shared by all trials."""

    def sieve(_, seed, key):
        del key
        marked, sums = jnp.zeros(60, bool), jnp.zeros((5, 6), jnp.float32)
        table = jnp.arange(200.0)

        def one_round(t, carry):
            marked, sums = carry
            marked = marked.at[(2 * t) % 60].set(seed % 2 == 0)
            row = lax.dynamic_index_in_dim(sums, t % 5, keepdims=False)
            row = row + jnp.where(marked[(t * t) % 60], table[t], table[(seed + t) % 200])
            return marked, lax.dynamic_update_index_in_dim(sums, row, t % 5, 0)

        return lax.fori_loop(0, 40, one_round, (marked, sums))

    program = jax.make_jaxpr(sieve)(jnp.float32(1.0), jnp.int32(0), jr.key(0))
    expected = assert_same(program, played_by_kernel(program, FLAGS, TARGETS["interpret"]))
    assert 0.1 < np.mean(expected[0]) < 0.9
    assert kernels(program, "triton") == 1


@pytest.mark.parametrize("rounds", [13, 20])
def test_the_text_of_a_block_is_threefry(rounds):
    """The assembler text for NVIDIA GPUs, run by an interpreter of its six statements."""
    key = np.random.default_rng(0).integers(0, 2**32, (3, 50), np.uint32)
    expected = generators.threefry2x32(key[0], key[1], np.uint32(0), key[2], rounds)
    for index, words in enumerate(expected):
        registers = {f"${i + 1}": word for i, word in enumerate(key)}

        def value(operand, registers=registers):
            return registers[operand] if operand in registers else np.uint32(int(operand, 0))

        text = generators.threefry.block_text(index, rounds).strip("{} ")
        for statement in filter(None, map(str.strip, text.split(";"))):
            operation, rest = statement.split(None, 1)
            target, *operands = rest.split(", ")
            if operation != ".reg":
                registers[target] = STATEMENTS[operation](*map(value, operands))
        np.testing.assert_array_equal(registers["$0"], np.asarray(words))


STATEMENTS = {
    "add.u32": lambda a, b: a + b,
    "mov.b32": lambda a: a,
    "shf.l.wrap.b32": lambda low, high, n: (high << n) | (low >> (np.uint32(32) - n)),
    "xor.b32": lambda a, b: a ^ b,
}


def test_a_kernel_says_why_it_does_not_serve(monkeypatch):
    def refused(function, *given):
        program = jax.make_jaxpr(function)(*given)
        with pytest.raises(one_kernel.Unfit) as error:
            lowered(played_by_kernel(program, [True], TARGETS["tpu"]), given_trials, "tpu")
        return str(error.value)

    large = jnp.arange(400.0)
    given_trials = (jnp.zeros(1024, jnp.int32),)

    def looks_up(i):
        start = i, jnp.float32(0.0)
        return lax.fori_loop(0, 9, lambda t, c: (c[0] + 1, c[1] + large[(c[0] + t) % 400]), start)

    assert "at different places" in refused(looks_up, jnp.int32(0))
    monkeypatch.setattr(domain, "MOST_OPERATIONS", 2)
    assert "the rounds have more than 2 operations" in refused(looks_up, jnp.int32(0))


def test_mosaic_is_not_used_on_a_gpu_for_which_it_has_no_code(monkeypatch):
    """Its compiler ends the process if a GPU is older than Hopper."""

    class Old:
        compute_capability = "8.6"

    monkeypatch.setattr(devices, "default", Old)
    program = jax.make_jaxpr(lambda x: lax.fori_loop(0, 2, lambda i, x: x + i, x))(jnp.float32(0.0))
    play = played_by_kernel(program, [True], TARGETS["mosaic_gpu"])
    with pytest.raises(one_kernel.Unfit, match=r"compute capability 9\.0, and the GPU has 8\.6"):
        lowered(play, (jnp.zeros(128),), "cuda")


@pytest.mark.parametrize(("mantissa", "fits"), [(23, True), (7, False)])
def test_a_number_is_rounded_to_no_other_precision(mantissa, fits):
    """A kernel has no code for rounding, and needs none to a number's own precision."""
    closed = jax.make_jaxpr(lambda x: lax.reduce_precision(x, 8, mantissa))(jnp.float32(0.1))
    entry = Entry(jnp.full(32, 0.1, jnp.float32))
    on_card = domain.Entries(TARGETS["triton"], Moves([]), None, [])
    if fits:
        (found,) = on_card.evaluate(closed, [filled((), [entry])])
        assert found[()].value is entry.value
    else:
        with pytest.raises(one_kernel.Unfit, match="another precision"):
            on_card.evaluate(closed, [filled((), [entry])])
