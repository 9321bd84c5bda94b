"""Learners' factories: the one rule by which sizes are given to any of them.

The command line and comparisons come in here.
"""

import inspect
from collections.abc import Callable

from dpjax import learners
from dpjax.core import BatchLearner, Learner, _check


def check_name(name) -> None:
    """Raises a ValueError that lists the known names where there is no learner of this name."""
    if name not in learners.__all__:
        known = ", ".join(learners.__all__)
        meant = _check.nearest(name, learners.__all__)
        raise ValueError(f"learner: there is no {name!r}{meant}; known are {known}")


def takes(name, parameter) -> bool:
    """Whether the factory of a learner has a parameter of this name."""
    return parameter in inspect.signature(getattr(learners, name)).parameters


def requires(name, parameter) -> bool:
    """Whether the factory of a learner has to be given a parameter of this name."""
    found = inspect.signature(getattr(learners, name)).parameters.get(parameter)
    return found is not None and found.default is found.empty


def arguments(factory: Callable, sizes: dict, **options) -> dict:
    """What a factory is given beside the horizon, by name.

    It is given the sizes that it requires, epsilon if it takes one, and those of the options that
    it takes. Everything else keeps its default. A factory that requires rho is given epsilon^2 / 2,
    the rho of an epsilon-DP release. One that requires experts is given as many as ``dim``.

    Args:
      factory: of learners, with an argument ``horizon``.
      sizes: a value for each parameter that a factory may require: arms, domain, actions, dim,
        epsilon and delta.
      **options: further arguments.

    Raises:
      ValueError: the factory requires an argument that is not among the sizes.
    """
    given = {}
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
            given[name] = options[name]
        elif required and name not in sizes:
            known = ", ".join(["horizon", *sizes])
            raise ValueError(
                f"it needs {name}{_check.nearest(name, ['horizon', *sizes])}, where a factory may "
                f"need {known}; give {name} a default"
            )
        elif required or name == "epsilon":
            given[name] = sizes[name]
    return given


def build(name, horizon, sizes, **options) -> Learner | BatchLearner:
    """The learner of a name, for a game of a given size, with :func:`arguments`.

    What there is to play, and against whom, follows from the ``action_set`` of the learner.

    Args:
      name: one of ``dpjax.learners.__all__``.
      horizon: T.
      sizes, **options: as of :func:`arguments`.
    """
    factory = getattr(learners, name)
    return factory(horizon, **arguments(factory, sizes, **options))
