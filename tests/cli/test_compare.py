"""``dpjax compare`` on files: an audit, and a study of the learner and its competitors."""

from functools import partial

import pytest

import dpjax
from dpjax import Study, learners
from dpjax.cli import main
from dpjax.cli.learner_files import find_factory
from dpjax.core import Arms
from dpjax.learners.entrants import ARMS
from dpjax.study.standard import standard
from tests.cli.test_run import read_rows

COPY = """
from dpjax import learners

def copied(horizon, arms, *, epsilon):
    return learners.dp_exp3_lap(horizon, arms, epsilon=epsilon)
"""
SMALL = ["--horizon", "64", "--trials", "2", "--no-attack"]


def written(folder, text):
    path = folder / "mine.py"
    path.write_text(text)
    return str(path)


@pytest.mark.usefixtures("quick_compilation")
def test_half_the_noise_of_a_copied_learner_is_found(tmp_path, capsys, monkeypatch):
    """Without noise, the copy has the learner's regret bit for bit, since trials are paired.

    On one environment, to save time.
    """
    one = {"wide gap": standard(Arms(ARMS), True)["wide gap"]}
    monkeypatch.setattr("dpjax.study.compare.standard", lambda *_: one)
    text = COPY.replace(
        "epsilon=epsilon)", "epsilon=2 * epsilon)._replace(privacy=Privacy(epsilon))"
    )
    file, out = written(tmp_path, "from dpjax import Privacy\n" + text), tmp_path / "out"
    command = ["compare", file, "--against", "dp_exp3_lap", *SMALL, "--out", str(out)]
    assert main([*command, "--epsilon", "1,inf"]) == 1
    error = capsys.readouterr().err
    assert "mine.py:copied: " in error and "a replay spent 2, but 1 is declared" in error
    regret = {(row["learner"], row["epsilon"]): row["mean"] for row in read_rows(out / "table.csv")}
    assert len(regret) == 4 and regret["copied", "inf"] == regret["dp_exp3_lap", "inf"]
    (audit,) = read_rows(out / "audit" / "audit.csv")
    assert audit["learner"] == f"{file}:copied" and audit["checks"].startswith("epsilon")
    assert {"data.nc", "regret.png"} <= {path.name for path in out.iterdir()}
    assert main(command) == 2
    assert "is not empty; pass --overwrite" in capsys.readouterr().err


def test_a_learner_without_epsilon_has_no_axis_and_a_partial_sets_sizes():
    study = dpjax.compare(partial(learners.exp3, arms=7), against=["ucb1"], horizon=64, trials=2)
    assert isinstance(study, Study) and "epsilon" not in study.grid
    games = {name: game.action_set.count for name, game in study.environments.items()}
    assert games == {"wide gap": 7, "narrow gap": 7, "deterministic": 7}


def test_a_name_chooses_among_several(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from dpjax.learners import exp3, ucb1\n"
        "def first(horizon, arms):\n    pass\ndef _hidden(horizon):\n    pass\n"
    )
    assert find_factory(f"{file}:ucb1")[1].__name__ == "ucb1"
    assert find_factory(str(file))[1].__name__ == "first"
    with pytest.raises(ValueError, match=r"function .* usb1 \(did you mean ucb1\?\)"):
        find_factory(f"{file}:usb1")


def test_a_file_may_import_its_neighbours(tmp_path):
    (tmp_path / "neighbour_of_mine.py").write_text("ARMS = 3\n")
    file = tmp_path / "mine.py"
    file.write_text("from neighbour_of_mine import ARMS\ndef mine(horizon, arms=ARMS): pass\n")
    assert find_factory(str(file))[1].__defaults__ == (3,)
