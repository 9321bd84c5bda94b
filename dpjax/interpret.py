"""Running a traced program while looking at the releases in it.

A jaxpr is run equation by equation under whatever transformations surround it, so that the result
can be compiled and mapped like any function. At each of the named sites of :mod:`dpjax.noise` a
visitor decides what comes out.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import Literal, jaxpr_as_fun

from dpjax.noise import SITES


def site(eqn) -> str | None:
    """The name of the release that an equation is, or None."""
    name = eqn.params.get("name")
    return name if eqn.primitive.name == "jit" and name in SITES else None


def programs(eqn) -> list:
    """The programs within an equation, closed."""
    found = []
    for value in eqn.params.values():
        parts = value if isinstance(value, tuple | list) else [value]
        found += [part for part in parts if hasattr(part, "jaxpr") and hasattr(part, "consts")]
    return found


def scan_sizes(eqn) -> tuple[int, int]:
    """How many constants and how many carried values a scan has, whatever its parameters say.

    They have the shapes of the body's; rows, that go in and come out, have an axis more.
    """
    body = eqn.params["jaxpr"]
    pairs = zip(eqn.invars, body.in_avals, strict=True)
    rows = sum(atom.aval.ndim > aval.ndim for atom, aval in pairs)
    pairs = zip(eqn.outvars, body.out_avals, strict=True)
    carried = sum(atom.aval.ndim == aval.ndim for atom, aval in pairs)
    return len(eqn.invars) - carried - rows, carried


def names(closed, *, loops=False) -> list[str]:
    """The names of a program's sites, in its order, each branch of a condition by itself."""
    found = []
    for eqn in closed.jaxpr.eqns:
        if name := site(eqn):
            found.append(name)
        elif _entered(eqn, loops):
            found += [name for inner in programs(eqn) for name in names(inner, loops=loops)]
    return found


def count(closed, *, loops=False) -> int:
    """How many sites a program has."""
    return len(names(closed, loops=loops))


def _entered(eqn, loops) -> bool:
    entered = {"jit", "cond", *(("scan", "while") if loops else ())}
    return eqn.primitive.name in entered


def run(closed, arguments, visit: Callable, *, first=0, loops=False) -> tuple[list, list]:
    """Evaluates a program, its sites by the visitor.

    Args:
      closed: a ClosedJaxpr.
      arguments: flat list of its arguments.
      visit: (index, name, function, arguments) -> (outputs, record), where ``function`` is what
        the site does and ``record`` a pytree of arrays. Sites are numbered in the order of the
        program, the branches of a condition one after another.
      first: number of the first site.
      loops: whether to enter loops too, where the visitor's records are dropped. Else a loop runs
        as it is.

    Returns:
      (outputs, records): a record for each site as :func:`count` counts them outside of loops. In a
      branch that is not taken a record is all zeros.
    """
    values: dict[Any, Any] = {}

    def read(atom):
        return atom.val if isinstance(atom, Literal) else values[atom]

    values.update(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    values.update(zip(closed.jaxpr.invars, arguments, strict=True))
    records = []
    for eqn in closed.jaxpr.eqns:
        inputs = [read(atom) for atom in eqn.invars]
        here = sum(count(inner, loops=loops) for inner in programs(eqn))
        if name := site(eqn):
            function = jaxpr_as_fun(eqn.params["jaxpr"])
            outputs, record = visit(first, name, function, inputs)
            records.append(record)
            first += 1
        elif here and _entered(eqn, loops):
            enter = _ENTER[eqn.primitive.name]
            outputs, found = enter(eqn, inputs, visit, first, loops)
            records += found
            first += here
        else:
            outputs = eqn.primitive.bind(*inputs, **eqn.primitive.get_bind_params(eqn.params))
            outputs = outputs if eqn.primitive.multiple_results else [outputs]
        values.update(zip(eqn.outvars, outputs, strict=True))
    return [read(atom) for atom in closed.jaxpr.outvars], records


def _jit(eqn, inputs, visit, first, loops):
    return run(eqn.params["jaxpr"], inputs, visit, first=first, loops=loops)


def _cond(eqn, inputs, visit, first, loops):
    index, *inputs = inputs
    starts, branches = [], eqn.params["branches"]
    for branch in branches:
        starts.append(first)
        first += count(branch, loops=loops)

    def taken(i, inputs):
        return run(branches[i], inputs, visit, first=starts[i], loops=loops)

    shapes = [jax.eval_shape(lambda inputs, i=i: taken(i, inputs)[1], inputs) for i in
              range(len(branches))]  # fmt: skip

    def complete(i):
        def branch(*inputs):
            outputs, mine = taken(i, list(inputs))
            records = []
            for j, others in enumerate(shapes):
                nothing = jax.tree.map(lambda leaf: _zeros(leaf), others)
                records += mine if j == i else nothing
            return outputs, records

        return branch

    return lax.switch(index, [complete(i) for i in range(len(branches))], *inputs)


def _zeros(leaf):
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        raise TypeError("a record must hold the data of a key (jax.random.key_data), not a key")
    return jnp.zeros(leaf.shape, leaf.dtype)


def _while(eqn, inputs, visit, first, loops):
    test, body = eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]
    n, m = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    of_test, of_body, start = inputs[:n], inputs[n : n + m], inputs[n + m :]
    after = first + count(test, loops=loops)

    def going(carry):
        return run(test, [*of_test, *carry], visit, first=first, loops=loops)[0][0]

    def step(carry):
        return run(body, [*of_body, *carry], visit, first=after, loops=loops)[0]

    return lax.while_loop(going, step, start), []


def _scan(eqn, inputs, visit, first, loops):
    parameters = eqn.params
    n, m = scan_sizes(eqn)
    constants, start, rows = inputs[:n], inputs[n : n + m], inputs[n + m :]

    def step(carry, row):
        arguments = [*constants, *carry, *row]
        outputs, _ = run(parameters["jaxpr"], arguments, visit, first=first, loops=loops)
        return outputs[:m], outputs[m:]

    last, rows = lax.scan(
        step, start, rows, length=parameters["length"], reverse=parameters["reverse"]
    )
    return [*last, *rows], []


_ENTER = {"jit": _jit, "cond": _cond, "while": _while, "scan": _scan}
