"""Turns numbers of a program into arguments. Programs that differ only in these are compiled once.

A program is compared with another one that has the same text apart from its numbers, such as the
same game at another horizon. The numbers that differ become arguments; all others stay. All
arguments of one type form one vector, in which a number occurs once, even if several equations read
it.
"""

import hashlib
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr

from dpjax.engine.evaluate import ValueDomain, called, rebind


class Number(NamedTuple):
    """A number in a program, or an array of numbers."""

    place: Any  # its Literal or constant; None if it cannot become an argument
    value: np.ndarray


class Lifted(NamedTuple):
    """The numbers of a program that are arguments."""

    # id of a number's place -> (type of its vector, first index in the vector, shape of the number)
    places: dict[int, tuple[str, int, tuple]]
    vectors: dict[str, np.ndarray]  # (n,) the numbers of each type


def lifted(numbers: list[Number], others: list[Number]) -> tuple[str, Lifted]:
    """(digest of the equal numbers and of all places, the numbers that differ).

    Args:
      numbers: the numbers of a program.
      others: the numbers of another program of the same text.
    """
    pairs = [(number.place, number.value, other.value)
             for number, other in zip(numbers, others, strict=True)]  # fmt: skip
    differ = {id(place) for place, number, other in pairs
              if place is not None and number.tobytes() != other.tobytes()}  # fmt: skip
    places: dict[int, tuple] = {}
    slots: dict[tuple, tuple] = {}  # both values of a number -> its place in the vectors
    vectors: dict[str, list] = {}
    rest = hashlib.sha256()
    for place, number, other in pairs:
        if id(place) not in differ:
            rest.update(number.tobytes())
            continue
        if id(place) not in places:
            both = number.dtype.name, number.shape, number.tobytes(), other.tobytes()
            vector = vectors.setdefault(number.dtype.name, [])
            if both not in slots:
                slots[both] = number.dtype.name, len(vector), number.shape
                vector.extend(number.ravel())
            places[id(place)] = slots[both]
        rest.update(repr(places[id(place)]).encode())
    arrays = {name: np.array(vector, name) for name, vector in vectors.items()}
    return rest.hexdigest(), Lifted(places, arrays)


def with_arguments(program: ClosedJaxpr, numbers: Lifted) -> ClosedJaxpr:
    """The program with the vectors of lifted numbers as further arguments, sorted by type."""
    if not numbers.places:
        return program
    count = len(program.in_avals)

    def function(*arguments):
        vectors = dict(zip(sorted(numbers.vectors), arguments[count:], strict=True))

        def read(name, first, shape):
            return vectors[name][first : first + int(np.prod(shape))].reshape(shape)

        values = {slot: read(*slot) for slot in dict.fromkeys(numbers.places.values())}
        numbers_at = {place: values[slot] for place, slot in numbers.places.items()}
        return _Given(numbers_at).evaluate(program, arguments[:count])

    avals = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in program.in_avals]
    return jax.make_jaxpr(function)(*avals, *jax.tree.leaves(numbers.vectors))


class _Given(ValueDomain):
    """The domain of arrays, with other values for some numbers of the program.

    Equations without these numbers stay unchanged, and calls stay calls.
    """

    def __init__(self, values: dict[int, Any]):
        self.values = values  # id of the place of a number -> its value

    def constant(self, array):
        return self.values.get(id(array), array)

    def literal(self, atom):
        return self.values[id(atom)] if id(atom) in self.values else super().literal(atom)

    def bind(self, eqn, operands):
        if not self._stands_in(list(eqn.params.values())):
            return rebind(eqn, operands)
        if eqn.primitive.name in ("jit", "release"):
            return jax.jit(lambda *arrays: self.evaluate(called(eqn), arrays))(*operands)
        return super().bind(eqn, operands)

    def _stands_in(self, value) -> bool:
        """Whether a program, or one of several programs, contains one of these numbers."""
        if isinstance(value, tuple | list):
            return any(map(self._stands_in, value))
        if not hasattr(value, "eqns"):
            return False
        jaxpr = getattr(value, "jaxpr", value)
        atoms = [*jaxpr.outvars, *(atom for eqn in jaxpr.eqns for atom in eqn.invars)]
        if any(id(x) in self.values for x in (*getattr(value, "consts", ()), *atoms)):
            return True
        return any(self._stands_in(list(eqn.params.values())) for eqn in jaxpr.eqns)
