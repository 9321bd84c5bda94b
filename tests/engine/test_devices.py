"""Sweeps on several devices and processes, with little memory, and with failing trajectories."""

import itertools
import math
import os
import re
import socket
import subprocess
import sys
import time
import warnings
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import learners, store, sweep
from dpjax.core import Arms, Environment, Outcome
from dpjax.engine import compile, devices, programs
from dpjax.engine.blocks import empty, put
from dpjax.engine.compute import compute
from tests import ROOT, script
from tests.engine.on_devices import SEEDS, plan_of
from tests.play import idle
from tests.test_conformance import EPSILONS

module = sys.modules["dpjax.study.sweep"]  # dpjax.sweep itself is the function


def run_children(commands, limit, variables=None):
    """Runs Python with each list of arguments in a process, all at once, and leaves none behind."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    variables = variables or [{}] * len(commands)
    children = [
        subprocess.Popen(
            [sys.executable, *map(str, command)], cwd=ROOT, env={**environment, **own},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for command, own in zip(commands, variables, strict=True)
    ]  # fmt: skip
    end = time.monotonic() + limit
    try:
        outputs = [child.communicate(timeout=end - time.monotonic())[0] for child in children]
    finally:
        for child in children:
            child.kill()
            child.wait()
    for child, output in zip(children, outputs, strict=True):
        assert child.returncode == 0, output
    return outputs


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def on_four_devices(out, names):
    run_children([["-m", "tests.engine.on_devices", out, "--devices", 4, *names]], limit(names))


def on_two_processes(out, names):
    common = ["-m", "tests.engine.on_devices", out, "--devices", 1, "--processes", 2]
    common += ["--port", free_port(), *names]
    outputs = run_children([[*common, "--process", i] for i in range(2)], limit(names))
    # Neither process continued before both had written.
    assert all(f"{len(list(out.glob('*.npz')))} files" in output for output in outputs)


def limit(names):
    """Seconds allowed for child processes; a learner takes a few."""
    return 60 + 30 * len(names)


def put_together(blocks, points, seeds):
    """The leaves of a whole sweep from (point, seed, leaves); every cell occurs once."""
    whole, seen = None, np.zeros((points, seeds), int)
    for point, seed, block in blocks:
        if whole is None:
            whole = empty(points, seeds, block)
        put(whole, block, point, seed)
        seen[point : point + block[0].shape[0], seed : seed + block[0].shape[1]] += 1
    assert (seen == 1).all()
    return whole


def from_files(out, name):
    blocks = []
    for path in out.glob(f"{name}-*.npz"):
        with np.load(path) as file:
            blocks.append((*map(int, path.stem.split("-")[1:]), list(file.values())))
    assert len(blocks) > 1
    return put_together(blocks, len(EPSILONS), SEEDS)


def on_one_device(name):
    plan = plan_of(name)
    found = compute(plan, plan.blocks(plan.corners))
    blocks = ((block.point, block.seeds[0], jax.tree.leaves(cells)) for block, cells in found)
    return put_together(blocks, plan.count, plan.seeds)


def assert_same_bits(a, b):
    for x, y in zip(a, b, strict=True):
        np.testing.assert_array_equal(x, y)


NAMES = ["dp_exp3_lap", "ftrl", "linucb"]
ALL = pytest.param(learners.__all__, marks=pytest.mark.slow, id="all")


@pytest.mark.parametrize("elsewhere", [on_four_devices, on_two_processes])
@pytest.mark.parametrize("names", [pytest.param(NAMES, id="some"), ALL])
def test_devices_and_processes_change_no_bit(elsewhere, names, tmp_path):
    """Blocks differ in size and place; one process computes only its share."""
    elsewhere(tmp_path, names)
    for name in names:
        assert_same_bits(from_files(tmp_path, name), on_one_device(name))


def test_a_mesh_of_any_axes_and_what_is_none(monkeypatch):
    """One device with a mesh gives the same result as without; several processes need a store."""
    game = one_arm_spoiled(at_round=0)
    plain = sweep(game, POINTS, 5, jr.key(0))
    meshed = sweep(game, POINTS, 5, jr.key(0), mesh=jax.make_mesh((1, 1), ("a", "b")))
    assert_same_bits(jax.tree.leaves(plain), jax.tree.leaves(meshed))
    with pytest.raises(TypeError, match=r"mesh must be a Mesh, .*; got a list"):
        sweep(game, POINTS, 5, jr.key(0), mesh=jax.devices())
    monkeypatch.setattr(devices, "processes", lambda mesh: 2)
    with pytest.raises(ValueError, match="store: several processes need one"):
        sweep(game, POINTS, 5, jr.key(0))


POINTS = np.array([0.5, 1.0, 2.0], np.float32)


def one_arm_spoiled(at_round, value=np.nan, spoiled=lambda epsilon, key: epsilon == 1.0):
    """Eight rounds in which some trajectories lose their tally in one round (0: in none)."""

    def game(epsilon):
        def step(state, key, arm):
            t, bad = state
            loss = epsilon * jr.uniform(key)
            lost = bad & (t + 1 == at_round)
            return (t + 1, bad), Outcome(jnp.full(2, loss), jnp.where(lost, value, loss))

        return idle(8), Environment(
            init=lambda key: (jnp.int32(0), spoiled(epsilon, key)),
            step=step,
            regret=lambda state, tally: tally,
            action_set=Arms(2),
        )

    return game


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_trajectories_that_are_not_finite_are_named_and_the_rest_kept(value):
    """Here those of point 1 with some seeds, in blocks of two seeds."""

    def unlucky(epsilon, key):
        return (epsilon == 1.0) & (jr.uniform(key) < 0.5)

    nature = [jr.split(jr.fold_in(jr.key(4), s))[0] for s in range(12)]
    bad = [s for s in range(12) if jr.uniform(jr.fold_in(nature[s], 0)) < 0.5]
    assert 3 < len(bad) < 12
    first = "; ".join(f"point 1, seed {s}" for s in bad[:3])
    sentence = f"{len(bad)} trajectories contain NaN or infinity and are kept: {first}; ..."
    with pytest.warns(RuntimeWarning, match=re.escape(sentence)):
        result = sweep(one_arm_spoiled(3, value, unlucky), POINTS, 12, jr.key(4), chunk=6)
    finite = np.isfinite(result.regret)
    assert (finite[:, :, :2]).all() and finite[[0, 2]].all()
    np.testing.assert_array_equal(np.flatnonzero(~finite[1].all(axis=1)), bad)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clean = sweep(one_arm_spoiled(0), POINTS, 12, jr.key(4), chunk=6)
    kept = np.delete(np.arange(12), bad)
    np.testing.assert_array_equal(result.regret[1, kept], clean.regret[1, kept])
    np.testing.assert_array_equal(result.regret[[0, 2]], clean.regret[[0, 2]])


class Fussy:
    """A program that refuses blocks of more than some number of trajectories, as a device would."""

    def __init__(self, make, most, error):
        self.make, self.most, self.error, self.tried = make, most, error, []

    def __call__(self, traced, size, mesh):
        program = self.make(traced, size, mesh)
        self.tried.append(size)

        def run(*blocks):
            if size[0] * size[1] > self.most:
                raise self.error
            return program.run(*blocks)

        return program._replace(run=run)


@pytest.mark.parametrize(
    ("error", "meshed", "sizes"),
    [
        (MemoryError(), False, [(3, 8), (3, 4), (3, 2), (2, 2)]),
        (jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating"), True,
         [(3, 8), (3, 4), (3, 2)]),
    ],
)  # fmt: skip
def test_a_chunk_that_does_not_fit_is_halved_with_a_notice(error, meshed, sizes, monkeypatch):
    """Down to a size that fits, once for all blocks; if none fits, the error is raised."""
    mesh = jax.make_mesh((1,), ("one",)) if meshed else None
    game = one_arm_spoiled(0)
    whole = sweep(game, POINTS, 30, jr.key(0), chunk=24)
    fussy = Fussy(programs.compiled, math.prod(sizes[-1]), error)
    monkeypatch.setattr(programs, "compiled", fussy)
    with warnings.catch_warnings(record=True) as notices:
        warnings.simplefilter("always")
        pieces = sweep(game, POINTS, 30, jr.key(0), chunk=24, mesh=mesh)
    assert_same_bits(jax.tree.leaves(whole), jax.tree.leaves(pieces))
    assert [str(notice.message) for notice in notices] == [
        f"{points} points x {n} seeds did not fit into memory: computing {fewer} x {less} at once"
        for (points, n), (fewer, less) in itertools.pairwise(sizes)
    ]
    tried = [size for size, _ in itertools.groupby(fussy.tried)]
    assert tried[: len(sizes)] == sizes
    fussy.most = 1
    with pytest.warns(RuntimeWarning), pytest.raises(type(error)):
        sweep(game, POINTS, 4, jr.key(0), mesh=mesh)


def test_the_chunk_fits_into_memory(monkeypatch):
    """Automatically and without a notice: as large as the compiled program allows."""
    game = one_arm_spoiled(0)
    whole = sweep(game, POINTS, 128, jr.key(0), chunk=96)
    plan = module.planned(game, POINTS, 128, jr.key(0), module.simulate, 100, 96, None)
    needed, more = (
        programs.compiled(plan.traced, (3, seeds), None).bytes_needed for seeds in (16, 32)
    )
    assert 3 * 16 * 8 * 4 < needed < more
    tried = Fussy(programs.compiled, np.inf, None)
    monkeypatch.setattr(programs, "compiled", tried)
    small = compile.CPU._replace(memory=lambda mesh, workers: needed)
    monkeypatch.setattr("dpjax.engine.compute.platform_of", lambda mesh: small)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pieces = sweep(game, POINTS, 128, jr.key(0), chunk=96)
    assert tried.tried[:2] == [(3, 32), (3, 16)] and set(tried.tried[2:]) == {(3, 16)}
    assert_same_bits(jax.tree.leaves(whole), jax.tree.leaves(pieces))


def test_memory_of_this_machine(monkeypatch):
    """Half of it, shared by concurrent computations; nine tenths of an accelerator's own."""

    def memory(mesh, workers):
        return compile.platform_of(mesh).memory(mesh, workers)

    one, two = memory(None, 1), memory(None, 2)
    assert 2**26 < two == one / 2 < 2**46
    assert memory(jax.make_mesh((1,), ("one",)), 2) == one

    accelerator = SimpleNamespace(
        platform="gpu",
        memory_stats=lambda: {"bytes_limit": 1000},
        client=SimpleNamespace(platform_version="cuda 13000"),
    )
    assert memory(SimpleNamespace(devices=np.array([accelerator])), 1) == 900.0


@pytest.mark.parametrize(
    ("line", "folder", "file"),
    [
        ("0::/job/step", "job", "memory.max"),
        ("4:memory:/job", "memory/job", "memory.limit_in_bytes"),
    ],
)
def test_a_control_group_limits_memory(line, folder, file, monkeypatch, tmp_path):
    """In both versions of Linux control groups."""
    group = tmp_path / folder
    (group / "step").mkdir(parents=True)
    (group / "step" / file).write_text("max\n")
    (group / file).write_text("123456\n")
    (tmp_path / "self").write_text(f"1:cpu:/elsewhere\n{line}\n")
    monkeypatch.setattr(devices, "_GROUPS", tmp_path)
    monkeypatch.setattr(devices, "_OWN_GROUPS", tmp_path / "self")
    assert devices._machine_memory() == 123456.0


def test_results_wait_for_a_slow_reader():
    """So memory does not fill up with results that are not read yet."""
    begun = []
    stream = devices.completed(begun.append, range(100), 2)
    for _ in range(3):
        next(stream)
    time.sleep(0.2)
    assert len(begun) < 12
    stream.close()
    time.sleep(0.1)
    assert len(begun) < 12


def test_two_slurm_tasks_fill_one_store_and_a_later_run_finds_it_complete(tmp_path):
    """examples/pod.py as started in docs/guides/clusters.md, with the variables that SLURM sets."""
    path = tmp_path / "pod.zarr"
    slurm = {"SLURM_JOB_ID": "7", "SLURM_STEP_NODELIST": "127.0.0.1", "SLURM_NTASKS": "2",
             "JAX_COORDINATOR_PORT": str(free_port())}  # fmt: skip
    command = ["examples/pod.py", "--store", path, "--seeds", 6]
    tasks = [{**slurm, "SLURM_PROCID": str(i), "SLURM_LOCALID": str(i)} for i in range(2)]
    first, second = run_children([[*command, "--distributed"]] * 2, 120, tasks)
    assert "5 points x 6 seeds on 2 devices" in first
    assert "devices" not in second
    written = times(path)
    (alone,) = run_children([[*command, "--devices", 3]], 120)
    assert "5 points x 6 seeds on 3 devices" in alone
    assert times(path) == written

    pod = script("examples/pod.py")
    plain = sweep(pod.game, pod.EPSILONS, 6, jr.key(0))
    assert_same_bits(jax.tree.leaves(plain), jax.tree.leaves(store.read(path)))


def times(folder):
    """The modification time of each file in a folder."""
    return {file: file.stat().st_mtime_ns for file in folder.rglob("*") if file.is_file()}
