"""Equations on numbers that run programs: calls, conditions and loops.

Each rule takes ``run``, which evaluates a program on numbers: (closed, inputs) -> outputs.
"""

import numpy as np
from jax import lax

from dpjax.engine import dependence, walk
from dpjax.engine.number_rules import NoRule
from dpjax.engine.numbers import (
    Number,
    Whole,
    apart,
    each,
    filled,
    flat,
    from_array,
    is_key_aval,
    is_own,
    known,
    like,
    select,
    whole,
)

# A scan of so few rounds, without a loop in them, is written out.
_WRITTEN_OUT = 4


def _call(eqn, operands, run) -> list:
    return run(walk.called(eqn), operands)


def _platform_index(eqn, operands, run) -> list:
    # All platforms have the branch that is for none in particular.
    del operands, run
    return [known(np.int32(eqn.params["platforms"].index(None)))]


def _cond(eqn, operands, run) -> list:
    index, *operands = operands
    index, branches = _scalar(index), eqn.params["branches"]
    if index.known:
        return run(branches[min(max(int(index.value), 0), len(branches) - 1)], operands)
    if index.own:
        # Each trial takes a branch of its own. All branches are computed for all of them.
        cases = [run(branch, operands) for branch in branches]
        return [_select(index, column) for column in zip(*cases, strict=True)]
    flags = dependence.of_cond(eqn, [False, *map(is_own, operands)])
    form: list = []

    def taken(branch):
        outputs = run(branch, operands)
        wholes = [isinstance(x, Whole) for x in form] or [isinstance(x, Whole) for x in outputs]
        outputs = _as(wholes, outputs, branch.out_avals)
        form[:] = outputs
        return [scalar for output in outputs for scalar in flat(output)]

    scalars = iter(lax.switch(index.value, [lambda b=branch: taken(b) for branch in branches]))
    return [like(value, scalars, flag) for value, flag in zip(form, flags, strict=True)]


def _scalar(value) -> Number:
    """The only entry of a value."""
    return apart(value).item()


def _select(index, cases):
    """The case of a trial's index, as lax.cond and lax.switch choose it."""
    if all(case is cases[0] for case in cases):
        return cases[0]
    *rest, found = map(apart, cases)
    for i, case in reversed(list(enumerate(rest))):
        here = Number(lax.le(index.value, index.value.dtype.type(i)), True)
        found = each(lambda a, b, here=here: select(here, a, b), case, found)
    return found


def _as(wholes, values, avals) -> list:
    """The values, of which those that are flagged stay whole and the others are taken apart."""
    pairs = zip(wholes, values, avals, strict=True)
    return [whole(x, aval.dtype) if flag else apart(x) for flag, x, aval in pairs]


def _carried(start, flags, scalars) -> list:
    """What a loop carries, of the form that it starts with, from a flat list of scalars."""
    scalars = iter(scalars)
    return [like(value, scalars, flag) for value, flag in zip(start, flags, strict=True)]


def _flatten(values) -> list:
    return [scalar for value in values for scalar in flat(value)]


def _while(eqn, operands, run) -> list:
    carried, _ = dependence.of_while(eqn, list(map(is_own, operands)))
    going, step, start = walk.while_parts(eqn, operands, run, run)
    avals = eqn.params["body_jaxpr"].out_avals
    wholes = [isinstance(x, Whole) for x in start]

    def test(scalars):
        return _scalar(going(_carried(start, carried, scalars))).value

    def body(scalars):
        values = _carried(start, carried, scalars)
        return _flatten(_as(wholes, step(values), avals))

    return _carried(start, carried, lax.while_loop(test, body, _flatten(start)))


def _scan(eqn, operands, run) -> list:
    n, m = walk.scan_sizes(eqn)
    body, length = eqn.params["jaxpr"], eqn.params["length"]
    loops = any(inner.primitive.name in ("scan", "while") for inner in walk.equations(body.jaxpr))
    if length <= _WRITTEN_OUT and not loops:
        return _written_out(eqn, operands, run)
    flags = list(map(is_own, operands))
    carried, stacked = dependence.of_scan(eqn, flags)
    start, rows = operands[n : n + m], operands[n + m :]
    if any(is_key_aval(aval) for aval in (*body.in_avals[n + m :], *body.out_avals[m:])):
        raise NoRule("scan over keys")
    wholes = [isinstance(x, Whole) for x in start]
    avals = [atom.aval.dtype for atom in eqn.invars[n + m :]]
    arrays = [whole(x, dtype).array for x, dtype in zip(rows, avals, strict=True)]

    def step(scalars, row):
        row = [from_array(x, flag) for x, flag in zip(row, flags[n + m :], strict=True)]
        outputs = run(body, [*operands[:n], *_carried(start, carried, scalars), *row])
        results = _as(wholes, outputs[:m], body.out_avals[:m])
        form[:] = map(apart, outputs[m:])
        return _flatten(results), _flatten(form)

    form: list = []
    options = {name: eqn.params[name] for name in ("length", "reverse")}
    last, columns = lax.scan(step, _flatten(start), arrays, **options)
    columns = iter(columns)
    outputs = [
        _stacked([next(columns) for _ in value.reshape(-1)], value.shape, flag)
        for value, flag in zip(form, stacked, strict=True)
    ]
    return [*_carried(start, carried, last), *outputs]


def _stacked(columns, shape, own) -> Whole:
    """Rows (n, *shape) of a scan, from the columns (n,) of their entries."""
    length = columns[0].shape[0]
    joined = lax.concatenate([lax.reshape(x, (length, 1)) for x in columns], 1)
    return Whole(lax.reshape(joined, (length, *shape)), own)


def _written_out(eqn, operands, run) -> list:
    n, m = walk.scan_sizes(eqn)
    body, length = eqn.params["jaxpr"], eqn.params["length"]
    constants, carry = operands[:n], operands[n : n + m]
    rows, found = [apart(x) for x in operands[n + m :]], []
    order = range(length)[:: -1 if eqn.params["reverse"] else 1]
    for i in order:
        # A row of a vector is a number, which indexing alone would not leave in an array.
        row = [filled(x.shape[1:], x[i : i + 1].reshape(-1)) for x in rows]
        outputs = run(body, [*constants, *carry, *row])
        carry = outputs[:m]
        found.append([apart(x) for x in outputs[m:]])
    found = [found[order.index(i)] for i in range(length)]
    return [*carry, *(np.stack(column) for column in zip(*found, strict=True))]


RULES = {
    **dict.fromkeys(walk.CALLED, _call),
    "cond": _cond,
    "platform_index": _platform_index,
    "scan": _scan,
    "while": _while,
}
