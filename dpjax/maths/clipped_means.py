"""Private means of heavy-tailed losses: the clipping level and the sample size."""

import jax.numpy as jnp
import numpy as np

from dpjax.core import Array, Number

# The largest clipping level.
LARGEST = 2.0**30
# The tried shares of the bias in the radius: these fractions of the way between its two limits.
_PARTS = np.square(np.arange(1, 17) / 16.0).astype(np.float32)


def clipped_mean(
    radius: Number,
    exponent: Number,
    moment: Number,
    order: Number,
    epsilon: Number,
    model: str = "central",
):
    """The clipping level B and the least number R of losses for a private mean within ``radius``.

    Let E|X|^p <= u and v = p - 1. With probability at least 1 - 3 e^-x, the error of the private
    mean of R losses clipped to [-B, B] is at most

        v^v / (1 + v)^(1 + v) u B^-v + sqrt(2 u B^(1 - v) x / R) + 2 B x / (3 R) + 2 B x / (R eps):

    the bias, Bernstein's bound (two terms) and the tail of Laplace noise of scale 2 B / eps on the
    sum. In the local model each loss has noise of this scale. The last term is then
    (2 B / eps) (2 sqrt(x / R) + x / R), and the probability is at least 1 - 4 e^-x.

    Args:
      radius: () above 0.
      exponent: x, ().
      moment: u, ().
      order: p, () in (1, 2].
      epsilon: ().
      model: "central" or "local".

    Returns:
      B and R, () float32. R is the least over a grid of B, not rounded up; inf if too large.
    """
    power = jnp.asarray(order, jnp.float32) - 1.0
    bias = jnp.exp(power * jnp.log(power) - (1.0 + power) * jnp.log1p(power))
    # The best share is (1-v)/(1+v) if the variance dominates, and 1/(1+v) if the noise does.
    share = (1.0 - power + power * _PARTS) / (1.0 + power)
    level = jnp.minimum(jnp.exp(jnp.log(bias * moment / (radius * share)) / power), LARGEST)
    left = radius - bias * moment * level**-power
    root = jnp.sqrt(2.0 * moment * level ** (1.0 - power) * exponent)
    linear = 2.0 * level * exponent / 3.0
    scale = 2.0 * level / epsilon
    linear = linear + scale * exponent
    if model == "local":
        root = root + 2.0 * scale * jnp.sqrt(exponent)
    # The root of root / sqrt(R) + linear / R = left.
    rounds = jnp.square((root + jnp.sqrt(root * root + 4.0 * linear * left)) / (2.0 * left))
    rounds = jnp.where(left > 0.0, rounds, jnp.inf)
    best = jnp.argmin(rounds)
    return level[best], rounds[best]


def epoch_plan(
    epoch: Array,
    active: Array,
    failure: Number,
    largest_gap: Number,
    moment: Number,
    order: Number,
    epsilon: Number,
    model: str,
):
    """B_e, R_e and the radius largest_gap 2^-e / 4 of epoch e = 1, 2, ..., for ``active`` arms."""
    squared = jnp.square(jnp.asarray(epoch, jnp.float32))
    exponent = jnp.log(8.0 * jnp.asarray(active, jnp.float32) * squared / failure)
    radius = 0.25 * largest_gap * jnp.exp2(-jnp.asarray(epoch, jnp.float32))
    level, rounds = clipped_mean(radius, exponent, moment, order, epsilon, model)
    return level, rounds, radius
