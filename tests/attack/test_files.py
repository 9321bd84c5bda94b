"""Hostile names and folders on the command line: right, or one sentence; tables come first."""

import json

import pytest

from dpjax import papers
from dpjax.cli import main
from dpjax.cli import run as command
from dpjax.papers import _shared
from dpjax.papers._shared import Report, publish
from dpjax.report import plot
from dpjax.report.output import FigureWarning, output_folder, write_figure
from dpjax.report.tables import write_csv


def call(capsys, *arguments):
    """Exit code, stdout, and the single sentence on stderr."""
    code = main([str(argument) for argument in arguments])
    out, error = capsys.readouterr()
    lines = [line for line in error.splitlines() if "%|" not in line and line.strip()]
    assert len(lines) == (code != 0), error
    return code, out, "".join(lines)


def run(losses_file, out, *more):
    return ["run", "--losses", losses_file, "--learner", "exp3", "--seeds", 2, "--out", out, *more]


@pytest.mark.parametrize(
    "name",
    ["a$b_{.csv", "$x^{$.csv", "\\b%c^_#.csv", "new\nline.csv", "x" * 240 + ".csv", "\udcff$.csv"],
)  # fmt: skip
def test_no_name_of_a_file_loses_a_run(name, capsys, tmp_path):
    path, out = tmp_path / name, tmp_path / "out$\udcff"
    path.write_bytes(b"a,b\n0,1\n1,0\n")
    code, printed, _ = call(capsys, *run(path, out))
    assert code == 0 and "exp3" in printed
    assert {"data.nc", "table.csv", "regret.png"} <= {file.name for file in out.iterdir()}
    written = json.loads((out / "parameters.json").read_text())["file"]
    assert written.isprintable() and written.endswith(".csv")


def broken(*arguments, **options):
    raise RuntimeError("no\nfonts")


def test_a_figure_that_fails_loses_no_table(capsys, tmp_path, monkeypatch):
    """The message names it, the exit code is 1, and the figure of an earlier run is removed."""
    path, out = tmp_path / "losses.csv", tmp_path / "out"
    path.write_text("a,b\n0,1\n1,0\n")
    assert call(capsys, *run(path, out))[0] == 0
    monkeypatch.setattr(command, "figure", broken)
    code, printed, error = call(capsys, *run(path, out, "--overwrite"))
    assert code == 1 and "exp3" in printed
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


def test_a_full_disk_is_named(capsys, tmp_path, monkeypatch):
    path, full = tmp_path / "losses.csv", tmp_path / "full"
    path.write_text("a,b\n0,1\n")
    monkeypatch.setattr("csv.DictWriter.writeheader", disk_is_full)
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
