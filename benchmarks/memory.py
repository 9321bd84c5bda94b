"""Memory of a sweep by horizon: of its compiled program, and of a whole process.

``python benchmarks/memory.py [--quick]`` prints the tables of README.md. The first table has the
bytes per trajectory on the device (temporaries, arguments and results). They come from
``compiled.memory_analysis()`` for a sweep with 256 trajectories and 100 checkpoints. The second has
the peak resident memory of whole processes, as Linux counts it.
"""

import argparse
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import jax
import numpy as np

from dpjax import domains, environments, learners, mechanisms, simulate
from dpjax.engine import programs
from dpjax.study.sweep import planned, sweep

HORIZONS = [2**10, 2**14, 2**18, 2**22]
TRIALS = 256


def games(horizon):
    """Games by name: bandits, FTRL with each mechanism, and a user's table."""
    simplex = domains.simplex(10)

    def bandit(learner):
        return lambda epsilon: (
            learner(horizon, 4, epsilon=epsilon),
            environments.bernoulli([0.45, 0.5, 0.5, 0.5]),
        )

    def leader(mechanism):
        return lambda epsilon: (
            learners.ftrl(horizon, simplex, epsilon=epsilon, delta=1e-6, noise="gaussian",
                          mechanism=getattr(mechanisms, mechanism)),
            environments.linear_losses(simplex, "iid"),
        )  # fmt: skip

    def table(epsilon):
        losses = np.zeros((horizon, 4), np.float32)
        return learners.dp_exp3_lap(horizon, 4, epsilon=epsilon), environments.table(losses)

    def contextual(epsilon):
        learner = learners.linucb(horizon, 5, epsilon=epsilon, delta=1e-6)
        return learner, environments.gap_arms(5, gap=0.1)

    found = {f"`{name}`": bandit(getattr(learners, name)) for name in BANDITS}
    found["`linucb`"] = contextual
    found |= {f"`ftrl`, `{name}`": leader(name) for name in mechanisms.__all__ if name != "exact"}
    return {**found, "`dp_exp3_lap` on a `table`": table}


BANDITS = ["dp_exp3_lap", "successive_elimination", "dp_ucb", "dp_ucb_bound"]


def bytes_each(game) -> str:
    """The bytes of one trajectory; empty for a refused game, such as ``buffered`` beyond 2^20."""
    key = jax.random.key(0)
    try:
        plan = planned(game, np.ones(1, np.float32), TRIALS, key, simulate, 100, None, None)
    except ValueError:
        return ""
    return f"{programs.compiled(plan.traced, (1, TRIALS), None).bytes_needed / TRIALS:.0f}"


def one_process(name, horizon, trials) -> None:
    sweep(games(horizon)[name], np.ones(1, np.float32), trials, jax.random.key(0), progress=False)
    # ru_maxrss is not used, since a process inherits it from its parent.
    print(int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="measure only one short horizon")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, *numbers = options.one
        one_process(name, *map(int, numbers))
        return
    horizons = [2**6] if options.quick else HORIZONS
    titles = [f"T = 2^{horizon.bit_length() - 1}" for horizon in horizons]
    print(f"| game, bytes a trajectory | {' | '.join(titles)} |")
    print("|---" * (1 + len(horizons)) + "|")
    for name in games(horizons[0]):
        sizes = [bytes_each(games(horizon)[name]) for horizon in horizons]
        print(f"| {name} | {' | '.join(sizes)} |", flush=True)

    print(f"\n| process, peak MiB | {' | '.join(titles)} |")
    print("|---" * (1 + len(horizons)) + "|")
    for name, trials in [("`dp_exp3_lap`", 16), ("`ftrl`, `tree`", 16)]:
        run = partial(subprocess.run, check=True, stdout=subprocess.PIPE, text=True)
        peaks = [
            float(run([sys.executable, __file__, "--one", name, str(T), str(trials)]).stdout)
            for T in horizons
        ]
        print(f"| {name}, {trials} trials | {' | '.join(f'{x:.0f}' for x in peaks)} |", flush=True)


if __name__ == "__main__":
    main()
