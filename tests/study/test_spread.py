"""A study in parts: as an array of jobs, and by workers of executors, some of which die."""

import multiprocessing
import os
import signal
import sys
import time
from collections import Counter
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import pytest

import dpjax
from dpjax import environments, learners
from dpjax.store import Store
from dpjax.study import Study, spread, watched
from tests import ROOT
from tests.engine.test_devices import free_port, run_children
from tests.study import shared_play

pytest.importorskip("cloudpickle", reason="closures are sent by cloudpickle, of dpjax[test]")


def study_of(horizons=(20, 50), **learners_of):
    """One or more learners, and an environment that is a closure."""
    coins = environments.bernoulli([0.3, 0.5, 0.5])
    grid = {"horizon": list(horizons), "arms": 3, "epsilon": [0.5, float("inf")]}
    made = {"DP-EXP3-Lap": learners.dp_exp3_lap, **learners_of}
    return Study(made, {"coins": coins}, grid, trials=150, checkpoints=2)


def assert_whole(study, store, monkeypatch):
    """The store has the whole study, and equals a plain run bit for bit."""
    plain = study.run(progress=False)
    with monkeypatch.context() as patch:
        patch.setattr(watched, "compute", lambda plan, blocks: pytest.fail("played again"))
        assert study.run(store, progress=False).identical(plain)


def test_parts_play_each_block_once_in_any_order(tmp_path, monkeypatch):
    written, write = Counter(), Store.write

    def counted(self, point, seed, cells):
        written[self.files.url, point, seed] += 1
        write(self, point, seed, cells)

    monkeypatch.setattr(Store, "write", counted)
    study, sizes = study_of(), []
    for i in (3, 1, 2):
        assert study.run(tmp_path, part=(i, 3), chunk=32, progress=False) is None
        sizes.append(len(written))
    assert set(written.values()) == {1}
    assert 0 < sizes[0] < sizes[1] < sizes[2]
    assert_whole(study, tmp_path, monkeypatch)


@pytest.mark.parametrize("count", [1, 2, 5, 16])
def test_parts_are_disjoint_complete_and_of_equal_size(count):
    weights = [300, 7, 8192, 320]
    each = [spread.shares(weights, (i + 1, count)) for i in range(count)]
    for part in each:
        played = sum((b - a) * weight for (a, b), weight in zip(part, weights, strict=True))
        assert played == pytest.approx(sum(weights) / count)
    for of_one in zip(*each, strict=True):
        assert (of_one[0][0], of_one[-1][1]) == (0.0, 1.0)
        assert all(before[1] == after[0] for before, after in pairwise(of_one))


def test_threads_play_parts(tmp_path, monkeypatch):
    study = study_of(mine=lambda horizon, arms: learners.exp3(horizon, arms, mixing=0.5))
    with ThreadPoolExecutor(2) as pool:
        data = study.run(tmp_path, executor=pool, parts=3, progress=False)
    assert data.identical(study.run(progress=False))
    assert_whole(study, tmp_path, monkeypatch)


class Losing:
    """An executor that loses its first task."""

    def __init__(self, lost, error=None):
        self.lost, self.error = lost, error or OSError("the node went away")
        self.submitted = 0

    def submit(self, function, *arguments):
        future = Future()
        self.submitted += 1
        if self.lost:
            self.lost -= 1
            future.set_exception(self.error)
        else:
            future.set_result(function(*arguments))
        return future


def test_parts_of_lost_workers_are_handed_out_again(tmp_path):
    study = study_of()
    data = study.run(tmp_path / "a", executor=Losing(3), parts=2, progress=False)
    assert data.identical(study.run(progress=False))
    said = r"part 1 of 1 was lost with its worker 4 times, the last time by OSError: the node went"
    with pytest.raises(RuntimeError, match=said):
        study.run(tmp_path / "b", executor=Losing(4), parts=1, progress=False)


def test_there_are_no_more_parts_than_blocks(tmp_path):
    study, executor = replace(study_of(), trials=3), Losing(0)
    data = study.run(tmp_path, executor=executor, parts=1000, progress=False)
    assert executor.submitted == 4  # 2 programs, 1 pair of points, 2 pairs of trials
    assert data.identical(study.run(progress=False))


def test_a_pool_that_breaks_names_the_guard_of_the_script(tmp_path):
    said = (
        "by BrokenProcessPool: .*; a possible cause: .* outside 'if __name__ == \"__main__\":'; all"
    )
    with pytest.raises(RuntimeError, match=said):
        study_of().run(tmp_path, executor=Losing(4, BrokenProcessPool("no worker")), parts=1)


def test_errors_of_the_study_are_raised_at_once(tmp_path):
    (tmp_path / study_of().programs[0].folder).mkdir()
    (tmp_path / study_of().programs[0].folder / "mine.txt").write_text("of something else")
    with pytest.raises(ValueError, match="must be empty .*mine.txt"):
        study_of().run(tmp_path, executor=Losing(0), parts=1, progress=False)


def test_what_cannot_be_sent_is_said(tmp_path, monkeypatch):
    lock = multiprocessing.Lock()
    study = study_of(mine=lambda horizon, arms: learners.exp3(horizon, arms, mixing=bool(lock) / 2))
    with pytest.raises(TypeError, match=r"cannot be sent to its workers \(.*; start the processes"):
        study.run(tmp_path, executor=Losing(0), progress=False)
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(TypeError, match="cannot be sent .*; install cloudpickle"):
        study.run(tmp_path, executor=Losing(0), progress=False)


def test_forked_processes_are_refused(tmp_path):
    pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork"))
    with (
        pool,
        pytest.raises(ValueError, match="it forks processes, and JAX hangs in them; make it as"),
    ):
        study_of().run(tmp_path, executor=pool, progress=False)


def deadly(folder):
    """A study with a worker that kills itself after some blocks were written."""
    parent, mark, first = os.getpid(), folder / "killed", folder / "first"

    def begun():
        return any((folder / "store").rglob("done/c/*/*"))

    def made(file):
        """Whether this call made the file, which exists afterwards."""
        with suppress(FileExistsError):
            file.touch(exist_ok=False)
            return True
        return False

    def mine(horizon, arms):
        if os.getpid() != parent and not mark.exists():
            own = folder / f"worker {os.getpid()}"
            if made(first):
                own.touch()
            end = time.monotonic() + 60.0
            while not (own.exists() or begun() or time.monotonic() > end):
                time.sleep(0.1)  # until the first worker has written a block
            if begun() and made(mark):
                os.kill(os.getpid(), signal.SIGKILL)
        return learners.exp3(horizon, arms, mixing=0.5)

    return study_of([20], mine=mine)


def survives(tmp_path, executor, monkeypatch):
    """An executor plays a study to the end although a worker dies."""
    study = deadly(tmp_path)
    data = study.run(tmp_path / "store", executor=executor, parts=4, progress=False)
    assert (tmp_path / "killed").exists()
    assert data.identical(study.run(progress=False))
    assert_whole(study, tmp_path / "store", monkeypatch)


def test_a_pool_of_processes_survives_a_kill(tmp_path, monkeypatch):
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        survives(tmp_path, pool, monkeypatch)


def test_dask_survives_a_kill(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with (
        distributed.LocalCluster(**options, local_directory=tmp_path / "dask") as cluster,
        distributed.Client(cluster) as client,
    ):
        survives(tmp_path, client.get_executor(), monkeypatch)


def test_submitit_survives_a_kill(tmp_path, monkeypatch):
    submitit = pytest.importorskip("submitit")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    executor = submitit.LocalExecutor(tmp_path / "logs")
    survives(tmp_path, executor, monkeypatch)


def test_arrays_of_jobs_on_the_command_line(tmp_path, capsys):
    from dpjax.cli import main

    study = tmp_path / "mine.py"
    study.write_text(
        "from dpjax import Study, environments, learners\n"
        "coins = {'coins': environments.bernoulli([0.2, 0.8])}\n"
        "mine = Study({'EXP3': learners.exp3}, coins, {'horizon': [8, 16], 'arms': 2}, trials=9)\n"
    )
    losses = str(ROOT / "tests" / "data" / "diagnoses.csv")
    of_table = ["--losses", losses, "--learner", "exp3", "--horizon", "8", "--seeds", "9"]
    for name, words in (("study", [str(study)]), ("table", of_table)):
        store, out = str(tmp_path / name), str(tmp_path / f"out-{name}")
        common = ["run", *words, "--store", store]
        for i in (2, 1):
            assert main([*common, "--part", f"{i}/2"]) == 0
            assert capsys.readouterr().out == f"Part {i} of 2 is in {store}.\n"
        before = {file: file.stat().st_mtime_ns for file in (tmp_path / store).rglob("c/**/*")}
        assert main([*common, "--resume", "--out", out]) == 0
        assert before == {file: file.stat().st_mtime_ns for file in before} != {}
        assert "NaN" not in capsys.readouterr().out
    assert main(["run", *of_table, "--part", "1/2"]) == 2
    assert "part: it needs a store; pass --store PATH" in capsys.readouterr().err
    for wrong in ("0/2", "3/2", "3", "a/b"):
        assert main(["run", *of_table, "--store", "x", "--part", wrong]) == 2
        assert "must be like 3/16" in capsys.readouterr().err


def test_two_processes_play_what_one_plays(tmp_path, monkeypatch):
    command = ["-m", "tests.study.shared_play", tmp_path, "--port", free_port(), "--process"]
    outputs = run_children([[*command, process] for process in range(2)], 240)
    assert all(output.rstrip().endswith("shared") for output in outputs)
    assert dpjax.open(tmp_path).identical(shared_play.study().run(progress=False))
    assert_whole(shared_play.study(), tmp_path, monkeypatch)
