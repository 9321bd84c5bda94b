"""DP-EXP3-Lap: EXP3 on Laplace noise, its rejections, and its threshold."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr

from dpjax.combinators import laplace_feedback
from dpjax.learners import dp_exp3_lap, exp3
from tests.play import play_table

ARMS = 3


def losses(horizon):
    return jr.uniform(jr.key(11), (horizon, ARMS))


def test_it_is_laplace_feedback_over_exp3():
    """States and arms, bit for bit, with threshold ln T / epsilon and the null loss of gains."""
    # Calibrated for 8 rounds but played for 200, so that rounds are rejected.
    threshold = jnp.log(jnp.float32(8)) / 3.0
    composed = laplace_feedback(exp3(8, ARMS), epsilon=3.0, threshold=threshold, null_loss=1.0)
    ours, theirs = (
        play_table(learner, losses(200), jr.key(0))
        for learner in (dp_exp3_lap(8, ARMS, epsilon=3.0), composed)
    )
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)
    assert ours.last.rejected > 0
