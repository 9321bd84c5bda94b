"""Stochastic arms whose means change at given rounds."""

import itertools
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from dpjax.core import Environment, Number, Numbers, _arrays, _check
from dpjax.environments._from_means import changing
from dpjax.environments.arms import Accounting


def piecewise(
    means: Numbers, ends: Sequence[Number], *, regret: Accounting = "pseudo"
) -> Environment:
    """Piecewise-stationary arms: independent losses with constant means in each segment.

    In segment s the loss of arm i is Bernoulli(means[s, i]).

    Args:
      means: (S, K) mean losses in [0, 1], K at least 2; may be traced.
      ends: (S,) the last round of each segment, increasing integers of at least 1. The last of them
        is the horizon. The others may be JAX arrays in increasing order, which may be traced and
        are rounded down.
      regret: "pseudo", against the best arm of each segment, the sum of the gaps
        means[s, a] - min(means[s]) of the arms played; or "realised", against the best fixed arm
        on the drawn losses. For realised regret against a sequence with few shifts see
        :func:`dpjax.combinators.tracking`.

    Returns:
      An Environment of ends[-1] rounds.

    Reference: Garivier & Moulines, "On upper-confidence bound policies for switching bandit
    problems", 2011.

    Examples:
      >>> environment = environments.piecewise([[0.25, 0.75], [0.75, 0.25]], ends=[1, 2])
      >>> state, first = environment.step(environment.init(None), jax.random.key(0), 0)
      >>> state, second = environment.step(state, jax.random.key(1), 0)
      >>> environment.horizon, float(first.tally), float(second.tally)  # the best arm, then a gap
      (2, 0.0, 0.5)
    """
    means = jnp.asarray(_arrays.entries(0.0, 1.0, means=means), jnp.float32)
    if means.ndim != 2 or means.shape[0] < 1 or means.shape[1] < 2:
        raise ValueError(f"means must have shape (S, K) with K at least 2, got {means.shape}")
    last = list(ends)
    known = [_check.size(1, ends=end) for end in last if not isinstance(end, jax.Array)]
    if len(last) != len(means) or any(a >= b for a, b in itertools.pairwise(known)):
        raise ValueError(
            f"ends must be {len(means)} increasing rounds, one for each segment, got {last}"
        )
    horizon = _check.size(1, ends=last[-1])
    before = jnp.stack([jnp.asarray(end).astype(jnp.int32) for end in [0, *last[:-1]]])[1:]

    def now(t):
        # At most the last segment, because the last end is left out.
        return means[jnp.sum(t > before, dtype=jnp.int32)]

    return changing(now, means.shape[1], horizon, regret)
