"""Tables of results: rows from labelled data, formatted for files, terminals and pages."""

import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import xarray

from dpjax.report import arrays, quantities
from dpjax.report.arrays import named
from dpjax.report.output import writing


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


def filled(frame: pandas.DataFrame, axes: Iterable[Hashable]) -> pandas.DataFrame:
    """A table for print: NaN in the columns of ``axes`` is empty."""
    shown = {str(name): frame[name].astype(object) for name in axes if name in frame}
    return frame.assign(
        **{name: values.where(values.notnull(), "") for name, values in shown.items()}
    )


def rows(data: xarray.Dataset, order: Sequence[str], **names: str) -> list[dict]:
    """The cells of labelled data as rows of a table, without cells that were not played.

    Args:
      data: a Dataset; a cell was not played if its first variable is NaN.
      order: its dimensions; the last one varies fastest.
      **names: new names of columns, as in ``adversary="environment"``.
    """
    frame = data.to_dataframe(dim_order=list(order))
    frame = frame.dropna(subset=[next(iter(data.data_vars))]).reset_index()
    # A column that clashes with a new name is dropped, unless it has a new name itself.
    hidden = frame.columns.intersection(list(names)).difference(list(names.values()))
    frame = frame.drop(columns=hidden).rename(columns={old: new for new, old in names.items()})
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def columns(table: Sequence[dict], names: str) -> list[dict]:
    """The columns of a table that ``names`` lists, in that order."""
    return [{name: row[name] for name in names.split()} for row in table]


def format_table(table: Sequence[dict]) -> str:
    """The table for a terminal: aligned columns, and four digits."""
    header = list(table[0])
    cells = [header, *([entry(row[name], digits=4) for name in header] for row in table)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(header))]
    lines = ["  ".join(c.rjust(w) for c, w in zip(line, widths, strict=True)) for line in cells]
    return "\n".join(lines)


def format_markdown(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table of strings in Markdown."""
    every = [header, ["---"] * len(header), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in every) + "\n"


def write_csv(path: Path, table: Any) -> None:
    """Write rows or a DataFrame as CSV with a header and six digits; None is an empty entry.

    Raises:
      OSError: the file cannot be written.
    """
    # As objects, so that a column may mix integers, floats, strings and None.
    frame = pandas.DataFrame(table, dtype=object).map(entry)
    with writing(path.name):
        frame.to_csv(path, index=False, lineterminator="\n")


def read_rows(path: Path) -> list[dict]:
    """The rows of a CSV file, with None for empty entries."""
    frame = pandas.read_csv(path).astype(object)
    return frame.where(frame.notnull(), None).to_dict("records")  # type: ignore[return-value]


def entry(value: object, digits: int = 6) -> str:
    """The text of a table entry: floats with ``digits`` digits, None as empty."""
    if value is None:
        return ""
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)
