"""Errors and stopping times of learners that stop and recommend an arm."""

import warnings

import numpy as np
import xarray

from dpjax.report import arrays, estimates


def identification(data: xarray.Dataset, confidence: float = 0.95) -> xarray.Dataset:
    """Errors and stopping times, with an interval for each in each cell.

    Trials that did not stop are censored at the horizon: they count as correct, and their stopping
    time is the horizon. So ``time`` is the mean of min(stopping time, horizon). ``median`` is the
    median stopping time if at least half of the trials stopped. A mean over stopped trials only
    would favour learners that seldom stop. A warning counts each learner's censored trials.

    Args:
      data: of a Study with learners that recommend an arm, on arms with pseudo-regret.
      confidence: level of each interval.

    Returns:
      A Dataset of the proportions ``error`` (stopped, and the recommended arm is not optimal) and
      ``stopped`` with Clopper-Pearson intervals (``error_low``, ``error_high``, ``stopped_low``,
      ``stopped_high``), ``time`` in rounds with Student's interval (``time_low``, ``time_high``)
      and its ``median``.

    Raises:
      ValueError: the data have no recommendations, or the best arm is not known.
    """
    if "report_recommendation" not in data:
        raise ValueError("data: no learner of the study recommends an arm")
    if "correct" not in data:
        raise ValueError(
            "data: the best arm is known only for i.i.d. losses with pseudo-regret, such as "
            'bernoulli(means, regret="pseudo")'
        )
    stopped, correct = data["report_stopped"], data["correct"]
    played = stopped.notnull() & correct.notnull()
    _warn_of_censored(data, played)
    wrong = ((stopped == 1.0) & (correct == 0.0)).where(played)
    time = data["report_stopping_time"]
    with arrays.quiet():
        parts = {
            "error": estimates.proportion(wrong, confidence),
            "stopped": estimates.proportion(stopped, confidence),
            "time": estimates.mean(time, confidence),
        }
    found: dict[str, xarray.DataArray] = {}
    for name, part in parts.items():
        centre = part[next(iter(part))]
        found |= {name: centre, f"{name}_low": part["low"], f"{name}_high": part["high"]}
    median = arrays.by_trials(
        time.astype(np.float64), lambda a: a.median("trial", skipna=False).to_dataset(name="median")
    )
    caption = f"errors and stopping times with {100 * confidence:g} % intervals"
    made = xarray.Dataset(found, attrs={"estimate": caption, "trials": time.sizes["trial"]})
    made = made.assign(median.data_vars)
    arrays.warn(arrays.remarks(made), "report_stopping_time")
    return made


def _warn_of_censored(data, played) -> None:
    """Give one warning about all trials that did not stop."""
    found = data[["report_stopped", "report_stopping_time", "best_arms"]]
    found = found.assign(played=played)
    found = found if "learner" in found.dims else found.expand_dims("learner")
    texts, equal = [], False
    for i in range(found.sizes["learner"]):
        own = found.isel(learner=i)
        censored = own["played"] & (own["report_stopped"] == 0.0)
        if not censored.any():
            continue
        times = np.unique(own["report_stopping_time"].where(censored))
        horizons = ", ".join(f"{time:g}" for time in times[~np.isnan(times)])
        name = own["learner"].item() if "learner" in own.coords else "the learner"
        total = int(own["played"].sum())
        texts.append(f"{int(censored.sum())} of {total} trials of {name} at horizon {horizons}")
        equal |= bool((censored & (own["best_arms"] > 1)).any())
    if texts:
        ties = ". If several arms are optimal, no learner can stop" if equal else ""
        message = f"Some trials did not stop and are censored: {'; '.join(texts)}{ties}."
        warnings.warn(message, stacklevel=4)
