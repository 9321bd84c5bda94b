"""All values that functions read are found, and if one changed, JAX traces them anew."""

from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import audit, clear_caches, environments, learners, noise, simulate
from dpjax.engine import closure_digest
from dpjax.study.programs import pairs
from tests.audit.test_releases import CHANGED, learner_of
from tests.engine.notebooks import CALLED, CELLS, KEPT, Notebook, play
from tests.play import idle
from tests.test_wrong_uses import uses

pytestmark = pytest.mark.usefixtures("quick_compilation")


def test_what_jax_keeps_is_traced_again_where_it_reads_something_else():
    """A stale value would change the sum."""
    cells = Notebook(*CALLED, f"def game(point): return game_of({' + '.join(KEPT.values())})")
    usual = [2.0 * len(KEPT), 6.0 * len(KEPT)]
    assert play(cells.game) == usual
    cells.run("factor = 2.0")
    assert play(cells.game) == [2.0 * cost for cost in usual]
    cells.run("factor = 1.0")
    assert play(cells.game) == usual


@pytest.mark.parametrize("call", KEPT)
def test_what_jax_keeps(call):
    """JAX's own behaviour, without which the other tests would prove nothing."""
    cells = Notebook(*CALLED, f"def calls(point): return {KEPT[call]}")
    trace = lambda: str(jax.make_jaxpr(lambda x: cells.names["calls"](x))(1.0))  # noqa: E731
    first = trace()
    cells.run("factor = 2.0")
    assert trace() == first


def is_traced_anew(game):
    """Whether a game is traced in its own context, apart from everything that JAX keeps."""
    with closure_digest.as_now(game):
        return closure_digest._context.value != closure_digest._since


# {the name of a value: cells that are separated by " | "}
PLACES = {name: cells.replace("\\n", "\n") for cells, name in uses("values_read.txt")}
GAME = "def game(point): return game_of(lax.cond(point > 0, cost, cost, point))"
# They keep the values that they read, and are passed to JAX by name.
OBJECTS = [PLACES.pop(name) for name in ("a partial", "a callable", "a jitted function")]


@pytest.mark.parametrize("place", PLACES)
def test_what_a_function_reads_is_found(place, monkeypatch):
    monkeypatch.setenv("FACTOR", "")
    monkeypatch.setattr("matplotlib.factor", None, raising=False)
    monkeypatch.setattr("matplotlib.colors.factor", None, raising=False)
    cell, *read, edit = PLACES[place].split(" | ")
    cells = Notebook(cell, *(f"def cost(point): return {value} * point" for value in read), GAME)
    assert not is_traced_anew(cells.game) and not is_traced_anew(cells.game)
    cells.run(edit)
    assert is_traced_anew(cells.game)


@pytest.mark.parametrize("given", OBJECTS, ids=["a partial", "a callable", "a jitted function"])
def test_objects_that_jax_keeps_traces_under(given):
    """Even if the game that uses them is new."""
    cell, edit = given.split(" | ")
    cells = Notebook(cell, GAME)
    assert play(cells.game) == [2.0, 6.0]
    cells.run(edit)
    cells.run(GAME)
    assert play(cells.game) == [4.0, 12.0]


def test_a_game_that_reads_the_same_is_traced_from_what_jax_keeps(monkeypatch):
    """Even after a redefinition; libraries and other environment variables are not inspected."""
    cells = Notebook(*CELLS)
    for i in range(2):
        monkeypatch.setenv("FACTOR", str(i))
        assert not is_traced_anew(cells.game)
        cells = Notebook(*CELLS)
    known = {}
    closure_digest._Pickler((cells.game, simulate, jnp.sum), known, None)
    found = {each.__name__ for each in known} - {"simulate", "sum", "object", "float64"}
    assert {"game", "cost", "game_of", "idle"} < found and len(found) < 40, found


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
def test_a_value_that_cannot_be_read_stops_no_game(odd):
    """It is traced anew if a change of the value could go unnoticed."""
    cells = Notebook(ODD[odd], *CALLED, f"def game(point): return game_of({KEPT['cond']})")
    cells.names["odd"] = (cells.names["odd"],)
    assert play(cells.game) == [2.0, 6.0]
    cells.run(f"def game(point): return odd and game_of({KEPT['cond']})")
    for factor in (2.0, 3.0):
        cells.run(f"factor = {factor}")
        assert play(cells.game) == [2.0 * factor, 6.0 * factor]


def test_clear_caches_leaves_nothing_stale_outside_of_sweeps():
    cells = Notebook("factor = 0.5", "@jax.jit\ndef mean(): return jnp.float32(factor)")
    environment = environments.from_means(
        lambda t: jnp.stack([cells.names["mean"](), jnp.float32(0.0)]), horizon=2, regret="pseudo"
    )

    def cost():
        return float(simulate(idle(2), environment, jr.key(0)).regret[-1])

    assert cost() == 1.0
    cells.run("factor = 0.25")
    assert cost() == 1.0  # JAX's own behaviour
    clear_caches()
    assert cost() == 0.5


def test_an_unknown_value_is_logged(caplog):
    """Tracing anew takes longer. The value is nested more deeply than Python pickles."""
    caplog.set_level("INFO", logger="dpjax")
    deep = []
    for _ in range(100_000):
        deep = [deep]
    cells = Notebook("def game(point): return odd")
    cells.names["odd"] = deep
    with closure_digest.as_now(cells.game):
        pass
    assert "because a value that it reads is unknown: maximum recursion depth" in caplog.text


def test_programs_of_other_code_stay_cached():
    """A game gets no trace of other code either, though it was made before the game's first one."""
    traced = []

    def cost(point):
        traced.append(cells.names["factor"])
        return cells.names["factor"] * point

    cells = Notebook("factor = 1.0", "def game(point): return game_of(cost(point))")
    cells.names["cost"] = own = jax.jit(cost)
    own(jnp.float32(1.0))
    cells.run("factor = 2.0")
    assert play(cells.game) == [4.0, 12.0]
    traced.clear()
    clear_caches()
    own(jnp.float32(1.0))
    assert not traced


def test_audits_see_changes():
    """Half the noise spends twice the epsilon."""
    cells = Notebook(
        "scale = 1.0",
        "@jax.jit\ndef noisy(key, loss): return noise.laplace(key, loss, scale)",
        "def step(state, key, loss): return (noisy(key, loss),) * 2",
    )
    cells.names["noise"] = noise
    learner = learner_of(lambda *now: cells.names["step"](*now))

    def spent():
        return float(audit.spent(audit.replay(learner, CHANGED, jr.key(0)), 0.0))

    first = spent()
    cells.run("scale = 0.5")
    assert spent() == pytest.approx(2.0 * first) and first > 0.0


def test_a_context_within_that_of_another_function():
    """The inner one is of its own functions, also if they are those of a context further out."""
    cells = Notebook("factor = 1.0", "def game(point): return factor * point",
                     "def other(point): return point")  # fmt: skip
    game, other = cells.game, cells.names["other"]
    assert not is_traced_anew(game)
    cells.run("factor = 2.0")
    with closure_digest.as_now(game):
        assert is_traced_anew(game)
        with closure_digest.as_now(other):
            assert closure_digest._context.value == closure_digest._since
            assert is_traced_anew(game)


def test_declarations_see_changes():
    """They are computed by factories at plain numbers."""
    cells = Notebook(
        "factor = 1.0",
        "@jax.jit\ndef own(epsilon): return factor * epsilon",
        "def game(epsilon): return learners.dp_exp3_lap(9, 2, epsilon=own(epsilon)), losses",
    )
    cells.names |= {"learners": learners, "losses": environments.bernoulli([0.5, 0.5])}
    for factor in (1.0, 2.0):
        cells.run(f"factor = {factor}")
        ((learner, _),) = pairs(cells.game, np.array([3.0], np.float32))
        assert float(learner.privacy.epsilon) == pytest.approx(3.0 * factor)


def test_threads_trace_at_once():
    """Digests of many functions are computed while others are forgotten."""

    def trace(i):
        cells = Notebook(f"factor = {i}.0", "def cost(x): return factor * x",
                         "def game(point): return cost(point)")  # fmt: skip
        anew = [is_traced_anew(cells.game) for _ in range(20)]
        cells.run("factor = -1.0")
        return any(anew), is_traced_anew(cells.game)

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(trace, range(32))) == {(False, True)}
