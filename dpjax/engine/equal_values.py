"""Rewrites a program so that equal values are computed once, and carried once through loops.

The arm in a learner's state and the action that it plays are one number, but a loop carries both,
and no compiler finds out. Here each value of a program has a label, and values with equal labels
are equal. Two values that a loop carries are equal if they are equal at the start and each round
keeps them so: that is assumed first, and taken back where a round does not keep them so. What no
round changes is not carried at all.
"""

import itertools
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr

from dpjax.engine import walk

# An array of at most so many entries is known by what is in it.
_SMALL = 16


def once(closed) -> ClosedJaxpr:
    """The program, in which equal values are computed and carried once."""
    labels = _Labels({}, itertools.count())

    def function(*arguments):
        inputs = [Labelled(x, next(labels.fresh)) for x in arguments]
        return [x.array for x in _rewritten(closed, inputs, labels, {})]

    return jax.make_jaxpr(function)(*closed.in_avals)


class _Labels(NamedTuple):
    """All labels in use, which are whole numbers."""

    known: dict  # what a value is -> its label
    fresh: Any  # yields new labels

    def of(self, *what) -> int:
        """The label of all values that are the same in this."""
        return self.known.setdefault(what, next(self.fresh))

    def of_constant(self, array) -> int:
        """The label of an array that stands in the program."""
        if jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key) or array.size > _SMALL:
            return self.of("array", id(array))
        return self.of("entries", str(array.dtype), array.shape, np.asarray(array).tobytes())


class Labelled(NamedTuple):
    """A value and its label."""

    array: Any
    label: int


# The first half of this module finds labels, and computes nothing.


def _outputs(closed, inputs, labels) -> list[int]:
    """The labels of a program's outputs, from those of its inputs."""

    def bind(eqn, inputs):
        return _of_equation(eqn, inputs, labels)

    return walk.evaluate(closed, inputs, bind, constant=labels.of_constant)


def _of_equation(eqn, inputs, labels) -> list[int]:
    name = eqn.primitive.name
    if eqn.effects:
        return [next(labels.fresh) for _ in eqn.outvars]
    if name in ("scan", "while"):
        return _carried(eqn, inputs, labels).outputs
    if name == "cond":
        return _of_cond(eqn, inputs, labels)
    what = (name, _parameters(eqn), *inputs)
    return [labels.of(*what, i) for i in range(len(eqn.outvars))]


def _parameters(eqn) -> tuple:
    """The parameters of an equation, of which programs count as equal if they are one object."""
    pairs = sorted(eqn.params.items())
    plain = (bool, int, float, str, tuple, type(None), np.dtype)
    return tuple((k, repr(x) if isinstance(x, plain) else id(x)) for k, x in pairs)


def _of_cond(eqn, inputs, labels) -> list[int]:
    """The labels of a condition's outputs, which are equal where they are so in each branch."""
    index, *inputs = inputs
    cases = zip(*(_outputs(b, inputs, labels) for b in eqn.params["branches"]), strict=True)
    return [case[0] if len(set(case)) == 1 else labels.of("cond", index, *case) for case in cases]


class _Carried(NamedTuple):
    """What is known of the values that a loop carries."""

    inside: list[int]  # their labels in each round
    moving: list[bool]  # whether rounds change them
    outputs: list[int]  # the labels of all that the loop returns


def _carried(eqn, inputs, labels) -> _Carried:
    """Labels of what a scan or while loop carries, by the least number of distinctions."""
    constants, start, rows = _parts(eqn, inputs)
    body = eqn.params["jaxpr" if eqn.primitive.name == "scan" else "body_jaxpr"]
    row_labels = [labels.of("row", id(eqn), label) for label in rows]
    groups, moving = list(start), [False] * len(start)
    while True:
        tokens = {group: next(labels.fresh) for group in groups}
        inside = [
            tokens[group] if moves else label
            for group, moves, label in zip(groups, moving, start, strict=True)
        ]
        outputs = _outputs(body, [*constants, *inside, *row_labels], labels)
        results = outputs[: len(start)]
        moved = [a or b != c for a, b, c in zip(moving, results, start, strict=True)]
        keys = list(zip(groups, moved, results, strict=True))
        settled = len(set(keys)) == len(set(groups)) and moved == moving
        groups, moving = [keys.index(key) for key in keys], moved
        if settled:
            break
    what = ("loop", id(eqn), *inputs)
    ends = [
        labels.of(*what, group) if moves else label
        for group, moves, label in zip(groups, moving, start, strict=True)
    ]
    stacked = [labels.of(*what, "rows", label) for label in outputs[len(start) :]]
    return _Carried(inside, moving, [*ends, *stacked])


def _parts(eqn, operands) -> tuple:
    """The operands of a loop's body: constants, what is carried, and rows."""
    if eqn.primitive.name == "scan":
        n, m = walk.scan_sizes(eqn)
        return operands[:n], operands[n : n + m], operands[n + m :]
    n, m = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    return operands[n : n + m], operands[n + m :], []


# The second half writes the program anew. A scope holds the arrays that were computed, by label.


def _rewritten(closed, inputs, labels, scope) -> list[Labelled]:
    """The outputs of a program, of which no equation is evaluated for the second time."""
    scope = {**scope, **{x.label: x.array for x in reversed(inputs)}}

    def bind(eqn, operands):
        found = _of_equation(eqn, [x.label for x in operands], labels)
        if all(label in scope for label in found) and not eqn.effects and found:
            return [Labelled(scope[label], label) for label in found]
        if eqn.primitive.name in _LOOPS:
            outputs = _LOOPS[eqn.primitive.name](eqn, operands, found, labels, scope)
        else:
            outputs = walk.bind(eqn, [x.array for x in operands])
        scope.update(zip(found, outputs, strict=True))
        return [Labelled(scope[label], label) for label in found]

    def constant(array):
        return Labelled(array, labels.of_constant(array))

    return walk.evaluate(closed, inputs, bind, constant)


def _first(labels) -> list[int]:
    """The places at which labels occur for the first time."""
    return [i for i, label in enumerate(labels) if label not in labels[:i]]


def _spread(labels, places, arrays) -> list:
    """The array of each label, from those at the first places."""
    arrays = dict(zip((labels[i] for i in places), arrays, strict=True))
    return [arrays[label] for label in labels]


def _cond(eqn, operands, found, labels, scope) -> list:
    index, *operands = operands
    places = [i for i in _first(found) if found[i] not in scope]

    def taken(branch):
        outputs = _rewritten(branch, operands, labels, scope)
        return [outputs[i].array for i in places]

    branches = [lambda b=branch: taken(b) for branch in eqn.params["branches"]]
    arrays = dict(zip((found[i] for i in places), lax.switch(index.array, branches), strict=True))
    return [arrays[x] if x in arrays else scope[x] for x in found]


def _loop(eqn, operands, found, labels, scope) -> list:
    constants, start, rows = _parts(eqn, operands)
    carried = _carried(eqn, [x.label for x in operands], labels)
    ends, stacked = found[: len(start)], found[len(start) :]
    moving = [i for i in _first(ends) if carried.moving[i]]
    row_places, stacked_places = _first([x.label for x in rows]), _first(stacked)
    row_labels = [labels.of("row", id(eqn), x.label) for x in rows]

    def inside(arrays):
        """What is carried, from the arrays of what moves."""
        arrays = dict(zip((ends[i] for i in moving), arrays, strict=True))
        return [
            Labelled(arrays[end] if moves else x.array, label)
            for end, moves, x, label in zip(
                ends, carried.moving, start, carried.inside, strict=True
            )
        ]

    def step(arrays, row):
        row = _spread(row_labels, row_places, row)
        row = [Labelled(*pair) for pair in zip(row, row_labels, strict=True)]
        body = eqn.params["jaxpr" if eqn.primitive.name == "scan" else "body_jaxpr"]
        outputs = _rewritten(body, [*constants, *inside(arrays), *row], labels, scope)
        outputs = [x.array for x in outputs]
        return [outputs[i] for i in moving], [outputs[len(start) + i] for i in stacked_places]

    first = [start[i].array for i in moving]
    if eqn.primitive.name == "scan":
        options = {name: eqn.params[name] for name in ("length", "reverse", "unroll")}
        last, columns = lax.scan(step, first, [rows[i].array for i in row_places], **options)
    else:
        tested = operands[: eqn.params["cond_nconsts"]]

        def going(arrays):
            inputs = [*tested, *inside(arrays)]
            return _rewritten(eqn.params["cond_jaxpr"], inputs, labels, scope)[0].array

        last, columns = lax.while_loop(going, lambda x: step(x, [])[0], first), []
    moved = dict(zip((ends[i] for i in moving), last, strict=True))
    results = [moved.get(end, x.array) for end, x in zip(ends, start, strict=True)]
    return [*results, *_spread(stacked, stacked_places, columns)]


_LOOPS = {"cond": _cond, "scan": _loop, "while": _loop}
