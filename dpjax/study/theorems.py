"""Measures theorems: plays their learners, and compares the worst regret with the bounds."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas
import xarray

from dpjax.bounds.theorems import PAPERS_WITHOUT, THEOREMS, WITHOUT, Theorem, find, named
from dpjax.core import Array, _check
from dpjax.report import choice, tables, trends
from dpjax.study.grid import taken
from dpjax.study.study import Study

__all__ = [
    "EPSILONS", "PAPERS_WITHOUT", "THEOREMS", "WITHOUT", "Measured", "Theorem", "find",
    "first_horizon", "judge", "measure", "named", "play", "verdict",
]  # fmt: skip
EPSILONS = (0.1, 1.0, 10.0, np.inf)
_VERDICTS = ("theorem paper bound epsilon horizon worst regret low high value ratio verdict "
             "from_horizon trials")  # fmt: skip


def verdict(low: float, high: float, bound: float, largest: float, reading: str = "derived") -> str:
    """The verdict on a bound from an interval (low, high) of the worst regret.

    "vacuous" if no play exceeds the bound, "violated" if the whole interval lies above it,
    "held" if the whole interval lies below it, and "open" otherwise. A rate that is printed up
    to constants cannot be violated, and is "exceeded".

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
    if low > bound:
        return "exceeded" if reading == "rate" else "violated"
    return "held" if high <= bound else "open"


def first_horizon(theorem: Theorem, bound: Callable, epsilon: float) -> float:
    """The smallest horizon from which on a bound is below the largest regret; inf beyond 2^40.

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
    exponents: pandas.DataFrame  # a row for each fit: fitted beside printed exponents


def measure(name: str, **sizes: Any) -> Measured:
    """Plays the learner of a theorem, and compares its worst regret with the bound.

    The interval of the worst regret is simultaneous over the environments.

    Args:
      name: one of :data:`dpjax.bounds.theorems.THEOREMS`.
      **sizes: as of :func:`play`.

    Raises:
      ValueError: there is no such theorem, or a size is too small.

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
    return judge(name, theorem, play(name, theorem, **sizes))


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
    """Final regret of the learner of a theorem, by epsilon, horizon, environment and trial.

    Args:
      name: of the learner in the data.
      theorem: the theorem.
      epsilons: privacy levels; inf alone for a learner that takes none.
      horizon: the largest of three horizons, each a quarter of the next, at least 64.
      trials: how many, at least 2.
      key, progress: as of :class:`dpjax.Study`.

    Examples:
      >>> sizes = {"epsilons": [0.1, np.inf], "horizon": 1024, "trials": 10, "progress": False}
      >>> theorem = theorems.find("limited_updates")
      >>> regret = theorems.play("limited_updates", theorem, **sizes)
      >>> dict(regret.sizes)
      {'environment': 1, 'horizon': 3, 'epsilon': 2, 'trial': 10}
    """
    _check.size(64, horizon=horizon)
    _check.size(2, trials=trials)
    grid: dict[str, Any] = {**theorem.sizes, "horizon": [horizon // 16, horizon // 4, horizon]}
    private = "epsilon" in taken(theorem.learner)
    levels = [float(epsilon) for epsilon in epsilons] if private else [np.inf]
    if private:
        grid["epsilon"] = levels
    study = Study({name: theorem.learner}, theorem.environments, grid, trials, key, 1)
    data: Any = study.run(progress=progress)
    regret = data["final_regret"].squeeze("learner")
    return regret if private else regret.expand_dims(epsilon=levels)


def judge(name: str, theorem: Theorem, regret: xarray.DataArray) -> Measured:
    """The verdicts and exponents of a theorem, shown by a name, from the final regret of play.

    Examples:
      >>> sizes = {"epsilons": [0.1, np.inf], "horizon": 1024, "trials": 10, "progress": False}
      >>> theorem = theorems.find("limited_updates")
      >>> regret = theorems.play("limited_updates", theorem, **sizes)
      >>> wrong = theorem._replace(bounds={"derived": lambda horizon, epsilon: 5.0})
      >>> theorems.judge("wrong", wrong, regret).verdicts["verdict"].tolist()
      ['held', 'violated', 'violated', 'held', 'violated', 'violated']
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


def _printed_exponent(theorem, over, epsilon) -> float:
    plain = over == "horizon" and np.isinf(epsilon) and "without privacy" in theorem.exponents
    return theorem.exponents["without privacy" if plain else over]


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
                "paper": theorem.paper,
                "over": over,
                "epsilon": float(epsilon) if over == "horizon" else None,
                "worst": environment,
                "printed": _printed_exponent(theorem, over, epsilon),
                "fitted": float(fitted["slope"]),
                **{n: float(fitted[n]) for n in ("low", "high")},
                **{n: float(fitted.attrs[n]) for n in ("first", "last")},
            }
        )
    return pandas.DataFrame(rows)
