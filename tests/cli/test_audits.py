"""Tables and pages of audits state the verdict of each learner."""

import json

import numpy as np
import pytest

from dpjax.audit import audited
from dpjax.cli import audits
from dpjax.cli.commands import main
from dpjax.report.tables import read_rows
from tests import ROOT, script

TABLES = ("audit.csv", "audit_mutants.csv")

FILE = """
import jax.numpy as jnp
from dpjax import Learner, Privacy, feedback
from dpjax.core import Arms

def greedy(horizon, arms=3, epsilon=1.0):
    step = lambda state, key, loss: (state, jnp.int32(0))
    init = lambda key: ((), jnp.int32(0))
    return Learner(init, step, feedback.full, Arms(arms), horizon, Privacy(epsilon=epsilon))
"""
ROW = {
    "declared": 1.0, "delta": 0.0, "model": "central", "neighbours": "replace", "replay": 1.0,
    "touched": 1, "pairs": 64, "paths": 8, "horizon": 16, "attack": None, "runs": None,
}  # fmt: skip
PASSED = ("no violation was found on 64 pairs of 16 rounds; later rounds are not audited "
          "(--horizon)\n")  # fmt: skip


@pytest.mark.parametrize(
    ("checks", "status", "sentence"),
    [
        ("pass, pass", 0, PASSED),
        ("not replayed, epsilon", 1, "dpjax: other.py:greedy: "),
        ("pass, no release", 3, "dpjax: other.py:greedy: "),
    ],
)
def test_each_learner_is_named_with_its_verdict(
    tmp_path, capsys, monkeypatch, checks, status, sentence
):
    """Two files have a factory of the same name. A violation decides before an open audit."""
    monkeypatch.chdir(tmp_path)
    found = iter(checks.split(", "))
    mutant = {"mutant": "noise halved", "replay": 2.0, "caught": True, "by": "epsilon"}

    def examined(build, horizons, keys, labels, **options):
        return {**labels, **ROW, "checks": next(found)}, [{**labels, **mutant}]

    monkeypatch.setattr(audits, "cores", lambda: 1)
    monkeypatch.setattr(audited, "examined", examined)
    for name in ("right.py", "other.py"):
        (tmp_path / name).write_text(FILE)
    assert main(["audit", "right.py", "other.py", "--no-attack", "--out", "out"]) == status
    printed = capsys.readouterr()
    assert sentence in (printed.err if status else printed.out)
    rows, mutants = (read_rows(tmp_path / "out" / name) for name in TABLES)
    assert [row["learner"] for row in rows] == ["right.py:greedy", "other.py:greedy"]
    assert [row["mutants"] for row in rows] == ["1 of 1 caught"] * 2 and len(mutants) == 2


def page_of(folder, row):
    """The page of docs with one row, and its figure."""
    about = {"learners": ["mine.py"], "runs": None, "epsilon": 1.0, "horizon": 16, "horizons": {},
             "arms": 3, "pairs": 64}  # fmt: skip
    (folder / "parameters.json").write_text(json.dumps(about))
    blank = dict.fromkeys(("paper", "printed", "printed_replay"))
    audits.write_csv(
        folder / "audit.csv", [{"learner": "mine", "domain": "", **ROW, **blank, **row}]
    )
    script("docs/pages.py").write(folder)
    return (folder / "README.md").read_text()


def test_a_page_states_the_verdict(tmp_path):
    text = page_of(tmp_path, {"checks": "not replayed"})
    assert "The audit cannot decide: mine (not replayed).\n" in text and "caught" not in text
    assert (tmp_path / "audit.png").is_file()
    text = page_of(tmp_path, {"checks": "epsilon", "replay": np.inf})
    assert "A violation was found: mine (epsilon).\n" in text


@pytest.mark.parametrize("name", ["audit", "theorems", "worst_case", "worst_case/slow"])
def test_the_pages_in_docs_are_those_of_their_tables(name):
    pages, folder = script("docs/pages.py"), ROOT / "docs" / name
    (page,) = (page for file, page in pages.PAGES.items() if (folder / file).exists())
    assert page(folder) == (folder / "README.md").read_text()


def test_rows_of_new_results_replace_those_of_the_same_learners(tmp_path):
    """In the order of all learners. Results with other parameters are refused."""
    pages, old, new = script("docs/pages.py"), tmp_path / "old", tmp_path / "new"
    for folder, rows in ((old, {"hedge": 1.0, "exp3": 1.0}), (new, {"exp3": 2.0, "cucb": 2.0})):
        folder.mkdir()
        audits.write_csv(
            folder / "audit.csv", [{"learner": n, "replay": x} for n, x in rows.items()]
        )
        about = {"learners": list(rows), "epsilon": 1.0}
        (folder / "parameters.json").write_text(json.dumps(about))
    pages.add(new, old)
    merged = [(row["learner"], row["replay"]) for row in read_rows(old / "audit.csv")]
    assert merged == [("cucb", 2.0), ("exp3", 2.0), ("hedge", 1.0)]
    assert json.loads((old / "parameters.json").read_text())["learners"] == [
        "hedge",
        "exp3",
        "cucb",
    ]
    (new / "parameters.json").write_text(json.dumps({"learners": ["exp3"], "epsilon": 0.5}))
    with pytest.raises(SystemExit, match=r"has epsilon = 1\.0, and .*new has 0\.5"):
        pages.add(new, old)


def test_a_failed_printed_calibration_has_its_own_reason():
    row = {**ROW, "epsilon": 1.0, "checks": "pass; printed: epsilon", "printed": 1.0,
           "printed_replay": 2.0, "flagged": True}  # fmt: skip
    assert "with the printed calibration, a replay spent 2, but 1 is declared" in (
        audited.finding(row)
    )
