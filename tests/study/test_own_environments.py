"""A theorem on an environment of a user's own: the same bound at its size, and errors in words."""

import json

import numpy as np
import pytest

from dpjax import Study, bounds, environments, learners
from dpjax.cli import main
from dpjax.study import theorems
from tests import ROOT

MEANS = (0.2, 0.6, 0.7)
OWN = ROOT / "examples" / "own_environment.py"
SIZES = {"horizon": 256, "trials": 8, "progress": False}
ON_THREE = {"three": environments.bernoulli(MEANS, regret="pseudo")}


def costly(factor):
    """Three Bernoulli arms whose regret counts several times."""
    made = environments.bernoulli(MEANS)
    return made._replace(regret=lambda state, tally: factor * made.regret(state, tally))


def test_the_bound_is_that_of_the_arms_of_the_environment():
    """Bounds by the functions themselves, regret by a Study with the same key."""
    row = theorems.measure("exp3", environments=ON_THREE, **SIZES).verdicts.iloc[-1]
    assert row["worst"] == "three"
    assert row["value"] == pytest.approx(float(bounds.exp3(256, 3)), rel=1e-5)
    grid = {"horizon": 256, "arms": 3}
    played = Study(learners.exp3, ON_THREE, grid, 8, 0, 1).run(progress=False)
    assert row["regret"] == pytest.approx(float(played["final_regret"].mean()), rel=1e-5)


@pytest.mark.parametrize(("factor", "said"), [(1.0, "held"), (9.0, "violated")])
def test_a_regret_above_the_bound_is_called_a_violation(factor, said):
    """Nine times the regret of EXP3 on easy arms is above its bound, once is below."""
    made = {"own": costly(factor)}
    row = theorems.measure("exp3", environments=made, **SIZES).verdicts.iloc[-1]
    assert row["verdict"] == said


def test_a_bound_on_an_instance_is_that_of_the_means_that_are_given():
    found = theorems.measure("ucb1", environments=ON_THREE, means=MEANS, **SIZES).verdicts
    last = found.iloc[-1]
    assert last["value"] == pytest.approx(float(bounds.ucb1(256, np.array(MEANS))), rel=1e-5)
    assert last["verdict"] == "vacuous"  # since 256 rounds lose 128 at most
    theorem = theorems.on(theorems.find("ucb1"), ON_THREE, MEANS)
    assert theorem.largest(256) == pytest.approx(128.0)


def test_the_command_plays_the_environment_of_a_file(tmp_path, capsys):
    out = tmp_path / "out"
    given = ["theorem", "exp3", "--environment", str(OWN), "--horizon", "256", "--trials", "4"]
    assert main([*given, "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "Source of the bound of exp3: Auer et al. 2002, Corollary 3.2." in printed
    rows = (out / "verdicts.csv").read_text().splitlines()
    assert len(rows) == 4 and all(",late," in row for row in rows[1:])
    assert [*json.loads((out / "parameters.json").read_text())["environments"]] == [str(OWN)]


def test_an_environment_is_named_in_its_file(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(
        "from dpjax.environments import bernoulli\n"
        "easy = bernoulli([0.1, 0.9])\nhard = bernoulli([0.5, 0.6])\n"
    )
    given = ["theorem", "exp3", "--horizon", "64", "--trials", "2", "--out", str(tmp_path / "out")]
    both = ["--environment", f"{path}:easy", "--environment", f"{path}:hard"]
    assert main([*given, *both]) == 0
    rows = (tmp_path / "out" / "verdicts.csv").read_text()
    assert ",easy," in rows or ",hard," in rows
