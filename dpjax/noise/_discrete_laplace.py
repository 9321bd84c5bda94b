"""Discrete Laplace noise: integers k of probability proportional to e^(-|k| / scale)."""

import math
from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from dpjax.core import Array, Number
from dpjax.maths.laws import random_words, sign_and_tail
from dpjax.noise._laplace import laplace
from dpjax.noise.integers import exact_privacy, on_integers
from dpjax.privacy.integer import TAIL


def draw(key: Array, scale: Array, shape: tuple[int, ...]):
    """k with probability proportional to e^(-|k| / scale), (*shape) float32; 0 at scale 0.

    It is the difference of two geometric variables, which are rounded-down exponential variables.
    """
    return as_draw(random_words(key, (2, *shape)), jnp.asarray(scale, jnp.float32))


def as_draw(words: Array, scale: Number):
    """Draws from words (2, ...) of a generator."""
    _, u = sign_and_tail(words)
    size = jnp.floor(-jnp.log(u) * scale)
    return size[0] - size[1]


@on_integers
def log_density(noise: Array, scale: Number):
    """ln tanh(1 / (2 scale)) - |k| / scale."""
    return jnp.log(jnp.tanh(0.5 / scale)) - jnp.abs(noise) / scale


def _log_pmf(scale, shift):
    # P(|k| >= n) is below 2 e^(-n / scale).
    half = math.ceil(scale * TAIL) + shift
    return np.log(np.tanh(0.5 / scale)) - np.abs(np.arange(-half, half + 1)) / scale


discrete_laplace = replace(
    laplace,
    name="discrete_laplace",
    draw=draw,
    declare=None,
    integers=True,
    delta=exact_privacy(_log_pmf)["delta"],
    draw_sum=None,
    log_density=log_density,
    model="distributed",
    limit=None,
)
