"""The message of a wrong use is one sentence that names the argument, the file or the row.

``tests/data/wrong_uses.txt`` has the uses and their sentences. Those of the command line are called
in a folder with the tables of losses below.
"""

import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpjax
from dpjax import environments, learners
from dpjax.cli import main
from dpjax.core import _check
from tests import ROOT
from tests import entries as uses

DATA = ROOT / "tests" / "data"
TABLES = {
    "words.csv": "a,b\n0.1,0.2\n0.3,x\n",
    "range.csv": "a,b\n0.1,0.2\n0.3,1.5\n",
    "ragged.csv": "a,b\n0.1,0.2\n0.3\n",
    "empty.csv": "",
    "words.txt": "x",
    "features.csv": "x,a,b\n0,0,1\n1,1,0\n",
    "mine.py": """
from dpjax import learners

def copied(horizon, arms, *, epsilon):
    return learners.dp_exp3_lap(horizon, arms, epsilon=epsilon)
""",
}


USES = uses("wrong_uses.txt")


def pair(epsilon):
    """A game."""
    return learners.dp_exp3_lap(10, 2, epsilon=epsilon), environments.bernoulli([0.3, 0.5])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the tables, and one that is right."""
    folder = tmp_path_factory.mktemp("losses")
    for name, text in TABLES.items():
        (folder / name).write_text(text)
    shutil.copy(DATA / "diagnoses.csv", folder)
    return folder


def printed(code, capsys):
    """The output of a use: the text of the error, or the command line's message."""
    names = {name: getattr(dpjax, name) for name in dir(dpjax) if not name.startswith("_")}
    names |= {"main": main, "dpjax": dpjax, "open": open, "_check": _check}
    try:
        status = eval(code, {**names, "jax": jax, "jnp": jnp, "np": np, "pair": pair})
    except SystemExit as exit_:
        status = exit_.code
    except (ValueError, TypeError) as error:
        return str(error)
    assert status == 2, f"it was accepted, and returned {status!r}"
    return capsys.readouterr().err.strip()


@pytest.mark.parametrize(("code", "sentence"), USES, ids=[code for code, _ in USES])
def test_a_wrong_use_says_what_is_wrong(code, sentence, folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    said = printed(code, capsys)
    if sentence.endswith("..."):
        said = said[: len(sentence) - 3] + "..."
    assert said == sentence
    assert sorted(folder.iterdir()) == before, "something was written"


def test_there_are_at_least_eighty():
    assert len(USES) >= 80


# The validators ------------------------------------------------------------------------------

NAN, INF = float("nan"), float("inf")

# Name: (call with the value as an argument called "rate", accepted values).
FLOATS = {
    "positive": (
        lambda rate: _check.positive(rate=rate),
        [2e-38, 1, 0.5, np.float32(2), np.array(0.1), jnp.float32(3)],
    ),
    "positive or infinite": (lambda rate: _check.positive_or_inf(rate=rate), [2e-38, INF, 10**400]),
    "between": (
        lambda rate: _check.between(0.0, 1.0, rate=rate),
        [0, 0.0, 1, 0.25, np.int32(1), jnp.zeros(()), np.float16(0.5), jnp.bfloat16(0.5)],
    ),
    "between, unbounded": (lambda rate: _check.between(1.0, INF, rate=rate), [1, 1e300, INF]),
    "inside": (
        lambda rate: _check.inside(0.0, 1.0, rate=rate),
        [2e-38, 0.5, 1.0 - 1e-7, np.array(0.9)],
    ),
    "at least 0": (lambda rate: _check.non_negative(rate=rate), [0.0, np.array(1e30)]),
}
every_float_check = pytest.mark.parametrize("name", FLOATS)


@every_float_check
def test_numbers_in_the_set_pass(name):
    """Those of Python, NumPy and JAX, as given and as rounded to float32."""
    check, accepted = FLOATS[name]
    for value in accepted:
        assert check(value) is None


@every_float_check
def test_what_is_not_a_number_is_a_type_error(name):
    """Strings, objects, arrays, complex numbers and booleans: TypeError with the name."""
    check = FLOATS[name][0]
    arrays = [np.array([0.5, 0.5]), jnp.zeros((2, 2)), np.zeros(0), np.array(True), jnp.array(1j)]
    for value in ("1", b"1", object(), [0.5], (0.5,), {}, 1j, True, np.True_, None, *arrays):
        with pytest.raises(TypeError, match=r"^rate must be .* and one number, got "):
            check(value)


@every_float_check
def test_tracers_pass(name):
    """Under jit, vmap or grad, a traced number has no value, but its type is checked."""
    check = FLOATS[name][0]

    def traced(value):
        check(value)
        for wrong in (value[None], value > 0.0, jax.lax.complex(value, value), [value]):
            with pytest.raises(TypeError, match=r"^rate must be .* and one number, got "):
                check(wrong)
        return 2.0 * value

    value = jnp.float32(-INF)
    assert jax.jit(traced)(value) == 2.0 * value
    assert jax.vmap(traced)(value[None]) == 2.0 * value
    assert jax.grad(traced)(value) == 2.0


def test_what_is_in_the_set_passes():
    """A size becomes a Python integer."""
    for value in (2, 3, 2**31 - 1, np.int64(2), np.int32(5), np.array(4), jnp.int32(8)):
        size = _check.size(2, arms=value)
        assert size == value and type(size) is int
    assert type(_check.seed(key=np.uint32(7))) is int and _check.arms(2**23) == 2**23
    assert _check.one_of("a", "b", walk="a", other="b") is None
    assert _check.interval(loss_range=(-1.0, 2)) == (-1.0, 2)
    assert jax.jit(lambda high: jnp.asarray(_check.interval(rate=(0.0, high))))(3.0)[1] == 3.0
    for value in (1e-30, 1e-9, 0.5, 1.0 - 1e-7):
        assert _check.delta(value) is None


def test_a_traced_epsilon_is_raised_to_one_that_float32_can_serve():
    """Plain numbers below 1e-12 are refused; inf is allowed."""
    for value in (1e-12, 1, 3e38, INF, np.float32(1e-12)):
        assert _check.epsilon(value) is value
    raised = jax.jit(_check.epsilon)
    for value, expected in [(1e-45, 1e-12), (0.0, 1e-12), (1e-9, 1e-9), (INF, INF), (NAN, NAN)]:
        np.testing.assert_equal(np.asarray(raised(jnp.float32(value))), np.float32(expected))
