"""What all mechanisms share: the running sum, the draws, and A = B C in NumPy.

A mechanism for a horizon T releases the prefix sums 0 .. T - 1 of a stream: a learner over T
rounds acts on nothing else, its action after round T is never played. So N = T - 1 values are
ever released, and sensitivities count only these. With A (T, N), whose row t has t leading
ones, and A = B C, the release of C x + z, decoded by B, is A x + B z.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax import random as jr

from dpjax import _check, noise
from dpjax.core import Array, Mechanism, Stream
from dpjax.maths.two_words import add_compensated


class PrefixState(NamedTuple):
    total: Array  # (*shape) sum of the values so far
    error: Array  # (*shape) what rounding has added to it (Kahan)
    noise: Any  # the state of the noise


class PrefixNoise(NamedTuple):
    """The noise of a stream's releases, which depends on no value."""

    init: Callable  # key -> (state, noise of the empty prefix)
    step: Callable  # (state, key) -> (state, noise of the next prefix)
    path: Callable  # key -> noise of the prefixes 0 .. horizon - 1, (horizon, *shape)


def check(horizon, law) -> int:
    """The horizon as a Python integer; refuses bad arguments by name."""
    _check.one_of("laplace", "gaussian", noise=law)
    return _check.size(1, horizon=horizon)


def draw(law, key, shape, scale):
    """Noise of a law, "laplace" or "gaussian", by itself."""
    sample = noise.laplace if law == "laplace" else noise.gaussian
    return sample(key, jnp.zeros(shape, jnp.float32), scale)


def draw_rounds(law, key, first, last, shape, scale):
    """What each of the rounds first .. last draws under its own key, (last - first + 1, *shape)."""
    rounds = jnp.arange(first, last + 1)
    return jax.vmap(lambda t: draw(law, jr.fold_in(key, t), shape, scale))(rounds)


def from_noise(horizon, law, added, *, sensitivity, variance, matrices) -> Mechanism:
    """The mechanism that adds data-free noise to the prefix sums.

    Args:
      horizon: T.
      law: "laplace" or "gaussian".
      added: (shape of a value, scale of each draw) -> PrefixNoise.
      sensitivity: the largest L1 and L2 norm of a column of C.
      variance: rounds (n,), NumPy or a traced () -> squared norms of these rows of B.
      matrices: () -> B (T, m) and C (m, N), NumPy.
    """

    def variance_of(rounds=None):
        return variance(np.arange(horizon) if rounds is None else rounds)

    def stream(shape, *, scale):
        shape = _check_shape(shape)
        _check.non_negative(scale=scale)
        return _stream(law, added(shape, scale), shape, scale, sensitivity[law == "gaussian"])

    return Mechanism(horizon, law, sensitivity, variance_of, matrices, stream)


def _check_shape(shape) -> tuple[int, ...]:
    if not isinstance(shape, tuple | list):
        raise TypeError(f"shape must be a tuple of integers, got {shape!r}")
    return tuple(_check.size(0, shape=length) for length in shape)


def _stream(law, added, shape, scale, sensitivity) -> Stream:
    """The prefix sums with that noise added."""
    site = noise.laplace_prefix if law == "laplace" else noise.gaussian_prefix

    def init(key):
        state, first = added.init(key)
        zero = jnp.zeros(shape, jnp.float32)
        return PrefixState(zero, zero, state), first

    def step(state, key, value):
        # Over 2^20 rounds a plain float32 sum drifts by more than the noise of a weakly private
        # release.
        total, error = add_compensated(state.total, state.error, value)
        inner, now = added.step(state.noise, key)
        release = site(total + now, key, value, scale, sensitivity)
        return PrefixState(total, error, inner), release

    return Stream(init, step, added.path)


def interleave(walk, steps):
    """Rows a_0, b_0, a_1, b_1, ... of two arrays of the same shape."""
    return jnp.stack([walk, steps], axis=1).reshape(2 * len(walk), *walk.shape[1:])


def as_floats(integers):
    """Integers of NumPy or JAX in the float of each."""
    return integers.astype(np.float64 if isinstance(integers, np.ndarray) else jnp.float32)


def constant(value):
    """The variance of a mechanism whose prefixes are all equally noisy."""
    return lambda rounds: as_floats(rounds) * 0.0 + value


def weighted_bits(rounds, weights):
    """The sum of weights[i] over the bits i that are set in each of the rounds."""
    bits = (as_floats(rounds >> i & 1) * weight for i, weight in enumerate(weights))
    return sum(bits, start=as_floats(rounds) * 0.0)


def rows_of(table):
    """A variance that is kept round by round, for horizons that are kept so anyway."""

    def variance(rounds):
        rows = table()
        return (rows if isinstance(rounds, np.ndarray) else jnp.asarray(rows, jnp.float32))[rounds]

    return variance


def read(buffer, index):
    """``buffer[index]`` along the first axis, for a traced index that may be out of range (0)."""
    if not buffer.shape[0]:
        return jnp.zeros(buffer.shape[1:], buffer.dtype)
    inside = (index >= 0) & (index < buffer.shape[0])
    return jnp.where(inside, lax.dynamic_index_in_dim(buffer, index, 0, keepdims=False), 0.0)


def write(buffer, index, value):
    """``buffer`` with ``value`` at ``index`` along the first axis; as it is where out of range."""
    if not buffer.shape[0]:
        return buffer
    inside = (index >= 0) & (index < buffer.shape[0])
    kept = lax.dynamic_index_in_dim(buffer, index, 0, keepdims=False)
    return lax.dynamic_update_index_in_dim(buffer, jnp.where(inside, value, kept), index, 0)


def prefix_matrix(horizon) -> np.ndarray:
    """A, (T, T - 1): row t sums the first t values."""
    return np.tri(horizon, horizon - 1, -1)


def trailing_zeros(t):
    """The position of the lowest bit set, of a positive int32."""
    return jax.lax.population_count((t & -t) - 1)
