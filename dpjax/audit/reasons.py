"""The verdict of replays: the status of the audit, and one sentence for each reason."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dpjax.core import Privacy

# The status of an audit that found a violation, and of one that could not decide.
VIOLATED, UNDECIDED = 1, 3
NOTHING = "nothing declared"
CHECKS = {
    "noise_seen": "no release was seen, and the state depends on the losses: noise must come from "
    "dpjax.noise to be seen",
    "same_actions": "the actions, or the released part of the report, depend on the losses other "
    "than through the releases that were seen: on some path no noise is added, or the noise is "
    "in a while loop or not from dpjax.noise",
    "same_scales": "the law of some noise depends on the losses",
    "same_keys": "a key, or whether it is used, depends on the losses",
    "fresh_keys": "the noise of a release is known or used twice: its key also draws something "
    "else, or does not depend on the key of the run",
}
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
_SENTENCES = {
    **CHECKS,
    # Noise that a replay does not see has its own name, "not replayed".
    "same_actions": "the actions, or the released part of the report, depend on the losses other "
    "than through releases: on some path no noise is added",
    "rho": "the zCDP parameter rho that a replay spent is larger than the one declared",
    "clip": "only losses far out of the declared range cause this: clip them (Learner.clip)",
    **_UNDECIDED,
}


class Verdict(NamedTuple):
    """The result of replays of a learner on all pairs.

    Attributes:
      spent: (pairs,) epsilon at the declared delta, the largest over paths. It is 0 if the
        declaration does not cover the pair because too many rounds of a user are in one release.
      touched: the largest number of releases that the change of a pair reached.
      failed: failures on some pair: a name of CHECKS; "epsilon" or "rho" if more was spent than
        declared; "no release" if no pair reached a release.
      paths: how many runs of each pair were replayed.
      status: as the exit status of ``dpjax audit``: 0 if no violation was found, 1 if one was
        found, 3 if the replays cannot decide.
      reasons: one sentence for each reason of the status.
    """

    spent: np.ndarray
    touched: int
    failed: tuple[str, ...]
    paths: int = 1
    status: int = 0
    reasons: tuple[str, ...] = ()


def status(checks: str) -> int:
    """The exit status of an audit with these checks in its row: 0, VIOLATED or UNDECIDED."""
    failed = {*checks.replace("; printed: ", ", ").split(", ")} - {"pass", NOTHING}
    if not failed:
        return 0
    return UNDECIDED if failed <= _UNDECIDED.keys() else VIOLATED


def sentences(checks: str, spent: float, declared: float, attack: float | None = None) -> list[str]:
    """The reasons of failed checks, given the epsilon spent, declared and found by an attack."""
    reasons: list[str] = []
    if checks == "pass":
        return reasons
    for check in checks.split(", "):
        if check in _SENTENCES:
            reasons.append(_SENTENCES[check])
        elif check == "epsilon" and np.isfinite(spent):
            reasons.append(
                f"a replay spent {spent:.3g}, but {declared:.3g} is declared "
                f"({spent / declared:.3g} times as much)"
                + ("" if "clip" in checks else ": the noise is too small")
            )
        elif check == "attack":
            reasons.append(f"an attack bounds epsilon from below by {attack:.3g}, but "
                         f"{declared:.3g} is declared")  # fmt: skip
    if not reasons:
        reasons.append(f"a replay spent an infinite epsilon, but {declared:.3g} is declared")
    return reasons


def described(verdict: Verdict, checks: Sequence[str], declared: Privacy) -> Verdict:
    """A Verdict with the status and the reasons of these failed checks."""
    epsilon = float(declared.epsilon)
    if not np.isfinite(epsilon):
        nothing = "the learner declares no privacy, so there is nothing to audit"
        return verdict._replace(status=0, reasons=(nothing,))
    names = ", ".join(checks) or "pass"
    reasons = sentences(names, float(verdict.spent.max()), epsilon)
    return verdict._replace(status=status(names), reasons=tuple(reasons))
