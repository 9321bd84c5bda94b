"""Arms that do not exist: environments charge the cost of the nearest arm."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import environments

ARMS = 4
MEANS = (0.1, 0.9, 0.3, 0.6)
TABLE = np.random.default_rng(0).uniform(size=(3, ARMS)).astype(np.float32)
MAKE = {
    "bernoulli": lambda: environments.bernoulli(MEANS),
    "bernoulli, pseudo": lambda: environments.bernoulli(MEANS, regret="pseudo"),
    "gaussian": lambda: environments.gaussian(MEANS, deviation=1.0),
    "deterministic": lambda: environments.deterministic(ARMS),
    "fully_oblivious": lambda: environments.fully_oblivious(ARMS),
    "oblivious": lambda: environments.oblivious(ARMS),
    "table": lambda: environments.table(TABLE),
}


@pytest.mark.parametrize("name", MAKE)
def test_an_arm_out_of_range_is_charged_as_the_nearest_one(name):
    """As in NumPy, -1 is the last arm. A loss of 0 would make a non-existent arm the best one."""
    environment = MAKE[name]()
    state = environment.init(jr.key(0))

    def tally(arm):
        return environment.step(state, jr.key(1), arm)[1].tally

    played = jnp.array([ARMS, 70, 2**31 - 1, -1, -ARMS - 1, -(2**31)], jnp.int32)
    nearest = jnp.array([ARMS - 1] * 4 + [0] * 2, jnp.int32)
    np.testing.assert_array_equal(jax.vmap(tally)(played), jax.vmap(tally)(nearest))
