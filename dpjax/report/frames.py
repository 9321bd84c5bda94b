"""The cells of labelled data as rows of a DataFrame."""

import functools
from collections.abc import Callable, Sequence

import numpy as np
import pandas
import xarray

from dpjax.report import arrays, quantities
from dpjax.report.arrays import named


def cells(
    array: xarray.DataArray,
    estimates: Sequence[str | Callable] = ("mean",),
    confidence: float = 0.95,
) -> pandas.DataFrame:
    """Estimates of an array, one row per cell; see :meth:`dpjax.report.accessor.Accessor.table`."""
    result, trials = xarray.Dataset(), []
    notes: dict[str, None] = {}
    with arrays.quiet():
        for estimate in estimates:
            function = named(estimate, confidence)
            values = function(array).reset_coords(drop=True)
            notes |= dict.fromkeys(
                filter(None, [arrays.incomplete(values), values.attrs.get("caution")])
            )
            trials.append(arrays.used(values, array.sizes["trial"]))
            values = _centred(values)
            name = getattr(getattr(function, "func", function), "__name__", "estimate")
            if len(estimates) > 1:
                values = values.rename(
                    {n: f"{name}_{n}" for n in values.data_vars if n not in (name, "censored")}
                )
            result = result.merge(values)
    arrays.warn(" ".join(notes), str(array.name), stacklevel=3)
    order = [str(name) for name in array.dims if name in result.dims]
    reduced = [name for name in array.dims if name not in (*order, "trial")]
    expected = arrays.expected(array).any(reduced)
    counted = functools.reduce(np.minimum, trials)  # type: ignore[arg-type]
    return _frame(result, array, order, counted, expected, " ".join(notes))


def of_estimate(estimate: xarray.Dataset) -> pandas.DataFrame:
    """The cells of an estimate as rows; see :meth:`dpjax.report.accessor.Accessor.table`."""
    values = _centred(estimate)
    centre = values[next(iter(values.data_vars))]
    played = values.to_array().notnull().any("variable")
    expected = arrays.should_exist(played, centre.coords, estimate.attrs.get("variable"))
    trials = arrays.used(estimate)
    notes = filter(None, [arrays.remarks(estimate), estimate.attrs.get("note")])
    values = values.reset_coords(drop=True)
    order = [str(name) for name in centre.dims]
    return _frame(values, centre, order, trials.variable, expected, " ".join(notes))


def _centred(estimate) -> xarray.Dataset:
    """The variables of an estimate that have no other axes than its centre."""
    axes = {*estimate[next(iter(estimate.data_vars))].dims}
    kept = [name for name, values in estimate.data_vars.items() if {*values.dims} <= axes]
    return estimate[[name for name in kept if name != "trials"]]


def _frame(estimate, array, order, trials, expected, notes) -> pandas.DataFrame:
    """The expected cells of estimates as rows, with the declarations of their array."""
    taken = [name for name in order if f"takes_{name}" in array.coords]
    declared = {name: array.coords[name] for name in ("privacy_epsilon", "privacy_delta")
                if name in array.coords}  # fmt: skip
    if "privacy_model" in array.coords:
        declared["privacy_model"] = quantities.models(array)
    declared |= {f"takes_{name}": array.coords[f"takes_{name}"] for name in taken}
    for name, values in declared.items():
        if {*values.dims} <= {*order}:
            estimate[name] = values.variable
    estimate["trials"] = trials
    estimate["_expected"] = expected.reset_coords(drop=True)
    if not order:
        estimate = estimate.expand_dims("cell")
    frame = estimate.to_dataframe(dim_order=order or ["cell"]).reset_index()
    frame = frame if order else frame.drop(columns="cell")
    frame = frame[frame.pop("_expected").astype(bool)].astype({"trials": int})
    for name in taken:
        takes = frame.pop(f"takes_{name}").astype(bool)
        empty = "" if array[name].dtype.kind in "OU" else np.nan
        frame[name] = frame[name].where(takes, empty)
    frame = frame.drop_duplicates(subset=order) if order else frame
    frame.attrs["notes"] = notes
    return frame
