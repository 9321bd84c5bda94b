"""Values of one trial whose arrays are taken apart into their numbers.

:mod:`dpjax.engine.scalarize` evaluates programs on them. A value is a NumPy array of objects, each
a :class:`Number` or a :class:`Key`, or it is a :class:`Whole`, an array that stays one. What moves
numbers about is then done while the program is traced, and only arithmetic is left of it.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax import random as jr

from dpjax.generators import Generator, of


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """One entry of an array."""

    value: Any  # () array, or a NumPy scalar where it is known while the program is traced
    own: bool  # whether trials have numbers of their own; otherwise they share it

    @property
    def known(self) -> bool:
        return isinstance(self.value, np.generic)

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(self.value.dtype)


@dataclass(frozen=True, slots=True, eq=False)
class Key:
    """A key of two words."""

    first: Number  # uint32
    second: Number  # uint32
    generator: Generator


@dataclass(frozen=True, slots=True, eq=False)
class Whole:
    """An array that stays one, because it is large or because it is read at traced places."""

    array: Any
    own: bool

    @property
    def shape(self) -> tuple:
        return self.array.shape


def filled(shape, entries) -> np.ndarray:
    """An array of objects, filled in row-major order."""
    array = np.empty(int(np.prod(shape, dtype=int)), object)
    for i, entry in enumerate(entries):
        array[i] = entry
    return array.reshape(shape)


def known(array) -> np.ndarray:
    """The numbers of an array that is known while the program is traced."""
    array = np.asarray(array)
    return filled(array.shape, [Number(x, False) for x in array.reshape(-1)])


def each(function, *arrays) -> np.ndarray:
    """A function of entries, applied to those of arrays of one shape."""
    columns = zip(*(x.reshape(-1) for x in arrays), strict=True)
    return filled(arrays[0].shape, [function(*entries) for entries in columns])


def compute(function, *numbers) -> Number:
    """A function of scalars, computed at once where all of these are known."""
    values = [x.value for x in numbers]
    if all(x.known for x in numbers):
        with jax.ensure_compile_time_eval():
            return Number(np.asarray(function(*values))[()], False)
    return Number(function(*values), any(x.own for x in numbers))


def select(which: Number, yes, no):
    """The entry ``yes`` where a number is true or positive, else ``no``."""
    if yes is no:
        return yes
    if isinstance(yes, Key):
        first, second = select(which, yes.first, no.first), select(which, yes.second, no.second)
        return Key(first, second, yes.generator)
    if which.known:
        return yes if which.value > 0 else no

    def of_scalars(which, yes, no):
        which = which if which.dtype == bool else lax.gt(which, np.zeros((), which.dtype))
        return lax.select_n(which, no, yes)

    return Number(of_scalars(which.value, yes.value, no.value), which.own or yes.own or no.own)


# What touches a whole array. One kernel of an accelerator keeps such an array in memory: it knows
# the two programs by their names, and has code of its own for them.


@partial(jax.jit, static_argnames="sizes")
def read_window(array, *starts, sizes):
    """The entries of a window of an array, in row-major order."""
    window = lax.dynamic_slice(array, starts, sizes).reshape(-1)
    return tuple(lax.index_in_dim(window, i, keepdims=False) for i in range(len(window)))


@partial(jax.jit, static_argnames="sizes")
def write_window(array, *starts_and_entries, sizes):
    """The array with new entries in a window."""
    starts, entries = starts_and_entries[: array.ndim], starts_and_entries[array.ndim :]
    return lax.dynamic_update_slice(array, jnp.stack(entries).reshape(sizes), starts)


def is_key_aval(aval) -> bool:
    """Whether an abstract value is of keys."""
    return jnp.issubdtype(aval.dtype, jax.dtypes.prng_key)


def apart(value) -> np.ndarray:
    """The entries of a value."""
    if not isinstance(value, Whole):
        return value
    if not value.shape:
        return filled((), [Number(value.array, value.own)])
    starts = [np.int32(0)] * len(value.shape)
    entries = read_window(value.array, *starts, sizes=value.shape)
    return filled(value.shape, [Number(x, value.own) for x in entries])


def whole(value, dtype) -> Whole:
    """The numbers of a value as one array of this dtype."""
    if isinstance(value, Whole):
        return value
    own = any(x.own for x in value.reshape(-1))
    if all(x.known for x in value.reshape(-1)):
        numbers = np.array([x.value for x in value.reshape(-1)], dtype)
        return Whole(jnp.asarray(numbers.reshape(value.shape)), own)
    array = jnp.stack([jnp.asarray(x.value) for x in value.reshape(-1)])
    return Whole(lax.reshape(array, value.shape), own)


def from_array(array, own) -> np.ndarray:
    """The entries of an array or of keys."""
    if generator := of(array.dtype):
        words = apart(Whole(jr.key_data(array), own)).reshape(-1, 2)
        return filled(array.shape, [Key(a, b, generator) for a, b in words])
    return apart(Whole(jnp.asarray(array), own))


def to_array(value, aval):
    """The array or the keys of a value."""
    if not is_key_aval(aval):
        return whole(value, aval.dtype).array
    generator = of(aval.dtype)
    assert generator is not None  # there are no rules for other keys
    words = [word for key in value.reshape(-1) for word in (key.first, key.second)]
    return generator.wrap(whole(filled((*aval.shape, 2), words), np.uint32).array)


# Loops and conditions carry values as flat lists of scalars and whole arrays.


def flat(value) -> list:
    """The scalars of a value, or its array."""
    if isinstance(value, Whole):
        return [value.array]
    found = []
    for entry in value.reshape(-1):
        words = (entry.first, entry.second) if isinstance(entry, Key) else (entry,)
        found += [word.value for word in words]
    return found


def like(value, scalars, own):
    """A value of the same form as another, of scalars that an iterator yields."""
    if isinstance(value, Whole):
        return Whole(next(scalars), own)

    def entry(old):
        if isinstance(old, Key):
            return Key(Number(next(scalars), own), Number(next(scalars), own), old.generator)
        return Number(next(scalars), own)

    return each(entry, value)


def is_own(value) -> bool:
    """Whether trials have values of their own."""
    if isinstance(value, Whole):
        return value.own
    return any(
        entry.first.own or entry.second.own if isinstance(entry, Key) else entry.own
        for entry in value.reshape(-1)
    )
