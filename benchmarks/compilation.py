"""CPU time of compiling a learner's first sweep, or the sweeps of a grid, in a new process.

    python benchmarks/compilation.py                # all learners, a table in Markdown
    python benchmarks/compilation.py exp3 dp_tt
    python benchmarks/compilation.py --grid         # a grid over horizons and arms, twice

CPU seconds are those of one call of ``sweep`` on the first standard environment of
``dpjax compare``, without the import of dpjax. The call traces, compiles and plays 64 rounds one by
one with 8 seeds. Playing takes milliseconds. Nothing is read from a cache. Equations are those of
the traced program.

The grid has 4 horizons x 3 numbers of arms x 2 learners x 4 epsilons, with 100 trials. Two
processes play it, and the second reads the compiled programs that the first has stored on disk. CPU
seconds are given for ``Study.run`` and for the whole process.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

import jax
import numpy as np

from dpjax import Study, domains, environments, learners, sweep
from dpjax.engine import programs
from dpjax.engine.evaluate import equations
from dpjax.game.play import simulate
from dpjax.learners import entrants, factories
from dpjax.study import standard

HORIZON, SEEDS = 64, 8


def entrant_of(name):
    """A learner of standard size on the first domain that it accepts, and its action set."""
    reasons = []
    for domain in (domains.ball(entrants.DIM), domains.capped_simplex(entrants.DIM, 2)):
        given = entrants.sizes(HORIZON) | {"domain": domain}
        entrant = entrants.entrant(getattr(learners, name), HORIZON, given)
        try:
            return entrant, entrant.build(HORIZON).action_set
        except ValueError as reason:
            reasons.append(reason)
    raise reasons[-1]


def measure(name) -> str:
    """Returns a row of the table: the learner, its equations and CPU seconds."""
    entrant, actions = entrant_of(name)
    first = next(iter(standard.standard(actions, by_batches=False).values()))

    def game(epsilon):
        return entrant.build(HORIZON, epsilon), first

    key = jax.random.key(0)
    before = time.process_time()
    sweep(game, np.ones(1), SEEDS, key, checkpoints=1, progress=False)
    seconds = time.process_time() - before

    def cell(epsilon, key):
        return simulate(*game(epsilon), key, checkpoints=1)

    program = jax.make_jaxpr(cell)(np.float32(1.0), key)
    count = sum(1 for _ in equations(program.jaxpr))
    return f"| `{name}` | {count} | {seconds:.2f} |"


def measure_grid() -> str:
    """Returns a row of the grid's table."""
    compiled, compile_block = [], programs.compile_block

    def noted(*given):
        compiled.append(given)
        return compile_block(*given)

    programs.compile_block = noted
    study = Study(
        {"EXP3": learners.exp3, "DP-EXP3-Lap": learners.dp_exp3_lap},
        {"coins": lambda arms: environments.bernoulli([0.4] + [0.5] * (arms - 1))},
        {
            "horizon": [512, 1024, 2048, 4096],
            "arms": [2, 4, 8],
            "epsilon": [0.1, 1.0, 10.0, np.inf],
        },
    )
    before = time.process_time()
    study.run(progress=False)
    now = time.process_time()
    return f"| {len(study.programs)} | {len(compiled)} | {now - before:.1f} | {now:.1f} |"


def twice(command) -> None:
    """Runs the grid in two processes that share a new folder for compiled programs."""
    print("| programs | compiled | CPU seconds of the run | of the process |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            subprocess.run(command, check=True, env={**os.environ, "XDG_CACHE_HOME": folder})


def main():
    """Prints the table row by row."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("learners", nargs="*", metavar="LEARNER", help="default: all")
    parser.add_argument("--grid", action="store_true", help="a grid over horizons and arms")
    parser.add_argument("--here", action="store_true", help="measure one row, in this process")
    arguments = parser.parse_args()
    if arguments.grid:
        if arguments.here:
            print(measure_grid())
        else:
            twice([sys.executable, __file__, "--grid", "--here"])
        return
    names = arguments.learners or learners.__all__
    for name in names:
        factories.check_name(name)
    if arguments.here:
        print(measure(*names))
        return
    print("| learner | equations | CPU seconds |\n|---|---|---|")
    rows = []
    for name in names:
        command = [sys.executable, __file__, "--here", name]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        rows.append((float(done.stdout.split("|")[-2]), done.stdout.strip()))
    for _, row in sorted(rows, reverse=True):
        print(row)


if __name__ == "__main__":
    main()
