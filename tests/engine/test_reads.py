"""What functions read is found, and what JAX keeps of them is traced anew where it changed."""

import contextlib

import jax
import jax.numpy as jnp
import pytest

from dpjax import clear_caches, simulate
from dpjax.engine import reads
from tests.engine.notebooks import CALLED, CELLS, KEPT, Notebook, play

pytestmark = pytest.mark.usefixtures("quick_compilation")


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
    assert {function.__name__ for function in seen} == {"game", "cost", "game_of", "idle"}


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
