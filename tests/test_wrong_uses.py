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
from tests import ROOT, entries

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


USES = entries("wrong_uses.txt")


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
