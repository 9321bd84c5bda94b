"""Prefix sums without noise: what a non-private learner reads."""

import jax.numpy as jnp
import numpy as np

from dpjax.core import Mechanism
from dpjax.mechanisms.prefix import Factorization, check, constant, from_noise, prefix_matrix


def exact(horizon, shape, *, scale=0.0, noise="laplace") -> Mechanism:
    """Prefix sums as they are; nothing is declared.

    Args:
      horizon: T, rounds of the learner that it serves.
      shape: of a value.
      scale: not used; a place where a scale is expected takes this mechanism too.
      noise: not used.

    Returns:
      A Mechanism. Its sensitivity is infinite: no scale of a noise that is not there hides a
      value. B is A itself, and z is 0.
    """
    horizon, shape = check(horizon, shape, scale, noise)
    zero = jnp.zeros(shape, jnp.float32)
    return from_noise(
        init=lambda key: ((), zero),
        step=lambda state, key: ((), zero),
        path=lambda key: jnp.zeros((horizon, *shape), jnp.float32),
        horizon=horizon,
        shape=shape,
        scale=0.0,
        law=noise,
        factorization=Factorization(
            sensitivity=(float("inf"), float("inf")),
            variance=constant(0.0),
            matrices=lambda: (prefix_matrix(horizon), np.eye(horizon - 1)),
        ),
    )
