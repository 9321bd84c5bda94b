"""Mapping a function over the last axis of its arguments: the layout that vectorizes.

``jax.vmap`` puts the batch in front wherever a scalar meets a vector. The trailing axis is then
that of a few arms, which no processor vectorizes. Here the batch stays behind: a traced function
is evaluated equation by equation on values whose last axis is the batch. Every axis that an
equation names is then where it was, so that nearly every equation is bound again as it is. A
primitive that has no rule here is mapped by ``jax.vmap``, alone.

Two things differ from ``vmap`` besides the layout, and neither changes a number. What does not
depend on the batch carries no batch axis, not even through loops, so that round counters and shared
losses are computed once. And the keys of a generator travel as two separate arrays
of words, and are drawn from by a function that is written out, so that it joins what uses it in one
kernel. The layout itself may change last bits: where rows are short, compilers contract some
products and sums, and not others.

The values are in :mod:`dpjax.engine.lanes`. The rules are in ``lane_rules`` (numbers), ``places``
(reads and writes at an index), ``lane_draws`` (keys) and ``lane_programs`` (calls and loops).
"""

from functools import partial

import jax

from dpjax.engine import lane_draws, lane_programs, lane_rules, walk
from dpjax.engine.lanes import (
    Batch,
    as_array,
    as_lanes,
    by_vmap,
    certain,
    flags_of,
    forced,
    with_lanes,
)


def batch_last(function, batched, *, apart=True):
    """``function`` mapped over the last axis of some of its arguments.

    It returns the same values as ``jax.vmap(function, in_axes, out_axes=-1)`` where in_axes are -1
    or None.

    Args:
      function: of positional arguments, pytrees of arrays; it is traced once.
      batched: for each argument whether all its leaves carry the batch as their last axis.
      apart: whether draws are kept in kernels of their own, which compilers for CPU need.

    Returns:
      A function of the same arguments, whose outputs all carry the batch as their last axis.

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
            as_lanes(leaf) if flag else leaf for leaf, flag in zip(leaves, flags, strict=True)
        ]
        batch = Batch(size, certain(jax.tree.leaves(inputs)) if apart else None)
        results = [as_array(with_lanes(x, batch)) for x in _evaluate(closed, inputs, batch)]
        return jax.tree.unflatten(jax.tree.structure(output), results)

    return mapped


def _evaluate(closed, inputs, batch) -> list:
    """The outputs of a program whose inputs are arrays or Lanes."""
    return walk.evaluate(closed, inputs, partial(_bind, batch=batch))


def _bind(eqn, operands, batch) -> list:
    """The outputs of an equation whose operands are arrays or Lanes."""
    name = eqn.primitive.name
    if walk.called(eqn) is None and name not in lane_draws.RULES:
        operands = [forced(x) for x in operands]
    if not any(flags_of(operands)):
        return walk.bind(eqn, operands)
    if name in lane_programs.RULES:
        return lane_programs.RULES[name](eqn, operands, batch, _evaluate)
    if name in lane_draws.RULES:
        return lane_draws.RULES[name](eqn, operands, batch)
    if lane_rules.applies(eqn, operands):
        return lane_rules.by_rule(eqn, operands, batch)
    return by_vmap(eqn, operands)
