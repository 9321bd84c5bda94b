"""Values within a kernel: arrays are split into their entries, or stay in memory.

A value is :class:`InMemory` or a NumPy array of objects, each an :class:`Entry` or a :class:`Key`.
An entry that all trials share is a scalar. An entry that differs between trials is a vector over
the trials of a block. So the traced program contains only arithmetic.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax import random as jr

from dpjax.core.generators import Generator, of
from dpjax.engine.one_kernel import Unfit


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One number of an array."""

    value: Any  # a scalar or a vector over trials; a NumPy scalar if it is known

    @property
    def known(self) -> bool:
        """Whether the number is known at trace time."""
        return isinstance(self.value, np.generic)

    @property
    def differs(self) -> bool:
        """Whether the number differs between trials."""
        return bool(np.shape(self.value))

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(self.value.dtype)


@dataclass(frozen=True, slots=True, eq=False)
class Key:
    """A key of two words."""

    first: Entry  # uint32
    second: Entry  # uint32
    generator: Generator

    @property
    def differs(self) -> bool:
        return self.first.differs or self.second.differs


@dataclass(frozen=True, eq=False)
class Memory:
    """The place of an array in memory, and how often the place has been written."""

    rows: Any  # a Ref, of (size, *lanes) if the array differs between trials, else of (size,)
    dtype: Any  # booleans are integers in memory
    differs: bool
    written: list  # [how often]


@dataclass(frozen=True, eq=False)
class InMemory:
    """An array that stays in memory, with one row for each entry."""

    memory: Memory
    shape: tuple
    version: int  # how often the memory had been written when it held this value
    first: Any = 0  # the row of the first entry

    def check(self) -> None:
        """Raise Unfit if the memory has been written since it held this value."""
        if self.version != self.memory.written[0]:
            raise Unfit("an array is read after its memory was overwritten")

    def part(self, start, shape) -> "InMemory":
        """The part of this array with this shape that begins at an entry."""
        return replace(self, first=self.first + start, shape=shape)

    def read(self, starts, sizes) -> np.ndarray:
        """The entries of a window."""
        self.check()
        rows = [self.memory.rows[row] for row in self._rows(starts, sizes)]
        return filled(sizes, [Entry(from_memory(x, self.memory.dtype)) for x in rows])

    def write(self, starts, entries, lanes) -> "InMemory":
        """The array after entries have been written to a window, in place."""
        self.check()
        rows = self._rows(starts, entries.shape)
        for row, entry in zip(rows, entries.reshape(-1), strict=True):
            self.memory.rows[row] = to_memory(spread(entry.value, lanes))
        self.memory.written[0] += 1
        return replace(self, version=self.memory.written[0])

    def _rows(self, starts, sizes) -> list:
        strides = np.cumprod([1, *self.shape[:0:-1]])[::-1].tolist()
        first = self.first
        for start, stride in zip(starts, strides, strict=False):
            first = first + start * np.int32(stride)
        places = np.ndindex(*sizes)
        return [first + np.int32(np.dot(place, strides[: len(place)])) for place in places]


def to_memory(x):
    """A number as it is stored in memory: booleans as integers."""
    return x.astype(jnp.int32) if x.dtype == np.bool_ else x


def from_memory(x, dtype: np.dtype):
    """The number of this type that is stored in memory as ``x``."""
    return x != 0 if np.dtype(dtype) == np.bool_ else x


def type_in_memory(dtype: np.dtype) -> np.dtype:
    """The type of numbers in memory."""
    return np.dtype(np.int32 if np.dtype(dtype) == np.bool_ else dtype)


def spread(value, lanes: tuple[int, ...]):
    """A number as a vector over the trials."""
    return value if np.shape(value) else lax.broadcast_in_dim(value, lanes, ())


def filled(shape: tuple[int, ...], entries: Iterable) -> np.ndarray:
    """An array of objects, filled in row-major order."""
    array = np.empty(int(np.prod(shape, dtype=int)), object)
    for i, entry in enumerate(entries):
        array[i] = entry
    return array.reshape(shape)


def known(array: np.ndarray) -> np.ndarray:
    """The entries of an array or of keys that are known at trace time."""
    if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        with jax.ensure_compile_time_eval():
            return as_keys(known(np.asarray(jr.key_data(array))), of(array.dtype))
    array = np.asarray(array)
    return filled(array.shape, map(Entry, array.reshape(-1)))


def as_keys(words: np.ndarray, generator: Any) -> np.ndarray:
    """Keys from their words (..., 2)."""
    return filled(words.shape[:-1], [Key(a, b, generator) for a, b in words.reshape(-1, 2)])


def words_of(keys: np.ndarray) -> np.ndarray:
    """The words (..., 2) of keys."""
    words = [word for key in keys.reshape(-1) for word in (key.first, key.second)]
    return filled((*keys.shape, 2), words)


def entries(value) -> np.ndarray:
    """The entries of a value."""
    return value.read((), value.shape) if isinstance(value, InMemory) else value


def is_key(value) -> bool:
    """Whether entries are keys."""
    return bool(value.size) and isinstance(value.reshape(-1)[0], Key)


def elementwise(function: Callable, *arrays: np.ndarray) -> np.ndarray:
    """Apply a function of entries to the entries of arrays of one shape."""
    columns = zip(*(x.reshape(-1) for x in arrays), strict=True)
    return filled(arrays[0].shape, [function(*column) for column in columns])
