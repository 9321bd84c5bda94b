"""Named validators: the argument's name comes from the keyword, so messages cannot drift.

Values that are being traced cannot be looked at and pass; :func:`dpjax.sweep` therefore
calls a game once per point with plain numbers before it traces it.
"""

import difflib
import operator
import os
import traceback
from contextlib import contextmanager
from typing import get_args

import jax
import numpy as np

from dpjax import generators
from dpjax.core import BatchLearner, Environment, Learner


def _is_traced(value) -> bool:
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(value))


def _require(condition, requirement: str, values: dict) -> None:
    for name, value in values.items():
        if value is None or _is_traced(value):
            continue
        try:
            array = np.asarray(value)
            if array.dtype.kind in "US":  # of which NumPy would make numbers
                raise TypeError
            array = array.astype(np.float64)
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
    """A single typed PRNG key of threefry; not a seed, not an array of keys."""
    for name, value in values.items():
        typed = isinstance(value, jax.Array) and jax.dtypes.issubdtype(
            value.dtype, jax.dtypes.prng_key
        )
        if not typed or value.shape != ():
            what = f"an array of shape {value.shape}" if hasattr(value, "shape") else repr(value)
            raise TypeError(f"{name} must be one key as jax.random.key(0) makes, got {what}")
        of_threefry(name, value.dtype)


def of_threefry(name, dtype) -> None:
    """Keys of that dtype draw the same numbers whatever is drawn beside them."""
    if not generators.is_of_the_key_alone(dtype):
        raise TypeError(
            f"{name} must draw by threefry2x32, as keys of jax.random.key(0, impl='threefry2x32') "
            f"and of dpjax.generators do, got {dtype}: what it draws depends on the batch"
        )


def untraced(what, tree) -> None:
    """Nothing that ``jit``, ``vmap`` or ``grad`` traces, in what is to be computed here and now."""
    if _is_traced(tree):
        raise TypeError(
            f"{what} must be called outside of jit, vmap, grad and loops of jax, which trace what "
            "it is to compute now; simulate can be called within them"
        )


def function(what, /, **values) -> None:
    """Something to be called; ``what`` says what it should be."""
    for name, value in values.items():
        if not callable(value):
            raise TypeError(f"{name} must be {what}, got {_kind(value)}")


def built(kind, example, /, **values) -> None:
    """What a factory returns, not the factory itself."""
    for name, value in values.items():
        if not isinstance(value, kind):
            wanted = " or ".join(_an(part.__name__) for part in get_args(kind) or (kind,))
            raise TypeError(f"{name} must be {wanted}, such as {example}; got {_kind(value)}")


def factory(example, /, **values) -> None:
    """A factory that is yet to be called, not what it returns."""
    for name, value in values.items():
        if not callable(value):
            raise TypeError(
                f"{name} must be a factory such as {example}, not called yet, got {_kind(value)}; "
                "functools.partial gives it arguments"
            )


def players(learner, environment) -> None:
    """A learner and an environment, in this order."""
    if isinstance(learner, Environment) and isinstance(environment, Learner | BatchLearner):
        raise TypeError("the learner must come first and the environment second, got them swapped")
    built(Learner | BatchLearner, "learners.exp3(horizon, arms)", learner=learner)
    built(Environment, "environments.bernoulli(means)", environment=environment)


def pair(returned) -> tuple:
    """What a game returns: (learner, environment)."""
    if type(returned) not in (tuple, list) or len(returned) != 2:
        what = "nothing" if returned is None else _kind(returned)
        raise TypeError(f"game must return a pair (learner, environment), but it returned {what}")
    players(*returned)
    return tuple(returned)


def _an(noun) -> str:
    return f"{'an' if noun[0] in 'AEIOUaeiou' else 'a'} {noun}"


def _kind(value) -> str:
    """What a value is, for a message: a word as it is, of all else the kind."""
    if isinstance(value, str | int | float):
        return repr(value)
    name = getattr(value, "__name__", None)
    if name and callable(value):
        return f"{name} itself, which is to be called first"
    if type(value) in (tuple, list):
        return f"a {type(value).__name__} of {len(value)}"
    return _an(type(value).__name__)


_TRACED = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)


@contextmanager
def traceable(name):
    """Says, in place of what JAX says, that Python cannot look at traced numbers."""
    try:
        yield
    except _TRACED as error:
        raise TypeError(
            f"{name} must not look at what is traced, as {_place(error)} does: if, float(), int() "
            "and NumPy cannot see the numbers of a point or a round; use jnp.where, jax.lax.cond "
            "and jax.numpy, and a game of its own for each size"
        ) from error


def _place(error) -> str:
    """The innermost line of an error that is neither in jax nor in dpjax."""
    inside = tuple(os.path.dirname(file) + os.sep for file in (jax.__file__, np.__file__, __file__))
    frames = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in frames if not frame.filename.startswith(inside)]
    if not frames:
        return "it"
    last = frames[-1]
    line = f" ({last.line})" if last.line else ""
    return f"line {last.lineno} of {os.path.basename(last.filename)}{line}"
