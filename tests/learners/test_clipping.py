"""Losses outside [0, 1] act as the nearest loss in [0, 1], and are counted."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpjax import learners
from tests.play import told

# Learners with bandit feedback, and the arguments that their factories need.
PLAIN = {"epsilon": np.inf}
LEARNERS = {
    "adap_ucb": PLAIN, "batched_bandit": {"epsilon": np.inf, "tau": 2}, "dp_ts_ucb": {},
    "dp_ucb": PLAIN, "dp_ucb_bound": PLAIN, "dp_ucb_int": PLAIN, "exp2": PLAIN,
    "exp3": {"mixing": 0.3}, "exp3_minibatch": {"tau": 2}, "gaussian_thompson": {}, "kl_ucb": {},
    "lazy_thompson": PLAIN, "lazy_ucb": PLAIN, "thompson": {}, "tsallis_inf": {}, "ucb1": {},
}  # fmt: skip


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
