"""``dpjax trial`` on outcome files: reads, plays, outputs and refusals."""

import csv
import json

import numpy as np
import pytest

from dpjax import bounds
from dpjax.cli import main, trial
from tests import ROOT

STREPTOMYCIN = ROOT / "tests" / "data" / "streptomycin.csv"


def written(folder, text):
    path = folder / "outcomes.csv"
    path.write_text(text)
    return str(path)


def test_rates_are_those_of_the_file():
    """The trial of the Medical Research Council, 1948: survival after six months."""
    outcomes = trial.read_outcomes(STREPTOMYCIN)
    assert outcomes.treatments == ("streptomycin", "bed rest")
    np.testing.assert_array_equal(outcomes.patients, [55, 52])
    np.testing.assert_allclose(outcomes.rates, [51 / 55, 38 / 52])


def test_columns_may_stand_in_any_order_beside_others(tmp_path):
    text = "patient, Outcome ,Treatment\r\n1,1,a\r\n2,0,b\r\n3,1,b\r\n"
    outcomes = trial.read_outcomes(written(tmp_path, text))
    assert outcomes.treatments == ("a", "b")
    np.testing.assert_allclose(outcomes.rates, [1.0, 0.5])


DRAWN: list = []


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """One private and one non-private learner, 100 trials; DRAWN keeps the figure and its data."""
    out = tmp_path_factory.mktemp("trial") / "out"
    draw = trial.figure

    def noted(data):
        DRAWN.append((data, draw(data)))
        return DRAWN[-1][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trial, "figure", noted)
        patch.setitem(trial.LEARNERS, "central", {"DP-SE": trial.LEARNERS["central"]["DP-SE"]})
        patch.setattr(trial, "PLAIN", {"LUCB": trial.PLAIN["LUCB"]})
        asked = ["--epsilon", "0.1,1", "--delta", "0.05", "--trials", "100"]
        status = main(["trial", "--data", str(STREPTOMYCIN), *asked, "--out", str(out)])
    assert status == 0
    with open(out / "table.csv", newline="") as file:
        return out, list(csv.DictReader(file))


def test_a_row_for_each_learner_and_privacy_level(small):
    out, rows = small
    assert [(row["learner"], row["model"], row["epsilon"]) for row in rows] == [
        ("DP-SE", "central", "0.1"), ("DP-SE", "central", "1"), ("LUCB", "none", "inf"),
    ]  # fmt: skip
    parameters = json.loads((out / "parameters.json").read_text())
    assert parameters["delta"] == 0.05 and parameters["trials"] == 100
    assert parameters["treatments"][0]["treatment"] == "streptomycin"


def test_nobody_is_below_the_lower_bound_and_errors_are_rare(small):
    means = np.array([4 / 55, 14 / 52])
    for row in small[1]:
        epsilon = float(row["epsilon"])
        lower = float(bounds.stopping_time_lower(means, epsilon, 0.05))
        assert float(row["lower_bound"]) == pytest.approx(lower, rel=1e-5)
        assert float(row["patients"]) > lower
        assert float(row["error_low"]) <= 0.05
        assert float(row["stopped"]) == 1.0
    times = [float(row["patients"]) for row in small[1]]
    assert times[0] > times[1] > times[2]  # more privacy, more patients


def test_the_figure_shows_failures_against_whole_patients(small):
    """The best treatment fails 4 of 55, and the other one 14 of 52 patients."""
    assert (small[0] / "patients.png").is_file() and (small[0] / "patients.pdf").is_file()
    data, drawn = DRAWN[0]
    assert [axes.get_title() for axes in drawn.axes] == ["epsilon = 0.1", "epsilon = 1"]
    last = float(data["report_stopping_time"].max())
    gap = 14 / 52 - 4 / 55
    for axes, epsilon in zip(drawn.axes, (0.1, 1.0), strict=True):
        assert axes.get_ylim()[0] == 0.0
        assert axes.get_xlabel() == "patients"
        assert axes.xaxis.get_major_formatter()(1000.0, 0) == "1,000"
        for line, learner in zip(axes.get_lines(), ("DP-SE", "LUCB"), strict=True):
            patients, failures = line.get_data()
            assert patients[0] == 100 and (patients == patients.astype(int)).all()
            assert patients[-2] < last <= patients[-1]
            own = data.sel(learner=learner, epsilon=epsilon)
            expected = own["regret"].mean("trial").values[: len(failures)]
            np.testing.assert_allclose(failures, expected, rtol=1e-5)
            # A learner that has not stopped gives each treatment to about half of the patients.
            assert 0.3 * 100 * gap < failures[0] < 0.7 * 100 * gap
    assert drawn.axes[0].get_ylabel() == "failures beyond the best treatment's"
    assert "failure probability = 0.05. Declared privacy: central model (DP-SE); none (LUCB)." in (
        drawn.caption
    )
    assert "K = 2" not in drawn.caption and "outcomes" not in drawn.caption


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no rows below the header"),
        ("treatment,result\na,1\n", "but names 0 columns outcome"),
        ("treatment,outcome,Outcome\na,1,0\n", "but names 2 columns outcome"),
        ("treatment;outcome\na;1\n", "its entries are separated by semicolons"),
        ("treatment,outcome\na,1\nb,2\n", "row 3, column 2 (outcome) is '2'; an outcome is 0"),
        ("treatment,outcome\na,1\nb\n", "row 3 has 1 entries, but the header has 2"),
        ("treatment,outcome\na,1\n,0\n", "row 3, column 1 (treatment) is missing; fill it in"),
        ("treatment,outcome\na,1\nNA,0\n", "row 3, column 1 (treatment) is 'NA', which marks"),
        ("treatment,outcome\na,1\nb,\n", "row 3, column 2 (outcome) is missing; fill it in"),
        (
            "treatment,outcome\na,1\n,2\nb,x\n",
            "has 3 faults: (1) row 3, column 1 (treatment) is missing; fill it in, or remove the "
            "row; (2) row 3, column 2 (outcome) is '2'; an outcome is 0 or 1 "
            "(and 1 more in this column)",
        ),
        ("treatment,outcome\n1,1\n1.0,0\n", "(treatment) is '1.0', the same number as '1' in row"),
        ("treatment,outcome\na,1\na,0\n", "at least two treatments are needed, got 1"),
        ("treatment,outcome\na,1\nb,1\n", "a and b have the same share of successes, 1"),
    ],
)
def test_files_that_are_refused(tmp_path, capsys, text, said):
    out = tmp_path / "out"
    assert main(["trial", "--data", written(tmp_path, text), "--out", str(out)]) == 2
    assert said in capsys.readouterr().err
    assert not out.exists() or not list(out.iterdir())


@pytest.mark.parametrize(("encoding", "reason"), [
    ("cp1253", "invalid"), ("utf-16", "invalid start byte"), ("latin-1", "invalid"),
])  # fmt: skip
def test_other_encodings_are_refused(tmp_path, capsys, encoding, reason):
    """With replaced characters, treatments would be pooled."""
    letters = "\xe1\xe9" if encoding == "latin-1" else "\u03b1\u03b2"
    rows = [f"{letter},{outcome}" for letter in letters for outcome in (0, 1, 1)]
    path = tmp_path / "outcomes.csv"
    path.write_text("\n".join(["treatment,outcome", *rows]), encoding=encoding)
    assert main(["trial", "--data", str(path), "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert f"outcomes.csv: is not UTF-8 text ({reason}" in said and "save it as UTF-8" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--delta", "0"], "delta must"),
        (["--delta", "nan"], "delta must"),
        (["--epsilon", "0"], "epsilon must"),
        (["--trials", "0"], "trials must"),
        (["--horizon", "0"], "horizon must"),
    ],
)
def test_arguments_that_are_refused(tmp_path, capsys, options, said):
    arguments = ["trial", "--data", str(STREPTOMYCIN), *options, "--out", str(tmp_path / "out")]
    assert main(arguments) == 2
    assert said in capsys.readouterr().err


def test_the_local_model_has_learners_and_a_bound_of_its_own():
    means = np.array([0.3, 0.5])
    central = bounds.stopping_time_lower(means, 0.5, 0.01)
    assert bounds.stopping_time_lower_local(means, 0.5, 0.01) > 3 * central
    assert not trial.LEARNERS["local"].keys() & trial.LEARNERS["central"].keys()
