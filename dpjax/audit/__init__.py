"""Does a declared calibration survive a replay of its sensitivities and an attack?

- :func:`sensitivity`: exact, of a mechanism of prefix sums.
- :func:`replay`: a learner on neighbouring losses, with the same keys and the first run's releases:
  what it pays for the difference, release by release. No sampling. :func:`spent` makes an epsilon
  of it.
- :func:`epsilon`: a lower bound from what an observer tells apart in a million runs.
- :func:`mutants`: the learner with mistakes, which the other checks must find.

A replay sees noise that comes from :mod:`dpjax.noise`, called with positional arguments, outside of
loops, ``jax.vmap`` and custom derivatives. Where actions depend on the losses in another way, no
release is seen, or a key draws twice, what is spent is infinite, and :func:`explain` says why.

An audit finds no violation above a level. It does not show that there is none: a replay speaks
of the pairs that were run and takes noise to have the law that its name says; an empirical bound
misses what shows only in rare events. The report is taken to stay with whoever runs the learner.
dpjax simulates idealised mechanisms, with float32 draws from a reproducible generator.
"""

from dpjax.audit.counts import Bound, bound_from_counts, clopper_pearson, gaussian_from_counts
from dpjax.audit.epsilon import SELECTION, TRAINING, epsilon, most_visible, play
from dpjax.audit.mechanisms import Sensitivity, prefix_statistic, releases, sensitivity
from dpjax.audit.mutants import mutants
from dpjax.audit.pairs import Pair, pairs
from dpjax.audit.replay import CHECKS, Replay, explain, replay, spent

__all__ = [
    "CHECKS",
    "SELECTION",
    "TRAINING",
    "Bound",
    "Pair",
    "Replay",
    "Sensitivity",
    "bound_from_counts",
    "clopper_pearson",
    "epsilon",
    "explain",
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
