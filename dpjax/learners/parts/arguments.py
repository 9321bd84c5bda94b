"""Arguments that have one domain in every learner are checked here, by name and annotation."""

import functools
import inspect
from collections.abc import Callable

import jax.numpy as jnp

from dpjax.core import Number, _check


def _between(low, high, name) -> Callable:
    """The check of one number strictly between two others."""

    def check(value):
        _check.inside(low, high, **{name: value})
        return value

    return check


def _mixing(value):
    """A share of uniform draws, in (0, 1]."""
    _check.positive(mixing=value)
    _check.between(0.0, 1.0, mixing=value)
    return value


CHECKS = {
    ("horizon", int): lambda value: _check.size(1, horizon=value),
    ("arms", int): _check.arms,
    ("dim", int): lambda value: _check.size(1, dim=value),
    ("experts", int): lambda value: _check.size(2, experts=value),
    ("epsilon", Number): _check.epsilon,
    ("exploration", Number): _between(0.0, jnp.inf, "exploration"),
    ("rate", Number): _between(0.0, jnp.inf, "rate"),
    ("rate", Number | None): _between(0.0, jnp.inf, "rate"),
    ("mixing", Number | None): _mixing,
}


def checked(factory: Callable) -> Callable:
    """The factory of a learner, with these arguments checked, and sizes as Python integers."""

    @functools.wraps(factory)
    def build(*arguments, **keywords):
        signature = inspect.signature(factory)
        try:
            bound = signature.bind(*arguments, **keywords)
        except TypeError:  # which the call states with the name of the factory
            return factory(*arguments, **keywords)
        for name, value in bound.arguments.items():
            parameter = signature.parameters[name]
            check = CHECKS.get((name, parameter.annotation))
            if check is not None and (value is not None or parameter.default is not None):
                bound.arguments[name] = check(value)
        return factory(*bound.args, **bound.kwargs)

    return build
