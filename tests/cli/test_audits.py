"""Tables, pages and figures of audits state the verdict of each learner."""

import json

import numpy as np
import pytest

from dpjax.audit import audited
from dpjax.cli import audits
from dpjax.cli.commands import main

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
        ("pass", 0, "No violation was found on the pairs that were run."),
        ("epsilon, clip", 1, "A violation was found: {} (epsilon, clip)."),
        ("no release", 3, "The audit cannot decide: {} (no release)."),
    ],
)
def test_each_learner_is_named_with_its_verdict(
    tmp_path, capsys, monkeypatch, checks, status, sentence
):
    """Two files have a factory of the same name; the first passes, and nothing was drawn of it."""
    monkeypatch.chdir(tmp_path)
    found = iter(["pass", checks])
    mutant = {"mutant": "noise halved", "replay": 2.0, "caught": True, "by": "epsilon"}

    def examined(build, horizons, keys, labels, **options):
        return {**labels, **ROW, "checks": next(found)}, [{**labels, **mutant}]

    monkeypatch.setattr(audits, "cores", lambda: 1)
    monkeypatch.setattr(audited, "examined", examined)
    drawn: list = []
    monkeypatch.setattr(
        audits, "write_figure", lambda out, name, draw, rows: drawn.append(draw(rows))
    )
    for name in ("right.py", "other.py"):
        (tmp_path / name).write_text(FILE)
    assert main(["audit", "right.py", "other.py", "--no-attack", "--out", "out"]) == status
    printed = capsys.readouterr()
    assert (PASSED in printed.out) == (status == 0)
    assert printed.err.startswith("dpjax: other.py:greedy: ") == (status > 0)
    page = (tmp_path / "out" / "README.md").read_text()
    sentence = sentence.format("other.py:greedy")
    assert f"{sentence} The replay caught 2 of 2 mutants.\n" in page
    assert f"| `other.py:greedy` | {checks} |" in page
    (figure,) = drawn
    shown = figure.get_supxlabel()
    assert shown.startswith("No violation was found above" if status == 0 else sentence)
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    verdicts = [label for at, (label, _) in audits.VERDICTS.items() if at in (0, status)]
    assert legend == ["declared", "spent on the worst pair replayed", *verdicts]


@pytest.mark.parametrize("declared", [0.01, 1.0, 700.0])
@pytest.mark.parametrize("checks", ["pass", "epsilon", "no release"])
def test_the_figure_has_several_ticks_and_marks_infinite_values(declared, checks):
    """An infinite replay had no mark, and the ticks were 0 and 10^0."""
    row = {"learner": "A", "domain": "", **ROW, "declared": declared, "checks": checks}
    drawn = audits.figure([row | {"replay": declared}, row | {"replay": np.inf}])
    (panel,) = drawn.axes
    color = audits.VERDICTS[audited.status(checks)][1]
    finite, infinite = [line for line in panel.get_lines() if line.get_marker() == "o"]
    assert {finite.get_color(), infinite.get_color()} == {color}
    assert finite.get_ydata() == [declared]
    box, place = panel.bbox, infinite.get_transform().transform(infinite.get_xydata()[0])
    assert place[1] == pytest.approx(box.y1) and box.x0 < place[0] < box.x1
    assert [text.get_text() for text in panel.texts] == ["infinite"]
    assert sum(0.0 < tick <= 1.5 * declared for tick in panel.get_yticks()) >= 5
    assert panel.get_ylim()[1] > 1.5 * declared


def test_a_figure_without_private_learners_is_empty():
    assert not audits.figure([{**ROW, "replay": None}]).legends


def test_a_page_without_mutants_counts_none(tmp_path):
    about = {"learners": ["mine.py"], "runs": None, "epsilon": 1.0, "horizon": 16, "horizons": {},
             "arms": 3, "pairs": 64}  # fmt: skip
    (tmp_path / "parameters.json").write_text(json.dumps(about))
    row = {"learner": "mine", "domain": "", **ROW, "checks": "not replayed", "paper": None,
           "printed": None, "printed_replay": None}  # fmt: skip
    audits.write_csv(tmp_path / "audit.csv", [row])
    page = audits.page(tmp_path)
    assert "The audit cannot decide: mine (not replayed).\n" in page and "caught" not in page


def test_the_same_learner_in_two_spellings_is_refused(tmp_path, capsys):
    (tmp_path / "mine.py").write_text(FILE)
    words = [f"{tmp_path}/mine.py", f"{tmp_path}/mine.py:greedy"]
    assert main(["audit", *words, "--out", str(tmp_path / "out")]) == 2
    assert "one is named twice" in capsys.readouterr().err


def test_an_error_names_the_learner_of_its_file(tmp_path, capsys):
    (tmp_path / "mine.py").write_text(
        FILE.replace("jnp.int32(0))\n    init", "3 + state)\n    init")
    )
    assert main(["audit", f"{tmp_path}/mine.py", "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.startswith(f"dpjax: {tmp_path}/mine.py: greedy: ")


def test_a_failed_printed_calibration_has_its_own_reason():
    row = {**ROW, "epsilon": 1.0, "checks": "pass; printed: epsilon", "printed": 1.0,
           "printed_replay": 2.0, "flagged": True}  # fmt: skip
    assert "with the printed calibration, a replay spent 2, but 1 is declared" in (
        audited.finding(row)
    )
