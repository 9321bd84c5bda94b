"""Audits whether a declared calibration survives a replay of its sensitivities, and an attack.

- :func:`sensitivity` computes the exact sensitivity of a mechanism of prefix sums.
- :func:`replay` runs a learner on neighbouring losses with the same keys and the first run's
  releases, and adds up what the difference costs, release by release. It samples nothing.
  :func:`spent` turns the costs into an epsilon.
- :func:`epsilon` is a lower bound from what an observer tells apart in a million runs.
- :func:`mutants` makes copies of the learner with mistakes, which the other checks must find.

:func:`pairs_for`, :func:`verdict`, :func:`attack` and :func:`replayed_mutants` do all of this for
any learner, on pairs that suit what it plays and declares.

A replay sees noise that comes from :mod:`dpjax.noise`, called with positional arguments, outside of
loops and ``jax.vmap``. :func:`spent` is infinite where actions depend on the
losses in another way, where no release is seen, or where a key draws twice. :func:`explain` then
says why.

An audit finds no violation above a level. It does not show that there is none. A replay speaks only
of the pairs that were run, and assumes that noise has the law that its name says. An empirical
bound misses what shows only in rare events. All audits assume that the report stays with whoever
runs the learner. dpjax simulates idealised mechanisms, with float32 draws from a reproducible
generator.
"""

from dpjax.audit.counts import Bound, bound_from_counts, gaussian_from_counts
from dpjax.audit.epsilon import SELECTION, TRAINING, epsilon, most_visible, play
from dpjax.audit.mechanisms import Sensitivity, prefix_statistic, releases, sensitivity
from dpjax.audit.mutants import mutants
from dpjax.audit.pairs import Pair, pairs
from dpjax.audit.replay import Replay, replay
from dpjax.audit.spending import CHECKS, explain, spent
from dpjax.audit.verdicts import (
    Verdict,
    attack,
    contextual_pairs,
    pairs_for,
    replayed_mutants,
    verdict,
)
from dpjax.maths.intervals import clopper_pearson

__all__ = [
    "CHECKS",
    "SELECTION",
    "TRAINING",
    "Bound",
    "Pair",
    "Replay",
    "Sensitivity",
    "Verdict",
    "attack",
    "bound_from_counts",
    "clopper_pearson",
    "contextual_pairs",
    "epsilon",
    "explain",
    "gaussian_from_counts",
    "most_visible",
    "mutants",
    "pairs",
    "pairs_for",
    "play",
    "prefix_statistic",
    "releases",
    "replay",
    "replayed_mutants",
    "sensitivity",
    "spent",
    "verdict",
]
