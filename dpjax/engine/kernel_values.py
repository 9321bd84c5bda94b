"""Values within one kernel of an accelerator, and what its two kinds have no code for.

In a kernel a number that trials share is a scalar, and a number of their own is a vector over the
trials of a block, the lanes. An array that stays whole is held in memory.
"""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.pallas import triton

from dpjax.engine import walk
from dpjax.engine.one_kernel import Unfit


class Target(NamedTuple):
    """The kind of device that a kernel is for."""

    name: str  # cuda, tpu or interpret
    lanes: tuple[int, ...]  # the shape of a vector over the trials of a block
    zero: Any = None  # on a TPU, a vector of int32 zeros that no compiler knows


@dataclass(frozen=True, eq=False)
class Held:
    """An array in memory, each of whose entries is a row of it."""

    rows: Any  # a Ref, of (size, *lanes) where trials have arrays of their own, else of (size,)
    shape: tuple
    dtype: Any  # of which booleans are whole numbers in memory
    own: bool
    first: Any = 0  # the row of the first entry
    written: int = 0  # how often it was written before it had this value
    times: list = field(default_factory=lambda: [0])  # how often it was written until now

    def row(self, places, offset=0):
        """The row of an entry."""
        strides = np.cumprod([1, *self.shape[:0:-1]])[::-1].tolist()
        row = self.first
        for place, stride in zip(places, strides, strict=True):
            row = row + place * np.int32(stride)
        return row + np.int32(offset)

    def check(self) -> None:
        """Raises Unfit where the array has another value by now."""
        if self.written != self.times[0]:
            raise Unfit("an array is read after it was written elsewhere")


def read(held: Held, starts, sizes) -> list:
    """The entries of a window."""
    held.check()
    entries = [held.rows[held.row(starts, offset)] for offset in _offsets(held, sizes)]
    return [from_memory(x, held.dtype) for x in entries]


def write(held: Held, starts, entries, sizes, lanes) -> Held:
    """The array after the entries of a window are written in place."""
    held.check()
    for offset, entry in zip(_offsets(held, sizes), entries, strict=True):
        held.rows[held.row(starts, offset)] = to_memory(spread(entry, lanes))
    held.times[0] += 1
    return replace(held, written=held.times[0])


def type_in_memory(dtype) -> np.dtype:
    """The type of numbers in memory, where there are no booleans."""
    return np.dtype(np.int32 if np.dtype(dtype) == np.bool_ else dtype)


def to_memory(x):
    return x.astype(jnp.int32) if x.dtype == np.bool_ else x


def from_memory(x, dtype):
    return x != 0 if np.dtype(dtype) == np.bool_ else x


def _offsets(held, sizes):
    strides = np.cumprod([1, *held.shape[:0:-1]])[::-1]
    return [int(np.dot(place, strides)) for place in np.ndindex(*sizes)]


def is_own(value) -> bool:
    """Whether trials have values of their own."""
    return value.own if isinstance(value, Held) else bool(np.shape(value))


def spread(value, lanes):
    """A number as a vector over the trials."""
    return value if np.shape(value) else lax.broadcast_in_dim(value, lanes, ())


def elementwise(eqn, operands, target) -> list:
    """An elementwise equation on scalars and vectors."""
    if operands and all(isinstance(x, np.generic) for x in operands):
        with jax.ensure_compile_time_eval():  # Triton has no code for constants alone
            return [np.asarray(x)[()] for x in walk.bind(eqn, operands)]
    if any(np.shape(x) for x in operands):
        operands = [spread(x, target.lanes) for x in operands]
    function = _REPLACED.get(eqn.primitive.name)
    if function and target.name != "interpret":
        found = function(eqn, operands, target)
        if found is not None:
            return [found]
    return walk.bind(eqn, operands)


def _of(x, number):
    return np.asarray(number, x.dtype)[()]


def _round(eqn, operands, target):
    """To the nearest whole number, and to the even one of two."""
    (x,) = operands
    low = jnp.floor(x)
    rest, odd = x - low, low * _of(x, 0.5) != jnp.floor(low * _of(x, 0.5))
    up = (rest > _of(x, 0.5)) | ((rest == _of(x, 0.5)) & odd)
    return jnp.where(up, low + _of(x, 1), low)


def _sign(eqn, operands, target):
    (x,) = operands
    if x.dtype.kind == "u":
        return jnp.where(x > _of(x, 0), _of(x, 1), _of(x, 0))
    positive = jnp.where(x > _of(x, 0), _of(x, 1), x)
    return jnp.where(x < _of(x, 0), _of(x, -1), positive)


def _population_count(eqn, operands, target):
    (x,) = operands
    if target.name != "tpu":
        return None
    for shift, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F)):
        mask = np.asarray(mask, np.uint32).astype(x.dtype)[()]
        x = (x & mask) + (lax.shift_right_logical(x, _of(x, shift)) & mask)
    return lax.shift_right_logical(x * _of(x, 0x01010101), _of(x, 24))


def _expm1(eqn, operands, target):
    """e^x - 1 by Kahan's formula, in which the errors of two roundings cancel."""
    (x,) = operands
    if target.name != "tpu":
        return None
    power = jnp.exp(x)
    less = power - _of(x, 1)
    exact = (less == _of(x, 0)) | (less == _of(x, -1)) | (jnp.abs(less) == _of(x, np.inf))
    ratio = less * x / jnp.log(jnp.where(exact, _of(x, 2), power))
    return jnp.where(less == _of(x, 0), x, jnp.where(exact, less, ratio))


def _clamp(eqn, operands, target):
    low, x, high = operands
    return jnp.minimum(jnp.maximum(x, low), high)


def _is_finite(eqn, operands, target):
    return jnp.abs(operands[0]) < _of(operands[0], np.inf)


def _reduce_precision(eqn, operands, target):
    kept = jnp.finfo(operands[0].dtype)
    if (eqn.params["exponent_bits"], eqn.params["mantissa_bits"]) != (kept.nexp, kept.nmant):
        raise Unfit("numbers are rounded to another precision")
    return operands[0]


def _select_n(eqn, operands, target):
    index, *cases = operands
    if len(cases) == 2:
        return None
    found = cases[-1]
    for i, case in reversed(list(enumerate(cases[:-1]))):
        found = jnp.where(index <= _of(index, i), case, found)
    return found


_REPLACED = {
    "clamp": _clamp,
    "expm1": _expm1,
    "is_finite": _is_finite,
    "population_count": _population_count,
    "reduce_precision": _reduce_precision,
    "round": _round,
    "select_n": _select_n,
    "sign": _sign,
}


def block(words, generator, target) -> list:
    """The random words of a block, from those of a key and a counter.

    A generator may have the block as text, which is assembled once for each word that is returned.
    The assembler finds what they share.
    """
    on_card = target.name == "cuda" and any(np.shape(x) for x in words)
    if not (on_card and generator.text):
        return list(generator.block(*words))
    words = [lax.bitcast_convert_type(spread(x, target.lanes), jnp.int32) for x in words]
    return [_assembled(words, generator.text(i)) for i in range(2)]


def _assembled(words, text):
    (word,) = triton.elementwise_inline_asm(
        text, args=words, constraints="=r,r,r,r", pack=1,
        result_shape_dtypes=[jax.ShapeDtypeStruct(words[0].shape, jnp.int32)],
    )  # fmt: skip
    return lax.bitcast_convert_type(word, jnp.uint32)
