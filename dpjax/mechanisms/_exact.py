"""Prefix sums without noise, for learners that are not private."""

import jax.numpy as jnp
import numpy as np

from dpjax.core import Mechanism, _check
from dpjax.mechanisms import prefix
from dpjax.noise import LawName


def exact(horizon: int, *, noise: LawName = "laplace") -> Mechanism:
    """Prefix sums without noise, which declare no privacy.

    Args:
      horizon: T, rounds of the learner.
      noise: not used; accepted so that this mechanism can replace any other.

    Returns:
      A Mechanism. Its sensitivity is infinite, since no scale makes it private. B is A itself, and
      z is 0. Its streams need no scale and ignore it.

    Raises:
      ValueError, TypeError: an argument is invalid.

    Examples:
      >>> mechanism = mechanisms.exact(4)
      >>> mechanism.sensitivity, mechanism.variance().tolist()
      ((inf, inf), [0.0, 0.0, 0.0, 0.0])
    """
    horizon, law = prefix.check(horizon, noise)

    def prefix_noise(shape, scale):
        zero = jnp.zeros(shape, jnp.float32)
        return prefix.PrefixNoise(lambda key: ((), zero), lambda state, key: ((), zero))

    mechanism = prefix.from_noise(
        horizon, law, prefix_noise,
        sensitivity=(float("inf"), float("inf")),
        variance=prefix.constant(0.0),
        matrices=lambda: (prefix.prefix_matrix(horizon), np.eye(horizon - 1)),
    )  # fmt: skip

    def stream(shape, *, scale=0.0):
        _check.non_negative(scale=scale)
        return mechanism.stream(shape, scale=0.0)

    return mechanism._replace(stream=stream)
