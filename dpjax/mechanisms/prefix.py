"""Common parts of all mechanisms: the running sum, the draws, and A = B C in NumPy.

A mechanism for a horizon T releases the prefix sums 0 .. T - 1 of a stream. A learner over T rounds
needs no others, since its action after round T is never played. So only N = T - 1 values are ever
released, and sensitivities count only these. Row t of the matrix A (T, N) has t leading ones. With
A = B C, releasing C x + z and decoding it by B gives A x + B z.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax import random as jr

from dpjax import noise
from dpjax.core import Array, Mechanism, Number, PyTree, Stream, _check
from dpjax.maths.two_words import add_compensated


class PrefixState(NamedTuple):
    total: Array  # (*shape) sum of the values so far
    error: Array  # (*shape) its rounding error (Kahan)
    noise: PyTree  # the state of the noise


class PrefixNoise(NamedTuple):
    """The noise of a stream's releases, independent of the values."""

    init: Callable  # key -> (state, noise of the empty prefix)
    step: Callable  # (state, key) -> (state, noise of the next prefix)


def check(
    horizon: int, law: noise.LawName, *, integers: bool = False, longest: int = _check.LARGEST_SIZE
) -> tuple[int, noise.Law]:
    """Check the arguments, and return the horizon as a Python integer and the law as a record.

    Args:
      horizon: T.
      law: a name of ``dpjax.noise.LAWS``, or a law itself.
      integers: whether the encoder's entries are integers, so that a law on integers is allowed.
      longest: the largest horizon of the mechanism.
    """
    name, horizon = noise.name_of(law), _check.size(1, horizon=horizon)
    fits = [known.name for known in noise.LAWS.values()
            if known.calibrate is not None and (integers or not known.integers)]  # fmt: skip
    _check.one_of(*fits, noise=name)
    if horizon > longest:
        raise ValueError(f"horizon must be at most {longest} for this mechanism, got {horizon}")
    return horizon, noise.LAWS[name]


def in_nodes(count: int) -> tuple[float, float]:
    """The (L1, L2) sensitivity if one value is in ``count`` nodes of weight 1."""
    return float(count), float(np.sqrt(count))


def as_integers(law: noise.Law, key: Array, value, scale: Number):
    """The value as integers if the noise is on integers, and the remaining key.

    Integer noise hides only changes by integers. So each entry is rounded to a neighbouring integer
    at random, without bias. Nothing is rounded if there is no noise.
    """
    if not law.integers:
        return value, key
    rounding_key, key = jr.split(key)
    below = jnp.floor(value)
    rounded = below + (jr.uniform(rounding_key, value.shape) < value - below).astype(value.dtype)
    return jnp.where(scale > 0.0, rounded, value), key


def rows(height: int) -> int:
    """The number of rows of a state that needs one for each of ``height`` levels.

    It is a multiple of eight, so that a study of several horizons compiles few programs.
    """
    return 8 * max(1, -(-height // 8))


def draw(law: noise.Law, key: Array, shape: tuple[int, ...], scale: Number):
    """Noise of a law, without a value."""
    return law(key, jnp.zeros(shape, jnp.float32), scale)


def from_noise(horizon, law, prefix_noise, *, sensitivity, variance, matrices) -> Mechanism:
    """The mechanism that adds noise, which depends on no value, to the prefix sums.

    Args:
      horizon: T.
      law: a Law.
      prefix_noise: (shape of a value, scale of each draw) -> PrefixNoise.
      sensitivity: the largest L1 and L2 norms of a column of C.
      variance: rounds (n,), NumPy or a traced () -> squared norms of these rows of B.
      matrices: () -> B (T, m) and C (m, N), NumPy.
    """

    def variance_of(rounds=None):
        return variance(np.arange(horizon) if rounds is None else rounds)

    def stream(shape, *, scale):
        shape = check_shape(shape)
        _check.non_negative(scale=scale)
        return _stream(law, prefix_noise(shape, scale), shape, scale, sensitivity)

    return Mechanism(horizon, law.name, sensitivity, variance_of, matrices, stream)


def check_shape(shape: Any) -> tuple[int, ...]:
    """The shape of a value as a tuple of Python integers."""
    if not isinstance(shape, tuple | list):
        raise TypeError(f"shape must be a tuple of integers, got {shape!r}")
    return tuple(_check.size(0, shape=length) for length in shape)


def _stream(law, inner, shape, scale, sensitivity) -> Stream:
    """The prefix sums plus the noise of ``inner``, a PrefixNoise."""

    def init(key):
        state, first = inner.init(key)
        zero = jnp.zeros(shape, jnp.float32)
        return PrefixState(zero, zero, state), first

    def step(state, key, value):
        value, key = as_integers(law, key, value, scale)
        # Over 2^20 rounds the error of a plain float32 sum exceeds the noise of a weakly private
        # release.
        total, error = add_compensated(state.total, state.error, value)
        new, now = inner.step(state.noise, key)
        release = law.prefix(key, total + now, value, scale, sensitivity)
        return PrefixState(total, error, new), release

    return Stream(init, step)


class PathState(NamedTuple):
    round: Array  # () int32, t
    noise: Array  # (T, *shape) of all prefixes


def kept_path(path: Callable) -> PrefixNoise:
    """Noise whose whole path is drawn at the start and kept."""

    def init(key):
        rows = path(key)
        return PathState(jnp.zeros((), jnp.int32), rows), rows[0]

    def step(state, key):
        del key  # All noise was drawn in init.
        t = state.round + 1
        row = lax.dynamic_index_in_dim(state.noise, t, axis=0, keepdims=False)
        return state._replace(round=t), row

    return PrefixNoise(init, step)


def as_floats(integers: Array | np.ndarray):
    """NumPy integers as float64, or JAX integers as float32."""
    return integers.astype(np.float64 if isinstance(integers, np.ndarray) else jnp.float32)


def constant(value: float):
    """The variance of a mechanism whose prefixes are all equally noisy."""
    return lambda rounds: as_floats(rounds) * 0.0 + value


def weighted_bits(rounds: Array | np.ndarray, weights: list[float]):
    """The sum of weights[i] over the set bits i of each of the rounds."""
    bits = (as_floats(rounds >> i & 1) * weight for i, weight in enumerate(weights))
    return sum(bits, start=as_floats(rounds) * 0.0)


def rows_of(table: Callable):
    """A variance function that looks up one number per round in ``table()``, (T,)."""

    def variance(rounds):
        rows = table()
        return (rows if isinstance(rounds, np.ndarray) else jnp.asarray(rows, jnp.float32))[rounds]

    return variance


def read(buffer: Array, index: Array):
    """``buffer[index]`` along the first axis for a traced index; 0 if it is out of range."""
    if not buffer.shape[0]:
        return jnp.zeros(buffer.shape[1:], buffer.dtype)
    inside = (index >= 0) & (index < buffer.shape[0])
    return jnp.where(inside, lax.dynamic_index_in_dim(buffer, index, 0, keepdims=False), 0.0)


def write(buffer: Array, index: Array, value: Array):
    """``buffer`` with ``value`` at ``index`` along the first axis; unchanged if out of range."""
    if not buffer.shape[0]:
        return buffer
    inside = (index >= 0) & (index < buffer.shape[0])
    kept = lax.dynamic_index_in_dim(buffer, index, 0, keepdims=False)
    return lax.dynamic_update_index_in_dim(buffer, jnp.where(inside, value, kept), index, 0)


def prefix_matrix(horizon: int) -> np.ndarray:
    """A, (T, T - 1): row t sums the first t values."""
    return np.tri(horizon, horizon - 1, -1)


def trailing_zeros(t: Array):
    """The position of the lowest set bit of a positive int32."""
    return lax.population_count((t & -t) - 1)
