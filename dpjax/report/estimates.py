"""Estimates of the trials of a study, each with an interval.

All functions take a ``DataArray`` with the dimension ``trial`` and keep all dimensions that they do
not name. Trials that are not finite do not count (:func:`dpjax.report.arrays.by_trials`): a warning
and captions name their cells, and the variable ``trials`` is then the number of trials that count.
Cells without a finite trial were not played, and are NaN. Trials are paired across cells: intervals
that involve several cells use the trials that count in all of them. They leave out a cell in which
too few trials count.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy
import xarray

from dpjax.maths.intervals import clopper_pearson
from dpjax.report import arrays
from dpjax.report.arrays import bare, estimator

STUDENT = "Student's {percent} confidence intervals"
BAND = "{percent} confidence bands, simultaneous over {over}"


@estimator("mean", 1, "{variable}", STUDENT)
def mean(array: xarray.DataArray, confidence: float = 0.95) -> xarray.Dataset:
    """The mean over trials, with Student's interval in each cell.

    Returns:
      A Dataset of mean, standard_error, low and high; all but the mean are NaN for a single trial.
      The intervals are not simultaneous over cells; for that see :func:`band`.

    Examples:
      >>> import xarray
      >>> regret = xarray.DataArray([1.0, 2.0, 6.0], dims="trial")
      >>> found = estimates.mean(regret)
      >>> {name: round(float(value), 2) for name, value in found.items()}
      {'mean': 3.0, 'standard_error': 1.53, 'low': -3.57, 'high': 9.57}
    """
    return arrays.by_trials(array, partial(_mean, confidence=confidence))


def _mean(array, confidence) -> xarray.Dataset:
    """:func:`mean` of trials that count in all played cells."""
    trials, array = array.sizes["trial"], array.astype(np.float64)
    centre = array.mean("trial", skipna=False)
    spread = array.std("trial", ddof=1, skipna=False) if trials > 1 else np.nan * centre
    error = spread / np.sqrt(trials)
    width = scipy.special.stdtrit(trials - 1, 0.5 + confidence / 2) * error
    return xarray.Dataset(
        {"mean": centre, "standard_error": error, "low": centre - width, "high": centre + width}
    )


@estimator("{q:g}-quantile", label="{q:g}-quantile of {variable}",
           interval="{percent} intervals of order statistics")  # fmt: skip
def quantile(array: xarray.DataArray, q: float = 0.5, confidence: float = 0.95) -> xarray.Dataset:
    """A quantile over trials, with an interval between two order statistics.

    The interval covers the quantile with at least the given probability under any law of the trials
    (the number of trials below the quantile is binomial). A side is infinite if there are too few
    trials for it.

    Args:
      array: with the dimension trial.
      q: the level of the quantile, in (0, 1); 0.5 is the median.
      confidence: level of each cell's interval.

    Examples:
      >>> import xarray
      >>> regret = xarray.DataArray(np.arange(100.0), dims="trial")
      >>> found = estimates.quantile(regret)
      >>> {name: round(float(value), 2) for name, value in found.items()}
      {'quantile': 49.5, 'low': 39.0, 'high': 60.0}
    """
    arrays.check(array, q=q)
    return arrays.by_trials(array, partial(_quantile, q=q, confidence=confidence), fewest=2)


def _quantile(array, q, confidence) -> xarray.Dataset:
    """:func:`quantile` of trials that count in all played cells."""
    trials, array = array.sizes["trial"], bare(array)
    ordered = xarray.apply_ufunc(
        np.sort, array, input_core_dims=[["trial"]], output_core_dims=[["trial"]]
    )
    ordered = ordered.pad(trial=1, constant_values=(-np.inf, np.inf))
    # The interval in ranks 1 .. n; NaN if there are too few trials for a side.
    ranks = scipy.stats.quantile_test(np.arange(1.0, trials + 1.0), p=q).confidence_interval(
        confidence
    )
    ends = np.nan_to_num(ranks.low, nan=0), np.nan_to_num(ranks.high, nan=trials + 1)
    low, high = (ordered.isel(trial=int(end), drop=True) for end in ends)
    centre = array.quantile(q, "trial", skipna=False).drop_vars("quantile")
    estimate = xarray.Dataset({"quantile": centre, "low": low, "high": high})
    return estimate.where(centre.notnull())


@estimator("proportion", fewest=1, interval="{percent} intervals of Clopper and Pearson")
def proportion(array: xarray.DataArray, confidence: float = 0.95) -> xarray.Dataset:
    """The proportion of trials in which a variable is true, with Clopper-Pearson intervals.

    Each interval covers the probability with at least the given confidence for any number of
    trials.

    Returns:
      A Dataset of proportion, low and high.

    Examples:
      >>> import xarray
      >>> correct = xarray.DataArray([True] * 9 + [False], dims="trial")
      >>> found = estimates.proportion(correct)
      >>> {name: round(float(value), 2) for name, value in found.items()}
      {'proportion': 0.9, 'low': 0.55, 'high': 1.0}
    """
    array = array.astype(np.float64)
    if not (np.isnan(array) | (array == 0.0) | (array == 1.0)).all():
        raise ValueError("array must hold booleans, or 1 and 0")
    return arrays.by_trials(array, partial(_proportion, confidence=confidence))


def _proportion(array, confidence) -> xarray.Dataset:
    """:func:`proportion` of trials that count in all played cells."""
    trials = array.sizes["trial"]
    share = array.mean("trial", skipna=False)
    low, high = clopper_pearson(share * trials, trials, (1.0 - confidence) / 2.0)
    estimate = {"proportion": share, "low": share.copy(data=low), "high": share.copy(data=high)}
    return xarray.Dataset(estimate).where(share.notnull())


@estimator("{name}", label="{name} of {variable}", interval="{percent} bootstrap percentiles")
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
      confidence: level of each cell's interval.
      name: of the statistic in the Dataset.

    Examples:
      >>> import xarray
      >>> regret = xarray.DataArray([1.0, 2.0, 6.0], dims="trial")
      >>> found = estimates.statistic(regret, lambda trials: trials.max(axis=0), name="largest")
      >>> {name: round(float(value), 2) for name, value in found.items()}
      {'largest': 6.0, 'low': 1.0, 'high': 6.0}
    """

    def percentiles(array):
        # scipy.stats.bootstrap interpolates between draws, which fails for infinite statistics.
        array = bare(array).transpose("trial", ...)
        trials, like = array.values, array.isel(trial=0, drop=True)
        every = np.arange(len(trials))
        order = np.random.default_rng(arrays.SEED + 1)  # for statistics of consecutive trials
        drawn = [function(trials[order.permutation(np.repeat(every, counts))])
                 for counts in arrays.resampled_counts(len(trials))]  # fmt: skip
        low, high = arrays.percentiles(np.array(drawn), confidence)
        ends = {name: function(trials), "low": low, "high": high}
        return xarray.Dataset({n: like.copy(data=v) for n, v in ends.items()})

    estimate = arrays.by_trials(array, percentiles, fewest=2)
    return arrays.cautioned(estimate, array.sizes["trial"], "bootstrap percentiles")


def of_means(
    array: xarray.DataArray,
    function: Callable[[xarray.DataArray], xarray.DataArray],
    confidence: float = 0.95,
    name: str = "statistic",
    over: Sequence[str] | None = None,
) -> xarray.Dataset:
    """A function of the cells' means, with bootstrap percentiles.

    With fewer than 40 trials, the means are drawn by Student's law instead.

    Args:
      array: with the dimension trial.
      function: of the means, an array without the dimension trial. It must keep other dimensions,
        such as that of the resamples.
      confidence: level of each interval.
      name: of the value in the Dataset.
      over: the axes along which the function combines means; by default all axes.

    Examples:
      >>> import xarray
      >>> regret = xarray.DataArray([[1.0, 2.0, 6.0], [2.0, 4.0, 12.0]], dims=["cell", "trial"])
      >>> def ratio(means):
      ...     return means.isel(cell=1) / means.isel(cell=0)
      >>> found = estimates.of_means(regret, ratio, name="ratio")
      >>> {name: round(float(value), 2) for name, value in found.items()}
      {'ratio': 2.0, 'low': 2.0, 'high': 2.0}
    """

    def of_trials(array):
        array = bare(array)
        centre = function(array.mean("trial", skipna=False))
        low, high = arrays.interval(function(arrays.resampled_means(array)), confidence)
        return xarray.Dataset({name: centre, "low": low, "high": high}).where(centre.notnull())

    axes = [str(axis) for axis in array.dims if axis != "trial"] if over is None else over
    estimate = arrays.by_trials(array, of_trials, axes, fewest=2)
    drawn = "resampled trials" if array.sizes["trial"] >= arrays.FEW else "means by Student's law"
    about = {"estimate": name, "interval": f"{100 * confidence:g} % percentiles of {drawn}"}
    estimate = estimate.assign_attrs(about, trials=array.sizes["trial"])
    return arrays.cautioned(estimate, array.sizes["trial"])


@estimator("mean of paired differences", label="{variable} minus that of {to}")
def difference(array: xarray.DataArray, confidence: float = 0.95, **to: Any) -> xarray.Dataset:
    """The mean of the paired differences to one place, trial by trial.

    Args:
      array: with the dimension trial.
      confidence: level of each cell's interval.
      **to: the place, such as ``learner="EXP3"``.

    Returns:
      As :func:`mean`, of ``array - array.sel(to)``.

    Examples:
      >>> import xarray
      >>> regret = xarray.DataArray(
      ...     [[1.0, 2.0, 6.0], [3.0, 5.0, 10.0]], {"learner": ["A", "B"]}, ["learner", "trial"])
      >>> found = estimates.difference(regret, learner="A")
      >>> found["mean"].values.tolist()
      [0.0, 3.0]
    """
    array = array.astype(np.float64)
    return mean(array - arrays.place(array, to), confidence)


@estimator("mean", label="{variable}", interval=BAND)
def band(
    array: xarray.DataArray, over: str | Sequence[str] = "round", confidence: float = 0.95
) -> xarray.Dataset:
    """The mean, with a band that is simultaneous along some axes.

    The width is a quantile of the largest studentized deviation along the axes, over resampled
    trials, so it accounts for the correlation within a trial. Fewer than 40 trials do not show this
    correlation, and the width is Bonferroni's, with Student's quantile at each place.

    Args:
      array: with the dimension trial.
      over: the axis or list of axes along which the band is simultaneous.
      confidence: level of the band as a whole, for each place along the other axes.

    Examples:
      >>> import xarray
      >>> values = np.sin(np.arange(100.0) ** 2).reshape(5, 20)
      >>> regret = xarray.DataArray(values, {"round": range(1, 6)}, ["round", "trial"])
      >>> single, both = estimates.mean(regret), estimates.band(regret)
      >>> bool((both["low"] < single["low"]).all())  # a band is wider
      True
    """
    return band_of(array, over, confidence)


def band_of(
    array: xarray.DataArray, over: str | Sequence[str], confidence: float, fewest: int = 2
) -> xarray.Dataset:
    """:func:`band` without the cells in which fewer than ``fewest`` trials count.

    Examples:
      >>> import xarray
      >>> regret = xarray.DataArray([[1.0, 2.0, 6.0], [5.0, np.nan, np.nan]], dims=["gap", "trial"])
      >>> estimates.band_of(regret, "gap", 0.95)["mean"].values.tolist()
      [3.0, nan]
    """
    axes = [over] if isinstance(over, str) else list(over)
    for name in axes:
        arrays.axis_values(array, name)
    compute = partial(_band, axes=axes, confidence=confidence)
    return arrays.cautioned(arrays.by_trials(array, compute, axes, fewest), array.sizes["trial"])


def _band(array, axes, confidence) -> xarray.Dataset:
    """:func:`band` of trials that count in all played cells."""
    estimate, trials = _mean(array, confidence), array.sizes["trial"]
    error = estimate["standard_error"].where(estimate["standard_error"] > 0)
    if trials < arrays.FEW:
        tail = (1.0 - confidence) / 2 / np.maximum(error.count(axes), 1)
        width = scipy.special.stdtrit(trials - 1, 1.0 - tail) * estimate["standard_error"]
    else:
        # The error of a draw is estimated like that of all trials.
        scaled = abs(arrays.resampled_means(array) - estimate["mean"]) / error
        largest = scaled.max(axes).fillna(0.0)  # 0 if all trials are equal, or none was played
        edge = largest.quantile(confidence, "draw").drop_vars("quantile")
        # Resampling understates the width, so Student's quantile corrects it.
        level = 0.5 + confidence / 2
        ratio = scipy.special.stdtrit(trials - 1, level) / scipy.special.ndtri(level)
        width = edge * ratio * estimate["standard_error"]
    estimate["low"], estimate["high"] = estimate["mean"] - width, estimate["mean"] + width
    return estimate
