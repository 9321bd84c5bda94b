"""A learner with value feedback on given losses, and a mechanism with given releases."""

import jax
import jax.numpy as jnp
from jax import lax

from tests.play import play_table


def play(learner, losses, key):
    """Plays (T, d), observations (T,) and the last state, on loss vectors (T, d)."""
    game = play_table(learner, losses, key)
    return game.actions[:-1], game.seen, game.last


def changed_rounds(losses, other):
    """(T, T, d): world i has the losses ``other`` in round i."""
    here = jnp.eye(losses.shape[0], dtype=bool)
    return jnp.where(here[:, :, None], other[None], losses[None])


def worlds(learner, losses, key):
    """``play`` on several sequences of losses (n, T, d) under one key, in NumPy.

    One after the other, since in a batch sums may be rounded in different orders.
    """
    run = jax.jit(lambda every: lax.map(lambda own: play(learner, own, key), every))
    return jax.device_get(run(losses))
