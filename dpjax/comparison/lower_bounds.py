"""Lower bounds on regret, by name, where they hold.

The bounds that speak of an instance hold in the limit of long horizons. At a given horizon regret
may be below them.
"""

from typing import NamedTuple

import numpy as np

from dpjax.analysis import bounds
from dpjax.core import Arms


class LowerBound(NamedTuple):
    """A bound on the regret of one learner against one environment."""

    name: str  # of a function of dpjax.analysis.bounds; empty where none holds
    value: float | None  # in the units of the environment's regret


NONE = LowerBound("", None)


def lower_bound(standard, feedback, horizon, epsilon, delta) -> LowerBound:
    """The largest bound of ``dpjax.analysis.bounds`` that holds for a learner on an instance.

    It is ``d_epsilon`` where pure differential privacy is declared, in any model: a learner that is
    private in the local model is so in the central one too. Elsewhere it is ``lai_robbins``, which
    knows of no privacy: dpjax has no larger one for approximate differential privacy.

    Args:
      standard: the Standard environment.
      feedback: as of :func:`dpjax.comparison.competitors.feedback_of`.
      horizon: T.
      epsilon, delta: that are declared; epsilon = inf where nothing is.
    """
    if standard.means is None or "bandit" not in feedback:
        return NONE
    means = np.array(standard.means)
    if np.isfinite(epsilon) and delta == 0.0:
        name, value = "d_epsilon", bounds.d_epsilon(horizon, means, epsilon)
    else:
        name, value = "lai_robbins", bounds.lai_robbins(horizon, means)
    return LowerBound(name, standard.width * float(value))


def sentence(standard, feedback) -> str:
    """Which bound holds on an environment, and of which learners and instances it speaks."""
    if "bandit" not in feedback:
        return f"dpjax.analysis.bounds has no lower bound for {feedback}."
    if standard.means is None:
        return "No lower bound of dpjax.analysis.bounds speaks of this environment."
    return (
        "Lower bounds on this instance: d_epsilon (Azize et al. 2025) where pure differential "
        "privacy is declared, in the central model and so in the local one too; lai_robbins (Lai "
        "& Robbins 1985) elsewhere, also for approximate differential privacy, for which dpjax has "
        "no larger one. Both speak of learners whose regret is o(T^a) for every a > 0 on all "
        "instances of Bernoulli losses, in the limit of long horizons: regret below them at this "
        "horizon contradicts nothing."
    )


def minimax_sentence(actions, feedback, horizon, epsilon, delta) -> str:
    """The minimax bound over all instances; empty where dpjax has none for these actions."""
    if not isinstance(actions, Arms) or "bandit" not in feedback:
        return ""
    pure = np.isfinite(epsilon) and delta == 0.0
    value = float(bounds.azize_basu_minimax(horizon, actions.count, epsilon if pure else np.inf))
    model = f"pure differential privacy at epsilon = {epsilon:g}" if pure else "no privacy"
    return (
        f"Over all instances of {actions.count} arms, whatever a learner does with {model}, the "
        f"worst has a regret of at least {value:.3g} at T = {horizon} (azize_basu_minimax; Azize & "
        "Basu 2022, Theorem 2). That instance need not be one of the three below."
    )
