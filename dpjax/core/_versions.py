"""Interfaces of JAX that differ between the supported versions."""

from collections.abc import Iterator
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr

# A jax.extend.core.JaxprEqn. JAX declares no shape and dtype of its variables.
Equation = Any

try:
    enable_x64 = jax.enable_x64
except AttributeError:  # jax 0.7
    enable_x64 = jax.experimental.enable_x64  # type: ignore[attr-defined]


def jaxprs_in_params(params: dict) -> Iterator[Jaxpr]:
    """Yield the programs in an equation's parameters. jax 0.7 has no such function."""
    for value in params.values():
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, ClosedJaxpr):  # the same class as Jaxpr since jax 0.11
                yield part.jaxpr
            elif isinstance(part, Jaxpr):
                yield part


def bind(primitive: Any, operands: list, params: dict) -> list:
    """The outputs of an equation's primitive for operands. Some programs are bound as functions."""
    params = primitive.get_bind_params(params)
    functions, params = params if isinstance(params, tuple) else ((), params)  # a pair in jax 0.7
    outputs = primitive.bind(*functions, *operands, **params)
    return list(outputs) if primitive.multiple_results else [outputs]
