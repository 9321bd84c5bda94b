"""The audit of a user's learner: replays at each epsilon, an attack and mutants at one of them."""

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from jax import random as jr

from dpjax import audit
from dpjax.audit.verdicts import ROUNDING
from dpjax.engine.devices import cores

PAIRS, RUNS = 64, 2**17
# A learner that releases nothing in the first of these horizons is replayed over the next.
HORIZONS = (16, 256, 2048)
# The columns of the table of mutants.
MUTANT = ["epsilon", "mutant", "replay", "caught", "by"]
_MORE = {
    "no release": "on no pair did the change reach a release, so the audit says nothing",
    "rho": "the zCDP parameter rho that a replay spent is larger than the one declared",
}


class Audited(NamedTuple):
    """What the audit of a learner shows."""

    rows: list[dict]  # one for each epsilon
    mutants: list[dict]  # one for each mutant, at the level
    flagged: bool  # whether anything was found against a declaration


def audited(entrant, epsilons, level, runs, key) -> Audited:
    """Audits a learner at each finite epsilon, and attacks it and its mutants at one of them.

    Args:
      entrant: an Entrant.
      epsilons: finite levels. A learner that takes no epsilon is audited once.
      level: the one of them at which it is attacked, and its mutants are replayed.
      runs: counted runs of each sequence in the attack.
      key: PRNG key.
    """
    levels = list(epsilons) if entrant.private else [level]

    def one(epsilon):
        return _row(entrant, epsilon, epsilon == level, runs, key)

    # Nearly all of the time goes into compilation, which threads spread over the cores.
    with ThreadPoolExecutor(cores()) as pool:
        found = list(pool.map(one, levels))
    rows = [row for row, _ in found]
    return Audited(
        rows, [mutant for _, mutants in found for mutant in mutants],
        any(row["flagged"] for row in rows),
    )  # fmt: skip


def _row(entrant, epsilon, attacked, runs, key) -> tuple[dict, list[dict]]:
    """The row of one epsilon, and those of its mutants where it is attacked."""
    learner = entrant.build(HORIZONS[0], epsilon)
    declared = learner.privacy
    row = {
        "epsilon": float(epsilon) if entrant.private else None,
        "declared": float(declared.epsilon),
        "delta": float(declared.delta),
        "model": declared.model,
        "neighbours": declared.neighbours,
        "replay": None, "touched": None, "pairs": None, "horizon": None, "attack": None,
        "runs": None, "checks": "nothing declared", "flagged": False,
    }  # fmt: skip
    if not np.isfinite(row["declared"]):
        return row | {"finding": _finding(row)}, []
    pair_key, run_key, attack_key, choice_key = jr.split(key, 4)
    for horizon in HORIZONS:
        learner = entrant.build(horizon, epsilon)
        pairs = audit.pairs_for(learner, PAIRS, pair_key)
        verdict = audit.verdict(learner, pairs, run_key)
        if verdict.failed != ("no release",):
            break
    failed = list(verdict.failed)
    row |= {
        "declared": float(learner.privacy.epsilon), "delta": float(learner.privacy.delta),
        "replay": float(verdict.spent.max()), "touched": verdict.touched, "pairs": PAIRS,
        "horizon": horizon,
    }  # fmt: skip
    mutants: list[dict] = []
    # A long game is not attacked: 10^5 runs of it take minutes.
    if attacked and horizon == HORIZONS[0]:
        bound = audit.attack(learner, pairs, attack_key, choice_key, runs=runs)
        row |= {"attack": bound.epsilon, "runs": runs}
        if bound.epsilon > row["declared"] * (1.0 + ROUNDING):
            failed.append("attack")
    if attacked and "noise_seen" not in failed:
        found = audit.replayed_mutants(learner, pairs, run_key)
        mutants = [
            {"epsilon": row["epsilon"], "mutant": mistake, "replay": float(each.spent.max()),
             "caught": bool(each.failed), "by": ", ".join(each.failed)}
            for mistake, each in found.items()
        ]  # fmt: skip
    row |= {"checks": ", ".join(failed) or "pass", "flagged": bool(failed)}
    return row | {"finding": _finding(row)}, mutants


def _finding(row) -> str:
    """What the audit says at one epsilon, in a sentence."""
    asked = "" if row["epsilon"] is None else f"At epsilon = {row['epsilon']:g}: "
    if row["checks"] == "nothing declared":
        return f"{asked}the learner declares no privacy, so there is nothing to audit."
    declared, spent = row["declared"], row["replay"]
    where = f"{row['pairs']} pairs of neighbouring sequences of {row['horizon']} rounds"
    found = []
    for check in row["checks"].split(", "):
        if check in audit.CHECKS:
            found.append(audit.CHECKS[check])
        elif check == "epsilon" and np.isfinite(spent):
            found.append(
                f"a replay spent {spent:.3g} where {declared:.3g} is declared, "
                f"{spent / declared:.3g} times as much: the noise is too small for what is declared"
            )
        elif check == "attack":
            found.append(f"an attack bounds epsilon from below by {row['attack']:.3g}, and "
                         f"{declared:.3g} is declared")  # fmt: skip
        elif check in _MORE:
            found.append(_MORE[check])
    if not found and row["flagged"]:
        found.append(f"a replay spent more than the declared {declared:.3g}, without a limit")
    if found:
        return f"{asked}a violation was found on {where}: {'; '.join(found)}."
    return (f"{asked}a replay finds no violation above the declared {declared:.3g} on {where}; "
            f"the worst of them spent {spent:.3g}.")  # fmt: skip


def summary(found) -> str:
    """What an audit says as a whole, in a sentence for each of its parts."""
    if all(row["checks"] == "nothing declared" for row in found.rows):
        return "The learner declares no privacy, so there was nothing to audit."
    parts = [
        "The audit found a violation of what is declared."
        if found.flagged
        else "The audit finds no violation above the declared levels on the pairs that were run; "
        "it shows no more."
    ]
    for row in found.rows:
        if row["attack"] is not None:
            parts.append(
                f"An attack on {row['runs']} runs of each sequence bounds epsilon from below by "
                f"{row['attack']:.3g} where {row['declared']:.3g} is declared (95 % confidence)."
            )
    if found.mutants:
        missed = [row["mutant"] for row in found.mutants if not row["caught"]]
        parts.append(
            f"Of {len(found.mutants)} mutants, which are copies of the learner with one mistake "
            f"each, replays caught {len(found.mutants) - len(missed)}"
            + (f" and missed {', '.join(missed)}." if missed else ".")
        )
    return " ".join(parts)
