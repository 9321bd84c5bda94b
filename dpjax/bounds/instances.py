"""Lower bounds on regret by name, for the instances and learners to which they apply.

Instance-dependent bounds hold in the limit of long horizons. At a given horizon regret may be below
them.
"""

from typing import Any, NamedTuple

import numpy as np

from dpjax import bounds
from dpjax.core import Arms, Number


class LowerBound(NamedTuple):
    """A bound on the regret of one learner against one environment."""

    name: str  # of a function of dpjax.bounds; empty if none holds
    value: float  # in the units of the environment's regret; NaN if none holds


NONE = LowerBound("", np.nan)


def lower_bounds(standard, feedback, horizon, epsilon, delta, model="central") -> list[LowerBound]:
    """The bounds of ``dpjax.bounds`` that hold for a learner on an instance.

    If pure differential privacy is declared, in any model, these are ``d_epsilon`` and
    ``shariff_sheffet``, since privacy in the local model implies privacy in the central one. In the
    local model ``lai_robbins_local`` also holds. Otherwise there is ``lai_robbins``, which ignores
    privacy: dpjax has no larger bound for approximate differential privacy.

    Args:
      standard: the Standard environment.
      feedback: as in :func:`dpjax.learners.entrants.feedback_of`.
      horizon: T.
      epsilon, delta, model: the declared ones; epsilon = inf if no privacy is declared.

    Returns:
      The bounds in decreasing order; empty if none holds.
    """
    if standard.means is None or "bandit" not in feedback:
        return []
    means = np.array(standard.means)
    if np.isfinite(epsilon) and delta == 0.0:
        values = {
            "d_epsilon": bounds.d_epsilon(horizon, means, epsilon),
            "shariff_sheffet": bounds.shariff_sheffet(horizon, len(means), epsilon) / 2.0,
        }
        if model == "local":
            values["lai_robbins_local"] = bounds.lai_robbins_local(horizon, means, epsilon)
    else:
        values = {"lai_robbins": bounds.lai_robbins(horizon, means)}
    ordered = sorted(values.items(), key=lambda item: -float(item[1]))
    return [LowerBound(name, standard.width * float(value)) for name, value in ordered]


def sentence(standard: Any, feedback: str) -> str:
    """The bounds that hold on an environment, and the learners to which they apply."""
    if "bandit" not in feedback:
        return f"dpjax.bounds has no lower bound for {feedback}."
    if standard.means is None:
        return "No lower bound in dpjax.bounds applies to this environment."
    return (
        "Lower bounds on this instance. If pure differential privacy is declared in any model, "
        "d_epsilon (Azize et al. 2025) applies, and in the local model also lai_robbins_local, "
        "which is larger. Otherwise lai_robbins (Lai & Robbins 1985) applies. dpjax has no larger "
        "bound for approximate differential privacy. These bounds are for learners whose regret is "
        "o(T^a) for every a > 0 on all instances of Bernoulli losses. They hold in the limit of "
        "long horizons, so regret below them at this horizon is no contradiction. "
        "shariff_sheffet (Shariff & Sheffet 2018) requires only a regret of at most T^(3/4), and "
        "is at most 1/400 of d_epsilon."
    )


def minimax(
    actions: Any, feedback: str, horizon: int, epsilon: Number, delta: Number
) -> dict[str, float]:
    """The minimax bound over all instances, by name; empty if dpjax has none for these actions."""
    if not isinstance(actions, Arms) or "bandit" not in feedback:
        return {}
    pure = np.isfinite(epsilon) and delta == 0.0
    value = bounds.azize_basu_minimax(horizon, actions.count, epsilon if pure else np.inf)
    return {"azize_basu_minimax": float(value)}


def minimax_sentence(
    actions: Any, feedback: str, horizon: int, epsilon: Number, delta: Number
) -> str:
    """The minimax bound over all instances; empty if dpjax has none for these actions."""
    known = minimax(actions, feedback, horizon, epsilon, delta)
    if not known:
        return ""
    (value,) = known.values()
    pure = np.isfinite(epsilon) and delta == 0.0
    model = (
        f"with pure differential privacy at epsilon = {epsilon:g}" if pure else "without privacy"
    )
    return (
        f"Over all instances of {actions.count} arms, the worst-case regret of any learner {model} "
        f"is at least {value:.3g} at T = {horizon} (azize_basu_minimax; Azize & Basu 2022, "
        "Theorem 2). The worst instance need not be one of the three below."
    )
