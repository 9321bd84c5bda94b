"""The worst case and the best setting among the cells of a study.

Arrays are as in :mod:`dpjax.report.estimates`. Choosing is paid for: by a band that holds for all
cells at once, or by trials that the choice has not seen.
"""

from collections.abc import Sequence

import numpy as np
import xarray
from scipy import stats

from dpjax.report import arrays, estimates


def worst(
    array: xarray.DataArray, over: str = "environment", confidence: float = 0.95
) -> xarray.Dataset:
    """The largest mean along an axis, where it is, and an interval.

    The interval is that of the largest true mean. It comes from a band that holds at all values of
    the axis at once, so that choosing the largest is paid for.

    Returns:
      A Dataset of worst, low, high and, by the name of the axis, where the largest mean is.

    Examples:
      >>> import xarray
      >>> regret = xarray.DataArray(
      ...     [[1.0, 2.0, 6.0], [3.0, 5.0, 10.0]], {"learner": ["A", "B"]}, ["learner", "trial"])
      >>> found = choice.worst(regret, over="learner")
      >>> float(found["worst"]), str(found["learner"].item())
      (6.0, 'B')
    """
    found = estimates.band(array, over, confidence)
    centre = found["mean"]
    at = centre.fillna(-np.inf).argmax(over)
    return xarray.Dataset(
        {
            "worst": centre.max(over),
            "low": found["low"].max(over),
            "high": found["high"].max(over),
            over: at.copy(data=array[over].values[at.values]),
        },
        attrs=arrays.attributes(array, f"largest mean over {over}, simultaneous intervals"),
    )


def tune(
    array: xarray.DataArray, over: str | Sequence[str], confidence: float = 0.95
) -> xarray.Dataset:
    """The setting with the least mean: chosen on one half of the trials, reported on the other.

    The reported mean is free of the luck by which the setting was chosen. A setting is a candidate
    where the second half does not show it to be worse than the chosen one, by a one-sided paired
    test. So the best setting is among the candidates with the given probability at least.

    The privacy cost of choosing a setting by looking at data is not in any epsilon.

    Args:
      array: with the dimension trial, at least four of them.
      over: the axis, or a list of axes, of the settings.
      confidence: of each cell's interval, and of each cell's candidates.

    Returns:
      A Dataset of mean, standard_error, low and high, each of the chosen setting on the second
      half; ``chosen_<axis>`` for each axis of the settings; and ``candidate``, along these axes.

    Examples:
      >>> import xarray
      >>> losses = [[1.0, 2.0, 1.0, 3.0], [9.0, 7.0, 8.0, 9.0]]
      >>> regret = xarray.DataArray(losses, {"rate": [0.1, 0.2]}, ["rate", "trial"])
      >>> found = choice.tune(regret, "rate")
      >>> float(found["chosen_rate"]), float(found["mean"])
      (0.1, 2.0)
    """
    trials = arrays.check(array, confidence=confidence)
    if trials < 4:
        raise ValueError(f"tuning needs at least four trials, two in each half; there are {trials}")
    axes = [over] if isinstance(over, str) else list(over)
    for name in axes:
        if name not in array.dims or name == "trial":
            known = ", ".join(map(str, array.dims))
            raise ValueError(f"over: {name} is no axis of settings: {known}")
    flat = arrays.bare(array).stack(setting=axes)
    halves = flat.isel(trial=slice(trials // 2)), flat.isel(trial=slice(trials // 2, None))
    means = halves[0].mean("trial", skipna=False)
    at = means.fillna(np.inf).argmin("setting")
    chosen = halves[1].isel(setting=at).drop_vars(["setting", *axes])
    found = estimates.mean(chosen, confidence)
    for name in axes:
        labels = at.copy(data=flat["setting"][name].values[at.values])
        found[f"chosen_{name}"] = labels.where(found["mean"].notnull())
    worse = estimates.mean(halves[1] - chosen, confidence)
    single = stats.t.ppf(confidence, chosen.sizes["trial"] - 1)
    # A difference of exactly 0 is no evidence; two settings may well be the same game.
    candidate = ~(worse["mean"] > single * worse["standard_error"]) & means.notnull()
    found["candidate"] = candidate.unstack("setting")
    what = (
        f"least mean over {', '.join(axes)}, chosen on {trials // 2} trials, reported on the rest"
    )
    attributes = arrays.attributes(array, what) | {
        "note": "The privacy cost of tuning on data is not in epsilon."
    }
    return found.assign_attrs(attributes)
