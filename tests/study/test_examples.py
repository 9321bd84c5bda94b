"""The studies in ``examples/`` run at a small size, and are as short as stated."""

import numpy as np
import pytest

from tests import ROOT, script
from tests.commands import SIZES

STUDIES = (
    "dartboard_batches", "equal_constants", "exp3_mixing", "ftrl_rate", "glm_batches",
    "linucb_ridge", "facets", "mechanisms", "price_of_shifts", "pulls",
)  # fmt: skip


@pytest.mark.parametrize("name", [*STUDIES, "two_wells"])
def test_a_study_draws_its_figure(name, capsys):
    figure = script(f"examples/{name}.py").main(**SIZES[name])
    drawn = [axes for axes in figure.axes if axes.get_lines()]
    assert drawn and all(np.isfinite(line.get_ydata()).all()
                         for axes in drawn for line in axes.get_lines())  # fmt: skip
    assert "mean" in capsys.readouterr().out


def test_the_table_of_mechanisms_says_which_ones_work_without_the_horizon(capsys):
    script("examples/mechanism_errors.py").main(64)
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()]
    without = {name for name, works, *_ in rows if works == "yes"}
    assert without == {"`hybrid`", "`per_item`", "`unbounded`", "`buffered(made_for=2**20)`"}
    errors = {name: float(gaussian) for name, _, _, gaussian in rows}
    assert errors["`buffered(normalized=True)`"] < errors["`buffered`"]
    assert errors["`buffered(made_for=2**20)`"] < errors["`hybrid`"]


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_is_short(name):
    source = (ROOT / "examples" / f"{name}.py").read_text()
    _, body = source.split("\n\n", 1)  # without the docstring
    assert len([line for line in body.splitlines() if line.strip()]) <= 25
