"""Does a declared calibration survive a replay of its sensitivities and an attack?

- :func:`sensitivity`: exact, of a mechanism of prefix sums.
- :func:`replay`: a learner on neighbouring losses, with the same keys and the first run's releases:
  what it pays for the difference, release by release. No sampling.
- :func:`epsilon`: a lower bound from what an observer tells apart in a million runs.
- :func:`mutants`: the learner with mistakes, which the other checks must find.

An audit finds no violation above a level. It does not show that there is none: a replay speaks
of the pairs that were run and takes noise to have the law that its name says; an empirical bound
misses what shows only in rare events. dpjax simulates idealised mechanisms, with float32 draws
from a reproducible generator.
"""

from dpjax.audit.epsilon import (
    SELECTION,
    TRAINING,
    Bound,
    bound_from_counts,
    clopper_pearson,
    epsilon,
    gaussian_from_counts,
    most_visible,
    play,
)
from dpjax.audit.mechanisms import Sensitivity, prefix_statistic, releases, sensitivity
from dpjax.audit.mutants import mutants
from dpjax.audit.pairs import Pair, pairs
from dpjax.audit.replay import Replay, replay, spent

__all__ = [
    "SELECTION",
    "TRAINING",
    "Bound",
    "Pair",
    "Replay",
    "Sensitivity",
    "bound_from_counts",
    "clopper_pearson",
    "epsilon",
    "gaussian_from_counts",
    "most_visible",
    "mutants",
    "pairs",
    "play",
    "prefix_statistic",
    "releases",
    "replay",
    "sensitivity",
    "spent",
]
