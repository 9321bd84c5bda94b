"""Compiled programs are identified by a game's behaviour: never stale, never compiled twice."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax import random as jr

from dpjax import clear_caches, noise, simulate, store, sweep
from dpjax.engine import programs
from dpjax.study.traces import trace
from tests.engine import games
from tests.engine.notebooks import CELLS, POINTS, Notebook, game_of, play
from tests.test_conformance import compilations

pytestmark = pytest.mark.usefixtures("quick_compilation")


OF_TABLE = "def game(point): return game_of(point * jnp.max(jnp.asarray(table)))"
# Cells with a game, of which the last one changes it. Whether other values are seen is tested in
# test_closure_digest.py.
CHANGES = {
    "a global": ("factor = 1.0", "def game(point): return game_of(factor * point)", "factor = 2.0"),
    # JAX does not copy it on CPU.
    "a large array": ("table = np.ones((4096, 16), np.float32)", OF_TABLE, "table[7, 1] = 2.0"),
    "what is called back": (
        "def cost(point): return 1.0 * point",
        "def game(point):\n    shape = jax.ShapeDtypeStruct((), jnp.float32)\n    return game_of("
        "jax.pure_callback(cost, shape, jnp.asarray(point), vmap_method='sequential'))",
        "def cost(point): return 2.0 * point",
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_a_sweep_and_a_store_hold_what_the_game_does_now(change, tmp_path):
    """The old store is refused, and a new one gets the new numbers."""
    *first, then = CHANGES[change]
    cells = Notebook(*first)
    game = cells.game
    assert play(game) == play(game, store=tmp_path / "old") == [2.0, 6.0]
    cells.run(then)
    assert play(game) == [4.0, 12.0]
    # Values that Python computes while the program runs are not part of it.
    if change != "what is called back":
        with pytest.raises(ValueError, match="was made with another game"):
            play(game, store=tmp_path / "old")
    assert play(game, store=tmp_path / "new") == [4.0, 12.0]
    np.testing.assert_array_equal(store.read(tmp_path / "new").regret[:, 0, -1], [4.0, 12.0])


def traced_of(game):
    return trace(game, simulate, np.array([2]), POINTS, jr.key(0).dtype)


def of_table(table):
    return lambda point: game_of(point * jnp.max(jnp.asarray(table)))


def test_what_was_traced_is_what_is_compiled():
    """Even if an array changes in between, for instance before a smaller block is compiled."""
    table = np.ones((4096, 16), np.float32)
    traced = traced_of(of_table(table))
    table[:] = 2.0
    program = programs.compiled(traced, (2, 2), None)
    regret, *_ = program.run(
        [POINTS.astype(np.float32)], np.arange(2, dtype=np.int32), (jr.key_data(jr.key(0)), {})
    )
    np.testing.assert_array_equal(regret[0, :, 0], [2.0, 6.0])


def test_a_game_that_does_the_same_is_not_compiled_again():
    """All cells run again, with new arrays of equal numbers; points, key and seeds also change."""
    cells = Notebook(*CELLS)
    first = play(cells.game)
    for again in (cells, Notebook(*CELLS)):
        for cell in CELLS:
            again.run(cell)
        again.game(POINTS[0])  # runs the code outside the program
        with compilations() as events:
            assert play(again.game) == first
            sweep(again.game, POINTS + 1.0, 2, jr.key(1), checkpoints=1, progress=False)
            assert not events
    cells.run("table[4999] = -1.0")
    with compilations() as events:
        assert play(cells.game) != first
    assert events  # the counter works


def test_programs_are_kept_within_bounds(monkeypatch):
    """The most recently used are kept, one of any size, and none after clear_caches."""
    sizes = [(2, seeds) for seeds in (2, 3, 4)]
    clear_caches()
    traced = traced_of(lambda point: game_of(point))
    first, second, _ = (programs.compiled(traced, size, None) for size in sizes)

    def kept():
        return [size for _, size, _ in programs._kept]

    assert len(kept()) == 3 and first.bytes_held > 10_000
    monkeypatch.setattr(programs, "_BYTES", 2.5 * first.bytes_held)
    assert programs.compiled(traced, sizes[0], None) is first
    assert kept() == [sizes[2], sizes[0]]
    assert programs.compiled(traced, sizes[1], None) is not second
    assert kept() == [sizes[0], sizes[1]]
    monkeypatch.setattr(programs, "_BYTES", 1)
    programs.compiled(traced, sizes[2], None)
    assert kept() == [sizes[2]]
    clear_caches()
    assert not kept()
    # Arrays in a program count.
    table = np.ones((4096, 16), np.float32)
    many = programs.compiled(traced_of(of_table(table)), sizes[0], None)
    assert many.bytes_held >= first.bytes_held + 2 * table.nbytes


def traced(function, *arguments):
    return programs.digests(jax.make_jaxpr(function)(*arguments))[:3]


def test_digests_tell_numbers_from_the_rest():
    """By place: in constants, in literals, within programs; and everything else."""
    x = jnp.float32(1.0)
    table = np.arange(64.0, dtype=np.float32)

    def look(table, factor=2.0, other=jnp.sin, within=4.0):
        return lambda x: (
            lax.cond(x > 0.0, lambda: jnp.asarray(table)[3] * x, lambda: within * other(x)) * factor
        )

    first = traced(look(table), x)
    assert first == traced(look(table.copy()), x)
    rolled, more = look(np.roll(table, 1)), look(table, within=5.0)
    for numbers in (rolled, look(table, 3.0), look(-table, 3.0), more):
        digest, text, _ = traced(numbers, x)
        assert text == first[1] and digest != first[0]
    for another in (look(table[:63]), look(table, other=jnp.cos), lambda x: x):
        digest, text, _ = traced(another, x)
        assert text != first[1] and digest != first[0]
    # The same numbers in different places.
    swap = lambda a, b: lambda x: (x * np.float32(a)) - (x * np.float32(b))  # noqa: E731
    assert traced(swap(2.0, 3.0), x)[0] != traced(swap(3.0, 2.0), x)[0]
    wires = [lambda x, y: x - y, lambda x, y: y - x, lambda x, y: x - x]
    assert len({traced(wire, x, x)[1] for wire in wires}) == 3
    # A mechanism's sensitivity is a number, which the compiled code does not read.
    noisy = lambda size: lambda key: noise.laplace.prefix(key, x, x, 1.0, (size, size))  # noqa: E731
    both = [traced(noisy(size), jr.key(0)) for size in (3.0, 4.0)]
    assert both[0][1] == both[1][1] and both[0][0] != both[1][0]


def test_a_constant_that_nothing_reads_is_no_part_of_a_program():
    """JAX keeps the constant of the checkpoints as long as a Result holds it."""
    held = []

    def holds(*game, checkpoints):
        held.append(simulate(*game, checkpoints=checkpoints))
        return held[-1]

    def lets_go(*game, checkpoints):
        result = simulate(*game, checkpoints=checkpoints)
        return result._replace(rounds=None)

    game = games.game_of("exp3", 8)
    first, second = (games.traced(game, [4, 8], play) for play in (holds, lets_go))
    assert first.digest == second.digest
    if not jax.__version__.startswith("0.7."):  # there the constant is read, and its copy not
        assert not any(np.array_equal(constant, [4, 8]) for constant in first.program.consts)
    longer = games.traced(games.game_of("exp3", 9), [4, 9])
    assert longer.digest != first.digest
