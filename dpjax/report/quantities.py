"""The quantities of a figure, from trials or from an estimate of them."""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import xarray

from dpjax.core import PyTree

# The terms for axes and constants: the label of an axis, and the word in a caption.
_TERMS = {"round": ("round t", "t"), "horizon": ("horizon T, rounds", "T"),
          "arms": ("number of arms K", "K"), "dim": ("dimension d", "d"),
          "experts": ("number of experts N", "N"),
          "epsilon": ("privacy parameter epsilon", "epsilon"),
          "failure": ("failure probability", "failure probability"),
          "rate": ("learning rate", "learning rate"),
          "parameter_bound": ("norm S of the parameter", "norm of the parameter S"),
          "feature_bound": ("norm L of the features", "norm of the features L"),
          "correct": ("correct recommendations", ""),
          "report_stopped": ("trials that stopped", ""),
          "final_regret": ("regret at T", ""), "regret": ("regret", ""),
          "report_stopping_time": ("stopping time, rounds", ""),
          "time": ("stopping time, rounds", ""),
          "error": ("proportion of wrong recommendations", ""),
          "stopped": ("proportion of trials that stopped", "")}  # fmt: skip
ENDS = "low", "high"  # of an interval
NOT_USED = "unused"  # the label of learners and environments that do not take an axis
# Values of an axis that differ by more than this factor have a logarithmic axis.
_WIDE = 8.0


class Along(NamedTuple):
    """The horizontal axis of a figure."""

    axis: str  # the data's axis along which curves go
    label: str
    places: xarray.DataArray  # along this axis and others; NaN for a mark beyond it
    ticks: np.ndarray  # the values that the axis shows
    infinity: float | None  # the place of infinity, if shown
    beyond: float | None  # the place of learners that do not take the axis

    def of(self, one: xarray.Dataset) -> np.ndarray:
        """The places (n,) of a curve."""
        values = self.places.sel(_single(one, self.places.dims))
        return values.max([name for name in values.dims if name != self.axis]).values


class Quantity(NamedTuple):
    """A quantity that panels of a figure show: a centre, with a band from low to high."""

    label: str
    estimate: xarray.Dataset  # its first variable is the centre; with low and high
    settings: dict | None = None  # place -> value in words, if the centre is a place on an axis
    candidates: Any = None  # whether each is a candidate, along this axis and those of the estimate

    @property
    def centre(self) -> str:
        """The name of the centre."""
        return str(next(iter(self.estimate)))

    def sel(self, at: dict) -> "Quantity":
        """The part for a panel or a curve."""
        candidates = None if self.candidates is None else self.candidates.sel(at)
        return self._replace(estimate=self.estimate.sel(at), candidates=candidates)

    def squeezed(self, kept: Collection) -> "Quantity":
        """The quantity without axes of one value, except those to keep."""
        single = [n for n in self.estimate.dims if self.estimate.sizes[n] == 1 and n not in kept]
        candidates = None if self.candidates is None else self.candidates.squeeze(single)
        return self._replace(estimate=self.estimate.squeeze(single), candidates=candidates)


def label(name: str, attributes: Mapping = MappingProxyType({})) -> str:
    """The label of an axis: its attribute ``long_name``, or the term for its name."""
    return attributes.get("long_name") or _TERMS.get(name, [name.replace("_", " ")])[0]


def word(name: str) -> str:
    """The name of a constant in a caption."""
    return _TERMS.get(name, ("", name.replace("_", " ")))[1]


def variable(data: xarray.Dataset, name: str) -> xarray.DataArray:
    """A variable; that of stopping times has the coordinate ``report_stopped``.

    Raises:
      ValueError: the data have no such variable; the message lists those of the trials.
    """
    if name not in data.data_vars:
        names = [str(n) for n, values in data.data_vars.items() if "trial" in values.dims]
        raise ValueError(f"of: the data have no {name!r}; they have {', '.join(names)}")
    if name == "report_stopping_time" and "report_stopped" in data.data_vars:
        data = data.set_coords("report_stopped")
    return data[name]


def is_proportion(array: xarray.DataArray) -> bool:
    """Whether each trial is true or false, so that the mean is a proportion."""
    return array.dtype == bool or array.attrs.get("units") == "0 or 1"


def is_estimate(data: xarray.Dataset) -> bool:
    """Whether data were returned by an estimator; those of a choice have trials, too."""
    return "estimate" in data.attrs


def models(data: xarray.Dataset | xarray.DataArray) -> xarray.DataArray:
    """The trust model of each cell: "none" if it declares no privacy, "" if that is unknown."""
    if "privacy_epsilon" not in data.coords:
        return data["privacy_model"]
    epsilon = data["privacy_epsilon"]
    values = data["privacy_model"].where(np.isfinite(epsilon), "none").where(epsilon.notnull(), "")
    return values.assign_attrs(data["privacy_model"].attrs)


def joined(models: np.ndarray) -> str:
    """The trust models of some cells in words, without those that declare no privacy."""
    different = {*models.ravel().tolist()} - {""}
    return " and ".join(sorted(different - {"none"})) or ("none" if different else "")


def lines(
    across: Mapping[str, Any] | None, array: xarray.DataArray, axis: str, facets: Sequence[str]
) -> dict[str, xarray.DataArray]:
    """Lines across panels, by their names.

    Args:
      across: name -> a number, a value for each of the axis, or an array with labelled axes.
      array: with the axes of the figure.
      axis: along which curves go.
      facets: the axes of the panels.

    Raises:
      TypeError: ``across`` is no dict.
      ValueError: some values have another shape or other axes, or none is a number.
    """
    across = {} if across is None else across
    if not isinstance(across, Mapping):
        raise TypeError("across: pass a dict of labels and lines, such as "
                        f'across={{"bound": values}}, not {type(across).__name__}')  # fmt: skip
    return {name: _line(f"across: {name!r}", values, array, axis, facets)
            for name, values in across.items()}  # fmt: skip


def _line(of, values, array, axis, facets) -> xarray.DataArray:
    """One of :func:`lines`, called ``of`` in messages."""
    if not isinstance(values, xarray.DataArray):
        shape = np.shape(values)
        if np.asarray(values).dtype.kind not in "iuf":
            raise ValueError(f"{of} must be a number or numbers, got {values!r}")
        if shape not in ((), array[axis].shape):
            raise ValueError(f"{of} has shape {shape}; pass a number, one for each of the "
                             f"{array.sizes[axis]} values of {axis}, or a DataArray")  # fmt: skip
        values = xarray.DataArray(np.asarray(values, np.float64), dims=[axis][: len(shape)])
    for dim in values.dims:
        if dim not in (axis, *facets):
            raise ValueError(f"{of} has the axis {dim}; allowed are {', '.join([axis, *facets])}")
        if dim not in values.coords and values.sizes[dim] == array.sizes[dim]:
            values = values.assign_coords({dim: array[dim].values})
        labels = values[dim].values  # 0, 1, ... for an axis without labels
        if lacking := [x for x in array[dim].values.tolist() if x not in labels]:
            raise ValueError(f"{of} has no value at {dim} = {lacking[0]}")
    values = values.sel({dim: array[dim].values for dim in values.dims}).reset_coords(drop=True)
    if not np.isfinite(values).any():
        raise ValueError(f"{of}: no value is finite, so there is nothing to show")
    return values


def constants(array: xarray.DataArray, roles: Collection = ()) -> list[str]:
    """The learner and environment, and the sizes, that an array has only one of, for captions.

    Axes in ``roles`` are left out, because a figure or a table shows them.
    """
    single = {str(name): values.item() for name, values in array.coords.items()
              if values.size == 1 and name not in (*roles, "round") and "trial" not in values.dims
              and not str(name).startswith(("privacy_", "takes_"))}  # fmt: skip
    where = ", ".join(f"{n}: {single.pop(n)}" for n in ("learner", "environment") if n in single)
    sizes = [f"{word(name)} = {text(value)}{takers(array, name)}" for name, value in single.items()
             if takes(array, array, name)]  # fmt: skip
    return [where[:1].upper() + where[1:], ", ".join(sizes)]


def takers(array: xarray.DataArray, name: str) -> str:
    """The learners that take an axis or a constant, in parentheses, if others do not."""
    values = array.coords.get(f"takes_{name}")
    if values is None or "learner" not in values.dims or bool(values.all()):
        return ""
    values = values.any([axis for axis in values.dims if axis != "learner"])
    names = values["learner"].values[values.values]
    return "" if values.all() else f" ({', '.join(names)})"


def text(value: object) -> str:
    """A value of an axis with four digits."""
    value = np.asarray(value).item()
    return f"{value:.4g}".replace("inf", "∞") if isinstance(value, float) else str(value)


def of_estimate(data: xarray.Dataset, of: str | None) -> list[Quantity]:
    """The quantities of a Dataset that an estimator returned.

    For :func:`dpjax.report.choice.tune` these are the chosen setting, with a band from the smallest
    to the largest candidate, and the mean of the tuned learner. The setting of a learner that
    does not take the axis is beyond all others. For
    :func:`dpjax.report.identification.identification` these are the stopping time, the error and
    the share of trials that stopped. Other estimates have one quantity.

    Args:
      data: the Dataset of an estimate.
      of: the name of one quantity, or None for all.

    Raises:
      ValueError: the data are not an estimate with an interval, or have no such quantity.
    """
    centre = str(next(iter(data.data_vars), ""))
    parts = {}
    for name, values in data.data_vars.items():
        prefix = "" if name == centre and "low" in data else f"{name}_"
        if values.dims == data[centre].dims and {f"{prefix}{end}" for end in ENDS} <= {
            *data.data_vars
        }:
            parts[str(name)] = _part(data, str(name), prefix)
    if centre not in parts:
        raise ValueError(
            "data: a figure needs trials or an estimate with low and high; the data have neither "
            "a dimension trial nor these variables. Select a trial as a list, trial=[0]"
        )
    if "candidate" in data:
        axes = [str(name) for name in data["candidate"].dims if f"chosen_{name}" in data]
        parts = {f"chosen_{axis}": _chosen(data, axis, axes) for axis in axes} | parts
    if of is not None and of not in parts:
        raise ValueError(f"of: the estimate has no {of!r}; it has {', '.join(parts)}")
    return [*parts.values()] if of is None else [parts[of]]


def _part(data, name, prefix) -> Quantity:
    """One quantity of an estimate; the names of its interval and its error have a prefix."""
    names = {f"{prefix}{end}": end for end in ("standard_error", *ENDS)}
    names = {name: name, **names, "trials": "trials", "censored": "censored"}
    names = {old: new for old, new in names.items() if old in data}
    estimate = data[[*names]].rename(names).assign_attrs(data[name].attrs)
    variable = str(data.attrs.get("variable", name))
    shown = data.attrs.get("label") or label(variable, data[name].attrs)
    return Quantity(shown, estimate)


def _chosen(data, axis, axes) -> Quantity:
    """The chosen value of an axis of settings, with the range of its candidates."""
    values = data[axis].values
    at, _ = places(values)
    place = dict(zip(values.tolist(), at.tolist(), strict=True))
    settings = {at: text(value) for value, at in place.items()}
    chosen = data[f"chosen_{axis}"]
    untaken = chosen.isnull() & data[next(iter(data))].notnull()
    beyond = _beyond(at)
    if untaken.any():
        settings[beyond] = NOT_USED
    at_chosen = [place.get(value, np.nan) for value in chosen.values.ravel().tolist()]
    centre = chosen.copy(data=np.reshape(at_chosen, chosen.shape))
    candidates = data["candidate"].any([name for name in axes if name != axis])
    along = xarray.DataArray(at, {axis: values}, [axis])
    part = along.where(candidates)
    result = xarray.Dataset({"chosen": centre, "low": part.min(axis), "high": part.max(axis)})
    candidates = candidates.assign_coords({axis: at})
    result = result.where(~untaken, beyond)
    result = result.assign_attrs(data.attrs, estimate=data.attrs["chosen"], interval="")
    return Quantity(f"best {label(axis)}", result, settings, candidates)


def along(array: xarray.DataArray, axis: str) -> Along:
    """The horizontal axis of the values of an axis."""
    values = array[axis].values
    at, infinity = places(values)
    along = xarray.DataArray(at, {axis: values}, [axis])
    beyond = None if takes_everywhere(array, axis) else _beyond(at)
    if beyond is not None:
        along = along.where(array.coords[f"takes_{axis}"])
    return Along(axis, label(axis, array[axis].attrs), along, values, infinity, beyond)


def takes(array: PyTree, one: Any, axis: str | None) -> bool:
    """Whether the learner or the environment of a curve takes an axis."""
    values = array.coords.get(f"takes_{axis}")
    return True if values is None else bool(values.sel(_single(one, values.dims)).any())


def takes_everywhere(array: xarray.DataArray, axis: str | None) -> bool:
    """Whether each pair of a learner and an environment that was played takes an axis."""
    values = array.coords.get(f"takes_{axis}")
    return values is None or bool((values | array.isnull()).all())


def is_wide(values: np.ndarray) -> bool:
    """Whether the finite values of an axis need a logarithmic scale."""
    finite = values[np.isfinite(values)] if values.dtype.kind in "iuf" else values[:0]
    return len(finite) > 1 and finite.min() > 0 and finite.max() / finite.min() > _WIDE


def _single(one, dims) -> dict:
    """The index of the only value of a curve, for each of some dimensions that has just one."""
    return {n: one[n].item() for n in dims if n in one.coords and one[n].ndim == 0}


def _beyond(places) -> float:
    """A place right of all others, for learners that do not take the axis."""
    if not len(places):
        return 1.0
    low, high = places.min(), places.max()
    if low <= 0 or high / low <= _WIDE:
        return high + max(0.25 * (high - low), 1.0)
    return high * max(3.0, (high / low) ** 0.15)


def places(values: np.ndarray) -> tuple:
    """The places of values on an axis, and the place of infinity if it is among them."""
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
