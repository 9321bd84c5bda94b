"""Functions that environments over finitely many arms share."""

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax import random as jr

from dpjax.core import Arms, Array, Environment, Numbers, Outcome, PyTree, _arrays
from dpjax.core.generators import of

# How regret is accounted: on the drawn losses, or on their means.
Accounting = Literal["realised", "pseudo"]


def best_fixed_arm(state: PyTree, tally):
    """Regret against the best arm in hindsight, from the summed tally loss[a] - loss, (K,)."""
    return jnp.max(tally)


def pseudo_regret(state: PyTree, tally):
    """Regret as the sum of the gaps in the tally."""
    return tally


def independent(means: Array, draw: Callable) -> Environment:
    """Independent rounds with losses draw(key), (K,), with these means; regret sums the gaps."""

    def step(state, key, arm):
        return state, Outcome(draw(key), means[arm] - jnp.min(means))

    return Environment(lambda key: (), step, pseudo_regret, Arms(means.shape[0]))


def as_means(means: Numbers, low: float = 0.0, high: float = 1.0):
    """Means as a float32 array (K,); K must be at least 2 and all means in [low, high]."""
    means = jnp.asarray(_arrays.entries(low, high, means=means), jnp.float32)
    if means.ndim != 1 or means.shape[0] < 2:
        raise ValueError(f"means must have shape (K,) with K at least 2, got {means.shape}")
    return means


def draw_losses(key: Array, means: Array):
    """Independent losses, loss of arm i ~ Bernoulli(means[i]), (K,) float32."""
    return (jr.uniform(key, means.shape) < means).astype(jnp.float32)


class BernoulliLosses(NamedTuple):
    """The losses of :func:`draw_losses`, each drawn only if it is used.

    Bandit feedback uses one of K losses and so costs one draw.
    """

    key: Array
    means: Array  # (K,)

    def __call__(self, arm):
        """The loss of an arm, () float32."""
        level = uniform_at(self.key, arm, self.means.shape[0])
        return (level < self.means[arm]).astype(jnp.float32)

    def vector(self):
        """The losses of all arms, (K,) float32."""
        return draw_losses(self.key, self.means)


@partial(jax.jit, static_argnums=2)
def uniform_at(key: Array, index: Array, count: int):
    """``jr.uniform(key, (count,))[index]``, at the cost of one draw for threefry keys.

    Number i is drawn from the words of fold_in(key, i), as of JAX 0.5.
    """
    generator = of(key.dtype)
    if generator is None:
        return jr.uniform(key, (count,))[index]
    number = generator.number(jr.key_data(jr.fold_in(key, index)))
    # 23 bits are the fraction of a number in [1, 2).
    fraction = number >> np.uint32(9) | np.uint32(0x3F800000)
    return lax.bitcast_convert_type(fraction, jnp.float32) - 1.0
