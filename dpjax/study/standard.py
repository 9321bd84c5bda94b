"""The standard sizes and environments of comparisons, for each kind of actions."""

from typing import NamedTuple

import numpy as np

from dpjax import environments
from dpjax.core import Arms, Environment, Pairs, Policies
from dpjax.domains import Domain
from dpjax.learners.entrants import ARMS

# The number of arms that contextual environments offer in each round.
OFFERED = 10


class Standard(NamedTuple):
    """An environment that all learners of a comparison play."""

    name: str
    environment: Environment
    words: str  # its description, as the end of a sentence


def standard(actions, by_batches) -> list[Standard]:
    """Three environments with these actions.

    Args:
      actions: Arms, Pairs, Policies or a Domain.
      by_batches: whether all learners play in batches. If so, all three environments with arms have
        i.i.d. rounds, so that a batch is played at once; otherwise the third is an adversary.
    """
    if isinstance(actions, Pairs):
        return _over_pairs(actions.players)
    if isinstance(actions, Arms):
        return _over_arms(actions.count, by_batches)
    if isinstance(actions, Domain):
        return _over_points(actions)
    return _over_policies(actions.dim) if actions.arms is None else _over_advice(*actions)


def _over_arms(arms, by_batches) -> list[Standard]:
    instances = {
        "wide gap": (0.3, *[0.5] * (arms - 1)),
        "narrow gap": (0.45, *[0.5] * (arms - 1)),
    }
    if by_batches:
        instances["ladder"] = tuple(np.linspace(0.25, 0.75, arms).tolist())
    found = [
        Standard(
            name, environments.bernoulli(means, regret="pseudo"),
            f"Bernoulli losses with means {_list(means)}; pseudo-regret",
        )
        for name, means in instances.items()
    ]  # fmt: skip
    if by_batches:
        return found
    if arms < 3:
        third = environments.fully_oblivious(arms)
        words = "losses whose means are drawn afresh in each round; regret to the best arm"
        return [*found, Standard("fully oblivious", third, words)]
    third = environments.deterministic(arms)
    words = "a fixed sequence that lures learners away from the best arm; regret to that arm"
    return [*found, Standard("deterministic", third, words)]


def _over_pairs(arms) -> list[Standard]:
    instances = {
        "wide gap": (0.1, *[0.9] * (arms - 1)),
        "narrow gap": (0.4, *[0.6] * (arms - 1)),
        "ladder": tuple(np.linspace(0.0, 1.0, arms).tolist()),
    }
    return [
        Standard(
            name, environments.dueling(means),
            f"duels by the linear link with mean losses {_list(means)}; half the sum of both gaps",
        )
        for name, means in instances.items()
    ]  # fmt: skip


def _over_points(domain) -> list[Standard]:
    words = {
        "iid": "linear losses that are biased in a direction drawn once",
        "drifting": "linear losses that are biased in a direction that turns",
        "alternating": "linear losses whose leader changes in every round",
    }
    return [
        Standard(kind, environments.linear_losses(domain, kind),
                 f"{text}; regret to the best fixed point")
        for kind, text in words.items()
    ]  # fmt: skip


def _over_policies(dim) -> list[Standard]:
    means = (0.3, *[0.5] * (dim - 1))
    parameter = 2.0 * np.array(means) - 1.0
    unit = Standard(
        "unit vectors", environments.fixed_actions(np.eye(dim), parameter),
        f"the unit vectors as arms, losses -1 or 1 with means {_list(parameter)}; pseudo-regret",
    )  # fmt: skip
    fresh = [
        Standard(
            f"gap {gap:g}", environments.gap_arms(dim, gap=gap, arms=OFFERED),
            f"{OFFERED} fresh unit vectors in each round, one of them better by {gap:g}, "
            "losses -1 or 1; pseudo-regret",
        )
        for gap in (0.3, 0.0)
    ]  # fmt: skip
    return [unit, *fresh]


def _over_advice(experts, arms) -> list[Standard]:
    means, good = np.full(arms, 0.5), np.eye(experts)[0]
    kinds = {
        "one good expert": (
            means,
            0.5 * good,
            "the first of which puts half its weight on an arm without a loss",
        ),
        "narrow": (means, 0.45 + 0.05 * good, "the first of which is slightly better"),
        "ladder": (np.linspace(0.25, 0.75, arms), None, "from uninformed to always well informed"),
    }
    return [
        Standard(name, environments.advice(means, experts, informative=informative),
                 f"Bernoulli losses with means {_list(means)} and {experts} experts, {words}; "
                 "regret to the best expert")
        for name, (means, informative, words) in kinds.items()
    ]  # fmt: skip


def drawn(actions) -> Environment:
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


def _list(numbers) -> str:
    return ", ".join(f"{number:.3g}" for number in numbers)
