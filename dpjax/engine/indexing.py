"""Batching rules for equations that read or write at an index.

If all members share the index, the primitive is bound again. If members have different indices and
there are few places, each place is compared with the index: compilers fuse comparisons with
neighbouring operations, but not a gather or scatter.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.lax import GatherScatterMode

from dpjax.core._versions import Equation
from dpjax.engine.batched import Batched, flags_of, is_key_type, repeated
from dpjax.engine.evaluate import rebind

# Up to this many places comparisons are faster than a gather or scatter, as measured on a CPU. A
# gather costs about twenty comparisons, a scatter more than any tried number of comparisons.
_FEW_READ, _FEW_WRITTEN = 16, 1024

UPDATES = {
    "scatter-add": lax.add,
    "scatter-max": lax.max,
    "scatter-min": lax.min,
    "scatter-mul": lax.mul,
    "scatter-sub": lax.sub,
}
NEUTRAL = {"scatter-add": -0.0, "scatter-sub": 0.0}
SCATTERS = ("scatter", *UPDATES)
# The operands of each primitive that are indices.
INDICES = {
    "dynamic_slice": slice(1, None),
    "dynamic_update_slice": slice(2, None),
    "gather": slice(1, None),
    **dict.fromkeys(SCATTERS, slice(1, 2)),
}


def applies(eqn: Equation, operands: list) -> bool:
    """Whether the rules here apply to an equation that reads or writes at an index."""
    return not _differ(operands[INDICES[eqn.primitive.name]]) or _is_one_of_few(eqn)


def _dynamic_slice(eqn, operands, batch) -> list:
    operand, *indices = operands
    if _differ(indices):
        return [_read(eqn, operand, dict(enumerate(indices)), batch)]
    sizes = (*eqn.params["slice_sizes"], batch.size)
    return [lax.dynamic_slice(operand.value, (*indices, _zero(indices)), sizes)]


def _dynamic_update_slice(eqn, operands, batch) -> list:
    operand, update, *indices = operands
    operand, update = (repeated(x, batch).value for x in (operand, update))
    if _differ(indices):
        return [_written(eqn, operand, dict(enumerate(indices)), update, batch)]
    return [lax.dynamic_update_slice(operand, update, (*indices, _zero(indices)))]


def _gather(eqn, operands, batch) -> list:
    operand, indices = operands
    numbers, sizes = eqn.params["dimension_numbers"], eqn.params["slice_sizes"]
    if _differ([indices]):
        return [_read(eqn, operand, _by_axis(numbers.start_index_map, indices), batch)]
    offset_dims = (*numbers.offset_dims, eqn.outvars[0].aval.ndim)
    numbers = numbers._replace(offset_dims=offset_dims)
    changes = {"dimension_numbers": numbers, "slice_sizes": (*sizes, batch.size)}
    return rebind(eqn, [operand.value, indices], **changes)


def _scatter(eqn, operands, batch) -> list:
    operand, indices, updates = operands
    numbers = eqn.params["dimension_numbers"]
    operand, updates = (repeated(x, batch).value for x in (operand, updates))
    if _differ([indices]):
        indices = _by_axis(numbers.scatter_dims_to_operand_dims, indices)
        return [_written(eqn, operand, indices, updates, batch)]
    window = (*numbers.update_window_dims, eqn.invars[2].aval.ndim)
    numbers = numbers._replace(update_window_dims=window)
    return rebind(eqn, [operand, indices, updates], dimension_numbers=numbers)


def _zero(indices):
    return jnp.zeros((), jnp.result_type(indices[0]) if indices else jnp.int32)


# The rest of the module is for members with different indices among few places.


def _differ(indices) -> bool:
    return any(flags_of(indices))


def _by_axis(axes, indices) -> dict:
    """The index along each axis, from a vector (n, B) of these indices."""
    return {axis: Batched(indices.value[i]) for i, axis in enumerate(axes)}


class Part(NamedTuple):
    """The part of its operand that an equation reads or writes at one index."""

    shape: tuple  # (n_1, ...), along all axes of the operand
    axes: tuple  # the axes that have an index
    moved: bool  # True if an index out of range means the nearest place, False if it means none


def part_of(eqn: Equation) -> Part | None:
    """The part that an equation reads or writes at an index.

    None if several parts are written, if a function updates the part, and for one-hot products.
    """
    name, parameters = eqn.primitive.name, eqn.params
    axes = tuple(range(eqn.invars[0].aval.ndim))
    if name == "dynamic_slice":
        return Part(parameters["slice_sizes"], axes, True)
    if name == "dynamic_update_slice":
        return Part(eqn.invars[1].aval.shape, axes, True)
    numbers, mode = parameters["dimension_numbers"], parameters["mode"]
    if mode == GatherScatterMode.ONE_HOT:
        return None
    moved = mode == GatherScatterMode.CLIP
    if name == "gather":
        # If an index is promised to be in bounds, XLA clips it in a read. In a write, XLA drops
        # updates that are out of bounds.
        moved |= mode == GatherScatterMode.PROMISE_IN_BOUNDS
        return Part(parameters["slice_sizes"], numbers.start_index_map, moved)
    if eqn.invars[1].aval.ndim != 1 or (name == "scatter" and parameters["update_jaxpr"]):
        return None
    sizes = iter(eqn.invars[2].aval.shape)
    shape = tuple(1 if axis in numbers.inserted_window_dims else next(sizes) for axis in axes)
    return Part(shape, numbers.scatter_dims_to_operand_dims, moved)


def _is_one_of_few(eqn) -> bool:
    """Whether an equation reads or writes one of few places along the axes that have an index.

    Along all other axes, and along axes whose only index is 0, the equation must use the full
    length.
    """
    dtype, part = eqn.invars[0].aval.dtype, part_of(eqn)
    if part is None or jnp.issubdtype(dtype, jnp.complexfloating):
        return False
    if eqn.primitive.name == "gather":
        if eqn.invars[1].aval.ndim != 1:
            return False  # it reads several parts
        if is_key_type(eqn.invars[0]) and not part.moved:
            return False  # there is no key for an index out of range
    whole = eqn.invars[0].aval.shape
    rest = [axis for axis, size in enumerate(part.shape) if axis not in part.axes or size != 1]
    all_of_it = all(part.shape[axis] == whole[axis] for axis in rest)
    known = part.moved or not set(rest) & set(part.axes)
    places = np.prod([size for axis, size in enumerate(whole) if axis not in rest], dtype=int)
    reads = eqn.primitive.name in ("dynamic_slice", "gather")
    return all_of_it and known and 1 <= places <= (_FEW_READ if reads else _FEW_WRITTEN)


def _at(part, indices, shape, batch):
    """Whether an entry is at its member's place: bool in the operand's full shape (*shape, B)."""
    chosen_at = jnp.ones((*shape, batch.size), bool)
    for axis, index in indices.items():
        if part.shape[axis] == 1:
            index = repeated(index, batch).value
            if part.moved:
                index = jnp.clip(index, 0, shape[axis] - 1)
            along = (shape[axis], batch.size)
            places = lax.broadcasted_iota(index.dtype, along, 0)
            chosen = places == lax.broadcast_in_dim(index, along, (1,))
            chosen_at &= lax.broadcast_in_dim(chosen, chosen_at.shape, (axis, len(shape)))
    return chosen_at


def _read(eqn, operand, indices, batch):
    """Each member's part of an operand: the bitwise or of all parts, with the others set to 0."""
    part, shape = part_of(eqn), eqn.invars[0].aval.shape
    operand = repeated(operand, batch).value
    chosen_at = _at(part, indices, shape, batch)
    axes = [axis for axis in part.axes if part.shape[axis] == 1]
    if operand.dtype == np.bool_:
        read = lax.reduce_or(chosen_at & operand, axes)
    else:
        bits = lax.bitcast_convert_type(operand, f"uint{8 * operand.dtype.itemsize}")
        read = lax.reduce_or(lax.select(chosen_at, bits, jnp.zeros_like(bits)), axes)
        read = lax.bitcast_convert_type(read, operand.dtype)
    if not part.moved:
        inside = lax.reduce_or(chosen_at, axes)
        read = lax.select(inside, read, lax.full_like(read, eqn.params["fill_value"]))
    return lax.reshape(read, (*eqn.outvars[0].aval.shape, batch.size))


def _written(eqn, operand, indices, update, batch):
    """The operand with each member's part written, or updated by the equation's operation."""
    part, shape = part_of(eqn), eqn.invars[0].aval.shape
    chosen_at = _at(part, indices, shape, batch)
    update = lax.reshape(update, (*part.shape, batch.size))
    update = jnp.broadcast_to(update, operand.shape)
    name = eqn.primitive.name
    if name in NEUTRAL:
        # The sum is computed in all places instead of being selected afterwards, because a compiler
        # would contract a sum with an update that is a product. x + -0 and x - 0 are x, even if x
        # is 0 or -0. Only subnormal numbers become 0, as in all arithmetic.
        nothing = lax.full_like(update, NEUTRAL[name])
        return UPDATES[name](operand, lax.select(chosen_at, update, nothing))
    if name in UPDATES:
        update = UPDATES[name](operand, update)
    return lax.select(chosen_at, update, operand)


# Each is (equation, operands, batch) -> arrays that have the batch as their last axis.
RULES = {
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    **dict.fromkeys(SCATTERS, _scatter),
}
