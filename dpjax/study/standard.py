"""The standard sizes and environments of comparisons, for each kind of actions."""

from typing import Any

import numpy as np

from dpjax import environments
from dpjax.core import Arms, Environment, Pairs, Policies
from dpjax.domains import Domain
from dpjax.learners.entrants import ARMS

# The number of arms that contextual environments offer in each round.
OFFERED = 10


def standard(actions: Any, by_batches: bool) -> dict[str, Environment]:
    """Three environments with these actions, by name.

    Args:
      actions: Arms, Pairs, Policies or a Domain.
      by_batches: whether all learners play in batches. If so, all three environments with arms have
        i.i.d. rounds, so that a batch is played at once; otherwise the third is an adversary.
    """
    if isinstance(actions, Domain):
        return {kind: environments.linear_losses(actions, kind)
                for kind in ("iid", "drifting", "alternating")}  # fmt: skip
    if isinstance(actions, Pairs):
        others = actions.players - 1
        return {
            "wide gap": environments.dueling((0.1, *[0.9] * others)),
            "narrow gap": environments.dueling((0.4, *[0.6] * others)),
            "ladder": environments.dueling(np.linspace(0.0, 1.0, actions.players)),
        }
    if isinstance(actions, Arms):
        return _over_arms(actions.count, by_batches)
    if actions.arms is not None:
        return _over_advice(actions.dim, actions.arms)
    parameter = 2.0 * np.array((0.3, *[0.5] * (actions.dim - 1))) - 1.0
    gaps = {f"gap {gap:g}": environments.gap_arms(actions.dim, gap=gap, arms=OFFERED)
            for gap in (0.3, 0.0)}  # fmt: skip
    return {"unit vectors": environments.fixed_actions(np.eye(actions.dim), parameter), **gaps}


def _over_arms(arms, by_batches) -> dict[str, Environment]:
    instances = {name: (mean, *[0.5] * (arms - 1))
                 for name, mean in {"wide gap": 0.3, "narrow gap": 0.45}.items()}  # fmt: skip
    if by_batches:
        instances["ladder"] = tuple(np.linspace(0.25, 0.75, arms).tolist())
    games = {name: environments.bernoulli(means, regret="pseudo")
             for name, means in instances.items()}  # fmt: skip
    if by_batches:
        return games
    if arms < 3:
        return {**games, "fully oblivious": environments.fully_oblivious(arms)}
    return {**games, "deterministic": environments.deterministic(arms)}


def _over_advice(experts, arms) -> dict[str, Environment]:
    """One expert puts weight on an arm without loss, or is slightly better, or all differ."""
    means, good = np.full(arms, 0.5), np.eye(experts)[0]
    return {
        "one good expert": environments.advice(means, experts, informative=0.5 * good),
        "narrow": environments.advice(means, experts, informative=0.45 + 0.05 * good),
        "ladder": environments.advice(np.linspace(0.25, 0.75, arms), experts),
    }


def drawn(actions: Any) -> Environment:
    """One small environment with these actions, whose rounds draw random numbers.

    Benchmarks and tests play every learner on it.

    Args:
      actions: Arms, Pairs, Policies or a Domain.
    """
    if isinstance(actions, Domain):
        return environments.linear_losses(actions, "iid")
    if isinstance(actions, Policies):
        if actions.arms is None:
            return environments.gap_arms(actions.dim, gap=0.1, arms=ARMS)
        return environments.advice(np.linspace(0.3, 0.7, actions.arms), actions.dim)
    if isinstance(actions, Pairs):
        return environments.dueling(np.linspace(0.3, 0.7, actions.players))
    return environments.bernoulli(np.linspace(0.3, 0.7, actions.count), regret="pseudo")
