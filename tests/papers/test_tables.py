"""The tables on pages agree with the files beside them."""

import csv
import re
import runpy
import warnings

import numpy as np
import xarray

from dpjax.papers import _shared as shared
from dpjax.report import estimates
from dpjax.report.tables import rows
from tests import ROOT


def page(paper):
    """The text of docs/papers/<paper>/index.md."""
    return (ROOT / "docs" / "papers" / paper / "index.md").read_text()


def test_numbers_of_the_table_are_those_of_the_measured_file():
    """Each cell of the table is in docs/papers/tossou2017/tossou2017.csv."""
    measured = (ROOT / "docs" / "papers" / "tossou2017" / "tossou2017.csv").read_text().splitlines()
    header = measured[0].split(",")
    columns = [header.index(name) for name in ("regret", "gini_below", "gini_above")]
    known = set()
    for line in measured[1:]:
        regret, below, above = (round(float(line.split(",")[column])) for column in columns)
        known.add(f"{regret} -{below} +{above}")
    cells = re.findall(r"\d+ -\d+ \+\d+", page("tossou2017"))
    assert len(cells) == 50
    assert set(cells) == known


def test_regrets_of_bandits_in_the_table_are_those_of_the_measured_file():
    """Each cell is the worst over the difficulties in agarwal2017_bandits.csv."""
    path = ROOT / "docs" / "papers" / "agarwal2017-bandits" / "agarwal2017_bandits.csv"
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    table = [line.strip("|").split("|") for line in page("agarwal2017-bandits").splitlines()]
    table = [
        [cell.strip() for cell in line] for line in table if line[1:2] in ([" arms "], [" ball "])
    ]
    assert len(table) == 9
    for learner, instance, model, *cells in table:
        for cell, epsilon in zip(cells, ("0.1", "1", "10", "inf"), strict=True):
            wanted = (instance, learner, model, epsilon, "16384", "8", "48")
            keys = ("instance", "learner", "model", "epsilon", "horizon", "size", "trials")
            mine = [row for row in rows if tuple(row[key] for key in keys) == wanted]
            worst = max(mine, key=lambda row: float(row["regret"]), default=None)
            text = "{:.0f} ± {:.0f}"
            shown = worst and text.format(float(worst["regret"]), float(worst["standard_error"]))
            assert cell == (shown or "")


def test_regrets_of_the_stochastic_table_are_those_of_the_measured_file():
    """Each row is in docs/papers/sajed2019/sajed2019.csv, as integers."""
    with open(ROOT / "docs" / "papers" / "sajed2019" / "sajed2019.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    cells = {
        (row["learner"], row["asked"], row["instance"]): "{:.0f} ± {:.0f}".format(
            float(row["mean"]), float(row["standard_error"])
        )
        for row in rows
    }
    table = [line for line in page("sajed2019").splitlines() if line.count(" ± ") == 4]
    table = [line for line in table if re.match(r"\| [^|]+ \| (0.1|1|inf) \|", line)]
    assert len(table) == 18
    for line in table:
        learner, epsilon, *shown = (cell.strip() for cell in line.strip("|").split("|"))
        assert shown == [cells[learner, epsilon, instance] for instance in ("C1", "C2", "C3", "C4")]


def test_free_epsilons_of_the_table_are_those_of_the_measured_file():
    """Each row of the table is in agarwal2017_free.csv, to three digits."""
    path = ROOT / "docs" / "papers" / "agarwal2017" / "agarwal2017_free.csv"
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    for name in dict.fromkeys(row["learner"] for row in rows):
        cells = []
        for instance in ("experts", "sphere", "cube"):
            mine = [row for row in rows if (row["instance"], row["learner"]) == (instance, name)]
            if not mine:
                cells += ["", ""]
                continue
            values = [float(mine[0][key]) for key in ("epsilon", "low", "high")]
            text = "{:.3g} ({:.3g} to {:.3g})".format(*values)
            cells.append("beyond 1000" if "inf (" in text else text)
            cells.append(f"{float(mine[0]['without_privacy']):.3g}")
        (line,) = [
            line for line in page("agarwal2017").splitlines() if line.startswith(f"| {name} |")
        ]
        assert [cell.strip() for cell in line.split("|")[3:9]] == cells


def test_regret_of_linear_elimination_is_that_of_the_measured_file():
    """Each row of the table is in hanna2022.csv, to four digits."""
    with open(ROOT / "docs" / "papers" / "hanna2022" / "hanna2022.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    for name in ("exact", "Chernoff", "printed", "local, exact", "DP-SE"):
        cells = []
        for epsilon in ("0.1", "0.25", "1", "10", "inf"):
            wanted = ("K = 20, d = 5", name, epsilon, "100000000")
            (row,) = [
                row
                for row in rows
                if (row["instance"], row["learner"], row["epsilon"], row["horizon"]) == wanted
            ]
            text = f"{float(row['mean']):.4g} ± {float(row['standard_error']):.2g}"
            cells.append(text.replace("e+0", "e"))
        table = [line for line in page("hanna2022").splitlines() if line.count(" ± ") == 5]
        (line,) = [line for line in table if line.startswith(f"| {name} |")]
        assert [cell.strip() for cell in line.split("|")[2:7]] == cells


def test_shares_of_the_third_table_are_those_of_the_measured_file():
    """Each cell is a row of ene2021.csv at epsilon = 1 over the centre's loss."""
    with open(ROOT / "docs" / "papers" / "ene2021" / "ene2021.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["rate"] == "1"]
    known = set()
    for row in rows:
        if row["epsilon"] in ("1", "inf") and row["trials"] == "24":
            centre = float(row["centre"])
            share, error = (float(row[key]) / centre for key in ("regret", "standard_error"))
            known.add(f"{share:.3f} ({error:.3f})")
    cells = re.findall(r"\| (\d\.\d{3} \(\d\.\d{3}\))(?= \|)", page("ene2021"))
    assert len(cells) == 4 * 7 + 2 * 3
    assert set(cells) <= known


def test_regrets_of_linucb_are_those_of_the_measured_file():
    """Each cell of the table is in docs/papers/shariff2018/shariff2018.csv."""
    with open(ROOT / "docs" / "papers" / "shariff2018" / "shariff2018.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    known = [f"{float(r['mean']):.3g} +- {float(r['standard_error']):.2g}" for r in rows]
    cells = re.findall(r"[\d.e+]+ \+- [\d.e+]+", page("shariff2018"))
    assert sorted(cells) == sorted(known)


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
