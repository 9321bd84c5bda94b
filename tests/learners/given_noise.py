"""Games on a table of losses with given Laplace noise: the released values and their rounds."""

from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr

from dpjax import noise
from dpjax.maths import exact_sums, laws
from tests.play import play_table


class Counted(NamedTuple):
    inner: Any  # the learner's own state
    steps: Any  # () int32, so far; each requests one release


def with_releases(learner, released):
    """The learner with ``released(i, value, scale)`` as its i-th noisy sum.

    For learners that release once per step, which is checked.
    """

    def init(key):
        state, first = learner.init(key)
        return Counted(state, jnp.zeros((), jnp.int32)), first

    def step(state, key, seen):
        scales = []

        def given_total(law, key, total, scale):
            del law, key
            scales.append(scale)
            return exact_sums.of(released(state.steps, exact_sums.to_float(total), scale))

        with mock.patch.object(noise.Law, "total", given_total):
            inner, following = learner.step(state.inner, key, seen)
        assert len(scales) == 1
        return Counted(inner, state.steps + 1), following

    return learner._replace(init=init, step=step, report=lambda state: ())


def normal_draws(key, rounds, arms):
    """The standard normal draws of the steps ``rounds`` (n,) of a game, (n, K) float64."""
    keys = jax.vmap(lambda t: jr.fold_in(key, t))(rounds)
    return np.asarray(jax.vmap(lambda key: laws.normal(key, (arms,)))(keys), np.float64)


def play(learner, losses, key):
    """Arms (T,), and the learner's state after each round, on a table (T, K)."""
    game = play_table(learner, losses, key)
    return game.actions[:-1], jax.tree.map(lambda leaf: leaf[1:], game.states)


class ByHand(NamedTuple):
    arms: Any  # (games, T)
    states: Any  # (games, T, ...), of the learner after each round
    pulls: Any  # (games, T, K), after each round
    sums: Any  # (games, T, K) float64, of the losses after each round


def games_of_indices(learner, losses, seed, index) -> ByHand:
    """Plays games, and checks that each arm plays once at first and then one of the smallest index.

    Args:
      learner: a Learner over arms.
      losses: (games, T, K).
      seed: for the learner's keys.
      index: (t, pulls (K,), sums of losses (K,)) before round t -> the index of each arm, (K,).
    """
    run = jax.jit(jax.vmap(lambda table, key: play(learner, table, key)))
    all_arms, states = jax.device_get(run(losses, jr.split(jr.key(seed), len(losses))))
    losses = np.asarray(losses, np.float64)
    count = losses.shape[2]
    played = all_arms[..., None] == np.arange(count)
    pulls = np.cumsum(played, axis=1)
    sums = np.cumsum(np.where(played, losses, 0.0), axis=1)
    for game, arms in enumerate(all_arms):
        assert set(arms[:count]) == set(range(count))
        for t in range(count + 1, len(arms) + 1):
            now = index(t, pulls[game, t - 2], sums[game, t - 2])
            # Float32 cannot decide it, so it counts as a tie.
            assert now[arms[t - 1]] <= now.min() + 1e-5 * (1 + np.abs(now).max())
    return ByHand(all_arms, states, pulls, sums)


def from_draws(draws):
    """Noise from these standard draws (n,), one per step."""
    return lambda i, value, scale: value + scale * draws[i]


def losses_of_games(seed, games, horizon, means):
    """Bernoulli losses (games, T, K)."""
    uniform = np.asarray(jr.uniform(jr.key(seed), (games, horizon, len(means))))
    return jnp.asarray(uniform < np.asarray(means), jnp.float32)


def laplace_draws(seed, games, count):
    """Standard Laplace draws (games, n)."""
    return jr.laplace(jr.key(seed), (games, count))


def many_games(make, seed, losses, draws):
    """``play`` on many tables, each with its own draws, as NumPy arrays."""

    def game(losses, draws, key):
        return play(with_releases(make(), from_draws(draws)), losses, key)

    keys = jr.split(jr.key(seed), losses.shape[0])
    return jax.device_get(jax.jit(jax.vmap(game))(losses, draws, keys))


def told_sums(learner, totals):
    """The state after one step per total, and the batches (arm, rounds) played."""
    state, batch = learner.init(jr.key(0))
    played = [(int(batch.action), int(batch.rounds))]
    for total in totals:
        state, batch = learner.step(state, jr.key(0), exact_sums.of(total))
        played.append((int(batch.action), int(batch.rounds)))
    return state, played
