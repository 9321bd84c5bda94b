"""The adversary that separates adaptive from oblivious losses: a played expert becomes useless."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import random as jr

from dpjax.core import Arms, Array, Environment, Number, Outcome, _check
from dpjax.environments.arms import best_fixed_arm


class ConsensusState(NamedTuple):
    signs: Array  # (p,) bool, c
    used: Array  # (p,) bool, whether an expert of the pair was played


def default_pairs(horizon: int) -> int:
    """p = ceil(T / 0.9), so that a tenth of the pairs remains after T rounds."""
    return -(-10 * horizon // 9)


def consensus(horizon: int, pairs: int | None = None, *, flip: Number = 0.0) -> Environment:
    """Experts in pairs with opposite losses; after one is played, both have loss 1.

    Nature draws signs c in {0, 1}^p. Each round has a new user's row X, in which X_j is 1 - c_j
    with probability ``flip`` and c_j otherwise. The losses of pair j are

        X_j for expert 2j and 1 - X_j for expert 2j + 1;    1 for both after either was played.

    So in each round a learner needs a pair that was never played, and its sign. With ``flip`` 0,
    one row reveals all signs. A private learner learns them only as fast as its noise allows, and a
    learner that seldom changes its expert has loss 1 in nearly every round.

    Args:
      horizon: T, rounds.
      pairs: p; default ceil(T / 0.9). It must exceed T for an expert without loss to remain.
      flip: in [0, 1/2]; may be traced.

    Returns:
      An Environment of T rounds over 2p arms, whose losses depend on past arms. Its regret is on
      the realised losses; it is not policy regret.

    Reference: Asi, Feldman, Koren & Talwar, "Private online prediction from experts: separations
    and faster rates", 2023. With ``flip`` 0 it is the game of Theorem 10: against it, pure
    epsilon-DP with epsilon <= 1/10 and 2p >= 2T has regret of order T. Theorem 9, for given delta,
    draws the rows from a fingerprinting code. ``flip`` above 0 replaces it and is ours.

    Examples:
      >>> environment, key = environments.consensus(8, pairs=1), jax.random.key(0)
      >>> step = jax.jit(environment.step)
      >>> state, first = step(environment.init(key), key, 0)
      >>> state, second = step(state, key, 0)
      >>> float(first.loss.sum()), float(second.loss.sum())  # of both experts of the pair
      (1.0, 2.0)
    """
    horizon = _check.size(1, horizon=horizon)
    pairs = default_pairs(horizon) if pairs is None else _check.size(1, pairs=pairs)
    _check.between(0.0, 0.5, flip=flip)

    def init(key):
        return ConsensusState(jr.bernoulli(key, 0.5, (pairs,)), jnp.zeros(pairs, bool))

    def step(state, key, arm):
        flipped = jr.uniform(key, (pairs,)) < flip
        row = state.signs ^ flipped
        of_pairs = jnp.stack([row, ~row], axis=1) | state.used[:, None]
        loss = of_pairs.reshape(2 * pairs).astype(jnp.float32)
        used = state.used.at[arm // 2].set(True)
        return ConsensusState(state.signs, used), Outcome(loss, loss[arm] - loss)

    return Environment(init, step, best_fixed_arm, Arms(2 * pairs), horizon)
