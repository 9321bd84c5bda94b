"""Rewrites the rounds of a game as a program of scalars.

An accelerator runs a loop as a row of kernels, one for each operation that XLA does not fuse with
another. Sums over arms, concatenations and slices keep kernels apart. So the main loop of a traced
program is evaluated once more, on :mod:`dpjax.engine.numbers`: each array is taken apart into its
entries, and what is left is arithmetic on scalars, which fuses. Mapped over the trials, each scalar
is a vector of them. What comes before the main loop and after it stays as it is.

The numbers are those of the program as it was, except for last bits of sums that XLA adds up in
another order or contracts with products.
"""

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

from dpjax.engine import (
    dependence,
    number_draws,
    number_places,
    number_programs,
    number_rules,
    walk,
)
from dpjax.engine.equal_values import once
from dpjax.engine.number_rules import NoRule
from dpjax.engine.numbers import Whole, from_array, is_key_aval, known, to_array
from dpjax.engine.one_kernel import Unfit
from dpjax.generators import of

# An array of more entries stays whole where it is updated at an index that all trials share. A
# constant of more entries stays whole in any case.
_FEW, _FEW_CONSTANT = 24, 128
# The most operations on numbers that are written out. Tracing takes seconds over more.
MOST_OPERATIONS = 5000


def scalarized(closed, flags) -> ClosedJaxpr:
    """A program whose main loop computes with scalars, and carries equal ones once.

    Args:
      closed: a ClosedJaxpr of one trial.
      flags: for each of its arguments whether trials have values of their own. The program is
        right for all trials whatever the flags say; it is quicker where they are right.

    Raises:
      Unfit: the program has no loop, an equation of it has no rule, or its arrays are too large.
    """
    main = main_loop(closed)
    count = sum(_operations(eqn) for eqn in walk.equations(_body(main)))
    if count > MOST_OPERATIONS:
        raise Unfit(f"the rounds are {count} operations on numbers, more than {MOST_OPERATIONS}")

    def bind(eqn, operands):
        arrays, owns = zip(*operands, strict=True) if operands else ((), ())
        outputs = _loop(eqn, arrays, owns) if eqn is main else walk.bind(eqn, arrays)
        return list(zip(outputs, dependence.of_equation(eqn, list(owns)), strict=True))

    def function(*arguments):
        inputs = list(zip(arguments, flags, strict=True))
        outputs = walk.evaluate(closed, inputs, bind, constant=lambda array: (array, False))
        return [array for array, _ in outputs]

    try:
        return once(jax.make_jaxpr(function)(*closed.in_avals))
    except NoRule as error:
        raise Unfit(f"there is no rule on numbers for {error}") from error


def main_loop(closed):
    """The equation of the loop with the most equations in it.

    Raises:
      Unfit: the program has no loop.
    """
    loops = [eqn for eqn in closed.jaxpr.eqns if eqn.primitive.name in ("scan", "while")]
    if not loops:
        raise Unfit("the program has no loop")
    return max(loops, key=_size)


def carried_numbers(closed) -> int:
    """The most numbers that a while loop of a scalarized program carries."""
    inner = (eqn.outvars for eqn in walk.equations(closed.jaxpr) if eqn.primitive.name == "while")
    return max((sum(not var.aval.shape for var in carried) for carried in inner), default=0)


def _body(loop):
    return loop.params["jaxpr" if loop.primitive.name == "scan" else "body_jaxpr"].jaxpr


def _size(loop) -> int:
    return sum(1 for _ in walk.equations(_body(loop)))


def _operations(eqn) -> int:
    """About how many operations on numbers an equation is, were all its arrays taken apart."""
    size = max((atom.aval.size for atom in (*eqn.invars, *eqn.outvars)), default=0)
    if eqn.primitive.name == "dot_general":
        ((contracted, _), _) = eqn.params["dimension_numbers"]
        sizes = [eqn.invars[0].aval.shape[axis] for axis in contracted]
        return eqn.outvars[0].aval.size * int(np.prod(sizes, dtype=int))
    return size


def _loop(eqn, arrays, owns) -> list:
    """The outputs of the main loop, computed with scalars."""
    kept = _kept_whole(eqn)
    operands = [
        Whole(array, own) if keep else from_array(array, own)
        for array, own, keep in zip(arrays, owns, kept, strict=True)
    ]
    outputs = _bind(eqn, operands)
    return [to_array(x, var.aval) for x, var in zip(outputs, eqn.outvars, strict=True)]


def _evaluate(closed, inputs) -> list:
    """The outputs of a program on numbers."""
    return walk.evaluate(closed, inputs, _bind, constant=_constant)


def _bind(eqn, operands) -> list:
    name = eqn.primitive.name
    if name in number_programs.RULES:
        return number_programs.RULES[name](eqn, operands, _evaluate)
    if name not in _RULES:
        raise NoRule(name)
    return _RULES[name](eqn, operands)


def _constant(array):
    if of(array.dtype):
        return from_array(array, False)
    return known(array) if array.size <= _FEW_CONSTANT else Whole(array, False)


def _kept_whole(eqn) -> list[bool]:
    """Which operands of the main loop stay whole.

    They are constants and rows with many entries, and what is carried and updated in its place.
    """
    if eqn.primitive.name == "scan":
        first, count = walk.scan_sizes(eqn)
    else:
        count = len(eqn.outvars)
        first = len(eqn.invars) - count
    ((body, _),) = _inner(eqn, eqn.invars)
    updated = _updated(body)
    kept = []
    for i, atom in enumerate(eqn.invars):
        if first <= i < first + count:
            var = body.invars[i - len(eqn.invars)]
            kept.append(atom.aval.size > _FEW and var in updated)
        else:
            kept.append(atom.aval.size > _FEW_CONSTANT)
    return [flag and not is_key_aval(x.aval) for flag, x in zip(kept, eqn.invars, strict=True)]


def _updated(jaxpr) -> set:
    """The arguments of a program that are updated at an index, in it or in a program within it."""
    found = set()
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "dynamic_update_slice":
            found |= set(eqn.invars[:1]) if not isinstance(eqn.invars[0], Literal) else set()
        for body, operands in _inner(eqn, eqn.invars):
            hits = _updated(body)
            pairs = zip(body.invars, operands, strict=True)
            found |= {x for var, x in pairs if var in hits and not isinstance(x, Literal)}
    return found & set(jaxpr.invars)


def _inner(eqn, operands) -> list[tuple]:
    """The programs of a call, condition or loop, each with the operands that it is given."""
    name, called = eqn.primitive.name, walk.called(eqn)
    if called is not None:
        return [(called.jaxpr, operands)]
    if name == "cond":
        return [(branch.jaxpr, operands[1:]) for branch in eqn.params["branches"]]
    if name == "scan":
        return [(eqn.params["jaxpr"].jaxpr, operands)]
    if name == "while":
        return [(eqn.params["body_jaxpr"].jaxpr, operands[eqn.params["cond_nconsts"] :])]
    return []


_RULES = {**number_rules.RULES, **number_places.RULES, **number_draws.RULES}
