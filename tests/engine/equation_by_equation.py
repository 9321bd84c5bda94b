"""Runs a program without compiling it: every equation is a program of its own, which JAX keeps.

Compiling the rounds of all learners takes minutes, and compilers contract products and sums as they
please. Here every equation is rounded by itself, so that two programs of the same arithmetic have
the same bits.
"""

import jax
import jax.numpy as jnp
import numpy as np

from dpjax.engine import walk


def run(function, *arguments) -> list:
    """The leaves of what a function returns, as arrays."""
    closed = jax.make_jaxpr(function)(*arguments)
    return _outputs(closed, list(map(jnp.asarray, jax.tree.leaves(arguments))))


def _outputs(closed, inputs) -> list:
    return walk.evaluate(closed, inputs, _bind)


def _bind(eqn, inputs) -> list:
    name, called = eqn.primitive.name, walk.called(eqn)
    if name in _PROGRAMS:
        return _PROGRAMS[name](eqn, inputs)
    if called is not None and not eqn.params.get("name").startswith("block of "):
        return _outputs(called, inputs)
    return walk.bind(eqn, inputs)


def _cond(eqn, inputs) -> list:
    index, *inputs = inputs
    branches = eqn.params["branches"]
    return _outputs(branches[int(np.clip(int(index), 0, len(branches) - 1))], inputs)


def _while(eqn, inputs) -> list:
    going, step, carry = walk.while_parts(eqn, inputs, _outputs, _outputs)
    while bool(going(carry)):
        carry = step(carry)
    return carry


def _scan(eqn, inputs) -> list:
    step, carry, rows = walk.scan_parts(eqn, inputs, _outputs)
    length, found = eqn.params["length"], {}
    for i in range(length)[:: -1 if eqn.params["reverse"] else 1]:
        carry, found[i] = step(carry, [row[i] for row in rows])
    columns = zip(*(found[i] for i in range(length)), strict=True)
    return [*carry, *map(jnp.stack, columns)]


_PROGRAMS = {"cond": _cond, "scan": _scan, "while": _while}
