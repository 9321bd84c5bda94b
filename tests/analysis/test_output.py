"""Tables on disk: rewriting a stored table gives the same bytes."""

import csv

import numpy as np
import pytest

from dpjax.report.tables import format_table, write_csv
from tests import ROOT

TABLES = sorted((ROOT / "docs" / "papers").glob("*/*.csv"))
ROWS = [
    {"round": 1048576, "epsilon": float("inf"), "regret": 1 / 3, "name": "a, b", "warm": True},
    {"round": 2, "epsilon": None, "regret": np.float64(2e6), "name": 'a "b"', "warm": False},
    {"round": 3, "epsilon": 1, "regret": float("nan"), "name": "", "warm": True},
]
TEXT = """round,epsilon,regret,name,warm
1048576,inf,0.333333,"a, b",True
2,,2e+06,"a ""b""\",False
3,1,nan,,True
"""


def value(text):
    """The entry written as this text; digits alone were an integer."""
    if text in ("", "True", "False"):
        return {"": None, "True": True, "False": False}[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_a_stored_table_is_written_again_to_the_byte(path, tmp_path):
    with open(path, newline="", encoding="utf-8") as file:
        rows = [{key: value(text) for key, text in row.items()} for row in csv.DictReader(file)]
    write_csv(tmp_path / "again.csv", rows)
    assert (tmp_path / "again.csv").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_column_may_mix_kinds_and_each_entry_keeps_its_own(kind, tmp_path):
    write_csv(tmp_path / "table.csv", kind(ROWS))
    assert (tmp_path / "table.csv").read_text() == TEXT


def test_a_folder_that_is_missing_is_named(tmp_path):
    with pytest.raises(OSError, match=r"out: cannot write table\.csv"):
        write_csv(tmp_path / "missing" / "table.csv", ROWS)


def test_a_table_for_a_terminal_has_aligned_columns():
    lines = format_table(ROWS).splitlines()
    assert lines[:2] == [
        "  round  epsilon  regret   name   warm",
        "1048576      inf  0.3333   a, b   True",
    ]
    assert len({len(line) for line in lines}) == 1
