"""Errors and stopping times of learners that stop and recommend an arm."""

import numpy as np
import xarray

from dpjax.report import arrays, estimates, quantities


def identification(data: xarray.Dataset, confidence: float = 0.95) -> xarray.Dataset:
    """Errors and stopping times, with an interval for each in each cell.

    Trials that did not stop are censored at the horizon: they count as correct, and their stopping
    time is the horizon. So ``time`` is the mean of min(stopping time, horizon). ``median`` is the
    median stopping time if at least half of the trials stopped. A mean over stopped trials only
    would favour learners that seldom stop. ``error`` is NaN if no trial stopped. A warning counts
    each learner's censored trials.

    Args:
      data: of a Study with learners that recommend an arm, on arms with pseudo-regret.
      confidence: level of each interval.

    Returns:
      An estimate of three quantities: ``time`` in rounds with its standard error and Student's
      interval (``time_low``, ``time_high``), and the proportions ``error`` (stopped, and the
      recommended arm is not optimal) and ``stopped`` with Clopper-Pearson intervals (``error_low``,
      ``error_high``, ``stopped_low``, ``stopped_high``). ``of`` selects one of them for a figure
      or a table for LaTeX. Also the ``median`` of the times, and the number of ``censored`` trials.

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
    wrong = ((stopped == 1.0) & (correct == 0.0)).where(stopped.notnull() & correct.notnull())
    time = quantities.variable(data, "report_stopping_time")
    with arrays.quiet():
        parts = {
            "time": estimates.mean(time, confidence),
            "error": estimates.proportion(wrong.where((stopped == 1.0).any("trial")), confidence),
            "stopped": estimates.proportion(stopped, confidence),
        }
    result = xarray.Dataset(attrs={"estimate": "identification", "trials": time.sizes["trial"],
                                 "variable": time.name})  # fmt: skip
    for name, part in parts.items():
        centre = next(iter(part))
        result[name] = part[centre].assign_attrs(
            {about: part.attrs[about] for about in ("estimate", "interval")},
            long_name=quantities.label(name),
        )
        ends = [end for end in part.data_vars if end in ("standard_error", *quantities.ENDS)]
        result = result.assign({f"{name}_{end}": part[end] for end in ends})
    counts = [name for name in ("censored", "trials") if name in parts["time"]]
    result = result.assign(parts["time"][counts].data_vars)
    median = arrays.by_trials(
        time.astype(np.float64), lambda a: a.median("trial", skipna=False).to_dataset(name="median")
    )
    result = result.assign(median=median["median"])
    tied = ((stopped == 0.0) & (data["best_arms"] > 1)).any()
    about = [
        arrays.remarks(result),
        "If several arms are optimal, no learner can stop." if tied else "",
    ]
    arrays.warn(" ".join(filter(None, about)), "report_stopping_time")
    return result
