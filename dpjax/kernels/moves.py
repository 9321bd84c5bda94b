"""Equations that move entries, by one rule: as the primitive moves whole numbers, so entries move.

All equations of a program are run at once on the numbers of their entries, at any index that they
may be given. An entry of the output is then chosen among those that some index puts there.
"""

import itertools
from collections import Counter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dpjax.engine.evaluate import rebind
from dpjax.engine.indexing import INDICES, part_of
from dpjax.engine.one_kernel import Unfit

STATIC = {
    "broadcast_in_dim", "concatenate", "copy", "copy_p", "iota", "pad", "reshape", "rev", "slice",
    "split", "squeeze", "stack", "stop_gradient", "tile", "transpose", "unstack",
}  # fmt: skip
INDEXED = set(INDICES)
OUTSIDE = -1  # the number of an entry that an index out of bounds leaves to the fill value
# What moves more numbers than these, at all places of its index together, has its array in memory.
_MOST_NUMBERS = 2**16


class Index(NamedTuple):
    """What an equation's index may be."""

    operands: slice  # which of its operands are indices
    counts: tuple  # along each axis that has an index, how many places it may name
    clamped: bool  # whether an index out of bounds means the nearest place; else it means none


def index_of(eqn) -> Index:
    """The index of an equation in :data:`INDEXED`."""
    part, shape = part_of(eqn), eqn.invars[0].aval.shape
    if part is None:
        raise Unfit(f"{eqn.primitive.name} of several parts, or of this mode")
    counts = tuple(shape[axis] - part.shape[axis] + 1 for axis in part.axes)
    return Index(INDICES[eqn.primitive.name], counts, part.moved)


def places(index) -> np.ndarray:
    """All that an index may be (n, axes), the last of them out of bounds unless it is clamped."""
    found = list(itertools.product(*map(range, index.counts)))
    return np.array(found if index.clamped else [*found, [OUTSIDE] * len(index.counts)], np.int32)


class Moves:
    """How equations of a program move the entries of their operands."""

    def __init__(self, eqns):
        """Runs all that are in :data:`STATIC` or :data:`INDEXED` on numbers, as one program."""
        moving = {_name(eqn): eqn for eqn in eqns if eqn.primitive.name in STATIC | INDEXED}
        moving = {name: eqn for name, eqn in moving.items() if _size(eqn) <= _MOST_NUMBERS}
        # The program holds constants alone, which XLA folds instead of compiling what moves them.
        options: Any = {"xla_backend_optimization_level": 0}
        with jax.ensure_compile_time_eval():
            run = jax.jit(lambda: [_moved(eqn) for eqn in moving.values()])
            found = run.lower().compile(options)() if moving else []
        self._moved = dict(zip(moving, jax.tree.map(np.asarray, found), strict=True))

    def of(self, eqn) -> list[np.ndarray]:
        """The number of the entry that comes to each place of each output.

        The entries of all operands that are no index are numbered one operand after the other. If
        the equation has an index, the first axis is over its :func:`places`, and the number is
        OUTSIDE if nothing comes there.

        Raises:
          Unfit: there are too many.
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


def moving(eqn, operands) -> list:
    """The operands that are no index."""
    if eqn.primitive.name in STATIC:
        return operands
    indices = set(range(len(operands))[index_of(eqn).operands])
    return [x for i, x in enumerate(operands) if i not in indices]


def _moved(eqn) -> list:
    """What an equation returns for the numbers of its entries, at all places of its index."""
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
    """The number that stands most often in a column, and last if there are several."""
    counts = Counter(reversed(column.tolist()))
    return max(counts, key=counts.__getitem__)
