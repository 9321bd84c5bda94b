"""Audits whether a declared calibration survives a replay of its sensitivities, and an attack.

- :func:`sensitivity` computes the exact sensitivity of a mechanism of prefix sums.
- :func:`replay` runs a learner on neighbouring losses with the same keys and the first run's
  releases, and adds up what the difference costs, release by release. It samples nothing.
  :func:`spent` turns the costs into an epsilon.
- :func:`epsilon` is a lower bound from what an observer tells apart in a million runs.
- :func:`revealed` computes or bounds what discrete actions reveal, from likelihood ratios. Its
  relatives are :func:`likelihood_attack` and :func:`worst_history`.
- :func:`anytime` is one for anything that returns a number, and stops as soon as it can.
- :func:`black_box` is that for a learner that is a class of Python.
- :func:`one_run` is one for local learners, from a single run of any length.
- :func:`mutants` makes copies of the learner with mistakes, which the other checks must find.

:func:`pairs_for`, :func:`verdict`, :func:`attack` and :func:`replayed_mutants` do all of this for
any learner, on pairs that suit what it plays and declares.

A replay sees noise that comes from :mod:`dpjax.noise`, in branches, scans and under ``jax.vmap``,
but not within while loops. :func:`spent` is infinite if actions depend on the losses in another
way, if no release is seen, or if a key draws twice. :func:`explain` then says why.

An audit finds no violation above a level. It does not show that there is none. A replay speaks only
of the pairs that were run, and assumes that noise has the law that its name says. An empirical
bound misses events that are rare. All audits assume that no one else sees the report, but for the
fields that the learner declares as released (``Privacy.reported``). dpjax simulates idealised
mechanisms, with float32 draws from a reproducible generator.
"""

from dpjax.audit.anytime import Anytime, anytime, bound_from_pairs, log_wealth
from dpjax.audit.black_box import black_box
from dpjax.audit.counts import Bound, bound_from_counts, gaussian_from_counts
from dpjax.audit.epsilon import SELECTION, TRAINING, epsilon, most_visible, play
from dpjax.audit.mechanisms import (
    Sensitivity,
    group_sensitivity,
    prefix_statistic,
    releases,
    sensitivity,
)
from dpjax.audit.mutants import mutants
from dpjax.audit.one_run import (
    OneRun,
    one_run,
    one_run_epsilon,
    one_run_mu,
    one_run_p_value,
    one_run_refutes,
    one_run_scores,
)
from dpjax.audit.pairs import Pair, pairs
from dpjax.audit.replay import Replay, replay
from dpjax.audit.revealed import (
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
    "Anytime",
    "Bound",
    "OneRun",
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
    "gaussian_from_counts",
    "group_sensitivity",
    "is_discrete",
    "likelihood_attack",
    "log_ratio",
    "log_wealth",
    "most_revealing",
    "most_visible",
    "mutants",
    "one_run",
    "one_run_epsilon",
    "one_run_mu",
    "one_run_p_value",
    "one_run_refutes",
    "one_run_scores",
    "pairs",
    "pairs_for",
    "play",
    "prefix_statistic",
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
