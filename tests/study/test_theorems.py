"""Theorems are measured as they should be, and a wrong constant is caught."""

import numpy as np
import pytest

from dpjax.cli import main
from dpjax.study import theorems
from dpjax.study.study import Study


@pytest.fixture(scope="module")
def exp3():
    return theorems.measure("exp3", horizon=256, trials=60, progress=False)


def test_a_true_bound_is_held(exp3):
    verdicts = exp3.verdicts
    assert verdicts["horizon"].tolist() == [16, 64, 256]
    assert verdicts["verdict"].tolist()[-1] == "held"
    assert (verdicts["low"] <= verdicts["regret"]).all()
    assert (verdicts["regret"] <= verdicts["high"]).all()


def test_a_wrong_constant_is_caught(exp3):
    """The bound, divided by twice what it has to spare."""
    wrong = 2.0 / exp3.verdicts["ratio"].iloc[-1]
    true = theorems.THEOREMS["exp3"]
    bound = true.bounds["derived"]
    planted = true._replace(bounds={"planted": lambda t, epsilon: bound(t, epsilon) / wrong})
    found = theorems.measure("exp3", horizon=256, trials=60, progress=False, theorem=planted)
    assert found.verdicts["verdict"].iloc[-1] == "violated"


def test_exponents_stand_beside_printed_ones(exp3):
    (row,) = exp3.exponents.to_dict("records")
    assert (row["over"], row["printed"], row["first"], row["last"]) == ("horizon", 0.5, 16, 256)
    assert row["low"] < row["fitted"] < row["high"]


@pytest.mark.parametrize(
    ("low", "high", "bound", "expected"),
    [
        (1.0, 2.0, 3.0, "held"),
        (1.0, 4.0, 3.0, "open"),
        (4.0, 5.0, 3.0, "violated"),
        (4.0, 5.0, 10.0, "vacuous"),
    ],
)
def test_a_verdict_needs_the_whole_interval(low, high, bound, expected):
    assert theorems.verdict(low, high, bound, largest=10.0) == expected


def test_the_first_horizon_at_which_a_bound_says_something():
    made = theorems.THEOREMS["exp3"]
    assert theorems.first_horizon(made, lambda t, e: 10.0 * np.sqrt(t), np.inf) == 101
    assert theorems.first_horizon(made, lambda t, e: 2.0 * t, np.inf) == np.inf
    assert theorems.first_horizon(made, lambda t, e: 0.5, np.inf) == 2


@pytest.mark.parametrize("name", theorems.THEOREMS)
def test_every_theorem_can_be_played_and_has_a_bound(name):
    made = theorems.find(name)
    grid = {**made.sizes, "horizon": 64}
    if "epsilon" in theorems.taken(made.learner):
        grid["epsilon"] = [1.0]
    study = Study({name: made.learner}, made.environments, grid, trials=2)
    assert len(study.programs) == len(made.environments)
    for bound in made.bounds.values():
        value = float(bound(np.float64(2**16), np.float64(1.0)))
        assert np.isfinite(value) and value > 0


def test_the_command_writes_what_it_prints(tmp_path, capsys):
    out = tmp_path / "out"
    arguments = ["theorem", "ucb1", "--horizon", "64", "--trials", "4", "--out", str(out)]
    assert main(arguments) == 0
    assert "vacuous" in capsys.readouterr().out
    assert sorted(file.name for file in out.iterdir()) == [
        "exponents.csv", "parameters.json", "verdicts.csv",
    ]  # fmt: skip
    assert main(["theorem"]) == 0
    assert "Auer et al. 2002, Theorem 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["exp4"], r"there is no 'exp4' (did you mean exp3?)"),
        (["exp3", "--horizon", "8"], "horizon must be an integer of at least 64"),
        (["exp3", "--trials", "1"], "trials must be an integer of at least 2"),
        (["exp3", "--epsilon", "0"], "epsilon must be greater than 0"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(tmp_path, capsys, arguments, message):
    assert main(["theorem", *arguments, "--out", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
