"""Tables for LaTeX: means with standard errors, aligned by siunitx, the best ones in bold."""

import math
from itertools import product

import numpy as np
import pandas
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
) -> str:
    """A tabular of means or proportions, with one axis as columns and the others as rows.

    A cell has the mean and its standard error (two digits of it), or the mean and its interval. A
    learner in bold is not significantly worse than the best one in the same column, at the same
    values of all other axes: Student's interval of their paired difference contains 0.

    Args:
      array: with the dimension trial; or an estimate. Cells are bold only if it has trials, as
        those of ``tune`` have.
      columns: the axis whose values are the columns.
      confidence: level of the intervals and of the comparison.
      interval: whether to show intervals instead of standard errors, as for an estimate that has
        none.
      of: the name of the quantity, if the estimate has several; by default the first one. A cell
        of "chosen_mixing" has the chosen value, and the least and the largest candidate.

    Returns:
      A tabular for the packages booktabs and siunitx, and sentences about its cells.

    Raises:
      ValueError: there is no such axis, or there are fewer than two trials.

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
        array = quantity.estimate[quantity.centre]
        why = "settings are not ranked" if quantity.settings else "the estimate has no trials"
    else:
        arrays.check(array, 2, confidence=confidence)
        with arrays.quiet():
            share = quantities.is_proportion(array)
            estimate = (estimates.proportion if share else mean)(array, confidence)
            trials = None if share else array
            why = "it is not known whether a small or a large proportion is better"
        arrays.warn(arrays.incomplete(estimate), str(array.name))
        (quantity,) = quantities.of_estimate(estimate, None)
    names = [str(name) for name in array.dims if name != "trial"]
    if columns not in names:
        raise ValueError(f"columns: {columns} is not an axis of the data: {', '.join(names)}")
    rows = [name for name in names if name != columns and array.sizes[name] > 1]
    single = [name for name in names if name not in (*rows, columns)]
    quantity = quantity.squeezed((*rows, columns))
    estimate, centres = quantity.estimate, quantity.estimate[quantity.centre]
    arrays.refuse_empty(centres, array.name, "trial" if trials is not None else "estimate")
    best = xarray.zeros_like(centres, bool)
    if trials is not None:
        with arrays.quiet():
            best = _not_worse(trials.squeeze(single), centres, confidence)
    interval |= "standard_error" not in estimate
    # A quarter of an interval is about a standard error.
    errors = estimate.get("standard_error", (estimate["high"] - estimate["low"]) / 4)

    def cell(at):
        error = float(errors.sel(at))
        numbers = [float(estimate[name].sel(at)) for name in (quantity.centre, *quantities.ENDS)]
        centre = numbers[0]
        if np.isnan(centre):
            return "{--}"
        if settings := quantity.settings:
            chosen, *ends = (escaped(settings[value]) for value in numbers)
            return chosen if ends == [chosen] * 2 else f"{chosen} [{', '.join(ends)}]"
        digits = max(0, 1 - math.floor(math.log10(error))) if 0 < error < np.inf else 0
        digits = 2 if np.isinf(error) else digits
        text, low, high = (_number(value, digits) for value in numbers)
        if np.isnan(error) and low == high:
            text = escaped(centre)
        else:
            text += f" [{low}, {high}]" if interval else f" +- {error:.{digits}f}"
        return rf"\bfseries {text}" if bool(best.sel(at)) else text

    left, places = rows or [""], array[columns].values.tolist()
    labels, texts = [], []
    for values in product(*(array[name].values.tolist() for name in rows)):
        at = dict(zip(rows, values, strict=True))
        labels.append([*map(escaped, values or left)])
        texts.append([cell(at | {columns: place}) for place in places])
    frame = pandas.DataFrame(
        texts, pandas.MultiIndex.from_tuples(labels, names=[*map(escaped, left)]),
        pandas.Index([*map(escaped, places)],
                     name=escaped(quantities.label(columns, array[columns].attrs))),
    )  # fmt: skip
    kind = "c" if interval else f"S[table-format={_format(centres, errors)}]"
    tabular = frame.style.to_latex(hrules=True, siunitx=True, sparse_index=False,
                                   column_format="l" * len(left) + kind * len(places))  # fmt: skip
    alone = (centres.notnull() & errors.isnull()).any() and trials is not None
    zero = "An interval without width" if interval else "A standard error of 0"
    note = " ".join(filter(None, [
        *map(escaped, captions.caption([quantity], array, (*rows, columns),
                                       "" if interval else "standard errors")),
        "A mean alone: one trial." if alone else "",
        _about_bold(rows, columns, why if trials is None else ""),
        f"{zero}: all trials have the same value." if trials is not None and (errors == 0).any()
        else "",
    ]))  # fmt: skip
    note = note.replace(r" \%", r"\,\%")
    return f"{HEAD}{tabular}{{\\par\\footnotesize {note}\\par}}\n"


def _number(value, digits) -> str:
    """A number with fixed digits; infinity is a symbol."""
    return escaped(value) if math.isinf(value) else f"{value:.{digits}f}"


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
