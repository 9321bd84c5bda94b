"""Batching rules for equations that compute with numbers or rearrange them.

The batch is the last axis, so all axes in an equation's parameters stay valid, and the primitive is
bound again with one more axis. Reads and writes at an index are in :mod:`dpjax.engine.indexing`.
"""

from jax import lax

from dpjax.core._versions import Equation
from dpjax.core.generators import of
from dpjax.engine import indexing
from dpjax.engine.batched import (
    Batched,
    Words,
    as_array,
    by_vmap,
    fit,
    is_key,
    is_key_type,
    repeated,
)
from dpjax.engine.evaluate import rebind


def applies(eqn: Equation, operands: list) -> bool:
    """Whether an equation has a rule. If it has keys, they must be keys of a Generator."""
    name = eqn.primitive.name
    if name not in RULES:
        return False
    keys = [atom.aval.dtype for atom in (*eqn.invars, *eqn.outvars) if is_key_type(atom)]
    if not all(map(of, keys)):
        return False
    if name in indexing.RULES:
        return indexing.applies(eqn, operands)
    if name == "bitcast_convert_type":
        return eqn.invars[0].aval.dtype.itemsize == eqn.outvars[0].aval.dtype.itemsize
    if name == "reshape":
        return eqn.params["dimensions"] is None
    return True


def by_rule(eqn: Equation, operands: list, batch) -> list:
    """The outputs of an equation by its rule. For keys, the rule is applied to each word."""
    rule = RULES[eqn.primitive.name]
    if not any(map(is_key_type, eqn.invars)):
        return [Batched(x) for x in rule(eqn, operands, batch)]
    operands = [repeated(x, batch) if is_key(x) else x for x in operands]
    outputs = [
        rule(eqn, [Batched(getattr(x.value, word)) if is_key(x) else x for x in operands], batch)
        for word in ("first", "second")
    ]
    generator = of(eqn.outvars[0].aval.dtype)
    assert generator is not None  # a rule is for keys of a Generator
    return [
        Batched(Words(first, second, generator)) for first, second in zip(*outputs, strict=True)
    ]


def _elementwise(eqn, operands, batch) -> list:
    (output,) = eqn.outvars
    shape = output.aval.shape
    return rebind(eqn, [fit(x, shape, batch) for x in operands])


def _same_axes(eqn, operands, batch) -> list:
    return rebind(eqn, [repeated(x, batch).value for x in operands])


def _broadcast_in_dim(eqn, operands, batch) -> list:
    shape, dims = eqn.params["shape"], eqn.params["broadcast_dimensions"]
    operand = operands[0].value
    return [lax.broadcast_in_dim(operand, (*shape, batch.size), (*dims, len(shape)))]


def _reshape(eqn, operands, batch) -> list:
    return [lax.reshape(operands[0].value, (*eqn.params["new_sizes"], batch.size))]


def _transpose(eqn, operands, batch) -> list:
    order = eqn.params["permutation"]
    return [lax.transpose(operands[0].value, (*order, len(order)))]


def _slice(eqn, operands, batch) -> list:
    start, limit = eqn.params["start_indices"], eqn.params["limit_indices"]
    strides = eqn.params["strides"]
    strides = None if strides is None else (*strides, 1)
    return [lax.slice(operands[0].value, (*start, 0), (*limit, batch.size), strides)]


def _pad(eqn, operands, batch) -> list:
    operand, value = operands
    if isinstance(value, Batched):
        return [as_array(x) for x in by_vmap(eqn, operands)]
    return [lax.pad(operand.value, value, (*eqn.params["padding_config"], (0, 0, 0)))]


ELEMENTWISE = [
    "abs", "acos", "acosh", "add", "and", "asin", "asinh", "atan", "atan2", "atanh",
    "bessel_i0e", "bessel_i1e", "bitcast_convert_type", "cbrt", "ceil", "clamp", "clz",
    "convert_element_type", "copy", "copy_p", "cos", "cosh", "digamma", "div", "eq", "erf",
    "erf_inv", "erfc", "exp", "exp2", "expm1", "floor", "ge", "gt", "igamma", "igammac",
    "integer_pow", "is_finite", "le", "lgamma", "log", "log1p", "logistic", "lt", "max", "min",
    "mul", "ne", "neg", "nextafter", "not", "or", "polygamma", "population_count", "pow",
    "real", "reduce_precision", "regularized_incomplete_beta", "rem", "round", "rsqrt",
    "select_n", "shift_left", "shift_right_arithmetic", "shift_right_logical", "sign", "sin",
    "sinh", "sqrt", "square", "stop_gradient", "sub", "tan", "tanh", "xor", "zeta",
]  # fmt: skip
_SAME_AXES = [
    "argmax", "argmin", "concatenate", "cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum",
    "reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_prod", "reduce_sum",
    "reduce_xor", "rev", "sort", "split", "squeeze", "stack", "unstack",
]  # fmt: skip
# Each is (equation, operands, batch) -> arrays that have the batch as their last axis.
RULES = {
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    **dict.fromkeys(_SAME_AXES, _same_axes),
    "broadcast_in_dim": _broadcast_in_dim,
    "pad": _pad,
    "reshape": _reshape,
    "slice": _slice,
    "transpose": _transpose,
    **indexing.RULES,
}
