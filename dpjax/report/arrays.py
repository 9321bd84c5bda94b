"""Arrays of trials: the registry of estimators, and their common checks and resampling."""

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec

import numpy as np
import xarray

DRAWS, SEED = 1000, 2017  # of resampling
P = ParamSpec("P")

ESTIMATORS: dict[str, Callable[..., xarray.Dataset]] = {}


def estimator(
    caption: str = "", fewest: int = 2
) -> Callable[[Callable[P, xarray.Dataset]], Callable[P, xarray.Dataset]]:
    """Register a function as an estimator, under its name.

    Its first argument is a DataArray with the dimension ``trial``; ``confidence`` is the level of
    its interval. It returns a Dataset whose first variable is the centre, with ``low`` and
    ``high``. The array and the level are checked before each call. The attributes ``estimate``
    (for captions), ``trials`` and ``variable`` (the array's name) are added to the Dataset.

    The estimator becomes a method of ``data.dpjax``, and its name can be passed to tables, figures
    and pages.

    Args:
      caption: the estimate in words, with the function's arguments in braces, "{percent}" for its
        level and "{variable}" for the name of the array. By default the attribute ``estimate`` of
        the returned Dataset.
      fewest: the smallest number of trials.

    Raises:
      TypeError: the function does not take ``confidence``.

    Examples:
      >>> import xarray
      >>> @arrays.estimator()
      ... def largest(array, confidence=0.95):
      ...     return estimates.statistic(array, lambda x: x.max(axis=0), confidence, "largest")
      >>> data = xarray.Dataset({"final_regret": ("trial", [1.0, 2.0, 6.0])})
      >>> float(data.dpjax.largest()["low"])
      1.0
      >>> del arrays.ESTIMATORS["largest"]
    """

    def register(function):
        signature = inspect.signature(function)
        if "confidence" not in signature.parameters:
            raise TypeError(f"estimator: {function.__name__} must take confidence, a level")

        @functools.wraps(function)
        def checked(*args, **kwargs):
            given = signature.bind(*args, **kwargs)
            given.apply_defaults()
            (_, array), *others = given.arguments.items()
            words = {n: ", ".join(v) if isinstance(v, list | tuple) else v for n, v in others}
            trials = check(array, fewest, confidence=words["confidence"])
            found = function(*args, **kwargs)
            words |= found.attrs | {"variable": str(array.name or "the mean").replace("_", " ")}
            text = caption.format(percent=f"{100 * words['confidence']:g} %", **words)
            text = text or found.attrs.get("estimate", function.__name__)
            about = {"estimate": text.replace("_", " "), "trials": trials}
            return found.assign_attrs(about, variable=str(array.name or function.__name__))

        ESTIMATORS[function.__name__] = checked
        return checked

    return register


def named(estimate: str | Callable, confidence: float = 0.95) -> Callable:
    """The estimator of this name at a level, as a function of an array.

    A function is returned unchanged.
    """
    if callable(estimate):
        return estimate
    if estimate not in ESTIMATORS:
        raise ValueError(f"estimate: there is no {estimate!r}; there are {', '.join(ESTIMATORS)}")
    return functools.partial(ESTIMATORS[estimate], confidence=confidence)


def check(array: xarray.DataArray, fewest: int = 2, **levels: float) -> int:
    """Check an array, and return its number of trials.

    Raises:
      TypeError, ValueError: no array with enough trials, or a level outside (0, 1).
    """
    if not isinstance(array, xarray.DataArray):
        raise TypeError(f"array must be an xarray.DataArray, got {type(array).__name__}")
    if "trial" not in array.dims:
        raise ValueError(
            f"array must have the dimension trial, got {', '.join(map(str, array.dims))}"
        )
    if array.sizes["trial"] < fewest:
        trials = array.sizes["trial"]
        raise ValueError(f"the estimate needs at least {fewest} trials; the array has {trials}")
    for name, level in levels.items():
        if not isinstance(level, float) or not 0.0 < level < 1.0:
            raise ValueError(f"{name} must be in (0, 1), got {level}")
    return array.sizes["trial"]


def place(array: xarray.DataArray, to: dict) -> xarray.DataArray:
    """The part of an array at a place, without the coordinates of the selected axes.

    Raises:
      ValueError: the array lacks the axis, or the axis lacks the value; the message names both.
    """
    for name, value in to.items():
        if name not in array.dims:
            raise ValueError(
                f"{name} is not a dimension of the data: {', '.join(map(str, array.dims))}"
            )
        if value not in array[name].values:
            raise ValueError(f"{name} has no value {value}; it has {array[name].values.tolist()}")
    chosen = array.sel(to)
    return chosen.reset_coords(drop=True)


def bare(array: xarray.DataArray) -> xarray.DataArray:
    """The array in float64, with no coordinates except those of its dimensions."""
    return array.reset_coords(drop=True).astype(np.float64)


def axis_values(array: xarray.DataArray, name: str) -> np.ndarray:
    """The numbers along an axis."""
    if name not in array.dims or name == "trial":
        raise ValueError(
            f"over: {name} is not an axis of the data: {', '.join(map(str, array.dims))}"
        )
    return array[name].values


def resampled_counts(trials: int) -> np.ndarray:
    """The number of times that each resample draws each trial, (DRAWS, trials).

    Each resample draws as many trials as there are, with replacement. All cells of an array use the
    same draws, so their trials stay paired.
    """
    generator = np.random.default_rng(SEED)
    return generator.multinomial(trials, np.full(trials, 1 / trials), DRAWS)


def resampled_means(array: xarray.DataArray) -> xarray.DataArray:
    """Means over resampled trials, with the dimension ``draw`` in place of ``trial``."""
    trials = array.sizes["trial"]
    weights = xarray.DataArray(resampled_counts(trials) / trials, dims=["draw", "trial"])
    return xarray.dot(weights, bare(array), dim="trial")


def resampled(trials: int, statistic: Callable, confidence: float = 0.95) -> tuple:
    """A statistic and its interval over resampled trials (paired bootstrap, percentiles).

    ``scipy.stats.bootstrap`` interpolates between draws, which fails for infinite statistics. The
    ends of this interval are draws themselves.

    Args:
      trials: number of trials.
      statistic: function of an array of trial indices that returns a number or an array.
      confidence: level of each interval.

    Returns:
      (value, low, high), each of the form that ``statistic`` returns, possibly infinite.

    Examples:
      >>> trials = np.array([1.0, 2.0, 6.0])
      >>> [float(x) for x in arrays.resampled(3, lambda index: trials[index].mean())]
      [3.0, 1.0, 6.0]
    """
    everyone = np.arange(trials)
    order = np.random.default_rng(SEED + 1)  # shuffles, for statistics of consecutive trials
    drawn = [statistic(order.permutation(np.repeat(everyone, counts)))
             for counts in resampled_counts(trials)]  # fmt: skip
    return statistic(everyone), *percentiles(np.array(drawn), confidence)


def interval(drawn: xarray.DataArray, confidence: float) -> tuple:
    """The lower and upper percentile of draws along the dimension ``draw``."""
    drawn = drawn.transpose("draw", ...)
    low, high = percentiles(drawn.values, confidence)
    return drawn[0].copy(data=low), drawn[0].copy(data=high)


def percentiles(drawn: np.ndarray, confidence: float) -> np.ndarray:
    """The two percentiles (2, ...) of draws (B, ...); they are draws and may be infinite."""
    edges = [(1.0 - confidence) / 2, (1.0 + confidence) / 2]
    return np.quantile(drawn, edges, axis=0, method="nearest")
