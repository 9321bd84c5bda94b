"""Compiled programs are kept under what a game does: nothing stale, nothing compiled twice."""

import contextlib
import importlib
import sys
import types
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax import random as jr

from dpjax import clear_caches, simulate, store, sweep
from dpjax.core import Arms, Batch, BatchLearner, Environment, Learner, Outcome, Privacy
from dpjax.engine import programs, reads
from dpjax.feedback import bandit, full
from dpjax.simulate import simulate_batches
from tests.test_conformance import compilations

pytestmark = pytest.mark.usefixtures("quick_compilation")

POINTS = np.array([1.0, 3.0])


def game_of(loss):
    """Two rounds that cost this each, whatever is played."""
    zero = jnp.zeros((), jnp.int32)
    learner = Learner(
        lambda key: (zero, zero),
        lambda state, key, loss: (state, state),
        full,
        Arms(2),
        2,
        Privacy(),
    )
    environment = Environment(
        init=lambda key: (),
        step=lambda state, key, arm: (state, Outcome(jnp.zeros(2), jnp.asarray(loss, jnp.float32))),
        regret=lambda state, tally: tally,
        action_set=Arms(2),
    )
    return learner, environment


def play(game, **options):
    """The regret of each point."""
    options = {"checkpoints": 1, "progress": False, **options}
    return sweep(game, POINTS, 2, jr.key(0), **options).regret[:, 0, -1].tolist()


class Notebook:
    """Cells that share their names, as those of a notebook do."""

    def __init__(self, *cells):
        self.names = {
            "__name__": "notebook",
            "np": np,
            "jnp": jnp,
            "jax": jax,
            "lax": lax,
            "game_of": game_of,
        }
        for cell in cells:
            self.run(cell)

    def run(self, cell):
        exec(cell, self.names)

    @property
    def game(self):
        return self.names["game"]


def notebook(first, then):
    """A game in cells, and a cell that changes it."""

    def make(tmp_path, monkeypatch):
        cells = Notebook(*first)
        return cells.game, lambda: cells.run(then)

    return make


def closure_cell(tmp_path, monkeypatch):
    factor = 1.0

    def change():
        nonlocal factor
        factor = 2.0

    return lambda point: game_of(factor * point), change


def attribute(tmp_path, monkeypatch):
    settings = types.SimpleNamespace(factor=1.0)
    return lambda point: game_of(settings.factor * point), lambda: vars(settings).update(factor=2.0)


def module_reloaded(tmp_path, monkeypatch):
    """Where the game is in a notebook, and its helper in a module."""
    file = tmp_path / "helpers_of_a_test.py"
    file.write_text("def cost(point):\n    return 1.0 * point\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "helpers_of_a_test", raising=False)
    helpers = importlib.import_module("helpers_of_a_test")

    def change():
        file.write_text("def cost(point):\n    return 2.0 * point\n")
        importlib.reload(helpers)

    return lambda point: game_of(helpers.cost(point)), change


LARGE = "np.ones((4096, 16), np.float32)"  # which JAX does not copy on CPU
CHANGES = {
    "a helper": notebook(
        ["def cost(point): return 1.0 * point", "def game(point): return game_of(cost(point))"],
        "def cost(point): return 2.0 * point",
    ),
    "a global": notebook(
        ["factor = 1.0", "def game(point): return game_of(factor * point)"], "factor = 2.0"
    ),
    "a small array": notebook(
        [
            "table = np.ones(3, np.float32)",
            "def game(point): return game_of(point * jnp.max(jnp.asarray(table)))",
        ],
        "table[1] = 2.0",
    ),
    "a large array": notebook(
        [
            f"table = {LARGE}",
            "def game(point): return game_of(point * jnp.max(jnp.asarray(table)))",
        ],
        "table[7, 1] = 2.0",
    ),
    "an array within a program": notebook(
        [
            f"table = {LARGE}",
            "def game(point):\n"
            "    look = lambda point: point * jnp.max(jnp.asarray(table))\n"
            "    return game_of(lax.cond(point > 0.0, look, lambda point: point, point))",
        ],
        "table[7, 1] = 2.0",
    ),
    "a closure": closure_cell,
    "an attribute": attribute,
    "a module": module_reloaded,
    "what is called back": notebook(
        [
            "def cost(point): return 1.0 * point",
            "def game(point):\n"
            "    shape = jax.ShapeDtypeStruct((), jnp.float32)\n"
            "    return game_of(jax.pure_callback(\n"
            "        cost, shape, jnp.asarray(point), vmap_method='sequential'))",
        ],
        "def cost(point): return 2.0 * point",
    ),
}
every_change = pytest.mark.parametrize("change", CHANGES)


@every_change
def test_what_a_game_reads_may_change(change, tmp_path, monkeypatch):
    game, edit = CHANGES[change](tmp_path, monkeypatch)
    assert play(game) == [2.0, 6.0]
    edit()
    assert play(game) == [4.0, 12.0]


@every_change
def test_a_store_holds_what_the_game_does_now(change, tmp_path, monkeypatch):
    """The old store is refused, and a new one filled with the new numbers."""
    game, edit = CHANGES[change](tmp_path, monkeypatch)
    assert play(game, store=tmp_path / "old") == [2.0, 6.0]
    edit()
    # What Python computes as the program runs is no part of it.
    if change != "what is called back":
        with pytest.raises(ValueError, match="was made with another game"):
            play(game, store=tmp_path / "old")
    assert play(game, store=tmp_path / "new") == [4.0, 12.0]
    np.testing.assert_array_equal(store.read(tmp_path / "new").regret[:, 0, -1], [4.0, 12.0])


GLOBAL = CHANGES["a global"]

# What JAX itself keeps under a function that is given to it by name.
KEPT = {
    "jit": "jax.jit(cost)(point)",
    "cond": "lax.cond(point > 0.0, cost, cost, point)",
    "switch": "lax.switch(1, [cost, cost], point)",
    "scan": "lax.scan(step, point, None, length=1)[0]",
    "fori_loop": "lax.fori_loop(0, 1, body, point)",
    "while_loop": "lax.while_loop(below, grow, jnp.stack([point, 0.0 * point]))[0]",
    "checkpoint": "jax.checkpoint(cost)(point)",
}
CALLED = [
    "factor = 1.0",
    "def cost(point): return factor * point",
    "def step(point, x): return cost(point), x",
    "def body(i, point): return cost(point)",
    "def below(x): return x[1] < 0.5",
    "def grow(x): return jnp.stack([cost(x[0]), x[1] + 1.0])",
]


def test_what_jax_keeps_is_traced_again_where_it_reads_something_else():
    """One of these that is stale would show in the sum."""
    cells = Notebook(*CALLED, f"def game(point): return game_of({' + '.join(KEPT.values())})")
    usual = [2.0 * len(KEPT), 6.0 * len(KEPT)]
    assert play(cells.game) == usual
    cells.run("factor = 2.0")
    assert play(cells.game) == [2.0 * cost for cost in usual]
    cells.run("factor = 1.0")
    assert play(cells.game) == usual


@pytest.mark.parametrize("call", KEPT)
def test_what_jax_keeps(call):
    """By itself; the tests would show nothing else."""
    cells = Notebook(*CALLED, f"def calls(point): return {KEPT[call]}")
    trace = lambda: str(jax.make_jaxpr(lambda x: cells.names["calls"](x))(1.0))  # noqa: E731
    first = trace()
    cells.run("factor = 2.0")
    assert trace() == first


PLACES = {
    "a closure": (
        "def make():\n    factor = 1.0\n    def cost(point): return factor * point\n"
        "    def change():\n        nonlocal factor\n        factor = 2.0\n"
        "    return cost, change\ncost, change = make()",
        "change()",
    ),
    "a default": (
        "def cost(point, factor=1.0): return factor * point", "cost.__defaults__ = (2.0,)",
    ),
    "an array": (
        "table = np.ones(3)\ndef cost(point): return jnp.float32(table[2]) * point",
        "table[2] = 2.0",
    ),
    "a list": ("table = [1.0]\ndef cost(point): return table[0] * point", "table[0] = 2.0"),
    "a dict": (
        "table = {'factor': 1.0}\ndef cost(point): return table['factor'] * point",
        "table['factor'] = 2.0",
    ),
    "a class": (
        "class Settings: factor = 1.0\ndef cost(point): return Settings.factor * point",
        "Settings.factor = 2.0",
    ),
    "an object": (
        "class Cost:\n    def __call__(self, point): return self.factor * point\n"
        "inner = Cost()\ninner.factor = 1.0\ndef cost(point): return inner(point)",
        "inner.factor = 2.0",
    ),
    "a helper": (
        "def helper(point): return 1.0 * point\ndef cost(point): return helper(point)",
        "def helper(point): return 2.0 * point",
    ),
    "a function within": (
        "factor = 1.0\ndef cost(point): return (lambda: factor * point)()", "factor = 2.0"
    ),
    "a module": (
        "import types\nsettings = types.ModuleType('settings')\nsettings.factor = 1.0\n"
        "def cost(point): return settings.factor * point",
        "settings.factor = 2.0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_what_a_function_reads_is_found(place):
    cell, edit = PLACES[place]
    cells = Notebook(
        cell, "def game(point): return game_of(lax.cond(point > 0, cost, cost, point))"
    )
    same = lambda: isinstance(reads.as_now(cells.game), contextlib.nullcontext)  # noqa: E731
    assert same() and same()
    cells.run(edit)
    assert not same()


def test_a_game_that_reads_the_same_is_traced_from_what_jax_keeps():
    """Redefined too; libraries are not looked into."""
    cells = Notebook(*CELLS)
    for _ in range(2):
        assert reads.as_now(cells.game, simulate).__class__ is contextlib.nullcontext
        cells = Notebook(*CELLS)
    seen = {}
    reads._digest((cells.game, simulate, jnp.sum), (), {}, seen)
    assert {function.__name__ for function in seen} == {"game", "cost", "game_of"}


ODD = {
    "an object that answers nothing": (
        "class Odd:\n    def __getattr__(self, name): raise RuntimeError(name)\nodd = Odd()"
    ),
    "a list nested too deeply": "odd = []\nfor _ in range(3000): odd = [odd]",
    "a chain of objects": (
        "class Node: pass\nodd = node = Node()\n"
        "for _ in range(3000):\n    node.next = Node()\n    node = node.next"
    ),
}


@pytest.mark.parametrize("odd", ODD)
def test_what_cannot_be_looked_into_stops_no_game(odd):
    cells = Notebook(ODD[odd], "def game(point): return odd and game_of(point)")
    cells.names["odd"] = (cells.names["odd"],)
    for _ in range(2):
        assert isinstance(reads.as_now(cells.names["game"]), contextlib.nullcontext)


def test_what_jax_keeps_of_another_game():
    """The function in cond is the same, the game that uses it is new."""
    of_cond = f"def game(point): return game_of({KEPT['cond']})"
    cells = Notebook(*CALLED, of_cond)
    assert play(cells.game) == [2.0, 6.0]
    cells.run("factor = 2.0")
    cells.run(of_cond)
    assert play(cells.game) == [4.0, 12.0]


@pytest.mark.parametrize(
    "options", [{"mesh": jax.make_mesh((1,), ("one",))}, {"chunk": 1}, {"checkpoints": [1, 2]}]
)
def test_nothing_is_stale_in_other_ways_to_run(options, tmp_path, monkeypatch):
    game, edit = GLOBAL(tmp_path, monkeypatch)
    assert play(game, **options) == [2.0, 6.0]
    edit()
    assert play(game, **options) == [4.0, 12.0]


def test_nothing_is_stale_in_batches():
    factor = 1.0

    def game(point):
        batch = Batch(jnp.zeros((), jnp.int32), jnp.int32(2))
        learner = BatchLearner(
            init=lambda key: ((), batch), step=lambda state, key, total: (state, batch),
            feedback=bandit, zero=jnp.float32(0.0), action_set=Arms(2), horizon=2,
            privacy=Privacy(),
        )  # fmt: skip
        cost = factor * point
        return learner, game_of(cost)[1]._replace(
            batch=lambda state, *_: (state, jnp.float32(0.0), jnp.asarray(cost, jnp.float32))
        )

    assert play(game, play=simulate_batches) == [2.0, 6.0]
    factor = 2.0
    assert play(game, play=simulate_batches) == [4.0, 12.0]


def test_a_setting_of_jax_makes_another_program(tmp_path):
    """Here one that changes what keys are split into, which a store does not mix."""

    def game(point):
        learner, environment = game_of(0.0)
        return learner, environment._replace(
            step=lambda state, key, arm: (
                state, Outcome(jnp.zeros(2), point * jr.uniform(jr.split(key)[1]))
            )
        )  # fmt: skip

    usual = play(game, store=tmp_path / "store")
    with jax.threefry_partitionable(not jax.config.jax_threefry_partitionable):
        other = play(game)
        with pytest.raises(ValueError, match="was made with another game"):
            play(game, store=tmp_path / "store")
    assert usual != other and play(game) == usual


def test_what_was_traced_is_what_is_compiled():
    """Also if an array changes in between, as it can before a smaller block is compiled."""
    table = np.ones((4096, 16), np.float32)
    traced = programs.trace(
        lambda point: game_of(point * jnp.max(jnp.asarray(table))),
        simulate, np.array([2]), POINTS, jr.key(0).dtype,
    )  # fmt: skip
    table[:] = 2.0
    program = programs.compiled(traced, (2, 2), None)
    regret, _ = program.run([POINTS.astype(np.float32)], np.arange(2, dtype=np.int32), jr.key(0))
    np.testing.assert_array_equal(regret[0, :, 0], [2.0, 6.0])


CELLS = [
    "factor = 1.25",
    "table = np.arange(5000.0, dtype=np.float32)",
    "def cost(point): return factor * point + jnp.min(jnp.asarray(table))",
    "def game(point): return game_of(cost(point))",
]


def test_a_game_that_does_the_same_is_not_compiled_again():
    """All cells run again, arrays are others with the same numbers; points, key and seeds too."""
    cells = Notebook(*CELLS)
    first = play(cells.game)
    for again in (cells, Notebook(*CELLS)):
        for cell in CELLS:
            again.run(cell)
        again.game(POINTS[0])  # what is computed outside of the program
        with compilations() as events:
            assert play(again.game) == first
            sweep(again.game, POINTS + 1.0, 2, jr.key(1), checkpoints=1, progress=False)
            assert not events
    cells.run("table[4999] = -1.0")
    with compilations() as events:
        assert play(cells.game) != first
    assert events  # what is counted here is counted at all


def test_programs_are_kept_within_bounds(monkeypatch):
    """Those that were used last; one is kept however large it is, and none after clear_caches."""
    sizes = [(2, seeds) for seeds in (2, 3, 4)]
    clear_caches()
    traced = programs.trace(game_at(1.0), simulate, np.array([2]), POINTS, jr.key(0).dtype)
    first, second, _ = (programs.compiled(traced, size, None) for size in sizes)
    assert len(programs._kept) == 3 and first.bytes_held > 10_000
    monkeypatch.setattr(programs, "_BYTES", 2.5 * first.bytes_held)
    assert programs.compiled(traced, sizes[0], None) is first
    assert [size for _, size, _ in programs._kept] == [sizes[2], sizes[0]]
    assert programs.compiled(traced, sizes[1], None) is not second
    assert [size for _, size, _ in programs._kept] == [sizes[0], sizes[1]]
    monkeypatch.setattr(programs, "_BYTES", 1)
    programs.compiled(traced, sizes[2], None)
    assert [size for _, size, _ in programs._kept] == [sizes[2]]
    clear_caches()
    assert not programs._kept


def test_a_program_counts_the_arrays_in_it():
    table = np.ones((4096, 16), np.float32)
    sizes = {}
    for name, game in {
        "few": game_at(1.0),
        "many": lambda point: game_of(point * jnp.max(jnp.asarray(table))),
    }.items():
        traced = programs.trace(game, simulate, np.array([2]), POINTS, jr.key(0).dtype)
        sizes[name] = programs.compiled(traced, (2, 2), None).bytes_held
    assert sizes["many"] >= sizes["few"] + 2 * table.nbytes


def game_at(factor):
    return lambda point: game_of(factor * point)


def test_all_that_is_kept_has_a_bound():
    assert programs._alike.cache_info().maxsize <= 1024
    assert programs._type.cache_info().maxsize <= 4096


def test_clear_caches_leaves_nothing_stale():
    """JAX's traces go with what is remembered of functions, or the second would be the first."""
    cells = Notebook(*CALLED, f"def game(point): return game_of({KEPT['cond']})")
    assert play(cells.game) == [2.0, 6.0]
    cells.run("factor = 2.0")
    clear_caches()
    assert play(cells.game) == [4.0, 12.0]
    cells.run("factor = 1.0")
    assert play(cells.game) == [2.0, 6.0]


def test_traces_in_contexts_are_let_go(monkeypatch):
    """After some of them, and with right numbers all along."""
    monkeypatch.setattr(reads, "_CONTEXTS", 3)
    reads.forget()
    cells = Notebook(*CALLED, f"def game(point): return game_of({KEPT['cond']})")
    for factor in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 2.0, 1.0):
        cells.run(f"factor = {factor}")
        assert play(cells.game) == [2.0 * factor, 6.0 * factor]
        assert len(reads._entered) <= 3


def test_a_loop_over_games_that_differ_in_numbers_is_told_once(monkeypatch):
    """And a loop over the same game, or over games of other shapes or horizons, is not."""

    monkeypatch.setattr(programs, "_ALIKE", 4)

    def loop(games):
        for game in games:
            play(game)

    def of_shape(n):
        return lambda point: game_of(point * jnp.sum(jnp.full(n, 0.125)))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loop([lambda point: game_of(0.75 * point)] * 9)
        loop([lambda point: game_of(0.75 * point) for _ in range(9)])
        loop([of_shape(n) for n in range(1, 5)])
    message = "game: it is compiled for the 4th time for other numbers, .* put what changes into"
    with pytest.warns(RuntimeWarning, match=message) as told:
        loop([lambda point, i=i: game_of(point / (1.0 + i)) for i in range(5)])
    assert len(told) == 1 and told[0].filename == __file__


def traced(function, *arguments):
    return programs.digests(jax.make_jaxpr(function)(*arguments))


def test_digests_tell_numbers_from_the_rest():
    """Where they are: in constants, in literals, within programs; and what else there is."""
    x = jnp.float32(1.0)
    table = np.arange(64.0, dtype=np.float32)

    def look(table, factor=2.0, other=jnp.sin):
        return lambda x: (
            lax.cond(x > 0.0, lambda: jnp.asarray(table)[3] * x, lambda: other(x)) * factor
        )

    first = traced(look(table), x)
    assert first == traced(look(table.copy()), x)
    for numbers in (look(np.roll(table, 1)), look(table, 3.0), look(-table, 3.0)):
        digest, text, _ = traced(numbers, x)
        assert text == first[1] and digest != first[0]
    for another in (look(table[:63]), look(table, other=jnp.cos), lambda x: x):
        digest, text, _ = traced(another, x)
        assert text != first[1] and digest != first[0]
    # The same numbers in other places.
    swap = lambda a, b: lambda x: (x * np.float32(a)) - (x * np.float32(b))  # noqa: E731
    assert traced(swap(2.0, 3.0), x)[0] != traced(swap(3.0, 2.0), x)[0]
    wires = [lambda x, y: x - y, lambda x, y: y - x, lambda x, y: x - x]
    assert len({traced(wire, x, x)[1] for wire in wires}) == 3
