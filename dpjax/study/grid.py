"""The grid of a study: its axes, and the axes that each factory takes."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dpjax.core import PyTree, _arrays

# Names that are reserved in the data of a study and in estimates.
_RESERVED = (
    "learner", "environment", "trial", "round", "regret", "final_regret", "mean", "standard_error",
    "low", "high", "quantile", "trials",
)  # fmt: skip
_PREFIXES = ("privacy_", "report_", "tally_", "takes_")


class Axis(NamedTuple):
    """One axis of a grid."""

    name: str
    labels: np.ndarray  # (V,) numbers or strings, the coordinate of the data
    values: tuple  # V values that factories receive
    traced: bool  # whether one program serves all values
    single: bool  # whether it was given as one value, which needs no dimension


def axis(name: str, entry: PyTree) -> Axis:
    """The axis that an entry of a grid describes.

    A list of numbers that contains a float is traced: one compiled program serves all values. Whole
    numbers (sizes, such as a horizon), strings and objects are static: each value is compiled
    separately. A dict from labels to values makes them static. If its values are NumPy float arrays
    of one shape, such as means of arms, they are traced. An array with one axis, of NumPy, JAX,
    pandas or xarray, is read as a list.

    Raises:
      ValueError, TypeError: the name is no identifier or is reserved, there are no values, a value
        is repeated or NaN, or objects have no labels.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"grid: {name!r} cannot be the name of an argument")
    if name in _RESERVED or name.startswith(_PREFIXES):
        raise ValueError(f"grid: {name!r} is a reserved name of the study's data; use another")
    if isinstance(entry, Mapping):
        labels, values = [str(label) for label in entry], tuple(entry.values())
        return _checked(Axis(name, np.array(labels, object), values, _are_arrays(values), False))
    entry = _plain(name, entry)
    single = type(entry) not in (list, tuple, range)
    values = (entry,) if single else tuple(_plain(name, value) for value in entry)
    if any(isinstance(value, list | np.ndarray) for value in values):
        raise ValueError(f"grid: {name} must be one value or a list of values, not a table")
    if all(_is_number(value) for value in values) and values:
        traced = any(not _is_whole(value) for value in values)
        kept = tuple((float if traced else int)(value) for value in values)
        return _checked(Axis(name, np.array(kept), kept, traced, single))
    labels = [_label(name, value, single) for value in values]
    return _checked(Axis(name, np.array(labels, object), values, False, single))


def _plain(name, entry) -> Any:
    """An array of NumPy, JAX, pandas or xarray as a list, or as one value if it has no axes.

    Other values are returned as they are, and so are tables of other packages than NumPy.
    """
    numpy = isinstance(entry, np.ndarray)
    if not numpy and (not hasattr(entry, "__array__") or np.ndim(entry) > 1):
        return entry
    try:
        array = np.asarray(entry)
    except TypeError:  # A key of JAX, or a traced value.
        return entry
    if array.dtype.kind not in "OU":
        _arrays.real(f"grid: {name}", entry, -np.inf, np.inf, what=name)
    return array.tolist()


def _checked(axis: Axis) -> Axis:
    if not axis.values:
        raise ValueError(f"grid: {axis.name} has no values")
    if axis.traced and np.isnan(np.array(axis.values)).any():
        raise ValueError(f"grid: {axis.name} must not hold NaN")
    # Traced values are played in float32, in which two close values may be equal.
    played = axis.labels.astype(np.float32) if axis.labels.dtype.kind == "f" else axis.labels
    if len(set(played.tolist())) < len(played):
        raise ValueError(f"grid: {axis.name} has a value twice: {axis.labels.tolist()}")
    return axis


def _are_arrays(values) -> bool:
    """Whether values are arrays of floats, all of one shape."""
    arrays = [v for v in values if isinstance(v, np.ndarray) and v.ndim and v.dtype.kind == "f"]
    return len(arrays) == len(values) and len({array.shape for array in arrays}) == 1


def _is_number(value) -> bool:
    """Whether a value is one real number. A boolean is not."""
    number = isinstance(value, int | float | np.integer | np.floating)
    return number and not isinstance(value, bool)


def _is_whole(value) -> bool:
    return isinstance(value, int | np.integer)


def _label(name, value, single) -> str:
    """The label of a static value: the string itself, or the function's name.

    An object that is the only value has an empty label.
    """
    if isinstance(value, str | bool | int | float):
        return str(value)
    if inspect.isfunction(value):
        return value.__name__
    if single:
        return ""
    raise TypeError(
        f"grid: {name} holds a {type(value).__name__}, which has no name; give a dict "
        f"from labels to values, such as {{'first': ..., 'second': ...}}"
    )


def named(what: str, example: str, kinds: tuple, entry: PyTree) -> dict[str, Callable]:
    """Factories by name, from a dict, a list of functions, or one function.

    A built value of one of ``kinds`` counts as a factory without arguments.

    Raises:
      ValueError, TypeError: there are none, or one is neither a factory nor such a value.
    """
    if not isinstance(entry, Mapping):
        several = entry if type(entry) in (list, tuple) else [entry]
        unnamed = [factory for factory in several if not hasattr(factory, "__name__")]
        if unnamed:
            raise TypeError(
                f"{what}: give a dict from names to factories, such as {example}; "
                f"{type(unnamed[0]).__name__} has no name"
            )
        entry = {factory.__name__: factory for factory in several}
        if len(entry) < len(several):
            raise ValueError(f"{what}: two have the same name; give a dict from names to factories")
    if not entry:
        raise ValueError(f"{what}: there is none")
    factories: dict[str, Callable] = {}
    for name, factory in entry.items():
        if isinstance(factory, kinds):
            factories[str(name)] = partial(_constant, factory)
        elif callable(factory):
            factories[str(name)] = factory
        else:
            raise TypeError(
                f"{what}: {name} must be a factory, such as {example}; got {type(factory).__name__}"
            )
    return factories


def _constant(value, /):
    return value
