"""The cost of a store: the time of sweeps with a store, divided by that without one.

    python benchmarks/store.py [FOLDER] [--quick]

Sweeps have 4 points x 4096 seeds in blocks of 4096 trajectories (the default chunk), 100
checkpoints, and games of several lengths. Each sweep with a store creates a new one in FOLDER (by
default the folder for temporary files), fills it, and reads everything back. Programs are compiled
beforehand. Sweeps with and without a store alternate. The table has the mean times over the
pairs. It also has the mean ratios with standard errors, for wall time and for CPU time. CPU time
depends less on other work on the machine. The column "s, all found" has the time of a sweep that
finds all of its results in the store.
"""

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import jax
import numpy as np

from dpjax import environments, learners, sweep

HORIZONS = (256, 1024, 4096, 16384)
PAIRS = 8
POINTS = np.array([0.1, 1.0, 10.0, np.inf])
SEEDS = 4096


def timed(game, store):
    """The wall time and the CPU time of a sweep, in seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    sweep(game, POINTS, SEEDS, jax.random.key(0), store=store, progress=False)
    return time.perf_counter() - wall, time.process_time() - cpu


def measure(horizon, folder, pairs):
    """Seconds (pair, without or with, wall or CPU); seconds to find all; bytes of the store."""

    def game(epsilon):
        learner = learners.dp_exp3_lap(horizon, 4, epsilon=epsilon)
        return learner, environments.bernoulli([0.3, 0.6, 0.6, 0.6])

    store = folder / "store"
    times = []
    for pair in range(-1, pairs):
        shutil.rmtree(store, ignore_errors=True)
        stores = (None, store) if pair % 2 else (store, None)
        both = {kept: timed(game, kept) for kept in stores}
        if pair >= 0:
            times.append([both[None], both[store]])
    found = timed(game, store)[0]
    size = sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
    return np.array(times), found, size


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", metavar="FOLDER", help="default: temporary files")
    parser.add_argument("--quick", action="store_true", help="the shortest games, in two pairs")
    options = parser.parse_args()
    horizons, pairs = (HORIZONS[:1], 2) if options.quick else (HORIZONS, PAIRS)
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    print("| T | s without | s with | ratio of wall time | ratio of CPU time | s, all found | MB |")
    print("|---|---|---|---|---|---|---|")
    try:
        for horizon in horizons:
            times, found, size = measure(horizon, folder, pairs)
            ratios = times[:, 1] / times[:, 0]
            error = ratios.std(axis=0, ddof=1) / pairs**0.5
            shown = [f"{r:.3f} +- {e:.3f}" for r, e in zip(ratios.mean(axis=0), error, strict=True)]
            without, kept = times[:, :, 0].mean(axis=0)
            print(
                f"| {horizon} | {without:.2f} | {kept:.2f} | {' | '.join(shown)} "
                f"| {found:.2f} | {size / 1e6:.1f} |",
                flush=True,
            )
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
