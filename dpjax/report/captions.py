"""The sentences below figures and tables, made of the quantities that they show."""

from collections.abc import Collection, Sequence

import numpy as np
import xarray

from dpjax.report import arrays, quantities
from dpjax.report.quantities import Quantity


def caption(
    shown: Sequence[Quantity], array: xarray.DataArray, axes: Collection = (), beside: str = ""
) -> list[str]:
    """Sentences on each quantity, the sizes, the trials that count, and the declared privacy.

    Args:
      shown: the quantities.
      array: with the coordinates of the data, such as sizes and declared privacy.
      axes: those that the figure or table shows.
      beside: the numbers beside the centres in words, by default the intervals of the estimate.
    """
    parts = [about(quantity, array, beside) for quantity in shown]
    parts += quantities.constants(array, axes)
    parts += dict.fromkeys(arrays.remarks(quantity.estimate) for quantity in shown)
    parts += dict.fromkeys(quantity.estimate.attrs.get("note", "") for quantity in shown)
    declared = models(shown[-1].estimate)
    parts.append(declared and f"Declared privacy: {declared}")
    return [f"{part.rstrip('.')}." for part in parts if part]


def about(quantity: Quantity, array: xarray.DataArray, beside: str = "") -> str:
    """The label of a quantity, its estimate, the numbers beside it, and the number of trials."""
    result = quantity.estimate
    estimate = result.attrs.get("estimate", "estimate")
    text = quantity.label if estimate in quantity.label else f"{quantity.label}: {estimate}"
    beside = beside or result.attrs.get("interval", "")
    text = f"{text[:1].upper()}{text[1:]}{beside and f' with {beside}'}"
    if quantity.settings is not None:
        return text
    return f"{text}; {arrays.number(result, array.sizes.get('trial'))} trials"


def models(data: xarray.Dataset | xarray.DataArray) -> str:
    """The learners of each trust model and those without declared privacy; "" if none declares."""
    if "privacy_model" not in data.coords:
        return ""
    declared = quantities.models(data)
    learners: dict[str, list[str]] = {}
    for values in declared if "learner" in declared.dims else [declared]:
        name = str(values["learner"].item()) if "learner" in values.coords else "the learner"
        models = quantities.joined(values.values)
        if models == "none":
            learners.setdefault("none", []).append(name)
        elif models:  # it was played
            learners.setdefault(f"{models} model", []).append(name + _differs(data, values))
    learners |= {"none": learners.pop("none")} if "none" in learners else {}
    if len(learners) == 1 and "epsilon" not in str(learners):
        return next(iter(learners))
    return "; ".join(f"{model} ({', '.join(names)})" for model, names in learners.items())


def _differs(data, values) -> str:
    """The declared epsilons of a learner, if they are not those of the axis epsilon."""
    if "privacy_epsilon" not in values.coords:
        return ""
    epsilon = values["privacy_epsilon"].reset_coords(drop=True)
    if not quantities.takes(data, values, "epsilon"):
        ends = (quantities.text(end(epsilon.values)) for end in (np.nanmin, np.nanmax))
        return f" at epsilon = {' to '.join(dict.fromkeys(ends))}"
    if "epsilon" not in values.coords:
        return ""
    asked = values["epsilon"].reset_coords(drop=True)
    asked, epsilon = xarray.broadcast(asked, epsilon)
    other = epsilon.notnull().values & ~np.isclose(epsilon, asked, rtol=1e-4)
    pairs = sorted({*zip(epsilon.values[other], asked.values[other], strict=True)})
    if len(pairs) > 3:
        least, largest = quantities.text(pairs[0][0]), quantities.text(pairs[-1][0])
        return f" with declared epsilon = {least} to {largest}"
    texts = [f"{quantities.text(value)} at epsilon = {quantities.text(at)}" for value, at in pairs]
    return f" with declared epsilon = {', '.join(texts)}" if texts else ""
