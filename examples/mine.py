"""Your own learner, for ``dpjax compare examples/mine.py``: private epsilon-greedy.

A file for ``dpjax compare`` has one public function that requires the horizon. It returns a
Learner. This one keeps a noisy running sum of each arm's losses, and mostly plays the arm with the
smallest noisy mean.
"""

import jax
import jax.numpy as jnp

from dpjax import domains, mechanisms
from dpjax.core import Arms, Learner
from dpjax.feedback import bandit
from dpjax.learners.parts.prefix_sums import prefix_sums


def greedy(horizon, arms, *, epsilon):
    """Epsilon-greedy on private sums: round t plays a random arm with probability t^(-1/3).

    Each round adds the loss of the played arm to its sum, and 0 to all others. A binary tree
    releases the sums. Its noise is calibrated to epsilon for a change of one entry.
    """
    losses = domains.box_losses(arms, 0.0, 1.0)
    sums = prefix_sums(
        horizon, losses, epsilon=epsilon, delta=None, mechanism=mechanisms.tree, noise="laplace",
        unit="entry",
    )  # fmt: skip

    def choose(key, t, pulls, state, released):
        coin_key, arm_key = jax.random.split(key)
        explore = jax.random.uniform(coin_key) < t ** (-1 / 3)
        best = jnp.argmin(released / jnp.maximum(pulls, 1.0)).astype(jnp.int32)
        arm = jnp.where(explore, jax.random.randint(arm_key, (), 0, arms), best)
        return (t, pulls, state, arm), arm

    def init(key):
        sums_key, key = jax.random.split(key)
        return choose(key, jnp.float32(1.0), jnp.zeros(arms), *sums.init(sums_key))

    def step(state, key, loss):
        t, pulls, state, arm = state
        sums_key, key = jax.random.split(key)
        seen = jnp.zeros(arms).at[arm].set(loss)
        released = sums.step(state, sums_key, seen)
        return choose(key, t + 1.0, pulls.at[arm].add(1.0), *released)

    declared = sums.privacy._replace(unit="round")
    return Learner(init, step, bandit, Arms(arms), horizon, declared)
