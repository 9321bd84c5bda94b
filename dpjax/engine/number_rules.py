"""Equations on numbers: arithmetic is done entry by entry, and what moves entries is done at once.

Each rule takes an equation and the values of its operands, and returns a list of values.
"""

import numpy as np
from jax import lax

from dpjax.engine import walk
from dpjax.engine.lane_rules import ELEMENTWISE
from dpjax.engine.numbers import Key, Number, apart, compute, each, filled, known, select

# These are rounded correctly wherever they are computed, so that they may be computed at once.
_EXACT = {"abs", "add", "ceil", "clamp", "div", "floor", "max", "min", "mul", "neg", "select_n",
          "sign", "sqrt", "square", "sub"}  # fmt: skip
_SAME = {"copy", "copy_p", "stop_gradient"}
# The most rows of a sort, which compares each with each.
_SORTED = 16


class NoRule(Exception):
    """An equation has no rule on numbers. The message names it."""


def _elementwise(eqn, operands) -> list:
    (output,) = eqn.outvars
    operands = [np.broadcast_to(apart(x), output.aval.shape) for x in operands]
    return [each(lambda *entries: _one(eqn, entries), *operands)]


def _one(eqn, entries):
    """An elementwise equation on one entry of each operand."""
    name = eqn.primitive.name
    if name in _SAME:
        return entries[0]
    if name == "select_n" and entries[0].known:
        return entries[1 + int(entries[0].value)]
    if name == "select_n" and all(x is entries[1] for x in entries[2:]):
        return entries[1]
    if isinstance(entries[-1], Key):
        index, *keys = entries
        words = [_one(eqn, [index, *(getattr(k, w) for k in keys)]) for w in ("first", "second")]
        return Key(*words, keys[0].generator)
    if name == "convert_element_type" and entries[0].dtype == eqn.params["new_dtype"]:
        return entries[0]

    def function(*scalars):
        return walk.bind(eqn, scalars)[0]

    floats = np.issubdtype(eqn.outvars[0].aval.dtype, np.floating)
    if not floats or name in _EXACT or name.startswith(("convert", "bitcast")):
        return compute(function, *entries)
    return Number(function(*(x.value for x in entries)), any(x.own for x in entries))


def _moved(function):
    """The rule of an equation that moves entries about, by a function of (parameters, *arrays)."""
    return lambda eqn, operands: [function(eqn.params, *map(apart, operands))]


def _broadcast_in_dim(params, x, *_):
    shape = [1] * len(params["shape"])
    for axis, size in zip(params["broadcast_dimensions"], x.shape, strict=True):
        shape[axis] = size
    return np.broadcast_to(x.reshape(shape), params["shape"])


def _slice(params, x):
    strides = params["strides"] or (1,) * x.ndim
    bounds = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
    return x[tuple(slice(*each_axis) for each_axis in bounds)]


def _squeeze(params, x):
    return x.reshape([n for axis, n in enumerate(x.shape) if axis not in params["dimensions"]])


def _pad(params, x, value):
    config = params["padding_config"]
    if any(low < 0 or high < 0 or inner for low, high, inner in config):
        raise NoRule("pad by negative or inner widths")
    shape = [low + n + high for n, (low, high, _) in zip(x.shape, config, strict=True)]
    padded = filled(shape, [value[()]] * int(np.prod(shape, dtype=int)))
    inside = zip(x.shape, config, strict=True)
    padded[tuple(slice(low, low + n) for n, (low, _, _) in inside)] = x
    return padded


def _split(eqn, operands) -> list:
    ends = np.cumsum(eqn.params["sizes"])[:-1]
    return list(np.split(apart(operands[0]), ends, eqn.params["axis"]))


def _unstack(eqn, operands) -> list:
    rows = np.moveaxis(apart(operands[0]), eqn.params["axis"], 0)
    return [rows[i, ...] for i in range(len(rows))]  # arrays, those without axes too


def _iota(eqn, operands) -> list:
    if operands:
        raise NoRule("iota of a traced shape")
    shape, axis = eqn.params["shape"], eqn.params["dimension"]
    along = np.arange(shape[axis], dtype=eqn.params["dtype"])
    along = along.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return [known(np.broadcast_to(along, shape))]


def _reduced(function):
    """The rule of a reduction, from the first entry to the last, as XLA does on CPU."""

    def rule(eqn, operands) -> list:
        axes = eqn.params["axes"]
        x = apart(operands[0])
        rest = [n for axis, n in enumerate(x.shape) if axis not in axes]
        rows = np.moveaxis(x, axes, range(len(axes))).reshape(-1, int(np.prod(rest, dtype=int)))
        if not len(rows):
            raise NoRule(f"{eqn.primitive.name} of nothing")
        total = rows[0]
        for row in rows[1:]:
            total = each(lambda a, b: compute(function, a, b), total, row)
        return [total.reshape(rest)]

    return rule


def _running(function):
    """The rule of a running reduction."""

    def rule(eqn, operands) -> list:
        axis, step = eqn.params["axis"], -1 if eqn.params["reverse"] else 1
        rows, shape = _rows(operands[0], axis)
        rows = rows[::step]
        for i in range(1, len(rows)):
            rows[i] = each(lambda a, b: compute(function, a, b), rows[i - 1], rows[i])
        return [np.moveaxis(rows[::step].reshape(shape), 0, axis)]

    return rule


def _rows(value, axis) -> tuple:
    """The entries along an axis as rows (n, rest), and the shape of the array with it in front."""
    moved = np.moveaxis(apart(value), axis, 0)
    return moved.reshape(moved.shape[0], -1).copy(), moved.shape


def _extreme(better):
    """The rule of argmax or argmin: the first of the best entries, or the first that is NaN."""

    def is_better(new, old):
        return lax.bitwise_or(better(new, old), lax.bitwise_and(lax.ne(new, new), lax.eq(old, old)))

    def rule(eqn, operands) -> list:
        (axis,), dtype = eqn.params["axes"], eqn.params["index_dtype"]
        rows, shape = _rows(operands[0], axis)
        best, place = rows[0], known(np.zeros(rows[0].shape, dtype))
        for i, row in enumerate(rows[1:], 1):
            wins = each(lambda new, old: compute(is_better, new, old), row, best)
            here = known(np.full(row.shape, i, dtype))
            best, place = each(select, wins, row, best), each(select, wins, here, place)
        return [place.reshape(shape[1:])]

    return rule


def _dot_general(eqn, operands) -> list:
    (contracted, batched) = eqn.params["dimension_numbers"]
    left, right = (
        _by_role(apart(x), c, b) for x, c, b in zip(operands, contracted, batched, strict=True)
    )

    def entry(a, b):
        """The products of two rows, added up from the first to the last."""
        total = compute(lax.mul, a[0], b[0])
        for x, y in zip(a[1:], b[1:], strict=True):
            total = compute(lax.add, total, compute(lax.mul, x, y))
        return total

    entries = [
        entry(a, b)
        for rows, columns in zip(left, right, strict=True)
        for a in rows
        for b in columns
    ]
    return [filled(eqn.outvars[0].aval.shape, entries)]


def _by_role(x, contracted, batched):
    """An operand of a product as (batch, free, contracted)."""
    free = [axis for axis in range(x.ndim) if axis not in (*contracted, *batched)]
    sizes = [int(np.prod([x.shape[a] for a in axes], dtype=int)) for axes in (batched, free)]
    return x.transpose([*batched, *free, *contracted]).reshape(*sizes, -1)


def _sort(eqn, operands) -> list:
    axis, keys = eqn.params["dimension"], eqn.params["num_keys"]
    columns = [_rows(x, axis)[0] for x in operands]
    shape = _rows(operands[0], axis)[1]
    if len(columns[0]) > _SORTED:
        raise NoRule(f"sort of more than {_SORTED} numbers")

    def after(*entries):
        """Whether the first of two neighbours belongs behind the second."""
        answer = Number(np.bool_(False), False)
        for a, b in reversed(list(zip(entries[:keys], entries[keys:], strict=True))):
            same = compute(lambda a, b, x: lax.bitwise_and(lax.eq(a, b), x), a, b, answer)
            answer = compute(lambda a, b, x: lax.bitwise_or(lax.gt(a, b), x), a, b, same)
        return answer

    for end in range(len(columns[0]) - 1, 0, -1):
        for i in range(end):
            swap = each(after, *(x[i] for x in columns[:keys]), *(x[i + 1] for x in columns[:keys]))
            for x in columns:
                low, high = x[i].copy(), x[i + 1].copy()
                x[i], x[i + 1] = each(select, swap, high, low), each(select, swap, low, high)
    return [np.moveaxis(x.reshape(shape), 0, axis) for x in columns]


def _add_any(eqn, operands) -> list:
    """A sum of gradients."""
    return [each(lambda a, b: compute(lax.add, a, b), *map(apart, operands))]


RULES = {
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    "add_any": _add_any,
    "argmax": _extreme(lax.gt),
    "argmin": _extreme(lax.lt),
    "broadcast_in_dim": _moved(_broadcast_in_dim),
    "concatenate": _moved(lambda params, *xs: np.concatenate(xs, params["dimension"])),
    "cummax": _running(lax.max),
    "cummin": _running(lax.min),
    "cumprod": _running(lax.mul),
    "cumsum": _running(lax.add),
    "dot_general": _dot_general,
    "iota": _iota,
    "pad": _moved(_pad),
    "reduce_and": _reduced(lax.bitwise_and),
    "reduce_max": _reduced(lax.max),
    "reduce_min": _reduced(lax.min),
    "reduce_or": _reduced(lax.bitwise_or),
    "reduce_prod": _reduced(lax.mul),
    "reduce_sum": _reduced(lax.add),
    "reshape": _moved(lambda params, x, *_: x.reshape(params["new_sizes"])),
    "rev": _moved(lambda params, x: np.flip(x, params["dimensions"])),
    "slice": _moved(_slice),
    "sort": _sort,
    "split": _split,
    "squeeze": _moved(_squeeze),
    "stack": lambda eqn, operands: [np.stack([apart(x) for x in operands], eqn.params["axis"])],
    "tile": _moved(lambda params, x: np.tile(x, params["reps"])),
    "transpose": _moved(lambda params, x: x.transpose(params["permutation"])),
    "unstack": _unstack,
}
