"""Equations on numbers that read or write at an index.

A place among the entries of an array that is taken apart is found by comparison. An array that
stays whole is read and written there.
"""

from itertools import product

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.lax import GatherScatterMode

from dpjax.engine import places
from dpjax.engine.number_rules import NoRule
from dpjax.engine.numbers import (
    Number,
    Whole,
    apart,
    compute,
    each,
    filled,
    known,
    read_window,
    select,
    write_window,
)


def _clamped(index, last) -> Number:
    """An index, moved to the nearest of 0 .. last."""

    def clamp(index):
        return lax.clamp(jnp.zeros_like(index), index, lax.full_like(index, last))

    return compute(clamp, index)


def _equals(index, place) -> Number:
    return compute(lambda index: lax.eq(index, lax.full_like(index, place)), index)


def _all_of(conditions) -> Number:
    """Whether all conditions hold, of which those that are known are settled at once."""
    result = Number(np.bool_(True), False)
    for condition in conditions:
        if condition.known and not condition.value:
            return condition
        if not condition.known:
            result = condition if result.known else compute(lax.bitwise_and, result, condition)
    return result


def _chosen(windows, index):
    """The window, an array of entries, whose number an index is."""
    if index.known:
        return windows[int(index.value)]
    found = windows[-1]
    for place in range(len(windows) - 2, -1, -1):
        here = _equals(index, place)
        found = each(lambda a, b, here=here: select(here, a, b), windows[place], found)
    return found


def _window(value, starts, sizes):
    """The window of this size that starts at an index within bounds along each axis."""
    if isinstance(value, Whole):
        return _read(value, starts, sizes)
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        if size < value.shape[axis]:
            rows = np.moveaxis(value, axis, 0)
            count = len(rows) - size + 1
            windows = [np.moveaxis(rows[i : i + size], 0, axis) for i in range(count)]
            value = _chosen(windows, start)
    return value


def _dynamic_slice(eqn, operands) -> list:
    value, *indices = operands
    sizes = eqn.params["slice_sizes"]
    lasts = [n - size for n, size in zip(value.shape, sizes, strict=True)]
    starts = [_clamped(x[()], last) for x, last in zip(indices, lasts, strict=True)]
    return [_window(value, starts, sizes)]


def _dynamic_update_slice(eqn, operands) -> list:
    value, update, *indices = operands
    update = apart(update)
    lasts = [n - size for n, size in zip(value.shape, update.shape, strict=True)]
    starts = [_clamped(x[()], last) for x, last in zip(indices, lasts, strict=True)]
    if isinstance(value, Whole):
        return [_written(value, update, starts)]
    result = value.copy()
    for corner in product(*(range(last + 1) for last in lasts)):
        here = _all_of(_equals(start, place) for start, place in zip(starts, corner, strict=True))
        for offset in np.ndindex(*update.shape):
            place = tuple(np.add(corner, offset))
            result[place] = select(here, update[offset], result[place])
    return [result]


def _gather(eqn, operands) -> list:
    value, indices = operands
    numbers, sizes, mode = (eqn.params[x] for x in ("dimension_numbers", "slice_sizes", "mode"))
    if numbers.operand_batching_dims or mode == GatherScatterMode.ONE_HOT:
        raise NoRule("gather of batches")
    shape, indices = eqn.outvars[0].aval.shape, apart(indices)
    kept = [axis for axis in range(len(sizes)) if axis not in numbers.collapsed_slice_dims]
    inner = [sizes[axis] for axis in kept]
    outer = [axis for axis in range(len(shape)) if axis not in numbers.offset_dims]
    result = np.empty([*(shape[axis] for axis in outer), *inner], object)
    for place in np.ndindex(*(shape[axis] for axis in outer)):
        starts = [Number(np.int32(0), False)] * len(sizes)
        inside = []
        for axis, index in zip(numbers.start_index_map, indices[place], strict=True):
            last = value.shape[axis] - sizes[axis]
            starts[axis] = _clamped(index, last)
            if mode == GatherScatterMode.FILL_OR_DROP:
                inside.append(compute(lax.eq, starts[axis], index))
        window = apart(_window(value, starts, sizes)).reshape(inner)
        if inside:
            fill = known(np.full(inner, _fill(eqn), eqn.outvars[0].aval.dtype))
            here = _all_of(inside)
            window = each(lambda a, b, here=here: select(here, a, b), window, fill)
        result[place] = window if inner else window[()]
    order = [*outer, *numbers.offset_dims]
    return [result.transpose(np.argsort(order))]


def _fill(eqn):
    """What a gather returns for an index that is out of bounds."""
    fill, dtype = eqn.params["fill_value"], eqn.outvars[0].aval.dtype
    if fill is not None:
        return fill
    if np.issubdtype(dtype, np.floating):
        return np.nan
    return np.iinfo(dtype).min if np.issubdtype(dtype, np.signedinteger) else np.iinfo(dtype).max


def _scatter(eqn, operands) -> list:
    part, name = places.part_of(eqn), eqn.primitive.name
    if part is None or (name == "scatter" and eqn.params["update_jaxpr"] is not None):
        raise NoRule(f"{name} of several parts")
    value, indices, update = map(apart, operands)
    numbers = eqn.params["dimension_numbers"]
    index = dict(zip(numbers.scatter_dims_to_operand_dims, indices, strict=True))
    lasts = {axis: value.shape[axis] - part.shape[axis] for axis in index}
    if any(part.shape[axis] != 1 for axis in index):
        raise NoRule(f"{name} of a window")
    if part.moved:
        index = {axis: _clamped(x, lasts[axis]) for axis, x in index.items()}
    update = np.broadcast_to(update.reshape(part.shape), value.shape)
    result = np.empty(value.shape, object)
    for place in np.ndindex(*value.shape):
        here = _all_of(_equals(x, place[axis]) for axis, x in index.items())
        result[place] = _updated(name, here, value[place], update[place])
    return [result]


def _updated(name, here, old, new):
    """An entry, which is updated where it is the one that is meant; see places.written."""
    if name in places.NOTHING:
        nothing = Number(new.dtype.type(places.NOTHING[name]), False)
        return compute(places.UPDATES[name], old, select(here, new, nothing))
    if name in places.UPDATES:
        new = compute(places.UPDATES[name], old, new)
    return select(here, new, old)


def _read(value, starts, sizes):
    own = value.own or any(x.own for x in starts)
    entries = read_window(value.array, *(x.value for x in starts), sizes=tuple(sizes))
    return filled(sizes, [Number(x, own) for x in entries])


def _written(value, update, starts):
    own = value.own or any(x.own for x in (*starts, *update.reshape(-1)))
    scalars = [x.value for x in (*starts, *update.reshape(-1))]
    return Whole(write_window(value.array, *scalars, sizes=update.shape), own)


RULES = {
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    **dict.fromkeys(("scatter", *places.UPDATES), _scatter),
}
