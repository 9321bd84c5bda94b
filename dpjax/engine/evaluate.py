"""Evaluates traced programs (jaxprs) on values of any kind.

A :class:`ValueDomain` defines the values and the results of equations on them. Calls, conditions
and loops are interpreted here for all domains. There are domains of batched arrays, of entries of
arrays within a kernel, of a replay's values, and of the tests' float64 copies of values. The values
of :data:`DEPENDENCE` are flags: whether a value depends on a batch. ``docs/engine.md`` shows how to
write a domain.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from dpjax.core._versions import Equation, bind, jaxprs_in_params

# The primitives that call one program with their operands, and the name of its parameter.
CALLED = {
    "jit": "jaxpr",
    "release": "jaxpr",
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}
# The primitives of control flow, and the methods of a domain that interpret them.
CONTROL = {"cond": "cond", "scan": "scan", "while": "while_loop"}


def rebind(eqn: Equation, operands: list, **changes) -> list:
    """The outputs of an equation's primitive for new operands and changed parameters."""
    return bind(eqn.primitive, operands, {**eqn.params, **changes})


def called(eqn: Equation) -> ClosedJaxpr | None:
    """The program that an equation calls with its operands, or None if it calls none."""
    parameter = CALLED.get(eqn.primitive.name)
    return None if parameter is None else eqn.params[parameter]


def equations(jaxpr: Jaxpr):
    """Yield every equation of a program, and of all programs within it."""
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in jaxprs_in_params(eqn.params):
            yield from equations(inner)


def scan_sizes(eqn: Equation) -> tuple[int, int]:
    """The numbers of constants and of carried values of a scan.

    They are inferred from shapes, because the parameters differ between versions of JAX. Constants
    and carried values have the same shape in the body; rows have one axis less in the body.
    """
    body = eqn.params["jaxpr"]
    pairs = zip(eqn.invars, body.in_avals, strict=True)
    rows = sum(atom.aval.ndim > aval.ndim for atom, aval in pairs)
    pairs = zip(eqn.outvars, body.out_avals, strict=True)
    carried = sum(atom.aval.ndim == aval.ndim for atom, aval in pairs)
    return len(eqn.invars) - carried - rows, carried


def while_operands(eqn: Equation, operands: list) -> tuple[list, list, list]:
    """The operands of a while loop: constants of its test and of its body, and carried values."""
    n, m = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    return operands[:n], operands[n : n + m], operands[n + m :]


class ValueDomain:
    """The values of a program, and the results of its equations on them.

    The default methods are for arrays. A domain overrides ``bind`` for its equations, and calls the
    ``bind`` of this class for equations that run programs. It overrides other methods only if its
    values are not arrays, or if values differ between members of a batch.
    """

    def constant(self, array) -> Any:
        """The value of a constant array of the program."""
        return array

    def literal(self, atom) -> Any:
        """The value of a literal number in an equation."""
        return self.constant(np.asarray(atom.val, atom.aval.dtype))

    def differs(self, value) -> bool:
        """Whether a value differs between members of a batch."""
        return False

    def carried(self, value, differs) -> Any:
        """The pytree of arrays that a loop or a branch passes on for a value.

        Args:
          value: a value of the domain.
          differs: whether it differs between members in any round or branch.
        """
        return value

    def restored(self, carried) -> Any:
        """The value that was passed on."""
        return carried

    def select(self, index, cases) -> Any:
        """Select each member's case by its index, in a batch or under ``jax.vmap``."""
        which = lax.broadcast_in_dim(index, cases[0].shape, range(index.ndim))
        return lax.select_n(which, *cases)

    def truth(self, value) -> Any:
        """Whether a value is true for any member, () bool."""
        return jnp.any(value) if value.ndim else value

    def switch(self, index, branches) -> list:
        """The outputs of one of the branches () -> outputs, by an index that all members share."""
        return lax.switch(index, branches)

    def rounds(self, eqn, step, start, rows) -> tuple[Any, Any]:
        """The final carried values of a scan, and the rows that its step returned."""
        options = {name: eqn.params[name] for name in ("length", "reverse", "unroll")}
        return lax.scan(step, start, rows, **options)

    def repeat(self, going, step, start) -> list:
        """The final carried values of a while loop."""
        return lax.while_loop(lambda carry: self.truth(going(carry)), step, start)

    def evaluate(self, closed, inputs) -> list:
        """The outputs of a program.

        Args:
          closed: a ClosedJaxpr.
          inputs: the values of its arguments, in a flat list.
        """
        jaxpr = closed.jaxpr
        values: dict[Any, Any] = dict(zip(jaxpr.invars, inputs, strict=True))
        values.update(zip(jaxpr.constvars, map(self.constant, closed.consts), strict=True))

        def read(atom):
            return self.literal(atom) if isinstance(atom, Literal) else values[atom]

        for eqn in jaxpr.eqns:
            outputs = self.bind(eqn, [read(atom) for atom in eqn.invars])
            values.update(zip(eqn.outvars, outputs, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def bind(self, eqn, operands) -> list:
        """The outputs of an equation."""
        inner = called(eqn)
        if inner is not None:
            return self.evaluate(inner, operands)
        if control := CONTROL.get(eqn.primitive.name):
            return getattr(self, control)(eqn, operands)
        return rebind(eqn, operands)

    def flags(self, eqn, operands) -> list[bool]:
        """Which outputs of an equation differ between members."""
        return DEPENDENCE.bind(eqn, list(map(self.differs, operands)))

    def _handed_on(self, values, flags) -> list:
        return [self.carried(x, flag) for x, flag in zip(values, flags, strict=True)]

    def cond(self, eqn, operands) -> list:
        """The outputs of a condition."""
        index, *operands = operands
        branches, flags = eqn.params["branches"], self.flags(eqn, [index, *operands])
        if self.differs(index):
            cases = [self.branch(index, i, b, operands) for i, b in enumerate(branches)]
            return [self.select(index, column) for column in zip(*cases, strict=True)]

        def taken(branch):
            return lambda: self._handed_on(self.evaluate(branch, operands), flags)

        return list(map(self.restored, self.switch(index, [taken(b) for b in branches])))

    def branch(self, index, place, branch, operands) -> list:
        """The outputs of the branch at index ``place``, which some members may take."""
        return self.evaluate(branch, operands)

    def scan(self, eqn, operands) -> list:
        """The outputs of a scan."""
        body, (n, m), flags = eqn.params["jaxpr"], scan_sizes(eqn), self.flags(eqn, operands)
        constants, start, rows = operands[:n], operands[n : n + m], operands[n + m :]

        def step(carry, row):
            outputs = self.evaluate(body, [*constants, *map(self.restored, carry), *row])
            outputs = self._handed_on(outputs, flags)
            return outputs[:m], outputs[m:]

        last, rows = self.rounds(eqn, step, self._handed_on(start, flags[:m]), rows)
        return [*map(self.restored, last), *rows]

    def while_loop(self, eqn, operands) -> list:
        """The outputs of a while loop."""
        tested, constants, start = while_operands(eqn, operands)
        test, body = eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]
        flags = self.flags(eqn, operands)
        (differs,) = DEPENDENCE.evaluate(test, [*map(self.differs, tested), *flags])
        # Members of the batch, or of a jax.vmap around the loop, may stop at different times.
        ends_differ = differs or test.out_avals[0].ndim

        def going(carry):
            (answer,) = self.evaluate(test, [*tested, *map(self.restored, carry)])
            return answer

        def step(carry):
            values = list(map(self.restored, carry))
            outputs = self.evaluate(body, [*constants, *values])
            if ends_differ:  # stopped members keep their values
                index = going(carry)
                outputs = [self.select(index, x) for x in zip(values, outputs, strict=True)]
            return self._handed_on(outputs, flags)

        last = self.repeat(going, step, self._handed_on(start, flags))
        return list(map(self.restored, last))


class _Dependence(ValueDomain):
    """The domain of flags: whether a value depends on flagged arguments. Nothing is run."""

    def constant(self, array):
        return False

    def bind(self, eqn, operands):
        if not any(operands):
            return [False] * len(eqn.outvars)
        if called(eqn) is not None or eqn.primitive.name in CONTROL:
            return super().bind(eqn, operands)
        return [True] * len(eqn.outvars)

    def differs(self, value):
        return value

    def flags(self, eqn, operands):
        return [True] * len(eqn.outvars)  # values are passed on unchanged

    def select(self, index, cases):
        return index or any(cases)

    def switch(self, index, branches):
        return [any(column) for column in zip(*[branch() for branch in branches], strict=True)]

    def rounds(self, eqn, step, start, rows):
        last = _fixed_point(lambda carry: step(carry, rows)[0], start)
        return last, step(last, rows)[1]

    def repeat(self, going, step, start):
        return _fixed_point(step, start)


def _fixed_point(step: Callable, flags) -> list[bool]:
    """The least flags that include the given flags and that a loop's body preserves."""
    while True:
        grown = [a or b for a, b in zip(flags, step(flags), strict=True)]
        if grown == flags:
            return flags
        flags = grown


DEPENDENCE = _Dependence()
"""The domain that finds which outputs of a program or an equation depend on flagged inputs."""
