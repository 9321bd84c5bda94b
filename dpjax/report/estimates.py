"""What the trials of a study say, each estimate with an interval.

All functions take a ``DataArray`` with the dimension ``trial`` and keep every other dimension that
they do not name. Cells that were not played are NaN, and stay so. Trials of different cells are
paired: intervals that involve several cells resample whole trials, all cells together.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import xarray
from scipy import stats

from dpjax.maths.intervals import clopper_pearson
from dpjax.report import statistics
from dpjax.report.arrays import (
    DRAWS,
    SEED,
    attributes,
    axis_values,
    bare,
    check,
    percentiles,
    place,
    resampled_means,
)


def mean(array: xarray.DataArray, confidence: float = 0.95) -> xarray.Dataset:
    """The mean over trials, with Student's interval in each cell.

    Returns:
      A Dataset of mean, standard_error, low and high; all but the mean are NaN for a single trial.
      The interval is one cell's, and not simultaneous: see :func:`band`.

    Examples:
      >>> import xarray
      >>> regret = xarray.DataArray([1.0, 2.0, 6.0], dims="trial")
      >>> found = estimates.mean(regret)
      >>> {name: round(float(value), 2) for name, value in found.items()}
      {'mean': 3.0, 'standard_error': 1.53, 'low': -3.57, 'high': 9.57}
    """
    trials = check(array, fewest=1, confidence=confidence)
    array = array.astype(np.float64)
    centre = array.mean("trial", skipna=False)
    spread = array.std("trial", ddof=1, skipna=False) if trials > 1 else np.nan * centre
    error = spread / np.sqrt(trials)
    width = stats.t.ppf(0.5 + confidence / 2, trials - 1) * error
    return xarray.Dataset(
        {"mean": centre, "standard_error": error, "low": centre - width, "high": centre + width},
        attrs=attributes(array, f"mean with Student's {100 * confidence:g} % intervals"),
    )


def quantile(array: xarray.DataArray, q: float = 0.5, confidence: float = 0.95) -> xarray.Dataset:
    """A quantile over trials, with an interval between two of the order statistics.

    The interval covers the quantile with at least the given probability whatever the law of the
    trials (by the binomial law of how many lie below). A side for which there are too few trials
    is infinite.

    Args:
      array: with the dimension trial.
      q: which quantile, in (0, 1); 0.5 is the median.
      confidence: of each cell's interval.

    Examples:
      >>> import xarray
      >>> regret = xarray.DataArray(np.arange(100.0), dims="trial")
      >>> found = estimates.quantile(regret)
      >>> {name: round(float(value), 2) for name, value in found.items()}
      {'quantile': 49.5, 'low': 39.0, 'high': 60.0}
    """
    trials = check(array, confidence=confidence, q=q)
    array = bare(array)
    axis = array.get_axis_num("trial")
    ordered = np.sort(array.values, axis=axis)
    ordered = np.where(np.isnan(array.values).any(axis=axis, keepdims=True), np.nan, ordered)
    # The interval of the ranks 1 .. n themselves, NaN where there are too few trials.
    ranks = stats.quantile_test(np.arange(1.0, trials + 1.0), p=q).confidence_interval(confidence)

    def order_statistic(rank, edge):
        """The rank-th smallest trial; the edge where there is no such rank."""
        if np.isnan(rank):
            return np.where(np.isnan(ordered.take(0, axis=axis)), np.nan, edge)
        return ordered.take(int(rank) - 1, axis=axis)

    like = array.isel(trial=0, drop=True)
    inner = np.quantile(array.values, q, axis=axis)
    found = {
        "quantile": like.copy(data=inner),
        "low": like.copy(data=order_statistic(ranks.low, -np.inf)),
        "high": like.copy(data=order_statistic(ranks.high, np.inf)),
    }
    what = f"{q:g}-quantile with {100 * confidence:g} % intervals of order statistics"
    return xarray.Dataset(found, attrs=attributes(array, what))


def proportion(array: xarray.DataArray, confidence: float = 0.95) -> xarray.Dataset:
    """How often a yes-or-no variable is true, with the interval of Clopper & Pearson in each cell.

    The interval covers the probability with at least the given confidence for any number of trials.

    Returns:
      A Dataset of proportion, low and high.

    Examples:
      >>> import xarray
      >>> correct = xarray.DataArray([True] * 9 + [False], dims="trial")
      >>> found = estimates.proportion(correct)
      >>> {name: round(float(value), 2) for name, value in found.items()}
      {'proportion': 0.9, 'low': 0.55, 'high': 1.0}
    """
    trials = check(array, fewest=1, confidence=confidence)
    array = array.astype(np.float64)
    if not (np.isnan(array) | (array == 0.0) | (array == 1.0)).all():
        raise ValueError("array must hold true or false, as 1 or 0")
    share = array.mean("trial", skipna=False)
    low, high = clopper_pearson(share * trials, trials, (1.0 - confidence) / 2.0)
    what = f"proportion with {100 * confidence:g} % intervals of Clopper and Pearson"
    found = {
        "proportion": share,
        "low": share.copy(data=low).where(share.notnull()),
        "high": share.copy(data=high).where(share.notnull()),
    }
    return xarray.Dataset(found, attrs=attributes(array, what))


def statistic(
    array: xarray.DataArray,
    function: Callable[[np.ndarray], np.ndarray],
    confidence: float = 0.95,
    name: str = "statistic",
) -> xarray.Dataset:
    """Any statistic of the trials, with bootstrap percentiles.

    Args:
      array: with the dimension trial.
      function: of an array (trials, ...) that returns (...), such as a median of means.
      confidence: of each cell's interval.
      name: of the statistic in the Dataset.

    Examples:
      >>> import xarray
      >>> regret = xarray.DataArray([1.0, 2.0, 6.0], dims="trial")
      >>> found = estimates.statistic(regret, lambda trials: trials.max(axis=0), name="largest")
      >>> {name: round(float(value), 2) for name, value in found.items()}
      {'largest': 6.0, 'low': 1.0, 'high': 6.0}
    """
    trials = check(array, confidence=confidence)
    array = bare(array)
    first = np.moveaxis(array.values, array.get_axis_num("trial"), 0)
    generator = np.random.default_rng(SEED)
    drawn = [function(first[generator.integers(trials, size=trials)]) for _ in range(DRAWS)]
    low, high = percentiles(np.array(drawn), confidence)
    like = array.isel(trial=0, drop=True)
    found = {name: like.copy(data=function(first)), "low": like.copy(data=low),
             "high": like.copy(data=high)}  # fmt: skip
    what = f"{name} with {100 * confidence:g} % bootstrap percentiles"
    return xarray.Dataset(found, attrs=attributes(array, what))


def median_of_means(
    array: xarray.DataArray, groups: int, confidence: float = 0.95
) -> xarray.Dataset:
    """The median of the means of ``groups`` equal groups of trials, with bootstrap percentiles.

    Examples:
      >>> import xarray
      >>> regret = xarray.DataArray([1.0, 2.0, 6.0], dims="trial")
      >>> found = estimates.median_of_means(regret, groups=3)
      >>> {name: round(float(value), 2) for name, value in found.items()}
      {'median_of_means': 2.0, 'low': 1.0, 'high': 6.0}
    """
    trials = check(array, confidence=confidence)
    if groups < 1 or trials % groups:
        raise ValueError(f"groups: {trials} trials do not divide into {groups} equal groups")
    compute = partial(statistics.median_of_means, groups=groups, axis=0)
    return statistic(array, compute, confidence, "median_of_means")


def gini(array: xarray.DataArray, confidence: float = 0.95) -> xarray.Dataset:
    """Gini's mean difference between two trials, with bootstrap percentiles.

    Examples:
      >>> import xarray
      >>> regret = xarray.DataArray([1.0, 2.0, 6.0], dims="trial")
      >>> found = estimates.gini(regret)
      >>> {name: round(float(value), 2) for name, value in found.items()}
      {'gini': 3.33, 'low': 0.0, 'high': 3.33}
    """
    compute = partial(statistics.gini_mean_difference, axis=0)
    return statistic(array, compute, confidence, "gini")


def gini_spread(array: xarray.DataArray, groups: int) -> xarray.Dataset:
    """The median of means, with Gini's mean difference of the trials below it and above it.

    These are the error bars of Tossou & Dimitrakakis 2017. They show how trials spread, and are no
    intervals of the centre.

    Args:
      array: with the dimension trial.
      groups: how many equal groups of trials have a mean of their own.

    Returns:
      A Dataset of centre, gini_below, gini_above, and the ends low and high of the bars.

    Examples:
      >>> import xarray
      >>> regret = xarray.DataArray([1.0, 2.0, 6.0], dims="trial")
      >>> found = estimates.gini_spread(regret, groups=3)
      >>> {name: round(float(value), 2) for name, value in found.items()}
      {'centre': 2.0, 'gini_below': 1.0, 'gini_above': 4.0, 'low': 1.0, 'high': 6.0}
    """
    check(array, fewest=1)
    axis = array.get_axis_num("trial")
    centre = statistics.median_of_means(array.values, groups, axis=axis)
    below, above = statistics.gini_spread(array.values, centre, axis=axis)
    found = {"centre": centre, "gini_below": below, "gini_above": above,
             "low": centre - below, "high": centre + above}  # fmt: skip
    like = array.isel(trial=0, drop=True)
    kept = {name: like.copy(data=values) for name, values in found.items()}
    what = f"median of means over {groups} groups, with Gini's mean differences below and above"
    return xarray.Dataset(kept, attrs=attributes(array, what))


def difference(array: xarray.DataArray, to: dict, confidence: float = 0.95) -> xarray.Dataset:
    """The mean of the paired differences to one place, trial by trial.

    Args:
      array: with the dimension trial.
      to: the place, such as ``{"learner": "EXP3"}``.
      confidence: of each cell's interval.

    Returns:
      As :func:`mean`, of ``array - array.sel(to)``.

    Examples:
      >>> import xarray
      >>> regret = xarray.DataArray(
      ...     [[1.0, 2.0, 6.0], [3.0, 5.0, 10.0]], {"learner": ["A", "B"]}, ["learner", "trial"])
      >>> found = estimates.difference(regret, {"learner": "A"})
      >>> found["mean"].values.tolist()
      [0.0, 3.0]
    """
    check(array, confidence=confidence)
    base = place(array, to)
    return mean(array - base, confidence)


def band(
    array: xarray.DataArray, over: str | Sequence[str] = "round", confidence: float = 0.95
) -> xarray.Dataset:
    """The mean with a band that covers all values along some axes at once.

    The width is a quantile of the largest studentized deviation along the axes, over resampled
    trials. So it uses that the values along the axes are correlated, as those of a trial are.

    Args:
      array: with the dimension trial.
      over: the axis, or a list of axes, along which the band holds simultaneously.
      confidence: of the band as a whole, for each place along the other axes.

    Examples:
      >>> import xarray
      >>> values = np.sin(np.arange(100.0) ** 2).reshape(5, 20)
      >>> regret = xarray.DataArray(values, {"round": range(1, 6)}, ["round", "trial"])
      >>> single, both = estimates.mean(regret), estimates.band(regret)
      >>> bool((both["low"] < single["low"]).all())  # a band is wider
      True
    """
    check(array, confidence=confidence)
    axes = [over] if isinstance(over, str) else list(over)
    for name in axes:
        axis_values(array, name)
    found = mean(array, confidence)
    # The error of a draw is estimated as that of all trials is.
    deviation = abs(resampled_means(array) - found["mean"])
    scaled = (deviation / found["standard_error"]).where(found["standard_error"] > 0)
    largest = scaled.max(axes).fillna(0.0)  # 0 where all trials are the same, or none was played
    edge = largest.quantile(confidence, "draw").drop_vars("quantile")
    # What resampling understates for few trials, Student's law states for a single value.
    level = 0.5 + confidence / 2
    few = stats.t.ppf(level, array.sizes["trial"] - 1) / stats.norm.ppf(level)
    width = edge * few * found["standard_error"]
    found["low"], found["high"] = found["mean"] - width, found["mean"] + width
    what = f"mean with {100 * confidence:g} % bands, simultaneous over {', '.join(axes)}"
    return found.assign_attrs(attributes(array, what))
