"""Audits of a learner that is a Python class, from its actions only."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import random as jr

from dpjax.audit._anytime import Anytime, anytime
from dpjax.audit._pairs import Pair
from dpjax.core import Array, _arrays, _check


def black_box(
    make: Callable[[int], Any],
    pair: Pair,
    key: Array,
    *,
    epsilon: float,
    delta: float = 0.0,
    training: int = 2**10,
    **limits: Any,
) -> Anytime:
    """Play a Python class on two neighbouring sequences until a declared epsilon is refuted.

    The class has the methods ``select()`` and ``update(arm, loss)``, as in
    :func:`dpjax.from_python`. A new object plays each run. The score of a run is a sum over rounds.
    For each round it adds ln(f / f'). Here f and f' are the shares of training runs on the two
    sequences that played the same arm in this round. The test is :func:`anytime`. It sees only the
    arms, and it misses rare events.

    Args:
      make: seed of a run, an integer below 2^32 -> an object. If the seed is ignored, runs must be
        independent in another way.
      pair: two sequences of losses, (T, K), which differ in one round.
      key: PRNG key.
      epsilon, delta: as declared.
      training: how many runs of each sequence train the score.
      **limits: confidence, first and limit, as in :func:`anytime`.

    Returns:
      An Anytime. If the declaration is true, it is refuted with probability at most
      1 - confidence.

    Raises:
      ValueError: a number is out of range, or the pair has another shape.

    Examples:
      >>> class Coin:  # plays arm 1 if a loss with Laplace noise is above 1
      ...     def __init__(self, scale, seed):
      ...         self.noise, self.arm = np.random.default_rng(seed).laplace(scale=scale), 0
      ...     def select(self):
      ...         return self.arm
      ...     def update(self, arm, loss):
      ...         self.arm = int(loss + self.noise > 1.0)
      >>> pair = audit.Pair(np.ones((2, 2)), np.array([[0.0, 1.0], [1.0, 1.0]]))
      >>> half = audit.black_box(lambda seed: Coin(0.5, seed), pair, jax.random.key(0), epsilon=1.0)
      >>> half.refuted
      True
    """
    _check.function("a function of a seed, or a class", make=make)
    training = _check.size(1, training=training)
    sequences = [_arrays.real("pair", losses, what="losses") for losses in pair]
    shape = sequences[0].shape
    if len(shape) != 2 or sequences[1].shape != shape:
        shapes = " and ".join(str(sequence.shape) for sequence in sequences)
        raise ValueError(f"pair must have two sequences of shape (T, K), got {shapes}")

    def played(side, keys):
        """The arms of a run for each key, (n, T)."""
        seeds = np.asarray(_bits(keys)).tolist()
        return np.array([_run(make(seed), sequences[side]) for seed in seeds])

    train, test = jr.split(key)
    ratios = np.zeros(shape)  # (T, K)
    for side, sign in ((0, 1.0), (1, -1.0)):
        arms = played(side, jr.split(jr.fold_in(train, side), training))
        counts = (arms[:, :, None] == np.arange(shape[1])).sum(axis=0)
        ratios += sign * np.log((counts + 0.5) / (training + 0.5 * shape[1]))

    def scores(side, keys):
        return ratios[np.arange(shape[0]), played(side, keys)].sum(axis=1)

    return anytime(scores, test, epsilon=epsilon, delta=delta, **limits)


_bits = jax.jit(jax.vmap(jr.bits))


def _run(player, losses) -> list[int]:
    """The arms that an object plays, one for each round."""
    arms: list[int] = []
    for round_losses in losses:
        selected, name = player.select(), type(player).__name__
        arm = _check.selected(selected, len(round_losses), name, len(arms) + 1)
        player.update(arm, float(round_losses[arm]))
        arms.append(arm)
    return arms
