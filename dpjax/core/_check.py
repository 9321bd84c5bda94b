"""Validation of arguments. Each function raises an error unless its docstring's condition holds.

Messages take the name of an argument from its keyword. A traced value cannot be checked. So
:func:`dpjax.sweep` calls a game with the plain numbers of each point before it traces the game.
Elsewhere, for example under ``jax.jit``, the condition is recorded while a factory runs. If it does
not hold, results are NaN: see :func:`sound`.
"""

import difflib
import functools
import inspect
import operator
import os
import traceback
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr

from dpjax.core import Array, BatchLearner, Environment, Feedback, Learner, Number, PyTree
from dpjax.core.generators.base import KNOWN


def is_traced(value: PyTree) -> bool:
    """Whether a number, or any leaf of a pytree, is traced."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(value))


Factory = TypeVar("Factory", bound=Callable)

# The conditions on traced arguments of the running factory, each () bool.
_NOTED: ContextVar[list | None] = ContextVar("_NOTED", default=None)


def _note(*conditions) -> None:
    noted = _NOTED.get()
    if noted is not None:
        noted.extend(conditions)


def sound(factory: Factory, tested: bool = False):
    """Wrap a factory so that wrong keys are refused, and wrong traced arguments give NaN.

    The learner or environment that it returns refuses the keys that ``simulate`` refuses.

    The conditions that the factory checks on traced arguments are recorded. A learner stores
    whether all of them hold, for :func:`nan_unless_sound`. If one does not hold, a learner's
    declared epsilon and an environment's regret are NaN. Without traced arguments nothing changes.

    If the factory is ``tested``, its learners play no action outside of their action set. The same
    holds for a learner that is made of learners if all of them are from such factories. A tested
    factory that was given no function returns a ``plain`` learner or environment.
    """

    @functools.wraps(factory)
    def checked(*arguments, **keywords):
        noted: list = []
        passed = (*arguments, *keywords.values())
        bases = [value for value in passed if isinstance(value, Learner | BatchLearner)]
        known = tested or (bool(bases) and all(map(is_tested, bases)))
        outer = _NOTED.set(noted)
        try:
            plain = tested and not any(map(callable, jax.tree.leaves(passed)))
            result = _checking_keys(factory(*arguments, **keywords), known, plain)
        finally:
            _NOTED.reset(outer)
        noted += [base.sound for base in bases if base.sound is not True]
        _note(*noted)
        return _marked(result, functools.reduce(jnp.logical_and, noted)) if noted else result

    return checked


def all_sound(exported: dict, names: Iterable[str], tested: bool = False) -> None:
    """Wrap the functions of these names in a module's dictionary with :func:`sound`."""
    for name in names:
        if inspect.isfunction(exported[name]):
            exported[name] = sound(exported[name], tested)


def is_tested(learner: Learner | BatchLearner) -> bool:
    """Whether a learner is as a tested factory returned it."""
    return all(getattr(part, "tested", False) for part in (learner.init, learner.step))


def is_plain(player: Learner | BatchLearner | Environment) -> bool:
    """Whether it is as a tested factory returned it, and no function was given to the factory."""
    return all(getattr(part, "plain", False) for part in (player.init, player.step))


def _checking_keys(result, tested, plain):
    """The learner or environment that a factory returned, with functions that check their key."""
    if not isinstance(result, Learner | BatchLearner | Environment):
        return result
    # Environments that draw nothing may be called without a key.
    optional = isinstance(result, Environment)

    def checking(function, place):
        @functools.wraps(function)
        def checked(*arguments, **keywords):
            value = arguments[place] if len(arguments) > place else keywords.get("key")
            if value is not None or not optional:
                key(key=value)
            try:
                return function(*arguments, **keywords)
            except Exception:
                key(key=value)  # An environment that draws fails without a key.
                raise

        checked.tested, checked.plain = tested, plain
        return checked

    for name, place in (("init", 0), ("step", 1), ("batch", 1)):
        function = getattr(result, name, None)
        if function is not None:
            result = result._replace(**{name: checking(function, place)})
    return result


def _marked(result, holds):
    """Mark the result of a factory with whether the conditions on its arguments hold."""
    if isinstance(result, Environment):
        regret = result.regret
        return result._replace(
            regret=lambda state, tally: jnp.where(holds, regret(state, tally), jnp.nan)
        )
    if not isinstance(result, Learner | BatchLearner):
        return result
    declared = result.privacy
    # An infinite epsilon that is not traced declares nothing.
    if isinstance(declared.epsilon, jax.core.Tracer) or np.isfinite(declared.epsilon):
        epsilon = jnp.where(holds, declared.epsilon, jnp.nan)
        declared = declared._replace(epsilon=epsilon)
    return result._replace(sound=holds, privacy=declared)


def nan_unless_sound(learner: Learner | BatchLearner, regret: Array):
    """The regret of a learner; NaN if a traced argument of its factory is outside its domain."""
    return regret if learner.sound is True else jnp.where(learner.sound, regret, jnp.nan)


# Rounds, arms and entries are counted in int32.
LARGEST_SIZE = 2**31 - 1

# From these values on, noise scales, their squares and quantities computed from them fit into
# float32.
LEAST_EPSILON, LEAST_DELTA = 1e-12, 1e-30


def _text(number) -> str:
    """A number for a message. An integer is written with all its digits."""
    whole = abs(number) < 2**53 and number == int(number)
    return str(int(number)) if whole else str(number)


def _number(requirement, name, argument):
    """The given number, or None if it is traced. Anything but one number raises TypeError."""
    array = isinstance(argument, np.ndarray | np.generic | jax.Array)
    plain = isinstance(argument, int | float) and not isinstance(argument, bool)
    if array and not argument.shape:
        kinds = (jnp.floating, jnp.integer)
        plain = any(jnp.issubdtype(argument.dtype, kind) for kind in kinds)
    if not plain:
        raise TypeError(f"{name} must be {requirement} and one number, got {_kind(argument)}")
    if isinstance(argument, jax.core.Tracer):
        return None
    try:
        return np.asarray(argument, None if array else np.float64)[()]
    except OverflowError:  # Python's integers can be larger than float64.
        return np.float64(np.inf if argument > 0 else -np.inf)


def _in_float32(number):
    """A number in float32, as learners compute with it. Numbers below 2^-126 become 0."""
    with np.errstate(over="ignore", under="ignore"):
        rounded = np.float32(number)
    return np.float32(0.0) if abs(rounded) < np.finfo(np.float32).tiny else rounded


def _require(condition, requirement: str, values: dict) -> None:
    """Require one number that satisfies a condition, both as given and in float32."""
    for name, argument in values.items():
        number = _number(requirement, name, argument)
        if number is None:
            _note(condition(jnp.asarray(argument, jnp.float32)))
            continue
        rounded = _in_float32(number)
        if condition(number) and condition(rounded):
            continue
        shown = argument if isinstance(argument, int) else number
        why = f", which is {_text(rounded)} in float32" if condition(number) else ""
        raise ValueError(f"{name} must be {requirement}, got {_text(shown)}{why}")


def specified(**values: object) -> dict:
    """The values that are not None, for arguments that are None by default."""
    return {name: value for name, value in values.items() if value is not None}


def positive(**values: object) -> None:
    """One number greater than zero, and finite."""
    _require(lambda x: (x > 0) & (x < np.inf), "greater than 0 and finite", values)


def positive_or_inf(**values: object) -> None:
    """One number greater than zero; infinity is allowed, NaN is not."""
    _require(lambda x: x > 0, "greater than 0 (inf is allowed)", values)


def non_negative(**values: object) -> None:
    """One number of at least zero, and finite."""
    _require(lambda x: (x >= 0) & (x < np.inf), "at least 0 and finite", values)


def between(low: float, high: float, /, **values: object) -> None:
    """One number in the closed interval from low to high."""
    _require(lambda x: (x >= low) & (x <= high), f"in [{_text(low)}, {_text(high)}]", values)


def inside(low: float, high: float, /, **values: object) -> None:
    """One number in the open interval from low to high."""
    requirement = f"strictly between {_text(low)} and {_text(high)}"
    _require(lambda x: (x > low) & (x < high), requirement, values)


def selected(choice, arms: int, name: str, t: int) -> int:
    """The arm that ``select()`` of a Python class returned in round t."""
    try:
        arm = -1 if isinstance(choice, bool | np.bool) else operator.index(choice)
    except TypeError:  # An array of one number has the method, and raises.
        arm = -1
    if not 0 <= arm < arms:
        shown = " ".join(repr(choice).split())[:60]
        raise ValueError(f"{name}: select() returned {shown} in round {t}; it must return a "
                         f"whole number from 0 to {arms - 1}")  # fmt: skip
    return arm


def epsilon(argument: Number):
    """The given epsilon, which must be from 1e-12 to infinity.

    A traced epsilon cannot be refused. If it is positive and smaller, it is raised to 1e-12, in the
    noise and in the declaration.
    """
    positive_or_inf(epsilon=argument)
    requirement = f"at least {LEAST_EPSILON} (inf is allowed)"
    if not isinstance(argument, jax.core.Tracer):
        _require(lambda x: x >= LEAST_EPSILON, requirement, {"epsilon": argument})
        if np.isfinite(float(argument)) and np.isinf(_in_float32(argument)):
            raise ValueError(
                f"epsilon must be {requirement}, got {argument}, which is inf in float32"
            )
        return argument
    return jnp.maximum(
        argument.astype(jnp.promote_types(argument.dtype, jnp.float32)), LEAST_EPSILON
    )


def delta(argument: Number) -> None:
    """A delta, from 1e-30 to below 1."""
    inside(0.0, 1.0, delta=argument)
    _require(lambda x: x >= LEAST_DELTA, f"at least {LEAST_DELTA}", {"delta": argument})


def size(minimum: int, **value) -> int:
    """The given size, an integer from ``minimum`` to 2^31 - 1, as a Python int.

    Sizes determine shapes and are never traced. NumPy integers can overflow; Python's cannot.
    """
    ((name, argument),) = value.items()
    message = f"{name} must be an integer of at least {minimum}, got {argument!r}"
    try:
        number = operator.index(argument)
    except TypeError:
        raise TypeError(message) from None
    if number < minimum or isinstance(argument, bool | np.bool):
        raise ValueError(message)
    if number > LARGEST_SIZE:
        raise ValueError(f"{name} must be at most {LARGEST_SIZE}, the largest int32, got {number}")
    return number


def arms(argument: Number, least: int = 2) -> int:
    """The given number of arms, at most 2^23, so that a draw of an arm has about 40 bits."""
    number = size(least, arms=argument)
    if number > 2**23:
        raise ValueError(f"arms must be at most {2**23}, the limit of random draws, got {number}")
    return number


def interval(**value) -> tuple:
    """The given pair (low, high), with low < high and both finite."""
    ((name, argument),) = value.items()
    message = f"{name} must be a pair (low, high) with low < high, both finite; got {argument!r}"
    try:
        low, high = argument
        ends = _number("", name, low), _number("", name, high)
    except (TypeError, ValueError):
        raise TypeError(message) from None
    if None not in ends:
        width = np.float64(_in_float32(ends[1])) - np.float64(_in_float32(ends[0]))
        if not 0.0 < width <= np.finfo(np.float32).max:
            raise ValueError(message)
    else:
        _note((low > -np.inf) & (low < high) & (high < np.inf))
    return low, high


def ordered(low: Number, high: Number) -> None:
    """Two finite numbers, low < high also in float32."""
    between(-1e30, 1e30, low=low, high=high)
    if not _in_float32(low) < _in_float32(high):
        raise ValueError(f"low must be below high in float32, got {_text(low)} and {_text(high)}")


def one_of(*options: str, **values: object) -> None:
    """One of the listed words."""
    for name, value in values.items():
        if value not in options:
            raise ValueError(f"{name} must be one of {', '.join(options)}; got {value!r}")


def nearest(word: str, known: Iterable[str]) -> str:
    """The hint " (did you mean ...?)" with the closest known word; empty if none is close."""
    plain = {name.lower().replace("-", "_"): name for name in known}
    close = difflib.get_close_matches(word.lower().replace("-", "_"), plain, n=1)
    return f" (did you mean {plain[close[0]]}?)" if close else ""


def key(**values: object) -> None:
    """One typed PRNG key of a generator of :mod:`dpjax.generators`, not a seed or several keys."""
    for name, value in values.items():
        _key("one key, such as jax.random.key(0)", name, value)


def _key(requirement, name, value) -> None:
    typed = isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
    if not typed or value.shape != ():
        raise TypeError(f"{name} must be {requirement}, got {_kind(value)}")
    of_threefry(name, value.dtype)


def of_threefry(name: str, dtype: object) -> None:
    """A dtype of keys that is defined in :mod:`dpjax.generators`."""
    if str(dtype) not in KNOWN:
        raise TypeError(
            f"{name} must use threefry2x32, as jax.random.key(0, impl='threefry2x32') does, or a "
            f"generator of dpjax.generators, whose draws do not depend on the batch; got {dtype}"
        )


# jax.random.key drops further bits: 2^32 would play the trials of seed 0, and -1 those of 2^32 - 1.
LARGEST_SEED = 2**32 - 1


_SEEDS = f"a whole number from 0 to {LARGEST_SEED}"


def _is_whole(argument) -> bool:
    return isinstance(argument, int | np.integer) and not isinstance(argument, bool)


def seed(**value) -> int:
    """The given seed, a whole number from 0 to 2^32 - 1."""
    ((name, argument),) = value.items()
    if not _is_whole(argument):
        raise TypeError(f"{name} must be {_SEEDS}, got {_kind(argument)}")
    if not 0 <= argument <= LARGEST_SEED:
        raise ValueError(f"{name} must be {_SEEDS}, got {argument}")
    return int(argument)


def key_or_seed(**value) -> Array:
    """The given key, or the threefry2x32 key of the given seed, from 0 to 2^32 - 1."""
    ((name, argument),) = value.items()
    if _is_whole(argument):
        # These are the words of jr.key. JAX would compile a program for jr.key itself.
        words = jnp.asarray(np.array([0, seed(**value)], np.uint32))
        return jr.wrap_key_data(words, impl="threefry2x32")
    _key(f"one key, such as jax.random.key(0), or {_SEEDS}", name, argument)
    return argument


def untraced(what: str, tree: PyTree) -> None:
    """A pytree without values traced by ``jit``, ``vmap`` or ``grad``. ``what`` is the caller."""
    if is_traced(tree):
        raise TypeError(
            f"{what} must be called outside of jit, vmap, grad and loops of jax, since it needs "
            "concrete values; simulate can be called within them"
        )


def function(what: str, /, **values: object) -> None:
    """A callable. ``what`` describes it in the message."""
    for name, value in values.items():
        if not callable(value):
            raise TypeError(f"{name} must be {what}, got {_kind(value)}")


def built(kind, example: str, /, **values: object) -> None:
    """An object of this kind. The factory that returns such objects is refused."""
    for name, value in values.items():
        if not isinstance(value, kind):
            wanted = " or ".join(_an(part.__name__) for part in get_args(kind) or (kind,))
            raise TypeError(f"{name} must be {wanted}, such as {example}; got {_kind(value)}")


def factory(example: str, /, **values: object) -> None:
    """A factory that has not been called yet. The object that it returns is refused."""
    what = f"a factory such as {example}, not called yet (functools.partial binds its arguments)"
    function(what, **values)


def players(learner, environment) -> None:
    """A learner and an environment, in this order."""
    if isinstance(learner, Environment) and isinstance(environment, Learner | BatchLearner):
        raise TypeError("the learner must come first and the environment second, got them swapped")
    player(learner)
    built(Environment, "environments.bernoulli(means)", environment=environment)


def player(learner) -> None:
    """A learner."""
    built(Learner | BatchLearner, "learners.exp3(horizon, arms)", learner=learner)
    if not isinstance(learner.feedback, Feedback):
        raise TypeError(
            "the learner's feedback must be a Feedback, such as feedback.bandit; "
            "wrap a function with dpjax.Feedback(name, function)"
        )


def parts(name: str, wanted: str, returned) -> tuple:
    """The result of a function called ``name``, such as "a pair (state, action)"."""
    if type(returned) not in (tuple, list) or len(returned) != wanted.count(",") + 1:
        what = "nothing" if returned is None else _kind(returned)
        raise TypeError(f"{name} must return {wanted}, but it returned {what}")
    return tuple(returned)


def game(returned) -> tuple:
    """The result of a game, a pair (learner, environment)."""
    players(*parts("game", "a pair (learner, environment)", returned))
    return tuple(returned)


def _an(noun) -> str:
    return f"{'an' if noun[0] in 'AEIOaeio' else 'a'} {noun}"  # "a uint32", "a ufunc"


def _kind(value) -> str:
    """A value in words, for a message. Strings and numbers are quoted, others are described."""
    if value is None or isinstance(value, str | int | float | complex):
        return repr(value)
    if isinstance(value, np.ndarray | jax.Array) and value.shape:
        return f"an array of shape {value.shape}"
    if isinstance(value, np.generic | np.ndarray | jax.Array):
        return _an(str(value.dtype))
    name = getattr(value, "__name__", None)
    if name and callable(value):
        return f"{name} itself, which has to be called first"
    if type(value) in (tuple, list):
        return f"a {type(value).__name__} of {len(value)}"
    return _an(type(value).__name__)


_TRACED = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.UnexpectedTracerError,
)


@contextmanager
def traceable(name: str):
    """Replace JAX's errors about traced numbers by one sentence with the remedy."""
    try:
        yield
    except _TRACED as error:
        raise TypeError(
            f"{name} must not branch on a traced value, as {_place(error)} does: if, float(), "
            "int(), masks and NumPy need concrete numbers, but those of a point or a round are "
            "traced; use jnp.where, jax.lax.cond and jax.numpy, and a separate game for each size"
        ) from error


def _place(error) -> str:
    """The innermost line of an error outside of jax, NumPy and dpjax.core."""
    inside = tuple(os.path.dirname(file) + os.sep for file in (jax.__file__, np.__file__, __file__))
    trace = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in trace if not frame.filename.startswith(inside)]
    if not frames:
        return "it"
    last = frames[-1]
    line = f" ({last.line})" if last.line else ""
    return f"line {last.lineno} of {os.path.basename(last.filename)}{line}"
