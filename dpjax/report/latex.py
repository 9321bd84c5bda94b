"""Tables for LaTeX: means with standard errors, aligned by siunitx, the best ones in bold."""

import math
from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import xarray

from dpjax.report import arrays, captions, estimates, quantities
from dpjax.report.estimates import mean
from dpjax.report.tables import entry

_SPECIAL = {c: f"\\{c}" for c in "&%$#_{}"} | {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "∞": r"$\infty$",
}  # fmt: skip
HEAD = "% \\usepackage{booktabs, siunitx}\n% \\sisetup{separate-uncertainty, detect-weight}\n"


def escaped(value: object) -> str:
    """A name, a number or a caption as LaTeX text.

    Examples:
      >>> print(latex.escaped("dp_ucb"), latex.escaped(0.1), latex.escaped(np.inf))
      dp\\_ucb 0.1 $\\infty$
    """
    if isinstance(value, float) and math.isinf(value):
        return r"$\infty$"
    return "".join(_SPECIAL.get(c, c) for c in entry(value, digits=4))


def table(
    array: xarray.DataArray | xarray.Dataset,
    columns: str,
    confidence: float = 0.95,
    interval: bool = False,
    of: str | None = None,
    across: Mapping[str, Any] | None = None,
) -> str:
    """A tabular of means or proportions, with one axis as columns and the others as rows.

    A cell has the mean and its standard error (two digits of it), or the mean and its interval. If
    a learner does not take the column axis, its value is written once across all columns. A learner
    in bold is not significantly worse than the best one: Student's interval of their paired
    difference contains 0. They are compared in the same column, at the same values of all other
    axes, and a value across all columns is bold if it would be so in each.

    Args:
      array: with the dimension trial; or an estimate. Cells are bold only if it has trials, as
        those of ``tune`` have.
      columns: the axis whose values are the columns.
      confidence: level of the intervals and of the comparison.
      interval: whether to show intervals instead of standard errors, as for an estimate that has
        none.
      of: the name of the quantity, if the estimate has several; by default the first one. A cell
        of "chosen_mixing" has the chosen value, and the least and the largest candidate.
      across: labels -> further rows, such as bounds, as in :func:`dpjax.report.figures.figure`: a
        number, a value for each column, or an ``xarray.DataArray`` along the columns and rows.

    Returns:
      A tabular for the packages booktabs and siunitx, and sentences about its cells.

    Raises:
      TypeError: ``across`` is no dict.
      ValueError: there is no such axis, there are fewer than two trials, or a row of ``across``
        has other axes.

    Examples:
      >>> import xarray
      >>> regret = xarray.DataArray(
      ...     [[[1.0, 2.0, 6.0]], [[31.0, 50.0, 99.0]]], dims=["learner", "epsilon", "trial"],
      ...     coords={"learner": ["dp_ucb", "exp3"], "epsilon": [0.1]})
      >>> print(latex.table(regret, "epsilon").splitlines()[7])
      dp\\_ucb & \\bfseries 3.0 +- 1.5 \\\\
    """
    if isinstance(array, xarray.Dataset):
        first = str(next(iter(array.data_vars)))
        (quantity,) = quantities.of_estimate(array, of or first)
        trials = array.get(array.attrs.get("variable")) if of in (None, first) else None
        array = quantity.found[quantity.centre]
        why = "settings are not ranked" if quantity.settings else "the estimate has no trials"
    else:
        arrays.check(array, 2, confidence=confidence)
        with arrays.quiet():
            share = quantities.is_proportion(array)
            found = (estimates.proportion if share else mean)(array, confidence)
            trials = None if share else array
            why = "it is not known whether a small or a large proportion is better"
        arrays.warn(arrays.incomplete(found), str(array.name))
        (quantity,) = quantities.of_estimate(found, None)
    names = [str(name) for name in array.dims if name != "trial"]
    if columns not in names:
        raise ValueError(f"columns: {columns} is not an axis of the data: {', '.join(names)}")
    rows = [name for name in names if name != columns and array.sizes[name] > 1]
    single = [name for name in names if name not in (*rows, columns)]
    bounds = quantities.lines(across, array, columns, rows)
    left = rows or [""] * bool(bounds)
    quantity = quantity.squeezed((*rows, columns))
    found, centres = quantity.found, quantity.found[quantity.centre]
    arrays.refuse_empty(centres, array.name, "trial" if trials is not None else "estimate")
    if trials is None:
        best = xarray.zeros_like(centres, bool)
    else:
        with arrays.quiet():
            best = _not_worse(trials.squeeze(single), centres, confidence)
    takes = centres.coords.get(f"takes_{columns}")
    interval |= "standard_error" not in found
    # A quarter of an interval is about a standard error.
    errors = found.get("standard_error", (found["high"] - found["low"]) / 4)
    axis = quantities.label(columns, array[columns].attrs)
    heads = [escaped(value) for value in array[columns].values.tolist()]
    lines, still, ends = [], False, quantities.ENDS

    def cell(at, sign="+-", bold=None):
        centre, error = float(centres.sel(at)), float(errors.sel(at))
        if np.isnan(centre):
            return "{--}"
        if settings := quantity.settings:
            own = [escaped(settings[float(found[end].sel(at))]) for end in (quantity.centre, *ends)]
            return own[0] if own[1:] == own[:1] * 2 else "{} [{}, {}]".format(*own)
        digits = max(0, 1 - math.floor(math.log10(error))) if 0 < error < np.inf else 0
        digits = 2 if np.isinf(error) else digits
        low, high = (_number(float(found[end].sel(at)), digits) for end in ends)
        if np.isnan(error) and low == high:
            text = escaped(centre)
        elif interval:
            text = f"{_number(centre, digits)} [{low}, {high}]"
        else:
            text = f"{centre:.{digits}f} {sign} {error:.{digits}f}"
        return rf"\bfseries {text}" if bool(best.sel(at) if bold is None else bold) else text

    for values in product(*(array[name].values.tolist() for name in rows)):
        at = dict(zip(rows, values, strict=True))
        own = None if takes is None else takes.sel({n: at[n] for n in takes.dims if n in at})
        places = array[columns].values
        still |= bool((errors.sel(at) == 0).any())
        if own is not None and not bool(own.any()):
            once = cell(at | {columns: places[0]}, r"\textpm{}", bold=best.sel(at).all())
            texts = [rf"\multicolumn{{{len(places)}}}{{c}}{{{once}}}"]
        else:
            texts = [cell(at | {columns: place}) for place in places]
        lines.append(" & ".join([*map(escaped, values or left), *texts]) + r" \\")
    lines += [r"\midrule"] * bool(bounds)
    for name, bound in bounds.items():
        own = [row for row in rows if row in bound.dims]
        for values in product(*(array[row].values.tolist() for row in own)):
            at = dict(zip(own, values, strict=True))
            texts = [_bound(each) for each in bound.sel(at).values.ravel().tolist()]
            if len(texts) < len(heads):
                texts = [rf"\multicolumn{{{len(heads)}}}{{c}}{{{texts[0]}}}"]
            free = next((row for row in left if row not in own), left[0])
            at[free] = f"{name}, {quantities.text(at[free])}" if free in at else name
            lines.append(" & ".join([*(escaped(at.get(row, "")) for row in left), *texts]) + r" \\")
    kind = "c" if interval else f"S[table-format={_format(centres, errors)}]"
    beside = "" if interval else "standard errors"
    alone = (centres.notnull() & errors.isnull()).any() and trials is not None
    zero = "An interval without width" if interval else "A standard error of 0"
    note = " ".join(filter(None, [
        *map(escaped, captions.caption([quantity], array, (*rows, columns), beside)),
        "A mean alone: one trial." if alone else "",
        _about_bold(rows, columns, why if trials is None else ""),
        f"{zero}: all trials have the same value." if still and trials is not None else "",
    ]))  # fmt: skip
    note = note.replace(r" \%", r"\,\%")
    return (
        HEAD
        + f"\\begin{{tabular}}{{{'l' * len(left)}{kind * len(heads)}}}\n\\toprule\n"
        + "& " * len(left)
        + rf"\multicolumn{{{len(heads)}}}{{c}}{{{escaped(axis)}}} \\"
        + "\n"
        + " & ".join([*map(escaped, left), *(f"{{{head}}}" for head in heads)])
        + " \\\\\n\\midrule\n"
        + "\n".join(lines)
        + f"\n\\bottomrule\n\\end{{tabular}}\n{{\\par\\footnotesize {note}\\par}}\n"
    )


def _number(value, digits) -> str:
    """A number with fixed digits; infinity is a symbol."""
    return escaped(value) if math.isinf(value) else f"{value:.{digits}f}"


def _bound(value) -> str:
    """A number in a row of bounds."""
    if math.isnan(value):
        return "{--}"
    return f"{{{value:.0f}}}" if 1000 <= abs(value) < math.inf else f"{{{escaped(value)}}}"


def _about_bold(rows, columns, why) -> str:
    """A sentence on the learners that are compared, or ``why`` none are; "" for one learner."""
    if "learner" not in (*rows, columns):
        return ""
    if why:
        return f"No value is bold, because {why}."
    others = " and ".join(name.replace("_", " ") for name in rows if name != "learner")
    column = "" if columns == "learner" else " in the column"
    at = f", among learners at the same {others}" if others else ""
    return f"Bold: not significantly worse than the smallest mean{column}{at}."


def _not_worse(array, means, confidence) -> xarray.DataArray:
    """Whether each learner's mean is not significantly larger than the smallest one."""
    if "learner" not in array.dims:
        return xarray.zeros_like(array.isel(trial=0), bool)
    means = means.where(arrays.counts(array, 2).any("trial")).fillna(np.inf)
    best = array.isel(learner=means.argmin("learner"), drop=True)
    away = mean(array - best.drop_vars("learner", errors="ignore"), confidence)
    return away["low"] <= 0.0


def _format(centres, errors) -> str:
    """The siunitx table format: digits before and after the point, and digits of the errors."""
    errors = errors.values
    small = errors[errors > 0]
    after = max(0, 1 - math.floor(math.log10(small.min()))) if len(small) else 0
    whole = len(str(int(np.nanmax(np.abs(centres.values)))))
    width = len(str(round(small.max() * 10**after))) if len(small) else 1
    return f"{whole}.{after}({width})"
