"""Audits of declared privacy: replays on neighbouring losses, attacks, and mutants.

- :func:`sensitivity` computes the exact sensitivity of a mechanism of prefix sums.
- :func:`replay` recomputes a run on the neighbouring losses with the released values held fixed,
  and adds up the privacy loss of each release. It samples nothing. :func:`spent` converts the
  total into an epsilon.
- :func:`epsilon` is an empirical lower bound on epsilon from a million runs.
- :func:`revealed` computes or bounds the privacy curve of discrete actions from likelihood ratios.
  :func:`likelihood_attack` and :func:`worst_history` also use these ratios.
- :func:`anytime` is a lower bound for any function that returns a number. It stops as soon as the
  declared epsilon is refuted.
- :func:`black_box` does the same for a learner that is a Python class.
- :func:`mutants` makes copies of the learner with mistakes, which the other checks must find.

:func:`pairs_for`, :func:`verdict`, :func:`attack` and :func:`replayed_mutants` do all of this for
any learner, on pairs that fit its action set and its declaration.

A replay sees noise from :mod:`dpjax.noise` in branches, in scans and under ``jax.vmap``, but not
in while loops. :func:`spent` is infinite if actions depend on the losses other than through
releases, if no release is seen, or if a key is used twice. :func:`explain` then gives the reason.

An audit that finds no violation above a level is evidence, not a proof. A replay covers only the
pairs that were run, and assumes that each noise follows its named law. An empirical bound misses
rare events. All audits assume that the report stays secret, except for the fields that the learner
declares as released (``Privacy.reported``). dpjax simulates idealised mechanisms, with float32
draws from a reproducible generator.
"""

import inspect

from dpjax.audit._anytime import Anytime, anytime, bound_from_pairs, log_wealth
from dpjax.audit._black_box import black_box
from dpjax.audit._epsilon import SELECTION, TRAINING, epsilon, most_visible, play
from dpjax.audit._mutants import mutants
from dpjax.audit._pairs import Pair, pairs
from dpjax.audit._replay import Replay, replay
from dpjax.audit._revealed import (
    Revealed,
    WorstHistory,
    is_discrete,
    likelihood_attack,
    log_ratio,
    most_revealing,
    revealed,
    worst_history,
    worst_rounds,
)
from dpjax.audit.arguments import checked
from dpjax.audit.counts import Bound, bound_from_counts
from dpjax.audit.mechanisms import Sensitivity, releases, sensitivity
from dpjax.audit.reasons import CHECKS, Verdict
from dpjax.audit.spending import explain, spent
from dpjax.audit.verdicts import (
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
    "Anytime",
    "Bound",
    "Pair",
    "Replay",
    "Revealed",
    "Sensitivity",
    "Verdict",
    "WorstHistory",
    "anytime",
    "attack",
    "black_box",
    "bound_from_counts",
    "bound_from_pairs",
    "clopper_pearson",
    "contextual_pairs",
    "epsilon",
    "explain",
    "is_discrete",
    "likelihood_attack",
    "log_ratio",
    "log_wealth",
    "most_revealing",
    "most_visible",
    "mutants",
    "pairs",
    "pairs_for",
    "play",
    "releases",
    "replay",
    "replayed_mutants",
    "revealed",
    "sensitivity",
    "spent",
    "verdict",
    "worst_history",
    "worst_rounds",
]

for _name in __all__:
    if inspect.isfunction(globals()[_name]):
        globals()[_name] = checked(globals()[_name])
