"""Sweeps on several devices and processes, in memory that is short, with trajectories that fail."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

from dpjax import learners
from dpjax.sweep import _compute, _put
from tests.on_devices import SEEDS, plan_of
from tests.test_conformance import EPSILONS

module = sys.modules["dpjax.sweep"]  # dpjax.sweep itself is the function
ROOT = Path(__file__).parent.parent


def run_children(commands, limit):
    """Runs Python with these arguments at once, each in a process; none is left behind."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    children = [
        subprocess.Popen(
            [sys.executable, *map(str, command)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for command in commands
    ]
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
    run_children([["-m", "tests.on_devices", out, "--devices", 4, *names]], limit(names))


def on_two_processes(out, names):
    common = ["-m", "tests.on_devices", out, "--devices", 1, "--processes", 2]
    common += ["--port", free_port(), *names]
    run_children([[*common, "--process", i] for i in range(2)], limit(names))


def limit(names):
    """Seconds that children may take; a learner takes a few."""
    return 60 + 30 * len(names)


def put_together(out, name):
    """The leaves of a whole sweep from the files of its blocks; every cell is there once."""
    whole, seen = None, np.zeros((len(EPSILONS), SEEDS), int)
    for path in out.glob(f"{name}-*.npz"):
        corner = [int(number) for number in path.stem.split("-")[1:]]
        with np.load(path) as file:
            block = list(file.values())
        if whole is None:
            whole = module._empty(*seen.shape, block)
        _put(whole, block, *corner)
        point, seed = corner
        seen[point : point + block[0].shape[0], seed : seed + block[0].shape[1]] += 1
    assert (seen == 1).all()
    return whole


def on_one_device(name, mesh=None):
    plan = plan_of(name, mesh)
    whole = None
    for corner, block in _compute(plan, plan.corners):
        leaves = jax.tree.leaves(block)
        if whole is None:
            whole = module._empty(plan.count, plan.seeds, leaves)
        _put(whole, leaves, *corner)
    return whole


def assert_same_bits(a, b):
    for x, y in zip(a, b, strict=True):
        np.testing.assert_array_equal(x, y)


NAMES = ["dp_exp3_lap", "ftrl", "linucb"]


@pytest.mark.parametrize("elsewhere", [on_four_devices, on_two_processes])
@pytest.mark.parametrize(
    "names",
    [
        pytest.param(NAMES, id="some"),
        pytest.param(learners.__all__, marks=pytest.mark.slow, id="all"),
    ],
)
def test_devices_and_processes_change_no_bit(elsewhere, names, tmp_path):
    """Blocks differ in size and place; what one process computes is only its share."""
    elsewhere(tmp_path, names)
    for name in names:
        assert len(list(tmp_path.glob(f"{name}-*.npz"))) > 1
        assert_same_bits(put_together(tmp_path, name), on_one_device(name))
