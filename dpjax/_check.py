"""Named validators: the argument's name comes from the keyword, so messages cannot drift.

Values that are being traced cannot be looked at and pass; :func:`dpjax.sweep` therefore
calls a game once per point with plain numbers before it traces it.
"""

import difflib
import operator

import jax
import numpy as np


def _is_traced(value) -> bool:
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(value))


def _require(condition, requirement: str, values: dict) -> None:
    for name, value in values.items():
        if value is None or _is_traced(value):
            continue
        try:
            array = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError(f"{name} must be {requirement}, got {value!r}") from None
        if not np.all(condition(array)):
            bad = array[~condition(array)].flat[0] if array.ndim else array[()]
            raise ValueError(f"{name} must be {requirement}, got {bad:g}")


def positive(**values) -> None:
    """Greater than zero; infinity is allowed, NaN is not."""
    _require(lambda x: x > 0, "greater than 0 (inf is allowed)", values)


def non_negative(**values) -> None:
    """At least zero, and finite."""
    _require(lambda x: (x >= 0) & np.isfinite(x), "at least 0 and finite", values)


def between(low: float, high: float, /, **values) -> None:
    """In the closed interval from low to high."""
    _require(lambda x: (x >= low) & (x <= high), f"in [{low:g}, {high:g}]", values)


def inside(low: float, high: float, /, **values) -> None:
    """In the open interval from low to high."""
    _require(lambda x: (x > low) & (x < high), f"strictly between {low:g} and {high:g}", values)


def size(minimum: int, **value) -> int:
    """The one value given, an integer of at least ``minimum``, as a Python int.

    Sizes decide shapes and are never traced. NumPy's integers overflow where Python's do not.
    """
    ((name, given),) = value.items()
    message = f"{name} must be an integer of at least {minimum}, got {given!r}"
    try:
        number = operator.index(given)
    except TypeError:
        raise TypeError(message) from None
    if number < minimum or isinstance(given, bool):
        raise ValueError(message)
    return number


def interval(**value) -> tuple:
    """The one value given, a pair (low, high) with low < high, both finite."""
    ((name, given),) = value.items()
    message = f"{name} must be a pair (low, high) with low < high, both finite; got {given!r}"
    try:
        low, high = given
    except (TypeError, ValueError):
        raise TypeError(message) from None
    if not _is_traced(given) and not -np.inf < low < high < np.inf:
        raise ValueError(message)
    return low, high


def one_of(*options: str, **values) -> None:
    """One of the listed words."""
    for name, value in values.items():
        if value not in options:
            raise ValueError(f"{name} must be one of {', '.join(options)}; got {value!r}")


def nearest(word: str, known) -> str:
    """The one of the known words that is meant perhaps, as " (did you mean ...?)"; or nothing."""
    plain = {name.lower().replace("-", "_"): name for name in known}
    found = difflib.get_close_matches(word.lower().replace("-", "_"), plain, n=1)
    return f" (did you mean {plain[found[0]]}?)" if found else ""


def key(**values) -> None:
    """A single typed PRNG key, as jax.random.key makes; not a seed, not an array of keys."""
    for name, value in values.items():
        typed = isinstance(value, jax.Array) and jax.dtypes.issubdtype(
            value.dtype, jax.dtypes.prng_key
        )
        if not typed or value.shape != ():
            what = f"an array of shape {value.shape}" if hasattr(value, "shape") else repr(value)
            raise TypeError(f"{name} must be one key as jax.random.key(0) makes, got {what}")
