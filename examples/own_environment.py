"""Your own environment, for ``dpjax theorem``: the best arm changes late.

    dpjax theorem exp3 --environment examples/own_environment.py

The file has one public function, which returns an Environment. Its arguments are sizes of the
theorem, such as ``horizon``.
"""

import jax.numpy as jnp

from dpjax import environments


def late(horizon):
    """Three arms. The last one becomes the best one after more than half of all rounds."""

    def means(t):
        return jnp.array([0.5, 0.6, 0.9 - 0.7 * t.astype(float) / horizon])

    return environments.from_means(means, horizon, regret="realised")
