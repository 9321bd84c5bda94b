"""Stochastic environments: independent Gaussian losses, which are unbounded."""

import jax.numpy as jnp

from dpjax.core import Environment, Number, Numbers, _check
from dpjax.environments.arms import as_means, independent
from dpjax.maths import laws


def gaussian(means: Numbers, *, deviation: Number) -> Environment:
    """I.i.d. losses, loss of arm i ~ N(means[i], deviation^2), arms independent of each other.

    No calibration covers unbounded losses, so wrap the learner in
    :func:`dpjax.combinators.rescale_losses`, which first clips losses to a stated range. Clipping
    shifts the means that a learner sees; the wider the range, the smaller the shift. Regret is
    pseudo-regret: it sums the gaps of ``means`` before clipping.

    Args:
      means: (K,) mean losses, finite, K at least 2; may be traced.
      deviation: standard deviation, at least 0; may be traced.

    Returns:
      An Environment. It cannot be played by batches, because a sum of clipped Gaussian losses has
      no simple law.

    Examples:
      >>> environment = environments.gaussian([0.0, 3.0], deviation=1.0)
      >>> state, outcome = environment.step((), jax.random.key(0), 1)
      >>> float(outcome.tally)  # a gap, of the means before clipping
      3.0
    """
    means = as_means(means, -1e30, 1e30)
    _check.non_negative(deviation=deviation)
    spread = jnp.asarray(deviation, jnp.float32)
    return independent(means, lambda key: means + spread * laws.normal(key, means.shape))
