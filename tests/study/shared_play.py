"""Play a study on one of two processes, for tests that run this program as a process.

``python -m tests.study.shared_play STORE --process I --port P`` plays this process's share.
"""

import argparse

import jax

ARMS = 3


def study():
    """Two learners; one takes no epsilon."""
    from dpjax import Study, environments, learners

    return Study(
        {"EXP3": learners.exp3, "DP-EXP3-Lap": learners.dp_exp3_lap},
        {"stochastic": lambda arms: environments.bernoulli([0.3] + [0.5] * (arms - 1))},
        {"epsilon": [0.5, 2.0, float("inf")], "horizon": 20, "arms": ARMS},
        trials=7,
        checkpoints=2,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("store")
    parser.add_argument("--process", type=int, required=True)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", 1)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    address = f"127.0.0.1:{options.port}"
    jax.distributed.initialize(address, 2, options.process, initialization_timeout=60)
    found = study().run(options.store, mesh=jax.make_mesh((2,), ("any",)), progress=False)
    print("shared" if found is None else "whole")


if __name__ == "__main__":
    main()
