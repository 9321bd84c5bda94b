"""Runs a traced program while a visitor looks at the releases in it.

A program is run equation by equation under whatever transformations surround it, so that the
result can be compiled and mapped like any function. At each release of :mod:`dpjax.noise` a visitor
decides what comes out. A scan with releases in it is written out, round by round.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import jaxprs_in_params

from dpjax.engine import walk
from dpjax.noise.release import Site, release_p

# The primitives that consume a key and are no releases.
DRAWS = ("random_bits", "random_split", "random_fold_in")
# A scan with releases is written out if it has so many rounds at most.
MOST_ROUNDS = 256


def site(eqn, *, draws=False) -> Site | str | None:
    """The Site of the release that an equation is, or None.

    Args:
      eqn: of a jaxpr.
      draws: whether to name what else consumes a key, as in DRAWS, too.
    """
    if eqn.primitive is release_p:
        return eqn.params["site"]
    name = eqn.primitive.name
    return name if draws and name in DRAWS else None


def programs(eqn) -> list:
    """The programs within an equation, closed."""
    found = []
    for value in eqn.params.values():
        parts = value if isinstance(value, tuple | list) else [value]
        found += [part for part in parts if hasattr(part, "jaxpr") and hasattr(part, "consts")]
    return found


def has_releases(jaxpr) -> bool:
    """Whether a release stands anywhere in a program."""
    return any(
        eqn.primitive is release_p or any(map(has_releases, jaxprs_in_params(eqn.params)))
        for eqn in jaxpr.eqns
    )


def sites(closed, *, whiles=False, draws=False) -> list[Site | str]:
    """The sites of a program in its order, those of each branch of a condition in turn.

    Args:
      closed: a ClosedJaxpr.
      whiles: whether to enter while loops, too.
      draws: whether to name what else consumes a key too, as :func:`site` does.
    """
    found: list[Site | str] = []
    for eqn in closed.jaxpr.eqns:
        if here := site(eqn, draws=draws):
            found.append(here)
        elif _is_entered(eqn, whiles):
            for inner in programs(eqn):
                found += sites(inner, whiles=whiles, draws=draws) * _times(eqn)
    return found


def _is_entered(eqn, whiles) -> bool:
    name = eqn.primitive.name
    if name == "scan":
        return has_releases(eqn.params["jaxpr"].jaxpr) and 0 < _times(eqn) <= MOST_ROUNDS
    return name in _ENTER and (whiles or name != "while")


def _times(eqn) -> int:
    return eqn.params["length"] if eqn.primitive.name == "scan" else 1


def run(closed, arguments, visit: Callable, *, first=0, **options) -> tuple[list, list]:
    """Evaluates a program, and leaves its sites to the visitor.

    Args:
      closed: a ClosedJaxpr.
      arguments: flat list of its arguments.
      visit: (index, site, function, arguments) -> (outputs, record), where ``function`` is what
        the site does and ``record`` a pytree of arrays. Sites are numbered in the order of the
        program, the branches of a condition one after another.
      first: number of the first site.
      **options: as of :func:`sites`. The visitor's records of sites within while loops are dropped;
        a loop that is not entered runs as it is.

    Returns:
      (outputs, records): a record for each of the :func:`sites` outside of while loops. In a branch
      that is not taken a record is all zeros.
    """
    records = []

    def bind(eqn, inputs):
        nonlocal first
        if here := site(eqn, draws=options.get("draws", False)):
            outputs, record = visit(first, here, partial(_apply, eqn), inputs)
            records.append(record)
            first += 1
            return outputs
        if not _is_entered(eqn, options.get("whiles", False)):
            return _apply(eqn, *inputs)
        count = sum(len(sites(inner, **options)) for inner in programs(eqn)) * _times(eqn)
        if not count:
            return _apply(eqn, *inputs)
        outputs, found = _ENTER[eqn.primitive.name](eqn, inputs, visit, first, options)
        records.extend(found)
        first += count
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
        first += len(sites(branch, **options))

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
    after = first + len(sites(eqn.params["cond_jaxpr"], **options))
    test, body = (partial(_outputs, visit, start, options) for start in (first, after))
    return lax.while_loop(*walk.while_parts(eqn, inputs, test, body)), []


def _outputs(visit, first, options, closed, inputs) -> list:
    outputs, _ = run(closed, inputs, visit, first=first, **options)
    return outputs


def _scan(eqn, inputs, visit, first, options):
    each, records = len(sites(eqn.params["jaxpr"], **options)), []

    def body(closed, inputs):
        nonlocal first
        outputs, found = run(closed, inputs, visit, first=first, **options)
        records.extend(found)
        first += each
        return outputs

    step, carry, rows = walk.scan_parts(eqn, inputs, body)
    length, stacked = eqn.params["length"], []
    order = range(length)
    for i in reversed(order) if eqn.params["reverse"] else order:
        carry, row = step(carry, [leaf[i] for leaf in rows])
        stacked.append(row)
    stacked = stacked[::-1] if eqn.params["reverse"] else stacked
    columns = [jnp.stack(column) for column in zip(*stacked, strict=True)]
    return [*carry, *columns], records


_ENTER = {
    **dict.fromkeys(walk.CALLED, _call),
    "cond": _cond,
    "while": _while,
    "scan": _scan,
}
