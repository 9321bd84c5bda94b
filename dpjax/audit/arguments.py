"""Checks of the arguments that the public functions of audits share."""

import functools
import inspect
from collections.abc import Callable

import jax
import jax.numpy as jnp

from dpjax.audit._epsilon import check_actions
from dpjax.audit._pairs import check_finite, check_pairs
from dpjax.core import _check
from dpjax.game.current import current

_CHECKS = {
    "learner": _check.player,
    "pair": check_finite,
    "pairs": check_pairs,
    "key": _check.key,
    "choice": _check.key,
}


def checked(function: Callable) -> Callable:
    """Wrap a public function so that it checks its learner, pairs and keys, by argument name.

    The learner is audited as it is now, not as JAX traced it before.
    """
    now, names = current(function), [*inspect.signature(function).parameters]

    @functools.wraps(function)
    def called(*arguments, **keywords):
        passed = dict(zip(names, arguments, strict=False)) | keywords
        for name, check in _CHECKS.items():
            if name in passed:
                check(**{name: passed[name]})
        pairs = passed.get("pairs")
        if "pair" in passed:
            pairs = jax.tree.map(lambda leaf: jnp.expand_dims(leaf, 0), passed["pair"])
        if pairs is not None and {"learner", "key"} <= passed.keys():
            check_actions(passed["learner"], pairs, passed["key"])
        return now(*arguments, **keywords)

    return called
