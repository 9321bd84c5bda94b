"""The quantities of a figure: an estimate of trials, or an estimate that was made before."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import xarray

# Axes in the units of the field.
_UNITS = {"round": "round t", "horizon": "horizon T, rounds", "arms": "number of arms K",
          "epsilon": "epsilon that the learner was given", "dim": "dimension d",
          "final_regret": "regret at T", "regret": "regret",
          "report_stopping_time": "stopping time, rounds"}  # fmt: skip


class Quantity(NamedTuple):
    """What the panels of a figure show: a centre, with a band from low to high."""

    label: str
    found: xarray.Dataset  # its first variable is the centre; with low and high
    settings: Any = None  # the values of an axis, if the centre is a place on it
    candidates: Any = None  # which of them are candidates, along this axis and those of ``found``

    @property
    def centre(self) -> str:
        """The name of the centre."""
        return str(next(iter(self.found)))

    def sel(self, at: dict) -> "Quantity":
        """The part of a panel or of a curve."""
        candidates = None if self.candidates is None else self.candidates.sel(at)
        return self._replace(found=self.found.sel(at), candidates=candidates)

    def squeezed(self, kept: Collection) -> "Quantity":
        """The quantity without axes of a single value, apart from those to keep."""
        single = [n for n in self.found.dims if self.found.sizes[n] == 1 and n not in kept]
        candidates = None if self.candidates is None else self.candidates.squeeze(single)
        return self._replace(found=self.found.squeeze(single), candidates=candidates)


def label(name: str, attributes: Mapping = MappingProxyType({})) -> str:
    """The label of an axis: its attribute ``long_name``, or a text by its name."""
    return attributes.get("long_name") or _UNITS.get(name, name.replace("_", " "))


def of_estimate(data: xarray.Dataset, y: str | None) -> list[Quantity]:
    """The quantities of a Dataset that an estimator returned.

    Those of :func:`dpjax.report.choice.tune` are the chosen setting, whose band goes from the least
    candidate to the largest one, and the mean of the tuned learner. Others have one quantity.

    Args:
      data: the Dataset of an estimate.
      y: the name of one quantity, or None for all.

    Raises:
      ValueError: the data are not an estimate with an interval, or have no such quantity.
    """
    centre = str(next(iter(data.data_vars), ""))
    if not {centre, "low", "high"} <= {*data.data_vars}:
        raise ValueError(
            "data: a figure needs trials or an estimate with low and high; the data have neither "
            "a dimension trial nor these variables. Select a trial as a list, trial=[0]"
        )
    shown = label(str(data.attrs.get("variable", centre)))
    found = {centre: Quantity(shown, data[[centre, "low", "high"]])}
    if "candidate" in data:
        own = Quantity(f"{shown}, tuned", data[[centre, "low", "high"]])
        axes = [str(name) for name in data["candidate"].dims if f"chosen_{name}" in data]
        found = {f"chosen_{axis}": _chosen(data, axis, axes) for axis in axes} | {centre: own}
    if y is not None and y not in found:
        raise ValueError(f"y: the estimate has no {y!r}, but {', '.join(found)}")
    return [*found.values()] if y is None else [found[y]]


def _chosen(data, axis, axes) -> Quantity:
    """The chosen value of an axis of settings, with the range of its candidates."""
    values = data[axis].values
    at, _ = places(values)
    place = dict(zip(values.tolist(), at.tolist(), strict=True))
    chosen = data[f"chosen_{axis}"]
    at_chosen = [place.get(value, np.nan) for value in chosen.values.ravel().tolist()]
    centre = chosen.copy(data=np.reshape(at_chosen, chosen.shape))
    candidates = data["candidate"].any([name for name in axes if name != axis])
    along = xarray.DataArray(at, {axis: values}, [axis])
    own = along.where(candidates)
    found = xarray.Dataset({"chosen": centre, "low": own.min(axis), "high": own.max(axis)})
    takes = data.coords.get(f"takes_{axis}")
    found = found if takes is None else found.where(takes)
    candidates = candidates.assign_coords({axis: at})
    return Quantity(f"best {label(axis)}", found.assign_attrs(data.attrs), values, candidates)


def places(values) -> tuple:
    """The places of values on an axis, and that of infinity if it is among them."""
    if values.dtype.kind not in "iuf":
        return np.arange(float(len(values))), None
    finite = values[np.isfinite(values)]
    if len(finite) == len(values):
        return values.astype(np.float64), None
    if not len(finite):
        return np.zeros(len(values)), 0.0
    step = finite[-1] / finite[-2] if len(finite) > 1 and finite[-2] > 0 else 3.0
    beyond = finite.max() * max(step, 3.0)
    return np.where(np.isfinite(values), values, beyond), beyond
