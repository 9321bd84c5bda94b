"""The arrays and numbers of a traced program, and the differences of two programs."""

from typing import Any

import jax
import numpy as np
from jax import random as jr

from dpjax.store.objects import digest

_SHOWN = 3  # how many numbers of an array are shown, and how many differences of a kind


def contents(program: Any) -> dict[str, Any]:
    """The number of equations of a traced program, and its numbers and arrays as texts.

    Nested programs are included. The text of an array contains its type, its first entries and a
    digest of all entries. Equal numbers or equal arrays have only one text.
    """
    equations = 0
    found: dict[str, set[str]] = {"numbers": set(), "arrays": set()}

    def note(value):
        if jax.dtypes.issubdtype(getattr(value, "dtype", None), jax.dtypes.prng_key):
            value = jr.key_data(value)
        value = np.asarray(value)
        if value.ndim == 0:
            found["numbers"].add(str(value))
            return
        first = ", ".join(map(str, value.flat[:_SHOWN])) + (", ..." if value.size > _SHOWN else "")
        name = digest(np.ascontiguousarray(value).tobytes())[:6]
        found["arrays"].add(f"{value.dtype}{value.shape} [{first}] with digest {name}")

    def visit(value):
        nonlocal equations
        if isinstance(value, tuple | list):
            for each in value:
                visit(each)
        elif hasattr(value, "eqns"):
            for constant in getattr(value, "consts", ()):
                note(constant)
            for equation in value.eqns:
                equations += 1
                for atom in equation.invars:
                    if hasattr(atom, "val"):
                        note(atom.val)
                visit([*equation.params.values()])

    visit(program)
    return {"equations": equations, **{name: sorted(texts) for name, texts in found.items()}}


def difference(there: dict[str, Any], here: dict[str, Any]) -> str:
    """The differences of two programs in words, from their contents; empty if there are none."""
    parts = []
    for kind, word in (("arrays", "array"), ("numbers", "number")):
        sides = [
            [text for text in one[kind] if text not in other[kind]]
            for one, other in ((there, here), (here, there))
        ]
        if any(sides):
            both = zip(map(_listed, sides), ("in the store", "now"), strict=True)
            parts.append(f"another {word}, {', '.join(' '.join(pair) for pair in both)}")
    if there["equations"] != here["equations"]:
        parts.append(f"{there['equations']} equations in the store, {here['equations']} now")
    return "; ".join(parts)


def _listed(texts) -> str:
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return " and ".join(texts[:_SHOWN]) + more if texts else "none"
