"""What a theorem on regret is."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


def no_families(horizon) -> dict:
    """Nothing that a search goes through."""
    return {}


def unknown(horizon, epsilon) -> float:
    """No lower bound."""
    return np.nan


class Theorem(NamedTuple):
    """A bound on the expected regret of a learner, against any environment of a kind.

    The readings of a bound are "printed", with the constants of the paper, "derived", with
    constants of our own or of the paper's proof, and "rate". A rate is printed up to constants and
    stands here with constant 1, so a regret above it contradicts no theorem.
    """

    learner: Callable  # a factory, as of a Study
    environments: dict[str, Any]  # among which the worst is looked for
    sizes: dict[str, Any]  # the rest of the grid
    bounds: dict[str, Callable]  # reading -> (horizon, epsilon) -> bound, NaN if none is stated
    exponents: dict[str, float]  # axis -> the exponent of the leading term, up to logarithms;
    # "without privacy" -> that of the horizon at epsilon = inf, where it is another one
    largest: Callable  # horizon -> a regret that no play exceeds
    paper: str  # a key, as of ``dpjax reproduce`` where the paper is reproduced
    source: str  # the statement, and whose constants it has
    families: Callable = no_families  # horizon -> the families that a search goes through
    instance: str = ""  # the parameter of its families that bounds take as their third argument
    lower: Callable = unknown  # (horizon, epsilon) -> a bound below which no learner's worst is
    slow: bool = False  # whether rounds take so long that it is searched only if it is named


def of_size(learner, paper, source, exponents, kinds, sizes, size, width, **readings) -> Theorem:
    """A theorem whose readings are functions (horizon, size, epsilon) -> bound.

    Args:
      learner, paper, source, exponents, sizes: as of a Theorem.
      kinds: its environments.
      size: passed to the readings.
      width: a loss that no round exceeds.
    """

    def at_size(bound):
        return lambda horizon, epsilon, size=size: bound(horizon, size, epsilon)

    bounds = {name: at_size(bound) for name, bound in readings.items()}
    return Theorem(
        learner, kinds, sizes, bounds, exponents, lambda horizon: width * horizon, paper, source
    )


def plain(bound) -> Callable:
    """A bound (horizon, size) as a reading."""
    return lambda horizon, size, epsilon: bound(horizon, size)
