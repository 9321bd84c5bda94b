"""Rounds x trials per second on one accelerator, by trials, beside two lower bounds on the time.

    python benchmarks/gpu.py                                  # W1, W4, and W5 on given losses
    python benchmarks/gpu.py W1 --trials 1024 65536 1048576 --horizon 16384 --points 8

Each row plays a number of trials at once through ``sweep``, and shows:

- the launch floor: microseconds per iteration of an empty loop as long as the game;
- the memory floor: microseconds to read and write the state of all trials once, at the bandwidth of
  a large copy. A program that keeps the state in registers, or writes only changed entries, can be
  faster;
- the layout in which the game is compiled (docs/accelerators.md);
- microseconds per round, and their ratio to the larger floor. The time of a call with two rounds is
  shown separately: it is the overhead of starting and ending a game, and of the host.

The last row of a workload is a grid of points in one compiled program.

On a CPU the sizes are small and only show that the benchmark runs. The floors mean little there,
since the same cores also run other programs.
"""

import argparse
import contextlib
import json
import logging
import sys

import jax
import jax.numpy as jnp
import numpy as np
import workloads
from jax import lax
from jax import random as jr
from measure import compiled_programs, seconds, temporary_bytes

from dpjax import sweep
from dpjax.combinators import as_learner
from dpjax.engine.compile import platform_of

ON_CPU = {"trials": [256, 2048], "horizon": 256, "points": 2, "copy": 2**25}
ON_ACCELERATOR = {
    "trials": [2**10, 2**13, 2**16, 2**18, 2**20, 2**22],
    "horizon": 2**12,
    "points": 8,
    "copy": 2**31,
}
GRIDS = {"W1": "W1-8", "W4": None, "W5": "W5", "W5-given": "W5-given"}
COLUMNS = (
    "workload", "layout", "trials", "points", "T", "rounds x trials / s", "us a round",
    "launch floor", "memory floor", "times the floor", "ms a call", "compile s", "programs", "MiB",
)  # fmt: skip


def least_seconds(function, *arguments, repeats=3):
    """Seconds of the fastest of ``repeats`` calls, after one call that compiles."""
    jax.block_until_ready(function(*arguments))
    return min(
        seconds(lambda: jax.block_until_ready(function(*arguments)))[0] for _ in range(repeats)
    )


def launch_floor(horizon) -> float:
    """Seconds per iteration of an empty loop whose length is unknown to the compiler."""

    @jax.jit
    def loop(length, x):
        return lax.fori_loop(0, length, lambda t, x: x * 0.5 + t.astype(jnp.float32), x)

    return least_seconds(loop, jnp.int32(horizon), jnp.zeros(32, jnp.float32)) / horizon


def bandwidth(size) -> float:
    """Bytes read and written per second when 1 is added to an array of ``size`` bytes."""
    array = jnp.zeros(size // 4, jnp.float32)
    return 2 * array.nbytes / least_seconds(jax.jit(lambda x: x + 1.0), array)


def state_bytes(game, point) -> int:
    """Bytes that one trial carries from round to round: states, action and tally."""

    def start(point, key):
        learner, environment = game(point)
        learner_state, action = as_learner(learner).init(key)
        state = environment.init(key)
        tally = environment.step(state, key, action)[1].tally
        return learner_state, action, state, tally

    shapes = jax.eval_shape(start, point, jr.key(0))
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))


def _told(record):
    print(record.getMessage(), file=sys.stderr)
    return record


@contextlib.contextmanager
def refused_layouts():
    """A list with an entry for each layout that fails to compile; prints the reasons."""
    found, log = [], logging.getLogger("dpjax.engine.compile")
    handler = logging.Handler()
    handler.emit = lambda record: found.append(_told(record))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield found
    log.removeHandler(handler)


def row(name, trials, points, horizon, floors):
    """Measures one size, with ``trials`` for each point."""

    def play(length, seed):
        return sweep(
            workloads.game_of(name, length), points, trials, jr.key(seed), checkpoints=1,
            progress=False, chunk=trials * len(points),
        )  # fmt: skip

    with compiled_programs() as programs, refused_layouts() as refused:
        first, _ = seconds(play, horizon, 0)
    times = [seconds(play, horizon, seed)[0] for seed in (1, 2, 3)]
    play(2, 0)
    fixed = min(seconds(play, 2, seed)[0] for seed in (1, 2, 3))
    cells, best = trials * len(points), min(times)
    a_round = max(best - fixed, 0.0) / (horizon - 2)
    game = workloads.game_of(name, horizon)
    launch, bytes_a_second = floors
    memory = 2 * state_bytes(game, points[0]) * cells / bytes_a_second
    return {
        "workload": name,
        "layout": [getattr(each, "func", each).__name__ for each in platform_of(None).layouts][
            len(refused)
        ],
        "trials": trials,
        "points": len(points),
        "T": horizon,
        "rounds x trials / s": f"{horizon * cells / best:.3g}",
        "us a round": f"{a_round * 1e6:.3g}",
        "launch floor": f"{launch * 1e6:.3g}",
        "memory floor": f"{memory * 1e6:.3g}",
        "times the floor": f"{a_round / max(launch, memory):.3g}",
        "ms a call": f"{fixed * 1e3:.3g}",
        "compile s": f"{first - np.median(times):.1f}",
        "programs": len(programs),
        "MiB": f"{max(map(temporary_bytes, programs)) / 2**20:.3g}",
    }


def main():
    """Prints a table in Markdown, row by row."""
    defaults = ON_CPU if jax.default_backend() == "cpu" else ON_ACCELERATOR
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=", ".join(GRIDS))
    parser.add_argument("--trials", type=int, nargs="+", default=defaults["trials"])
    parser.add_argument("--horizon", type=int, default=defaults["horizon"])
    parser.add_argument("--points", type=int, default=defaults["points"], help="points of the grid")
    parser.add_argument("--json", metavar="FILE", help="also write the rows to FILE")
    arguments = parser.parse_args()
    unknown = set(arguments.workloads) - set(GRIDS)
    if unknown:
        parser.error(f"no workload {', '.join(sorted(unknown))}; choose from {', '.join(GRIDS)}")
    floors = launch_floor(arguments.horizon), bandwidth(defaults["copy"])
    device = jax.devices()[0]
    print(f"{device.device_kind} ({device.platform}), jax {jax.__version__}; "
          f"{floors[1] / 1e9:.0f} GB/s in a copy\n")  # fmt: skip
    if device.platform == "cpu":
        print("No accelerator: small sizes only, to check that the benchmark runs.\n")
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    rows = []
    for name in arguments.workloads or ("W1", "W4", "W5-given"):
        sizes = [(name, trials, np.ones(1)) for trials in arguments.trials]
        if GRIDS[name]:
            grid = np.geomspace(0.03, 0.5, arguments.points)
            share = max(arguments.trials[-1] // arguments.points, 1)
            sizes.append((GRIDS[name], share, grid))
        for size in sizes:
            rows.append(row(*size, arguments.horizon, floors))
            print(f"| {' | '.join(str(rows[-1][column]) for column in COLUMNS)} |", flush=True)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"device": device.device_kind, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
