"""Traces the cells of sweeps: each is one game at a point, with a seed."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr

from dpjax.core import PyTree, _check
from dpjax.engine import closure_digest, programs


def trace(
    game: Callable, play: Callable, rounds: np.ndarray, points: PyTree, key_dtype: Any
) -> programs.Traced:
    """Trace the program of a cell of a sweep, with the current behaviour of the game.

    Args:
      game, play: those of :func:`dpjax.sweep`.
      rounds: (n,) the checkpoints.
      points: pytree of (P, ...) arrays.
      key_dtype: the dtype of the key.

    Raises:
      TypeError: the game branches on a number of a point, which is traced; or as in
        :func:`dpjax.engine.programs.traced`.
    """
    checkpoints = tuple(rounds.tolist())

    def cell(point, seed, key):
        result = play(*game(point), jr.fold_in(key, seed), checkpoints=checkpoints)
        return tuple(result[1:])

    point = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], jnp.float32), points)
    seed, key = jax.ShapeDtypeStruct((), jnp.int32), jax.ShapeDtypeStruct((), key_dtype)
    with closure_digest.as_now(game, play), _check.traceable("game"):
        program, output = jax.make_jaxpr(cell, return_shape=True)(point, seed, key)
    shapes = [leaf.shape for leaf in jax.tree.leaves(point)]
    return programs.traced(program, output, shapes, checkpoints)
