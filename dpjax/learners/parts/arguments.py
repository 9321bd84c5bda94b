"""Arguments that have one domain in every learner are checked here, by name and annotation.

So are words, by their annotation.
"""

import functools
import inspect
import typing
from collections.abc import Callable

import jax.numpy as jnp

from dpjax.core import Number, _check


def _mixing(value) -> None:
    """A share of uniform draws, in (0, 1]."""
    _check.positive(mixing=value)
    _check.between(0.0, 1.0, mixing=value)


# The annotation and the check of each name. A check may return a value that replaces the given one.
CHECKS: dict[str, tuple] = {
    "horizon": (int, lambda value: _check.size(1, horizon=value)),
    "arms": (int, _check.arms),
    "dim": (int, lambda value: _check.size(1, dim=value)),
    "experts": (int, lambda value: _check.size(2, experts=value)),
    "epsilon": (Number, _check.epsilon),
    "delta": (Number, _check.delta),
    "failure": (Number, lambda value: _check.inside(0.0, 1.0, failure=value)),
    "mixing": (Number, _mixing),
    "ratio": (Number, lambda value: _check.inside(1.0, jnp.inf, ratio=value)),
    "rho": (Number, lambda value: _check.positive_or_inf(rho=value)),
    "tau": (Number, lambda value: _check.between(1.0, jnp.inf, tau=value)),
}
POSITIVE = (
    "deviation", "exploration", "feature_bound", "growth", "largest_gap", "loss_bound", "moment",
    "parameter_bound", "prior", "rate", "ridge", "strength", "strong_convexity", "threshold",
    "variance",
)  # fmt: skip


def _check_of(name: str, annotation) -> Callable | None:
    """The check of an argument, if there is one for its name and annotation."""
    for part in (annotation, *typing.get_args(annotation)):
        if typing.get_origin(part) is typing.Literal:
            words = typing.get_args(part)
            return lambda value: _check.one_of(*words, **{name: value})
    if name not in (*CHECKS, *POSITIVE):
        return None
    kind, check = CHECKS.get(name, (Number, lambda value: _check.positive(**{name: value})))
    return check if annotation in (kind, kind | None) else None


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
            check = _check_of(name, parameter.annotation)
            if check is not None and (value is not None or parameter.default is not None):
                replaced = check(value)
                bound.arguments[name] = value if replaced is None else replaced
        return factory(*bound.args, **bound.kwargs)

    return build
