"""The sweep that the tests of stores run, also in processes of their own."""

import signal

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
    """By default a store of 60 blocks of one seed."""
    options = {"checkpoints": 4, "progress": False, **options}
    game, key = options.pop("game", dp_exp3_lap), options.pop("key", jr.key(0))
    return sweep(game, points, seeds, key, chunk=chunk, store=store, **options)


def main(store):
    # What a shell starts in the background inherits that it is to ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    print("ready", flush=True)
    run(store)
