"""The data that state a theorem on regret."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dpjax.core import Number


def unknown(horizon: int, epsilon: Number) -> float:
    """No lower bound."""
    return np.nan


class Theorem(NamedTuple):
    """A bound on the expected regret of a learner, against any environment of a kind.

    The readings of a bound are "printed", with the paper's constants; "derived", with our own
    constants or those of the paper's proof; and "rate". A rate is printed up to constants and is
    used here with constant 1, so regret above it contradicts no theorem.
    """

    learner: Callable  # a factory, as in a Study
    environments: dict[str, Any]  # candidates for the worst environment
    sizes: dict[str, Any]  # the rest of the grid; a domain as a function that makes it
    bounds: dict[str, Callable]  # reading -> (horizon, epsilon) -> bound, NaN if none is stated
    exponents: dict[str, float]  # axis -> the exponent of the leading term, up to logarithms;
    # "without privacy" -> that of the horizon at epsilon = inf, if it differs
    largest: Callable  # horizon -> the largest possible regret
    paper: str  # a key, as in ``dpjax reproduce`` if the paper is reproduced
    source: str  # the statement, and the source of its constants
    families: Callable = lambda horizon: {}  # horizon -> the families to search
    instance: str = ""  # the families' parameter that bounds take as third argument
    lower: Callable = unknown  # (horizon, epsilon) -> lower bound on any learner's worst regret
    slow: bool = False  # whether it is so slow that it is searched only if named

    def grid(self) -> dict[str, Any]:
        """The sizes, with the domain made.

        Examples:
          >>> theorems.find("hedge").grid()
          {'arms': 4}
        """
        return {name: size() if callable(size) else size for name, size in self.sizes.items()}


def of_size(learner, paper, source, exponents, kinds, sizes, size, width, **readings) -> Theorem:
    """A theorem whose readings are functions (horizon, size, epsilon) -> bound.

    Args:
      learner, paper, source, exponents, sizes: as in a Theorem.
      kinds: the environments of the theorem.
      size: passed to the readings.
      width: the largest loss of a round.
    """

    def at_size(bound):
        return lambda horizon, epsilon, size=size: bound(horizon, size, epsilon)

    bounds = {name: at_size(bound) for name, bound in readings.items()}
    return Theorem(
        learner, kinds, sizes, bounds, exponents, lambda horizon: width * horizon, paper, source
    )


def plain(bound: Callable) -> Callable:
    """A bound (horizon, size) as a reading."""
    return lambda horizon, size, epsilon: bound(horizon, size)
