"""Stochastic arms whose means are a function of the round, such as seasonal or drifting ones."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpjax.core import Arms, Environment, Outcome, _arrays, _check
from dpjax.environments.arms import (
    Accounting,
    BernoulliLosses,
    best_fixed_arm,
    draw_losses,
    pseudo_regret,
)

# The user's function is checked at this many rounds. Without a horizon they are at most the second
# number.
_TRIED, _FAR = 2**12, 2**20


def from_means(
    means: Callable[[Any], Any], horizon: int | None = None, *, regret: Accounting = "pseudo"
) -> Environment:
    """Independent Bernoulli losses whose means are a function of the round.

    Args:
      means: a JAX function from the round t = 1, 2, ..., an int32, to the mean losses (K,) of that
        round, in [0, 1], K at least 2. Before the game it is checked at up to 4,096 rounds, unless
        it depends on traced numbers.
      horizon: the last round, if the function has one.
      regret: "pseudo", against the best arm of each round, the sum of the gaps of the arms played;
        or "realised", against the best fixed arm on the drawn losses.

    Returns:
      An Environment.

    Raises:
      ValueError: the means have another shape, or at a checked round are outside [0, 1] or NaN.

    Examples:
      A season of 1000 rounds, in which the arms take turns at being best.

      >>> def season(t):
      ...     return 0.5 + 0.4 * jnp.cos(2 * jnp.pi * (t / 1000 + jnp.array([0.0, 0.5])))
      >>> environment = environments.from_means(season)
      >>> state, outcome = environment.step(environment.init(None), jax.random.key(0), 0)
      >>> print(f"{outcome.tally:.2f}")  # arm 0 begins with the mean loss 0.9, arm 1 with 0.1
      0.80
    """
    _check.function("a function of the round", means=means)
    horizon = None if horizon is None else _check.size(1, horizon=horizon)
    rounds = np.unique(np.linspace(1, horizon or _FAR, _TRIED).astype(np.int32))
    with jax.ensure_compile_time_eval():
        tried = jnp.asarray(jax.vmap(means)(jnp.asarray(rounds)))
    if tried.ndim != 2 or tried.shape[1] < 2:
        raise ValueError(
            f"means must return the shape (K,) with K at least 2, got {tried.shape[1:]}"
        )
    if isinstance(tried, jax.core.Tracer):  # depends on traced numbers
        return changing(means, tried.shape[1], horizon, regret)
    values = np.asarray(tried)
    bad = np.argwhere(~((values >= 0.0) & (values <= 1.0)))
    if len(bad):
        at, arm = bad[0]
        shown = _arrays.digits(values[at, arm], 0.0, 1.0)
        raise ValueError(
            f"means must be in [0, 1], got {shown} for arm {arm} in round {rounds[at]}"
        )
    return changing(means, tried.shape[1], horizon, regret)


def changing(means, arms, horizon, regret) -> Environment:
    """Bernoulli losses with means (K,) at round t; arguments as in :func:`from_means`."""
    _check.one_of("pseudo", "realised", regret=regret)
    pseudo = regret == "pseudo"

    def step(t, key, arm):
        now = jnp.asarray(means(t), jnp.float32)
        if pseudo:
            return t + 1, Outcome(BernoulliLosses(key, now), now[arm] - jnp.min(now))
        loss = draw_losses(key, now)
        return t + 1, Outcome(loss, loss[arm] - loss)

    def init(key):
        return jnp.ones((), jnp.int32)

    return Environment(init, step, pseudo_regret if pseudo else best_fixed_arm, Arms(arms), horizon)
