"""Azize et al. 2023: how long private best-arm identification takes.

The instances are those of the authors' public code: five Bernoulli arms each, failure 0.01. Beside
AdaP-TT and DP-SE, as in the paper, stand the later DP-TT of Jourdan & Azize 2025 and lower bounds.
What the papers print is read off their code and abstracts, so that their figures are rebuilt in
kind and not to the digit. All learners are played by batches, which changes their laws by a few
percent.
"""

from functools import partial

import numpy as np
import xarray

from dpjax import environments, learners
from dpjax.analysis import bounds
from dpjax.papers._shared import columns, rows
from dpjax.study import Study

HORIZON, QUICK_HORIZON = 10**9, 10**7
TRIALS, QUICK_TRIALS = 1000, 100
FAILURE = 0.01
SEED = 2023
EPSILONS = (*(10.0 ** np.arange(-3.0, 2.5, 0.5)).tolist(), np.inf)

# Mean gains of the authors' six instances, and of a seventh on which their rule errs.
GAINS = {
    "mu1": (0.95, 0.9, 0.9, 0.9, 0.5),
    "mu2": (0.75, 0.7, 0.7, 0.7, 0.7),
    "mu3": (0.0, 0.25, 0.5, 0.75, 1.0),
    "mu4": (0.75, 0.625, 0.5, 0.375, 0.25),
    "mu5": (0.75, 0.53125, 0.375, 0.28125, 0.25),
    "mu6": (0.75, 0.71875, 0.625, 0.46875, 0.25),
}
THREE = (0.7, 0.5, 0.3)
LEARNERS = {
    "AdaP-TT, released rule": partial(learners.adap_tt, rule="released"),
    "AdaP-TT, Hoeffding": learners.adap_tt,
    "DP-TT": learners.dp_tt,
    "DP-TT, keeping": partial(learners.dp_tt, forget=False),
    "DP-SE": learners.successive_elimination,
}
PLAIN = {"TTUCB": learners.ttucb, "Track-and-Stop": learners.track_and_stop, "LUCB": learners.lucb}


def losses(gains) -> np.ndarray:
    """The mean losses of mean gains, (K,) float32."""
    return 1.0 - np.asarray(gains, np.float32)


def adversary(means):
    """Bernoulli arms of these mean losses."""
    return environments.bernoulli(means, regret="pseudo")


def study(makers, instances, horizon, trials, epsilons=EPSILONS, failure=FAILURE) -> Study:
    """Learners on instances, over epsilon where they take one."""
    private = any(make not in PLAIN.values() for make in makers.values())
    grid = {
        "horizon": horizon, "arms": len(next(iter(instances.values()))), "failure": [failure],
        "means": {name: losses(gains) for name, gains in instances.items()},
        **({"epsilon": list(epsilons)} if private else {}),
    }  # fmt: skip
    return Study(makers, {"Bernoulli": adversary}, grid, trials, SEED, checkpoints=1)


def lower_bounds(instances, epsilons) -> xarray.Dataset:
    """The least mean stopping time of any learner that errs with probability at most FAILURE."""
    each = [bounds.stopping_time_lower(losses(gains), np.array(epsilons), FAILURE)
            for gains in instances.values()]  # fmt: skip
    axes = {"means": list(instances), "epsilon": list(epsilons)}
    return xarray.Dataset({"lower_bound": (list(axes), np.array(each))}, axes)


def time_rows(data, lower) -> list[dict]:
    """Stopping times, errors and the lower bound, a row for each learner, instance and epsilon."""
    found = data.dpjax.identification().reset_coords(drop=True)
    found["lower_bound"] = lower["lower_bound"]
    found["ratio"] = found["time"] / found["lower_bound"]
    found = found.squeeze("environment", drop=True)
    made = rows(found, ("learner", "means", "epsilon"), instance="means")
    names = (
        "learner instance epsilon time time_low time_high median lower_bound ratio stopped error"
    )
    return [{**row, "trials": data.sizes["trial"]} for row in columns(made, f"{names} error_high")]


def onset_rows(data) -> list[dict]:
    """At which epsilon privacy doubles the mean stopping time, beside the ratio of the bounds.

    The bound is T_TV / epsilon where epsilon is small and T_KL where it is large.
    """
    found = data.dpjax.crossing(2.0, value="report_stopping_time")
    made = rows(found.reset_coords(drop=True).squeeze("environment", drop=True),
                ("learner", "means"), instance="means")  # fmt: skip
    for row in made:
        means = losses(GAINS[row["instance"]])
        plain, _ = bounds.characteristic_time(means, np.inf)
        row["predicted"] = float(bounds.total_variation_time(means) / plain)
    return made
