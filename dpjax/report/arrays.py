"""Arrays of trials: the registry of estimators, and their common checks and resampling."""

import functools
import inspect
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec

import numpy as np
import xarray

from dpjax.report import quantities

DRAWS, SEED = 1000, 2017  # of resampling
# With fewer trials, resampled trials vary too little, and intervals come from Student's law.
FEW = 40
P = ParamSpec("P")

ESTIMATORS: dict[str, Callable[..., xarray.Dataset]] = {}
_QUIET: ContextVar[bool] = ContextVar("_QUIET", default=False)


def estimator(
    caption: str = "", fewest: int = 2, label: str = "", interval: str = ""
) -> Callable[[Callable[P, xarray.Dataset]], Callable[P, xarray.Dataset]]:
    """Register a function as an estimator, under its name.

    Its first argument is a DataArray with the dimension ``trial``; ``confidence`` is the level of
    its interval. It returns a Dataset whose first variable is the centre, with ``low`` and
    ``high``. The array and the level are checked before each call. The attributes ``estimate``
    and ``interval`` (for captions), ``label`` (for the axis of a figure), ``trials``, ``note``
    (that of the array) and ``variable`` (the array's name) are added to the Dataset. One warning
    gives its :func:`remarks`.

    The estimator becomes a method of ``data.dpjax``, and its name can be passed to tables and
    figures.

    Args:
      caption: the centre in words, with the function's arguments in braces, "{percent}" for its
        level and "{variable}" for the label of the array. By default the attribute ``estimate`` of
        the returned Dataset.
      fewest: the smallest number of trials.
      label: the quantity in words, as in ``caption``. By default "<name of the function> of
        {variable}".
      interval: the interval in words, as in ``caption``. By default the attribute ``interval`` of
        the returned Dataset.

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
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            (_, array), *others = bound.arguments.items()
            words = {n: _in_words(v) for n, v in others}
            trials = check(array, fewest, confidence=words["confidence"])
            with quiet():
                estimate = function(*args, **kwargs)
            words |= estimate.attrs | {
                "variable": quantities.label(str(array.name or "value"), array.attrs),
                "percent": f"{100 * words['confidence']:g} %",
            }
            about = {
                "estimate": caption or estimate.attrs.get("estimate", function.__name__),
                "interval": interval or estimate.attrs.get("interval", ""),
                "label": label or f"{function.__name__} of {{variable}}",
            }
            about = {n: text.format(**words).replace("_", " ") for n, text in about.items()}
            notes = dict.fromkeys(item.attrs.get("note") for item in (array, estimate))
            if note := " ".join(filter(None, notes)):
                about["note"] = note
            estimate = count_censored(estimate, array).assign_attrs(
                about, trials=trials, variable=str(array.name or function.__name__)
            )
            warn(remarks(estimate), estimate.attrs["variable"])
            return estimate

        ESTIMATORS[function.__name__] = checked
        return checked

    return register


def _in_words(argument):
    """A list or a dict of values, such as ``learner="EXP3"``, in words; others unchanged."""
    if isinstance(argument, dict):
        argument = [v if isinstance(v, str) else f"{n} = {v}" for n, v in argument.items()]
    return ", ".join(argument) if isinstance(argument, list | tuple) else argument


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


def counts(array: xarray.DataArray, fewest: int = 1) -> xarray.DataArray:
    """Whether each trial counts: whether it is finite, in a cell with at least ``fewest`` such."""
    finite = xarray.apply_ufunc(np.isfinite, array.reset_coords(drop=True))
    return finite if fewest == 1 else finite & (finite.sum("trial") >= fewest)


def refuse_empty(values: xarray.DataArray, name: object, of: str = "trial") -> None:
    """Raise ValueError if all values are NaN; ``of`` is the word for one of them."""
    if not values.notnull().any():
        raise ValueError(f"{name}: no {of} is finite, so there is nothing to show")


def expected(array: xarray.DataArray) -> xarray.DataArray:
    """Whether each cell was played, or should have been; see :func:`should_exist`."""
    return should_exist(counts(array).any("trial"), array.coords, array.name)


def should_exist(
    played: xarray.DataArray, coords: Mapping[Hashable, Any], variable: object
) -> xarray.DataArray:
    """Whether each cell was played, or should have been.

    A cell should have been played if it declares privacy, and its learner played in this
    environment otherwise. Regret, which every learner has, should also exist for a learner without
    any trial that counts. Data of an unfinished store have the coordinate ``planned``: all of these
    cells should have regret.

    Args:
      played: whether a trial counts in each cell.
      coords: the coordinates of the data.
      variable: the name of the variable.
    """
    regret = variable in ("regret", "final_regret")
    if "planned" in coords and regret:
        return (played | coords["planned"].reset_coords(drop=True)).transpose(*played.dims)
    if "privacy_epsilon" not in coords:
        return played
    declared = coords["privacy_epsilon"].reset_coords(drop=True).notnull()
    pair = played.any([name for name in played.dims if name not in ("learner", "environment")])
    if regret:
        pair = pair | ~played.any([name for name in played.dims if name != "learner"])
    return (played | (declared & pair)).transpose(*played.dims)


def by_trials(
    array: xarray.DataArray,
    estimate: Callable[[xarray.DataArray], xarray.Dataset],
    over: Sequence[str] = (),
    fewest: int = 1,
) -> xarray.Dataset:
    """Estimate each cell from the trials that count in it.

    A trial counts in a cell if its value there is finite (:func:`counts`). A cell without such a
    trial is NaN.

    Args:
      array: with the dimension trial.
      estimate: of an array whose played cells are finite, with all or some of its trials. Its
        variables are floats. They have the axes of the array other than ``trial`` and ``over``, and
        may have further ones.
      over: the axes that the estimate combines. A trial counts if it is finite in all cells along
        them that were played, so trials stay paired.
      fewest: the estimate of a cell is NaN if fewer trials count. Along ``over``, such a cell is
        left out like one that was not played, so it does not affect the others.

    Returns:
      The estimate, with the array's coordinates. If some trials do not count, its last variable is
      ``trials``, the number of trials that count in each cell, NaN if it is not :func:`expected`.

    Examples:
      >>> import xarray
      >>> regret = xarray.DataArray([[1.0, 2.0, 6.0], [1.0, np.nan, 4.0]], dims=["cell", "trial"])
      >>> def largest(array):
      ...     return array.max("trial", skipna=False).to_dataset(name="largest")
      >>> found = arrays.by_trials(regret, largest)
      >>> found["largest"].values.tolist(), found["trials"].values.tolist()
      ([6.0, 4.0], [3.0, 2.0])
    """
    finite, asked = counts(array), expected(array)
    lacking = (~finite).sum("trial")
    finite = counts(array, fewest) if over else finite
    played = finite.any("trial")
    whole = (finite | ~played).all(over).transpose("trial", ...)
    array = array if finite.all() else array.where(finite)
    if whole.all() and (asked == played).all():
        return placed(estimate(array), array)
    cells, n = whole.isel(trial=0, drop=True), array.sizes["trial"]
    patterns, which = np.unique(
        np.packbits(whole.values.reshape(n, -1), axis=0), axis=1, return_inverse=True
    )
    result = xarray.Dataset()
    for i, pattern in enumerate(np.unpackbits(patterns, axis=0, count=n).T):
        enough = pattern.sum() >= max(fewest, 1)
        cells_of_pattern = cells.copy(data=(which == i).reshape(cells.shape) & enough)
        values = estimate(array.isel(trial=np.flatnonzero(pattern)) if enough else array)
        values = values.drop_vars("trials", errors="ignore")
        result = values.where(cells_of_pattern, result) if i else values.where(cells_of_pattern)
    trials = whole.sum("trial").where(played.any(over), 0).where(asked.any(over))
    trials.attrs = {"of": n}
    if over:  # The number of trials does not show which of the combined cells failed.
        failed = _named(lacking.where(asked & ~played))
        texts = [f"all{at}" if c == n else f"{c:.0f} of {n}{at} (left out)" for c, at in failed]
        trials.attrs["failed"] = "; ".join(texts)
    return placed(result.assign(trials=trials.variable), array)


def placed(estimate: xarray.Dataset, array: xarray.DataArray) -> xarray.Dataset:
    """An estimate with the coordinates of its array that have no other axes.

    Declared privacy is kept if it is the same along the other axes. The trust models along them are
    joined.
    """
    axes = {*estimate[next(iter(estimate))].dims}
    coords = {
        name: values for name, values in array.coords.items() if name not in estimate.variables
    }
    if {"privacy_model", "privacy_epsilon"} <= {*coords}:
        models = quantities.models(array).reset_coords(drop=True)
        coords["privacy_model"] = models if {*models.dims} <= axes else xarray.apply_ufunc(
            quantities.joined, models, input_core_dims=[[n for n in models.dims if n not in axes]],
            vectorize=True)  # fmt: skip
    for name in ("privacy_epsilon", "privacy_delta"):
        if name in coords:
            values = coords[name].reset_coords(drop=True)
            first = values.isel({axis: 0 for axis in values.dims if axis not in axes})
            coords[name] = (
                first if ((values == first) | (values.isnull() & first.isnull())).all() else values
            )
    kept = {name: values.variable for name, values in coords.items() if {*values.dims} <= axes}
    return estimate.assign_coords(kept)


def used(estimate: xarray.Dataset, otherwise: int = 0) -> xarray.DataArray:
    """The number of trials behind an estimate, without those that chose a setting."""
    trials = estimate.get("trials", xarray.DataArray(estimate.attrs.get("trials", otherwise)))
    if "chosen_on" not in estimate.attrs:
        return trials
    return trials - (trials // 2).where(estimate.coords.get("tuned", True), 0)


def number(estimate: xarray.Dataset, otherwise: int | None = None) -> str:
    """The number of trials of an estimate in words, such as "20 to 30"."""
    if "trials" not in estimate.attrs and "trials" not in estimate:
        return str(otherwise)
    some = used(estimate)
    some = some.where(some > 0)
    ends = some.min().item(), some.max().item()
    return " to ".join(dict.fromkeys(f"{end:.0f}" for end in ends))


def lost(estimate: xarray.Dataset) -> str:
    """A sentence on trials of an estimate that do not count; "" if all count."""
    if "trials" not in estimate:
        return ""
    trials = estimate["trials"]
    of = trials.attrs.get("of", int(trials.max()))
    failed = [*filter(None, trials.attrs.get("failed", "").split("; "))]
    fewer = trials.where((trials < of) & (trials >= bool(failed)))
    texts = [f"{of - count:.0f} of {of}{at}" for count, at in _named(fewer)] + failed
    more = [f"and some in {len(texts) - 3} other cells"] if len(texts) > 3 else []
    sentence = "Trials that failed or were not played do not count"
    return f"{sentence}: {'; '.join(texts[:3] + more)}."


def _named(values) -> list[tuple[float, str]]:
    """The values of cells that are not NaN, with the cells in words.

    An axis is not named if it is the round, or if the values are the same along it.
    """
    for name in values.dims:
        same = values.min(name)
        if name == "round" or ((values == same) | same.isnull()).all():
            values = same
    labels = [values[name].values.tolist() for name in values.dims]
    cells = []
    for cell in np.argwhere(values.notnull().values):
        pairs = zip(values.dims, labels, cell, strict=True)
        at = ", ".join(f"{name} = {part[i]}" for name, part, i in pairs)
        cells.append((values.values[tuple(cell)], f" at {at}" if at else ""))
    return cells


def count_censored(estimate: xarray.Dataset, array: xarray.DataArray) -> xarray.Dataset:
    """The estimate of stopping times with the variable ``censored``: trials that did not stop.

    The array then has the coordinate ``report_stopped``.
    """
    array = estimate.get(array.name, array)  # the trials of a choice
    if "report_stopped" not in array.coords or "censored" in estimate:
        return estimate
    late = (array.coords["report_stopped"] == 0.0).where(counts(array)).reset_coords(drop=True)
    over = [name for name in late.dims if name not in estimate[next(iter(estimate))].dims]
    cells = np.prod([late.sizes[name] for name in over if name != "trial"], dtype=int)
    censored = late.sum(over, min_count=1).assign_attrs(cells=int(cells))
    return estimate.assign(censored=censored.variable)


def censored(estimate: xarray.Dataset) -> str:
    """A sentence on the trials of each learner that did not stop; "" if all stopped."""
    if "censored" not in estimate:
        return ""
    late, trials = estimate["censored"], used(estimate) * estimate["censored"].attrs["cells"]
    trials = trials.broadcast_like(late).where(late.notnull())
    texts = []
    for i in range(late.sizes.get("learner", 1)):
        at: dict[Hashable, int] = {"learner": i} if "learner" in late.dims else {}
        values = late.isel(at)
        at |= {name: 0 for name in values.dims if not quantities.takes(estimate, values, str(name))}
        values, name = late.isel(at), values["learner"].item() if "learner" in values.coords else ""
        if values.sum() > 0:
            count = f"{values.sum().item():.0f} of {trials.isel(at).sum().item():.0f} trials"
            texts.append(count + (name and f" of {name}"))
    return f"{', '.join(texts)} did not stop and are censored at the horizon." if texts else ""


def incomplete(estimate: xarray.Dataset) -> str:
    """Sentences on trials of an estimate that do not count or did not stop."""
    return " ".join(filter(None, [lost(estimate), censored(estimate)]))


def remarks(estimate: xarray.Dataset) -> str:
    """Those of :func:`incomplete`, and one on intervals of few trials."""
    return " ".join(filter(None, [incomplete(estimate), estimate.attrs.get("caution")]))


def cautioned(
    estimate: xarray.Dataset, trials: int, intervals: str = "intervals of skewed trials"
) -> xarray.Dataset:
    """The estimate, with the attribute ``caution`` if an interval has fewer than FEW trials."""
    shown = estimate["low"].notnull()
    if not (estimate.get("trials", xarray.DataArray(trials)).where(shown) < FEW).any():
        return estimate
    sentence = f"With fewer than {FEW} trials, {intervals} cover the true value too seldom."
    return estimate.assign_attrs(caution=sentence)


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress the warnings of estimates, for callers that warn once of all of them."""
    token = _QUIET.set(True)
    try:
        yield
    finally:
        _QUIET.reset(token)


def warn(sentences: str, name: str, stacklevel: int = 3) -> None:
    """Warn with the remarks on a variable, if there are any, except inside :func:`quiet`."""
    if sentences and not _QUIET.get():
        warnings.warn(f"{name}: {sentences}", RuntimeWarning, stacklevel=stacklevel + 1)


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
    """Means over resampled trials, with the dimension ``draw`` in place of ``trial``.

    With fewer than FEW trials n, draws are around the means by Student's law with n - 1 degrees of
    freedom and the trials' covariance. So percentiles of a linear function of the means are the
    ends of Student's interval.
    """
    trials = array.sizes["trial"]
    if trials < FEW:
        generator = np.random.default_rng(SEED)
        noise = generator.normal(size=(DRAWS, trials))
        noise -= noise.mean(axis=1, keepdims=True)
        scale = np.sqrt(trials * generator.chisquare(trials - 1, (DRAWS, 1)))
        drawn = 1 / trials + noise / scale
    else:
        drawn = resampled_counts(trials) / trials
    weights = xarray.DataArray(drawn, dims=["draw", "trial"])
    return xarray.dot(weights, bare(array), dim="trial")


def interval(drawn: xarray.DataArray, confidence: float) -> tuple:
    """The lower and upper percentile of draws along the dimension ``draw``.

    The function of a draw may not exist. Then the draw can be on both sides.
    """
    drawn = drawn.transpose("draw", ...)
    low, _ = percentiles(drawn.fillna(-np.inf).values, confidence)
    _, high = percentiles(drawn.fillna(np.inf).values, confidence)
    return drawn[0].copy(data=low), drawn[0].copy(data=high)


def percentiles(drawn: np.ndarray, confidence: float) -> np.ndarray:
    """The two percentiles (2, ...) of draws (B, ...); they are draws and may be infinite."""
    edges = [(1.0 - confidence) / 2, (1.0 + confidence) / 2]
    return np.quantile(drawn, edges, axis=0, method="nearest")
