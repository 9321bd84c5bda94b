"""The command line, called as a function and once as a process."""

import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import xarray

import dpjax
from dpjax import environments, learners, mechanisms, papers, store
from dpjax.cli import main
from dpjax.cli.alive import alive
from dpjax.engine import progress
from dpjax.papers.sweeps import play, playing
from dpjax.report.output import output_folder
from dpjax.study import theorems
from tests import ROOT

DIAGNOSES = str(ROOT / "tests" / "data" / "diagnoses.csv")


def call(capsys, *arguments):
    """Exit code, stdout and stderr."""
    code = main([str(word) for word in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_list_shows_everything_with_one_line_each(capsys):
    code, out, _ = call(capsys, "list")
    assert code == 0
    for package in (learners, mechanisms, environments, papers):
        for name in package.__all__:
            shown = name.replace("_", "-") if package is papers else name
            (line,) = [line for line in out.splitlines() if line.split()[:1] == [shown]]
            assert len(line) <= 110 and line.endswith(".")


def test_results_of_an_earlier_run_are_not_overwritten_in_silence(capsys, tmp_path, monkeypatch):
    """By no command. With the option they are, and files left by a killed run do not count."""
    monkeypatch.setattr(papers.tossou2017, "reproduce", lambda out, **sizes: "played")
    for command in ("audits", "compare"):
        run = lambda *names, **options: ("played", 0, "")  # noqa: E731
        monkeypatch.setattr(f"dpjax.cli.{command}.run", run)
    monkeypatch.setattr("dpjax.cli.run.play", lambda *plan, **options: "played")
    monkeypatch.setattr("dpjax.cli.theorem.run", lambda *names, **options: "played")
    monkeypatch.chdir(tmp_path)
    for words, default in [
        (["run", "--losses", DIAGNOSES, "--learner", "exp3"], "run"),
        (["reproduce", "tossou2017"], "tossou2017"),
        (["audit", "exp3"], "audit"),
        (["compare", "mine.py"], "compare"),
        (["theorem", "exp3"], "theorem"),
    ]:
        folder = tmp_path / "results" / default
        (folder / ".unfinished-1-2").mkdir(parents=True)
        assert call(capsys, *words)[0] == 0
        (folder / "table.csv").write_text("mine")
        code, printed, error = call(capsys, *words)
        assert (code, printed) == (2, "")
        assert error == (
            f"dpjax: out: results/{default} is not empty; pass --overwrite to replace the results "
            "in it, or name another folder with --out\n"
        )
        assert call(capsys, *words, "--overwrite")[0] == 0
        assert call(capsys, *words, "--out", tmp_path / "new")[0] == 0
        assert call(capsys, *words, "--out", "")[2] == "dpjax: out: must name a folder, got ''\n"


def test_version(capsys):
    code, printed, _ = call(capsys, "--version")
    assert (code, printed) == (0, f"dpjax {dpjax.__version__}\n")
    pyproject = ROOT / "pyproject.toml"
    assert 'version = {attr = "dpjax.core._version.__version__"}' in pyproject.read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "dpjax: Missing command"),
        (["reprodcue"], "dpjax: No such command 'reprodcue'"),
        (["run"], "dpjax: run: pass the Python file of a study, or --losses FILE"),
        (["run", "--losses", DIAGNOSES, "--learner", "EXP3"], " (did you mean exp3?)"),
        (["run", "--seeds", "9" * 5000], "dpjax run: Invalid value for '--seeds': "),
        (["run", "--epsilon", "1,low"], "'--epsilon': must be numbers separated by commas, got"),
        (["run", "--epsilon", "1,,2"], "'--epsilon': must be numbers separated by commas, got ''"),
        (["run", "--horizn", "2"], "dpjax run: No such option"),
        (["run", "nothing.py"], "dpjax: nothing.py: no such file"),
        (["run", "--losses", DIAGNOSES, "--learner", "exp3", "--out", "/dev/null/out"],
         "out: cannot write to the folder /dev/null/out"),
        (["reproduce", "Tossou2017"], " (did you mean tossou2017?)"),
        (["reproduce", "agarwal2017_bandits"], " (did you mean agarwal2017-bandits?)"),
        (["audit", "FTRL"], " (did you mean ftrl?)"),
        (["audit"], "dpjax: audit: name learners, or pass --all"),
        (["audit", "exp3", "exp3"], "learner: one is named twice in exp3, exp3"),
        (["audit", "exp3", "--runs=0"], "runs must be an integer of at least 1"),
        (["audit", "exp3", "--epsilon=1e39"], "got 1e+39, which is inf"),
        (["theorem", "exp3", "--all"], "dpjax: theorem: name some, or pass --all"),
    ],
)  # fmt: skip
def test_a_bad_use_is_one_sentence_exit_code_2_and_no_files(
    words, message, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    code, printed, error = call(capsys, *words)
    assert code == 2 and message in error and error.count("\n") == 1
    assert printed == "" and list(tmp_path.iterdir()) == []


def test_an_interrupted_run_leaves_nothing(capsys, tmp_path, monkeypatch):
    def interrupt(*arguments, **keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr("dpjax.cli.run.study_of", interrupt)
    out = tmp_path / "out"
    code, _, error = call(
        capsys, "run", "--losses", DIAGNOSES, "--learner", "exp3", "--out", str(out)
    )
    assert code == 130
    assert "nothing was written" in error
    assert not out.exists()


RUN = [
    "run", "--losses", DIAGNOSES, "--learner", "exp3_minibatch", "--epsilon", "1,inf",
    "--seeds", "8", "--horizon", "64",
]  # fmt: skip


def test_run_keeps_a_store_and_goes_on_with_it(capsys, tmp_path, monkeypatch):
    kept, out = str(tmp_path / "store"), ["--out", str(tmp_path / "out")]
    code, printed, _ = call(capsys, *RUN, *out, "--store", kept)
    assert code == 0
    data = dpjax.open(kept)
    assert data.regret.shape == (1, 1, 2, 8, 64) and data.learner.item() == "exp3_minibatch"
    with xarray.open_dataset(tmp_path / "out" / "data.nc") as written:
        assert written.regret.equals(data.regret)

    out.append("--overwrite")
    code, _, error = call(capsys, *RUN, *out, "--store", kept)
    assert code == 2 and error.count("\n") == 1
    assert f"store: {kept} is not empty; pass --resume" in error

    monkeypatch.setattr(store.Store, "write", lambda *block: pytest.fail("computed again"))
    code, again, _ = call(capsys, *RUN, *out, "--store", kept, "--resume")
    assert (code, again) == (0, printed)

    code, _, error = call(capsys, *RUN, *out, "--store", kept, "--resume", "--seed", "1")
    assert code == 2 and "was made with another key" in error


def test_reproduce_keeps_a_store_a_study_and_goes_on(capsys, tmp_path, monkeypatch):
    killed, written = [True], []

    def study(seed):
        coins = {"coins": environments.bernoulli([0.1, 0.5, 0.5])}
        grid = {"horizon": 8, "arms": 3, "epsilon": [1.0, np.inf]}
        return dpjax.Study(learners.dp_exp3_lap, coins, grid, 4, seed, checkpoints=2)

    def reproduce(out, **sizes):
        first = play(study(seed=0))
        if killed.pop():
            raise KeyboardInterrupt
        second = play(study(seed=1))
        return f"{first.regret.sum()} {second.regret.sum()}"

    monkeypatch.setattr(papers.tossou2017, "reproduce", reproduce)
    write = store.Store.write

    def counted(self, *block):
        written.append(str(Path(self.files.root).parent))  # the folder of the study
        write(self, *block)

    monkeypatch.setattr(store.Store, "write", counted)
    kept = str(tmp_path / "stores")
    arguments = ["reproduce", "tossou2017", "--out", str(tmp_path / "out"), "--store", kept]
    code, _, error = call(capsys, *arguments)
    assert code == 130 and f"{kept} has the finished part: pass --resume" in error
    assert {*written} == {f"{kept}/001-study"}
    written.clear()
    killed.append(False)
    assert call(capsys, *arguments, "--resume")[0] == 0
    assert {*written} == {f"{kept}/002-study"}
    with playing(progress=False):
        assert play(study(seed=0)).regret.sizes["trial"] == 4
    assert len(list(Path(kept).iterdir())) == 2, "outside of the command nothing is kept"


def test_devices_make_a_mesh_for_every_sweep(capsys, tmp_path):
    """In a separate process, since the number of devices is set once. The output is the same.

    Importing the command must not start JAX, or the option would come too late.
    """
    code = (
        "import sys; from dpjax import cli; from dpjax.study import study\n"
        "planned = study.planned\n"
        "def spied(*arguments):\n"
        "    print(f'on {arguments[7].size} devices', file=sys.stderr)\n"
        "    return planned(*arguments)\n"
        "study.planned = spied\n"
        "sys.exit(cli.main(sys.argv[1:]))"
    )
    arguments = [*RUN, "--out", str(tmp_path)]
    command = [sys.executable, "-c", code, *arguments, "--devices", "2"]
    cwd = ROOT
    found = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120)
    assert found.returncode == 0 and "on 2 devices" in found.stderr, found.stderr
    assert found.stdout == call(capsys, *arguments, "--overwrite")[1]


def test_what_a_killed_run_left_in_its_folder_is_removed_by_the_next(tmp_path):
    code = (
        "import os, signal; from dpjax.report.output import output_folder\n"
        f"with output_folder({str(tmp_path)!r}) as folder:\n"
        "    (folder / 'half.csv').write_text('half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT)
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".unfinished-")
    with output_folder(tmp_path), output_folder(tmp_path) as second:
        assert not left.exists()
        assert len(list(tmp_path.iterdir())) == 2, "of two that are running none is removed"
        (second / "table.csv").write_text("whole")
    assert [file.name for file in tmp_path.iterdir()] == ["table.csv"]


def test_as_a_process():
    """python -m dpjax, from a folder outside the project."""
    done = subprocess.run(
        [sys.executable, "-m", "dpjax", "list"], capture_output=True, text=True, cwd="/"
    )
    assert done.returncode == 0
    assert "tossou2017" in done.stdout


def test_a_part_without_a_bar_shows_a_sign_of_life_in_logs(capsys, monkeypatch):
    """Not on a terminal, and not while a bar writes lines of its own."""
    monkeypatch.setattr("dpjax.cli.alive.EVERY", 0.05)

    def lines(**options):
        with alive("dpjax audit", **options):
            time.sleep(0.18)
        return [line for line in capsys.readouterr().err.split("\n") if line]

    found = lines()
    assert 1 <= len(found) <= 3 and set(found) == {"dpjax audit: 0 seconds so far"}
    time.sleep(0.12)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(progress.Bar, "in_logs", 1)
    assert lines() == []
    monkeypatch.setattr(progress.Bar, "in_logs", 0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert lines() == []


def test_no_command_keeps_silent_in_a_log(capsys, tmp_path, monkeypatch):
    """Lines are due each tenth of a second here. A busy machine may miss some of them."""
    monkeypatch.setattr("dpjax.cli.alive.EVERY", 0.1)
    monkeypatch.setattr(progress, "_SILENT", 0.1)
    small = partial(theorems.worst_case, trials=8, population=8, generations=3)
    monkeypatch.setattr(theorems, "worst_case", small)
    sizes = ["--epsilon", "1", "--horizon", "64", "--trials", "8", "--out", tmp_path / "out"]
    begin = time.perf_counter()
    code, _, error = call(capsys, "theorem", "limited_updates", "--search", *sizes)
    seconds = time.perf_counter() - begin
    assert code == 0
    lines = [line for line in error.split("\n") if "/" in line or "seconds so far" in line]
    assert len(lines) >= 0.25 * seconds / 0.1


@pytest.mark.slow
def test_a_reader_that_closes_its_pipe_is_no_error():
    """As in ``dpjax list | head -1``."""
    command = [sys.executable, "-m", "dpjax", "list"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b"" and process.wait() == 0
