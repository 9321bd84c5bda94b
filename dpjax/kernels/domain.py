"""Evaluates a program on entries within an accelerator kernel."""

import math
from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dpjax.engine.evaluate import CONTROL, ValueDomain, called, equations, rebind, scan_sizes
from dpjax.engine.one_kernel import Unfit
from dpjax.kernels.entries import (
    Entry,
    InMemory,
    Key,
    elementwise,
    entries,
    filled,
    from_memory,
    is_key,
    known,
    spread,
    to_memory,
    words_of,
)
from dpjax.kernels.moves import Moves, index_of
from dpjax.kernels.rules import RULES, clamped, equals, fill_of, offset_dims, starts_of

# A scan of at most this many rounds is unrolled if they contain no loop.
WRITTEN_OUT = 4
# The largest number of operations in the rounds. For more, compilers take more than 20 seconds.
MOST_OPERATIONS = 5000
# A constant with more entries stays in memory.
FEW_CONSTANTS = 128


@partial(jax.tree_util.register_dataclass, data_fields=("numbers",), meta_fields=("form",))
@dataclass(frozen=True)
class Handed:
    """A value in the form in which loops and branches pass it on: numbers, or an array's place."""

    numbers: list
    form: tuple  # (Memory or None, shape, type of each entry or the first row)


class Entries(ValueDomain):
    """The ValueDomain of a kernel. Its values are entries of arrays, and arrays in memory."""

    def __init__(self, target, moves, main, stacks):
        """
        Args:
          target: a :class:`dpjax.kernels.targets.Target`.
          moves: the :class:`Moves` of the program.
          main: the equation of the loop over the rounds.
          stacks: for each row that the loop returns, the array in memory to which it is written.
        """
        self.target, self.moves, self.main, self.stacks = target, moves, main, stacks
        self.operations = 0

    def constant(self, array):
        if array.size > FEW_CONSTANTS:
            raise Unfit("the rounds contain a large constant array")
        return known(array)

    def differs(self, value):
        if isinstance(value, InMemory):
            return value.memory.differs
        return any(entry.differs for entry in value.reshape(-1))

    # Arithmetic

    def apply(self, eqn, operands) -> Entry:
        """An elementwise equation on one entry of each operand."""
        values = [x.value for x in operands]
        if all(x.known for x in operands):
            with jax.ensure_compile_time_eval():
                return Entry(np.asarray(rebind(eqn, values)[0])[()])
        self.operations += 1
        if self.operations > MOST_OPERATIONS:
            raise Unfit(f"the rounds have more than {MOST_OPERATIONS} operations")
        return Entry(self.target.elementwise(eqn, values))

    def compute(self, function, *operands) -> Entry:
        """A function of scalars."""
        program = _traced(function, tuple(x.dtype for x in operands))
        values: dict[Any, Any] = dict(zip(program.jaxpr.invars, operands, strict=True))

        def read(atom):
            literal = isinstance(atom, jax.extend.core.Literal)
            return Entry(np.asarray(atom.val, atom.aval.dtype)[()]) if literal else values[atom]

        for eqn in program.jaxpr.eqns:
            values[eqn.outvars[0]] = self.apply(eqn, [read(atom) for atom in eqn.invars])
        return read(program.jaxpr.outvars[0])

    def select_entry(self, which, yes, no):
        """The entry ``yes`` if a condition is true, else ``no``."""
        if yes is no:
            return yes
        if isinstance(yes, Key):
            first = self.select_entry(which, yes.first, no.first)
            return Key(first, self.select_entry(which, yes.second, no.second), yes.generator)
        if which.known:
            return yes if which.value else no
        return self.compute(lax.select_n, which, no, yes)

    def all_of(self, conditions) -> Entry:
        """Whether all conditions are true; known conditions are evaluated at trace time."""
        if any(x.known and not x.value for x in conditions):
            return Entry(np.bool_(False))
        rest = [x for x in conditions if not x.known] or [Entry(np.bool_(True))]
        return reduce(partial(self.compute, lax.bitwise_and), rest)

    def block(self, key, counter) -> list[Entry]:
        """The random words of a key at a counter."""
        numbers = key.first, key.second, counter
        words = [x.value for x in numbers]
        if all(x.known for x in numbers):
            with jax.ensure_compile_time_eval():
                words = key.generator.block(*map(jnp.asarray, words))
                return [Entry(np.asarray(word)[()]) for word in words]
        self.operations += 1
        return list(map(Entry, self.target.block(words, key.generator)))

    def folded(self, key, counter) -> Key:
        """The key made from a block."""
        first, second, *_ = self.block(key, counter)
        return Key(first, second, key.generator)

    # Equations

    def bind(self, eqn, operands):
        name = eqn.primitive.name
        if name == "device_put":  # of an array of NumPy, traced by jax 0.7
            return operands
        if operands and isinstance(operands[0], InMemory) and name in _IN_MEMORY:
            return [_IN_MEMORY[name](self, eqn, operands)]
        if name in RULES:
            return RULES[name](self, eqn, list(map(entries, operands)))
        if name not in CONTROL and called(eqn) is None:
            raise Unfit(f"kernels do not support {name}")
        return super().bind(eqn, operands)

    def carried(self, value, differs):
        if isinstance(value, InMemory):
            value.check()
            if not isinstance(value.first, int):
                raise Unfit("a loop or branch passes on a part of an array in memory")
            return Handed([], (value.memory, value.shape, value.first))
        kinds = tuple(x.generator if isinstance(x, Key) else x.dtype for x in value.reshape(-1))
        value, shape = words_of(value) if is_key(value) else value, value.shape
        numbers = [self.target.carried(to_memory(x.value), differs) for x in value.reshape(-1)]
        return Handed(numbers, (None, shape, kinds))

    def restored(self, handed):
        memory, shape, kinds = handed.form
        if memory is not None:
            return InMemory(memory, shape, memory.written[0], kinds)
        numbers = iter(handed.numbers)

        def entry(kind):
            if isinstance(kind, np.dtype):
                return Entry(from_memory(next(numbers), kind))
            return Key(Entry(next(numbers)), Entry(next(numbers)), kind)

        return filled(shape, map(entry, kinds))

    def select(self, index, cases):
        if all(case is cases[0] for case in cases):
            return cases[0]
        if any(isinstance(case, InMemory) for case in cases):
            raise Unfit("trials select different arrays in memory")
        *rest, selected = cases
        for i, case in reversed(list(enumerate(rest))):
            equal = elementwise(
                lambda x, i=i: self.compute(lax.le, x, Entry(x.dtype.type(i))), index
            )
            equal = equal.reshape((*equal.shape, *[1] * (case.ndim - equal.ndim)))
            selected = elementwise(
                self.select_entry, np.broadcast_to(equal, case.shape), case, selected
            )
        return selected

    def truth(self, value):
        answer = reduce(partial(self.compute, lax.bitwise_or), value.reshape(-1)).value
        if not np.shape(answer):
            return answer
        return jnp.max(jnp.where(answer, np.float32(1), np.float32(0))) > np.float32(0)

    def switch(self, index, branches):
        index = index[()]
        if index.known:
            return branches[min(max(int(index.value), 0), len(branches) - 1)]()
        return lax.switch(index.value, branches)

    def rounds(self, eqn, step, start, rows):
        length, body = eqn.params["length"], eqn.params["jaxpr"].jaxpr
        order = range(length)[:: -1 if eqn.params["reverse"] else 1]
        loops = any(inner.primitive.name in ("scan", "while") for inner in equations(body))
        if length <= WRITTEN_OUT and not loops:
            stacked, carry = {}, start
            for i in order:
                carry, outputs = step(carry, [self._row(x, np.int32(i)) for x in rows])
                stacked[i] = list(map(self.restored, outputs))
            columns = zip(*(map(entries, stacked[i]) for i in range(length)), strict=True)
            return carry, [np.stack(column) for column in columns]
        stacks = self.stacks if eqn is self.main else []
        if len(eqn.outvars) - scan_sizes(eqn)[1] != len(stacks):
            raise Unfit("a loop within the rounds returns stacked rows")

        def one(i, carry):
            place = jnp.asarray(np.int32(length - 1) - i if eqn.params["reverse"] else i)
            carry, outputs = step(carry, [self._row(x, place) for x in rows])
            for stack, output in zip(stacks, map(self.restored, outputs), strict=True):
                _stack(stack, place, entries(output), self.target.lanes)
            return carry

        return lax.fori_loop(np.int32(0), np.int32(length), one, start), stacks

    def _row(self, value, place):
        """An input row of a scan."""
        if isinstance(value, InMemory):
            value.check()
            row = value.part(place * np.int32(math.prod(value.shape[1:])), value.shape[1:])
            return row if row.shape else entries(row)
        if isinstance(place, np.generic):
            return filled(
                value.shape[1:],
                value[int(place)].reshape(-1) if value.ndim > 1 else [value[int(place)]],
            )
        entries_of_row, index = value[-1:], Entry(place)
        for i in range(len(value) - 1):
            equal = equals(self, index, i)
            entries_of_row = elementwise(
                partial(self.select_entry, equal), value[i : i + 1], entries_of_row
            )
        return entries_of_row.reshape(value.shape[1:])


def _stack(stack, place, row, lanes) -> None:
    """Write an output row of a scan."""
    for i, entry in enumerate(row.reshape(-1)):
        at = place * np.int32(row.size) + np.int32(i)
        stack.memory.rows[at] = to_memory(spread(entry.value, lanes))


@lru_cache(maxsize=4096)
def _traced(function, dtypes):
    with jax.ensure_compile_time_eval():
        return jax.make_jaxpr(function)(*[jax.ShapeDtypeStruct((), x) for x in dtypes])


# Arrays in memory are read and written at an index. Other equations read all their entries.


def _read(domain, eqn, operands):
    value, *rest = operands
    index, shape, axes = index_of(eqn), eqn.outvars[0].aval.shape, range(len(value.shape))
    if eqn.primitive.name == "gather":
        axes = eqn.params["dimension_numbers"].start_index_map
    window_entries: list[Entry] = []
    for row in starts_of(eqn, [value, *map(entries, rest)]).values():
        moved, starts = clamped(domain, row, index), [np.int32(0)] * len(value.shape)
        if any(x.differs for x in moved) and (
            value.memory.differs or not domain.target.reads_apart
        ):
            raise Unfit("trials read an array in memory at different places")
        for axis, x in zip(axes, moved, strict=True):
            starts[axis] = x.value
        window = value.read(starts, eqn.params["slice_sizes"]).reshape(-1)
        if not index.clamped:
            pairs = zip(row, moved, strict=True)
            inside = domain.all_of([domain.compute(lax.eq, a, b) for a, b in pairs])
            window = [domain.select_entry(inside, x, fill_of(eqn)) for x in window]
        window_entries += list(window)
    inner = offset_dims(eqn)
    order = [*(axis for axis in range(len(shape)) if axis not in inner), *inner]
    return filled([shape[axis] for axis in order], window_entries).transpose(np.argsort(order))


def _write(domain, eqn, operands):
    value, (update, *starts) = operands[0], map(entries, operands[1:])
    row = clamped(domain, [x[()] for x in starts], index_of(eqn))
    if any(x.differs for x in row):
        raise Unfit("trials write an array in memory at different places")
    return value.write([x.value for x in row], update, domain.target.lanes)


_IN_MEMORY = {"dynamic_slice": _read, "dynamic_update_slice": _write, "gather": _read}


def moves_of(main) -> Moves:
    """How the equations of a loop move entries."""
    bodies = [
        main.params[name] for name in ("jaxpr", "cond_jaxpr", "body_jaxpr") if name in main.params
    ]
    return Moves(eqn for body in bodies for eqn in equations(body.jaxpr))
