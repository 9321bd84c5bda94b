"""Stochastic arms whose means change at given rounds."""

import itertools

import jax.numpy as jnp

from dpjax.core import Arms, Environment, Numbers, Outcome, _check
from dpjax.environments.arms import BernoulliLosses, pseudo_regret


def piecewise(means: Numbers, ends: Numbers) -> Environment:
    """Piecewise-stationary arms: independent losses, whose means are constant in each segment.

    In segment s the loss of arm i is Bernoulli(means[s, i]).

    Args:
      means: (S, K) mean losses in [0, 1], K at least 2; may be traced.
      ends: (S,) the last round of each segment, increasing integers of at least 1. The last of them
        is the horizon.

    Returns:
      An Environment of ends[-1] rounds. Regret is pseudo-regret against the best arm of each
      segment, the sum of the gaps means[s, a] - min(means[s]) of the arms played. For regret on the
      drawn losses against few shifts see :func:`dpjax.combinators.tracking`.

    Reference: Garivier & Moulines, "On upper-confidence bound policies for switching bandit
    problems", 2011.

    Examples:
      >>> environment = environments.piecewise([[0.25, 0.75], [0.75, 0.25]], ends=[1, 2])
      >>> state, first = environment.step(environment.init(None), jax.random.key(0), 0)
      >>> state, second = environment.step(state, jax.random.key(1), 0)
      >>> environment.horizon, float(first.tally), float(second.tally)  # the best arm, then a gap
      (2, 0.0, 0.5)
    """
    _check.entries(0.0, 1.0, means=means)
    means = jnp.asarray(means, jnp.float32)
    if means.ndim != 2 or means.shape[0] < 1 or means.shape[1] < 2:
        raise ValueError(f"means must have shape (S, K) with K at least 2, got {means.shape}")
    last = [_check.size(1, ends=end) for end in ends]
    if len(last) != len(means) or any(a >= b for a, b in itertools.pairwise(last)):
        raise ValueError(
            f"ends must be {len(means)} increasing rounds, one for each segment, got {last}"
        )
    before = jnp.asarray(last[:-1], jnp.int32)

    def step(t, key, arm):
        # At most the last segment, since there is one end less to pass.
        now = means[jnp.sum(t > before, dtype=jnp.int32)]
        return t + 1, Outcome(BernoulliLosses(key, now), now[arm] - jnp.min(now))

    def init(key):
        return jnp.ones((), jnp.int32)

    return Environment(init, step, pseudo_regret, Arms(means.shape[1]), horizon=last[-1])
