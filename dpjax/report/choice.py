"""The worst case and the best setting among the cells of a study.

Arrays are as in :mod:`dpjax.report.estimates`. Intervals account for the choice, by a band that is
simultaneous over all cells or by trials that the choice has not used.
"""

import operator
from collections.abc import Sequence
from functools import partial, reduce

import numpy as np
import scipy
import xarray

from dpjax.report import arrays, estimates, quantities

_NOTE = "No epsilon includes the privacy cost of tuning on the data."


@arrays.estimator(
    "largest mean over {over}", label="{variable}", interval="simultaneous {percent} intervals"
)
def worst(
    array: xarray.DataArray, over: str = "environment", confidence: float = 0.95
) -> xarray.Dataset:
    """The largest mean along an axis, its place, and an interval.

    The interval is for the largest true mean. It comes from a band that is simultaneous over the
    axis, so it accounts for the choice of the largest mean.

    Returns:
      A Dataset of worst, low and high, and of the place of the largest mean, named like the axis.

    Examples:
      >>> import xarray
      >>> regret = xarray.DataArray(
      ...     [[1.0, 2.0, 6.0], [3.0, 5.0, 10.0]], {"learner": ["A", "B"]}, ["learner", "trial"])
      >>> found = choice.worst(regret, over="learner")
      >>> float(found["worst"]), str(found["learner"].item())
      (6.0, 'B')
    """
    estimate = estimates.band(array, over, confidence)
    centre = estimate["mean"]
    at = centre.fillna(-np.inf).argmax(over)
    parts = {
        "worst": centre.max(over),
        "low": estimate["low"].max(over),
        "high": estimate["high"].max(over),
        over: at.copy(data=array[over].values[at.values]),
    }
    parts |= {"trials": estimate["trials"]} if "trials" in estimate else {}
    return arrays.placed(xarray.Dataset(parts, attrs=estimate.attrs), array)


@arrays.estimator("mean", fewest=4, label="{variable}", interval=estimates.BAND)
def profile(array: xarray.DataArray, over: str = "gap", confidence: float = 0.95) -> xarray.Dataset:
    """The mean along an axis of instances, such as gaps, and an unbiased mean at the worst of them.

    The largest of several means is biased upwards. So, as in :func:`tune`, the worst place is
    chosen on one half of the trials, and its mean and interval come from the other half. The band
    of the mean along the axis is that of :func:`dpjax.report.estimates.band`.

    Returns:
      A Dataset of mean, standard_error, low and high along the axis, and of ``largest``, its
      interval ``largest_low`` and ``largest_high``, and its place ``largest_<axis>``.

    Examples:
      >>> import xarray
      >>> losses = [[1.0, 2.0, 1.0, 3.0], [9.0, 7.0, 8.0, 9.0]]
      >>> regret = xarray.DataArray(losses, {"gap": [0.1, 0.2]}, ["gap", "trial"])
      >>> found = choice.profile(regret)
      >>> float(found["largest_gap"]), float(found["largest"]), found["mean"].values.tolist()
      (0.2, 8.5, [1.75, 8.25])
    """
    estimate = estimates.band_of(array, over, confidence, fewest=4)
    held_out = tune(-array, over, confidence=confidence)
    parts = {"largest": -held_out["mean"], "largest_low": -held_out["high"]}
    parts |= {"largest_high": -held_out["low"], f"largest_{over}": held_out[f"chosen_{over}"]}
    return estimate.assign(parts)


@arrays.estimator("mean", fewest=4, label="{variable}, tuned", interval=estimates.STUDENT)
def tune(array: xarray.DataArray, *over: str, confidence: float = 0.95) -> xarray.Dataset:
    """The setting with the least mean, chosen on half of the trials and reported on the other half.

    The choice does not bias the reported mean. A setting is a candidate unless a one-sided paired
    test on the second half shows that it is worse than the chosen one. So the best setting is among
    the candidates with at least the given probability.

    A learner that takes none of these axes is not tuned: its estimate is that of all trials.

    The privacy cost of tuning on the data is not included in any epsilon.

    Args:
      array: with the dimension trial, at least four of them.
      *over: the axes of the settings.
      confidence: level of each cell's interval and of each cell's candidates.

    Returns:
      A Dataset of mean, standard_error, low and high of the chosen setting on the second half;
      ``chosen_<axis>`` for each axis of the settings, NaN for learners that do not take it; and
      ``candidate`` along these axes. The coordinate ``tuned`` is false for cells that take none of
      these axes. The array's variable has the trials of the second half at the chosen setting, for
      further estimates such as exponents. All learners have these trials, so that they stay paired.
      Other coordinates, such as ``privacy_epsilon``, are those of the chosen setting.

    Examples:
      >>> import xarray
      >>> losses = [[1.0, 2.0, 1.0, 3.0], [9.0, 7.0, 8.0, 9.0]]
      >>> regret = xarray.DataArray(losses, {"rate": [0.1, 0.2]}, ["rate", "trial"])
      >>> found = choice.tune(regret, "rate")
      >>> float(found["chosen_rate"]), float(found["mean"])
      (0.1, 2.0)
    """
    axes = list(over)
    for name in axes:
        arrays.axis_values(array, name)
    words = ", ".join(f"{quantities.word(name)}{quantities.takers(array, name)}" for name in axes)
    tuned = reduce(operator.or_, (_takes(array, name, axes) for name in axes))
    tuned = tuned | array.isnull().all([name for name in array.dims if name not in tuned.dims])
    others = "" if tuned.all() else "The others are estimated from all trials. "
    note = f"Tuned in each cell, on the other half of the trials: {words}. {others}{_NOTE}"
    note = note if tuned.any() else f"Not tuned, because no learner takes {' or '.join(axes)}."
    array = array.assign_coords(trial=array["trial"], tuned=tuned)
    choose = partial(_tune, axes=axes, confidence=confidence, trials=array["trial"])
    estimate = arrays.by_trials(array, choose, axes, fewest=4)
    at, played = estimate["at"].fillna(0.0).astype(int), estimate["mean"].notnull()
    held = estimate["held"] == 1.0
    estimate = estimate.drop_vars(["at", "held", "trial"]).assign(
        candidate=estimate["candidate"] == 1.0
    )
    numbers = np.unravel_index(at.values, [array.sizes[name] for name in axes])
    place = {name: at.copy(data=values) for name, values in zip(axes, numbers, strict=True)}
    for coordinate, values in array.coords.items():
        if coordinate not in array.dims and "trial" not in values.dims:
            values = values.isel({axis: place[axis] for axis in axes if axis in values.dims})
            estimate = estimate.assign_coords({coordinate: values.variable})
    for name in axes:
        chosen = at.copy(data=array[name].values[place[name].values])
        estimate[f"chosen_{name}"] = chosen.where(played & _takes(estimate, name))
    if array.name is not None:
        kept = [name for name in array.coords if name in (*array.dims, "report_stopped")]
        values = array.drop_vars([name for name in array.coords if name not in kept])
        values = values.isel({name: index.reset_coords(drop=True) for name, index in place.items()})
        values = values.drop_vars(axes).where(held)
        estimate = arrays.count_censored(estimate, values)
        used = (held & tuned if tuned.any() else held).any([n for n in held.dims if n != "trial"])
        estimate[array.name] = values.isel(trial=np.flatnonzero(used)).assign_attrs(note=note)
    half = "half of the" if "trials" in estimate else array.sizes["trial"] // 2
    best = (f"the least mean of {half} trials, with the settings that are not significantly worse "
            f"in the other trials, at {100 * confidence:g} %")  # fmt: skip
    return estimate.assign_attrs(chosen_on=half, chosen=best, note=note)


def _takes(data, name, over=()) -> xarray.DataArray:
    """Whether cells, or some cell along ``over``, take an axis."""
    values = data.coords.get(f"takes_{name}", xarray.DataArray(True)).reset_coords(drop=True)
    return values.any([axis for axis in values.dims if axis in over])


def _tune(array, axes, confidence, trials) -> xarray.Dataset:
    """:func:`tune` of trials that count in all played cells.

    ``at`` is the place of the choice, and ``held`` is 1 for the trials of the estimate: those of
    the second half, or all if nothing was chosen.
    """
    half, flat = array.sizes["trial"] // 2, arrays.bare(array).stack(_setting=axes)
    halves = flat.isel(trial=slice(half)), flat.isel(trial=slice(half, None))
    means = halves[0].mean("trial", skipna=False)
    at = means.fillna(np.inf).argmin("_setting")
    chosen = halves[1].isel(_setting=at).drop_vars(["_setting", *axes])
    first = flat.isel(_setting=0).drop_vars(["_setting", *axes])
    estimate, every = (
        estimates.mean(values, confidence).drop_vars("trials", errors="ignore")
        for values in (chosen, first)
    )
    worse = estimates.mean(halves[1] - chosen, confidence)
    single = scipy.special.stdtrit(chosen.sizes["trial"] - 1, confidence)
    # A difference of exactly 0 is no evidence, because two settings may be the same game.
    candidate = ~(worse["mean"] > single * worse["standard_error"]) & means.notnull()
    tuned = array["tuned"].reset_coords(drop=True)
    held, all_held = (
        xarray.ones_like(values["trial"], float).reindex(trial=trials, fill_value=0.0)
        for values in (chosen, array)
    )
    return estimate.where(tuned, every).assign(
        candidate=candidate.unstack("_setting") & tuned, at=at, held=held.where(tuned, all_held)
    )


@arrays.estimator("mean", fewest=4, label="{variable}, frontier", interval=estimates.STUDENT)
def frontier(
    array: xarray.DataArray,
    over: str = "epsilon",
    settings: Sequence[str] | None = None,
    confidence: float = 0.95,
) -> xarray.Dataset:
    """The least mean over all settings, at each level of declared privacy.

    All cells whose declared epsilon is at most the level compete. The winner is chosen and reported
    as in :func:`tune`. Cells may differ in trust model and delta; ``chosen_model`` is the winner's
    model.

    Args:
      array: from the data of a study, with the coordinates privacy_epsilon and privacy_model.
      over: the axis whose values are the levels.
      settings: the axes of the settings, including ``over``; by default the learner and each axis
        of the grid that holds fractional numbers.
      confidence: level of each interval.

    Examples:
      >>> import xarray
      >>> axes, cells = ("learner", "epsilon"), np.array([[8.0, 6.0], [9.0, 3.0]])
      >>> regret = xarray.DataArray(
      ...     cells[..., None] + [0.0, 0.1, 0.2, 0.3],
      ...     {"learner": ["A", "B"], "epsilon": [0.1, 1.0],
      ...      "privacy_epsilon": (axes, [[0.1, 1.0], [0.1, 1.0]]),
      ...      "privacy_model": (axes, [["central"] * 2] * 2)}, (*axes, "trial"))
      >>> choice.frontier(regret, settings=axes)["chosen_learner"].values.tolist()
      ['A', 'B']
    """
    if settings is None:
        grid = [str(name) for name in array.dims if f"takes_{name}" in array.coords]
        settings = ["learner", *(n for n in grid if array[n].dtype.kind == "f")]
    words = ", ".join(map(quantities.word, settings))
    note = (f"At each level, the best setting ({words}) that declares at most this {over}, chosen "
            f"on the other half of the trials. {_NOTE}")  # fmt: skip
    declared, models = array["privacy_epsilon"], quantities.models(array)
    winners = []
    for level in array[over].values:
        allowed = declared <= level * (1.0 + 1e-5)
        # A cell without a declaration is not expected to be played.
        values = array.where(allowed).assign_coords(privacy_epsilon=declared.where(allowed))
        best = tune(values, *settings, confidence=confidence)
        at = {name: best[f"chosen_{name}"].fillna(array[name].values[0]) for name in settings}
        model = models.sel(at).reset_coords(drop=True)
        best["chosen_model"] = model.where(best["mean"].notnull(), "")
        # The declared epsilon of the setting may be smaller than the level.
        best = best.rename({f"chosen_{over}": "chosen_at"}).drop_dims(settings)
        best = best.drop_vars([n for n in best.coords if str(n).startswith(("takes_", "tuned"))])
        all_trials = xarray.full_like(best["mean"], array.sizes["trial"], int)
        all_trials.attrs = {"of": array.sizes["trial"]}
        best["trials"] = best.get("trials", all_trials)
        winners.append(best.assign_coords({over: level}))
    levels = xarray.concat(winners, over, combine_attrs="override", join="outer",
                           coords="different", compat="equals")  # fmt: skip
    levels[over].attrs["long_name"] = f"declared {over} at most"
    for described in (levels, *levels.data_vars.values()):
        described.attrs |= {"note": note} if "note" in described.attrs else {}
    # All settings compete at the largest level, so it names all that failed.
    trials = levels["trials"]
    trials.attrs = winners[np.argmax(array[over].values)]["trials"].attrs
    if (trials == array.sizes["trial"]).all() and not trials.attrs.get("failed"):
        return levels.drop_vars("trials")
    return levels.assign_attrs(chosen_on="half of the")
