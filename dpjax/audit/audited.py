"""The complete audit of a learner: replays of the learner and its mutants, and an attack."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from jax import random as jr

from dpjax.audit.causes import draws_unseen, with_least
from dpjax.audit.epsilon import check_actions
from dpjax.audit.limits import OutOfTime, limited, report
from dpjax.audit.pairs import Pair
from dpjax.audit.spending import CHECKS
from dpjax.audit.verdicts import (
    FAR,
    ROUNDING,
    Verdict,
    attack,
    pairs_for,
    replayed_mutants,
    verdict,
)
from dpjax.combinators import user_level
from dpjax.core import Learner
from dpjax.engine.devices import cores

PAIRS, RUNS = 64, 2**17
# The time limit of an attack.
MINUTES = 20.0
NOTHING = "nothing declared"
# The exit status of a command whose audit found a violation, and of one that could not decide.
VIOLATED, UNDECIDED = 1, 3
# A learner that releases nothing in the first of these horizons is replayed over the next.
HORIZONS = (16, 256, 2048)
# The columns of the table of mutants.
MUTANT = ["epsilon", "mutant", "replay", "caught", "by"]
# Checks that fail although the declaration may hold.
_UNDECIDED = {
    "not replayed": "the learner cannot be replayed. Its actions depend on the losses and on noise "
    "that a replay does not see. Draw noise with dpjax.noise and pass the value to it, as in "
    "noise.laplace(key, value, scale)",
    "more released": "more is released than is needed. Every noisy value counts as released, but "
    "only the index of the smallest or largest is used on these pairs. With "
    "noise.least(key, value, scale) instead, a replay spends no more than is declared",
    "no release": "the change reached no release on any pair, so the audit says nothing. Try a "
    "longer horizon (dpjax audit --horizon)",
    "attack stopped": "the attack did not end within its time limit. Allow more time (dpjax "
    "audit --minutes), ask for fewer runs (--runs) or omit it (--no-attack)",
}
_MORE = {
    "rho": "the zCDP parameter rho that a replay spent is larger than the one declared",
    "clip": "only losses far out of the declared range cause this: clip them (Learner.clip)",
    **_UNDECIDED,
}


def subject(learner, count, key, changed=1, far=FAR) -> tuple[Learner, Pair]:
    """A learner that declares privacy for ``changed`` rounds together, and pairs that fit it."""
    pairs = pairs_for(learner, count, key, changed=changed, far=far)
    if changed > 1 and np.isfinite(float(learner.privacy.epsilon)):
        learner = user_level(learner, rounds_per_user=changed)
    return learner, pairs


def status(checks: str) -> int:
    """The exit status of an audit with these checks in its row: 0, VIOLATED or UNDECIDED."""
    failed = {*checks.replace("; printed: ", ", ").split(", ")} - {"pass", NOTHING}
    if not failed:
        return 0
    return UNDECIDED if failed <= _UNDECIDED.keys() else VIOLATED


def _failures(learner: Learner, pairs: Pair, in_range: Callable, key, found: Verdict) -> list[str]:
    """The failures of a replay, by the name of their cause if it is known.

    Args:
      learner: the learner that was replayed.
      pairs: its pairs.
      in_range: () -> pairs without losses far out of range.
      key: PRNG key of the replays.
      found: their Verdict.
    """
    failed, unseen = set(found.failed), {"noise_seen", "same_actions"}
    if failed & unseen:
        # The sums are incomplete, so the spent epsilon is infinite.
        rest = [check for check in found.failed if check not in ("epsilon", "rho", "no release")]
        # Releases that no change reaches hide none.
        idle = "noise_seen" not in failed and not found.touched
        if idle or draws_unseen(learner, pairs):
            return ["not replayed", *(check for check in rest if check not in unseen)]
        return rest
    if failed and failed <= {"epsilon", "rho"}:
        private = with_least(learner, pairs, key)
        if private is not None and not verdict(private, pairs, key).failed:
            return ["more released"]
    if failed and failed != {"no release"} and not verdict(learner, in_range(), key).failed:
        return [*found.failed, "clip"]
    return list(found.failed)


def examined(
    build,
    horizons,
    keys,
    labels,
    *,
    count=PAIRS,
    changed=1,
    runs=None,
    particles=64,
    minutes=MINUTES,
    with_mutants=True,
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
            **dict.fromkeys(("replay", "touched", "pairs", "paths", "horizon", "attack", "runs")),
            "checks": NOTHING,
        }
        if not np.isfinite(row["declared"]):
            return row, []
        report("replays")
        check_actions(learner, pairs, run_key)
        found = verdict(learner, pairs, run_key)
        if found.failed != ("no release",):
            break

    def in_range():
        return subject(build(horizon), count, pair_key, changed, far=1.0)[1]

    failed = _failures(learner, pairs, in_range, run_key, found)
    row |= {"replay": float(found.spent.max()), "touched": found.touched}
    row |= {"pairs": count, "paths": found.paths, "horizon": horizon}
    if runs is not None and horizon == horizons[0]:
        try:
            with limited(60.0 * minutes):
                bound = attack(learner, pairs, *attack_keys, runs=runs, particles=particles)
        except OutOfTime:
            failed += ["attack stopped"]
        else:
            row |= {"attack": bound.epsilon, "runs": runs}
            failed += ["attack"] * (bound.epsilon > row["declared"] * (1.0 + ROUNDING))
    row["checks"] = ", ".join(failed) or "pass"
    if not with_mutants or {"noise_seen", "not replayed"} & set(failed):
        return row, []
    report("mutants")
    return row, [
        {
            **labels,
            "mutant": mistake,
            "replay": float(each.spent.max()),
            "caught": bool(each.failed),
            "by": ", ".join(each.failed),
        }
        for mistake, each in replayed_mutants(learner, pairs, run_key).items()
    ]


class Audited(NamedTuple):
    """The audit of a learner at several epsilons."""

    rows: list[dict]  # one for each epsilon
    mutants: list[dict]  # one for each mutant, at the level
    flagged: bool  # whether a violation of a declaration was found


def audited(entrant, epsilons, level, runs, key) -> Audited:
    """Audit a learner at each finite epsilon; at one of them, attack it and replay its mutants.

    Args:
      entrant: an Entrant.
      epsilons: finite levels. A learner that takes no epsilon is audited once.
      level: the epsilon at which the learner is attacked and its mutants are replayed.
      runs: counted runs of each sequence in the attack; None for no attack.
      key: PRNG key.
    """
    levels = list(epsilons) if entrant.private else [level]

    def one(epsilon):
        return _row(entrant, epsilon, epsilon == level, runs, key)

    # Nearly all of the time is compilation, which runs in parallel threads.
    with ThreadPoolExecutor(cores()) as pool:
        found = list(pool.map(one, levels))
    rows = [row for row, _ in found]
    return Audited(
        rows, [mutant for _, mutants in found for mutant in mutants],
        any(row["flagged"] for row in rows),
    )  # fmt: skip


def _row(entrant, epsilon, attacked, runs, key) -> tuple[dict, list[dict]]:
    """The row of one epsilon, and the rows of the mutants if ``attacked``."""
    row, mutants = examined(
        lambda horizon: entrant.build(horizon, epsilon), HORIZONS, jr.split(key, 4),
        {"epsilon": float(epsilon) if entrant.private else None},
        runs=runs if attacked else None, particles=16, with_mutants=attacked,
    )  # fmt: skip
    row["flagged"] = status(row["checks"]) == VIOLATED
    return row | {"finding": finding(row)}, mutants


def finding(row) -> str:
    """The result of the audit at one epsilon, in one sentence."""
    asked = "" if row["epsilon"] is None else f"At epsilon = {row['epsilon']:g}: "
    if row["checks"] == NOTHING:
        return f"{asked}the learner declares no privacy, so there is nothing to audit."
    declared, spent = row["declared"], row["replay"]
    where = (f"{row['pairs']} pairs of neighbouring sequences of {row['horizon']} rounds, "
             f"{row['paths']} runs of each")  # fmt: skip
    found = []
    for check in row["checks"].split(", "):
        if check in CHECKS:
            found.append(CHECKS[check])
        elif check == "epsilon" and np.isfinite(spent):
            found.append(
                f"a replay spent {spent:.3g}, but {declared:.3g} is declared "
                f"({spent / declared:.3g} times as much)"
                + ("" if "clip" in row["checks"] else ": the noise is too small")
            )
        elif check == "attack":
            found.append(f"an attack bounds epsilon from below by {row['attack']:.3g}, but "
                         f"{declared:.3g} is declared")  # fmt: skip
        elif check in _MORE:
            found.append(_MORE[check])
    if not found and row["flagged"]:
        found.append(f"a replay spent an infinite epsilon, but {declared:.3g} is declared")
    if found and status(row["checks"]) == UNDECIDED:
        return f"{asked}the audit cannot decide on {where}: {'; '.join(found)}."
    if found:
        return f"{asked}a violation was found on {where}: {'; '.join(found)}."
    return (f"{asked}a replay finds no violation above the declared {declared:.3g} on {where}; "
            f"the worst of them spent {spent:.3g}.")  # fmt: skip


def summary(found) -> str:
    """The result of the whole audit, with one sentence for each part."""
    if all(row["checks"] == NOTHING for row in found.rows):
        return "The learner declares no privacy, so there was nothing to audit."
    undecided = [row for row in found.rows if status(row["checks"]) == UNDECIDED]
    if found.flagged:
        parts = ["The audit found a violation of the declared privacy."]
    elif undecided:
        parts = ["The audit cannot decide whether the declared privacy holds.",
                 finding(undecided[0])]  # fmt: skip
    else:
        parts = ["The audit finds no violation above the declared levels on the pairs that were "
                 "run. This is evidence, not a proof."]  # fmt: skip
    for row in found.rows:
        if row["attack"] is not None:
            parts.append(
                f"An attack on {row['runs']} runs of each sequence bounds epsilon from below by "
                f"{row['attack']:.3g} (95 % confidence); {row['declared']:.3g} is declared."
            )
    if found.mutants:
        missed = [row["mutant"] for row in found.mutants if not row["caught"]]
        parts.append(
            f"Of {len(found.mutants)} mutants, which are copies of the learner with one mistake "
            f"each, replays caught {len(found.mutants) - len(missed)}"
            + (f" and missed {', '.join(missed)}." if missed else ".")
        )
    return " ".join(parts)
