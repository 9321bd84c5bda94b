"""Arrays of numbers that users pass. Every factory that takes an array reads it here."""

import decimal
import numbers
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from dpjax.core import PyTree
from dpjax.core._check import _kind, _note, is_traced

_LARGEST = float(np.finfo(np.float32).max)


def entries(low: float = -_LARGEST, high: float = _LARGEST, /, **value: PyTree):
    """The given array of numbers in [low, high], of any shape, in float64; see :func:`real`.

    A traced array is returned as it is. Its condition is noted, as in :mod:`dpjax.core._check`.
    """
    ((name, argument),) = value.items()
    if not is_traced(argument):
        return real(name, argument, low, high)
    array = jnp.asarray(argument)
    _note(jnp.all((array >= low) & (array <= high)))
    return array


def real(
    name: str,
    argument: PyTree,
    low: float = -_LARGEST,
    high: float = _LARGEST,
    *,
    nan: bool = False,
    what: str | None = None,
    rows: Sequence | None = None,
    columns: Sequence | None = None,
) -> np.ndarray:
    """The given array of real numbers in [low, high], of any shape, in float64.

    Booleans in an array count as 0 and 1. A single boolean is refused.

    Args:
      name: the name of the array in a message, such as its argument or its file.
      argument: anything that NumPy reads as an array.
      low, high: the default is the range of finite numbers of float32.
      nan: whether NaN is accepted in an array of floating-point numbers.
      what: the name of the entries in a message; ``name`` by default.
      rows: the numbers of the rows in a file, by default 1, 2, ...
      columns: the names of the columns.

    Raises:
      TypeError: the array is traced.
      ValueError: it is not an array, it is sparse, or two columns of a pandas table have the same
        name; or an entry is missing (None, NaN, NaT, pandas.NA or masked), not a real number (a
        word, a date, a complex number), or out of range. The message names the first such entry,
        counted from 1, with words that spell no number before others.
    """
    if is_traced(argument):
        raise TypeError(f"{name} must be known numbers, not traced ones")
    if columns is None and getattr(argument, "ndim", 0) == 2 and hasattr(argument, "columns"):
        refuse_repeats(name, argument.columns)
        columns = [str(column) for column in argument.columns]
    try:
        array, mask = np.asarray(argument), _mask(argument)
        if array.dtype.kind in "USc":  # Among words or complex numbers NumPy changes the others.
            array = np.asarray(argument, object)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: must be an array of numbers, with rows of one length") from None
    if _is_real(array.dtype) or (array.dtype == bool and array.ndim):
        values = array.astype(np.float64, copy=False)
    else:
        values = np.array([_as_float(entry) for entry in array.ravel()]).reshape(array.shape)
    if array.dtype == object and not array.ndim and not _is_entry(array[()]):
        raise ValueError(f"{name}: must be an array of numbers, got {_kind(argument)}")
    accepted = nan and _is_real(array.dtype) and np.isnan(values)
    good = ((values >= low) & (values <= high) | accepted) & ~mask
    if good.all():
        return values
    # In a table with a word that is no number, pandas reads all entries of the column as words.
    worst = np.array([_is_word(entry) for entry in array.ravel()]).reshape(array.shape) & ~good
    place = np.unravel_index(np.argmax(worst if worst.any() else ~good), good.shape)
    masked = np.broadcast_to(mask, good.shape)[place]
    problem = "is missing" if masked else _words(array[place], values[place], low, high)
    where = _place(name, place, rows, columns)
    raise ValueError(f"{where} {problem}; {what or name} must {_requirement(low, high)}")


def integers(name: str, requirement: str, argument: PyTree, ndim: int) -> np.ndarray:
    """The given array of integers with this number of axes, which is not empty.

    ``requirement`` describes it in a message.

    Raises:
      TypeError: it is empty, or has another shape or dtype.
      ValueError: an entry is masked.
    """
    try:
        array = np.asarray(argument)
    except ValueError:  # rows of unequal lengths
        array = np.empty(0)
    if array.ndim != ndim or array.dtype.kind not in "iu" or not array.size:
        raise TypeError(f"{name} must be {requirement}")
    real(name, argument)
    return array


def is_missing(entry: object) -> bool:
    """Whether an entry is None, NaN, NaT or pandas.NA."""
    # NaN and NaT differ from themselves. The comparison of pandas.NA is pandas.NA.
    return entry is None or str(entry == entry) in ("False", "<NA>")


def column(name: str, argument: PyTree, count: int) -> np.ndarray:
    """The given array of ``count`` entries of any kind.

    Raises:
      ValueError: it has another shape, or an entry is missing or masked.
    """
    requirement = f"{name} must have shape ({count},)"
    try:
        array = np.asarray(argument)
    except ValueError:
        raise ValueError(f"{requirement}, got rows of different lengths") from None
    if array.shape != (count,):
        raise ValueError(f"{requirement}, got {array.shape or _kind(argument)}")
    missing = _mask(argument) | np.array([is_missing(entry) for entry in array])
    if missing.any():
        raise ValueError(f"{name}: row {np.argmax(missing) + 1} is missing")
    return array


def refuse_repeats(name: str, columns: Sequence) -> None:
    """Raise a ValueError if two columns of a table have the same name."""
    first: dict = {}
    for place, column in enumerate(columns, 1):
        if first.setdefault(column, place) != place:
            raise ValueError(f"{name}: columns {first[column]} and {place} are both named "
                             f"{column!r}; rename or remove one")  # fmt: skip


def digits(number: float, low: float, high: float) -> str:
    """A number outside [low, high], with as many digits as show that it is outside."""
    short = f"{number:g}"
    return repr(float(number)) if low <= float(short) <= high else short


def _mask(argument):
    """Which entries are masked; False if the array has no mask."""
    if isinstance(argument, list | tuple) and any(map(np.ma.isMaskedArray, argument)):
        argument = np.ma.array(argument)
    return np.ma.getmaskarray(argument) if np.ma.isMaskedArray(argument) else np.False_


def _is_entry(entry) -> bool:
    """Whether an object is a single entry, even a wrong one; false for a dictionary."""
    return np.isscalar(entry) or is_missing(entry)


def _is_real(dtype) -> bool:
    """Whether a dtype is of integers or floating-point numbers, also of JAX, such as int4."""
    kinds = (jnp.integer, jnp.floating)
    return dtype.kind != "m" and any(jnp.issubdtype(dtype, kind) for kind in kinds)


def _is_word(entry) -> bool:
    """Whether an entry is a word that does not spell a number."""
    if not isinstance(entry, str):
        return False
    try:
        float(entry)
    except ValueError:
        return True
    return False


def _as_float(entry) -> float:
    """An entry in float64; NaN if it is not a real number."""
    if not isinstance(entry, numbers.Real | decimal.Decimal):
        return np.nan
    if isinstance(entry, np.timedelta64):  # For NumPy it is an integer.
        return np.nan
    try:
        return float(entry)
    except OverflowError:
        return np.inf if entry > 0 else -np.inf  # type: ignore[operator]


def _words(entry, value, low, high) -> str:
    if is_missing(entry):
        return "is missing"
    if np.isnan(value):
        return f"is {' '.join(repr(entry).split())[:40]}, which is not a real number"
    return f"is {digits(value, low, high)}"


def _place(name, place, rows, columns) -> str:
    if not place:
        return name
    if len(place) != 2:
        counted = ", ".join(str(i + 1) for i in place)
        return f"{name}: entry {counted if len(place) == 1 else f'({counted})'}"
    row, column = place
    of = f" ({columns[column]})" if columns else ""
    return f"{name}: row {rows[row] if rows else row + 1}, column {column + 1}{of}"


def _requirement(low, high) -> str:
    if high == -low == np.inf:
        return "be numbers"
    return "be finite in float32" if high == -low == _LARGEST else f"lie in [{low:g}, {high:g}]"
