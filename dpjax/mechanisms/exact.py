"""Prefix sums without noise: what a non-private learner reads."""

import jax.numpy as jnp
import numpy as np

from dpjax import _check
from dpjax.core import Mechanism
from dpjax.mechanisms.prefix import PrefixNoise, check, constant, from_noise, prefix_matrix


def exact(horizon: int, *, noise: str = "laplace") -> Mechanism:
    """Prefix sums as they are; nothing is declared.

    Args:
      horizon: T, rounds of the learner that it serves.
      noise: not used; a place where a law is chosen takes this mechanism too.

    Returns:
      A Mechanism. Its sensitivity is infinite: no scale of a noise that is not there hides a
      value. B is A itself, and z is 0. Its streams need no scale, and use none.

    Raises:
      ValueError, TypeError: bad arguments, by name.
    """
    horizon = check(horizon, noise)

    def added(shape, scale):
        zero = jnp.zeros(shape, jnp.float32)
        return PrefixNoise(
            init=lambda key: ((), zero),
            step=lambda state, key: ((), zero),
            path=lambda key: jnp.zeros((horizon, *shape), jnp.float32),
        )

    mechanism = from_noise(
        horizon, noise, added,
        sensitivity=(float("inf"), float("inf")),
        variance=constant(0.0),
        matrices=lambda: (prefix_matrix(horizon), np.eye(horizon - 1)),
    )  # fmt: skip

    def stream(shape, *, scale=0.0):
        _check.non_negative(scale=scale)
        return mechanism.stream(shape, scale=0.0)

    return mechanism._replace(stream=stream)
