"""Run a float32 program in float64 arithmetic: beside itself, or alone.

Beside itself, each float32 number of the program gets a float64 shadow. Draws, comparisons, indices
and all other discrete values are the program's own, so the shadow takes the same path: the same
actions are played and the same losses drawn. The final difference is then the effect of rounding.
Alone, the program also decides in float64.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dpjax.core._versions import enable_x64
from dpjax.engine.evaluate import CONTROL, ValueDomain, called, rebind

# Draws and bits: their shadow is always the float32 result.
_DRAWN = {"bitcast_convert_type", "iota", "nextafter", "random_gamma"}
# Whole numbers: their shadow is the float32 result if it runs beside the program.
_WHOLE = {"ceil", "floor", "rem", "round", "sign"}


def shadowed(function, *arguments):
    """(the function's value, its value in float64), as pytrees of NumPy arrays.

    Leaves that are not floats are the same in both.
    """
    return _play(function, arguments, alone=False)


def in_float64(function, *arguments):
    """The function's value if all its float32 arithmetic is done in float64."""
    return _play(function, arguments, alone=True)[1]


def _play(function, arguments, alone):
    closed, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)
    structure = jax.tree.structure(shape)

    def run(*flat):
        pairs = [(leaf, _widened(leaf)) for leaf in flat]
        if alone:
            pairs = [(wide, wide) for _, wide in pairs]
        return _Shadowed(alone).evaluate(closed, pairs)

    flat = jax.tree.leaves(arguments)
    with enable_x64(True):
        pairs = jax.jit(run)(*flat)
        return [
            jax.tree.unflatten(structure, [np.asarray(pair[i]) for pair in pairs]) for i in (0, 1)
        ]


def _is_float(value) -> bool:
    return np.dtype(jnp.float32) == value.dtype


def _widened(value):
    return lax.convert_element_type(value, jnp.float64) if _is_float(value) else value


def _narrowed(value):
    return lax.convert_element_type(value, jnp.float32) if value.dtype == np.float64 else value


class _Shadowed(ValueDomain):
    """The domain of pairs (value, shadow), which are equal if they are not floats.

    Alone, the value is the shadow.
    """

    def __init__(self, alone):
        self.alone = alone

    def constant(self, array):
        return _widened(array) if self.alone else array, _widened(array)

    def bind(self, eqn, operands):
        if called(eqn) is not None or eqn.primitive.name in CONTROL:
            return super().bind(eqn, operands)
        return _operation(eqn, operands, self.alone)

    def select(self, index, cases):
        values, shadows = zip(*cases, strict=True)
        return super().select(index[0], values), super().select(index[0], shadows)

    def truth(self, value):
        return super().truth(value[0])

    def switch(self, index, branches):
        return super().switch(index[0], branches)


def _operation(eqn, inputs, alone) -> list:
    """The pairs returned by an equation that runs no program."""
    name, params = eqn.primitive.name, eqn.params
    bind = partial(rebind, eqn)
    values, shadows = ([pair[i] for pair in inputs] for i in (0, 1))
    narrow = [_narrowed(value) for value in values]
    to_float = any(aval.aval.dtype == np.float32 for aval in eqn.outvars)
    from_float = any(a.dtype != b.dtype for a, b in zip(narrow, shadows, strict=True))
    if name == "convert_element_type" and to_float:
        own = bind(values)
        wide = [lax.convert_element_type(shadows[0], jnp.float64)]
    elif name in _DRAWN or not from_float:
        own = bind(narrow)
        wide = [_widened(result) for result in own]
    elif name == "reduce_precision":
        own, wide = bind(values), shadows
    elif name == "sort" and not alone:
        # The shadows move as their numbers do.
        floats = [i for i, value in enumerate(values) if _is_float(value)]
        both = bind([*values, *(shadows[i] for i in floats)])
        moved = dict(zip(floats, both[len(values) :], strict=True))
        own, wide = both[: len(values)], [moved.get(i, both[i]) for i in range(len(values))]
    elif name in _WHOLE and not alone:
        own = bind(values)
        wide = [_widened(result) for result in own]
    else:
        own = bind(values) if not alone else None
        double = {}
        if params.get("preferred_element_type") is not None:
            double["preferred_element_type"] = np.dtype(np.float64)
        if params.get("update_jaxpr") is not None and to_float:  # of an adding scatter
            double["update_jaxpr"] = _in_float64(params["update_jaxpr"])
        wide = bind(shadows, **double) if to_float or alone else own
    if alone:
        own = wide
    return [
        (value, shadow if out.aval.dtype == np.float32 else value)
        for value, shadow, out in zip(own, wide, eqn.outvars, strict=True)
    ]


def _in_float64(jaxpr):
    """The program of one operation on two numbers, with float64 instead of float32."""
    (eqn,) = jaxpr.eqns
    program = jax.make_jaxpr(lambda x, y: eqn.primitive.bind(x, y, **eqn.params))
    return program(np.float64(0.0), np.float64(0.0)).jaxpr
