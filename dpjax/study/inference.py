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

_DRAWS, _SEED = 1000, 2017  # of resampling


def _check(array, **levels) -> int:
    """The number of trials.

    Raises:
      TypeError, ValueError: not an array of at least two trials, or a level outside of (0, 1).
    """
    if not isinstance(array, xarray.DataArray):
        raise TypeError(f"array must be an xarray.DataArray, got {type(array).__name__}")
    if "trial" not in array.dims:
        raise ValueError(f"array must have the dimension trial, got {', '.join(array.dims)}")
    if array.sizes["trial"] < 2:
        raise ValueError("an interval needs at least two trials; the array has one")
    for name, level in levels.items():
        if not 0.0 < level < 1.0:
            raise ValueError(f"{name} must be in (0, 1), got {level}")
    return array.sizes["trial"]


def mean(array, confidence=0.95) -> xarray.Dataset:
    """The mean over trials, with Student's interval in each cell.

    Returns:
      A Dataset of mean, standard_error, low and high. The interval is one cell's, and not
      simultaneous: see :func:`band`.
    """
    trials = _check(array, confidence=confidence)
    array = array.astype(np.float64)
    centre = array.mean("trial", skipna=False)
    error = array.std("trial", ddof=1, skipna=False) / np.sqrt(trials)
    width = stats.t.ppf(0.5 + confidence / 2, trials - 1) * error
    return xarray.Dataset(
        {"mean": centre, "standard_error": error, "low": centre - width, "high": centre + width},
        attrs=_attributes(array, f"mean with Student's {100 * confidence:g} % intervals"),
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
    trials = _check(array, confidence=confidence, q=q)
    array = array.astype(np.float64)
    axis = array.get_axis_num("trial")
    below = int(stats.binom.ppf((1.0 - confidence) / 2, trials, q))
    above = int(stats.binom.ppf((1.0 + confidence) / 2, trials, q)) + 1
    ordered = np.sort(array.values, axis=axis)
    ordered = np.where(np.isnan(array.values).any(axis=axis, keepdims=True), np.nan, ordered)

    def order_statistic(rank):
        """The rank-th smallest, from 1."""
        if 1 <= rank <= trials:
            return ordered.take(rank - 1, axis=axis)
        edge = -np.inf if rank < 1 else np.inf
        return np.where(np.isnan(ordered.take(0, axis=axis)), np.nan, edge)

    like = array.isel(trial=0, drop=True)
    inner = np.quantile(array.values, q, axis=axis)
    found = {"quantile": like.copy(data=inner), "low": like.copy(data=order_statistic(below)),
             "high": like.copy(data=order_statistic(above))}  # fmt: skip
    what = f"{q:g}-quantile with {100 * confidence:g} % intervals of order statistics"
    return xarray.Dataset(found, attrs=_attributes(array, what))


def statistic(array, function, confidence=0.95, name="statistic") -> xarray.Dataset:
    """Any statistic of the trials, with bootstrap percentiles.

    Args:
      array: with the dimension trial.
      function: of an array (trials, ...) that returns (...), such as a median of means.
      confidence: of each cell's interval.
      name: of the statistic in the Dataset.
    """
    trials = _check(array, confidence=confidence)
    array = array.astype(np.float64)
    first = np.moveaxis(array.values, array.get_axis_num("trial"), 0)
    generator = np.random.default_rng(_SEED)
    drawn = [function(first[generator.integers(trials, size=trials)]) for _ in range(_DRAWS)]
    low, high = _percentiles(np.array(drawn), confidence)
    like = array.isel(trial=0, drop=True)
    found = {name: like.copy(data=function(first)), "low": like.copy(data=low),
             "high": like.copy(data=high)}  # fmt: skip
    what = f"{name} with {100 * confidence:g} % bootstrap percentiles"
    return xarray.Dataset(found, attrs=_attributes(array, what))


def median_of_means(array, groups, confidence=0.95) -> xarray.Dataset:
    """The median of the means of ``groups`` equal groups of trials, with bootstrap percentiles."""
    trials = _check(array, confidence=confidence)
    if groups < 1 or trials % groups:
        raise ValueError(f"groups: {trials} trials do not divide into {groups} equal groups")
    compute = partial(statistics.median_of_means, groups=groups, axis=0)
    return statistic(array, compute, confidence, "median_of_means")


def gini(array, confidence=0.95) -> xarray.Dataset:
    """Gini's mean difference between two trials, with bootstrap percentiles."""
    compute = partial(statistics.gini_mean_difference, axis=0)
    return statistic(array, compute, confidence, "gini")


def difference(array, to: dict, confidence=0.95) -> xarray.Dataset:
    """The mean of the paired differences to one place, trial by trial.

    Args:
      array: with the dimension trial.
      to: the place, such as ``{"learner": "EXP3"}``.
      confidence: of each cell's interval.

    Returns:
      As :func:`mean`, of ``array - array.sel(to)``.
    """
    _check(array, confidence=confidence)
    base = place(array, to)
    return mean((array - base).assign_coords(array.coords), confidence)


def place(array, to: dict):
    """The part of an array at a place, without the coordinates along the axes that it leaves out.

    Raises:
      ValueError: the array lacks an axis, or the axis a value; the message names both.
    """
    for name, value in to.items():
        if name not in array.dims:
            raise ValueError(f"{name} is no dimension of the data: {', '.join(array.dims)}")
        if value not in array[name].values:
            raise ValueError(f"{name} has no value {value}: {array[name].values.tolist()}")
    chosen = array.sel(to)
    return chosen.drop_vars([name for name in chosen.coords if name not in chosen.dims])


def band(array, over="round", confidence=0.95) -> xarray.Dataset:
    """The mean with a band that covers all values along some axes at once.

    The width is a quantile of the largest studentized deviation along the axes, over resampled
    trials. So it uses that the values along the axes are correlated, as those of a trial are.

    Args:
      array: with the dimension trial.
      over: the axis, or a list of axes, along which the band holds simultaneously.
      confidence: of the band as a whole, for each place along the other axes.
    """
    _check(array, confidence=confidence)
    axes = [over] if isinstance(over, str) else list(over)
    for name in axes:
        _axis(array, name)
    found = mean(array, confidence)
    # The error of a draw is estimated as that of all trials is.
    scaled = (resampled_means(array) - found["mean"]) / found["standard_error"]
    scaled = np.abs(scaled.where(found["standard_error"] > 0))
    largest = scaled.max(axes).fillna(0.0)  # 0 where all trials are the same, or none was played
    width = largest.quantile(confidence, "draw").drop_vars("quantile")
    # What resampling understates for few trials, Student's law states for a single value.
    trials = array.sizes["trial"]
    width = width * (stats.t.ppf(0.5 + confidence / 2, trials - 1)
                     / stats.norm.ppf(0.5 + confidence / 2))  # fmt: skip
    width = width * found["standard_error"]
    found["low"], found["high"] = found["mean"] - width, found["mean"] + width
    what = f"mean with {100 * confidence:g} % bands, simultaneous over {', '.join(axes)}"
    return found.assign_attrs(_attributes(array, what))


def slope(array, over="horizon", confidence=0.95) -> xarray.Dataset:
    """The exponent of the mean in an axis: the slope of log(mean) over log(axis).

    It is the least-squares slope through all finite positive values of the axis. The interval
    comes from resampled trials. It speaks of chance and not of curvature: whether a power law fits
    is for a figure to show, and ``first`` and ``last`` say on which range it was fitted.

    Returns:
      A Dataset of slope, low and high, with the attributes first and last. NaN where a mean on the
      range is not positive.

    Raises:
      ValueError: the axis has fewer than two finite positive values.
    """
    _check(array, confidence=confidence)
    values = _axis(array, over)
    array = array.isel({over: np.flatnonzero(np.isfinite(values) & (values > 0))})
    values = array[over].values.astype(np.float64)
    if len(values) < 2:
        raise ValueError(f"over: {over} has fewer than two finite positive values")
    logs = np.log(values) - np.log(values).mean()
    weights = xarray.DataArray(logs / np.sum(logs**2), dims=[over])

    def of_means(means):
        return (np.log(means.where(means > 0)) * weights).sum(over, skipna=False)

    centre = of_means(array.astype(np.float64).mean("trial", skipna=False))
    low, high = _interval(of_means(resampled_means(array)), confidence)
    what = f"exponent of {_name(array)} in {over}, {values[0]:g} to {values[-1]:g}"
    attributes = _attributes(array, what) | {"first": values[0], "last": values[-1]}
    return xarray.Dataset({"slope": centre, "low": low, "high": high}, attrs=attributes)


def crossing(array, level, of, over="epsilon", confidence=0.95) -> xarray.Dataset:
    """From which value of an axis on the mean is within a factor of that at one value.

    ``crossing(array, 1.1, of=inf, over="epsilon")`` is the epsilon from which on privacy costs at
    most a tenth of the regret. Between two values of the axis it is interpolated in the logarithm
    of the axis; the interval comes from resampled trials.

    Args:
      array: with the dimension trial.
      level: the factor.
      of: the value of the axis with which means are compared.
      over: the axis, of increasing values.
      confidence: of each cell's interval.

    Returns:
      A Dataset of crossing, low and high: 0 where the mean is within the factor at every value, inf
      where it is so at none but ``of``.
    """
    _check(array, confidence=confidence)
    values = _axis(array, over)
    if (np.diff(values) <= 0).any():
        raise ValueError(f"over: the values of {over} must increase, got {values.tolist()}")
    place(array, {over: of})
    others = np.flatnonzero(values != of)
    logs = np.log(values[others])

    def of_means(means):
        ratio = means.isel({over: others}) / place(means, {over: of})
        return xarray.apply_ufunc(
            lambda ratios: _first_within(logs, ratios, level), ratio, input_core_dims=[[over]]
        )

    centre = of_means(array.astype(np.float64).mean("trial", skipna=False))
    drawn = of_means(resampled_means(array))
    # Between a number and infinity there is nothing to interpolate.
    low, high = _interval(drawn, confidence)
    what = f"{over} from which on {_name(array)} is within {level:g} of that at {of:g}"
    found = {"crossing": centre, "low": low, "high": high}
    return xarray.Dataset(found, attrs=_attributes(array, what))


def _first_within(logs, ratios, level):
    """Where along the last axis the ratios are at most ``level`` from then on, (...)."""
    above = ratios > level
    last = ratios.shape[-1] - 1 - np.argmax(above[..., ::-1], axis=-1)
    following = np.minimum(last + 1, ratios.shape[-1] - 1)
    here = np.take_along_axis(ratios, last[..., None], -1)[..., 0]
    there = np.take_along_axis(ratios, following[..., None], -1)[..., 0]
    with np.errstate(all="ignore"):
        share = (here - level) / (here - there)
        found = np.exp(logs[last] + share * (logs[following] - logs[last]))
    found = np.where(last == ratios.shape[-1] - 1, np.inf, found)
    found = np.where(above.any(-1), found, 0.0)
    return np.where(np.isnan(ratios).any(-1), np.nan, found)


def worst(array, over="environment", confidence=0.95) -> xarray.Dataset:
    """The largest mean along an axis, where it is, and an interval.

    The interval is that of the largest true mean. It comes from a band that holds at all values of
    the axis at once, so that choosing the largest is paid for.

    Returns:
      A Dataset of worst, low, high and, by the name of the axis, where the largest mean is.
    """
    found = band(array, over, confidence)
    centre = found["mean"]
    at = centre.fillna(-np.inf).argmax(over)
    return xarray.Dataset(
        {
            "worst": centre.max(over),
            "low": found["low"].max(over),
            "high": found["high"].max(over),
            over: at.copy(data=array[over].values[at.values]),
        },
        attrs=_attributes(array, f"largest mean over {over}, simultaneous intervals"),
    )


def tune(array, over, confidence=0.95) -> xarray.Dataset:
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
    """
    trials = _check(array, confidence=confidence)
    if trials < 4:
        raise ValueError(f"tuning needs at least four trials, two in each half; there are {trials}")
    axes = [over] if isinstance(over, str) else list(over)
    for name in axes:
        if name not in array.dims or name == "trial":
            raise ValueError(f"over: {name} is no axis of settings: {', '.join(array.dims)}")
    flat = bare(array.astype(np.float64)).stack(setting=axes)
    halves = flat.isel(trial=slice(trials // 2)), flat.isel(trial=slice(trials // 2, None))
    means = halves[0].mean("trial", skipna=False)
    at = means.fillna(np.inf).argmin("setting")
    chosen = halves[1].isel(setting=at).drop_vars(["setting", *axes])
    found = mean(chosen, confidence)
    for name in axes:
        labels = at.copy(data=flat["setting"][name].values[at.values])
        found[f"chosen_{name}"] = labels.where(found["mean"].notnull())
    worse = mean(halves[1] - chosen, confidence)
    single = stats.t.ppf(confidence, chosen.sizes["trial"] - 1)
    # A difference of exactly 0 is no evidence; two settings may well be the same game.
    candidate = ~(worse["mean"] > single * worse["standard_error"]) & means.notnull()
    found["candidate"] = candidate.unstack("setting")
    what = (
        f"least mean over {', '.join(axes)}, chosen on {trials // 2} trials, reported on the rest"
    )
    attributes = _attributes(array, what) | {
        "note": "The privacy cost of tuning on data is not in epsilon."
    }
    return found.assign_attrs(attributes)


def bare(array):
    """The array with the coordinates of its dimensions and no others."""
    return array.drop_vars([name for name in array.coords if name not in array.dims])


def _axis(array, name) -> np.ndarray:
    """The numbers along an axis."""
    if name not in array.dims or name == "trial":
        raise ValueError(f"over: {name} is no axis of the data: {', '.join(array.dims)}")
    return array[name].values


def resampled_means(array, draws=_DRAWS) -> xarray.DataArray:
    """Means over resampled trials, with the dimension ``draw`` in place of ``trial``.

    The same trials are drawn for all cells, which keeps them paired.
    """
    trials = array.sizes["trial"]
    counts = np.random.default_rng(_SEED).multinomial(trials, np.full(trials, 1 / trials), draws)
    weights = xarray.DataArray(counts / trials, dims=["draw", "trial"])
    return xarray.dot(weights, bare(array.astype(np.float64)), dim="trial")


def _interval(drawn, confidence) -> tuple:
    low, high = _percentiles(np.moveaxis(drawn.values, drawn.get_axis_num("draw"), 0), confidence)
    like = drawn.isel(draw=0, drop=True)
    return like.copy(data=low), like.copy(data=high)


def _percentiles(drawn, confidence) -> tuple:
    """The percentiles of draws (B, ...). They are draws themselves, which may be infinite."""
    edges = [(1.0 - confidence) / 2, (1.0 + confidence) / 2]
    low, high = np.quantile(drawn, edges, axis=0, method="nearest")
    return low, high


def _name(array) -> str:
    return str(array.name or "the mean").replace("_", " ")


def _attributes(array, estimate) -> dict:
    return {"estimate": estimate, "trials": int(array.sizes["trial"])}
