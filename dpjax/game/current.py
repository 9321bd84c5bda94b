"""Functions of learners and environments that JAX traces anew when these change."""

import functools

from dpjax.core import BatchLearner, Environment, Learner
from dpjax.engine.closure_digest import as_now


def current(function):
    """Wrap a function of learners and environments so that JAX traces their current behaviour."""

    @functools.wraps(function)
    def called(*arguments, **keywords):
        values = (*arguments, *keywords.values())
        with as_now(*(x for x in values if isinstance(x, Learner | BatchLearner | Environment))):
            return function(*arguments, **keywords)

    return called
