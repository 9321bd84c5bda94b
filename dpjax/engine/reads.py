"""Finds what functions of Python read, so that JAX traces them as they are now.

A function may be given by name to ``jit``, ``cond``, ``switch``, ``scan``, ``while_loop``,
``fori_loop`` or ``checkpoint``. JAX keeps its trace under the function, and does not look at what
else the function reads. Tracing everything anew would take four times as long, and some megabytes
of JAX's caches each time. So a function is traced anew only where it reads something else than
when it was first seen.
"""

import contextlib
import functools
import hashlib
import os
import sys
import sysconfig
import types
import weakref
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import random as jr

_PATHS = sysconfig.get_paths()
_FOLDERS = {_PATHS[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
_PACKAGE = str(Path(__file__).parents[1])  # dpjax
_LIBRARIES = tuple(path + os.sep for path in (*_FOLDERS, _PACKAGE))
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
# function -> digest of what it read when it was first seen
_first: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
_now = jax.make_user_context(None)
# The most contexts in which games are traced before all are let go: JAX cannot forget one alone.
_CONTEXTS = 64
_entered: set[str] = set()


def as_now(*given):
    """A context in which JAX traces these functions, and those that they read, as they are now."""
    seen: dict = {}
    digest = _digest(given, (), {}, seen)
    changed = [_first.setdefault(function, own) != own for function, own in seen.items()]
    if not any(changed):
        return contextlib.nullcontext()
    if digest not in _entered and len(_entered) == _CONTEXTS:
        forget()
        _first.update(seen)
        return contextlib.nullcontext()
    _entered.add(digest)
    return _now(digest)


def forget() -> None:
    """Makes JAX forget all traces, and this module what functions read when they were traced."""
    jax.clear_caches()
    _first.clear()
    _entered.clear()


def _digest(value, names, known, seen) -> str:
    """The digest of a value and of what it reads; notes the user's functions among it in ``seen``.

    Args:
      value: anything.
      names: the attributes that are read of it, if it is a module.
      known: id -> (value, digest) of what was visited; the digest of what is being visited is "".
      seen: function -> digest, filled.
    """
    if isinstance(value, _PLAIN):
        return repr(value)
    # Of a module only the attributes with these names are read; other functions read others.
    place = (id(value), names if isinstance(value, types.ModuleType) else ())
    if place not in known:
        known[place] = value, ""
        parts = [type(value).__name__]
        try:
            parts += _parts(value, names, known, seen)
        except Exception:  # an object answers no questions, or is nested too deeply
            parts.append(str(id(value)))
        digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
        known[place] = value, digest
        if isinstance(value, types.FunctionType) and not _in_library(value.__code__.co_filename):
            seen[value] = digest
    return known[place][1]


def _parts(value, names, known, seen) -> list[str]:
    """What the digest of a value is made of. Arguments are those of :func:`_digest`."""

    def of(*values, names=()):
        return [_digest(each, names, known, seen) for each in values]

    if isinstance(value, types.FunctionType):
        if _in_library(value.__code__.co_filename):
            return [value.__qualname__]
        names = tuple(_names(value.__code__))
        read = [value.__globals__[name] for name in names if name in value.__globals__]
        cells = [_content(cell) for cell in value.__closure__ or ()]
        rest = (value.__defaults__, value.__kwdefaults__)
        return [str(hash(value.__code__)), *of(*read, names=names), *of(*cells, *rest, names=names)]
    if isinstance(value, types.ModuleType):
        if _in_library(getattr(value, "__file__", None) or ""):
            return [value.__name__]
        return of(*(vars(value)[name] for name in names if name in vars(value)), names=names)
    if isinstance(value, np.ndarray | np.generic | jax.Array) and not isinstance(
        value, jax.core.Tracer
    ):
        if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
            value = jr.key_data(value)  # type: ignore[arg-type]
        array: Any = np.ascontiguousarray(value)
        if array.dtype.hasobject:
            return []
        return [str(array.dtype), str(array.shape), hashlib.sha256(array).hexdigest()]
    if isinstance(value, dict):
        return of(*value.keys(), *value.values())
    if isinstance(value, tuple | list):
        return [repr(value)] if all(isinstance(x, _PLAIN) for x in value) else of(*value)
    if isinstance(value, functools.partial):
        return of(value.func, value.args, value.keywords)
    if isinstance(value, types.MethodType):
        return of(value.__func__, value.__self__)
    if hasattr(value, "__wrapped__"):  # what jit and others return
        return of(value.__wrapped__)
    kind = value if isinstance(value, type) else type(value)
    module = sys.modules.get(kind.__module__)
    if kind.__module__ == "builtins" or _in_library(getattr(module, "__file__", None) or ""):
        return []
    attributes = [part for name, part in vars(kind).items() if not _is_hidden(name)]
    return of(*attributes, None if kind is value else getattr(value, "__dict__", None))


def _is_hidden(name) -> bool:
    return name.startswith("__") and name != "__call__"


def _names(code):
    """All names of globals and attributes in a code and in the functions that it defines."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _content(cell):
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _in_library(file) -> bool:
    return file.startswith(_LIBRARIES)
