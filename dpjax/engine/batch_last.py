"""Maps a function over the last axis of its arguments, a layout that compilers vectorize.

``jax.vmap`` puts the batch axis first when it combines a scalar with a vector. The last axis is
then that of the arms, too short to vectorize. Here the batch stays last: a traced function is
evaluated equation by equation on values whose last axis is the batch. All axes in an equation's
parameters stay valid, so nearly every equation is bound again unchanged. A primitive without a rule
here is mapped by ``jax.vmap``.

There are two more differences from ``vmap``, which do not change numbers. First, values that do not
depend on the batch have no batch axis, even in loops. So round counters and shared losses are
computed once. Second, keys are two separate arrays of words, and the generator's block function is
inlined, so that compilers fuse it with the code that uses the words. The layout itself may change
last bits: if rows are short, compilers fuse only some products with sums.

The values are in :mod:`dpjax.engine.batched`. The rules are in ``batched_rules`` (numbers),
``indexing`` (reads and writes at an index) and ``batched`` (keys).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dpjax.core.generators import of
from dpjax.engine import batched_rules
from dpjax.engine.batched import (
    KEY_RULES,
    Batched,
    always_true,
    as_array,
    as_batched,
    by_vmap,
    computed,
    flags_of,
    is_key,
    is_key_type,
    isolated,
    repeated,
    zeros_of,
)
from dpjax.engine.evaluate import CONTROL, DEPENDENCE, ValueDomain, called, equations, rebind


def batch_last(function: Callable, batched: Sequence[bool], *, isolate_draws: bool = True):
    """Map ``function`` over the last axis of some of its arguments.

    It returns the same values as ``jax.vmap(function, in_axes, out_axes=-1)``, where in_axes are -1
    or None.

    Args:
      function: takes positional arguments, pytrees of arrays; it is traced once.
      batched: for each argument, whether all its leaves have the batch as their last axis.
      isolate_draws: whether draws get separate kernels, which is faster on CPU.

    Returns:
      A function of the same arguments. All its outputs have the batch as their last axis.

    Raises:
      ValueError: no argument is batched, or their last axes differ in length.
    """

    def mapped(*arguments):
        flags = [
            flag
            for flag, argument in zip(batched, arguments, strict=True)
            for _ in jax.tree.leaves(argument)
        ]
        leaves, structure = jax.tree.flatten(arguments)
        lengths = {leaf.shape[-1] for leaf, flag in zip(leaves, flags, strict=True) if flag}
        if len(lengths) != 1:
            raise ValueError(
                f"batched arguments must have one common last axis; got lengths {sorted(lengths)}"
            )
        shapes = [
            jax.ShapeDtypeStruct(leaf.shape[:-1] if flag else leaf.shape, leaf.dtype)
            for leaf, flag in zip(leaves, flags, strict=True)
        ]
        closed, output = jax.make_jaxpr(function, return_shape=True)(
            *jax.tree.unflatten(structure, shapes)
        )
        (size,) = lengths
        inputs = [
            as_batched(leaf) if flag else leaf for leaf, flag in zip(leaves, flags, strict=True)
        ]
        batch = Batch(size, always_true(jax.tree.leaves(inputs)) if isolate_draws else None)
        results = [as_array(repeated(x, batch)) for x in batch.evaluate(closed, inputs)]
        return jax.tree.unflatten(jax.tree.structure(output), results)

    return mapped


@dataclass(frozen=True, eq=False)
class Batch(ValueDomain):
    """The ValueDomain of a batch. Its values are arrays, which all members share, or Batched."""

    size: int  # B
    always_true: Any  # () bool, true but unknown to compilers; None if draws are not isolated

    def differs(self, value):
        return isinstance(value, Batched)

    def carried(self, value, differs):
        return repeated(value, self) if differs else value

    def truth(self, value):
        return super().truth(value.value if isinstance(value, Batched) else value)

    def bind(self, eqn, operands):
        name, calls = eqn.primitive.name, called(eqn) is not None
        if not calls and name not in KEY_RULES:
            operands = [computed(x) for x in operands]
        if not any(flags_of(operands)):
            return rebind(eqn, operands)
        if calls and name in ("jit", "release"):
            return self._call(eqn, operands)
        if calls or name in CONTROL:
            return super().bind(eqn, operands)
        if name in KEY_RULES:
            return KEY_RULES[name](eqn, operands, self)
        if batched_rules.applies(eqn, operands):
            return batched_rules.by_rule(eqn, operands, self)
        return by_vmap(eqn, operands)

    def _call(self, eqn, operands):
        closed = called(eqn)
        drawn = _drawn(closed) if any(is_key(x) and self.differs(x) for x in operands) else 0
        if not drawn:
            return self.evaluate(closed, operands)
        if drawn > 1:
            operands = [computed(x, self) for x in operands]  # keys, once for all the draws
        flags = DEPENDENCE.evaluate(closed, flags_of(operands))
        # A single number is drawn and used in one kernel. For several numbers, one kernel draws the
        # bits and another kernel computes with them.
        inside = self if drawn > 1 else Batch(self.size, None)

        def draw(*operands):
            outputs = inside.evaluate(closed, operands)
            return [inside.carried(x, flag) for x, flag in zip(outputs, flags, strict=True)]

        def zeros():
            avals = zip(closed.out_avals, flags, strict=True)
            return [zeros_of(x, self) if flag else jnp.zeros(x.shape, x.dtype) for x, flag in avals]

        return list(isolated(draw, zeros, self, *operands))

    def branch(self, index, place, branch, operands):
        """Compute each branch that any member takes, for all members.

        A branch is skipped only on CPU. On an accelerator, waiting for the condition takes longer
        than the branch.
        """

        def taken(*operands):
            return [repeated(x, self) for x in self.evaluate(branch, operands)]

        other_keys = any(is_key_type(x) and not of(x.aval.dtype) for x in branch.jaxpr.outvars)
        if self.always_true is None or other_keys or not branch.jaxpr.eqns:
            return taken(*operands)
        takes = index.value == np.asarray(place, index.value.dtype)

        def zeros(*_):
            return [zeros_of(aval, self) for aval in branch.out_avals]

        return lax.cond(jnp.any(takes), taken, zeros, *operands)

    def select(self, index, cases):
        """Select each member's case by its index (..., B), a bool if there are two cases."""
        if not any(flags_of([index, *cases])):
            return super().select(index, cases)
        which, *cases = (repeated(x, self).value for x in (index, *cases))
        if which.dtype != bool and len(cases) == 2:
            which = which > 0

        def select(*arrays):
            axes = (*range(which.ndim - 1), arrays[0].ndim - 1)
            return lax.select_n(lax.broadcast_in_dim(which, arrays[0].shape, axes), *arrays)

        return Batched(jax.tree.map(select, *cases))


def _drawn(closed) -> int:
    """The number of draws of a program if it is elementwise over its draws; otherwise 0.

    An elementwise program can be one kernel, which computes nothing twice.
    """
    eqns = [eqn for eqn in equations(closed.jaxpr) if called(eqn) is None]
    names = [eqn.primitive.name for eqn in eqns]
    sizes = [
        var.aval.size * (1 + is_key_type(var))  # a key has two words
        for eqn, name in zip(eqns, names, strict=True)
        if name in ("random_bits", "random_split")
        for var in eqn.outvars
    ]
    if not sizes and "random_fold_in" in names:  # then the words of a key are the draw
        sizes = [1]
    if len(sizes) != 1 or any(map(is_key_type, closed.jaxpr.outvars)):
        return 0
    simple = _ONE_BY_ONE.issuperset(names)
    largest = max(var.aval.size for eqn in eqns for var in (*eqn.invars, *eqn.outvars))
    return sizes[0] if simple and largest <= max(sizes[0], 2) else 0


_ONE_BY_ONE = {
    *batched_rules.ELEMENTWISE, "broadcast_in_dim", "random_bits", "random_fold_in",
    "random_split", "random_unwrap", "random_wrap", "reshape", "slice", "squeeze",
}  # fmt: skip
