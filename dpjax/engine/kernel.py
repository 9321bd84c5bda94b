"""Plays the rounds of many trials as one kernel of an accelerator.

The main loop of a program of scalars (:mod:`dpjax.engine.scalarize`) becomes one Pallas kernel.
Each block of trials goes through all rounds, and keeps its state in registers; arrays that stay
whole are in memory. What comes before the main loop and after it is compiled by XLA.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jax.extend.core import Literal, jaxpr_as_fun

from dpjax.engine import dependence, kernel_programs, walk
from dpjax.engine.batch_last import batch_last
from dpjax.engine.kernel_values import (
    Held,
    Target,
    from_memory,
    spread,
    to_memory,
    type_in_memory,
)
from dpjax.engine.number_draws import drawn_by
from dpjax.engine.one_kernel import Unfit
from dpjax.engine.scalarize import main_loop

# A block of trials for each kind of device. A warp has 32 trials, and waits for no other.
TARGETS = {
    target.name: target
    for target in (Target("cuda", (32,)), Target("tpu", (8, 128)), Target("interpret", (32,)))
}
# The most equations of the rounds. Compilers take more than 20 seconds over more.
MOST_EQUATIONS = 2000


def played_by_kernel(closed, flags, target) -> Callable:
    """A function of many trials, whose main loop is one kernel.

    Args:
      closed: a program of one trial, as ``scalarized`` returns it.
      flags: for each of its arguments whether it carries the trials as its last axis.
      target: a Target.

    Returns:
      A function of the leaves of all trials, whose outputs carry the trials as their last axis.

    Raises:
      Unfit: the rounds are too long for a compiler. When it is traced, the function raises it too.
    """
    count = sum(1 for _ in _rounds(main_loop(closed)))
    if count > MOST_EQUATIONS:
        raise Unfit(f"the rounds have {count} equations, more than {MOST_EQUATIONS}")
    before, main, after, crossing = _cut(closed)
    owns = dependence.depends(before, list(flags))

    def function(*arguments):
        batch = next(x.shape[-1] for x, flag in zip(arguments, flags, strict=True) if flag)
        values = batch_last(jaxpr_as_fun(before), flags, apart=False)(*arguments)
        values = [x if own else x[..., 0] for x, own in zip(values, owns, strict=True)]
        known = dict(zip(crossing, zip(values, owns, strict=True), strict=True))
        operands = [
            (np.asarray(x.val, x.aval.dtype), False) if isinstance(x, Literal) else known[x]
            for x in main.invars
        ]
        results = _kernel(main, *zip(*operands, strict=True), batch, target)
        given = [*values, *results]
        return batch_last(jaxpr_as_fun(after), [*owns, *[True] * len(results)], apart=False)(*given)

    return function


def _rounds(main):
    """The equations of the main loop, of which a block of random words counts as one."""

    def equations(jaxpr):
        for eqn in jaxpr.eqns:
            yield eqn
            # A block of a generator is one operation of its own.
            if eqn.params.get("name") not in kernel_programs.NAMED and not drawn_by(eqn):
                for inner in jax.extend.core.jaxprs_in_params(eqn.params):
                    yield from equations(inner)

    return equations(main.params["jaxpr" if main.primitive.name == "scan" else "body_jaxpr"].jaxpr)


def _cut(closed) -> tuple:
    """(program before the main loop, its equation, program after it, variables that cross it)."""
    main = main_loop(closed)
    jaxpr, place = closed.jaxpr, closed.jaxpr.eqns.index(main)
    made = {*jaxpr.invars, *jaxpr.constvars}
    made.update(var for eqn in jaxpr.eqns[:place] for var in eqn.outvars)
    used = [atom for eqn in jaxpr.eqns[place:] for atom in eqn.invars] + list(jaxpr.outvars)
    crossing = list(dict.fromkeys(x for x in used if not isinstance(x, Literal) and x in made))

    def before(*arguments):
        values = _run(jaxpr.eqns[:place], closed, arguments)
        return [values[var] for var in crossing]

    def after(*arguments):
        values = dict(zip([*crossing, *main.outvars], arguments, strict=True))
        values = _continued(jaxpr.eqns[place + 1 :], values)
        return [x.val if isinstance(x, Literal) else values[x] for x in jaxpr.outvars]

    avals = [var.aval for var in (*crossing, *main.outvars)]
    return jax.make_jaxpr(before)(*closed.in_avals), main, jax.make_jaxpr(after)(*avals), crossing


def _run(eqns, closed, arguments) -> dict:
    values = dict(zip(closed.jaxpr.invars, arguments, strict=True))
    values.update(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    return _continued(eqns, values)


def _continued(eqns, values) -> dict:
    """The values of all variables after some equations."""
    for eqn in eqns:
        operands = [x.val if isinstance(x, Literal) else values[x] for x in eqn.invars]
        values.update(zip(eqn.outvars, walk.bind(eqn, operands), strict=True))
    return values


def _kernel(main, values, owns, batch, target) -> list:
    """The outputs of the main loop (..., B), computed by one kernel.

    Args:
      main: its equation.
      values: of its operands, (..., B) where trials have their own.
      owns: for each of them whether they have.
      batch: B.
      target: a Target.
    """
    scans = main.primitive.name == "scan"
    first = walk.scan_sizes(main)[0] if scans else len(main.invars) - len(main.outvars)
    count = walk.scan_sizes(main)[1] if scans else len(main.outvars)
    blocks = -(-batch // math.prod(target.lanes))
    layout = _Layout(target, batch, blocks)
    arrays, specs, loads = [], [], []
    for i, (value, own, atom) in enumerate(zip(values, owns, main.invars, strict=True)):
        if first <= i < first + count and atom.aval.shape and not own:  # each trial writes its own
            value, own = jnp.broadcast_to(value[..., None], (*value.shape, batch)), True
        array, spec = layout.own(value) if own else layout.shared(value)
        arrays.append(array)
        specs.append(spec)
        loads.append((atom.aval.shape, atom.aval.dtype, own))
    if target.name == "tpu":
        array, spec = layout.own(jnp.zeros(batch, jnp.int32))
        arrays.append(array)
        specs.append(spec)
    sizes = [math.prod(var.aval.shape) for var in main.outvars]
    outputs = zip(sizes, main.outvars, strict=True)
    shapes = [layout.shape(size, type_in_memory(var.aval.dtype)) for size, var in outputs]

    def kernel(*refs):
        inputs, outputs = refs[: len(arrays)], refs[len(arrays) :]
        operands = [_loaded(ref, *load) for ref, load in zip(inputs, loads, strict=False)]
        here = target._replace(zero=inputs[-1][0] if target.name == "tpu" else None)
        for i in range(count):
            if isinstance(operands[first + i], Held):
                operands[first + i] = _copied(operands[first + i], outputs[i])
        if scans:
            stacks = [
                Held(ref, var.aval.shape, var.aval.dtype, True)
                for ref, var in zip(outputs[count:], main.outvars[count:], strict=True)
            ]
            results, _ = kernel_programs.scan(main, operands, stacks, here)
        else:
            results = kernel_programs.loop(main, operands, here)
        for ref, result in zip(outputs[:count], results, strict=True):
            if not isinstance(result, Held):
                ref[0] = to_memory(spread(result, target.lanes))

    found = pl.pallas_call(
        kernel, out_shape=shapes, grid=(blocks,), in_specs=specs,
        out_specs=[layout.spec(size) for size in sizes], **_options(target),
    )(*arrays)  # fmt: skip
    return [layout.restored(x, var.aval) for x, var in zip(found, main.outvars, strict=True)]


def _loaded(ref, shape, dtype, own):
    """What a kernel makes of an operand: a number, a vector over trials, or an array in memory."""
    return Held(ref, shape, dtype, own) if shape else from_memory(ref[0], dtype)


def _copied(held, ref) -> Held:
    """An array in memory that the kernel may write, with the same entries."""

    def copy(i, _):
        ref[i] = held.rows[i]
        return 0

    jax.lax.fori_loop(0, math.prod(held.shape), copy, 0)
    return replace(held, rows=ref)


def _options(target) -> dict:
    if target.name == "interpret":
        return {"interpret": True}
    if target.name == "cuda":
        return {"compiler_params": triton.CompilerParams(num_warps=1, num_stages=1)}
    from jax.experimental.pallas import tpu

    return {"compiler_params": tpu.CompilerParams(dimension_semantics=("parallel",))}


class _Layout:
    """How a kernel finds the operands and results of its block of trials."""

    def __init__(self, target, batch, blocks):
        self.target, self.batch, self.blocks = target, batch, blocks

    def shape(self, size, dtype):
        """The type of an array with this many entries for each trial, filled up to whole blocks."""
        first, *rest = self.target.lanes
        return jax.ShapeDtypeStruct((size, self.blocks * first, *rest), dtype)

    def spec(self, size):
        rest = [0] * (len(self.target.lanes) - 1)
        return pl.BlockSpec((size, *self.target.lanes), lambda i: (0, i, *rest))

    def own(self, value):
        """An array (..., B), and where a block finds its trials."""
        size = math.prod(value.shape[:-1])
        value = value.astype(type_in_memory(value.dtype)).reshape(size, self.batch)
        missing = self.blocks * math.prod(self.target.lanes) - self.batch
        value = jnp.pad(value, ((0, 0), (0, missing)), mode="edge")
        return value.reshape(self.shape(size, value.dtype).shape), self.spec(size)

    def shared(self, value):
        """An array that all trials share, and where a block finds it."""
        value = jnp.asarray(value)
        value = value.astype(type_in_memory(value.dtype)).reshape(-1)
        if self.target.name == "tpu":
            from jax.experimental.pallas import tpu

            return value, pl.BlockSpec(memory_space=tpu.SMEM)
        size = 1 << (max(len(value), 1) - 1).bit_length()  # Triton knows powers of two only
        value = jnp.pad(value, (0, size - len(value)))
        return value, pl.BlockSpec((size,), lambda i: (0,))

    def restored(self, array, aval):
        """An array (*shape, B) of the kernel's own."""
        array = array.reshape(len(array), -1)[:, : self.batch].reshape(*aval.shape, self.batch)
        return from_memory(array, aval.dtype)
