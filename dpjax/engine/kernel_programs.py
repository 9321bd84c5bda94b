"""Evaluates a program of scalars within one kernel of an accelerator."""

from dataclasses import replace
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl

from dpjax.engine import dependence, walk
from dpjax.engine.kernel_values import (
    Held,
    Target,
    block,
    elementwise,
    from_memory,
    is_own,
    read,
    spread,
    to_memory,
    write,
)
from dpjax.engine.number_draws import drawn_by
from dpjax.engine.one_kernel import Unfit


def outputs_of(closed, inputs, target: Target) -> list:
    """The outputs of a program whose inputs are scalars, vectors over trials, and held arrays."""
    return walk.evaluate(closed, inputs, partial(_bind, target=target), constant=_constant)


def _constant(array):
    if array.shape:
        raise Unfit("an array stands in the rounds")
    return np.asarray(array)[()]


def _bind(eqn, operands, target) -> list:
    name, called = eqn.primitive.name, walk.called(eqn)
    if name in _PROGRAMS:
        return _PROGRAMS[name](eqn, operands, target)
    if called is not None and eqn.params.get("name") in NAMED:
        return NAMED[eqn.params["name"]](eqn, operands, target)
    if called is not None and (generator := drawn_by(eqn)):
        return block(operands, generator, target)
    if called is not None:
        return outputs_of(called, operands, target)
    if any(isinstance(x, Held) for x in operands):
        raise Unfit(f"an array in memory meets {name}")
    return elementwise(eqn, operands, target)


def _sizes_of_read(eqn) -> tuple:
    (slice_eqn,) = (
        e for e in eqn.params["jaxpr"].jaxpr.eqns if e.primitive.name == "dynamic_slice"
    )
    return slice_eqn.params["slice_sizes"]


def _read_window(eqn, operands, target) -> list:
    held, *starts = operands
    if not isinstance(held, Held):
        raise Unfit("an array is made in the rounds")
    if target.name == "tpu" and any(map(is_own, starts)):
        raise Unfit("trials read an array in memory at places of their own")
    return read(held, starts, _sizes_of_read(eqn))


def _write_window(eqn, operands, target) -> list:
    held, *rest = operands
    starts, entries = rest[: len(held.shape)], rest[len(held.shape) :]
    if any(map(is_own, starts)):
        raise Unfit("trials write an array in memory at places of their own")
    jaxpr = eqn.params["jaxpr"].jaxpr
    (update,) = (e for e in jaxpr.eqns if e.primitive.name == "dynamic_update_slice")
    return [write(held, starts, entries, update.invars[1].aval.shape, target.lanes)]


NAMED = {
    "read_window": _read_window,
    "write_window": _write_window,
}


# Loops and conditions carry flat lists of numbers. Arrays in memory are not among them: they are
# where they are.


def _packed(values: Any, flags, target) -> list:
    """What a loop carries of some values: booleans as whole numbers, and no held arrays."""
    found = []
    for value, flag in zip(values, flags, strict=True):
        if isinstance(value, Held):
            continue
        constant = flag and not np.shape(value)
        value = spread(value, target.lanes) if flag else value
        value = lax.convert_element_type(value, np.int32) if value.dtype == bool else value
        if isinstance(value, np.generic) and target.name == "cuda":
            # Triton does not return constants from a loop or branch.
            nothing: Any = pl.program_id(0) * np.int32(0)
            value = nothing.astype(value.dtype) + value
        if constant and target.zero is not None:
            # A TPU has another layout for vectors of one number, which a loop does not keep.
            value = value + target.zero.astype(value.dtype)
        found.append(value)
    return found


def _unpacked(numbers, like) -> list:
    """The values of which a loop carries these numbers; ``like`` are some of the same kinds."""
    numbers = iter(numbers)
    return [
        x if isinstance(x, Held) else (next(numbers) != 0 if x.dtype == bool else next(numbers))
        for x in like
    ]


def _current(start, values) -> list:
    """The held arrays of a loop as they are after a round, in place of those it starts with."""
    for old, new in zip(start, values, strict=True):
        if isinstance(old, Held) and (not isinstance(new, Held) or new.rows is not old.rows):
            raise Unfit("a loop makes a new array in memory")
    return [replace(x, written=x.times[0]) if isinstance(x, Held) else x for x in values]


def _cond(eqn, operands, target) -> list:
    index, *operands = operands
    flags = dependence.of_cond(eqn, [is_own(index), *map(is_own, operands)])
    if is_own(index):
        raise Unfit("trials take branches of their own")
    form: list = []

    def taken(branch):
        outputs = outputs_of(branch, operands, target)
        if any(isinstance(x, Held) for x in outputs):
            raise Unfit("a branch returns an array in memory")
        form[:] = outputs
        return _packed(outputs, flags, target)

    numbers = lax.switch(index, [partial(taken, b) for b in eqn.params["branches"]])
    return _unpacked(numbers, form)


def loop(eqn, operands, target) -> list:
    """What a while loop carries at its end."""
    flags, differ = dependence.of_while(eqn, list(map(is_own, operands)))
    run = partial(outputs_of, target=target)
    going, step, start = walk.while_parts(eqn, operands, run, run)
    if differ and any(isinstance(x, Held) for x in start):
        raise Unfit("trials write an array in memory for rounds of their own")

    def test(numbers):
        answer = going(_unpacked(numbers, start))
        if not differ:
            return answer
        return jnp.max(jnp.where(answer, np.float32(1), np.float32(0))) > np.float32(0)

    def body(numbers):
        values = _current(start, _unpacked(numbers, start))
        results = step(values)
        if differ:
            goes = going(values)
            pairs = zip(values, results, strict=True)
            results = [
                jnp.where(goes, spread(new, target.lanes), spread(old, target.lanes))
                for old, new in pairs
            ]
        _current(start, results)
        return _packed(results, flags, target)

    last = lax.while_loop(test, body, _packed(start, flags, target))
    return _current(start, _unpacked(last, start))


def _scan(eqn, operands, target) -> list:
    if len(eqn.outvars) > walk.scan_sizes(eqn)[1]:
        raise Unfit("a loop within the rounds stacks what it computes")
    carried, _ = scan(eqn, operands, [], target)
    return carried


def scan(eqn, operands, stacks, target) -> tuple[list, list]:
    """What a scan carries at its end.

    Args:
      eqn, operands, target: as of the rules.
      stacks: for each row that comes out, the Held array into which it is written.
    """
    n, m = walk.scan_sizes(eqn)
    body, length = eqn.params["jaxpr"], eqn.params["length"]
    constants, start, rows = operands[:n], operands[n : n + m], operands[n + m :]
    flags, _ = dependence.of_scan(eqn, list(map(is_own, operands)))

    def step(i, numbers):
        place = np.int32(length - 1) - i if eqn.params["reverse"] else i
        values = _current(start, _unpacked(numbers, start))
        outputs = outputs_of(body, [*constants, *values, *(_row(x, place) for x in rows)], target)
        _current(start, outputs[:m])
        for held, x in zip(stacks, outputs[m:], strict=True):
            held.rows[place] = to_memory(spread(x, target.lanes))
        return _packed(outputs[:m], flags, target)

    first = _packed(start, flags, target)
    last = lax.fori_loop(np.int32(0), np.int32(length), step, first)
    return _current(start, _unpacked(last, start)), stacks


def _row(held, place):
    """A row of an array in memory: a number, or an array of which it is the first axis."""
    held.check()
    size = int(np.prod(held.shape[1:], dtype=int))
    first = held.first + place * np.int32(size)
    if len(held.shape) == 1:
        return from_memory(held.rows[first], held.dtype)
    return replace(held, shape=held.shape[1:], first=first)


_PROGRAMS = {"cond": _cond, "scan": _scan, "while": loop}
