"""Tables of losses, features and labels: read the same from every format, or refused by place."""

import numpy as np
import pandas
import pytest

from dpjax.cli.loss_files import LABELS, WORDS, read_cases, read_losses
from tests import ROOT

DIAGNOSES = ROOT / "tests" / "data" / "diagnoses.csv"
VALUES = np.array([[0.0, 1.0, 0.25], [0.5, 0.125, 1.0]])


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_the_real_table_reads_as_it_was_written():
    """569 patients, 5 rules; wrong diagnoses counted independently (awk)."""
    table = read_losses(DIAGNOSES)
    assert table.arms[:2] == ("worst area", "mean concavity") and table.losses.shape == (569, 5)
    assert table.losses.sum(axis=0).tolist() == [84, 100, 164, 202, 204]


FORMATS = {
    "a.npy": lambda path: np.save(path, VALUES),
    "fortran.npy": lambda path: np.save(path, np.asfortranarray(VALUES, ">f4")),
    "one.npz": lambda path: np.savez_compressed(path, anything=VALUES),
    "two.npz": lambda path: np.savez(path, losses=VALUES, other=np.zeros(3)),
    "plain.csv": lambda path: write(path, "0,1,0.25\n0.5,0.125,1\n"),
    "names.csv": lambda path: write(path, '\ufeffx, y ,"z"\n\n 0, 1,0.25\r\n"0.5",.125,1e0\n   \n'),
    "a.parquet": lambda path: pandas.DataFrame(VALUES, columns=[*"xyz"]).to_parquet(path),
}


@pytest.mark.parametrize("name", FORMATS)
def test_the_same_table_reads_the_same_from_every_format(name, tmp_path):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    FORMATS[name](tmp_path / name)
    read = read_losses(tmp_path / name)
    np.testing.assert_array_equal(read.losses, VALUES)
    named = name in ("names.csv", "a.parquet")
    assert read.arms == (("x", "y", "z") if named else ("arm 1", "arm 2", "arm 3"))


MISSING = "is missing or marked as missing; fill it in, or remove the row"
RANGE = "losses must lie in [0, 1]"
BAD_LOSSES = {
    "decimal commas": ("a;b\n0;1\n0;0,5\n", "row 3, column 2 (b) is '0,5', which is not a number; "
                       "write a decimal point, and no comma"),
    "both": ("a;b\n1.234,5;1\n", "is '1.234,5', which is not a number; write a decimal point"),
    "thousands": ('a,b\n0,1\n0,"1,234"\n', "row 3, column 2 (b) is '1,234', which is not a number; "
                  "write a decimal point, and no comma"),
    "a counted header": ("0,1,2\n.5,.5,.5\n", "row 1 counts the columns; if it is a header, use"),
    "names of rows": (",a,b\nu,0,1\nv,1,0\n", "row 1 must name the columns, and column 1 has no"),
    "an index without a name": ("1,0,1\n2,1,0\n", f"row 2, column 1 (arm 1) is 2; {RANGE}"),
    "a name twice": ("a,b, a\n0,1,0\n", "columns 1 and 3 are both named 'a'; rename"),
    "an empty entry": ("a,b\n0,1\n\n0.5,\n", f"row 3, column 2 (b) {MISSING}"),
    "marks": ("1,0\nNULL,0\n0, .\n", f"row 2, column 1 (arm 1) {MISSING}; row 3, column 2 (arm 2) "
              f"{MISSING}"),
    "a short row": ("a,b\n0,1\n0.5\n", f"row 3, column 2 (b) {MISSING}"),
    "a long row": ("a,b\n0,1\n0.5,1,0\n", "Expected 2 fields in line 3, saw 3"),
    "a long first row": ("a,b\n0.5,1,0\n", "row 1 must name the columns, and column 1 has no name"),
    "a word": ("a,b\n0,1\n0.5,high\n", "row 3, column 2 (b) is 'high', which is not a number"),
    "half a header": ("a,0.5\n0,1\n", "row 1, column 1 (arm 1) is 'a', which is not a number"),
    "a digit of a script": ("a,b\n\uff11,0\n", "row 2, column 1 (a) is '\uff11', which is not a"),
    "infinite": ("1,0\n0,1e999\n", f"row 2, column 2 (arm 2) is inf; {RANGE}"),
    "out of range": ("a,b\n0,1\n0,1.5\n2,-1\n", f"row 4, column 1 (a) is 2; {RANGE}; row 3, column "
                     f"2 (b) is 1.5; {RANGE} (and 1 more in this column)"),
    "just above": ("a,b\n0,1.0000000000000002\n", "(b) is 1.0000000000000002; losses must lie"),
    "an open quote": ('a,b\n0,1\n"0,1\n', "EOF inside string"),
    "no UTF-8": (b"na\xefve,b\n0,1\n", "is not UTF-8 text (invalid continuation byte); save it as"),
    "nothing": ("", "No columns to parse from file"),
    "a header alone": ("a,b\n", "has no rows"),
    "one arm": ("a\n0.5\n", "has 1 arm; at least 2 are needed"),
    "many faults": ("\n".join([",".join(["2"] * 12)] * 2), "; 2 more columns have faults"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_LOSSES)
def test_a_bad_table_is_refused_in_one_sentence(case, tmp_path):
    text, message = BAD_LOSSES[case]
    path = write(tmp_path / "bad.csv", text)
    with pytest.raises(ValueError) as error:
        read_losses(path)
    assert str(error.value).startswith(f"{path}: ") and "\n" not in str(error.value)
    assert message in str(error.value)


ARRAYS = {
    "NaN": (np.array([[0.0, 1.0], [np.nan, 0.0]]), f"row 2, column 1 (arm 1) {MISSING}"),
    "flat": (np.zeros(4), "must have shape (T, K), got (4,)"),
    "words": (np.array([["a", "b"]]), "it holds <U1, not real numbers"),
    "complex": (np.ones((2, 2)) * 1j, "it holds complex128, not real numbers"),
    "objects": (np.array([[None, 1]]), "Object arrays cannot be loaded when allow_pickle=False"),
    "empty": (np.zeros((0, 3)), "its array: has no rows"),
}


@pytest.mark.parametrize("case", ARRAYS)
@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_a_bad_array_is_refused_in_one_sentence(case, suffix, tmp_path):
    array, message = ARRAYS[case]
    path = tmp_path / f"bad.{suffix}"
    (np.save if suffix == "npy" else np.savez)(path, array)
    with pytest.raises(ValueError) as error:
        read_losses(path)
    assert str(error.value).startswith(f"{path}: ") and message in str(error.value)


def test_files_of_other_kinds_and_damaged_files_are_named(tmp_path):
    np.savez(tmp_path / "many.npz", a=VALUES, b=VALUES)
    np.save(tmp_path / "cut.npy", VALUES)
    write(tmp_path / "cut.npy", (tmp_path / "cut.npy").read_bytes()[:-5])
    (tmp_path / "folder.csv").mkdir()
    for name, message in [
        ("many.npz", "it holds a, b; exactly one array must be called losses"),
        ("cut.npy", "cannot be read as .npy: "),
        ("garbage.npy", "cannot be read as .npy: "),
        ("garbage.npz", "cannot be read as .npz: "),
        ("table.xlsx", "must end in one of .csv, .tsv, .txt, .dat, .data, .parquet, .feather, "),
        ("absent.csv", "no such file"),
        ("folder.csv", "is not a file"),
    ]:
        if name.startswith("garbage"):
            write(tmp_path / name, b"\x93NOT an array")
        with pytest.raises((ValueError, OSError)) as error:
            read_losses(tmp_path / name)
        assert str(error.value).startswith(f"{tmp_path / name}: ") and message in str(error.value)


CSV = "age,sex,a,b\n30,f,0,1\n40,m,0.5,1\n\n50,f,1,0\n"


def test_words_are_encoded_and_nothing_else_is_changed(tmp_path):
    """By hand: two words in sorted order, numbers as they stand, the other columns are losses."""
    path = write(tmp_path / "a.csv", CSV)
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
    assert read_cases(write(path, "x,y\n1,10\n2,9\n"), label="y").arms == ("9", "10")


MANY = "\n".join(f"{i / 7},word {i}" for i in range(LABELS + 1))
BAD_CASES = {
    "a missing number": ("x,y\n1,u\n,v\n", f"row 3, column 1 (x) {MISSING}"),
    "a missing label": ("x,y\n1.5,u\n2,NA\n", f"row 3, column 2 (y) {MISSING}"),
    "a missing word": ("x,y\nr,u\n?,v\ns,v\n", f"row 3, column 1 (x) {MISSING}"),
    "a word among numbers": ("x,y\n1.5,u\n1O,v\n", "row 3, column 1 (x) is '1O', which is not a"),
    "infinite": ("x,y\n1,u\ninf,v\n", "row 3, column 1 (x) is inf; a number must be finite"),
    "an index": ("x,z,y\n2,0,u\n5,1,v\n4,2,v\n", "row 2, column 2 (z) begins an index of the rows; "
                 "remove it"),
    "one word": ("x,z,y\n1.5,a,u\n2,a,v\n", "column 2 (z) has 1 different entries; it must have"),
    "many labels": (f"x,y\n{MANY}\n", f"column 2 (y) has {LABELS + 1} different entries; it must"),
    "many words": ("x,y\n" + "".join(f"w{i},u\nw{i},v\n" for i in range(WORDS + 1)),
                   f"column 1 (x) has {WORDS + 1} different entries; it must have from 2 to 32"),
    "words with commas": ('x,y\n"1,5",u\n"2,5",v\n', "row 2, column 1 (x) is '1,5', which is not a "
                          "number; write a decimal point, and no comma"),
    "no name": (",y\n5,u\n", "row 1 must name the columns, and column 1 has no name"),
    "no header": ("x,2\n3,4\n", "has no column 'y'; its columns are arm 1, arm 2"),
    "other columns": ("x,Y\n1,u\n", "has no column 'y' (did you mean Y?); its columns are x, Y"),
    "the label alone": ("y\nu\nv\n", "has no column of features"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_CASES)
def test_bad_cases_are_refused_in_one_sentence(case, tmp_path):
    text, message = BAD_CASES[case]
    path = write(tmp_path / "bad.csv", text)
    with pytest.raises(ValueError) as error:
        read_cases(path, label="y")
    assert str(error.value).startswith(f"{path}: ") and message in str(error.value)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("x,a,b\n1,0,1\n3,0,1.5\n", {"features": ["x"]}, "(b) is 1.5; losses must lie in [0, 1]"),
        ("x,a\n1,0\n3,1\n", {"features": ["x"]}, "has 1 columns of losses beside the features"),
        ("x,a\n1,0\n", {"features": ["x", "x"]}, "features: a column is named twice in x, x"),
        ("x,a\n1,0\n", {"features": ["x", "a"], "label": "x"}, "is named twice in x, a, x"),
    ],
)
def test_losses_beside_features_are_checked_as_those_of_a_table(text, options, message, tmp_path):
    with pytest.raises(ValueError) as error:
        read_cases(write(tmp_path / "bad.csv", text), **options)
    assert message in str(error.value)
