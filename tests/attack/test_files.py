"""Hostile files, names, folders and numbers on the command line: right, or one sentence."""

import io
import json
import os
import resource
import socket
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from dpjax import papers
from dpjax.cli import audits, main
from dpjax.cli import run as command
from dpjax.papers import _shared
from dpjax.papers._shared import Report, publish
from dpjax.report import plot
from dpjax.report.output import FigureWarning, output_folder, write_figure
from dpjax.report.tables import write_csv
from tests import ROOT

read_losses = command.read_losses
TABLE = np.random.default_rng(0).random((40, 3))


def call(capsys, *arguments):
    """Exit code, stdout, and the single sentence on stderr."""
    try:
        code = main([str(argument) for argument in arguments])
    except SystemExit as exit_:
        code = exit_.code
    out, error = capsys.readouterr()
    lines = [line for line in error.splitlines() if "%|" not in line and line.strip()]
    assert len(lines) == (code != 0), error
    return code, out, "".join(lines)


def run(losses_file, out, *more):
    return ["run", "--losses", losses_file, "--learner", "exp3", "--seeds", 2, "--out", out, *more]


def npy(array, **options):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, **options)
    return file.getvalue()


def header(shape, descr="<f8", raw=None, version=1, size=None):
    """The first bytes of a .npy file; ``size`` is the header length that they state."""
    text = (raw or repr({"descr": descr, "fortran_order": False, "shape": shape})).encode() + b"\n"
    length = struct.pack("<H" if version == 1 else "<I", size or len(text))
    return b"\x93NUMPY" + bytes((version, 0)) + length + text


def npz(path, *members, pack=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", pack) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def changed(path, at, value):
    """An .npz with one member, with bytes of its directory entry changed at an offset."""
    content = bytearray(path.read_bytes())
    start = content.find(b"PK\1\2") + at
    content[start : start + len(value)] = value
    path.write_bytes(content)


def refused(path):
    """The sentence that refuses a file."""
    with pytest.raises((ValueError, OSError)) as error:
        read_losses(path)
    sentence = str(error.value)
    assert sentence.startswith(f"{path}: ") and "\n" not in sentence.replace(str(path), "")
    return sentence


@pytest.mark.parametrize(
    "name",
    ["a$b_{.csv", "$x^{$.csv", "\\b%c^_#.csv", "new\nline.csv", "x" * 240 + ".csv", "\udcff$.csv"],
)  # fmt: skip
def test_no_name_of_a_file_loses_a_run(name, capsys, tmp_path):
    path, out = tmp_path / name, tmp_path / "out$\udcff"
    path.write_bytes(b"a,b\n0,1\n1,0\n")
    code, printed, _ = call(capsys, *run(path, out))
    assert code == 0 and "exp3" in printed and printed.count("\n") == 5
    files = {file.name for file in out.iterdir()}
    assert {
        "data.nc",
        "table.csv",
        "curves.csv",
        "parameters.json",
        "regret.png",
        "regret.pdf",
    } == (files)
    written = json.loads((out / "parameters.json").read_text())["losses"]
    assert written.isprintable() and written.endswith(".csv")


def test_a_dollar_in_a_caption_is_a_dollar():
    data = command.study_of(np.eye(2), "exp3", seeds=2).run(progress=False)
    (caption,) = (text for text in command.figure(data, "Losses: a$b_{.csv: $").texts
                  if "Losses" in text.get_text())  # fmt: skip
    assert "a$b_{.csv: $" in caption.get_text() and not caption.get_parse_math()


def broken(*arguments):
    raise RuntimeError("no\nfonts")


def test_a_figure_that_fails_loses_no_table(capsys, tmp_path, monkeypatch):
    """The message names it, the exit code is 1, and the figure of an earlier run is removed."""
    path, out = tmp_path / "losses.csv", tmp_path / "out"
    path.write_text("a,b\n0,1\n1,0\n")
    assert call(capsys, *run(path, out))[0] == 0
    monkeypatch.setattr(command, "figure", broken)
    code, printed, error = call(capsys, *run(path, out, "--overwrite"))
    assert code == 1 and printed.startswith("learner")
    assert "the figure regret could not be drawn (RuntimeError: no fonts); the tables are" in error
    files = {file.name for file in out.iterdir()}
    assert files == {"data.nc", "table.csv", "curves.csv", "parameters.json"}


def test_nor_does_one_that_cannot_be_written_or_is_interrupted(tmp_path, monkeypatch):
    with output_folder(tmp_path) as folder:
        write_csv(folder / "table.csv", [{"a": 1}])
    (tmp_path / "blocked.pdf").mkdir()
    with pytest.warns(FigureWarning, match="figure blocked .* is a folder"):
        write_figure(tmp_path, "blocked", lambda: plot.panels(1, 1, (1, 1))[0])

    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="tables are in .* without the figure regret"):
        write_figure(tmp_path, "regret", interrupt)
    assert {file.name for file in tmp_path.iterdir()} == {"table.csv", "blocked.pdf"}


def test_reproduce_and_audit_write_tables_first(capsys, tmp_path, monkeypatch):
    row = dict.fromkeys(("delta", "attack", "paper", "printed", "printed_replay"))
    row |= {"learner": "exp3", "domain": "", "model": "central", "replay": 1.0, "declared": 1.0}
    row |= {"checks": "pass", "horizon": 16, "pairs": 64, "paths": 8}
    monkeypatch.setattr(audits, "audit_one", lambda *case, **options: (row, []))
    monkeypatch.setattr(audits, "figure", broken)
    out = tmp_path / "audit"
    out.mkdir()
    (out / "audit_mutants.csv").write_text("of another audit")
    code, printed, error = call(capsys, "audit", "exp3", "--out", out, "--overwrite")
    assert (code, "the figure audit could not" in error) == (1, True) and "exp3" in printed
    assert {file.name for file in out.iterdir()} == {"README.md", "audit.csv", "parameters.json"}


def test_papers_write_tables_first(tmp_path, monkeypatch):
    """All papers publish reports through one function, which writes tables before it draws.

    It does not print tables of more than a hundred rows.
    """
    tables = {"": [{"a": 1}], "_more": [{"b": 2}], "_long": [{"c": 3}] * 101}
    report = Report(tables, {"": broken, "_more": broken})
    sizes = {"horizon": 10, "trials": 24, "seed": 0}
    with pytest.warns(FigureWarning) as failed:
        assert publish(tmp_path, "paper", iter([report]), **sizes) == "a\n1\n\nb\n2"
    files = {file.name for file in tmp_path.iterdir()}
    assert files == {"paper.csv", "paper_more.csv", "paper_long.csv", "parameters.json"}
    assert [str(warning.message).split()[2] for warning in failed] == ["paper", "paper_more"]
    published = []
    monkeypatch.setattr(_shared, "publish", lambda *given, **sizes: published.append(given[1]))
    for name in papers.__all__:
        paper = getattr(papers, name)
        paper.reproduce(tmp_path, horizon=paper.QUICK_HORIZON, trials=paper.QUICK_TRIALS)
    assert published == papers.__all__


def test_an_experiment_that_fails_leaves_no_file(tmp_path):
    def experiment():
        yield Report({"": [{"a": 1}]})
        raise RuntimeError("while it plays")

    with pytest.raises(RuntimeError, match="while it plays"):
        publish(tmp_path / "out", "paper", experiment(), horizon=10, trials=24, seed=0)
    assert not (tmp_path / "out").exists()


PICKLED = npy(np.array([[None, 1]]), allow_pickle=True)
BAD_ARRAYS = {
    "empty": (b"", "not an array of NumPy"),
    "text": (b"0,1\n1,0\n", "not an array of NumPy"),
    "truncated": (npy(TABLE)[:-5], "its header declares 1088 bytes .* but there are 1083"),
    "too long": (npy(TABLE) + b"\0", "its header declares 1088 bytes"),
    "10^12 rows": (header((10**12, 3)) + bytes(64), r"header declares \d+ bytes"),
    "10^30 rows": (header((10**30, 3)) + bytes(64), r"header declares \d+ bytes"),
    "negative": (header((-2, -2)) + bytes(32), r"shape \(T, K\), got \(-2, -2\)"),
    "no token": (header(0, raw="{'descr': '<f8', ((("), "header is damaged"),
    "no indent": (header(0, raw="  a\n b\nc"), "header is damaged"),
    "a header of 4 GB": (header((2, 2), version=2, size=2**32 - 1), "header is damaged"),
    "void": (header((2, 2), "|V8") + bytes(32), r"holds \|V8, not real"),
    "dates": (header((2, 2), "<M8[s]") + bytes(32), "holds datetime64"),
    "complex": (npy(TABLE * 1j), "holds complex128"),
    "words": (npy(np.array([["0", "1"]])), "holds <U1"),
    "records": (header((2, 2), [("a", "<f8")]) + bytes(32), "holds .*, not real"),
    "objects": (PICKLED, "objects that need pickle"),
    "infinite": (npy(np.array([[np.inf, 0], [np.inf, 1]])), "row 1, column 1 is inf"),
}


@pytest.mark.parametrize("case", BAD_ARRAYS)
@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_arrays_that_lie(case, suffix, tmp_path):
    """A separate file or an archive's member: the same sentence, before its data are read."""
    content, message = BAD_ARRAYS[case]
    path = tmp_path / f"a.{suffix}"
    if suffix == "npy":
        path.write_bytes(content)
    else:
        npz(path, ("losses.npy", content))
    with pytest.raises(ValueError, match=message):
        read_losses(path)
    refused(path)


@pytest.mark.parametrize("dtype", [">f8", "f4", "f2", "g", "?", "u1", ">i4"])
def test_arrays_of_every_real_kind_and_order_are_read(dtype, tmp_path):
    table = np.asfortranarray((np.round(TABLE * 4) / 4).astype(dtype))
    for pack in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        path = npz(tmp_path / "a.npz", ("losses.npy", npy(table)), ("notes.txt", b"x"), pack=pack)
        np.testing.assert_array_equal(read_losses(path).losses, table.astype(np.float64))
    np.save(tmp_path / "a.npy", table)
    np.testing.assert_array_equal(read_losses(tmp_path / "a.npy").losses, table.astype(np.float64))


def test_archives_that_lie(tmp_path):
    path = tmp_path / "a.npz"
    whole = npz(path, ("losses.npy", npy(TABLE))).read_bytes()
    for at, value, message in [
        (8, b"\1", "the array losses is encrypted"),
        (10, b"\x4d", "the array losses is damaged .*compression"),
        (6, b"\x63", "is damaged, or not an .npz"),
        (
            24,
            struct.pack("<I", 200),
            "is damaged|header declares",
        ),  # its stated length is too short
        (24, struct.pack("<I", 2**31), "header declares 1088 bytes"),
        (16, b"\0\0\0\0", "is damaged .*CRC"),
        (42, struct.pack("<I", 2**31), "the array losses is damaged"),
    ]:
        path.write_bytes(whole)
        changed(path, at, value)
        with pytest.raises(ValueError, match=message):
            read_losses(path)
        refused(path)
    for members, message in [
        ([], "holds nothing; exactly one array"),
        ([("losses.npy", b"text")], "not an array"),
        ([("losses.txt", b"text")], "holds losses.txt; exactly one array"),
        ([("a.npy", npy(TABLE)), ("notes.txt", b"text")], "holds a, notes.txt; exactly one array"),
        ([("a.npy", npy(TABLE)), ("b.npy", npy(TABLE))], "holds a, b; exactly one array"),
    ]:
        with pytest.raises(ValueError, match=message):
            read_losses(npz(path, *members))
    with pytest.warns(UserWarning, match="Duplicate"):
        npz(path, ("losses.npy", npy(TABLE)), ("losses.npy", npy(TABLE)))
    assert "holds losses, losses; exactly one" in refused(path)


def bomb(path, start, rest, understated=False):
    """An .npz whose array is ``start`` and so many MB of zeros; its directory may say less."""
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("losses.npy", "w", force_zip64=True) as member,
    ):
        member.write(start)
        for _ in range(rest):
            member.write(bytes(2**20))
    if understated:
        changed(path, 24, struct.pack("<I", len(start) + 1600))
    return path


@pytest.mark.parametrize(
    ("start", "understated", "message"),
    [
        (header((2**26, 2), "|u1"), False, "compressed so strongly that its 134217728 losses"),
        (header((0, 0), raw="x", version=2, size=2**32 - 1), False, "header is damaged"),
        (header((100, 2)), True, "CRC|damaged"),
        (header((100, 2)), False, "header declares"),
    ],
    ids=["a table of zeros", "a header", "an understated size", "an overlong member"],
)
def test_a_bomb_takes_no_memory(start, understated, message, tmp_path):
    """134 MB of zeros (1 GB in float64) compressed to half a MB: only a few MB are allocated."""
    path = bomb(tmp_path / "bomb.npz", start, 128, understated)
    assert path.stat().st_size < 2**20
    tracemalloc.start()
    with pytest.raises(ValueError, match=message):
        read_losses(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**24


def test_what_is_packed_well_and_small_is_read(tmp_path):
    table = np.tile([0.9, 0.1], (50_000, 1))
    np.savez_compressed(tmp_path / "a.npz", table)
    assert table.nbytes > 32 * (tmp_path / "a.npz").stat().st_size
    np.testing.assert_array_equal(read_losses(tmp_path / "a.npz").losses, table)


def test_what_is_no_file_is_called_what_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a socket's address must be short
    os.mkfifo("pipe.csv")
    os.mkdir("folder.npy")
    os.symlink("/dev/zero", "zero.npz")
    os.symlink("loop.csv", "loop.csv")
    os.symlink("nowhere", "dangling.csv")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket.csv")
    for name, message in [
        ("pipe.csv", "is a named pipe, and not a regular file"),
        ("folder.npy", "is a folder"),
        ("zero.npz", "is a device"),
        ("socket.csv", "is a socket"),
        ("loop.csv", "cannot be read: Too many levels"),
        ("dangling.csv", "no such file"),
        ("x" * 300 + ".csv", "cannot be read: File name too long"),
    ]:
        assert message in refused(name)
    if os.geteuid() != 0:
        Path("locked.csv").write_text("a,b\n0,1\n")
        os.chmod("locked.csv", 0)
        assert "cannot be read: Permission denied" in refused("locked.csv")


BAD_CSV = {
    "columns from 0": ("0,1,2\n.5,.5,.5\n", "row 1 counts the columns, 0 to 2; if it is a"),
    "two columns from 0": ("0,1\n.5,.5\n", "row 1 counts the columns, 0 to 1; if it is a"),
    "columns from 1": ('"1","2"\n.5,.5\n', "row 1 counts the columns, 1 to 2"),
    "only commas": ("a,b\n0,1\n,\n1,0\n", r"row 3, column 1 \(a\): is missing"),
    "underscores": ("a,b\n0_1,0\n", "row 2, column 1 (a): '0_1' is not a number"),
    "digits of a script": ("a,b\n\uff11,0\n", "row 2, column 1 (a): '\uff11' is not a number"),
    "an open quote": ('a,b\n0,1\n"0,1\n1,0\n', "is not CSV (unexpected end of data)"),
    "text behind quotes": ('a,b\n"0"1,0\n', "row 2 is not CSV"),
    "NUL": ("a,b\n0,0\0\n", r"row 2, column 2 (b): '0\x00' is not a number"),
    "decimal commas": ("a,b\n0,5,1,0\n", "row 2 has 4 entries, but the header has 2"),
    "too large": ("a,b\n0,1e999\n", "row 2, column 2 (b) is inf"),
    "a long entry": ("a,b\n0," + "1" * 200_000 + "\n", "row 2 is not CSV (field larger"),
    "a long line": ("a,b\n" + "0" * (2**24 + 1) + "\n", "row 2 is longer than 16777216"),
    "a comment": ("a,b\n0,1\n# end\n", "row 3 has 1 entries"),
}


@pytest.mark.parametrize("case", BAD_CSV)
def test_csv_that_is_not_read(case, tmp_path):
    text, message = BAD_CSV[case]
    path = tmp_path / "a.csv"
    path.write_text(text, encoding="utf-8")
    sentence = refused(path)
    assert message.replace("\\(", "(").replace("\\)", ")") in sentence and len(sentence) < 400


def test_csv_that_is_read(tmp_path):
    path = tmp_path / "a.csv"
    for text in (
        "\ufeffa,b\r\n0,1\r\n\r\n1,0", "a,b\r0,1\r1,0\r", '"a", b\n"0","1"\n   \n 1,0 ',
        "0.0,1.0\n1,0\n",
    ):  # fmt: skip
        path.write_bytes(text.encode())
        assert read_losses(path).losses.tolist() == [[0, 1], [1, 0]]


def test_folders_that_cannot_be_written(capsys, tmp_path, monkeypatch):
    path = tmp_path / "losses.csv"
    path.write_text("a,b\n0,1\n")
    for out, message in [
        (path, "there is a file of that name"),
        (path / "x", "Not a directory"),
        ("/proc/x", "out: cannot write to the folder /proc/x"),
        (tmp_path / ("x" * 300), "out: cannot write to the folder"),
        ("", "out: must name a folder"),
    ]:
        code, _, error = call(capsys, *run(path, out))
        assert code == 2 and message in error
    full = tmp_path / "full"
    monkeypatch.setattr("pandas.DataFrame.to_csv", disk_is_full)
    code, _, error = call(capsys, *run(path, full))
    assert code == 2 and "out: cannot write table.csv: No space left on device" in error
    assert not full.exists()


def disk_is_full(*arguments, **options):
    raise OSError(28, "No space left on device")


def test_nothing_is_replaced_where_one_file_cannot_be(tmp_path):
    (tmp_path / "b.csv").mkdir()
    (tmp_path / "a.csv").write_text("old")
    message = "b.csv is a folder; nothing was replaced"
    with pytest.raises(OSError, match=message), output_folder(tmp_path) as folder:
        for name in ("a.csv", "b.csv"):
            (folder / name).write_text("new")
    assert (tmp_path / "a.csv").read_text() == "old" and len(list(tmp_path.iterdir())) == 2


NUMBERS = [
    ("--epsilon", "1e-309", "epsilon must be greater than 0 (inf is allowed), got 1e-309"),
    ("--epsilon", "1e39", "got 1e+39, which is inf in float32"),
    ("--epsilon", "1e400", "a number that is too large for a float"),
    ("--epsilon", "1,1.0", "epsilon: one is given twice in 1, 1"),
    ("--epsilon", "1,,2", "must be numbers separated by commas"),
    ("--seeds", 2**24 + 1, "seeds must be at most 16777216"),
    ("--seeds", "9" * 5000, "--seeds: invalid int value"),
    ("--seed", -1, "seed must be a whole number from 0 to 4294967295, got -1"),
    ("--seed", 2**64, f"seed must be a whole number from 0 to 4294967295, got {2**64}"),
    ("--horizon", 10**15, "rounds were requested"),
    ("--devices", 10**6, "devices must be in [1, 1024], got 1000000"),
    ("--store", "foo://x", "store: foo://x cannot be opened"),
    ("--store", "/dev/zero", "store: /dev/zero is not a folder"),
    ("--store", "", "store: must name a folder"),
]


@pytest.mark.parametrize(("option", "value", "message"), NUMBERS)
def test_numbers_on_the_command_line(option, value, message, capsys, tmp_path):
    path = tmp_path / "losses.csv"
    path.write_text("a,b\n0,1\n")
    words = run(path, tmp_path / "out", "--learner", "dp_exp3_lap", f"{option}={value}")
    code, _, error = call(capsys, *words)
    assert code == 2 and message in error


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["exp3", "--runs=0"], "runs must be an integer of at least 1"),
        (["exp3", "--epsilon=1e39"], "got 1e+39, which is inf"),
        (["exp3", "--epsilon=1e-309"], "epsilon must be greater than 0"),
        (["--", "exp3", "exp3"], "learner: one is named twice in exp3, exp3"),
    ],
)
def test_numbers_of_audits_are_refused_early(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(audits, "audit_one", lambda *case, **options: pytest.fail("worked"))
    code, _, error = call(capsys, "audit", "--out", tmp_path / "out", *words)
    assert code == 2 and message in error and not (tmp_path / "out").exists()


def mutated(content, random):
    """Content with some bytes flipped, removed, inserted or zeroed."""
    content = bytearray(content)
    kind = random.integers(5)
    at = int(random.integers(len(content)))
    # Every second change is near the ends, where the sizes are stored.
    if random.random() < 0.5:
        at = int(random.integers(min(200, len(content)))) * random.choice([1, -1])
    if kind == 0:
        return bytes(content[:at])
    if kind == 1:
        content[at:at] = random.bytes(int(random.integers(1, 20)))
    elif kind == 2:
        content[at : at + 8] = bytes(8)
    else:
        for _ in range(1 if kind == 3 else 8):
            content[(at + int(random.integers(16))) % len(content)] ^= 1 << random.integers(8)
    return bytes(content)


def as_numpy_or_python_reads(path):
    """The table as NumPy or Python reads it, for comparison."""
    if path.suffix == ".csv":
        lines = [line for line in path.read_text("utf-8-sig").split("\n") if line.strip()]
        rows = [[cell.strip().strip('"') for cell in line.split(",")] for line in lines]
        return np.array(rows if rows[0][0][:1] in "0123456789.-+" else rows[1:], np.float64)
    loaded = np.load(path)
    return np.asarray(loaded if path.suffix == ".npy" else loaded["losses"], np.float64)


@pytest.mark.slow
def test_mutations_of_files(tmp_path):
    """600 files of each kind in this process, and 8 in a process with 4 GB of memory.

    Each file is read as NumPy or Python reads it, or refused in one sentence that names it.
    """
    random = np.random.default_rng(26)
    text = "\n".join(["a,b,c", *(",".join(f"{x:.3g}" for x in row) for row in TABLE)])
    packed = npz(tmp_path / "p.npz", ("losses.npy", npy(TABLE)), ("x.npy", npy(TABLE)))
    valid = {
        "npy": npy(TABLE),
        "csv": text.encode(),
        "npz": packed.read_bytes(),
        "stored.npz": npz(
            tmp_path / "s.npz", ("losses.npy", npy(TABLE)), pack=zipfile.ZIP_STORED
        ).read_bytes(),
    }
    counts, largest = dict.fromkeys(("tried", "read", "refused"), 0), 0
    for kind, content in valid.items():
        path = tmp_path / f"mutated.{kind}"
        for _ in range(600):
            path.write_bytes(mutated(content, random))
            counts["tried"] += 1
            tracemalloc.start()
            try:
                found = read_losses(path).losses
            except (ValueError, OSError) as error:
                assert str(error).startswith(f"{path}: ") and "\n" not in str(error)
                counts["refused"] += 1
                found = None
            largest = max(largest, tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
            if found is not None:
                np.testing.assert_array_equal(found, as_numpy_or_python_reads(path))
                counts["read"] += 1
    assert counts["read"] + counts["refused"] == counts["tried"] == 2400
    assert min(counts.values()) > 100
    assert largest < 2**24

    ended = {0: 0, 2: 0}
    for i in range(4):
        for kind in ("csv", "npz"):
            path = tmp_path / f"process{i}.{kind}"
            path.write_bytes(mutated(valid[kind], random) if i else valid[kind])
    paths = sorted(tmp_path.glob("process*"))
    for path in paths:
        words = [str(word) for word in run(path, tmp_path / f"{path.name}-out", "--horizon", 2)]
        done = subprocess.run(
            [sys.executable, "-m", "dpjax", *words],
            cwd=ROOT, capture_output=True, text=True, timeout=60, preexec_fn=small,
        )  # fmt: skip
        assert "Traceback" not in done.stderr
        ended[done.returncode] += 1
        if done.returncode:
            said = done.stderr.splitlines()
            assert len(said) == 1 and said[0].startswith(f"dpjax: {path}: ")
    print(
        f"\nfiles: {counts['tried']} mutations in process, {counts['read']} read right, "
        f"{counts['refused']} refused in one sentence, 0 lost, at most {largest / 2**20:.1f} MB; "
        f"{len(paths)} through dpjax run, {ended[0]} played, {ended[2]} refused"
    )


def small():
    resource.setrlimit(resource.RLIMIT_DATA, (4 * 2**30, 4 * 2**30))
