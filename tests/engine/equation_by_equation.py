"""Run a program without compiling it: JAX compiles and keeps each equation separately.

Compiling the rounds of all learners takes minutes, and compilers contract products and sums at
their discretion. Here every equation is rounded separately, so two programs with the same
arithmetic agree bit for bit.
"""

import jax
import jax.numpy as jnp
import numpy as np

from dpjax.engine.evaluate import ValueDomain, called, rebind


def run(function, *arguments) -> list:
    """The leaves of a function's value, as arrays."""
    closed = jax.make_jaxpr(function)(*arguments)
    return ONE_BY_ONE.evaluate(closed, list(map(jnp.asarray, jax.tree.leaves(arguments))))


class _OneByOne(ValueDomain):
    """A domain of concrete arrays. Conditions and loops run in Python."""

    def bind(self, eqn, operands):
        is_block = called(eqn) is not None and eqn.params.get("name", "").startswith("block of ")
        return rebind(eqn, operands) if is_block else super().bind(eqn, operands)

    def switch(self, index, branches):
        return branches[int(np.clip(int(index), 0, len(branches) - 1))]()

    def rounds(self, eqn, step, start, rows):
        length, carry, found = eqn.params["length"], start, {}
        for i in range(length)[:: -1 if eqn.params["reverse"] else 1]:
            carry, found[i] = step(carry, [row[i] for row in rows])
        columns = zip(*(found[i] for i in range(length)), strict=True)
        return carry, list(map(jnp.stack, columns))

    def repeat(self, going, step, start):
        carry = start
        while bool(self.truth(going(carry))):
            carry = step(carry)
        return carry


ONE_BY_ONE = _OneByOne()
