"""Running a traced program while looking at the releases in it.

A jaxpr is run equation by equation under whatever transformations surround it, so that the result
can be compiled and mapped like any function. At each of the named sites of :mod:`dpjax.noise` a
visitor decides what comes out.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import Literal

from dpjax import noise

# What consumes a key outside of the sites.
DRAWS = ("random_bits", "random_split", "random_fold_in")


def site(eqn, *, draws=False) -> str | None:
    """The name of the release that an equation is, or None.

    An equation is a release where its program is that of the function in :mod:`dpjax.noise`. A
    function of the same name elsewhere is none, nor is a row of one under ``jax.vmap``, which may
    share its noise with the other rows. Positional arguments are expected.

    Args:
      eqn: of a jaxpr.
      draws: whether to name what else consumes a key, as in DRAWS, too.
    """
    primitive, name = eqn.primitive.name, eqn.params.get("name")
    if draws and primitive in DRAWS:
        return primitive
    if primitive != "jit" or name not in noise.SITES:
        return None
    avals = [atom.aval for atom in eqn.invars]
    avals = [jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in avals]
    try:
        (own,) = jax.make_jaxpr(getattr(noise, name))(*avals).eqns
    except (TypeError, ValueError):
        return None  # such arguments it does not take
    own, found = own.params["jaxpr"], eqn.params["jaxpr"]
    return name if own is found or str(own) == str(found) else None


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


def names(closed, *, loops=False, draws=False) -> list[str]:
    """The names of a program's sites, in its order, each branch of a condition by itself.

    Args:
      closed: a ClosedJaxpr.
      loops: whether to enter loops too.
      draws: whether to name what else consumes a key too, as :func:`site` does.
    """
    found = []
    for eqn in closed.jaxpr.eqns:
        if name := site(eqn, draws=draws):
            found.append(name)
        elif _entered(eqn, loops):
            for inner in programs(eqn):
                found += names(inner, loops=loops, draws=draws)
    return found


def _entered(eqn, loops) -> bool:
    entered = {"jit", "cond", *(("scan", "while") if loops else ())}
    return eqn.primitive.name in entered


def run(closed, arguments, visit: Callable, *, first=0, **options) -> tuple[list, list]:
    """Evaluates a program, its sites by the visitor.

    Args:
      closed: a ClosedJaxpr.
      arguments: flat list of its arguments.
      visit: (index, name, function, arguments) -> (outputs, record), where ``function`` is what
        the site does and ``record`` a pytree of arrays. Sites are numbered in the order of the
        program, the branches of a condition one after another.
      first: number of the first site.
      **options: as of :func:`names`. The visitor's records of sites within loops are dropped; a
        loop that is not entered runs as it is.

    Returns:
      (outputs, records): a record for each of the :func:`names` outside of loops. In a branch that
      is not taken a record is all zeros.
    """
    values: dict[Any, Any] = {}

    def read(atom):
        return atom.val if isinstance(atom, Literal) else values[atom]

    values.update(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    values.update(zip(closed.jaxpr.invars, arguments, strict=True))
    records = []
    for eqn in closed.jaxpr.eqns:
        inputs = [read(atom) for atom in eqn.invars]
        here = sum(len(names(inner, **options)) for inner in programs(eqn))
        if name := site(eqn, draws=options.get("draws", False)):
            outputs, record = visit(first, name, partial(_apply, eqn), inputs)
            records.append(record)
            first += 1
        elif here and _entered(eqn, options.get("loops", False)):
            enter = _ENTER[eqn.primitive.name]
            outputs, found = enter(eqn, inputs, visit, first, options)
            records += found
            first += here
        else:
            outputs = _apply(eqn, *inputs)
        values.update(zip(eqn.outvars, outputs, strict=True))
    return [read(atom) for atom in closed.jaxpr.outvars], records


def _apply(eqn, *inputs) -> list:
    outputs = eqn.primitive.bind(*inputs, **eqn.primitive.get_bind_params(eqn.params))
    return list(outputs) if eqn.primitive.multiple_results else [outputs]


def _jit(eqn, inputs, visit, first, options):
    return run(eqn.params["jaxpr"], inputs, visit, first=first, **options)


def _cond(eqn, inputs, visit, first, options):
    index, *inputs = inputs
    starts, branches = [], eqn.params["branches"]
    for branch in branches:
        starts.append(first)
        first += len(names(branch, **options))

    def taken(i, inputs):
        return run(branches[i], inputs, visit, first=starts[i], **options)

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


def _while(eqn, inputs, visit, first, options):
    test, body = eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]
    n, m = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    of_test, of_body, start = inputs[:n], inputs[n : n + m], inputs[n + m :]
    after = first + len(names(test, **options))

    def going(carry):
        return run(test, [*of_test, *carry], visit, first=first, **options)[0][0]

    def step(carry):
        return run(body, [*of_body, *carry], visit, first=after, **options)[0]

    return lax.while_loop(going, step, start), []


def _scan(eqn, inputs, visit, first, options):
    parameters = eqn.params
    n, m = scan_sizes(eqn)
    constants, start, rows = inputs[:n], inputs[n : n + m], inputs[n + m :]

    def step(carry, row):
        arguments = [*constants, *carry, *row]
        outputs, _ = run(parameters["jaxpr"], arguments, visit, first=first, **options)
        return outputs[:m], outputs[m:]

    last, rows = lax.scan(
        step, start, rows, length=parameters["length"], reverse=parameters["reverse"]
    )
    return [*last, *rows], []


_ENTER = {"jit": _jit, "cond": _cond, "while": _while, "scan": _scan}
