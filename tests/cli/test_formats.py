"""Files as other programs write them: read as the same table, or refused in one sentence."""

import io
import json

import numpy as np
import pandas
import pytest

from dpjax.cli import formats, main
from dpjax.cli.loss_files import read_cases, read_losses
from tests import ROOT
from tests.engine.test_devices import run_children
from tests.refusals import refuses

LOSSES = np.array([[0.0, 1.0, 0.25], [0.5, 0.125, 1.0], [0.75, 0.0, 0.5]])
FRAME = pandas.DataFrame(LOSSES, columns=["a", "b", "c c"])
LEFT_OUT = "The first column has no name and counts the rows. It was left out."


def separated(word):
    return f"The entries of the file are separated by {word}."


def savetxt(**options):
    file = io.StringIO()
    np.savetxt(file, LOSSES, **options)
    return file.getvalue()


R_CSV = '"","a","b","c c"\n"1",0,1,0.25\n"2",0.5,0.125,1\n"3",0.75,0,0.5\n'
R_TABLE = '"a" "b" "c c"\n"1" 0 1 0.25\n"2" 0.5 0.125 1\n"3" 0.75 0 0.5\n'
NAMES = ("a", "b", "c c")
# {name of a file: (its text, names of its arms, sentences on its format)}
TABLES = {
    "pandas.csv": (FRAME.to_csv(), NAMES, [LEFT_OUT]),
    "pandas numbers.csv": (pandas.DataFrame(LOSSES).to_csv(), ("0", "1", "2"), [LEFT_OUT]),
    "pandas twice.csv": ("Unnamed: 0" + FRAME.to_csv(), NAMES, [LEFT_OUT]),
    "pandas.tsv": (FRAME.to_csv(sep="\t", index=False), NAMES, []),
    "tabs.csv": (FRAME.to_csv(sep="\t"), NAMES, [separated("tabs"), LEFT_OUT]),
    "R.csv": (R_CSV, NAMES, [LEFT_OUT]),
    "R.txt": (R_TABLE, NAMES, [separated("spaces"), LEFT_OUT]),
    "R without names": (R_TABLE.partition("\n")[2].replace('"1" ', "").replace('"2" ', "")
                        .replace('"3" ', ""), None, [separated("spaces")]),
    "numpy.txt": (savetxt(), None, [separated("spaces")]),
    "numpy.csv": (savetxt(delimiter=",", header="a,b,c c"), NAMES, []),
    "numpy.dat": (savetxt(header="by NumPy, in 2026\nx y z"), ("x", "y", "z"),
                  [separated("spaces")]),
    "a comment.dat": (savetxt(header="three arms of a test"), None, [separated("spaces")]),
    "polars.csv": (FRAME.to_csv(index=False), NAMES, []),
    "spreadsheet.csv": ("\ufeff" + FRAME.to_csv(sep=";", index=False, lineterminator="\r\n"), NAMES,
                        [separated("semicolons")]),
    "spaces.csv": ('\ufeffx, y ,"z"\n\n 0, 1,0.25\r\n"0.5",.125,1e0\n   \n.75,0,.5',
                   ("x", "y", "z"), []),
}  # fmt: skip
# Of arrays, the names of the arms are their numbers.
ARRAYS = {
    "a.npy": lambda path: np.save(path, LOSSES),
    "fortran.npy": lambda path: np.save(path, np.asfortranarray(LOSSES, ">f4")),
    "one.npz": lambda path: np.savez_compressed(path, anything=LOSSES),
    "two.npz": lambda path: np.savez(path, losses=LOSSES, other=np.zeros(3)),
}


@pytest.mark.parametrize("name", [*TABLES, *ARRAYS])
def test_files_of_other_programs_are_read(name, tmp_path):
    text, arms, reading = TABLES.get(name, ("", None, []))
    (tmp_path / name).write_text(text)
    if name in ARRAYS:
        ARRAYS[name](tmp_path / name)
    read = read_losses(tmp_path / name)
    np.testing.assert_array_equal(read.losses, LOSSES)
    assert read.arms == (arms or ("arm 1", "arm 2", "arm 3")) and [*read.reading] == reading


def test_the_real_table_reads_as_it_was_written():
    """569 patients, 5 rules; wrong diagnoses counted independently (awk)."""
    table = read_losses(ROOT / "tests" / "data" / "diagnoses.csv")
    assert table.arms[:2] == ("worst area", "mean concavity") and table.losses.shape == (569, 5)
    assert table.losses.sum(axis=0).tolist() == [84, 100, 164, 202, 204]


def test_feather_and_parquet_are_read_with_the_same_faults(tmp_path):
    pytest.importorskip("pyarrow")
    for kind in ("feather", "parquet"):
        path = tmp_path / f"a.{kind}"
        getattr(FRAME, f"to_{kind}")(path)
        np.testing.assert_array_equal(read_losses(path).losses, LOSSES)
        with pytest.raises(ValueError, match=r"row 2, column 1 \(a\) is missing or marked"):
            read_losses(path, missing=["0.5"])
        words = pandas.DataFrame({"x": [1.5, 2.0], "y": ["u", "N/A"]})
        getattr(words, f"to_{kind}")(path)
        refuses(r"row 2, column 2 \(y\) is missing or marked", read_cases, (path,), label="y")
        assert read_cases(path, label="y", keep=["N/A"]).arms == ("N/A", "u")


def test_lists_in_a_column_are_refused(tmp_path):
    pytest.importorskip("pyarrow")
    pandas.DataFrame({"a": [[1, 2], [3]], "b": [0, 1]}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"a.parquet: column a holds lists or other objects"):
        read_losses(tmp_path / "a.parquet")


def test_words_among_the_numbers_of_a_later_piece_are_words_of_all(tmp_path, monkeypatch):
    """A file is read in pieces. The label 01 remains 01 if a later piece has a word."""
    path = tmp_path / "a.csv"
    text = "x,y\n1.5,01\n2,02\n3,01\n5,u\n"
    path.write_text(text)
    whole = read_cases(path, label="y")
    monkeypatch.setattr(formats, "ENTRIES", 3)  # two rows
    read = read_cases(path, label="y")
    assert read.arms == whole.arms == ("01", "02", "u")
    np.testing.assert_array_equal(read.features, whole.features)
    path.write_text(text.replace("5,u", "5,"))
    refuses(r"row 5, column 2 \(y\) is missing", read_cases, (path,), label="y")
    path.write_text(text.replace("3,01", "three,01"))
    refuses(r"row 4, column 1 \(x\) is 'three'", read_cases, (path,), label="y")
    path.write_text(R_TABLE)
    np.testing.assert_array_equal(read_losses(path).losses, LOSSES)


@pytest.mark.parametrize("words", [("True", "False"), ("TRUE", "FALSE"), ("true", "false")])
def test_booleans_are_0_and_1(words, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"a,b\n{words[0]},{words[1]}\n{words[0]},{words[0]}\n")
    assert read_losses(path).losses.tolist() == [[1, 0], [1, 1]]
    path.write_text(f"{words[0]},{words[1]}\n{words[0]},{words[0]}\n")  # without a header
    assert read_losses(path).losses.tolist() == [[1, 0], [1, 1]]


@pytest.mark.slow
def test_words_that_mean_missing_are_chosen(tmp_path):
    """A number that means missing is found in a column of numbers, and a label NA is a label."""
    path = tmp_path / "a.csv"
    path.write_text("x,y\n1.5,NA\n-999,u\n2,unknown\n")
    assert read_cases(path, label="y", keep=["NA"]).arms == ("NA", "u", "unknown")
    with pytest.raises(ValueError) as error:
        read_cases(path, label="y", missing=["-999", "unknown"], keep=["NA"])
    assert "row 3, column 1 (x) is missing" in str(error.value)
    assert "row 4, column 2 (y) is missing" in str(error.value)
    given = ["run", "--losses", str(path), "--learner", "linucb", "--label", "y", "--keep", "NA"]
    given += ["--seeds", "2", "--epsilon", "inf", "--horizon", "8", "--out", str(tmp_path / "out")]
    assert main(given) == 0
    parameters = json.loads((tmp_path / "out" / "parameters.json").read_text())
    assert parameters["keep"] == ["NA"] and parameters["arms"] == ["NA", "u", "unknown"]


def test_words_are_encoded_and_nothing_else_is_changed(tmp_path):
    """By hand: two words in sorted order, numbers as they stand, the other columns are losses."""
    path = tmp_path / "a.csv"
    path.write_text("age,sex,a,b\n30,f,0,1\n40,m,0.5,1\n\n50,f,1,0\n")
    read = read_cases(path, features=["age", "sex"])
    assert read.names == ("age", "sex=f", "sex=m") and read.arms == ("a", "b")
    assert read.features.tolist() == [[30, 1, 0], [40, 0, 1], [50, 1, 0]]
    assert read.losses.tolist() == [[0, 1], [0.5, 1], [1, 0]] and read.labels is None
    assert read.notes == (
        "These columns hold words, and were encoded as one feature of 0 or 1 for each different "
        "word: sex (2).",
    )
    labelled = read_cases(path, label="sex", features=["age"])
    assert labelled.arms == ("f", "m") and labelled.labels.tolist() == [0, 1, 0]
    assert labelled.losses is None and labelled.notes == ()
    assert read_cases(path, label="sex").names == ("age", "a", "b")
    path.write_text("x,y\n1,10\n2,9\n")
    assert read_cases(path, label="y").arms == ("9", "10")


SVM = "+1 1:0.5 3:-2 # a note\n# a line\n-1 qid:3 2:1e-1\n+1 1:2 10:3\n"
VW = "dog 'first |a x:2 y |b:0.5 x:3\ncat |a x\n\ndog 1.0 second| z:-1\n"
ARFF = """% about
@RELATION 'the file'
@attribute 'worst area' NUMERIC
@attribute side {'to the left', 'right, far'}
@attribute "a note" string
@attribute class {yes,no}
@data
% row 0
1.5, 'to the left', it\\'s, yes
-2, 'right, far', b, no
3, 'to the left', b, yes
"""


def test_libsvm_is_read_as_a_table_of_labels_and_features(tmp_path):
    for name in ("a.svm", "a.libsvm", "a.txt", "a"):
        (tmp_path / name).write_text(SVM)
        read = read_cases(tmp_path / name, label="label")
        assert read.names == ("1", "2", "3", "10") and read.arms == ("-1", "1")
        assert read.labels.tolist() == [1, 0, 1]
        assert read.features.tolist() == [[0.5, 0, -2, 0], [0, 0.1, 0, 0], [2, 0, 0, 3]]
        assert read.reading == ("A feature that a row does not name is 0.",)
    loaders = pytest.importorskip("sklearn.datasets")
    (tmp_path / "b.svm").write_text("3 1:0.5 3:-2\n7 2:1e-1\n3 1:2 4:3\n")
    features, labels = loaders.load_svmlight_file(str(tmp_path / "b.svm"))
    read = read_cases(tmp_path / "b.svm", label="label")
    np.testing.assert_array_equal(read.features, features.toarray())
    np.testing.assert_array_equal(np.array([3, 7])[read.labels], labels)


def test_vowpal_wabbit_is_read_as_a_table_of_labels_and_features(tmp_path):
    """The weight 0.5 of the name space b multiplies its features. A tag is no label."""
    for name in ("a.vw", "a.txt"):
        (tmp_path / name).write_text(VW)
        read = read_cases(tmp_path / name, label="label")
        assert read.names == ("a^x", "a^y", "b^x", "z") and read.arms == ("cat", "dog")
        assert read.features.tolist() == [[2, 1, 1.5, 0], [1, 0, 0, 0], [0, 0, 0, -1]]
        assert read.labels.tolist() == [1, 0, 1]


def test_arff_is_read_with_quoted_names_and_words(tmp_path):
    """Against SciPy on the columns that it reads: it reads no strings."""
    path = tmp_path / "a.arff"
    path.write_text(ARFF)
    read = read_cases(path, label="class")
    assert read.names == (
        "worst area", "side=right, far", "side=to the left", "a note=b", "a note=it's",
    )  # fmt: skip
    assert read.features.tolist() == [[1.5, 0, 1, 0, 1], [-2, 1, 0, 1, 0], [3, 0, 1, 1, 0]]
    assert read.arms == ("no", "yes") and read.labels.tolist() == [1, 0, 1]
    from scipy.io import arff

    lines = [line for line in ARFF.splitlines() if "a note" not in line]
    plain = "\n".join(lines).replace(" it\\'s,", "").replace(" b,", "")
    data, _ = arff.loadarff(io.StringIO(plain))
    assert data["worst area"].tolist() == read.features[:, 0].tolist()
    assert [word == b"to the left" for word in data["side"]] == [True, False, True]
    path.write_text(ARFF.replace("'right, far', b, no", "?, b, no"))
    refuses(r"row 2, column 2 \(side\) is missing or marked", read_cases, (path,), label="class")


def test_a_label_may_be_an_action_of_a_file_without_propensities(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("reward,x,action\n0.5,2,u\n1,3,v\n")
    assert read_cases(path, label="action").arms == ("u", "v")
    refuses("its columns action, reward show logged", read_losses, (path,))


@pytest.mark.slow
def test_labels_of_libsvm_play_without_an_option(tmp_path, capsys):
    """More labels than words of features are allowed, and 80 of them play."""
    path = tmp_path / "a.svm"
    path.write_text("".join(f"{i % 80} 1:{7 * i % 80} 2:{i % 7}\n" for i in range(160)))
    given = ["run", "--losses", str(path), "--learner", "linucb", "--epsilon", "inf"]
    assert main([*given, "--seeds", "1", "--horizon", "4", "--out", str(tmp_path / "out")]) == 0
    assert "A feature that a row does not name is 0." in capsys.readouterr().out
    parameters = json.loads((tmp_path / "out" / "parameters.json").read_text())
    assert len(parameters["arms"]) == 80
    np.testing.assert_allclose(parameters["mean_losses"], np.full(80, 1 - 2 / 80))


MEASURED = """
import re, sys
from pathlib import Path
import dpjax.cli.run as run
run.read_cases(sys.argv[1], label="y")
def peak():
    return 1024 * int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])
before = peak()
run.read_cases(sys.argv[2], label="y")
print((peak() - before) / Path(sys.argv[2]).stat().st_size)
"""


@pytest.mark.slow
def test_a_file_takes_at_most_three_times_its_size_in_memory(tmp_path):
    rng = np.random.default_rng(0)
    for name, rows in (("small", 10), ("large", 300_000)):
        table = pandas.DataFrame(rng.normal(size=(rows, 9)), columns=[*"abcdefghi"])
        table["y"] = rng.choice(["red", "green", "blue"], rows)
        table.to_csv(tmp_path / f"{name}.csv", index=False, float_format="%.6f")
    files = [str(tmp_path / f"{name}.csv") for name in ("small", "large")]
    (printed,) = run_children([["-c", MEASURED, *files]], 120)
    assert float(printed.split()[-1]) < 3.0
