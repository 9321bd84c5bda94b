"""Rules for equations on entries: arithmetic entry by entry, and moves of entries.

Each rule takes the domain (:class:`dpjax.kernels.domain.Entries`), an equation and the entries of
its operands, and returns the values of its outputs.
"""

import itertools
from collections.abc import Sequence
from functools import lru_cache, partial, reduce

import jax
import numpy as np
from jax import lax

from dpjax.core._versions import Equation
from dpjax.core.generators import of
from dpjax.engine.batched_rules import ELEMENTWISE
from dpjax.engine.evaluate import rebind
from dpjax.engine.indexing import NEUTRAL, SCATTERS, UPDATES
from dpjax.engine.one_kernel import Unfit
from dpjax.kernels.entries import Entry, Key, as_keys, elementwise, filled, known, words_of
from dpjax.kernels.moves import INDEXED, OUTSIDE, STATIC, common, index_of, moving

# The largest number of rows in a sort, which compares all pairs.
_SORTED = 16


def _elementwise(domain, eqn, operands) -> list:
    shape = eqn.outvars[0].aval.shape
    operands = [np.broadcast_to(x, shape) for x in operands]
    return [elementwise(lambda *entries: _one(domain, eqn, entries), *operands)]


def _one(domain, eqn, entries):
    """An elementwise equation on one entry of each operand."""
    if isinstance(entries[-1], Key):
        index, *keys = entries
        words = [_one(domain, eqn, [index, *(getattr(k, w) for k in keys)]) for w in _WORDS]
        return Key(*words, keys[0].generator)
    if eqn.primitive.name == "select_n":
        index, *cases = entries
        if index.known:
            return cases[int(index.value)]
        if all(case is cases[0] for case in cases):
            return cases[0]
    if eqn.primitive.name == "convert_element_type" and entries[0].dtype == eqn.params["new_dtype"]:
        return entries[0]
    return domain.apply(eqn, entries)


_WORDS = "first", "second"


def _static(domain, eqn, operands) -> list:
    moved = np.concatenate([x.reshape(-1) for x in operands])
    return [moved[x.reshape(-1)].reshape(x.shape) for x in domain.moves.of(eqn)]


def _indexed(domain, eqn, operands) -> list:
    name, index, shape = eqn.primitive.name, index_of(eqn), eqn.outvars[0].aval.shape
    operands_moved = [x.reshape(-1) for x in moving(eqn, operands)]
    old, moved = operands_moved[0], np.concatenate(operands_moved)
    (numbers,), offsets = domain.moves.of(eqn), offset_dims(eqn)
    rows = starts_of(eqn, operands).items()
    conditions = {place: _conditions(domain, row, index) for place, row in rows}
    result: list[Entry | Key] = []
    columns = numbers.reshape(len(numbers), -1).T
    for place, column in zip(np.ndindex(*shape), columns, strict=True):
        outer = tuple(n for axis, n in enumerate(place) if axis not in offsets)
        default = common(column) if index.clamped else column[-1]
        if name in SCATTERS:
            default = len(result)  # the previous entry
        pairs = zip(conditions[outer], column, strict=False)
        pairs_of = [(at, moved[number]) for at, number in pairs if number != default]
        if name in UPDATES:
            result.append(_updated(domain, name, old[default], pairs_of))
        else:
            entry = moved[default] if default != OUTSIDE else fill_of(eqn)
            for at, other in pairs_of:
                entry = domain.select_entry(at, other, entry)
            result.append(entry)
    return [filled(shape, result)]


def offset_dims(eqn: Equation):
    """The axes of an output along which the index is constant."""
    if eqn.primitive.name == "gather":
        return eqn.params["dimension_numbers"].offset_dims
    return range(eqn.outvars[0].aval.ndim)


def starts_of(eqn: Equation, operands: Sequence) -> dict:
    """The indices of an equation: place in a table of indices -> index along each indexed axis."""
    indices = operands[index_of(eqn).operands]
    if eqn.primitive.name.startswith("dynamic"):
        return {(): [x[()] for x in indices]}
    (table,) = indices
    return {place: list(table[place]) for place in np.ndindex(*table.shape[:-1])}


def clamped(domain, row: Sequence, index) -> list[Entry]:
    """An index, clamped to the existing places."""

    def moved(x, count):
        low, high = (Entry(x.dtype.type(i)) for i in (0, count - 1))
        return low if count == 1 else domain.compute(lax.clamp, low, x, high)

    return list(map(moved, row, index.counts))


def _conditions(domain, row, index) -> list[Entry]:
    """For each place within bounds, whether it is the index."""
    row = clamped(domain, row, index) if index.clamped else row
    columns = [
        [equals(domain, x, i) for i in range(n)] for x, n in zip(row, index.counts, strict=True)
    ]
    return [domain.all_of(pairs) for pairs in itertools.product(*columns)]


def equals(domain, entry: Entry, number: int) -> Entry:
    """Whether an entry equals a number."""
    return domain.compute(lax.eq, entry, Entry(entry.dtype.type(number)))


def _updated(domain, name, old, updates):
    """The entry ``old``, updated by each found (condition, entry) whose condition holds.

    See :func:`dpjax.engine.indexing._written`.
    """
    if not updates:
        return old
    if name in NEUTRAL:
        new = Entry(old.dtype.type(NEUTRAL[name]))
        for place, update in updates:
            new = domain.select_entry(place, update, new)
        return domain.compute(UPDATES[name], old, new)
    entry = old
    for place, update in updates:
        entry = domain.select_entry(place, domain.compute(UPDATES[name], old, update), entry)
    return entry


def fill_of(eqn: Equation) -> Entry:
    """The result of a gather for an index out of bounds."""
    fill, dtype = eqn.params["fill_value"], eqn.outvars[0].aval.dtype
    if fill is None:
        limits = np.iinfo(dtype) if np.issubdtype(dtype, np.integer) else None
        signed = np.issubdtype(dtype, np.signedinteger)
        fill = np.nan if limits is None else limits.min if signed else limits.max
    return Entry(dtype.type(fill))


def _platform_index(domain, eqn, operands) -> list:
    # All platforms take the default branch.
    return [known(np.asarray(eqn.params["platforms"].index(None), np.int32))]


def _iota(domain, eqn, operands) -> list:
    if operands:
        raise Unfit("iota of a traced shape")
    return [known(domain.moves.of(eqn)[0])]


def _reduced(function):
    """The rule of a reduction, from the first entry to the last, as in XLA on CPU."""

    def rule(domain, eqn, operands) -> list:
        axes, (x,) = eqn.params["axes"], operands
        rest = [n for axis, n in enumerate(x.shape) if axis not in axes]
        rows = np.moveaxis(x, axes, range(len(axes))).reshape(-1, int(np.prod(rest, dtype=int)))
        if not len(rows):
            raise Unfit(f"{eqn.primitive.name} of an empty array")
        total = rows[0]
        for row in rows[1:]:
            total = elementwise(partial(domain.compute, function), total, row)
        return [total.reshape(rest)]

    return rule


def _running(function):
    """The rule of a running reduction."""

    def rule(domain, eqn, operands) -> list:
        axis, step = eqn.params["axis"], -1 if eqn.params["reverse"] else 1
        rows, shape = _rows(operands[0], axis)
        rows = rows[::step]
        for i in range(1, len(rows)):
            rows[i] = elementwise(partial(domain.compute, function), rows[i - 1], rows[i])
        return [np.moveaxis(rows[::step].reshape(shape), 0, axis)]

    return rule


def _rows(array, axis) -> tuple:
    """The entries along an axis as rows (n, rest), and the array's shape with the axis first."""
    moved = np.moveaxis(array, axis, 0)
    return moved.reshape(moved.shape[0], -1).copy(), moved.shape


def _extreme(compare):
    """The rule of argmax or argmin: the first of the best entries, or the first that is NaN."""

    def is_better(new, old):
        is_first_nan = lax.bitwise_and(lax.ne(new, new), lax.eq(old, old))
        return lax.bitwise_or(compare(new, old), is_first_nan)

    def rule(domain, eqn, operands) -> list:
        (axis,), dtype = eqn.params["axes"], eqn.params["index_dtype"]
        rows, shape = _rows(operands[0], axis)
        best, place = rows[0], known(np.zeros(rows[0].shape, dtype))
        for i, row in enumerate(rows[1:], 1):
            wins = elementwise(partial(domain.compute, is_better), row, best)
            equal = known(np.full(row.shape, i, dtype))
            best = elementwise(domain.select_entry, wins, row, best)
            place = elementwise(domain.select_entry, wins, equal, place)
        return [place.reshape(shape[1:])]

    return rule


def _dot_general(domain, eqn, operands) -> list:
    contracted, batched = eqn.params["dimension_numbers"]
    left, right = map(_by_role, operands, contracted, batched)

    def entry(a, b):
        """The sum of the products of two rows, from the first to the last."""
        products = [domain.compute(lax.mul, x, y) for x, y in zip(a, b, strict=True)]
        return reduce(partial(domain.compute, lax.add), products)

    pairs = ((a, b) for rows, columns in zip(left, right, strict=True)
             for a in rows for b in columns)  # fmt: skip
    return [filled(eqn.outvars[0].aval.shape, (entry(a, b) for a, b in pairs))]


def _by_role(x, contracted, batched):
    """An operand of a product as (batch, free, contracted)."""
    free = [axis for axis in range(x.ndim) if axis not in (*contracted, *batched)]
    sizes = [int(np.prod([x.shape[a] for a in axes], dtype=int)) for axes in (batched, free)]
    return x.transpose([*batched, *free, *contracted]).reshape(*sizes, -1)


def _is_later(a, b, same):
    """Whether a comes after b in the sorted order; ``same`` if they are equal."""
    return lax.bitwise_or(lax.gt(a, b), lax.bitwise_and(lax.eq(a, b), same))


def _sort(domain, eqn, operands) -> list:
    axis, keys = eqn.params["dimension"], eqn.params["num_keys"]
    columns = [_rows(x, axis)[0] for x in operands]
    shape = _rows(operands[0], axis)[1]
    if len(columns[0]) > _SORTED:
        raise Unfit(f"sort of more than {_SORTED} numbers")

    def after(*entries):
        """Whether the first of two neighbours belongs after the second."""
        answer = Entry(np.bool_(False))
        for a, b in reversed(list(zip(entries[:keys], entries[keys:], strict=True))):
            answer = domain.compute(_is_later, a, b, answer)
        return answer

    for end in range(len(columns[0]) - 1, 0, -1):
        for i in range(end):
            swap = elementwise(
                after, *(x[i] for x in columns[:keys]), *(x[i + 1] for x in columns[:keys])
            )
            for x in columns:
                low, high = x[i].copy(), x[i + 1].copy()
                x[i] = elementwise(domain.select_entry, swap, high, low)
                x[i + 1] = elementwise(domain.select_entry, swap, low, high)
    return [np.moveaxis(x.reshape(shape), 0, axis) for x in columns]


@lru_cache(maxsize=256)
def _number_of(generator, dtype):
    """The number of a block, as a function of its words."""
    return lambda *words: lax.convert_element_type(generator.number(words), dtype)


def _counters(shape) -> list[Entry]:
    return [Entry(np.uint32(i)) for i in range(int(np.prod(shape, dtype=int)))]


def _random_bits(domain, eqn, operands) -> list:
    width, shape = eqn.params["bit_width"], eqn.params["shape"]
    if width > 32:
        raise Unfit("random_bits of 64 bits")
    dtype = eqn.outvars[0].aval.dtype
    numbers = [
        domain.compute(_number_of(key.generator, dtype), *domain.block(key, x))
        for key in operands[0].reshape(-1)
        for x in _counters(shape)
    ]
    return [filled((*operands[0].shape, *shape), numbers)]


def _random_split(domain, eqn, operands) -> list:
    shape = eqn.params["shape"]
    keys = [domain.folded(key, x) for key in operands[0].reshape(-1) for x in _counters(shape)]
    return [filled((*operands[0].shape, *shape), keys)]


def _as_word(x):
    return lax.convert_element_type(x, np.uint32)


def _random_fold_in(domain, eqn, operands) -> list:
    keys, data = (np.broadcast_to(x, eqn.outvars[0].aval.shape) for x in operands)
    return [elementwise(lambda key, x: domain.folded(key, domain.compute(_as_word, x)), keys, data)]


def _random_seed(domain, eqn, operands) -> list:
    (seeds,) = operands
    if not all(x.known for x in seeds.reshape(-1)):
        raise Unfit("random_seed of a traced number")
    numbers = np.array([x.value for x in seeds.reshape(-1)]).reshape(seeds.shape)
    with jax.ensure_compile_time_eval():
        (keys,) = rebind(eqn, [numbers])
    return [known(keys)]


def _random_wrap(domain, eqn, operands) -> list:
    generator = of(eqn.outvars[0].aval.dtype)
    if not generator:
        raise Unfit("keys of another generator")
    return [as_keys(operands[0], generator)]


RULES = {
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    **dict.fromkeys(STATIC, _static),
    **dict.fromkeys(INDEXED, _indexed),
    "add_any": _elementwise,  # a sum of gradients
    "argmax": _extreme(lax.gt),
    "argmin": _extreme(lax.lt),
    "cummax": _running(lax.max),
    "cummin": _running(lax.min),
    "cumprod": _running(lax.mul),
    "cumsum": _running(lax.add),
    "dot_general": _dot_general,
    "iota": _iota,
    "platform_index": _platform_index,
    "random_bits": _random_bits,
    "random_fold_in": _random_fold_in,
    "random_seed": _random_seed,
    "random_split": _random_split,
    "random_unwrap": lambda domain, eqn, operands: [words_of(operands[0])],
    "random_wrap": _random_wrap,
    "reduce_and": _reduced(lax.bitwise_and),
    "reduce_max": _reduced(lax.max),
    "reduce_min": _reduced(lax.min),
    "reduce_or": _reduced(lax.bitwise_or),
    "reduce_prod": _reduced(lax.mul),
    "reduce_sum": _reduced(lax.add),
    "sort": _sort,
}
