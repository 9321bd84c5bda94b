"""Play games on some devices of some processes, for tests that run this program as a process.

``python -m tests.engine.on_devices OUT --devices N [--process I --processes M --port P] NAME ...``
writes this process's blocks of each learner's sweep, one file per block.
"""

import argparse
from pathlib import Path

import jax
import numpy as np
from jax import random as jr

HORIZON, SEEDS = 65, 13


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--devices", type=int, required=True)
    parser.add_argument("--process", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--port", type=int)
    options = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", options.devices)
    if options.processes > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(
            f"127.0.0.1:{options.port}",
            options.processes,
            options.process,
            initialization_timeout=60,
        )
    mesh = jax.make_mesh((options.devices * options.processes,), ("any",))
    for name in options.names:
        write_blocks(name, mesh, options.out)
    from dpjax.engine.devices import wait_for_all

    wait_for_all("written")
    print(f"{len(list(options.out.glob('*.npz')))} files")


def write_blocks(name, mesh, out) -> None:
    """Writes the blocks that this process computes: OUT/NAME-POINT-SEED.npz, one entry per leaf."""
    from dpjax.engine.compute import compute
    from dpjax.engine.devices import share

    plan = plan_of(name, mesh)
    for block, cells in compute(plan, plan.blocks(share(mesh, plan.corners))):
        np.savez(out / f"{name}-{block.point}-{block.seeds[0]}.npz", *jax.tree.leaves(cells))


def plan_of(name, mesh=None):
    """The sweep over all of conformance's epsilons of one learner, on a table of losses."""
    from dpjax import simulate
    from dpjax.study.sweep import planned
    from tests.test_conformance import EPSILONS, make, on_table, table

    def game(epsilon):
        return make(name, HORIZON, epsilon=epsilon), on_table(name, table(HORIZON))

    return planned(game, EPSILONS, SEEDS, jr.key(1), simulate, 4, None, mesh)


if __name__ == "__main__":
    main()
