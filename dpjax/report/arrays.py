"""Arrays of trials: what the estimates of a study check, resample and say of them."""

from collections.abc import Callable

import numpy as np
import xarray

DRAWS, SEED = 1000, 2017  # of resampling


def check(array: xarray.DataArray, fewest: int = 2, **levels: float) -> int:
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


def place(array: xarray.DataArray, to: dict) -> xarray.DataArray:
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


def bare(array: xarray.DataArray) -> xarray.DataArray:
    """The array in float64, with the coordinates of its dimensions and no others."""
    return array.reset_coords(drop=True).astype(np.float64)


def axis_values(array: xarray.DataArray, name: str) -> np.ndarray:
    """The numbers along an axis."""
    if name not in array.dims or name == "trial":
        raise ValueError(f"over: {name} is no axis of the data: {', '.join(map(str, array.dims))}")
    return array[name].values


def resampled_means(array: xarray.DataArray, draws: int = DRAWS) -> xarray.DataArray:
    """Means over resampled trials, with the dimension ``draw`` in place of ``trial``.

    The same trials are drawn for all cells, which keeps them paired.
    """
    trials = array.sizes["trial"]
    counts = np.random.default_rng(SEED).multinomial(trials, np.full(trials, 1 / trials), draws)
    weights = xarray.DataArray(counts / trials, dims=["draw", "trial"])
    return xarray.dot(weights, bare(array), dim="trial")


def resampled(
    trials: int, statistic: Callable[[np.ndarray], float], *, draws: int = DRAWS, seed: int = SEED
) -> tuple[float, float, float]:
    """A statistic and its 95 % interval over resampled trials (bootstrap percentiles).

    Args:
      trials: number of trials.
      statistic: function of an array of indices of trials.
      draws: number of resamples.
      seed: seed of the resampling.

    Returns:
      (value, low, high), floats. They are infinite where the statistic is.

    Examples:
      >>> trials = np.array([1.0, 2.0, 6.0])
      >>> arrays.resampled(3, lambda index: float(trials[index].mean()))
      (3.0, 1.0, 6.0)
    """
    generator = np.random.default_rng(seed)
    values = [statistic(generator.integers(trials, size=trials)) for _ in range(draws)]
    # The ends are draws themselves, since nothing lies between a number and infinity.
    low, high = np.quantile(values, [0.025, 0.975], method="nearest")
    return statistic(np.arange(trials)), float(low), float(high)


def interval(drawn: xarray.DataArray, confidence: float) -> tuple:
    """The lower and upper percentile of draws along the dimension ``draw``."""
    low, high = percentiles(np.moveaxis(drawn.values, drawn.get_axis_num("draw"), 0), confidence)
    like = drawn.isel(draw=0, drop=True)
    return like.copy(data=low), like.copy(data=high)


def percentiles(drawn: np.ndarray, confidence: float) -> tuple:
    """The percentiles of draws (B, ...). They are draws themselves, which may be infinite."""
    edges = [(1.0 - confidence) / 2, (1.0 + confidence) / 2]
    low, high = np.quantile(drawn, edges, axis=0, method="nearest")
    return low, high


def shown(array: xarray.DataArray) -> str:
    """The name of an array in words."""
    return str(array.name or "the mean").replace("_", " ")


def attributes(array: xarray.DataArray, estimate: str) -> dict:
    """What an estimate is called, and of how many trials it is."""
    return {"estimate": estimate, "trials": int(array.sizes["trial"])}
