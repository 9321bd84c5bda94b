"""The command line, called as a function and once as a process."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
import xarray

import dpjax
from dpjax import environments, keep_compiled, learners, mechanisms, papers, store
from dpjax.cli import main
from dpjax.papers.sweeps import play, playing
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


def test_a_terminated_run_leaves_nothing(tmp_path):
    """A cluster ends a job with SIGTERM."""
    out = tmp_path / "out"
    words = ["run", "--losses", DIAGNOSES, "--learner", "exp3", "--seeds", "100000", "--out", out]
    with subprocess.Popen(
        [sys.executable, "-m", "dpjax", *words], cwd=ROOT, stderr=subprocess.PIPE, text=True
    ) as process:
        while not (out.exists() and any(out.iterdir())):
            assert process.poll() is None
            time.sleep(0.02)
        process.terminate()
        error = process.communicate(timeout=60)[1]
    assert process.returncode == 130 and "nothing was written" in error
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


def test_as_a_process():
    """python -m dpjax, from a folder outside the project."""
    done = subprocess.run(
        [sys.executable, "-m", "dpjax", "list"], capture_output=True, text=True, cwd="/"
    )
    assert done.returncode == 0
    assert "tossou2017" in done.stdout


@pytest.mark.slow
def test_a_reader_that_closes_its_pipe_is_no_error():
    """As in ``dpjax list | head -1``."""
    command = [sys.executable, "-m", "dpjax", "list"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b"" and process.wait() == 0


# Counts events of JAX's compilation cache and prints them last.
CODE = """
import collections, sys
import jax
from dpjax.cli import main
seen = collections.Counter()
jax.monitoring.register_event_listener(lambda event, **_: seen.update([event.split("/")[-1]]))
sys.argv = ["dpjax", "run", "--losses", "{losses}", "--learner", "exp3", "--seeds", "8",
            "--horizon", "64", "--out", "{out}"]
code = main()
print("read", seen["cache_hits"], "compiled", seen["cache_misses"], "status", code)
"""


def run(out, **environment):
    """How many programs a process read and compiled, and its tables of results."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "DPJAX_"))}
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(losses=DIAGNOSES, out=out)],
        cwd=ROOT, capture_output=True, text=True, timeout=120, env={**inherited, **environment},
    )  # fmt: skip
    read, compiled, status = re.search(
        r"read (\d+) compiled (\d+) status (\d+)", done.stdout
    ).groups()
    assert status == "0", done.stderr
    tables = [path.read_bytes() for path in sorted(out.glob("*.csv"))]
    assert tables
    return int(read), int(compiled), tables


def test_a_second_command_compiles_nothing(tmp_path):
    home = str(tmp_path / "cache")
    read, compiled, first = run(tmp_path / "first", XDG_CACHE_HOME=home)
    assert compiled > 0
    kept = len(list((tmp_path / "cache" / "dpjax" / "compiled").rglob("*-cache")))
    assert kept == compiled
    again, nothing, second = run(tmp_path / "second", XDG_CACHE_HOME=home)
    assert (again, nothing) == (read + compiled - 1, 0)  # the study's program is dpjax's own file
    assert second == first


@pytest.fixture
def updates(monkeypatch):
    """The changes of JAX's settings, recorded instead of made."""
    monkeypatch.delenv("DPJAX_CACHE")
    seen = {}
    monkeypatch.setattr(jax.config, "update", seen.__setitem__)
    return seen


def test_a_folder_of_the_user_s_own_is_left_as_it_is(tmp_path, monkeypatch, updates):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    known = {"jax_compilation_cache_dir": "their own"}
    monkeypatch.setattr(type(jax.config), "values", property(lambda config: known))
    keep_compiled()
    assert not updates and not list(tmp_path.iterdir())


def test_where_no_folder_can_be_made_nothing_is_kept(tmp_path, monkeypatch, updates):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "below"))
    (tmp_path / "file").write_text("a file, where the folder would be")
    keep_compiled()
    assert not updates
    (tmp_path / "file").unlink()
    keep_compiled()
    assert "jax_compilation_cache_dir" in updates
