"""Learners by name, for commands that build any of them: the one rule by which sizes are given."""

import inspect

from dpjax import _check, learners
from dpjax.core import BatchLearner, Learner


def check_name(name) -> None:
    """Raises a ValueError that lists the known names where there is no learner of this name."""
    if name not in learners.__all__:
        known = ", ".join(learners.__all__)
        meant = _check.nearest(name, learners.__all__)
        raise ValueError(f"learner: there is no {name!r}{meant}; known are {known}")


def takes(name, parameter) -> bool:
    """Whether the factory of a learner has a parameter of this name."""
    return parameter in inspect.signature(getattr(learners, name)).parameters


def build(name, horizon, sizes, **options) -> Learner | BatchLearner:
    """The learner of a name, for a game of a given size.

    Its factory is given, by name, the sizes that it requires, epsilon if it takes one, and those of
    the options that it takes. Everything else keeps its default. What there is to play, and against
    whom, follows from the ``action_set`` of the learner.

    Args:
      name: one of ``dpjax.learners.__all__``.
      horizon: T.
      sizes: a value for each parameter that a factory may require: arms, domain, actions, dim,
        epsilon and delta.
      **options: further arguments.
    """
    factory = getattr(learners, name)
    _, *parameters = inspect.signature(factory).parameters.values()
    given = {}
    for parameter in parameters:
        if parameter.name in options:
            given[parameter.name] = options[parameter.name]
        elif parameter.default is parameter.empty or parameter.name == "epsilon":
            given[parameter.name] = sizes[parameter.name]
    return factory(horizon, **given)
