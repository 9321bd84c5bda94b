"""Equations that move entries, all by one rule: running the primitive on the entries' numbers.

Entries are numbered. All moving equations of a program are run at once on these numbers, for every
possible index. This shows, for each place of the output, which entry each index moves there. In a
round, the index selects one of these entries.
"""

import itertools
from collections import Counter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dpjax.core._versions import Equation
from dpjax.engine.evaluate import rebind
from dpjax.engine.indexing import INDICES, part_of
from dpjax.engine.one_kernel import Unfit

STATIC = {
    "broadcast_in_dim", "concatenate", "copy", "copy_p", "iota", "pad", "reshape", "rev", "slice",
    "split", "squeeze", "stack", "stop_gradient", "tile", "transpose", "unstack",
}  # fmt: skip
INDEXED = set(INDICES)
OUTSIDE = -1  # the number of an entry that gets the fill value, for an index out of bounds
# If an equation moves more numbers, in total over all places of its index, its array is in memory.
_MOST_NUMBERS = 2**16


class Index(NamedTuple):
    """The possible values of an equation's index."""

    operands: slice  # which of its operands are indices
    counts: tuple  # the number of places along each axis that has an index
    clamped: bool  # True if an index out of bounds means the nearest place, False if it means none


def index_of(eqn: Equation) -> Index:
    """The index of an equation in :data:`INDEXED`."""
    part, shape = part_of(eqn), eqn.invars[0].aval.shape
    if part is None:
        raise Unfit(f"{eqn.primitive.name} of several parts, or in an unsupported mode")
    counts = tuple(shape[axis] - part.shape[axis] + 1 for axis in part.axes)
    return Index(INDICES[eqn.primitive.name], counts, part.moved)


def places(index: Index) -> np.ndarray:
    """All values of an index (n, axes); the last is out of bounds unless the index is clamped."""
    listed = list(itertools.product(*map(range, index.counts)))
    return np.array(listed if index.clamped else [*listed, [OUTSIDE] * len(index.counts)], np.int32)


class Moves:
    """How equations of a program move the entries of their operands."""

    def __init__(self, eqns):
        """Run the equations in :data:`STATIC` or :data:`INDEXED` on numbers, as one program."""
        moving = {_name(eqn): eqn for eqn in eqns if eqn.primitive.name in STATIC | INDEXED}
        moving = {name: eqn for name, eqn in moving.items() if _size(eqn) <= _MOST_NUMBERS}
        # All numbers are constants, so XLA evaluates the moves while it compiles the program.
        options: Any = {"xla_backend_optimization_level": 0}
        with jax.ensure_compile_time_eval():
            run = jax.jit(lambda: [_moved(eqn) for eqn in moving.values()])
            moved = run.lower().compile(options)() if moving else []
        self._moved = dict(zip(moving, jax.tree.map(np.asarray, moved), strict=True))

    def of(self, eqn) -> list[np.ndarray]:
        """The number of the entry that moves to each place of each output.

        The entries of all operands except indices are numbered, one operand after another. If the
        equation has an index, the first axis of the result is over the :func:`places` of the index,
        and the number is OUTSIDE if no entry moves to a place.

        Raises:
          Unfit: there are too many entries.
        """
        if _name(eqn) not in self._moved:
            shapes = ", ".join(str(atom.aval.shape) for atom in (*eqn.invars, *eqn.outvars))
            raise Unfit(f"{eqn.primitive.name} moves too many entries, of arrays {shapes}")
        return self._moved[_name(eqn)]


def _name(eqn) -> tuple:
    shapes = tuple(atom.aval.shape for atom in eqn.invars)
    return eqn.primitive.name, shapes, str(sorted(eqn.params.items()))


def _size(eqn) -> int:
    size = sum(atom.aval.size for atom in eqn.outvars)
    if eqn.primitive.name in STATIC:
        return size
    try:
        return size * int(np.prod(index_of(eqn).counts, dtype=int))
    except Unfit:
        return _MOST_NUMBERS + 1


def moving(eqn: Equation, operands) -> list:
    """The operands that are not indices."""
    if eqn.primitive.name in STATIC:
        return operands
    indices = set(range(len(operands))[index_of(eqn).operands])
    return [x for i, x in enumerate(operands) if i not in indices]


def _moved(eqn) -> list:
    """The result of an equation on the numbers of its entries, for all places of its index."""
    name, numbers, start = eqn.primitive.name, [], 0
    for atom in moving(eqn, eqn.invars):
        size = int(np.prod(atom.aval.shape, dtype=int))
        numbers.append((start + np.arange(size, dtype=np.int32)).reshape(atom.aval.shape))
        start += size
    if name in STATIC:
        return rebind(eqn, numbers)

    def at(place):
        if name.startswith("dynamic"):
            pairs = zip(place, eqn.invars[index_of(eqn).operands], strict=True)
            return rebind(eqn, [*numbers, *(x.astype(atom.aval.dtype) for x, atom in pairs)])
        index = jnp.broadcast_to(place, eqn.invars[1].aval.shape)
        if name == "gather":
            fill = {} if index_of(eqn).clamped else {"fill_value": OUTSIDE}
            return rebind(eqn, [*numbers, index], **fill)
        array, updates = numbers
        numbers_of = eqn.params["dimension_numbers"]
        return [lax.scatter(array, index, updates, numbers_of, mode=eqn.params["mode"])]

    return jax.vmap(at)(places(index_of(eqn)))


def common(column) -> Any:
    """The most frequent number of a column; among ties, the one that occurs last."""
    counts = Counter(reversed(column.tolist()))
    return max(counts, key=counts.__getitem__)
