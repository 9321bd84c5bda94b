"""The parts of an experiment: which are played, and how their tables are joined."""

import json
import warnings

import numpy as np
import xarray

from dpjax.papers import _shared as shared
from dpjax.report import estimates, plot
from dpjax.report.tables import rows
from tests import ROOT, script
from tests.papers.small import read_rows

played: list[tuple] = []


@shared.published(64, 8, seed=3)
def reproduce(horizon, trials, short):
    """Three parts, of which the last adds rows to the main table."""

    def row(value):
        played.append((value, horizon, trials, short))
        return {"value": value}

    yield shared.Report({"": [row(1)]}, {"": lambda: plot.panels(1, 1, (1, 1))[0]}, {"a": 1})
    yield shared.Report({"_more": [row(2)]})
    yield shared.Report({"": [row(3)]}, parameters={"b": 2})


def test_tables_of_one_ending_are_joined(tmp_path):
    played.clear()
    printed = reproduce(tmp_path, progress=False)
    assert played == [(value, 64, 8, False) for value in (1, 2, 3)]
    assert [row.value for row in read_rows(tmp_path / "test_parts.csv")] == [1, 3]
    assert [row.value for row in read_rows(tmp_path / "test_parts_more.csv")] == [2]
    assert printed.split() == ["value", "1", "3", "value", "2"]
    told = json.loads((tmp_path / "parameters.json").read_text())
    assert (told["a"], told["b"], told["key"]) == (1, 2, "jax.random.key(3)")


def test_a_run_of_the_main_table_plays_only_the_first_part(tmp_path):
    played.clear()
    reproduce(tmp_path, horizon=32, trials=4, main_only=True, progress=False)
    assert played == [(1, 32, 4, True)]
    assert {file.name for file in tmp_path.iterdir()} == {
        "parameters.json", "test_parts.csv", "test_parts.pdf", "test_parts.png"
    }  # fmt: skip


def test_what_actions_reveal_is_that_of_the_measured_files():
    page = (ROOT / "docs" / "audit" / "revealed.md").read_text()
    revealed = script("benchmarks/revealed.py")
    for of_file, name in ((revealed.short_lines, "revealed"), (revealed.long_lines, "revealed_16")):
        _, lines, *_ = of_file(revealed.read(ROOT / "docs" / "audit" / f"{name}.csv"))
        assert len(lines) > 20
        for line in lines:
            assert f"| {' | '.join(line)} |" in page


def test_a_learner_without_epsilon_has_one_row():
    """Columns come from the cells, from new names, from a function of the row, and from trials."""
    data = xarray.Dataset(
        {"final_regret": (["learner", "environment", "epsilon", "trial"], np.ones((2, 1, 2, 3)))},
        {"learner": ["EXP3", "UCB1"], "environment": ["coins"], "epsilon": [1.0, np.inf],
         "takes_epsilon": (["learner", "environment"], [[True], [False]])},
    )  # fmt: skip
    found = shared.table(
        estimates.mean(data.final_regret), "learner epsilon", "losses learner epsilon regret "
        "twice trials", lambda row: {"twice": 2.0 * row["regret"]},
        losses="environment", regret="mean",
    )  # fmt: skip
    values = [tuple(row.values()) for row in found]
    assert values == [("coins", "EXP3", 1.0, 1.0, 2.0, 3), ("coins", "EXP3", np.inf, 1.0, 2.0, 3),
                      ("coins", "UCB1", np.inf, 1.0, 2.0, 3)]  # fmt: skip


def test_a_new_name_hides_a_column_that_has_it():
    """Here the declared epsilon is named epsilon, and the given one is dropped or renamed."""
    data = xarray.Dataset(
        {"mean": ("epsilon", [3.0, 4.0])},
        {"epsilon": [1.0, 2.0], "declared": ("epsilon", [0.5, 0.7])},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = rows(data, ["epsilon"], epsilon="declared")
    assert found == [{"epsilon": 0.5, "mean": 3.0}, {"epsilon": 0.7, "mean": 4.0}]
    found = rows(data, ["epsilon"], asked="epsilon", epsilon="declared")
    assert found[0] == {"asked": 1.0, "epsilon": 0.5, "mean": 3.0}
