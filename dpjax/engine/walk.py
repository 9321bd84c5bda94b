"""Evaluates traced programs (jaxprs) equation by equation.

Lanes, replays and the float64 shadow of the tests each give the equations a meaning of their own.
What they have in common lives here: how values are kept and read, which equations call a program,
and how the operands of loops and conditions are laid out.
"""

from typing import Any

import numpy as np
from jax import lax
from jax.extend.core import Literal, jaxprs_in_params

# The primitives that call one program with their operands, and the parameter that holds it.
CALLED = {
    "jit": "jaxpr",
    "release": "jaxpr",
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}


def evaluate(closed, inputs, bind, constant=lambda array: array) -> list:
    """Evaluates a program, and leaves the meaning of its equations to ``bind``.

    Args:
      closed: a ClosedJaxpr.
      inputs: the values of its arguments, in a flat list.
      bind: (equation, values of its operands) -> list of the values that it returns.
      constant: makes a value of an array that stands in the program.

    Returns:
      The list of the values that the program returns.
    """
    jaxpr = closed.jaxpr
    values: dict[Any, Any] = dict(zip(jaxpr.invars, inputs, strict=True))
    values.update(zip(jaxpr.constvars, map(constant, closed.consts), strict=True))

    def read(atom):
        if isinstance(atom, Literal):
            return constant(np.asarray(atom.val, atom.aval.dtype))
        return values[atom]

    for eqn in jaxpr.eqns:
        outputs = bind(eqn, [read(atom) for atom in eqn.invars])
        values.update(zip(eqn.outvars, outputs, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def bind(eqn, operands, **changes) -> list:
    """What an equation's own primitive returns for other operands and changed parameters."""
    parameters = eqn.primitive.get_bind_params({**eqn.params, **changes})
    outputs = eqn.primitive.bind(*operands, **parameters)
    return list(outputs) if eqn.primitive.multiple_results else [outputs]


def called(eqn):
    """The closed program that an equation calls with its operands, or None if it calls none."""
    parameter = CALLED.get(eqn.primitive.name)
    return None if parameter is None else eqn.params[parameter]


def equations(jaxpr):
    """Yields every equation of a program, and of all the programs within it."""
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in jaxprs_in_params(eqn.params):
            yield from equations(inner)


# In what follows ``run`` is (closed program, values of its arguments) -> list of its outputs.


def cond(eqn, operands, run) -> list:
    """The outputs of a condition, whose branches ``run`` evaluates."""
    index, *operands = operands
    branches = [lambda *xs, b=branch: run(b, xs) for branch in eqn.params["branches"]]
    return lax.switch(index, branches, *operands)


def scan_sizes(eqn) -> tuple[int, int]:
    """How many constants and how many carried values a scan has.

    Both are read off the shapes, because versions of JAX differ in the parameters that say it.
    Constants and carried values have the shapes of the body's; rows that go in or come out have
    one axis more.
    """
    body = eqn.params["jaxpr"]
    pairs = zip(eqn.invars, body.in_avals, strict=True)
    rows = sum(atom.aval.ndim > aval.ndim for atom, aval in pairs)
    pairs = zip(eqn.outvars, body.out_avals, strict=True)
    carried = sum(atom.aval.ndim == aval.ndim for atom, aval in pairs)
    return len(eqn.invars) - carried - rows, carried


def scan_parts(eqn, operands, run) -> tuple:
    """(step, start, rows): a scan as ``lax.scan`` takes it, its body evaluated by ``run``."""
    body, (n, m) = eqn.params["jaxpr"], scan_sizes(eqn)
    constants, start, rows = operands[:n], operands[n : n + m], operands[n + m :]

    def step(carry, row):
        outputs = run(body, [*constants, *carry, *row])
        return outputs[:m], outputs[m:]

    return step, start, rows


def scan(eqn, operands, run) -> list:
    """The outputs of a scan, whose body ``run`` evaluates."""
    options = {name: eqn.params[name] for name in ("length", "reverse", "unroll")}
    last, rows = lax.scan(*scan_parts(eqn, operands, run), **options)
    return [*last, *rows]


def while_parts(eqn, operands, run_test, run_body) -> tuple:
    """(going, step, start): a while loop as ``lax.while_loop`` takes it.

    ``run_test`` evaluates its condition and ``run_body`` its body.
    """
    test, body = eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]
    n, m = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    of_test, of_body, start = operands[:n], operands[n : n + m], operands[n + m :]

    def going(carry):
        (answer,) = run_test(test, [*of_test, *carry])
        return answer

    def step(carry):
        return run_body(body, [*of_body, *carry])

    return going, step, start
