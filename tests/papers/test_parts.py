"""The parts of an experiment: which are played, and how their tables are joined."""

import json

from dpjax.papers import _shared as shared
from dpjax.report import plot
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
    assert [row["value"] for row in read_rows(tmp_path / "test_parts.csv")] == ["1", "3"]
    assert [row["value"] for row in read_rows(tmp_path / "test_parts_more.csv")] == ["2"]
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
