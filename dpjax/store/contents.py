"""The arrays and numbers of a traced program, and the differences of two programs."""

import jax
import numpy as np
from jax import random as jr
from jax.extend.core import ClosedJaxpr

from dpjax.store.objects import digest

_SHOWN = 3  # how many entries of an array are shown, and how many differences


def contents(program: ClosedJaxpr) -> list[str]:
    """The numbers and arrays of a traced program and its number of equations, as texts.

    Nested programs are included. The text of an array contains its type, its first entries and a
    digest of all entries.
    """
    equations, texts = 0, set()

    def text(value) -> str:
        if jax.dtypes.issubdtype(getattr(value, "dtype", None), jax.dtypes.prng_key):
            value = jr.key_data(value)
        value = np.asarray(value)
        if value.ndim == 0:
            return str(value)
        first = ", ".join(map(str, value.flat[:_SHOWN])) + (", ..." if value.size > _SHOWN else "")
        name = digest(np.ascontiguousarray(value).tobytes())[:6]
        return f"{value.dtype}{value.shape} [{first}] with digest {name}"

    def visit(value):
        nonlocal equations
        if isinstance(value, tuple | list):
            for part in value:
                visit(part)
        elif hasattr(value, "eqns"):
            texts.update(map(text, getattr(value, "consts", ())))
            for equation in value.eqns:
                equations += 1
                texts.update(text(atom.val) for atom in equation.invars if hasattr(atom, "val"))
                visit([*equation.params.values()])

    visit(program)
    return [*sorted(texts), f"{equations} equations"]


def difference(stored: list[str], new: list[str]) -> list[str]:
    """The texts that only the first and only the second of two lists has, in words."""
    words = []
    for texts, others in ((stored, new), (new, stored)):
        only = [text for text in texts if text not in others]
        more = f" and {len(only) - _SHOWN} more" if len(only) > _SHOWN else ""
        words.append(" and ".join(only[:_SHOWN]) + more or "other operations")
    return words
