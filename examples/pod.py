"""One sweep over all devices of all processes of a cluster, a TPU pod or one machine.

Each process runs this program:

    srun python examples/pod.py --distributed --store /scratch/me/exp3.zarr

Each computes its share of the blocks and writes it to the store. Start the same command again to
continue a killed run, with any number of processes and devices. Without ``--distributed`` one
process uses all devices of its machine.
"""

import argparse

import jax
import numpy as np

from dpjax import environments, learners, sweep


def game(epsilon):
    """DP-EXP3-Lap on four arms; epsilon is its only traced argument."""
    learner = learners.dp_exp3_lap(HORIZON, 4, epsilon=epsilon)
    return learner, environments.bernoulli([0.45, 0.5, 0.5, 0.5])


HORIZON = 2**14
EPSILONS = np.array([0.1, 1.0, 10.0, 100.0, np.inf], np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", required=True, help="a folder that all processes see, or a URL")
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument(
        "--distributed", action="store_true", help="if SLURM, Open MPI, Kubernetes or a TPU pod "
        "started several of these processes; jax finds the others by itself",
    )  # fmt: skip
    parser.add_argument("--devices", type=int, help="number of CPU cores of this process")
    options = parser.parse_args()
    if options.devices:
        jax.config.update("jax_num_cpu_devices", options.devices)
    if options.distributed:
        jax.distributed.initialize()

    mesh = jax.make_mesh((jax.device_count(),), ("devices",))
    key = jax.random.key(0)
    sweep(game, EPSILONS, options.seeds, key, mesh=mesh, store=options.store)
    if jax.process_index() == 0:
        print(f"{len(EPSILONS)} points x {options.seeds} seeds on {mesh.size} devices")


if __name__ == "__main__":
    main()
