"""Theorems on learners over arms, against adversaries and on Bernoulli arms."""

from collections.abc import Callable
from functools import partial

import jax.numpy as jnp
import numpy as np

from dpjax import bounds, environments, learners, privacy
from dpjax.bounds.theorems.statement import Theorem, of_size, plain
from dpjax.environments import families
from dpjax.environments.families import Family
from dpjax.learners._exp3_minibatch import derived_tau
from dpjax.learners._explore_then_commit import derived_rounds
from dpjax.learners._hedge import plain_rate, private_rate

ARMS = 4
MEANS = (0.3, 0.5, 0.5, 0.5)
ROOT, PRIVATE_ROOT = {"horizon": 0.5}, {"horizon": 0.5, "epsilon": -1.0}


def _bernoulli(best, arms):
    return environments.bernoulli([best] + [0.5] * (arms - 1), regret="pseudo")


def _warming(arms):
    return environments.memory([0.3] + [0.5] * (arms - 1), rounds=1)


def _with_best(means):
    return environments.bernoulli(jnp.concatenate([jnp.zeros(1), means]), regret="pseudo")


GAPS = families.at_gaps(ARMS)
ADVERSARIES: dict[str, Callable] = {
    "deterministic": environments.deterministic,
    "stochastic": partial(_bernoulli, 0.45),
    "oblivious": environments.oblivious,
    **GAPS,
}
WITH_MEMORY: dict[str, Callable] = {
    "switching cost": environments.switching_cost,
    "warming up": _warming,
}


def _sequences(horizon) -> dict[str, Family]:
    """Oblivious adversaries."""
    return {
        "means": families.means(ARMS),
        "changes": families.changes(horizon, ARMS),
        "periodic": families.periodic(horizon, ARMS),
    }


def _reacting(horizon) -> dict[str, Family]:
    """Oblivious and adaptive adversaries."""
    return {**_sequences(horizon), "thresholds": families.thresholds(ARMS)}


def _warming_up(horizon) -> dict[str, Family]:
    make = partial(environments.memory, rounds=1)
    return {"warming up": Family(make, families.means(ARMS).box)}


def _stochastic(horizon) -> dict[str, Family]:
    """Bernoulli arms."""
    return {"means": families.means(ARMS, regret="pseudo")}


def _realizable(horizon) -> dict[str, Family]:
    return {"realizable": Family(_with_best, families.means(ARMS - 1).box)}


def _random(horizon, epsilon):
    return bounds.random_losses(horizon, ARMS, domain="arms")


def _over_arms(
    learner, paper, source, exponents, kinds=ADVERSARIES, searched=_sequences, **readings
) -> Theorem:
    """A theorem on losses in [0, 1]. The readings are functions (T, K, epsilon) -> bound."""
    sizes = {"arms": ARMS}
    theorem = of_size(learner, paper, source, exponents, kinds, sizes, ARMS, 1.0, **readings)
    lower = _random if kinds is ADVERSARIES else theorem.lower
    return theorem._replace(families=searched, lower=lower)


def _instance(learner, paper, source, **readings) -> Theorem:
    """A theorem on Bernoulli arms. The readings are functions (T, means, epsilon) -> bound."""
    bernoulli = {"Bernoulli": partial(environments.bernoulli, list(MEANS), regret="pseudo")}
    means, sizes = np.array(MEANS), {"arms": len(MEANS)}
    width = np.max(means - means.min())
    theorem = of_size(
        learner, paper, source, {"horizon": 0.0}, bernoulli, sizes, means, width, **readings
    )
    return theorem._replace(families=_stochastic, instance="means")


def _hedge(horizon, arms, epsilon):
    """The bound at the learner's rate for epsilon."""
    allowed = private_rate(float(horizon), float(epsilon), privacy.default_delta(float(horizon)))
    return bounds.hedge(horizon, arms, min(float(plain_rate(float(horizon), arms)), float(allowed)))


def _exp2_rate(horizon, arms, epsilon):
    """The printed bound, for epsilon of at most 1."""
    return bounds.exp2_rate(horizon, arms, epsilon) if epsilon <= 1.0 else np.nan


def _batches(horizon, arms, epsilon):
    """The bound of EXP3_tau against oblivious adversaries, at the learner's tau for epsilon."""
    tau = derived_tau(float(horizon), float(epsilon), privacy.default_delta(float(horizon)))
    return bounds.exp3_minibatch(horizon, arms, np.clip(np.ceil(float(tau)), 1.0, horizon), 0.0)


def _switching_tau(horizon, arms) -> int:
    """The batch that balances regret and switches, rounded up, and longer than the memory."""
    return max(2, int(np.ceil(np.cbrt(horizon / (7.0 * arms * np.log(arms))))))


def _by_switching_tau(horizon, arms):
    return learners.exp3_minibatch(horizon, arms, tau=float(_switching_tau(horizon, arms)))


def _switching(horizon, arms, epsilon):
    return bounds.exp3_minibatch(horizon, arms, _switching_tau(float(horizon), arms), 1.0)


def _in_batches(horizon, arms, epsilon):
    """The smaller of the bounds for batches of 2 / epsilon rounds and without batches."""
    single = bounds.shrinking_dartboard_pure(horizon, arms, epsilon)
    if epsilon > 2.0:
        return single
    return np.minimum(single, bounds.shrinking_dartboard_batched(horizon, arms, epsilon))


def _exploring(horizon, means, epsilon):
    """The bound at the learner's default number of rounds."""
    rounds = float(derived_rounds(int(horizon), len(means), float(epsilon)))
    return bounds.explore_then_commit(horizon, means, epsilon, rounds)


DUELS = (0.1, 0.5, 0.7, 0.9)

THEOREMS: dict[str, Theorem] = {
    "exp3": _over_arms(
        learners.exp3, "auer2002", "Auer et al. 2002, Corollary 3.2", ROOT,
        printed=plain(bounds.exp3),
    ),
    "dp_exp3_lap": _over_arms(
        learners.dp_exp3_lap, "tossou2017",
        "Tossou & Dimitrakakis 2017, the corollary on DP-EXP3-Lap, as reconstructed", PRIVATE_ROOT,
        printed=bounds.dp_exp3_lap_printed, derived=bounds.dp_exp3_lap,
    ),
    "exp3_minibatch": _over_arms(
        learners.exp3_minibatch, "tossou2017",
        "Tossou & Dimitrakakis 2017, the theorem on EXP3_tau, without memory",
        {"horizon": 2 / 3, "epsilon": -1 / 3, "without privacy": 0.5}, printed=_batches,
    ),
    "exp3_minibatch-memory": _over_arms(
        _by_switching_tau, "tossou2017",
        "Tossou & Dimitrakakis 2017, the theorem on EXP3_tau, memory 1, at tau of its corollary",
        {"horizon": 2 / 3}, WITH_MEMORY, _warming_up, printed=_switching,
    )._replace(lower=lambda horizon, epsilon: bounds.switching_cost_lower(horizon, ARMS)),
    "exp2": _over_arms(
        learners.exp2, "agarwal2017-bandits",
        "Agarwal & Singh 2017, Theorem 4.1, derived with our constants", PRIVATE_ROOT,
        rate=_exp2_rate, derived=bounds.exp2,
    ),
    "batched_bandit": _over_arms(
        learners.batched_bandit, "asi2025",
        "Asi, Raman & Talwar 2025, constant of the base as recalled",
        {"horizon": 0.5, "epsilon": -0.5}, derived=bounds.batched_bandit,
    ),
    "tsallis_inf": _over_arms(
        learners.tsallis_inf, "zimmert2021", "Zimmert & Seldin 2021, Theorem 1", ROOT,
        printed=plain(bounds.tsallis_inf),
    ),
    "hedge": _over_arms(
        learners.hedge, "cesa-bianchi2006",
        "Cesa-Bianchi & Lugosi 2006, Theorem 2.2, at the rate that epsilon allows", PRIVATE_ROOT,
        searched=_reacting, printed=_hedge,
    ),
    "shrinking_dartboard": _over_arms(
        learners.shrinking_dartboard, "asi2023",
        "Asi et al. 2023, Theorem 2, at a rate that epsilon allows", PRIVATE_ROOT,
        derived=bounds.shrinking_dartboard_pure,
    ),
    "shrinking_dartboard-batched": _over_arms(
        partial(learners.shrinking_dartboard, batch=None), "asi2023",
        "Asi et al. 2023, Theorem 5, for pure epsilon at the best batch, with our constants",
        {"horizon": 0.5, "epsilon": -0.5}, derived=_in_batches,
    ),
    "limited_updates": _over_arms(
        learners.limited_updates, "asi2023", "Asi et al. 2023, Algorithm 2, with our constants",
        ROOT, {"stochastic": partial(_bernoulli, 0.45), "drawn": GAPS["drawn"]}, _stochastic,
        derived=bounds.limited_updates,
    ),
    "limited_updates-prefix": _instance(
        partial(learners.limited_updates, prefix="random"), "cesari2026",
        "Cesari & Colomboni 2026, as reconstructed, with our constants",
        derived=bounds.limited_updates_prefix,
    ),
    "sparse_vector_experts": _over_arms(
        learners.sparse_vector_experts, "asi2023-realizable",
        "in the style of Asi, Feldman, Koren & Talwar 2023, with our constants",
        {"horizon": 0.0, "epsilon": -1.0}, {"realizable": partial(_bernoulli, 0.0)},
        _realizable,
        derived=bounds.sparse_vector_experts,
    ),
    "ucb1": _instance(
        learners.ucb1, "auer2002", "Auer, Cesa-Bianchi & Fischer 2002, Theorem 1",
        printed=plain(bounds.ucb1),
    ),
    "adap_ucb": _instance(
        learners.adap_ucb, "azize2022", "Azize & Basu 2022", printed=bounds.adap_ucb
    ),
    "explore_then_commit": _instance(
        learners.explore_then_commit, "lattimore2020",
        "Lattimore & Szepesvari 2020, chapter 6, with our noise", derived=_exploring,
    )._replace(exponents={"horizon": 2 / 3}),
    "lazy_ucb": _instance(
        learners.lazy_ucb, "hu2021", "Hu, Huang & Mehta 2021 with our constants",
        derived=bounds.lazy_ucb,
    ),
    "successive_elimination": _instance(
        learners.successive_elimination, "sajed2019", "Sajed & Sheffet 2019 with our constants",
        derived=bounds.successive_elimination,
    ),
    "dueling_elimination": of_size(
        learners.dueling_elimination, "saha2024",
        "in the style of Saha & Asi 2024, with our constants", {"horizon": 0.0},
        {"linear link": partial(environments.dueling, list(DUELS))}, {"arms": len(DUELS)},
        np.array(DUELS), 0.5 * (max(DUELS) - min(DUELS)), derived=bounds.dueling_elimination,
    )._replace(
        families=lambda horizon: {"means": families.duels(ARMS)}, instance="preferences",
        largest=lambda horizon: 0.5 * horizon,
    ),
}  # fmt: skip
