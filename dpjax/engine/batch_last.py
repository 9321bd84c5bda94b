"""Mapping a function over the last axis of its arguments: the layout that vectorizes.

``jax.vmap`` puts the batch in front wherever a scalar meets a vector; the trailing axis is then
that of a few arms, which no processor vectorizes. Here the batch stays behind: a traced function
is evaluated equation by equation on values whose last axis is the batch. Every axis that an
equation names is then where it was, so that nearly all of them are bound again as they are. A
primitive that is not known here is mapped by ``jax.vmap``, alone.

Two things differ from ``vmap`` besides the layout, and neither changes a number. What does not
depend on the batch carries no batch axis, through loops too: round counters and shared losses are
computed once. And the keys of threefry2x32, JAX's default, travel as two separate arrays of words,
drawn from by the function of jax.random, written out so that it joins what uses it in one kernel.
The layout itself may: of short rows compilers contract some products and sums, and not others.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax import random as jr
from jax.extend.core import Literal
from jax.lax import GatherScatterMode

from dpjax.engine.interpret import scan_sizes
from dpjax.generators import rounds_of, threefry2x32, wrap


def batch_last(function, batched):
    """``function`` mapped over the last axis of some of its arguments.

    The same values as ``jax.vmap(function, in_axes, out_axes=-1)`` with -1 or None as in_axes.

    Args:
      function: of positional arguments, pytrees of arrays; traced once.
      batched: for each argument whether all its leaves carry the batch as their last axis.

    Returns:
      A function of the same arguments, whose outputs all carry the batch as their last axis.

    Raises:
      ValueError: no argument is batched, or their last axes differ in length.
    """

    def mapped(*arguments):
        flags = [
            flag
            for flag, argument in zip(batched, arguments, strict=True)
            for _ in jax.tree.leaves(argument)
        ]
        leaves, structure = jax.tree.flatten(arguments)
        lengths = {leaf.shape[-1] for leaf, flag in zip(leaves, flags, strict=True) if flag}
        if len(lengths) != 1:
            raise ValueError(
                f"batched arguments must have one common last axis; got lengths {sorted(lengths)}"
            )
        shapes = [
            jax.ShapeDtypeStruct(leaf.shape[:-1] if flag else leaf.shape, leaf.dtype)
            for leaf, flag in zip(leaves, flags, strict=True)
        ]
        closed, output = jax.make_jaxpr(function, return_shape=True)(
            *jax.tree.unflatten(structure, shapes)
        )
        (size,) = lengths
        inputs = [
            _as_lanes(leaf) if flag else leaf for leaf, flag in zip(leaves, flags, strict=True)
        ]
        batch = Batch(size, _certain(jax.tree.leaves(inputs)))
        results = [_as_array(_with_lanes(x, batch)) for x in _evaluate(closed, inputs, batch)]
        return jax.tree.unflatten(jax.tree.structure(output), results)

    return mapped


class Batch(NamedTuple):
    size: int  # B
    certain: Any  # () bool, true, though no compiler knows it; None to let them join kernels


def _certain(arrays):
    """A condition that always holds, on any of the arrays, () bool; None where it would cost."""
    if jax.default_backend() != "cpu":
        return None
    for array in arrays:
        if array.size and array.dtype.itemsize == 4 and not _is_key(array):
            word = lax.bitcast_convert_type(array[(0,) * array.ndim], jnp.uint32)
            return (word | np.uint32(1)) != np.uint32(0)
    return None


class Lanes(NamedTuple):
    """A value that differs between the members of the batch."""

    value: Any  # array (..., B), or keys of threefry2x32 as Words or Folded


@partial(jax.tree_util.register_dataclass, data_fields=("first", "second"), meta_fields=("rounds",))
@dataclass(frozen=True)
class Words:
    """Keys as two arrays."""

    first: Any  # uint32
    second: Any  # uint32
    rounds: int  # of threefry


class Folded(NamedTuple):
    """Keys into which data is yet to be folded: by whoever draws from them, in the same kernel."""

    keys: Any  # Words or Folded
    data: Any  # uint32


def _evaluate(closed, inputs, batch) -> list:
    """The outputs of a program whose inputs are arrays or Lanes."""
    values: dict[Any, Any] = {}

    def read(atom):
        return np.asarray(atom.val, atom.aval.dtype) if isinstance(atom, Literal) else values[atom]

    values.update(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    values.update(zip(closed.jaxpr.invars, inputs, strict=True))
    for eqn in closed.jaxpr.eqns:
        operands = [read(atom) for atom in eqn.invars]
        name = eqn.primitive.name
        if name not in _CALLED and not name.startswith("random"):
            operands = [_forced(x) for x in operands]
        if not any(isinstance(x, Lanes) for x in operands):
            outputs = _bind(eqn, operands)
        elif name in _PROGRAMS:
            outputs = _PROGRAMS[name](eqn, operands, batch)
        elif name in _RULES and _applies(eqn, operands):
            outputs = _by_rule(eqn, operands, batch)
        else:
            outputs = _by_vmap(eqn, operands)
        values.update(zip(eqn.outvars, outputs, strict=True))
    return [read(atom) for atom in closed.jaxpr.outvars]


def _bind(eqn, operands, **changes) -> list:
    parameters = eqn.primitive.get_bind_params({**eqn.params, **changes})
    outputs = eqn.primitive.bind(*operands, **parameters)
    return list(outputs) if eqn.primitive.multiple_results else [outputs]


def _by_vmap(eqn, operands) -> list:
    axes = [-1 if isinstance(x, Lanes) else None for x in operands]
    arrays = [_as_array(x) for x in operands]
    outputs = jax.vmap(lambda *xs: _bind(eqn, xs), in_axes=axes, out_axes=-1)(*arrays)
    return [_as_lanes(x) for x in outputs]


def _as_lanes(array) -> Lanes:
    """An array whose last axis is the batch, as a value; keys of threefry as words."""
    return Lanes(_words(array) if rounds_of(array.dtype) else array)


def _words(keys) -> Words:
    data = jr.key_data(keys)
    return Words(data[..., 0], data[..., 1], rounds_of(keys.dtype))


def _as_array(value):
    """The array of a value, with keys as keys."""
    array = _forced(value).value if isinstance(value, Lanes) else value
    if isinstance(array, Words):
        return wrap(jnp.stack([array.first, array.second], axis=-1), array.rounds)
    return array


def _with_lanes(value, batch) -> Lanes:
    """A value that all members of the batch share, repeated for each; Lanes as they are."""
    if isinstance(value, Lanes):
        return _forced(value)
    value = jnp.asarray(value)
    if rounds_of(value.dtype):
        value = _words(value)
    return Lanes(jax.tree.map(lambda x: _spread(x, x.shape, batch), value))


def _spread(array, shape, batch):
    """An array without batch axis, () or of the given shape, as (*shape, B)."""
    return lax.broadcast_in_dim(array, (*shape, batch.size), range(array.ndim))


# Primitives that work on values with the batch behind.


def _by_rule(eqn, operands, batch) -> list:
    """Binds an equation again; one that moves keys about, for each of their words."""
    rule = _RULES[eqn.primitive.name]
    if not any(jnp.issubdtype(atom.aval.dtype, jax.dtypes.prng_key) for atom in eqn.invars):
        return [Lanes(x) for x in rule(eqn, operands, batch)]
    operands = [_with_lanes(x, batch) if _is_key(x) else x for x in operands]
    outputs = [
        rule(eqn, [Lanes(getattr(x.value, word)) if _is_key(x) else x for x in operands], batch)
        for word in ("first", "second")
    ]
    rounds = rounds_of(eqn.outvars[0].aval.dtype)
    return [Lanes(Words(*pair, rounds)) for pair in zip(*outputs, strict=True)]


def _is_key(value) -> bool:
    if isinstance(value, Lanes):
        return isinstance(value.value, Words | Folded)
    return jnp.issubdtype(jnp.result_type(value), jax.dtypes.prng_key)


def _applies(eqn, operands) -> bool:
    """Whether the rule holds for this equation, whose keys, if any, are those of threefry."""
    name = eqn.primitive.name
    keys = [
        atom.aval.dtype
        for atom in (*eqn.invars, *eqn.outvars)
        if jnp.issubdtype(atom.aval.dtype, jax.dtypes.prng_key)
    ]
    if not all(map(rounds_of, keys)):
        return False
    if name in _INDEXED:
        own = any(isinstance(x, Lanes) for x in operands[_INDEXED[name]])
        return _is_one_of_few(eqn) if own else True
    if name == "bitcast_convert_type":
        return eqn.invars[0].aval.dtype.itemsize == eqn.outvars[0].aval.dtype.itemsize
    if name == "reshape":
        return eqn.params["dimensions"] is None
    return True


def _elementwise(eqn, operands, batch) -> list:
    (output,) = eqn.outvars
    shape = output.aval.shape
    return _bind(eqn, [_fit(x, shape, batch) for x in operands])


def _fit(operand, shape, batch):
    """An operand, a scalar perhaps, in the full shape (*shape, B)."""
    if not isinstance(operand, Lanes):
        return _spread(operand, shape, batch)
    array = operand.value
    if array.ndim == len(shape) + 1:
        return array
    return lax.broadcast_in_dim(array, (*shape, batch.size), (len(shape),))


def _same_axes(eqn, operands, batch) -> list:
    return _bind(eqn, [_with_lanes(x, batch).value for x in operands])


def _broadcast_in_dim(eqn, operands, batch) -> list:
    shape, dims = eqn.params["shape"], eqn.params["broadcast_dimensions"]
    operand = operands[0].value
    return [lax.broadcast_in_dim(operand, (*shape, batch.size), (*dims, len(shape)))]


def _reshape(eqn, operands, batch) -> list:
    return [lax.reshape(operands[0].value, (*eqn.params["new_sizes"], batch.size))]


def _transpose(eqn, operands, batch) -> list:
    order = eqn.params["permutation"]
    return [lax.transpose(operands[0].value, (*order, len(order)))]


def _slice(eqn, operands, batch) -> list:
    start, limit = eqn.params["start_indices"], eqn.params["limit_indices"]
    strides = eqn.params["strides"]
    strides = None if strides is None else (*strides, 1)
    return [lax.slice(operands[0].value, (*start, 0), (*limit, batch.size), strides)]


def _dynamic_slice(eqn, operands, batch) -> list:
    operand, *indices = operands
    if _differ(indices):
        return [_read(eqn, operand, dict(enumerate(indices)), batch)]
    sizes = (*eqn.params["slice_sizes"], batch.size)
    return [lax.dynamic_slice(operand.value, (*indices, _zero(indices)), sizes)]


def _dynamic_update_slice(eqn, operands, batch) -> list:
    operand, update, *indices = operands
    operand, update = (_with_lanes(x, batch).value for x in (operand, update))
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
    return _bind(eqn, [operand.value, indices], **changes)


def _scatter(eqn, operands, batch) -> list:
    operand, indices, updates = operands
    numbers = eqn.params["dimension_numbers"]
    operand, updates = (_with_lanes(x, batch).value for x in (operand, updates))
    if _differ([indices]):
        indices = _by_axis(numbers.scatter_dims_to_operand_dims, indices)
        return [_written(eqn, operand, indices, updates, batch)]
    window = (*numbers.update_window_dims, eqn.invars[2].aval.ndim)
    numbers = numbers._replace(update_window_dims=window)
    return _bind(eqn, [operand, indices, updates], dimension_numbers=numbers)


# A place of each member's own, among few: found by comparison, which joins its neighbours in one
# kernel, where reading or writing at an index does not.


def _differ(indices) -> bool:
    return any(isinstance(x, Lanes) for x in indices)


def _by_axis(axes, indices) -> dict:
    """The index along each axis, from a vector of them (n, B)."""
    return {axis: Lanes(indices.value[i]) for i, axis in enumerate(axes)}


class Part(NamedTuple):
    """What an equation reads or writes of its operand at one index."""

    shape: tuple  # (n_1, ...), along all axes of the operand
    axes: tuple  # those that have an index
    moved: bool  # whether an index out of range means the nearest place, or none


def _part(eqn) -> Part | None:
    """The part that an equation is about; None where it is about several."""
    name, parameters = eqn.primitive.name, eqn.params
    axes = tuple(range(eqn.invars[0].aval.ndim))
    if name == "dynamic_slice":
        return Part(parameters["slice_sizes"], axes, True)
    if name == "dynamic_update_slice":
        return Part(eqn.invars[1].aval.shape, axes, True)
    numbers, mode = parameters["dimension_numbers"], parameters["mode"]
    if eqn.invars[1].aval.ndim != 1 or mode == GatherScatterMode.ONE_HOT:
        return None
    moved = mode == GatherScatterMode.CLIP
    if name == "gather":
        # What is promised to be in bounds XLA moves there, and drops where it is written.
        moved |= mode == GatherScatterMode.PROMISE_IN_BOUNDS
        return Part(parameters["slice_sizes"], numbers.start_index_map, moved)
    sizes = iter(eqn.invars[2].aval.shape)
    shape = tuple(1 if axis in numbers.inserted_window_dims else next(sizes) for axis in axes)
    return Part(shape, numbers.scatter_dims_to_operand_dims, moved)


def _is_one_of_few(eqn) -> bool:
    """Whether an equation is about one entry along each axis with an index, of few places.

    Along axes without an index, or with one that can only be 0, it is about all of them.
    """
    dtype, part = eqn.invars[0].aval.dtype, _part(eqn)
    if part is None or jnp.issubdtype(dtype, jnp.complexfloating):
        return False
    if eqn.primitive.name == "scatter" and eqn.params["update_jaxpr"] is not None:
        return False  # a function of the entry
    if eqn.primitive.name == "gather" and _is_key_type(eqn.invars[0]) and not part.moved:
        return False  # no key stands for a missing one
    whole = eqn.invars[0].aval.shape
    rest = [axis for axis, size in enumerate(part.shape) if axis not in part.axes or size != 1]
    all_of_it = all(part.shape[axis] == whole[axis] for axis in rest)
    known = part.moved or not set(rest) & set(part.axes)
    places = np.prod([size for axis, size in enumerate(whole) if axis not in rest], dtype=int)
    reads = eqn.primitive.name in ("dynamic_slice", "gather")
    return all_of_it and known and 1 <= places <= (_FEW_READ if reads else _FEW_WRITTEN)


# Places up to which comparing is the quicker way, measured on a CPU: one read costs as much as some
# twenty comparisons, and one write more than any number that was tried.
_FEW_READ, _FEW_WRITTEN = 16, 1024


def _here(part, indices, shape, batch):
    """Where the places of the members are, () or of an operand's full shape (*shape, B), bool."""
    here = jnp.ones((*shape, batch.size), bool)
    for axis, index in indices.items():
        if part.shape[axis] == 1:
            index = _with_lanes(index, batch).value
            if part.moved:
                index = jnp.clip(index, 0, shape[axis] - 1)
            along = (shape[axis], batch.size)
            places = lax.broadcasted_iota(index.dtype, along, 0)
            chosen = places == lax.broadcast_in_dim(index, along, (1,))
            here &= lax.broadcast_in_dim(chosen, here.shape, (axis, len(shape)))
    return here


def _read(eqn, operand, indices, batch):
    """Each member's part of an operand: all bits but its own masked, and the rest or-ed."""
    part, shape = _part(eqn), eqn.invars[0].aval.shape
    operand = _with_lanes(operand, batch).value
    here = _here(part, indices, shape, batch)
    axes = [axis for axis in part.axes if part.shape[axis] == 1]
    if operand.dtype == np.bool_:
        found = lax.reduce_or(here & operand, axes)
    else:
        bits = lax.bitcast_convert_type(operand, f"uint{8 * operand.dtype.itemsize}")
        found = lax.reduce_or(lax.select(here, bits, jnp.zeros_like(bits)), axes)
        found = lax.bitcast_convert_type(found, operand.dtype)
    if not part.moved:
        inside = lax.reduce_or(here, axes)
        found = lax.select(inside, found, lax.full_like(found, eqn.params["fill_value"]))
    return lax.reshape(found, (*eqn.outvars[0].aval.shape, batch.size))


def _written(eqn, operand, indices, update, batch):
    """An operand with each member's part of it written, or added to, or multiplied, and so on."""
    part, shape = _part(eqn), eqn.invars[0].aval.shape
    here = _here(part, indices, shape, batch)
    update = lax.reshape(update, (*part.shape, batch.size))
    update = jnp.broadcast_to(update, operand.shape)
    name = eqn.primitive.name
    if name in _NOTHING:
        # The sum in all places, and not chosen after: a compiler would contract it with a product
        # that the update is. x + -0 and x - 0 are x, also where x is 0 or -0; only numbers below
        # float32's normal ones become 0, as in all arithmetic here.
        nothing = lax.full_like(update, _NOTHING[name])
        return _UPDATES[name](operand, lax.select(here, update, nothing))
    if name in _UPDATES:
        update = _UPDATES[name](operand, update)
    return lax.select(here, update, operand)


def _zero(indices):
    return jnp.zeros((), jnp.result_type(indices[0]) if indices else jnp.int32)


def _pad(eqn, operands, batch) -> list:
    operand, value = operands
    if isinstance(value, Lanes):
        return [_as_array(x) for x in _by_vmap(eqn, operands)]
    return [lax.pad(operand.value, value, (*eqn.params["padding_config"], (0, 0, 0)))]


_ELEMENTWISE = [
    "abs", "acos", "acosh", "add", "and", "asin", "asinh", "atan", "atan2", "atanh",
    "bessel_i0e", "bessel_i1e", "bitcast_convert_type", "cbrt", "ceil", "clamp", "clz",
    "convert_element_type", "copy", "copy_p", "cos", "cosh", "digamma", "div", "eq", "erf",
    "erf_inv", "erfc", "exp", "exp2", "expm1", "floor", "ge", "gt", "igamma", "igammac",
    "integer_pow", "is_finite", "le", "lgamma", "log", "log1p", "logistic", "lt", "max", "min",
    "mul", "ne", "neg", "nextafter", "not", "or", "polygamma", "population_count", "pow",
    "real", "reduce_precision", "regularized_incomplete_beta", "rem", "round", "rsqrt",
    "select_n", "shift_left", "shift_right_arithmetic", "shift_right_logical", "sign", "sin",
    "sinh", "sqrt", "square", "stop_gradient", "sub", "tan", "tanh", "xor", "zeta",
]  # fmt: skip
_SAME_AXES = [
    "argmax", "argmin", "concatenate", "cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum",
    "reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_prod", "reduce_sum",
    "reduce_xor", "rev", "sort", "split", "squeeze", "stack",
]  # fmt: skip
_UPDATES = {
    "scatter-add": lax.add,
    "scatter-max": lax.max,
    "scatter-min": lax.min,
    "scatter-mul": lax.mul,
    "scatter-sub": lax.sub,
}
_NOTHING = {"scatter-add": -0.0, "scatter-sub": 0.0}
_SCATTERS = ("scatter", *_UPDATES)
# Where the operands are that say which elements are meant: a batch may differ in all but these.
_INDEXED = {
    "dynamic_slice": slice(1, None),
    "dynamic_update_slice": slice(2, None),
    "gather": slice(1, None),
    **dict.fromkeys(_SCATTERS, slice(1, 2)),
}
_RULES = {
    **dict.fromkeys(_ELEMENTWISE, _elementwise),
    **dict.fromkeys(_SAME_AXES, _same_axes),
    "broadcast_in_dim": _broadcast_in_dim,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    **dict.fromkeys(_SCATTERS, _scatter),
    "pad": _pad,
    "reshape": _reshape,
    "slice": _slice,
    "transpose": _transpose,
}


# Draws. The keys of all members of the batch, counters that they share.


def _blocks(keys: Words, shape) -> tuple:
    """Block 0, 1, ... of each key (..., B) in a new shape: two arrays (..., *shape, B)."""
    count = int(np.prod(shape))
    low = lax.reshape(lax.iota(np.uint32, count), (*shape, 1))
    inner = keys.first.shape[:-1]
    spread = [x.reshape(*inner, *[1] * len(shape), x.shape[-1]) for x in (keys.first, keys.second)]
    full = (*inner, *shape, keys.first.shape[-1])
    first, second, low = (jnp.broadcast_to(x, full) for x in (*spread, low))
    return threefry2x32(first, second, np.uint32(0), low, keys.rounds)


def _forced(value, batch=None):
    """A value with its keys as Words; by a kernel of their own, if the batch is given."""
    if not (isinstance(value, Lanes) and isinstance(value.value, Folded)):
        return value
    keys, data = value.value
    keys = _forced(Lanes(keys), batch).value

    def fold(keys, data):
        return threefry2x32(keys.first, keys.second, np.uint32(0), data, keys.rounds)

    if batch:
        return Lanes(_pairs(fold, batch, keys, data))
    return Lanes(Words(*fold(keys, data), keys.rounds))


def _pairs(function, batch, keys, *arrays) -> Words:
    """``function(keys, *arrays)``, words of keys, by one kernel.

    It writes one array, and two would compute every block twice: so the words leave it as complex
    numbers, with which nothing is computed.
    """
    if batch.certain is None:
        return Words(*function(keys, *arrays), keys.rounds)

    def joined(*arrays):
        real, imaginary = (lax.bitcast_convert_type(x, np.float32) for x in function(*arrays))
        return lax.complex(real, imaginary)

    both = _apart(joined, batch, keys, *arrays)
    words = lax.real(both), lax.imag(both)
    return Words(*(lax.bitcast_convert_type(x, np.uint32) for x in words), keys.rounds)


def _apart(function, batch, *arrays):
    """``function(*arrays)`` in kernels that nothing else joins.

    Compilers for CPU repeat a draw in every kernel that reads it, twenty instructions or two
    thousand: they do not look into a condition.
    """
    if batch.certain is None:
        return function(*arrays)
    return lax.cond(batch.certain, function, _zeros_like(function), *arrays)


def _zeros_like(function):
    """A function of the same arguments, whose outputs are zeros."""

    def zeros(*arguments):
        output = jax.eval_shape(function, *arguments)
        return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), output)

    return zeros


def _random_bits(eqn, operands, batch) -> list:
    (keys,) = operands
    width, shape = eqn.params["bit_width"], eqn.params["shape"]
    if not _is_key(keys) or width == 64 or np.prod(shape) >= 2**32:
        return _by_vmap(eqn, operands)
    if np.prod(shape) != 1:
        keys = _forced(keys, batch)  # once for all the draws
    dtype = eqn.outvars[0].aval.dtype

    def draw(keys):
        first, second = _blocks(_forced(keys).value, shape)
        return lax.convert_element_type(first ^ second, dtype)

    return [Lanes(_apart(draw, batch, keys))]


def _random_split(eqn, operands, batch) -> list:
    (keys,) = operands
    if not _is_key(keys):
        return _by_vmap(eqn, operands)
    shape = eqn.params["shape"]
    return [Lanes(_pairs(partial(_blocks, shape=shape), batch, _forced(keys, batch).value))]


def _random_fold_in(eqn, operands, batch) -> list:
    keys, data = operands
    if not rounds_of(eqn.invars[0].aval.dtype) or eqn.invars[1].aval.dtype.itemsize > 4:
        return _by_vmap(eqn, operands)
    shape = eqn.outvars[0].aval.shape
    data = _fit(data, shape, batch).astype(np.uint32)
    if not isinstance(keys, Lanes) or eqn.invars[0].aval.shape != shape:
        words = _with_lanes(keys, batch).value
        keys = Lanes(jax.tree.map(lambda x: _fit(Lanes(x), shape, batch), words))
    return [Lanes(Folded(keys.value, data))]


def _random_unwrap(eqn, operands, batch) -> list:
    (keys,) = operands
    if not _is_key(keys):
        return _by_vmap(eqn, operands)
    words = _forced(keys, batch).value
    if batch.certain is None:
        return [Lanes(jnp.stack([words.first, words.second], axis=-2))]
    shape = (*words.first.shape[:-1], 2, batch.size)

    def interleave(words):
        odd = lax.broadcasted_iota(np.int32, shape, len(shape) - 2) == 1
        words = (words.first, words.second)
        first, second = (jnp.broadcast_to(jnp.expand_dims(x, -2), shape) for x in words)
        return lax.select(odd, second, first)

    # Apart, since what interleaves is not vectorized together with what follows.
    return [Lanes(_apart(interleave, batch, words))]


def _random_wrap(eqn, operands, batch) -> list:
    (data,) = operands
    rounds = rounds_of(eqn.outvars[0].aval.dtype)
    if not rounds:
        return _by_vmap(eqn, operands)
    return [Lanes(Words(data.value[..., 0, :], data.value[..., 1, :], rounds))]


# Programs within a program.


def _call(parameter):
    def rule(eqn, operands, batch):
        return _evaluate(eqn.params[parameter], operands, batch)

    return rule


def _jit(eqn, operands, batch) -> list:
    closed = eqn.params["jaxpr"]
    drawn = _drawn(closed) if any(_is_key(x) and isinstance(x, Lanes) for x in operands) else 0
    if not drawn:
        return _evaluate(closed, operands, batch)
    if drawn > 1:
        operands = [_forced(x, batch) for x in operands]  # keys, once for all the draws
    depends = _depends(closed, _flags(operands))
    # One number is drawn and made by one kernel; of several the bits, then what is made of them.
    inside = batch if drawn > 1 else batch._replace(certain=None)

    def draw(*operands):
        return _carry(_evaluate(closed, operands, inside), depends, inside)

    return list(_apart(draw, batch, *operands))


def _drawn(closed) -> int:
    """How many numbers a program draws, if it makes as many of them one by one; 0 if it does not.

    Its operations can then be one kernel, which computes nothing twice.
    """
    eqns = list(_equations(closed))
    names = [eqn.primitive.name for eqn in eqns]
    sizes = [
        var.aval.size * (1 + _is_key_type(var))  # two words a key
        for eqn, name in zip(eqns, names, strict=True)
        if name in ("random_bits", "random_split")
        for var in eqn.outvars
    ]
    if not sizes and "random_fold_in" in names:  # then a key's own words are drawn
        sizes = [1]
    if len(sizes) != 1 or any(map(_is_key_type, closed.jaxpr.outvars)):
        return 0
    simple = _ONE_BY_ONE.issuperset(names)
    largest = max(var.aval.size for eqn in eqns for var in (*eqn.invars, *eqn.outvars))
    return sizes[0] if simple and largest <= max(sizes[0], 2) else 0


def _equations(closed):
    """The equations of a program, those of what it calls among them."""
    for eqn in closed.jaxpr.eqns:
        if eqn.primitive.name in _CALLED:
            yield from _equations(eqn.params[_CALLED[eqn.primitive.name]])
        else:
            yield eqn


def _is_key_type(atom) -> bool:
    return jnp.issubdtype(atom.aval.dtype, jax.dtypes.prng_key)


def _cond(eqn, operands, batch) -> list:
    index, *operands = operands
    branches = eqn.params["branches"]
    flags = [isinstance(x, Lanes) for x in operands]
    if isinstance(index, Lanes):
        # Its members go different ways: a branch that any of them takes, and each keeps its own.
        outputs = [
            _if_taken(index.value == np.asarray(i, index.value.dtype), branch, operands, batch)
            for i, branch in enumerate(branches)
        ]
        return [_select(index.value, cases) for cases in zip(*outputs, strict=True)]
    each = [_depends(branch, flags) for branch in branches]
    depends = [any(column) for column in zip(*each, strict=True)]
    outputs = lax.switch(
        index,
        [
            lambda *xs, b=branch: _carry(_evaluate(b, xs, batch), depends, batch)
            for branch in branches
        ],
        *operands,
    )
    return outputs


def _if_taken(takes, branch, operands, batch) -> list[Lanes]:
    """The outputs of a branch, or zeros where no member takes it.

    Only on CPU: an accelerator would wait for the answer, not the longer for one branch more.
    """

    def taken(*operands):
        return [_with_lanes(x, batch) for x in _evaluate(branch, operands, batch)]

    other_keys = any(_is_key_type(x) and not rounds_of(x.aval.dtype) for x in branch.jaxpr.outvars)
    if batch.certain is None or other_keys or not branch.jaxpr.eqns:
        return taken(*operands)
    return lax.cond(jnp.any(takes), taken, _zeros_like(taken), *operands)


def _select(index, cases) -> Lanes:
    """The case of each member's index (B,), false or true where there are two."""

    def select(*arrays):
        which = jnp.broadcast_to(index, arrays[0].shape)
        if index.dtype != bool and len(arrays) == 2:
            which = which > 0
        return lax.select_n(which, *arrays)

    return Lanes(jax.tree.map(select, *[case.value for case in cases]))


def _scan(eqn, operands, batch) -> list:
    parameters = eqn.params
    body, (n, m) = parameters["jaxpr"], scan_sizes(eqn)
    constants, start, rows = operands[:n], operands[n : n + m], operands[n + m :]

    def after(carry):
        return _depends(body, [*_flags(constants), *carry, *_flags(rows)])[:m]

    depends = _fixed_point(after, _flags(start))
    outputs = _depends(body, [*_flags(constants), *depends, *_flags(rows)])[m:]

    def step(carry, row):
        results = _evaluate(body, [*constants, *carry, *row], batch)
        return _carry(results[:m], depends, batch), _carry(results[m:], outputs, batch)

    last, stacked = lax.scan(
        step,
        _carry(start, depends, batch),
        rows,
        length=parameters["length"],
        reverse=parameters["reverse"],
        unroll=parameters["unroll"],
    )
    return [*last, *stacked]


def _while(eqn, operands, batch) -> list:
    test, body = eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]
    n, m = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    of_test, of_body, start = operands[:n], operands[n : n + m], operands[n + m :]

    def after(carry):
        return _depends(body, [*_flags(of_body), *carry])

    depends = _fixed_point(after, _flags(start))
    apart = _depends(test, [*_flags(of_test), *depends])[0]
    if apart:  # Members stop at different times: then all that is carried differs.
        depends = [True] * len(start)

    def going(carry):
        return _evaluate(test, [*of_test, *carry], batch)[0]

    def step(carry):
        results = _carry(_evaluate(body, [*of_body, *carry], batch), depends, batch)
        if not apart:
            return results
        index = going(carry).value
        return [_select(index, pair) for pair in zip(carry, results, strict=True)]

    return lax.while_loop(
        (lambda carry: jnp.any(going(carry).value)) if apart else going,
        step,
        _carry(start, depends, batch),
    )


def _flags(values) -> list[bool]:
    return [isinstance(x, Lanes) for x in values]


def _carry(values, depends, batch) -> list:
    """Values with lanes where ``depends`` says so."""
    return [_with_lanes(x, batch) if flag else x for x, flag in zip(values, depends, strict=True)]


def _fixed_point(after, flags) -> list[bool]:
    """The least flags, at least those given, that a loop's body keeps."""
    while True:
        grown = [a or b for a, b in zip(flags, after(flags), strict=True)]
        if grown == flags:
            return flags
        flags = grown


def _depends(closed, flags) -> list[bool]:
    """Which outputs of a program depend on the inputs that are flagged."""
    known: dict[Any, bool] = {}

    def read(atom):
        return not isinstance(atom, Literal) and known[atom]

    known.update(dict.fromkeys(closed.jaxpr.constvars, False))
    known.update(zip(closed.jaxpr.invars, flags, strict=True))
    for eqn in closed.jaxpr.eqns:
        inputs = [read(atom) for atom in eqn.invars]
        name, parameters = eqn.primitive.name, eqn.params
        if not any(inputs):
            outputs = [False] * len(eqn.outvars)
        elif name in _CALLED:
            outputs = _depends(parameters[_CALLED[name]], inputs)
        elif name == "cond" and not inputs[0]:
            each = [_depends(branch, inputs[1:]) for branch in parameters["branches"]]
            outputs = [any(column) for column in zip(*each, strict=True)]
        elif name == "scan":
            n, m = scan_sizes(eqn)

            def after(carry, eqn=eqn, inputs=inputs, n=n, m=m):
                return _depends(eqn.params["jaxpr"], [*inputs[:n], *carry, *inputs[n + m :]])

            carry = _fixed_point(lambda carry, f=after, m=m: f(carry)[:m], inputs[n : n + m])
            outputs = [*carry, *after(carry)[m:]]
        elif name == "while":
            n, m = parameters["cond_nconsts"], parameters["body_nconsts"]

            def after(carry, eqn=eqn, inputs=inputs, n=n, m=m):
                return _depends(eqn.params["body_jaxpr"], [*inputs[n : n + m], *carry])

            carry = _fixed_point(after, inputs[n + m :])
            apart = _depends(parameters["cond_jaxpr"], [*inputs[:n], *carry])[0]
            outputs = [apart or flag for flag in carry]
        else:
            outputs = [True] * len(eqn.outvars)
        known.update(zip(eqn.outvars, outputs, strict=True))
    return [read(atom) for atom in closed.jaxpr.outvars]


_CALLED = {
    "jit": "jaxpr",
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}
_ONE_BY_ONE = {
    *_ELEMENTWISE, "broadcast_in_dim", "random_bits", "random_fold_in", "random_split",
    "random_unwrap", "random_wrap", "reshape", "slice", "squeeze",
}  # fmt: skip
_PROGRAMS = {
    **{name: _call(parameter) for name, parameter in _CALLED.items()},
    "jit": _jit,
    "cond": _cond,
    "random_bits": _random_bits,
    "random_fold_in": _random_fold_in,
    "random_split": _random_split,
    "random_unwrap": _random_unwrap,
    "random_wrap": _random_wrap,
    "scan": _scan,
    "while": _while,
}
