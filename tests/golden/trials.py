"""Compare 32 trials of the golden games in two versions of JAX or on two processors.

    python -m tests.golden.trials FILE exp3 ...     # default: every learner

The first run writes the actions into FILE, which ends in .npz. A later run elsewhere prints the
number of trials with other actions. Points differ if they are more than 1e-5 apart.
"""

import sys
from functools import partial
from pathlib import Path

import jax
import numpy as np
from jax import random as jr

from dpjax import learners, trajectory
from tests.golden import make

TRIALS = 32


def actions(names):
    """{learner and environment: the actions of each trial}."""
    keys, played = jr.split(jr.key(make.SEED), TRIALS), {}
    for name in names:
        learner = make.build(name)
        for nature, environment in make.natures(name).items():
            play = partial(trajectory, learner, environment, record=make.action_and_loss)
            played[f"{name} {nature}"] = np.asarray(jax.jit(jax.vmap(play))(keys)[0])
    return played


def different(one, other):
    """The number of trials in which two arrays of actions (trials, ...) differ."""
    return int((np.abs(one - other) > 1e-5).reshape(len(one), -1).any(axis=1).sum())


if __name__ == "__main__":
    path = Path(sys.argv[1])
    found = actions(sys.argv[2:] or learners.__all__)
    if path.exists():
        with np.load(path) as kept:
            for game, played in found.items():
                print(f"{different(kept[game], played):2d} of {TRIALS} trials differ: {game}")
    else:
        np.savez(path, **found)
