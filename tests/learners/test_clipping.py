"""Losses outside [0, 1] act as the nearest loss in [0, 1], and are counted."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpjax import learners
from tests.play import told

# Learners with bandit feedback, and the arguments that their factories need.
LEARNERS = {
    "dp_ts_ucb": {},
    "dp_ucb": {"epsilon": np.inf},
    "dp_ucb_bound": {"epsilon": np.inf},
    "dp_ucb_int": {"epsilon": np.inf},
    "exp3": {"mixing": 0.3},
    "gaussian_thompson": {},
    "kl_ucb": {},
    "lazy_thompson": {"epsilon": np.inf},
    "lazy_ucb": {"epsilon": np.inf},
    "thompson": {},
    "tsallis_inf": {},
    "ucb1": {},
}


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("name", LEARNERS)
def test_losses_outside_the_range_are_clipped_and_counted(name):
    """-3 and nan act as 0 and 7 as 1, in the state and in the actions."""
    learner = getattr(learners, name)(10, 2, **LEARNERS[name])
    wild, tame = [-3.0, 7.0, 0.5, 0.0, 1.0, np.nan], [0.0, 1.0, 0.5, 0.0, 1.0, 0.0]
    games = jax.jit(jax.vmap(lambda losses: told(learner, losses)))(jnp.array([wild, tame]))
    np.testing.assert_array_equal(*games.actions)
    for leaf in jax.tree.leaves(games.last):
        np.testing.assert_array_equal(*leaf)
    np.testing.assert_array_equal(games.clipped, [3, 0])
