"""What the trials of a study say, each estimate with an interval.

All functions take a ``DataArray`` with the dimension ``trial`` and keep every other dimension that
they do not name. Cells that were not played are NaN, and stay so. Trials of different cells are
paired: intervals that involve several cells resample whole trials, all cells together.
"""

from functools import partial

import numpy as np
import xarray
from scipy import stats

from dpjax.analysis import statistics
from dpjax.maths.intervals import clopper_pearson

_DRAWS, _SEED = 1000, 2017  # of resampling


def check(array, fewest=2, **levels) -> int:
    """The number of trials.

    Raises:
      TypeError, ValueError: not an array of at least so many trials, or a level outside of (0, 1).
    """
    if not isinstance(array, xarray.DataArray):
        raise TypeError(f"array must be an xarray.DataArray, got {type(array).__name__}")
    if "trial" not in array.dims:
        raise ValueError(
            f"array must have the dimension trial, got {', '.join(map(str, array.dims))}"
        )
    if array.sizes["trial"] < fewest:
        raise ValueError("an interval needs at least two trials; the array has one")
    for name, level in levels.items():
        if not 0.0 < level < 1.0:
            raise ValueError(f"{name} must be in (0, 1), got {level}")
    return array.sizes["trial"]


def mean(array, confidence=0.95) -> xarray.Dataset:
    """The mean over trials, with Student's interval in each cell.

    Returns:
      A Dataset of mean, standard_error, low and high; all but the mean are NaN for a single trial.
      The interval is one cell's, and not simultaneous: see :func:`band`.
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


def quantile(array, q=0.5, confidence=0.95) -> xarray.Dataset:
    """A quantile over trials, with an interval between two of the order statistics.

    The interval covers the quantile with at least the given probability whatever the law of the
    trials (by the binomial law of how many lie below). A side for which there are too few trials
    is infinite.

    Args:
      array: with the dimension trial.
      q: which quantile, in (0, 1); 0.5 is the median.
      confidence: of each cell's interval.
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


def proportion(array, confidence=0.95) -> xarray.Dataset:
    """How often a yes-or-no variable is true, with the interval of Clopper & Pearson in each cell.

    The interval covers the probability with at least the given confidence for any number of trials.

    Returns:
      A Dataset of proportion, low and high.
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


def statistic(array, function, confidence=0.95, name="statistic") -> xarray.Dataset:
    """Any statistic of the trials, with bootstrap percentiles.

    Args:
      array: with the dimension trial.
      function: of an array (trials, ...) that returns (...), such as a median of means.
      confidence: of each cell's interval.
      name: of the statistic in the Dataset.
    """
    trials = check(array, confidence=confidence)
    array = bare(array)
    first = np.moveaxis(array.values, array.get_axis_num("trial"), 0)
    generator = np.random.default_rng(_SEED)
    drawn = [function(first[generator.integers(trials, size=trials)]) for _ in range(_DRAWS)]
    low, high = _percentiles(np.array(drawn), confidence)
    like = array.isel(trial=0, drop=True)
    found = {name: like.copy(data=function(first)), "low": like.copy(data=low),
             "high": like.copy(data=high)}  # fmt: skip
    what = f"{name} with {100 * confidence:g} % bootstrap percentiles"
    return xarray.Dataset(found, attrs=attributes(array, what))


def median_of_means(array, groups, confidence=0.95) -> xarray.Dataset:
    """The median of the means of ``groups`` equal groups of trials, with bootstrap percentiles."""
    trials = check(array, confidence=confidence)
    if groups < 1 or trials % groups:
        raise ValueError(f"groups: {trials} trials do not divide into {groups} equal groups")
    compute = partial(statistics.median_of_means, groups=groups, axis=0)
    return statistic(array, compute, confidence, "median_of_means")


def gini(array, confidence=0.95) -> xarray.Dataset:
    """Gini's mean difference between two trials, with bootstrap percentiles."""
    compute = partial(statistics.gini_mean_difference, axis=0)
    return statistic(array, compute, confidence, "gini")


def gini_spread(array, groups) -> xarray.Dataset:
    """The median of means, with Gini's mean difference of the trials below it and above it.

    These are the error bars of Tossou & Dimitrakakis 2017. They show how trials spread, and are no
    intervals of the centre.

    Args:
      array: with the dimension trial.
      groups: how many equal groups of trials have a mean of their own.

    Returns:
      A Dataset of centre, gini_below, gini_above, and the ends low and high of the bars.
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


def difference(array, to: dict, confidence=0.95) -> xarray.Dataset:
    """The mean of the paired differences to one place, trial by trial.

    Args:
      array: with the dimension trial.
      to: the place, such as ``{"learner": "EXP3"}``.
      confidence: of each cell's interval.

    Returns:
      As :func:`mean`, of ``array - array.sel(to)``.
    """
    check(array, confidence=confidence)
    base = place(array, to)
    return mean(array - base, confidence)


def place(array, to: dict):
    """The part of an array at a place, without the coordinates along the axes that it leaves out.

    Raises:
      ValueError: the array lacks an axis, or the axis a value; the message names both.
    """
    for name, value in to.items():
        if name not in array.dims:
            raise ValueError(
                f"{name} is no dimension of the data: {', '.join(map(str, array.dims))}"
            )
        if value not in array[name].values:
            raise ValueError(f"{name} has no value {value}: {array[name].values.tolist()}")
    chosen = array.sel(to)
    return chosen.reset_coords(drop=True)


def band(array, over="round", confidence=0.95) -> xarray.Dataset:
    """The mean with a band that covers all values along some axes at once.

    The width is a quantile of the largest studentized deviation along the axes, over resampled
    trials. So it uses that the values along the axes are correlated, as those of a trial are.

    Args:
      array: with the dimension trial.
      over: the axis, or a list of axes, along which the band holds simultaneously.
      confidence: of the band as a whole, for each place along the other axes.
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


def bare(array):
    """The array in float64, with the coordinates of its dimensions and no others."""
    return array.reset_coords(drop=True).astype(np.float64)


def axis_values(array, name) -> np.ndarray:
    """The numbers along an axis."""
    if name not in array.dims or name == "trial":
        raise ValueError(f"over: {name} is no axis of the data: {', '.join(map(str, array.dims))}")
    return array[name].values


def resampled_means(array, draws=_DRAWS) -> xarray.DataArray:
    """Means over resampled trials, with the dimension ``draw`` in place of ``trial``.

    The same trials are drawn for all cells, which keeps them paired.
    """
    trials = array.sizes["trial"]
    counts = np.random.default_rng(_SEED).multinomial(trials, np.full(trials, 1 / trials), draws)
    weights = xarray.DataArray(counts / trials, dims=["draw", "trial"])
    return xarray.dot(weights, bare(array), dim="trial")


def interval(drawn, confidence) -> tuple:
    low, high = _percentiles(np.moveaxis(drawn.values, drawn.get_axis_num("draw"), 0), confidence)
    like = drawn.isel(draw=0, drop=True)
    return like.copy(data=low), like.copy(data=high)


def _percentiles(drawn, confidence) -> tuple:
    """The percentiles of draws (B, ...). They are draws themselves, which may be infinite."""
    edges = [(1.0 - confidence) / 2, (1.0 + confidence) / 2]
    low, high = np.quantile(drawn, edges, axis=0, method="nearest")
    return low, high


def shown(array) -> str:
    return str(array.name or "the mean").replace("_", " ")


def attributes(array, estimate) -> dict:
    return {"estimate": estimate, "trials": int(array.sizes["trial"])}
