"""Equations on lanes that run programs: calls, conditions and loops.

What does not depend on the batch carries no batch axis through them. Each rule takes ``run``,
which evaluates a program on lanes: (closed, inputs, batch) -> outputs.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dpjax.engine import dependence, walk
from dpjax.engine.lane_rules import ELEMENTWISE
from dpjax.engine.lanes import (
    Lanes,
    apart,
    flags_of,
    forced,
    is_key,
    is_key_type,
    with_lanes,
    with_lanes_where,
    zeros_like,
)
from dpjax.generators import of


def _call(eqn, operands, batch, run) -> list:
    return run(walk.called(eqn), operands, batch)


def _jit(eqn, operands, batch, run) -> list:
    closed = walk.called(eqn)
    drawn = _drawn(closed) if any(is_key(x) and isinstance(x, Lanes) for x in operands) else 0
    if not drawn:
        return run(closed, operands, batch)
    if drawn > 1:
        operands = [forced(x, batch) for x in operands]  # keys, once for all the draws
    flags = dependence.depends(closed, flags_of(operands))
    # A single number is drawn and used within one kernel. Of several numbers one kernel draws the
    # bits, and another computes with them.
    inside = batch if drawn > 1 else batch._replace(certain=None)

    def draw(*operands):
        return with_lanes_where(flags, run(closed, operands, inside), inside)

    return list(apart(draw, batch, *operands))


def _drawn(closed) -> int:
    """How many numbers a program draws, if it computes that many of them elementwise; 0 if not.

    Its operations can then be one kernel, which computes nothing twice.
    """
    eqns = [eqn for eqn in walk.equations(closed.jaxpr) if walk.called(eqn) is None]
    names = [eqn.primitive.name for eqn in eqns]
    sizes = [
        var.aval.size * (1 + is_key_type(var))  # a key has two words
        for eqn, name in zip(eqns, names, strict=True)
        if name in ("random_bits", "random_split")
        for var in eqn.outvars
    ]
    if not sizes and "random_fold_in" in names:  # then a key's own words are drawn
        sizes = [1]
    if len(sizes) != 1 or any(map(is_key_type, closed.jaxpr.outvars)):
        return 0
    simple = _ONE_BY_ONE.issuperset(names)
    largest = max(var.aval.size for eqn in eqns for var in (*eqn.invars, *eqn.outvars))
    return sizes[0] if simple and largest <= max(sizes[0], 2) else 0


_ONE_BY_ONE = {
    *ELEMENTWISE, "broadcast_in_dim", "random_bits", "random_fold_in", "random_split",
    "random_unwrap", "random_wrap", "reshape", "slice", "squeeze",
}  # fmt: skip


def _cond(eqn, operands, batch, run) -> list:
    index, *rest = operands
    if isinstance(index, Lanes):
        # The members take different branches. Each branch that any member takes is computed for
        # all of them, and each member keeps its own outputs.
        outputs = [
            _if_taken(index.value == np.asarray(i, index.value.dtype), branch, rest, batch, run)
            for i, branch in enumerate(eqn.params["branches"])
        ]
        return [_select(index.value, cases) for cases in zip(*outputs, strict=True)]
    flags = dependence.of_cond(eqn, flags_of(operands))

    def taken(branch, inputs):
        return with_lanes_where(flags, run(branch, inputs, batch), batch)

    return walk.cond(eqn, operands, taken)


def _if_taken(takes, branch, operands, batch, run) -> list[Lanes]:
    """The outputs of a branch, or zeros where no member takes it.

    The branch is skipped only on CPU. An accelerator would wait longer for the answer than for the
    branch.
    """

    def taken(*operands):
        return [with_lanes(x, batch) for x in run(branch, operands, batch)]

    other_keys = any(is_key_type(x) and not of(x.aval.dtype) for x in branch.jaxpr.outvars)
    if batch.certain is None or other_keys or not branch.jaxpr.eqns:
        return taken(*operands)
    return lax.cond(jnp.any(takes), taken, zeros_like(taken), *operands)


def _select(index, cases) -> Lanes:
    """The case of each member's index (B,), which is false or true where there are two cases."""

    def select(*arrays):
        which = jnp.broadcast_to(index, arrays[0].shape)
        if index.dtype != bool and len(arrays) == 2:
            which = which > 0
        return lax.select_n(which, *arrays)

    return Lanes(jax.tree.map(select, *[case.value for case in cases]))


def _scan(eqn, operands, batch, run) -> list:
    carried, rows = dependence.of_scan(eqn, flags_of(operands))

    def body(closed, inputs):
        return with_lanes_where([*carried, *rows], run(closed, inputs, batch), batch)

    n, m = walk.scan_sizes(eqn)
    start = with_lanes_where(carried, operands[n : n + m], batch)
    return walk.scan(eqn, [*operands[:n], *start, *operands[n + m :]], body)


def _while(eqn, operands, batch, run) -> list:
    carried, differ = dependence.of_while(eqn, flags_of(operands))

    def run_test(closed, inputs):
        return run(closed, inputs, batch)

    def run_body(closed, inputs):
        return with_lanes_where(carried, run(closed, inputs, batch), batch)

    going, step, start = walk.while_parts(eqn, operands, run_test, run_body)
    start = with_lanes_where(carried, start, batch)
    if not differ:
        return lax.while_loop(going, step, start)

    def step_of_some(carry):
        """One round for the members that go on; the others keep what they have."""
        results = step(carry)
        index = going(carry).value
        return [_select(index, pair) for pair in zip(carry, results, strict=True)]

    return lax.while_loop(lambda carry: jnp.any(going(carry).value), step_of_some, start)


# Each is (equation, operands, batch, run) -> outputs.
RULES = {
    **dict.fromkeys(walk.CALLED, _call),
    "jit": _jit,
    "release": _jit,
    "cond": _cond,
    "scan": _scan,
    "while": _while,
}
