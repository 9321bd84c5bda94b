"""The sweep run by tests of stores, also in separate processes."""

import multiprocessing
import os
import time
from pathlib import Path

import jax
import numpy as np
from jax import random as jr

from dpjax import environments, learners, sweep

SEEDS = 60
POINTS = {
    "epsilon": np.array([0.5, np.inf]),
    "means": np.array([[0.1, 0.5, 0.5], [0.5, 0.1, 0.5]]),
}


def dp_exp3_lap(point, horizon=32768):
    return (
        learners.dp_exp3_lap(horizon, 3, epsilon=point["epsilon"]),
        environments.bernoulli(point["means"]),
    )


def run(store=None, seeds=SEEDS, points=POINTS, chunk=2, **options):
    """By default, a store of 60 blocks of one seed."""
    options = {"checkpoints": 4, "progress": False, **options}
    game, key = options.pop("game", dp_exp3_lap), options.pop("key", jr.key(0))
    return sweep(game, points, seeds, key, chunk=chunk, store=store, **options)


def tree(folder):
    """All files of a folder with their bytes."""
    files = (path for path in Path(folder).rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def finished(folder):
    """The objects of finished blocks in a store of single seeds, with their modification times."""
    done = Path(folder) / "done" / "c" / "0"
    if not done.exists():
        return {}
    seeds = [path.name for path in done.iterdir() if path.name.isdigit()]
    found = (path for path in Path(folder).glob("*/c/0/*") if path.name in seeds)
    files = [file for path in found for file in ([path] if path.is_file() else path.rglob("*"))]
    assert len(seeds) == 0 or len(files) >= 6 * len(seeds), "and checksum"
    return {file: file.stat().st_mtime_ns for file in files if file.is_file()}


def assert_same(one, other):
    """Two Results are equal bit for bit."""
    leaves = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    for a, b in leaves:
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def wait_for(folder, seeds, process):
    """Waits until this many blocks are done, or the process is."""
    done = folder / "done" / "c" / "0"
    while process.is_alive() and (not done.exists() or len(os.listdir(done)) < seeds):
        time.sleep(0.0005)


def writer(folder, cache):
    """A process that runs the sweep: forked from one with all imports, with its own JAX."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.stored"])
    process = context.Process(target=_write, args=(str(folder), str(cache)))
    process.start()
    return process


def _write(folder, cache):
    jax.config.update("jax_compilation_cache_dir", cache)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    run(folder)
