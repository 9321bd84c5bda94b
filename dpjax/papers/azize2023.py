"""Azize et al. 2023: stopping times of private best-arm identification.

The instances are those of the authors' public code: five Bernoulli arms each, error probability
0.01. Besides the paper's AdaP-TT and DP-SE, this module plays the later DP-TT of Jourdan & Azize
2025 and computes lower bounds. The papers' settings are read from their code and abstracts, so
their figures are rebuilt in kind, not to the digit. All learners are played by batches, which
changes the distributions of their stopping times by a few percent.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray

from dpjax import bounds, learners
from dpjax.papers import _shared as shared
from dpjax.papers.sweeps import play
from dpjax.report import estimates
from dpjax.study import Study

HORIZON, QUICK_HORIZON = 10**9, 10**7
TRIALS, QUICK_TRIALS = 1000, 32
FAILURE = 0.01
SEED = 2023
EPSILONS = (*(10.0 ** np.arange(-3.0, 2.5, 0.5)).tolist(), np.inf)

# Mean gains of the authors' six instances, and of a seventh on which their stopping rule errs.
GAINS: dict[str, Any] = {
    "mu1": (0.95, 0.9, 0.9, 0.9, 0.5),
    "mu2": (0.75, 0.7, 0.7, 0.7, 0.7),
    "mu3": (0.0, 0.25, 0.5, 0.75, 1.0),
    "mu4": (0.75, 0.625, 0.5, 0.375, 0.25),
    "mu5": (0.75, 0.53125, 0.375, 0.28125, 0.25),
    "mu6": (0.75, 0.71875, 0.625, 0.46875, 0.25),
}
THREE, ALLOWED = (0.7, 0.5, 0.3), 0.1
BUDGETED, PARTS = "mu4", (1 / 16, 1 / 4, 1.0)
BUDGETED_EPSILONS = (0.1, 1.0, np.inf)
LEARNERS: dict[str, Any] = {
    "AdaP-TT, released rule": partial(learners.adap_tt, rule="released"),
    "AdaP-TT, Hoeffding": learners.adap_tt,
    "DP-TT": learners.dp_tt,
    "DP-TT, keeping": partial(learners.dp_tt, forget=False),
    "DP-SE": learners.successive_elimination,
}
RULES: dict[str, Any] = {
    "AdaP-TT, released": partial(learners.adap_tt, rule="released"),
    "AdaP-TT, printed": partial(learners.adap_tt, rule="printed"),
    "AdaP-TT, Hoeffding": learners.adap_tt,
    "DP-TT": learners.dp_tt,
}
PLAIN: dict[str, Any] = {
    "TTUCB": learners.ttucb,
    "Track-and-Stop": learners.track_and_stop,
    "LUCB": learners.lucb,
}
# The instances and learners of a short run.
QUICK = ("mu3", "mu4", "AdaP-TT, Hoeffding", "DP-TT", "DP-SE", "TTUCB")


def losses(gains: Sequence[float]) -> np.ndarray:
    """The mean losses of mean gains, (K,) float32."""
    return 1.0 - np.asarray(gains, np.float32)


def study(makers: Mapping[str, Callable], instances: Mapping[str, Sequence[float]],
          epsilons: Sequence[float], horizon: int, trials: int,
          failure: float = FAILURE) -> Study:  # fmt: skip
    """Learners on instances."""
    grid = {
        "horizon": horizon, "arms": len(next(iter(instances.values()))), "failure": failure,
        "means": {name: losses(gains) for name, gains in instances.items()},
        "epsilon": list(epsilons),
    }  # fmt: skip
    return Study(makers, {"Bernoulli": shared.bernoulli}, grid, trials, SEED, checkpoints=1)


def lower_bounds(
    instances: Mapping[str, Sequence[float]], epsilons: Sequence[float]
) -> xarray.DataArray:
    """A lower bound on the mean stopping time of learners with error probability FAILURE."""
    return xarray.DataArray(
        [bounds.stopping_time_lower(losses(gains), epsilons, FAILURE)
         for gains in instances.values()],
        {"means": list(instances), "epsilon": list(epsilons)},
    )  # fmt: skip


def time_rows(data: xarray.Dataset, lower: xarray.DataArray) -> list[dict]:
    """Stopping times, errors and the lower bound, a row for each learner, instance and epsilon."""
    return shared.table(
        _cells(data).assign(lower_bound=lower), "learner means epsilon",
        "learner instance epsilon time time_low time_high median lower_bound ratio stopped error "
        "error_low error_high",
        lambda row: {"ratio": row["time"] / row["lower_bound"]}, instance="means",
    )  # fmt: skip


def onset_rows(data: xarray.Dataset) -> list[dict]:
    """The epsilon from which the mean stopping time is at most twice that without privacy.

    ``predicted`` is the epsilon at which two lower bounds meet: the characteristic time of the
    total variation, divided by epsilon, and that of the Kullback-Leibler divergence.
    """

    instances = {name: losses(GAINS[name]) for name in data.means.values}
    predicted = {name: bounds.total_variation_time(means)
                 / bounds.characteristic_time(means, np.inf)[0]
                 for name, means in instances.items()}  # fmt: skip

    def more(row):
        return {"predicted": float(predicted[row["instance"]])}

    estimate = data.dpjax.crossing(2.0, of="report_stopping_time").reset_coords(drop=True)
    names = "learner instance crossing low high predicted"
    return shared.table(estimate, "learner means", names, more, instance="means")


def budget_rows(data: xarray.Dataset, halved: Mapping[float, xarray.Dataset]) -> list[dict]:
    """The error of sequential halving with fractions of DP-TT's median stopping time as budgets."""
    ours, rows = _cells(data).sel(learner="DP-TT", means=BUDGETED), []
    names = {name: f"halving_{name}" for name in ("error", "error_low", "error_high")}
    for epsilon, cells in halved.items():
        beside = ours[["error", "error_high"]].sel(epsilon=epsilon).reset_coords(drop=True)
        estimate = _cells(cells).rename(names).assign(beside)
        rows += shared.table(
            estimate.assign_coords(part=("horizon", list(PARTS))), "horizon",
            "instance epsilon part budget halving_error halving_error_low halving_error_high error "
            "error_high trials",
            instance="means", budget="horizon",
        )  # fmt: skip
    return rows


def _cells(data) -> xarray.Dataset:
    """Errors and stopping times with their intervals."""
    return data.dpjax.identification().reset_coords(drop=True).squeeze("environment", drop=True)


def play_halving(data: xarray.Dataset, epsilons: Sequence[float], trials: int) -> dict:
    """Play sequential halving on one instance, with fractions of DP-TT's median stopping time."""
    medians = _cells(data).sel(learner="DP-TT", means=BUDGETED)["median"]
    played = {}
    for epsilon in epsilons:
        budget = float(medians.sel(epsilon=epsilon))
        grid = {
            "horizon": [int(part * budget) for part in PARTS], "arms": 5, "epsilon": [epsilon],
            "means": {BUDGETED: losses(GAINS[BUDGETED])},
        }  # fmt: skip
        halving = Study({"halving": learners.sequential_halving}, {"Bernoulli": shared.bernoulli},
                        grid, trials, SEED, checkpoints=1)  # fmt: skip
        played[epsilon] = play(halving)
    return played


def time_figure(data: xarray.Dataset, plain: xarray.Dataset, lower: xarray.DataArray):
    """Mean stopping times against epsilon, a panel for each instance, above the lower bound."""
    finite = lower.isel(epsilon=np.isfinite(lower.epsilon.values))
    without = plain["report_stopping_time"].sel(learner="TTUCB").squeeze().mean("trial")
    lines = [(finite, {}), (without * xarray.ones_like(finite.epsilon), {"linestyle": "--"})]
    return shared.figure(
        data, "epsilon", lines, of="report_stopping_time", color="learner", panel="means",
        note="Five Bernoulli arms. Dotted: bounds.stopping_time_lower, a lower bound for every "
        "private learner. Dashed: TTUCB, which is not private. Trials are censored at the horizon.",
    )  # fmt: skip


def error_figure(data: xarray.Dataset):
    """The share of errors of each stopping rule on three arms, against epsilon."""
    drawn = data.dpjax.figure(
        "epsilon", of="wrong", color="learner", estimate=estimates.proportion,
        note="Three Bernoulli arms with mean gains 0.7, 0.5 and 0.3. Horizontal line: the error "
        "probability that each rule is allowed.",
    )  # fmt: skip
    drawn.axes[0].axhline(ALLOWED, color="0.3", linewidth=0.9)
    drawn.axes[0].set_ylabel("share of wrong recommendations")
    return drawn


@shared.published(HORIZON, TRIALS, SEED, horizons=(10_000, 2**31 - 1), fewest=8)
def reproduce(horizon: int, trials: int, short: bool) -> Iterator[shared.Report]:
    """Play learners with and without privacy on seven instances, and sequential halving on one.

    The table "" has stopping times, errors and the lower bound, "_plain" those of learners without
    privacy, "_onset" the epsilon below which privacy costs, "_errors" the errors of the rules of
    AdaP-TT, and "_budget" sequential halving with fractions of DP-TT's median stopping time.

    A short run plays four learners on two instances. The horizon is at least 10 000, and longer
    trials are censored. At least 8 trials are needed.
    """
    instances, private, plain = (
        shared.chosen(every, QUICK, short) for every in (GAINS, LEARNERS, PLAIN)
    )
    epsilons = (*EPSILONS[2:8:2], np.inf) if short else EPSILONS
    both = play(study({**private, **plain}, instances, epsilons, horizon, trials))
    data, without = both.sel(learner=[*private]), both.sel(learner=[*plain], epsilon=[np.inf])
    lower = lower_bounds(instances, epsilons)
    yield shared.Report(
        {"": time_rows(data, lower),
         "_plain": time_rows(without, lower),
         "_onset": onset_rows(data)},
        {"": partial(time_figure, data, without, lower)},
        {"failure": FAILURE, "gains": instances, "epsilons": epsilons, "three": THREE,
         "three_failure": ALLOWED},
    )  # fmt: skip
    three = play(study(RULES, {"three": THREE}, epsilons, horizon, trials, ALLOWED))
    three["wrong"] = three["report_stopped"] * (1.0 - three["correct"])
    halved = play_halving(data, BUDGETED_EPSILONS[1:2] if short else BUDGETED_EPSILONS, trials)
    errors = shared.table(_cells(three), "learner means epsilon",
                          "learner epsilon time error error_low error_high stopped")  # fmt: skip
    yield shared.Report({"_errors": errors, "_budget": budget_rows(data, halved)},
                        {"_errors": partial(error_figure, three)})  # fmt: skip
