"""How long the first sweep of a learner takes to compile, each in a process of its own.

    python benchmarks/compilation.py                # all learners, a table in Markdown
    python benchmarks/compilation.py exp3 dp_tt

CPU seconds are those of the whole call of ``sweep``, on the first standard environment of
``dpjax compare``, round by round: tracing, compiling, and playing 64 rounds with 8 seeds, which
takes milliseconds. Importing dpjax is not counted. Nothing is read from a cache. Equations are
those of the traced program.
"""

import argparse
import subprocess
import sys
import time

import jax
import numpy as np

from dpjax import domains, learners, sweep
from dpjax.engine.evaluate import equations
from dpjax.learners import factories
from dpjax.study import competitors, standard
from dpjax.study.simulate import simulate

HORIZON, SEEDS = 64, 8


def entrant_of(name):
    """A learner of standard sizes, on the first of two domains that it takes, and its actions."""
    reasons = []
    for domain in (domains.ball(standard.DIM), domains.capped_simplex(standard.DIM, 2)):
        given = standard.sizes(HORIZON) | {"domain": domain}
        entrant = competitors.entrant(getattr(learners, name), HORIZON, given)
        try:
            return entrant, entrant.build(HORIZON).action_set
        except ValueError as reason:
            reasons.append(reason)
    raise reasons[-1]


def measure(name) -> str:
    """A row of the table: the learner, its equations and CPU seconds."""
    entrant, actions = entrant_of(name)
    (first, *_) = standard.standard(actions, by_batches=False)

    def game(epsilon):
        return entrant.build(HORIZON, epsilon), first.environment

    key = jax.random.key(0)
    before = time.process_time()
    sweep(game, np.ones(1), SEEDS, key, checkpoints=1, progress=False)
    seconds = time.process_time() - before

    def cell(epsilon, key):
        return simulate(*game(epsilon), key, checkpoints=1)

    program = jax.make_jaxpr(cell)(np.float32(1.0), key)
    count = sum(1 for _ in equations(program.jaxpr))
    return f"| `{name}` | {count} | {seconds:.2f} |"


def main():
    """Prints the table, a learner at a time."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("learners", nargs="*", metavar="LEARNER", help="default: all")
    parser.add_argument("--here", action="store_true", help="one learner, in this process")
    arguments = parser.parse_args()
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
