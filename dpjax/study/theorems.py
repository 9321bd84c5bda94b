"""Measurement of theorems: play their learners, and compare the worst regret with the bounds."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas
import xarray

from dpjax.bounds.theorems import PAPERS_WITHOUT, THEOREMS, WITHOUT, Theorem, find, named
from dpjax.core import Arms, Array, Environment, _check
from dpjax.environments.families import GAPS
from dpjax.learners.factories import taken
from dpjax.report import choice, tables, trends
from dpjax.study.grid import named as named_factories
from dpjax.study.study import Study
from dpjax.study.worst_case import WorstCase, described, worst_case

__all__ = [
    "EPSILONS", "PAPERS_WITHOUT", "THEOREMS", "WITHOUT", "Measured", "Theorem", "find",
    "first_horizon", "judge", "measure", "named", "on", "play", "search", "verdict",
]  # fmt: skip
EPSILONS = (0.1, 1.0, 10.0, np.inf)
_ROUNDING = 1e-5  # the relative error of regret, which is summed in float32
_VERDICTS = ("theorem paper bound epsilon horizon worst regret low high value ratio verdict "
             "from_horizon trials")  # fmt: skip
_SEARCHES = ("theorem paper bound epsilon horizon family instance regret low high searched lower "
             "value ratio verdict trials")  # fmt: skip


def verdict(low: float, high: float, bound: float, largest: float, reading: str = "derived") -> str:
    """The verdict on a bound from an interval (low, high) of the worst regret.

    "vacuous" if regret cannot exceed the bound, "violated" if the whole interval lies above it,
    "held" if the whole interval lies below it, and "open" otherwise. Rounding in float32 is allowed
    for. A rate that is printed up to constants cannot be violated. If regret exceeds it, the
    verdict is "exceeded".

    Examples:
      >>> theorems.verdict(80.0, 90.0, bound=100.0, largest=1000.0)
      'held'
      >>> theorems.verdict(80.0, 120.0, bound=100.0, largest=1000.0)
      'open'
      >>> theorems.verdict(110.0, 120.0, bound=100.0, largest=1000.0)
      'violated'
    """
    if bound >= largest:
        return "vacuous"
    bound *= 1.0 + _ROUNDING
    if low > bound:
        return "exceeded" if reading == "rate" else "violated"
    return "held" if high <= bound else "open"


def first_horizon(theorem: Theorem, bound: Callable, epsilon: float) -> float:
    """The horizon from which a bound is below the largest possible regret; inf beyond 2^40.

    Examples:
      >>> theorem = theorems.find("hedge")
      >>> bound = theorem.bounds["printed"]
      >>> [theorems.first_horizon(theorem, bound, epsilon) for epsilon in (0.01, 0.1, np.inf)]
      [679509.0, 3944.0, 2.0]
    """
    powers = 2 ** np.arange(1, 41)

    def says_something(horizon):
        horizon = np.float64(horizon)
        return float(bound(horizon, np.float64(epsilon))) < theorem.largest(horizon)

    vacuous = np.flatnonzero([not says_something(power) for power in powers])
    if not len(vacuous):
        return 2.0
    if vacuous[-1] == len(powers) - 1:
        return float("inf")
    low, high = map(int, powers[vacuous[-1] : vacuous[-1] + 2])
    return float(low + bisect_left(range(low, high), True, key=says_something))


class Measured(NamedTuple):
    """The measurement of a theorem."""

    verdicts: pandas.DataFrame  # a row for each reading of the bound, epsilon and horizon
    exponents: pandas.DataFrame  # a row for each fit: fitted and printed exponent


def measure(name: str, *, environments: Any = None, means: Any = None, **sizes: Any) -> Measured:
    """Play the learner of a theorem, and compare its worst regret with the bound.

    The interval of the worst regret is simultaneous over the environments.

    Args:
      name: one of :data:`dpjax.bounds.theorems.THEOREMS`.
      environments: as in a Study; by default those of the theorem. It is not checked whether they
        satisfy the assumptions of the theorem, such as i.i.d. or oblivious losses.
      means: (K,) mean losses of the arms of these environments, if the bound depends on them.
      **sizes: as in :func:`play`.

    Raises:
      ValueError: there is no such theorem, a size is too small, or the theorem does not cover the
        actions of the environments.

    Examples:
      >>> sizes = {"epsilons": [0.1, np.inf], "horizon": 1024, "trials": 10, "progress": False}
      >>> measured = theorems.measure("limited_updates", **sizes)
      >>> print(measured.verdicts[["epsilon", "horizon", "verdict", "from_horizon"]])
         epsilon  horizon  verdict  from_horizon
      0      0.1       64  vacuous         615.0
      1      0.1      256  vacuous         615.0
      2      0.1     1024     held         615.0
      3      inf       64     held          19.0
      4      inf      256     held          19.0
      5      inf     1024     held          19.0
    """
    theorem = find(name)
    if environments is not None:
        theorem = on(theorem, environments, means)
    elif means is not None:
        raise ValueError("means: they describe environments; pass these environments too")
    return judge(name, theorem, play(name, theorem, **sizes))


def on(theorem: Theorem, environments: Any, means: Any = None) -> Theorem:
    """Replace the environments of a theorem, and set its number of arms to theirs.

    Args:
      theorem: a theorem.
      environments, means: as in :func:`measure`.

    Examples:
      >>> six = environments.bernoulli([0.4, *[0.5] * 5])
      >>> theorem = theorems.on(theorems.find("exp3"), {"six arms": six})
      >>> theorem.sizes, round(theorem.bounds["printed"](1024, np.inf))
      ({'arms': 6}, 275)
    """
    factories = named_factories(
        "environments", "environments.deterministic", (Environment,), environments
    )
    sizes, bounds = theorem.grid(), theorem.bounds
    values = {"horizon": 64, "gap": 0.5, **sizes}
    counts = set()
    for make in factories.values():
        arguments = taken(make)
        if arguments.keys() <= values.keys():  # A Study refuses other factories.
            actions = make(**{name: values[name] for name in arguments}).action_set
            counts |= {actions.count} if type(actions) is Arms else set()
    if theorem.instance:
        if theorem.instance != "means" or means is None:
            raise ValueError(
                f"environments: the bound depends on the {theorem.instance} of the arms; measure "
                + (
                    "it in Python, by theorems.measure(name, environments=..., means=...)"
                    if theorem.instance == "means"
                    else "it on its own environments"
                )
            )
        means = np.asarray(means, np.float64)
        theorem = theorem._replace(largest=lambda horizon: np.ptp(means) * horizon)
        sizes, bounds = {"arms": len(means)}, _at(bounds, means)
    elif means is not None:
        raise ValueError("means: the bound does not depend on them; leave them out")
    elif sizes.keys() == {"arms"} and counts:
        if len(counts) > 1:
            several = " and ".join(map(str, sorted(counts)))
            raise ValueError(f"environments: they have {several} arms; measure them separately")
        (arms,) = counts
        sizes, bounds = {"arms": arms}, _at(bounds, arms)
    return theorem._replace(environments=factories, sizes=sizes, bounds=bounds)


def _at(bounds, size) -> dict[str, Callable]:
    """The bounds at another number of arms, or at other means."""
    return {reading: partial(bound, size=size) for reading, bound in bounds.items()}


def play(
    name: str,
    theorem: Theorem,
    *,
    epsilons: Sequence[float] = EPSILONS,
    horizon: int = 2**14,
    trials: int = 200,
    key: Array | int = 0,
    progress: bool = True,
) -> xarray.DataArray:
    """Final regret of a theorem's learner, by epsilon, horizon, environment and trial.

    An environment that takes a gap is played at 16 gaps from 0.01 to 1. Each gap is an environment
    in the data.

    Args:
      name: of the learner in the data.
      theorem: the theorem.
      epsilons: privacy levels; a learner that takes no epsilon is played at inf only.
      horizon: the largest of three horizons, at least 64. Each of the others is a quarter of the
        next.
      trials: number of trials, at least 2.
      key, progress: as in :class:`dpjax.Study`.

    Examples:
      >>> sizes = {"epsilons": [0.1, np.inf], "horizon": 1024, "trials": 10, "progress": False}
      >>> theorem = theorems.find("limited_updates")
      >>> regret = theorems.play("limited_updates", theorem, **sizes)
      >>> dict(regret.sizes)
      {'environment': 17, 'horizon': 3, 'epsilon': 2, 'trial': 10}
    """
    _check.size(64, horizon=horizon)
    _check.size(2, trials=trials)
    grid: dict[str, Any] = {**theorem.grid(), "horizon": [horizon // 16, horizon // 4, horizon]}
    private, levels = "epsilon" in taken(theorem.learner), _levels(theorem, epsilons)
    if private:
        grid["epsilon"] = levels
    gaps = {name for name, make in theorem.environments.items() if "gap" in taken(make)}
    if gaps:
        grid["gap"] = GAPS
    study = Study({name: theorem.learner}, theorem.environments, grid, trials, key, 1)
    data: Any = study.run(progress=progress)
    regret = data["final_regret"].squeeze("learner")
    if gaps:
        regret = xarray.concat(list(_at_each_gap(regret, gaps)), "environment", coords="minimal")
    return regret if private else regret.expand_dims(epsilon=levels)


def _at_each_gap(regret, gaps) -> Iterator[xarray.DataArray]:
    """The regret on each environment, separately at each gap if its name is in ``gaps``."""
    regret = regret.reset_coords(drop=True)
    for name in regret["environment"].values:
        regrets = regret.sel(environment=[name])
        if name not in gaps:
            yield regrets.isel(gap=0, drop=True)
            continue
        for gap in regret["gap"].values:
            at_gap = regrets.sel(gap=gap, drop=True)
            yield at_gap.assign_coords(environment=[f"{name}, gap {gap:.3g}"])


def search(
    name: str,
    theorem: Theorem,
    *,
    epsilons: Sequence[float] = EPSILONS,
    horizon: int = 2**14,
    final: int = 1024,
    key: Array | int = 0,
) -> pandas.DataFrame:
    """Search the families of a theorem for the worst environments, and compare regret with bounds.

    If a bound depends on the instance, the search maximises the ratio of regret to the bound.

    Args:
      name: of the learner in the data.
      theorem: the theorem. If it has no families, there are no rows.
      epsilons: privacy levels; a learner that takes no epsilon is played at inf only.
      horizon: T, in rounds.
      final: fresh trials of each environment that is found.
      key: as in :func:`dpjax.worst_case`.

    Returns:
      A row for each reading of the bound, epsilon and family. ``regret`` is the mean on fresh
      trials, ``searched`` the largest mean during the search, and ``lower`` the minimax lower
      bound, NaN if none is known.

    Examples:
      >>> theorem = theorems.find("limited_updates")
      >>> found = theorems.search("limited_updates", theorem, epsilons=[1.0], horizon=256, final=64)
      >>> found[["family", "verdict"]].values.tolist()
      [['means', 'held']]
    """
    rows: list[dict[str, Any]] = []
    factory = partial(theorem.learner, **theorem.grid())
    for epsilon in _levels(theorem, epsilons):
        at = np.float64(horizon), np.float64(epsilon)
        for family, members in theorem.families(horizon).items():
            find = partial(worst_case, factory, members, horizon=horizon, epsilon=epsilon,
                           final=final, key=key)  # fmt: skip
            same = None if theorem.instance else find()
            for reading, bound in theorem.bounds.items():
                if same is None:
                    worst, value, largest = _by_ratio(find, bound, at, theorem.instance)
                else:
                    worst, value, largest = same, float(bound(*at)), theorem.largest(horizon)
                rows.append({
                    "theorem": name, "paper": theorem.paper, "bound": reading, "epsilon": epsilon,
                    "horizon": horizon, "family": family, "instance": described(worst.parameters),
                    "regret": worst.mean, "low": worst.low, "high": worst.high,
                    "searched": worst.searched, "lower": float(theorem.lower(*at)), "value": value,
                    "ratio": worst.mean / value, "trials": final,
                    "verdict": verdict(worst.low, worst.high, value, largest, reading),
                })  # fmt: skip
    return pandas.DataFrame(rows, columns=_SEARCHES.split()).dropna(subset="value")


def _by_ratio(find, bound, at, instance) -> tuple[WorstCase, float, float]:
    """The worst case by the ratio of regret to the bound, the bound, and the largest regret."""
    worst = find(bound=lambda **parameters: bound(*at, np.float64(parameters[instance])))
    means = np.float64(worst.parameters[instance])
    value = float(bound(*at, means))
    scaled = {name: value * getattr(worst, name) for name in ("mean", "low", "high", "searched")}
    return worst._replace(**scaled), value, float(at[0] * np.ptp(means))


def _levels(theorem, epsilons) -> list[float]:
    """The epsilons at which the learner of a theorem is played."""
    return [float(e) for e in epsilons] if "epsilon" in taken(theorem.learner) else [np.inf]


def judge(name: str, theorem: Theorem, regret: xarray.DataArray) -> Measured:
    """The verdicts and exponents of a theorem from its learner's final regret.

    Examples:
      >>> sizes = {"epsilons": [0.1, np.inf], "horizon": 1024, "trials": 40, "progress": False}
      >>> theorem = theorems.find("limited_updates")
      >>> regret = theorems.play("limited_updates", theorem, **sizes)
      >>> wrong = theorem._replace(bounds={"derived": lambda horizon, epsilon: 6.5})
      >>> theorems.judge("wrong", wrong, regret).verdicts["verdict"].tolist()
      ['violated', 'violated', 'violated', 'held', 'violated', 'violated']
    """
    return Measured(_verdicts(name, theorem, regret), _exponents(name, theorem, regret))


def _verdicts(name, theorem, regret) -> pandas.DataFrame:
    worst = choice.worst(regret).rename(worst="regret", environment="worst")
    said = {"theorem": name, "paper": theorem.paper, "trials": regret.sizes["trial"]}
    rows = []
    for reading, bound in theorem.bounds.items():
        for cell in tables.rows(worst, ["epsilon", "horizon"]):
            horizon, epsilon = np.float64(cell["horizon"]), np.float64(cell["epsilon"])
            value = float(bound(horizon, epsilon))
            if np.isnan(value):
                continue
            largest = theorem.largest(int(horizon))
            cell |= {"bound": reading, "value": value, "ratio": cell["regret"] / value}
            cell["verdict"] = verdict(cell["low"], cell["high"], value, largest, reading)
            cell["from_horizon"] = first_horizon(theorem, bound, epsilon)
            rows.append(cell | said)
    return pandas.DataFrame(rows, columns=_VERDICTS.split())


def _exponents(name, theorem, regret) -> pandas.DataFrame:
    """Fitted and printed exponents.

    The exponent in the horizon is fitted at each epsilon, and the exponent in epsilon at the
    largest horizon. Each fit uses the worst environment at each horizon and epsilon.
    """
    worst, rows = choice.worst(regret)["environment"], []
    along = regret.sel(environment=worst)
    levels = worst["epsilon"].values
    cases = [("horizon", epsilon, along.sel(epsilon=epsilon)) for epsilon in levels]
    if "epsilon" in theorem.exponents and np.isfinite(levels).sum() > 1:
        cases.append(("epsilon", levels.min(), along.isel(horizon=-1)))
    for over, epsilon, worst_regret in cases:
        environment = worst.isel(horizon=-1).sel(epsilon=epsilon).item()
        fitted = trends.slope(worst_regret.drop_vars("environment"), over)
        plain = over == "horizon" and np.isinf(epsilon) and "without privacy" in theorem.exponents
        rows.append(
            {
                "theorem": name,
                "paper": theorem.paper,
                "over": over,
                "epsilon": float(epsilon) if over == "horizon" else None,
                "worst": environment,
                "printed": theorem.exponents["without privacy" if plain else over],
                "fitted": float(fitted["slope"]),
                **{n: float(fitted[n]) for n in ("low", "high")},
                **{n: float(fitted.attrs[n]) for n in ("first", "last")},
            }
        )
    return pandas.DataFrame(rows)
