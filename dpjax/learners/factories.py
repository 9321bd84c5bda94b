"""Build a learner by name: one rule passes sizes to every factory.

The command line and comparisons use this module.
"""

import inspect
from collections.abc import Callable
from functools import partial

from dpjax import learners
from dpjax.core import BatchLearner, Learner, _check


class Missing(ValueError):
    """A factory requires an argument that is not one of the sizes of a game."""


def check_name(name: str) -> None:
    """Raise a ValueError that lists the known names if there is no learner of this name."""
    if name not in learners.__all__:
        known = ", ".join(learners.__all__)
        meant = _check.nearest(name, learners.__all__)
        raise ValueError(f"learner: there is no {name!r}{meant}; known are {known}")


def takes(name: str, parameter: str) -> bool:
    """Whether the factory of a learner has a parameter of this name."""
    return parameter in taken(getattr(learners, name))


def requires(name: str, parameter: str) -> bool:
    """Whether the factory of a learner requires a parameter of this name."""
    return taken(getattr(learners, name)).get(parameter, False)


def arguments(factory: Callable, sizes: dict, **options) -> dict:
    """The keyword arguments of a factory, besides the horizon.

    These are the sizes that the factory requires, epsilon if it accepts one, and the options that
    it accepts. Other parameters keep their defaults. A factory that requires rho gets
    epsilon^2 / 2, the rho of an epsilon-DP release. A factory that requires experts gets ``dim``
    experts.

    Args:
      factory: a learner's factory, with an argument ``horizon``.
      sizes: a value for each parameter that a factory may require: arms, domain, actions, dim,
        epsilon and delta.
      **options: further arguments.

    Raises:
      Missing: the factory requires an argument that is not in ``sizes``.
    """
    chosen = {}
    epsilon = options.get("epsilon", sizes.get("epsilon"))
    if "rho" not in sizes and epsilon is not None:
        sizes = {**sizes, "rho": 0.5 * epsilon**2}
    if "dim" in sizes:
        sizes = {"experts": sizes["dim"], **sizes}
    for parameter in inspect.signature(factory).parameters.values():
        name, required = parameter.name, parameter.default is parameter.empty
        if name == "horizon" or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if name in options:
            chosen[name] = options[name]
        elif required and name not in sizes:
            known = ", ".join(["horizon", *sizes])
            raise Missing(
                f"it needs {name}{_check.nearest(name, ['horizon', *sizes])}, but a factory may "
                f"only need {known}; give {name} a default"
            )
        elif required or name == "epsilon":
            chosen[name] = sizes[name]
    return chosen


def build(name: str, horizon: int, sizes: dict, **options) -> Learner | BatchLearner:
    """Build the named learner for a game of the given sizes, with :func:`arguments`.

    The learner's ``action_set`` determines the actions and the possible environments.

    Args:
      name: one of ``dpjax.learners.__all__``.
      horizon: T.
      sizes, **options: as in :func:`arguments`.
    """
    factory = getattr(learners, name)
    return factory(horizon, **arguments(factory, sizes, **options))


def taken(factory: Callable) -> dict[str, bool]:
    """Map the name of each argument of a factory to whether it is required.

    Arguments that ``functools.partial`` has set are left out.
    """
    names = {}
    for parameter in inspect.signature(factory).parameters.values():
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            names[parameter.name] = parameter.default is parameter.empty
        elif parameter.kind is parameter.POSITIONAL_ONLY and parameter.default is parameter.empty:
            raise TypeError(
                f"a factory receives its arguments by name, but {parameter.name} of "
                f"{getattr(factory, '__name__', factory)} cannot be passed by name"
            )
    fixed = factory.keywords if isinstance(factory, partial) else {}
    return {name: need for name, need in names.items() if name not in fixed}
