"""Bandits with expert advice, which changes every round."""

import jax.numpy as jnp
import numpy as np
from jax import random as jr

from dpjax.core import Environment, Numbers, Outcome, Policies, _arrays, _check
from dpjax.environments.arms import best_fixed_arm, draw_losses


def advice(losses: Numbers, experts: Numbers, *, informative: Numbers | None = None) -> Environment:
    """A bandit with expert advice: before each round, experts show distributions over arms.

    The advice E (N, K) of a round has a row for each expert. If it is drawn, expert i has the row

        (1 - w_i) / K + w_i 1[a = a_i],    a_i = argmin_a (l_a + U_ia),

    where l are the losses of the round and U_ia are uniform on [0, 1). An expert with w_i = 0
    advises uniform play. With w_i = 1 and losses 0 or 1 it advises an arm of loss 0, if there is
    one. A learner sees the transpose (K, N) as the features of the arms.

    Args:
      losses: (T, K), K at least 2, a table that is played row by row; or (K,), the means of
        independent losses 0 or 1. Means may be traced.
      experts: N, at least 2; or the advice itself, (T, N, K), or (N, K) if it is the same in each
        round. Its rows have entries in [0, 1] that add up to 1.
      informative: w (N,), entries in [0, 1], if advice is drawn; may be traced. By default from 0
        to 1 in equal steps.

    Returns:
      An Environment for policies. Regret is against the expert with the smallest sum of <E_i, l>.

    Raises:
      ValueError: bad arguments, by name.

    Reference: Auer, Cesa-Bianchi, Freund & Schapire, "The nonstochastic multiarmed bandit
    problem", 2002, section 7, for the game; the distribution of the advice is ours.

    Examples:
      >>> environment = environments.advice([[0.0, 1.0]], np.array([[0.5, 0.5], [0.25, 0.75]]))
      >>> state, outcome = environment.step(0, jax.random.key(0), lambda features: 1)
      >>> print(outcome.tally)  # the loss of arm 1, minus the mean loss of each expert
      [0.5  0.25]
    """
    losses = _arrays.entries(losses=losses)
    table = losses.ndim == 2
    if losses.ndim not in (1, 2) or losses.shape[-1] < 2 or len(losses) < 1:
        raise ValueError(f"losses must have shape (T, K) or (K,), K at least 2, got {losses.shape}")
    if not table:
        losses = _arrays.entries(0.0, 1.0, losses=losses)
    arms, horizon = losses.shape[-1], len(losses) if table else None
    losses = jnp.asarray(losses, jnp.float32)
    drawn = not isinstance(experts, list | tuple) and np.ndim(experts) == 0
    rows = jnp.zeros(()) if drawn else jnp.asarray(_laws(experts, arms, horizon), jnp.float32)
    count = _check.size(2, experts=experts) if drawn else rows.shape[-2]
    if not drawn and informative is not None:
        raise ValueError("informative: leave it out, because the advice is given")
    weights = jnp.linspace(0.0, 1.0, count) if informative is None else jnp.asarray(
        _arrays.entries(0.0, 1.0, informative=informative), jnp.float32)  # fmt: skip
    if weights.shape != (count,):
        raise ValueError(f"informative must have shape ({count},), got {weights.shape}")

    def advise(t, key, loss):
        if not drawn:
            return rows[t] if rows.ndim == 3 else rows
        best = jnp.argmin(loss[None] + jr.uniform(key, (count, arms)), axis=1)
        advised = jnp.where(jnp.arange(arms)[None] == best[:, None], 1.0, 0.0)
        return (1.0 - weights[:, None]) / arms + weights[:, None] * advised

    def step(t, key, policy):
        loss_key, advice_key = jr.split(key)
        loss = losses[t] if table else draw_losses(loss_key, losses)
        shown = advise(t, advice_key, loss)
        tally = loss[policy(shown.T)] - jnp.sum(shown * loss[None], axis=1)
        return t + 1, Outcome((shown.T, loss), tally)

    return Environment(
        lambda key: jnp.zeros((), jnp.int32), step, best_fixed_arm, Policies(count, arms),
        horizon=horizon if table or rows.ndim < 3 else len(rows),
    )  # fmt: skip


def _laws(experts, arms, horizon) -> np.ndarray:
    """The given advice, after a check that its rows are distributions over the arms."""
    laws = _arrays.real("experts", experts)
    fits = laws.ndim in (2, 3) and laws.shape[-1] == arms and laws.shape[-2] >= 2
    if not fits or (laws.ndim == 3 and len(laws) != (horizon or len(laws))):
        raise ValueError(f"experts must be a number, or advice (T, N, {arms}) or (N, {arms}) with "
                         f"N at least 2, got shape {laws.shape}")  # fmt: skip
    if (laws < 0.0).any() or (np.abs(laws.sum(axis=-1) - 1.0) > 1e-4).any():
        raise ValueError("experts: each row of advice must have entries in [0, 1] that add up to 1")
    return laws
