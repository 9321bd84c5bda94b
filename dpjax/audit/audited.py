"""The complete audit of a learner: replays of the learner and its mutants, and an attack."""

import numpy as np

from dpjax.audit._epsilon import check_actions
from dpjax.audit._pairs import Pair
from dpjax.audit.limits import OutOfTime, limited, report
from dpjax.audit.reasons import NOTHING, UNDECIDED, sentences, status
from dpjax.audit.verdicts import (
    ROUNDING,
    attack,
    causes,
    pairs_for,
    replayed_mutants,
    replayer,
)
from dpjax.combinators import user_level
from dpjax.core import Array, Learner

PAIRS, RUNS = 64, 2**17
# The time limit of an attack.
MINUTES = 20.0
# A learner that releases nothing in the first of these horizons is replayed over the next.
HORIZONS = (16, 256, 2048)
# The columns of the table of mutants.
MUTANT = ["epsilon", "mutant", "replay", "caught", "by"]
# The numbers of an audit's row that are None if nothing was replayed or attacked.
MEASURED = ("replay", "touched", "pairs", "paths", "horizon", "attack", "runs")


def subject(learner, count: int, key: Array, changed: int = 1) -> tuple[Learner, Pair]:
    """A learner that declares privacy for ``changed`` rounds together, and pairs that fit it."""
    pairs = pairs_for(learner, count, key, changed=changed)
    if changed > 1 and np.isfinite(float(learner.privacy.epsilon)):
        learner = user_level(learner, rounds_per_user=changed)
    return learner, pairs


def examined(
    build,
    horizons,
    keys,
    labels,
    *,
    count: int = PAIRS,
    changed: int = 1,
    runs: int | None = None,
    particles: int = 32,
    minutes: float = MINUTES,
    with_mutants: bool = True,
) -> tuple[dict, list[dict]]:
    """The row of a table for a learner, and one for each of its mutants.

    Args:
      build: horizon -> a learner.
      horizons: tried in turn until a change reaches a release. Only the first is attacked, since
        10^5 runs of a long game take minutes.
      keys: PRNG keys of the pairs, the replays, the attack and its choice of a pair.
      labels: the first columns of all rows.
      count: how many pairs are replayed.
      changed: how many rounds differ between the sequences of a pair.
      runs: counted runs of each sequence in the attack; None for no attack.
      particles: of each filter in the attack.
      minutes: after which the attack is stopped.
      with_mutants: whether mutants are replayed.
    """
    pair_key, run_key, *attack_keys = keys
    for horizon in horizons:
        learner, pairs = subject(build(horizon), count, pair_key, changed)
        declared = learner.privacy
        row = {
            **labels,
            "declared": float(declared.epsilon),
            "delta": float(declared.delta),
            "model": declared.model,
            "neighbours": declared.neighbours,
            **dict.fromkeys(MEASURED),
            "checks": NOTHING,
        }
        if not np.isfinite(row["declared"]):
            return row, []
        report("replays")
        check_actions(learner, pairs, run_key)
        replays = replayer(learner)
        replayed = replays(pairs, run_key)
        if replayed.failed != ("no release",):
            break

    failed = causes(learner, pairs, run_key, replayed, replays)
    row |= {"replay": float(replayed.spent.max()), "touched": replayed.touched}
    row |= {"pairs": count, "paths": replayed.paths, "horizon": horizon}
    if runs is not None and horizon == horizons[0]:
        try:
            with limited(60.0 * minutes):
                bound = attack(learner, pairs, *attack_keys, runs=runs, particles=particles)
        except OutOfTime:
            failed += ["attack stopped"]
        else:
            row |= {"attack": bound.epsilon, "runs": bound.runs}
            failed += ["attack"] * (bound.epsilon > row["declared"] * (1.0 + ROUNDING))
    row["checks"] = ", ".join(failed) or "pass"
    # Mutants of a learner with no release that a change reaches show nothing.
    if not with_mutants or not replayed.touched or {"noise_seen", "not replayed"} & set(failed):
        return row, []
    report("mutants")
    return row, [
        {
            **labels,
            "mutant": mistake,
            "replay": float(outcome.spent.max()),
            "caught": bool(outcome.failed),
            "by": ", ".join(outcome.failed),
        }
        for mistake, outcome in replayed_mutants(learner, pairs, run_key).items()
    ]


def finding(row: dict) -> str:
    """The result of the audit at one epsilon, in one sentence."""
    asked = "" if row["epsilon"] is None else f"At epsilon = {row['epsilon']:g}: "
    if row["checks"] == NOTHING:
        return f"{asked}the learner declares no privacy, so there is nothing to audit."
    declared, spent = row["declared"], row["replay"]
    where = (f"{row['pairs']} pairs of neighbouring sequences of {row['horizon']} rounds, "
             f"{row['paths']} runs of each")  # fmt: skip
    checks, _, printed = row["checks"].partition("; printed: ")
    reasons = sentences(checks, spent, declared, row["attack"])
    if printed:
        of_printed = sentences(printed, row["printed_replay"], row["printed"])
        reasons += [f"with the printed calibration, {reason}" for reason in of_printed]
    if reasons and status(row["checks"]) == UNDECIDED:
        return f"{asked}the audit cannot decide on {where}: {'; '.join(reasons)}."
    if reasons:
        return f"{asked}a violation was found on {where}: {'; '.join(reasons)}."
    return (f"{asked}a replay finds no violation above the declared {declared:.3g} on {where}; "
            f"the worst of them spent {spent:.3g}.")  # fmt: skip
