"""Theorems on regret as data, and whether a measurement holds with them.

A theorem names its learner, the environments that it speaks of, and its bound as a function of the
grid. :func:`measure` plays the learner against all of these environments and compares the worst of
them with the bound. To add a theorem, add its bound to :mod:`dpjax.analysis.bounds` and an entry
here.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas

from dpjax import _check, domains, environments, learners, mechanisms
from dpjax.analysis import bounds
from dpjax.study import choice, trends
from dpjax.study.grid import taken
from dpjax.study.study import Study

ARMS, DIM = 4, 5
MEANS = (0.3, 0.5, 0.5, 0.5)
EPSILONS = (0.1, 1.0, 10.0, np.inf)


class Theorem(NamedTuple):
    """A bound on the expected regret of a learner, against any environment of a kind."""

    learner: Callable  # a factory, as of a Study
    environments: dict[str, Callable]  # among which the worst is looked for
    sizes: dict[str, Any]  # the rest of the grid
    bounds: dict[str, Callable]  # "printed" or "derived" -> (horizon, epsilon) -> bound
    exponents: dict[str, float]  # axis -> the exponent of the leading term, up to logarithms
    largest: Callable  # horizon -> a regret that no play exceeds
    source: str


def _over_arms(learner, bound, source, *, exponents, printed=None, **kinds: Callable) -> Theorem:
    """A theorem on arms with losses in [0, 1], against adversaries or ``kinds``."""
    adversaries: dict[str, Callable] = {
        "deterministic": environments.deterministic,
        "stochastic": partial(_bernoulli, 0.45),
        "oblivious": environments.oblivious,
    }
    found = {"derived": bound} if printed is None else {"printed": printed, "derived": bound}
    return Theorem(learner, kinds or adversaries, {"arms": ARMS}, found, exponents,
                   lambda horizon: horizon, source)  # fmt: skip


def _bernoulli(best, arms):
    return environments.bernoulli([best] + [0.5] * (arms - 1), regret="pseudo")


def _instance(learner, bound, source) -> Theorem:
    """A theorem on Bernoulli arms of the given means."""
    means = np.array(MEANS)

    def with_means(horizon, epsilon):
        return bound(horizon, means, epsilon)

    made = {"Bernoulli": lambda arms: environments.bernoulli(list(MEANS), regret="pseudo")}
    return Theorem(learner, made, {"arms": len(MEANS)}, {"derived": with_means}, {"horizon": 0.0},
                   lambda horizon: horizon * np.max(means - means.min()), source)  # fmt: skip


def _over_points(learner, name, bound, exponents, source) -> Theorem:
    """A theorem on linear losses of a domain, from its own loss set."""
    domain = getattr(domains, name)(DIM)
    made: dict[str, Callable] = {
        kind: partial(_linear, kind) for kind in ("iid", "drifting", "alternating")
    }
    width = 1.0 if name == "simplex" else 2.0  # the largest <l, x - y>
    return Theorem(learner, made, {"domain": domain}, {"derived": bound}, exponents,
                   lambda horizon: width * horizon, source)  # fmt: skip


def _linear(kind, domain):
    return environments.linear_losses(domain, kind)


def _linear_theorems() -> dict[str, Theorem]:
    """Theorems of Agarwal & Singh 2017 on each of their domains."""
    found = {}
    tree = partial(mechanisms.tree, identical_law=True)
    for name in ("simplex", "ball", "cube"):
        found[f"ftrl-{name}"] = _over_points(
            partial(learners.ftrl, mechanism=tree), name,
            lambda horizon, epsilon, name=name: bounds.ftrl(horizon, DIM, epsilon, domain=name),
            {"horizon": 0.5}, "Agarwal & Singh 2017, section 3, with our constants",
        )  # fmt: skip
        found[f"scrible-{name}"] = _over_points(
            learners.scrible, name,
            lambda horizon, epsilon, name=name: bounds.scrible(horizon, DIM, epsilon, domain=name),
            {"horizon": 0.5, "epsilon": -1.0},
            "Agarwal & Singh 2017, Theorem 4.5, with the constants of its proof",
        )  # fmt: skip
    return found


THEOREMS: dict[str, Theorem] = {
    "exp3": _over_arms(
        learners.exp3, lambda horizon, epsilon: bounds.exp3(horizon, ARMS),
        "Auer et al. 2002, Corollary 3.2", exponents={"horizon": 0.5},
    ),
    "dp_exp3_lap": _over_arms(
        learners.dp_exp3_lap,
        lambda horizon, epsilon: bounds.dp_exp3_lap(horizon, ARMS, epsilon),
        "Tossou & Dimitrakakis 2017, the corollary, as reconstructed",
        exponents={"horizon": 0.5, "epsilon": -1.0},
        printed=lambda horizon, epsilon: bounds.dp_exp3_lap_printed(horizon, ARMS, epsilon),
    ),
    "exp2": _over_arms(
        learners.exp2, lambda horizon, epsilon: bounds.exp2(horizon, ARMS, epsilon),
        "Agarwal & Singh 2017, Theorem 4.1, with our constants",
        exponents={"horizon": 0.5, "epsilon": -1.0},
        printed=lambda horizon, epsilon: bounds.exp2_rate(horizon, ARMS, epsilon),
    ),
    "batched_bandit": _over_arms(
        learners.batched_bandit,
        lambda horizon, epsilon: bounds.batched_bandit(horizon, ARMS, epsilon),
        "Asi, Raman & Talwar 2025, constant of the base as recalled",
        exponents={"horizon": 0.5, "epsilon": -0.5},
    ),
    "tsallis_inf": _over_arms(
        learners.tsallis_inf, lambda horizon, epsilon: bounds.tsallis_inf(horizon, ARMS),
        "Zimmert & Seldin 2021, Theorem 1", exponents={"horizon": 0.5},
    ),
    "limited_updates": _over_arms(
        learners.limited_updates,
        lambda horizon, epsilon: bounds.limited_updates(horizon, ARMS, epsilon),
        "Asi et al. 2023, Algorithm 2, with our constants",
        exponents={"horizon": 0.5}, stochastic=partial(_bernoulli, 0.45),
    ),
    "ucb1": _instance(
        learners.ucb1, lambda horizon, means, epsilon: bounds.ucb1(horizon, means),
        "Auer et al. 2002, Theorem 1",
    ),
    "adap_ucb": _instance(learners.adap_ucb, bounds.adap_ucb, "Azize & Basu 2022"),
    "successive_elimination": _instance(
        learners.successive_elimination, bounds.successive_elimination,
        "Sajed & Sheffet 2019 with our constants",
    ),
    **_linear_theorems(),
}  # fmt: skip


def find(name) -> Theorem:
    """The theorem of that name; ValueError where there is none."""
    if name not in THEOREMS:
        meant, known = _check.nearest(str(name), THEOREMS), ", ".join(THEOREMS)
        raise ValueError(f"theorem: there is no {name!r}{meant}; known are {known}")
    return THEOREMS[name]


def verdict(low, high, bound, largest) -> str:
    """What an interval (low, high) of the worst regret says of a bound.

    "vacuous" where no play exceeds the bound, "violated" where the whole interval lies above it,
    "held" where the whole interval lies below it, and "open" elsewhere.
    """
    if bound >= largest:
        return "vacuous"
    if low > bound:
        return "violated"
    return "held" if high <= bound else "open"


def first_horizon(theorem, bound, epsilon) -> float:
    """The smallest horizon from which on a bound is below the largest regret; inf beyond 2^40."""
    powers = 2.0 ** np.arange(1, 41)

    def says_something(horizon):
        horizon = np.float64(horizon)
        return float(bound(horizon, np.float64(epsilon))) < theorem.largest(horizon)

    said = [says_something(power) for power in powers]
    if not said[-1]:
        return float("inf")
    last = max((i for i, each in enumerate(said) if not each), default=-1)
    if last < 0:
        return 2.0
    low, high = int(powers[last]), int(powers[last + 1])
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if says_something(middle) else (middle, high)
    return float(high)


class Measured(NamedTuple):
    """What a measurement says of a theorem."""

    verdicts: pandas.DataFrame  # a row for each reading of the bound, epsilon and horizon
    exponents: pandas.DataFrame  # a row for each fit: fitted beside printed exponents


def measure(
    name,
    *,
    epsilons: Sequence[float] = EPSILONS,
    horizon: int = 2**14,
    trials: int = 200,
    key=0,
    progress: bool = True,
    theorem: Theorem | None = None,
) -> Measured:
    """Plays the learner of a theorem, and compares its worst regret with the bound.

    Args:
      name: one of ``THEOREMS``.
      epsilons: privacy levels; inf alone for a learner that takes none.
      horizon: the largest of three horizons, each a quarter of the next, at least 64.
      trials: how many, at least 2. The interval is simultaneous over the environments.
      key, progress: as of :class:`dpjax.Study`.
      theorem: another theorem than that of the name.

    Raises:
      ValueError: there is no such theorem, or a size is too small.
    """
    theorem = find(name) if theorem is None else theorem
    _check.size(64, horizon=horizon)
    _check.size(2, trials=trials)
    horizons = [horizon // 16, horizon // 4, horizon]
    grid: dict[str, Any] = {**theorem.sizes, "horizon": horizons}
    private = "epsilon" in taken(theorem.learner)
    levels = [float(epsilon) for epsilon in epsilons] if private else [np.inf]
    if private:
        grid["epsilon"] = levels
    data: Any = Study({name: theorem.learner}, theorem.environments, grid, trials, key, 1).run(
        progress=progress
    )
    regret = data["final_regret"].squeeze("learner")
    if not private:
        regret = regret.expand_dims(epsilon=levels)
    return Measured(_verdicts(name, theorem, regret), _exponents(name, theorem, regret))


def _verdicts(name, theorem, regret) -> pandas.DataFrame:
    found, rows = choice.worst(regret), []
    for reading, bound in theorem.bounds.items():
        for epsilon in regret["epsilon"].values:
            for horizon in regret["horizon"].values:
                here = found.sel(epsilon=epsilon, horizon=horizon)
                value = float(bound(np.float64(horizon), np.float64(epsilon)))
                low, high = float(here["low"]), float(here["high"])
                rows.append(
                    {
                        "theorem": name,
                        "bound": reading,
                        "epsilon": float(epsilon),
                        "horizon": int(horizon),
                        "worst": str(here["environment"].values),
                        "regret": float(here["worst"]),
                        "low": low,
                        "high": high,
                        "value": value,
                        "ratio": float(here["worst"]) / value,
                        "verdict": verdict(low, high, value, theorem.largest(int(horizon))),
                        "from_horizon": first_horizon(theorem, bound, epsilon),
                        "trials": regret.sizes["trial"],
                    }
                )
    return pandas.DataFrame(rows)


def _exponents(name, theorem, regret) -> pandas.DataFrame:
    """Fitted exponents beside printed ones.

    The exponent in the horizon is fitted for each epsilon, and the one in epsilon at the largest
    horizon. Each is fitted against the environment that is worst at the largest horizon, for the
    one in epsilon at the smallest epsilon.
    """
    worst, rows = choice.worst(regret)["environment"].isel(horizon=-1), []
    longest = regret.isel(horizon=-1)
    levels = worst["epsilon"].values
    cases = [("horizon", epsilon, regret.sel(epsilon=epsilon)) for epsilon in levels]
    if "epsilon" in theorem.exponents and np.isfinite(levels).sum() > 1:
        cases.append(("epsilon", levels.min(), longest))
    for over, epsilon, here in cases:
        environment = worst.sel(epsilon=epsilon).item()
        fitted = trends.slope(here.sel(environment=environment), over)
        rows.append(
            {
                "theorem": name,
                "over": over,
                "epsilon": float(epsilon) if over == "horizon" else None,
                "worst": environment,
                "printed": theorem.exponents[over],
                "fitted": float(fitted["slope"]),
                "low": float(fitted["low"]),
                "high": float(fitted["high"]),
                "first": float(fitted.attrs["first"]),
                "last": float(fitted.attrs["last"]),
            }
        )
    return pandas.DataFrame(rows)
