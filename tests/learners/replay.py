"""A learner with value feedback on given losses, and a mechanism with given releases."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from tests.play import play_table


def play(learner, losses, key):
    """Plays (T, d), observations (T,) and the last state, on loss vectors (T, d)."""
    return played(learner, losses, key)[:3]


def played(learner, losses, key):
    """As :func:`play`, with the number of clipped losses."""
    game = play_table(learner, losses, key)
    return game.actions[:-1], game.seen, game.last, game.clipped


class Recorded(NamedTuple):
    count: Any  # () int32, values so far
    values: Any  # (horizon, *shape), in order of arrival


def given_releases(releases, like, asked=None):
    """A factory of mechanisms that records its values and returns the given releases, (n, *shape).

    Its declared sensitivity is that of the factory ``like``; (horizon, scale) are added to
    ``asked``.
    """

    def factory(horizon, *, noise):
        inner = like(horizon, noise=noise)

        def stream(shape, *, scale):
            if asked is not None:
                asked.append((horizon, scale))

            def init(key):
                zero = jnp.zeros((), jnp.int32)
                return Recorded(zero, jnp.zeros((horizon, *shape), jnp.float32)), jnp.zeros(shape)

            def step(state, key, value):
                here = jnp.arange(horizon) == state.count
                here = here.reshape(-1, *[1] * len(shape))
                values = jnp.where(here, value[None], state.values)
                return Recorded(state.count + 1, values), releases[state.count]

            return inner.stream(shape, scale=scale)._replace(init=init, step=step)

        return inner._replace(stream=stream)

    return factory


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
