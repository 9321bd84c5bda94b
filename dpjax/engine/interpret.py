"""Runs a traced program while a visitor looks at the releases in it.

A program is run equation by equation under whatever transformations surround it, so that the
result can be compiled and mapped like any function. At each of the named sites of
:mod:`dpjax.noise` a visitor decides what comes out.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from dpjax import noise
from dpjax.engine import walk

# The primitives that consume a key and are no releases.
DRAWS = ("random_bits", "random_split", "random_fold_in")


def site(eqn, *, draws=False) -> str | None:
    """The name of the release that an equation is, or None.

    An equation is a release where its program is that of the function in :mod:`dpjax.noise`. A
    function of the same name elsewhere is none. Nor is a row of a release under ``jax.vmap``, which
    may share its noise with the other rows. Arguments must have been given by position.

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
        return None  # the release does not take such arguments
    own, found = own.params["jaxpr"], eqn.params["jaxpr"]
    return name if own is found or str(own) == str(found) else None


def programs(eqn) -> list:
    """The programs within an equation, closed."""
    found = []
    for value in eqn.params.values():
        parts = value if isinstance(value, tuple | list) else [value]
        found += [part for part in parts if hasattr(part, "jaxpr") and hasattr(part, "consts")]
    return found


def names(closed, *, loops=False, draws=False) -> list[str]:
    """The names of a program's sites in its order, those of each branch of a condition in turn.

    Args:
      closed: a ClosedJaxpr.
      loops: whether to enter loops too.
      draws: whether to name what else consumes a key too, as :func:`site` does.
    """
    found = []
    for eqn in closed.jaxpr.eqns:
        if name := site(eqn, draws=draws):
            found.append(name)
        elif _is_entered(eqn, loops):
            for inner in programs(eqn):
                found += names(inner, loops=loops, draws=draws)
    return found


def _is_entered(eqn, loops) -> bool:
    name = eqn.primitive.name
    return name in _ENTER and (loops or name not in ("scan", "while"))


def run(closed, arguments, visit: Callable, *, first=0, **options) -> tuple[list, list]:
    """Evaluates a program, and leaves its sites to the visitor.

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
    records = []

    def bind(eqn, inputs):
        nonlocal first
        if name := site(eqn, draws=options.get("draws", False)):
            outputs, record = visit(first, name, partial(_apply, eqn), inputs)
            records.append(record)
            first += 1
            return outputs
        here = sum(len(names(inner, **options)) for inner in programs(eqn))
        if not here or not _is_entered(eqn, options.get("loops", False)):
            return _apply(eqn, *inputs)
        enter = _ENTER[eqn.primitive.name]
        outputs, found = enter(eqn, inputs, visit, first, options)
        records.extend(found)
        first += here
        return outputs

    return walk.evaluate(closed, arguments, bind), records


def _apply(eqn, *inputs) -> list:
    return walk.bind(eqn, inputs)


# Each rule is (equation, inputs, visit, number of its first site, options) -> (outputs, records).


def _call(eqn, inputs, visit, first, options):
    return run(walk.called(eqn), inputs, visit, first=first, **options)


def _cond(eqn, inputs, visit, first, options):
    # Not by walk.cond: all branches must return the records of all sites of the condition.
    index, *inputs = inputs
    starts, branches = [], eqn.params["branches"]
    for branch in branches:
        starts.append(first)
        first += len(names(branch, **options))

    def taken(i, inputs):
        return run(branches[i], inputs, visit, first=starts[i], **options)

    count = range(len(branches))
    shapes = [jax.eval_shape(lambda inputs, i=i: taken(i, inputs)[1], inputs) for i in count]

    def complete(i):
        def branch(*inputs):
            outputs, mine = taken(i, list(inputs))
            records = []
            for j, others in enumerate(shapes):
                records += mine if j == i else jax.tree.map(_zeros, others)
            return outputs, records

        return branch

    return lax.switch(index, [complete(i) for i in count], *inputs)


def _zeros(leaf):
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        raise TypeError("a record must hold the data of a key (jax.random.key_data), not a key")
    return jnp.zeros(leaf.shape, leaf.dtype)


def _while(eqn, inputs, visit, first, options):
    after = first + len(names(eqn.params["cond_jaxpr"], **options))
    test, body = (partial(_outputs, visit, start, options) for start in (first, after))
    return lax.while_loop(*walk.while_parts(eqn, inputs, test, body)), []


def _scan(eqn, inputs, visit, first, options):
    return walk.scan(eqn, inputs, partial(_outputs, visit, first, options)), []


def _outputs(visit, first, options, closed, inputs) -> list:
    outputs, _ = run(closed, inputs, visit, first=first, **options)
    return outputs


_ENTER = {
    **dict.fromkeys(walk.CALLED, _call),
    "cond": _cond,
    "while": _while,
    "scan": _scan,
}
