"""Evaluate a traced program with a visitor at its releases.

The program is evaluated equation by equation, so the result can be compiled and mapped like any
function. At each release of :mod:`dpjax.noise` the visitor determines the output. A scan with
releases in it is unrolled.
"""

from collections.abc import Callable
from itertools import chain

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from dpjax.core._versions import Equation, jaxprs_in_params
from dpjax.engine.evaluate import CALLED, CONTROL, ValueDomain, equations, rebind
from dpjax.noise.release import Site, release_p

# The primitives that use a key and are not releases.
DRAWS = ("random_bits", "random_split", "random_fold_in")
# A scan with releases is unrolled if it has at most this many rounds.
MOST_ROUNDS = 256


def site(eqn: Equation) -> Site | str | None:
    """The Site of an equation that is a release, its name if it is in DRAWS, or None."""
    if eqn.primitive is release_p:
        return eqn.params["site"]
    return eqn.primitive.name if eqn.primitive.name in DRAWS else None


def programs(eqn: Equation) -> list:
    """The closed programs within an equation."""
    closed = []
    for value in eqn.params.values():
        parts = value if isinstance(value, tuple | list) else [value]
        closed += [part for part in parts if hasattr(part, "jaxpr") and hasattr(part, "consts")]
    return closed


def releases(jaxpr: Jaxpr) -> list[Site]:
    """The sites of all releases in a program, each once, including those in loops."""
    return [eqn.params["site"] for eqn in equations(jaxpr) if eqn.primitive is release_p]


def sites(closed: ClosedJaxpr) -> list[Site | str]:
    """All sites of a ClosedJaxpr in order, including those of all branches of a condition.

    Raises:
      ValueError: a visitor cannot reach a release, for example in a while loop.
    """
    listed: list[Site | str] = []
    for eqn in closed.jaxpr.eqns:
        if place := site(eqn):
            listed.append(place)
        elif _is_entered(eqn):
            for inner in programs(eqn):
                listed += sites(inner) * _times(eqn)
        elif _times(eqn):
            _check_no_releases(eqn)
    return listed


def _is_entered(eqn) -> bool:
    name = eqn.primitive.name
    if name == "scan":
        return 0 < _times(eqn) <= MOST_ROUNDS and bool(releases(eqn.params["jaxpr"].jaxpr))
    return name in CALLED or name == "cond"


def _check_no_releases(eqn) -> None:
    """Raise ValueError if an equation contains a release that a visitor cannot reach."""
    name = eqn.primitive.name
    place = {
        "while": "a loop whose number of rounds is not fixed",
        "scan": f"a scan of {_times(eqn)} rounds",
    }.get(name, name)
    for release in chain.from_iterable(map(_of_values, jaxprs_in_params(eqn.params))):
        law = release.law.name if release.law else release.kind
        raise ValueError(
            f"learner: an audit cannot find a release ({law}) in {place}; it finds releases in "
            "jax.jit, lax.cond, jax.vmap, and in lax.scan and lax.fori_loop of a fixed number of "
            f"rounds, at most {MOST_ROUNDS}"
        )


def _of_values(jaxpr) -> list[Site]:
    """The releases in a program, except noise on a constant.

    Such noise hides no loss by itself. Mechanisms draw it and mark the sums that it hides.
    """
    constant: set = set()
    listed: list[Site] = []
    for eqn in jaxpr.eqns:
        fixed = [isinstance(x, Literal) or x in constant for x in eqn.invars]
        if eqn.primitive is release_p:
            place = eqn.params["site"]
            listed += [] if place.kind == "value" and fixed[1] else [place]
        else:
            constant.update(eqn.outvars if all(fixed) else ())
            listed += chain.from_iterable(map(_of_values, jaxprs_in_params(eqn.params)))
    return listed


def _times(eqn) -> int:
    return eqn.params["length"] if eqn.primitive.name == "scan" else 1


def run(closed: ClosedJaxpr, arguments: list, visit: Callable) -> tuple[list, list]:
    """Evaluate a program, with the visitor at its sites.

    Args:
      closed: a ClosedJaxpr.
      arguments: flat list of its arguments.
      visit: (index, site, function, arguments) -> (outputs, record), where ``function`` is the
        site's own operation and ``record`` a pytree of arrays. Sites are numbered in the order of
        :func:`sites`.

    Returns:
      (outputs, records): a record for each of the :func:`sites`. In a branch that is not taken, a
      record is all zeros.
    """
    visited = _Visited(visit, 0)
    return visited.evaluate(closed, arguments), visited.records


class _Visited(ValueDomain):
    """The domain of arrays, with a visitor at its sites."""

    def __init__(self, visit, first):
        self.visit, self.first, self.records = visit, first, []

    def bind(self, eqn, operands):
        if place := site(eqn):
            index = self.first + len(self.records)
            outputs, record = self.visit(index, place, lambda *new: rebind(eqn, new), operands)
            self.records.append(record)
            return outputs
        return super().bind(eqn, operands) if _is_entered(eqn) else rebind(eqn, operands)

    def cond(self, eqn, operands):
        """Each branch returns the records of all sites of the condition."""
        index, *operands = operands
        branches, first, places = eqn.params["branches"], self.first + len(self.records), []
        for branch in branches:
            places.append(first)
            first += len(sites(branch))

        def taken(i):
            visited = _Visited(self.visit, places[i])
            return visited.evaluate(branches[i], operands), visited.records

        shapes = [jax.eval_shape(lambda i=i: taken(i)[1]) for i in range(len(branches))]

        def complete(i):
            def branch():
                outputs, mine = taken(i)
                others = [jax.tree.map(_zeros, shape) for shape in shapes]
                others[i] = mine
                return outputs, list(chain.from_iterable(others))

            return branch

        outputs, records = lax.switch(index, [complete(i) for i in range(len(branches))])
        self.records += records
        return outputs

    def rounds(self, eqn, step, start, rows):
        carry, length, reverse = start, eqn.params["length"], eqn.params["reverse"]
        stacked = []
        for i in reversed(range(length)) if reverse else range(length):
            carry, row = step(carry, [leaf[i] for leaf in rows])
            stacked.append(row)
        stacked = stacked[::-1] if reverse else stacked
        return carry, [jnp.stack(column) for column in zip(*stacked, strict=True)]


def _zeros(leaf):
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        raise TypeError("a record must hold the data of a key (jax.random.key_data), not a key")
    return jnp.zeros(leaf.shape, leaf.dtype)


class Rewritten(ValueDomain):
    """The domain of arrays, with ``rewrite(site, operands)`` instead of each release.

    It enters all loops and keeps them as loops.
    """

    def __init__(self, rewrite):
        self.rewrite = rewrite

    def bind(self, eqn, operands):
        if eqn.primitive is release_p:
            return [self.rewrite(eqn.params["site"], operands)]
        if eqn.primitive.name not in (*CALLED, *CONTROL):
            _check_no_releases(eqn)
        return super().bind(eqn, operands)
