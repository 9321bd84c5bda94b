"""The tables on pages agree with the files beside them."""

import csv
import runpy
import warnings

import numpy as np
import xarray

from dpjax.papers import _shared as shared
from dpjax.report import estimates
from dpjax.report.tables import rows
from tests import ROOT


def revealed_tables():
    """The lines of both tables of revealed epsilons, and their cells in the table of audits."""
    script = runpy.run_path(str(ROOT / "benchmarks" / "revealed.py"))
    found = [
        script[function](script["read"](ROOT / "docs" / "audit" / f"{name}.csv"))
        for function, name in (("short_lines", "revealed"), ("long_lines", "revealed_16"))
    ]
    (_, short, first), (_, long, second) = found
    cells = {
        name: [", ".join(both) for both in zip(first[name], second[name], strict=True)]
        for name in first.keys() & second.keys()
    }
    return short, long, cells


def test_what_actions_reveal_is_that_of_the_measured_files():
    page = (ROOT / "docs" / "audit" / "revealed.md").read_text()
    short, long, cells = revealed_tables()
    assert len(cells) > 20
    for line in short + long:
        assert f"| {' | '.join(line)} |" in page


def test_audits_of_the_table_are_those_of_the_measured_file():
    """Each audited learner has its row, to three digits."""
    with open(ROOT / "docs" / "audit" / "audit.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["replay"]]

    def text(value):
        return f"{float(value):.3g}" if value else ""

    section = (ROOT / "docs" / "audit" / "README.md").read_text()
    revealed = revealed_tables()[2]
    for row in rows:
        assert row["checks"] == "pass"
        name = f"`{row['learner']}`" + (f", {row['domain']}" if row["domain"] else "")
        numbers = [text(row[key]) for key in ("declared", "delta")]
        found = [text(row[key]) for key in ("replay", "attack")]
        printed = [text(row[key]) for key in ("paper", "printed", "printed_replay")]
        cells = [name, row["checks"], *numbers, row["model"], *found]
        cells.append(", ".join(filter(None, printed)))
        cells += ["" if row["domain"] else cell for cell in revealed.get(row["learner"], [""] * 3)]
        assert f"| {' | '.join(cells)} |" in section
    with open(ROOT / "docs" / "audit" / "audit_mutants.csv", newline="") as file:
        mutants = list(csv.DictReader(file))
    caught = sum(row["caught"] == "True" for row in mutants)
    assert f"{caught} of {len(mutants)} mutants" in " ".join(section.split())


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
