"""Files with features, and several learners on one file."""

import json

import numpy as np
import pytest

from dpjax import environments
from dpjax.cli import main, run
from dpjax.cli.case_files import VALUES, read_cases
from dpjax.cli.loss_files import read_losses
from tests import ROOT
from tests.cli.test_run import DIAGNOSES, read_rows, write

PATIENTS = ROOT / "tests" / "data" / "patients.csv"
CSV = "age,sex,a,b\n30,f,0,1\n40,m,0.5,1\n\n50,f,1,0\n"


def test_words_are_encoded_and_nothing_else_is_changed(tmp_path):
    """By hand: two words in sorted order, numbers as they stand, the other columns are losses."""
    read = read_cases(write(tmp_path / "a.csv", CSV), features=["age", "sex"])
    assert read.names == ("age", "sex=f", "sex=m") and read.arms == ("a", "b")
    assert read.features.tolist() == [[30, 1, 0], [40, 0, 1], [50, 1, 0]]
    assert read.losses.tolist() == [[0, 1], [0.5, 1], [1, 0]] and read.labels is None
    assert read.notes == (
        "These columns hold words, and were encoded as one feature of 0 or 1 for each different "
        "word: sex (2).",
    )
    labelled = read_cases(tmp_path / "a.csv", label="sex", features=["age"])
    assert labelled.arms == ("f", "m") and labelled.labels.tolist() == ["f", "m", "f"]
    assert labelled.losses.tolist() == [[0, 1], [1, 0], [0, 1]] and labelled.notes == ()
    assert read_cases(tmp_path / "a.csv", label="sex").names == ("age", "a", "b")


MANY = "\n".join(f"{i / 7},word {i}" for i in range(VALUES + 1))
BAD = {
    "a missing number": ("x,y\n1,u\n,v\n", "row 3, column 1 (x) is missing; fill it in, or remove "
                         "the row"),
    "a missing word": ("x,y\n1.5,u\n2,\n", "row 3, column 2 (y) is missing; fill it in, or remove "
                       "the row"),
    "equal labels": ("x,y\n1.5,1\n2,0\n3,1.0\n", "row 4, column 2 (y) is '1.0', the same number as "
                     "'1' in row 2; write them alike"),
    "a word among numbers": ("x,y\n1.5,u\n1O,v\n", "row 3, column 1 (x) is '1O', and not a number, "
                             "as other entries of this column are"),
    "infinite": ("x,y\n1,u\ninf,v\n", "row 3, column 1 (x) is inf; a number must be finite"),
    "an index": ("x,z,y\n2,0,u\n5,1,v\n4,2,v\n", "column 2 counts the rows, 0 to 2; an index is "
                 "neither an arm nor a feature, so remove it"),
    "one word": ("x,z,y\n1.5,a,u\n2,a,v\n", "column 2 (z) has 1 different word; it must have from "
                 f"2 to {VALUES}; remove this column"),
    "many labels": (f"x,y\n{MANY}\n", f"column 2 (y) has {VALUES + 1} different words; it must "
                    f"have from 2 to {VALUES}"),
    "no name": (",y\n1,u\n", "row 1 must name the columns, and column 1 has no name"),
    "no header": ("x,2\n3,4\n", "row 1 must name the columns, and column 2 is named 2; a name must "
                  "be a word"),
    "several": ("x,y\n1,u\n2\nz,v\n3,NA\n,v\n", "has 4 faults: (1) row 3 has 1 entries, but the "
                "header has 2; (2) row 4, column 1 (x) is 'z', and not a number, as other entries "
                "of this column are (and 1 more in this column); (3) row 5, column 2 (y) is "
                "'NA', which marks a missing entry; fill it in, remove the row, or use another "
                "word"),
    "names": ("1,\n3,4\n", "has 2 faults: (1) row 1 must name the columns, and column 1 is named "
              "1; a name must be a word; (2) row 1 must name the columns, and column 2 has no "
              "name"),
    "a name twice": ("y,y\n1,u\n", "columns 1 and 2 are both named 'y'; rename or remove one"),
    "other columns": ("x,Y\n1,u\n", "has no column 'y' (did you mean Y?); its columns are x, Y"),
    "ragged": ("x,y\n1,u\n2\n", "row 3 has 1 entries, but the header has 2"),
    "semicolons": ("x;y\n1;u\n", "its entries are separated by semicolons; separate them by "
                   "commas, and write decimal fractions with points"),
    "no rows": ("x,y\n", "has no rows below the header"),
    "empty": ("", "has no rows below the header"),
    "the label alone": ("y\nu\nv\n", "has no column of features"),
}  # fmt: skip


MARKS = ["<NA>", "#N/A", "None", "NaT", "\\N", ".", "?", "na", "nan", "-NaN", "NULL", "n/a"]


@pytest.mark.parametrize("mark", MARKS)
def test_a_mark_of_a_missing_entry_is_no_word(mark, tmp_path):
    """Neither a feature, nor a label, nor the header of a loss table."""
    path = write(tmp_path / "a.csv", f"x,y\n{mark},u\nr,{mark}\n")
    for label in "xy":
        with pytest.raises(ValueError) as error:
            read_cases(path, label=label)
        said = (
            f"is {mark!r}, which marks a missing entry; fill it in, remove the row, or use another"
        )
        assert str(error.value) == (
            f"{path}: has 2 faults: (1) row 2, column 1 (x) {said} word; "
            f"(2) row 3, column 2 (y) {said} word"
        )
    path = write(tmp_path / "b.csv", f"{mark},{mark}\n0.5,1\n")
    with pytest.raises(ValueError, match="row 1, column 1(: is .*, which marks | is missing)"):
        read_losses(path)


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_refused_in_one_sentence_with_its_place(case, tmp_path):
    text, message = BAD[case]
    path = write(tmp_path / "bad.csv", text)
    with pytest.raises(ValueError) as error:
        read_cases(path, label="y")
    found = str(error.value).removeprefix(f"{path}: ").removeprefix(f"{path} ")
    assert found == message


def test_losses_beside_features_are_checked_as_those_of_a_table(tmp_path):
    cases = {
        "x,a,b\n1,0,1\n3,0,1.5\n": r"row 3, column 3 \(b\) is 1.5; losses must lie in \[0, 1\]",
        "x,a,b\n1,0,1\n3,0,1.0000000000000002\n": r"\(b\) is 1\.0000000000000002; losses must lie",
        "x,a,b\n1,0,1\n3,0,u\n": r"row 3, column 3 \(b\) is 'u', and not a number, as other",
        "x,a,b\n1,0,u\n3,0,v\n": r"row 2, column 3 \(b\) is 'u', and not a number \(and 1 more "
        r"in this column\); remove this column, or name it with --features b$",
        "x,a\n1,0\n3,1\n": "has 1 columns of losses beside the features; it needs one for each arm",
    }
    for text, message in cases.items():
        with pytest.raises(ValueError, match=message):
            read_cases(write(tmp_path / "bad.csv", text), features=["x"])
    with pytest.raises(ValueError, match="features: one is named twice in x, x"):
        read_cases(tmp_path / "bad.csv", features=["x", "x"])
    with pytest.raises(ValueError, match="features: a column is named twice in x, a, x"):
        read_cases(tmp_path / "bad.csv", features=["x", "a"], label="x")
    with pytest.raises(ValueError, match=r"named columns, so it must be a \.csv file"):
        read_cases(tmp_path / "table.npy", label="x")


def sides(seed, seen=True):
    """A CSV text in which a word says which of two arms loses, or does not."""
    rng = np.random.default_rng(seed)
    left = rng.random(400) < 0.5
    shown = left if seen else rng.random(400) < 0.5
    words = np.where(shown, "left", "right")
    rows = [f"{word},{float(x)},{float(not x)}" for word, x in zip(words, left, strict=True)]
    return "\n".join(["side,a,b", *rows])


def test_a_learner_sees_the_features_of_its_round(tmp_path):
    """Best arms lose 0 in hindsight; a fixed arm loses 200. It learns from a word that tells."""
    lost = {}
    for seen in (True, False):
        path = write(tmp_path / f"{seen}.csv", sides(0, seen))
        study, game = run.read_study(path, ["linucb"], features=["side"], epsilons=[np.inf],
                                     seeds=4)  # fmt: skip
        assert game.arms == ("a", "b") and game.environment.horizon == 400
        data = study.run(progress=False)
        lost[seen] = float(data["tally_suffered"].mean())
        compared = float(data["tally_compared"].mean())
        assert compared == 0.0 if seen else compared > 150.0
    assert lost[True] < 60.0 and lost[False] > 150.0


def test_labelled_cases_are_those_of_the_environment(tmp_path):
    """The same game as classification of the columns, and any horizon."""
    study, game = run.read_study(PATIENTS, ["linucb"], label="malignant", epsilons=[1.0], seeds=2,
                                 horizon=700)  # fmt: skip
    assert game.arms == ("0", "1") and len(game.losses) == 569
    *columns, labels = np.loadtxt(PATIENTS, delimiter=",", skiprows=1).T
    environment = environments.classification(np.stack(columns, 1), labels)
    by_hand = run.study_of(environment, ["linucb"], epsilons=[1.0], seeds=2, horizon=700)
    np.testing.assert_array_equal(
        study.run(progress=False)["regret"], by_hand.run(progress=False)["regret"]
    )
    with pytest.raises(ValueError, match=r"horizon: 4 rounds .* only 3"):
        path = write(tmp_path / "a.csv", CSV)
        run.read_study(path, ["linucb"], features=["age", "sex"], horizon=4)


def test_learners_on_one_file_have_the_numbers_that_each_has_alone(tmp_path, capsys):
    """One table, one figure with a panel for each level, one row for a learner without epsilon."""
    given = ["run", "--losses", str(DIAGNOSES), "--seeds", "4", "--horizon", "64"]
    private = ["--epsilon", "1,inf"]
    out = tmp_path / "both"
    assert main([*given, *private, "--learner", "exp3, dp_exp3_lap", "--out", str(out)]) == 0
    rows = read_rows(out / "table.csv")
    assert [(row["learner"], row["asked_epsilon"]) for row in rows] == [
        ("exp3", ""), ("dp_exp3_lap", "1"), ("dp_exp3_lap", "inf"),
    ]  # fmt: skip
    alone = []
    for name, more in (("exp3", []), ("dp_exp3_lap", private)):
        assert main([*given, *more, "--learner", name, "--out", str(tmp_path / name)]) == 0
        alone += read_rows(tmp_path / name / "table.csv")
    same = ("learner", "regret", "standard_error", "median", "switches", "epsilon", "model")
    assert [[row[name] for name in same] for row in rows] == [
        [row[name] for name in same] for row in alone
    ]
    twice = [*given, *private, "--learner", "exp3", "--learner", "dp_exp3_lap"]
    assert main([*twice, "--out", str(tmp_path / "twice")]) == 0
    assert (tmp_path / "twice" / "table.csv").read_bytes() == (out / "table.csv").read_bytes()
    curves = read_rows(out / "curves.csv")
    assert {row["learner"] for row in curves} == {"exp3", "dp_exp3_lap"}
    parameters = json.loads((out / "parameters.json").read_text())
    assert parameters["learners"] == ["exp3", "dp_exp3_lap"]
    assert [each["learner"] for each in parameters["privacy"]] == ["exp3", *["dp_exp3_lap"] * 2]
    study, _ = run.read_study(DIAGNOSES, ["exp3", "dp_exp3_lap"], epsilons=[1.0, np.inf], seeds=2)
    drawn = run.figure(study.run(progress=False), "note")
    assert [axes.get_title() for axes in drawn.axes] == ["epsilon = 1", "epsilon = ∞"]
    capsys.readouterr()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--learner", "exp3,exp3"], "learner: one is named twice in exp3, exp3"),
        (["--learner", "exp3,ucb1", "--epsilon", "1"], "epsilon: the learners exp3, ucb1 take "
         "none; leave it out"),
        (["--learner", "exp3,linucb"], "learner: linucb plays on features, and a loss table has "
         "none; name their columns with --features, or a column of labels with --label"),
        (["--learner", "linucb,exp3", "--label", "a"], "learner: exp3 does not play on features; "
         "leave out --features and --label, or name learners such as linucb and glm_sgd"),
        (["--learner", "hedge", "--label", "a"], "learner: hedge does not play on features; "
         "leave out --features and --label, or name learners such as linucb and glm_sgd"),
    ],
)  # fmt: skip
def test_learners_that_do_not_fit_the_file_are_refused(words, message, tmp_path, capsys):
    path = write(tmp_path / "a.csv", "x,a,b\n0,0,1\n1,1,0\n")
    assert main(["run", "--losses", str(path), *words, "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == f"dpjax: {message}\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("learner", ["linucb", "glm_sgd"])
def test_labelled_cases_have_losses_of_minus_1_and_1(learner, tmp_path, capsys, recwarn):
    """They are those of parameters.json, in all rows, and no learner clips them."""
    path = write(tmp_path / "a.csv", "x,label\n0.5,a\n1.5,b\n3,b\n4,b\n")
    given = ["run", "--losses", str(path), "--label", "label", "--learner", learner, "--seeds", "2"]
    assert main([*given, "--epsilon", "1", "--horizon", "2", "--out", str(tmp_path / "out")]) == 0
    parameters = json.loads((tmp_path / "out" / "parameters.json").read_text())
    assert parameters["mean_losses"] == [0.5, -0.5]
    assert not [each for each in recwarn if "clipped" in str(each.message)]
    capsys.readouterr()


def test_what_was_encoded_is_printed_and_kept(tmp_path, capsys):
    path = write(tmp_path / "a.csv", sides(0))
    given = ["run", "--losses", str(path), "--features", "side", "--learner", "linucb"]
    out = tmp_path / "out"
    assert main([*given, "--seeds", "2", "--epsilon", "inf", "--out", str(out)]) == 0
    note = "one feature of 0 or 1 for each different word: side (2)."
    assert note in capsys.readouterr().out
    parameters = json.loads((out / "parameters.json").read_text())
    assert parameters["notes"][0].endswith(note) and parameters["features"] == ["side"]
