"""Trends along an axis of a study: exponents, and where a level is crossed.

Arrays and intervals are as in :mod:`dpjax.report.estimates`.
"""

import numpy as np
import xarray

from dpjax.report import arrays, estimates


@arrays.estimator("least squares from {over} = {first:g} to {last:g}",
                  label="exponent of {variable} in {over}")  # fmt: skip
def slope(
    array: xarray.DataArray, over: str = "horizon", confidence: float = 0.95
) -> xarray.Dataset:
    """The exponent of the mean along an axis: the slope of log(mean) over log(axis).

    It is the least-squares slope over all finite positive values of the axis. The interval is that
    of :func:`dpjax.report.estimates.of_means`. It covers random error, not curvature: draw a figure
    to check whether a power law fits. ``first`` and ``last`` are the ends of the fitted range.

    Returns:
      A Dataset of slope, low and high, with the attributes first and last. NaN if a mean in the
      range is not positive.

    Raises:
      ValueError: the axis has fewer than two finite positive values.

    Examples:
      >>> import xarray
      >>> horizons = np.array([100.0, 400.0, 1600.0])
      >>> regret = xarray.DataArray(
      ...     np.sqrt(horizons) * np.array([[1.9], [2.0], [2.1]]),
      ...     {"horizon": horizons}, ["trial", "horizon"])
      >>> found = trends.slope(regret)
      >>> {name: round(float(value), 2) for name, value in found.items()}
      {'slope': 0.5, 'low': 0.5, 'high': 0.5}
    """
    values = arrays.axis_values(array, over)
    array = array.isel({over: np.flatnonzero(np.isfinite(values) & (values > 0))})
    values = array[over].values.astype(np.float64)
    if len(values) < 2:
        raise ValueError(f"over: {over} has fewer than two finite positive values")
    logs = np.log(values) - np.log(values).mean()
    weights = xarray.DataArray(logs / np.sum(logs**2), dims=[over])

    def exponent(means):
        return (np.log(means.where(means > 0)) * weights).sum(over, skipna=False)

    estimate = estimates.of_means(array, exponent, confidence, "slope", [over])
    return estimate.assign_attrs(first=values[0], last=values[-1])


@arrays.estimator("from there on {variable} is at most {level:g} times that at {over} = {at:g}",
                  label="least {over} within a factor of {level:g}")  # fmt: skip
def crossing(
    array: xarray.DataArray,
    level: float,
    at: float = np.inf,
    over: str = "epsilon",
    confidence: float = 0.95,
) -> xarray.Dataset:
    """The value of an axis from which the mean stays within ``level`` times a reference.

    ``crossing(array, 1.1, at=inf, over="epsilon")`` is the epsilon from which privacy costs at most
    a tenth of the regret. Between two values of the axis, its logarithm is interpolated. The
    interval is that of :func:`dpjax.report.estimates.of_means`.

    Args:
      array: with the dimension trial.
      level: the factor.
      at: the value of the axis whose mean is the reference.
      over: the axis, with increasing values.
      confidence: level of each cell's interval.

    Returns:
      A Dataset of crossing, low and high: 0 if the mean is within the factor at every value, and
      inf if it is within the factor only at the value ``at``. NaN if the reference is not positive.

    Examples:
      >>> import xarray
      >>> regret = xarray.DataArray(
      ...     [[40.0, 24.0, 20.0, 20.0], [42.0, 23.0, 22.0, 20.0]] * 20,
      ...     {"epsilon": [0.1, 1.0, 10.0, np.inf]}, ["trial", "epsilon"])
      >>> found = trends.crossing(regret, 1.1, at=np.inf)
      >>> {name: round(float(value), 2) for name, value in found.items()}
      {'crossing': 3.98, 'low': 3.63, 'high': 4.56}
    """
    values = arrays.axis_values(array, over)
    if (np.diff(values) <= 0).any():
        raise ValueError(f"over: the values of {over} must increase, got {values.tolist()}")
    arrays.place(array, {over: at})
    others = np.flatnonzero(values != at)
    logs = np.log(values[others])

    def first(means):
        reference = arrays.place(means, {over: at})
        ratio = means.isel({over: others}) / reference.where(reference > 0)
        return xarray.apply_ufunc(
            lambda ratios: first_within(logs, ratios, level), ratio, input_core_dims=[[over]]
        )

    return estimates.of_means(array, first, confidence, "crossing", [over])


def first_within(logs: np.ndarray, ratios: np.ndarray, level: float) -> np.ndarray:
    """The value of an axis from which ratios are at most a level.

    Args:
      logs: (P,) logarithms of the increasing values of an axis.
      ratios: (..., P).
      level: the level.

    Returns:
      (...) values of the axis, interpolated in their logarithm: 0 if no ratio is above the level,
      inf if the last one is, and nan if one is nan.

    Examples:
      >>> ratios = np.array([2.0, 1.2, 1.0])
      >>> float(trends.first_within(np.log([0.1, 1.0, 10.0]), ratios, 1.1).round(2))
      3.16
    """
    above = ratios > level
    last = ratios.shape[-1] - 1 - np.argmax(above[..., ::-1], axis=-1)
    following = np.minimum(last + 1, ratios.shape[-1] - 1)
    last_above = np.take_along_axis(ratios, last[..., None], -1)[..., 0]
    there = np.take_along_axis(ratios, following[..., None], -1)[..., 0]
    with np.errstate(all="ignore"):
        share = (last_above - level) / (last_above - there)
        estimate = np.exp(logs[last] + share * (logs[following] - logs[last]))
    estimate = np.where(last == ratios.shape[-1] - 1, np.inf, estimate)
    estimate = np.where(above.any(-1), estimate, 0.0)
    return np.where(np.isnan(ratios).any(-1), np.nan, estimate)
