"""Plays the rounds of many trials as one kernel of an accelerator.

The main loop of a traced game becomes one Pallas kernel. Each block of trials plays all rounds with
its state in registers; large arrays stay in memory. XLA compiles the code before and after the main
loop.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax import random as jr
from jax.experimental import pallas as pl
from jax.extend.core import ClosedJaxpr, Literal, jaxpr_as_fun

from dpjax.core.generators import of
from dpjax.engine.batch_last import batch_last
from dpjax.engine.evaluate import DEPENDENCE, equations, scan_sizes
from dpjax.engine.one_kernel import Unfit
from dpjax.kernels.domain import FEW_CONSTANTS, Entries, moves_of
from dpjax.kernels.entries import (
    InMemory,
    Memory,
    as_keys,
    entries,
    from_memory,
    is_key,
    spread,
    to_memory,
    type_in_memory,
    words_of,
)

# An array that is updated at an index stays in memory if it has more entries.
_FEW = 24


def main_loop(closed: ClosedJaxpr):
    """The equation of the loop that contains the most equations.

    Raises:
      Unfit: the program has no loop.
    """
    loops = [eqn for eqn in closed.jaxpr.eqns if eqn.primitive.name in ("scan", "while")]
    if not loops:
        raise Unfit("the program has no loop")
    return max(loops, key=lambda eqn: sum(1 for _ in equations(_body(eqn))))


def _body(loop):
    return loop.params["jaxpr" if loop.primitive.name == "scan" else "body_jaxpr"].jaxpr


def played_by_kernel(closed: ClosedJaxpr, flags: Sequence[bool], target) -> Callable:
    """The function of many trials, with the main loop as one kernel.

    Args:
      closed: the ClosedJaxpr of one trial.
      flags: for each argument of ``closed``, whether it has the trials as its last axis.
      target: a :class:`dpjax.kernels.targets.Target`.

    Returns:
      A function of the leaves of all trials, whose outputs have the trials as their last axis.

    Raises:
      Unfit: the program has no loop. The returned function also raises it when it is traced, if a
        kernel does not support an equation or the rounds have too many equations.
    """
    before, main, after, crossing = _cut(closed)
    differ = DEPENDENCE.evaluate(before, list(flags))
    moves = moves_of(main)

    def function(*arguments):
        batch = next(x.shape[-1] for x, flag in zip(arguments, flags, strict=True) if flag)
        values = batch_last(jaxpr_as_fun(before), flags, isolate_draws=False)(*arguments)
        values = [x if flag else x[..., 0] for x, flag in zip(values, differ, strict=True)]
        known = dict(zip(crossing, zip(values, differ, strict=True), strict=True))
        operands = [
            (jnp.asarray(x.val, x.aval.dtype), False) if isinstance(x, Literal) else known[x]
            for x in main.invars
        ]
        results = _Kernel(main, moves, batch, target)(operands)
        flagged = [*differ, *[True] * len(results)]
        return batch_last(jaxpr_as_fun(after), flagged, isolate_draws=False)(*values, *results)

    return function


def _cut(closed) -> tuple:
    """(program before the main loop, the loop, program after it, variables that cross the loop)."""
    main = main_loop(closed)
    jaxpr, place = closed.jaxpr, closed.jaxpr.eqns.index(main)
    defined = {*jaxpr.invars, *jaxpr.constvars}
    defined.update(var for eqn in jaxpr.eqns[:place] for var in eqn.outvars)
    used = [atom for eqn in jaxpr.eqns[place:] for atom in eqn.invars] + list(jaxpr.outvars)
    crossing = list(dict.fromkeys(x for x in used if not isinstance(x, Literal) and x in defined))

    before = jaxpr.replace(eqns=jaxpr.eqns[:place], outvars=crossing)
    after = jaxpr.replace(
        eqns=jaxpr.eqns[place + 1 :], constvars=[], invars=[*crossing, *main.outvars]
    )
    return ClosedJaxpr(before, closed.consts), main, ClosedJaxpr(after, []), crossing


class _Kernel:
    """The kernel of a main loop, and the layout of its operands and results."""

    def __init__(self, main, moves, batch, target):
        self.main, self.moves, self.batch, self.target = main, moves, batch, target
        self.blocks = -(-batch // math.prod(target.lanes))
        if main.primitive.name == "scan":
            self.first, self.count = scan_sizes(main)
        else:
            self.count = len(main.outvars)
            self.first = len(main.invars) - self.count
        self.carried = range(self.first, self.first + self.count)
        self.in_memory = self._in_memory()

    def _in_memory(self) -> list[bool]:
        """Which operands of the main loop are arrays in memory.

        These are rows, constants with many entries, and large carried arrays updated in place.
        """
        inner = [eqn for eqn in equations(_body(self.main)) if "update_slice" in eqn.primitive.name]
        updated = {(eqn.invars[0].aval.shape, eqn.invars[0].aval.dtype) for eqn in inner}
        flags = []
        for i, atom in enumerate(self.main.invars):
            size, shape, dtype = atom.aval.size, atom.aval.shape, atom.aval.dtype
            if i in self.carried:
                stays = size > _FEW and (shape, dtype) in updated
            else:
                stays = size > FEW_CONSTANTS or (i >= self.carried.stop and shape)
            flags.append(bool(stays) and not of(dtype))
        return flags

    def __call__(self, operands) -> list:
        """The outputs (..., B) of the main loop, for operands (array, whether trials differ)."""
        arrays, specs, loads = [], [], []
        for i, ((value, differs), atom) in enumerate(zip(operands, self.main.invars, strict=True)):
            value, dtype = _numbers(value, differs), atom.aval.dtype
            shape = value.shape[:-1] if differs else value.shape
            if i in self.carried and self.in_memory[i] and not differs:  # trials write copies
                value, differs = jnp.broadcast_to(value[..., None], (*shape, self.batch)), True
            array, spec = self._laid_out(value) if differs else self.target.shared(_flat(value))
            arrays.append(array)
            specs.append(spec)
            loads.append((shape, dtype, differs, self.in_memory[i]))
        if self.target.takes_zeros:
            array, spec = self._laid_out(jnp.zeros(self.batch, jnp.int32))
            arrays.append(array)
            specs.append(spec)
        avals = [
            jax.eval_shape(lambda x: _numbers(x, False), var.aval) for var in self.main.outvars
        ]
        sizes = [math.prod(aval.shape) for aval in avals]
        pairs = zip(sizes, avals, strict=True)
        shapes = [self._shape(size, type_in_memory(aval.dtype)) for size, aval in pairs]

        def kernel(*refs):
            self._kernel(refs[: len(arrays)], refs[len(arrays) :], loads)

        out_specs = [self._spec(size) for size in sizes]
        results = self.target.call(kernel, arrays, shapes, self.blocks, specs, out_specs)
        outputs = zip(results, avals, self.main.outvars, strict=True)
        return [self._restored(x, aval, var.aval.dtype) for x, aval, var in outputs]

    def _kernel(self, inputs, outputs, loads) -> None:
        target = self.target.within(inputs[-1][0] if self.target.takes_zeros else None)
        operands = [_loaded(ref, *load) for ref, load in zip(inputs, loads, strict=False)]
        for i, ref in zip(self.carried, outputs, strict=False):
            if isinstance(operands[i], InMemory):
                operands[i] = _copied(operands[i], ref)
        stacked = zip(outputs[self.count :], self.main.outvars[self.count :], strict=True)
        stacks = [InMemory(Memory(x, v.aval.dtype, True, [0]), v.aval.shape, 0) for x, v in stacked]
        domain = Entries(target, self.moves, self.main, stacks)
        results = domain.bind(self.main, operands)[: self.count]
        for ref, result in zip(outputs[: self.count], results, strict=True):
            if not isinstance(result, InMemory):
                result = words_of(result) if is_key(result) else result
                for i, entry in enumerate(result.reshape(-1)):
                    ref[i] = to_memory(spread(entry.value, target.lanes))

    def _shape(self, size, dtype):
        """The type of an array with this many entries for each trial, padded to whole blocks."""
        first, *rest = self.target.lanes
        return jax.ShapeDtypeStruct((size, self.blocks * first, *rest), dtype)

    def _spec(self, size):
        rest = [0] * (len(self.target.lanes) - 1)
        return pl.BlockSpec((size, *self.target.lanes), lambda i: (0, i, *rest))

    def _laid_out(self, value):
        """An array (..., B) that differs between trials, in the kernel's layout, and its spec."""
        size = math.prod(value.shape[:-1])
        value = value.astype(type_in_memory(value.dtype)).reshape(size, self.batch)
        missing = self.blocks * math.prod(self.target.lanes) - self.batch
        value = jnp.pad(value, ((0, 0), (0, missing)), mode="edge")
        return value.reshape(self._shape(size, value.dtype).shape), self._spec(size)

    def _restored(self, array, aval, dtype):
        """An output (*shape, B) of the main loop, from an array in the kernel's layout."""
        array = array.reshape(len(array), -1)[:, : self.batch].reshape(*aval.shape, self.batch)
        generator = of(dtype)
        if generator:
            return generator.wrap(jnp.moveaxis(array, -2, -1))
        return from_memory(array, dtype)


def _numbers(value, differs):
    """An array unchanged; keys (...) as words (..., 2), with the trials as the last axis."""
    if not of(value.dtype):
        return jnp.asarray(value)
    words = jr.key_data(value)
    return jnp.moveaxis(words, -1, -2) if differs else words


def _flat(value):
    return value.astype(type_in_memory(value.dtype)).reshape(-1)


def _loaded(ref, shape, dtype, differs, in_memory) -> Any:
    """The value of an operand within a kernel."""
    generator = of(dtype)
    array = InMemory(
        Memory(ref, np.dtype(np.uint32) if generator else dtype, differs, [0]), shape, 0
    )
    if in_memory:
        return array
    loaded = entries(array)
    return as_keys(loaded, generator) if generator else loaded


def _copied(array, ref) -> InMemory:
    """A copy of an array in memory, which the kernel may write."""

    def copy(i, _):
        ref[i] = array.memory.rows[i]
        return 0

    lax.fori_loop(0, math.prod(array.shape), copy, 0)
    return InMemory(Memory(ref, array.memory.dtype, True, [0]), array.shape, 0)
