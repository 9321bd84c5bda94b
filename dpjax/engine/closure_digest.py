"""Digests of the values that Python functions read, so that JAX traces current behaviour.

JAX caches traces of functions that are passed to ``jit``, ``cond``, ``switch``, ``scan``,
``while_loop``, ``fori_loop`` or ``checkpoint``. A cached trace is reused even if the globals,
closures, arrays or objects that the function reads have changed. If one of them has changed since
the function was first traced, the game is traced in a separate context. Tracing every game in a
separate context would take two to four times as long. No context is shared with other code.

The digest is computed from a pickle that is never loaded. Pickling visits containers, objects and
arrays; functions and classes are pickled by content. A value that cannot be pickled is identified
by its ``id`` and the values that it refers to, a library function by its name and closure.

The digest covers all values that functions of the user's own modules read by name: globals,
closures, attributes, environment variables, and settings of installed packages. The name may be a
string, as in ``globals()["name"]``. Not covered are files, clocks, values that Python hides, such
as those of weak references and context variables, and settings that only functions of installed
packages read. After such a change, call :func:`dpjax.clear_caches`.
"""

import functools
import gc
import hashlib
import logging
import os
import pickle
import sys
import types
import uuid
import weakref
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from threading import Lock
from typing import Any

import jax

_log = logging.getLogger(__name__)
# A function that names one of these can read any global, any attribute of a module that it reads,
# or any environment variable.
_READS_ANY = {"eval", "exec", "globals", "vars"}
_READS_ATTRIBUTES = {"__dict__", "__getattribute__", "attrgetter", "getattr"}
_READS_ENVIRONMENT = {"expandvars", "getenv", "getenvb"}
_PLAIN = {bool, bytes, float, int, str, type(None)}
# callable -> the callable's digest when it was first traced
_first: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
_context = jax.make_user_context("")
_since = uuid.uuid4().hex  # part of all contexts; changed by forget()
_lock = Lock()
# The ids of the functions of the innermost context.
_inside: ContextVar[frozenset] = ContextVar("_inside", default=frozenset())


@contextmanager
def as_now(*functions: Callable):
    """A context in which JAX traces the current behaviour of these functions and their callees.

    Directly within a context of the same functions, it is that context.
    """
    ids = frozenset(map(id, functions))
    if ids <= _inside.get():
        yield
        return
    token = _inside.set(ids)
    try:
        with _context(_value(functions)):
            yield
    finally:
        _inside.reset(token)


def _value(functions) -> str:
    """The value of the context of functions."""
    known: dict[Any, str] = {}
    try:
        digest = _Pickler(functions, known, None).digest.hexdigest()
        with _lock:
            changed = any(_first.setdefault(place, now) != now for place, now in known.items())
    except Exception as reason:  # a value cannot be read, or is nested too deeply
        _log.info("a game is traced anew, because a value that it reads is unknown: %s", reason)
        digest, changed = uuid.uuid4().hex, True
    return _since + digest if changed else _since


def renewable(function: Callable):
    """Wrap a function so that it is traced anew after :func:`forget`, also outside of sweeps."""

    @functools.wraps(function)
    def called(*arguments, **keywords):
        with nullcontext() if _context.value else _context(_since):
            return function(*arguments, **keywords)

    return called


def forget() -> None:
    """Let all games be traced anew, and forget the digests of traced functions."""
    global _since
    with _lock:
        _since = uuid.uuid4().hex
        _first.clear()


class _Pickler(pickle.Pickler):
    """The digest of a value. The digests of callables within it are added to ``known``.

    Only the attributes in ``names`` are read from a module. If ``names`` is None, all are read from
    a module of the user, and all plain values from a module of an installed package.
    """

    def __init__(self, value, known, names):
        self.known, self.names, self.digest = known, names, hashlib.sha256()
        super().__init__(types.SimpleNamespace(write=self.digest.update), pickle.HIGHEST_PROTOCOL)
        self.dump(value)

    def persistent_id(self, value):
        """The digest of a class, or of a callable that may identify a trace in JAX's cache."""
        kind = type(value)
        by_identity = kind.__hash__ is object.__hash__ and kind.__weakrefoffset__
        if not (isinstance(value, type) or (callable(value) and by_identity)):
            return None
        if value not in self.known:
            self.known[value] = ""  # a placeholder, since the value may read itself
            names = _names(value.__code__) if isinstance(value, types.FunctionType) else None
            content = _content(value, None if names and names & _READS_ANY else names)
            every = names and names & (_READS_ANY | _READS_ATTRIBUTES)
            pickler = _Pickler(content, self.known, None if every else names)
            self.known[value] = pickler.digest.hexdigest()
        return self.known[value]

    def reducer_override(self, value):
        return object, (), _content(value, self.names)


def _content(value, names):
    """The values that determine the behaviour of a value."""
    if isinstance(value, types.CodeType):
        # The constants are included, since -1.0 and -2.0 have the same hash.
        return hash(value), value.co_code, value.co_consts
    if isinstance(value, types.FunctionType | types.ModuleType | type):
        space = getattr(value, "__globals__", vars(value))
        parts = ["__module__", "__name__", "__qualname__", "__defaults__", "__kwdefaults__"]
        read: dict = {}
        if not _is_library(space.get("__name__") or value.__module__):
            is_function = isinstance(value, types.FunctionType)
            parts += ["__code__", "__dict__"] if is_function else ["__bases__"]
            named = (lambda name: name != "__builtins__") if names is None else names.__contains__
            read = {name: x for name, x in space.items() if named(name)}
            called = {getattr(x, "__name__", None) for x in read.values() if callable(x)}
            if is_function and (names is None or (names | called) & _READS_ENVIRONMENT):
                read["environment variables"] = dict(os.environ)
        elif isinstance(value, types.ModuleType):  # settings of an installed package
            read = {name: x for name in names or () if not callable(x := space.get(name))}
            if names is None:
                read = {name: x for name, x in space.items() if type(x) in _PLAIN}
        cells = [gc.get_referents(cell) for cell in getattr(value, "__closure__", None) or ()]
        return [getattr(value, name, None) for name in parts], read, cells
    try:
        reduced = value.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    except Exception:  # it cannot be pickled
        return id(value), gc.get_referents(value)
    if isinstance(reduced, tuple):
        return *reduced[:3], *map(list, filter(None, reduced[3:5]))  # entries of lists and dicts
    return reduced, [getattr(value, name, None) for name in ("__module__", "__wrapped__")]


def _names(code) -> set[str]:
    """All names of globals and attributes in a code object and in the functions it defines.

    Strings are included, since they may be names, as in ``globals()["name"]``.
    """
    names, constants = {*code.co_names}, [*code.co_consts]
    for x in constants:
        if isinstance(x, tuple | frozenset):
            constants.extend(x)
        elif isinstance(x, types.CodeType):
            names |= _names(x)
        elif isinstance(x, str):
            names.add(x)
    return names


def _is_library(module) -> bool:
    """Whether a module belongs to dpjax, to Python or to an installed package."""
    if not isinstance(module, str):  # such as a class with a slot of this name
        return False
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    installed = {"site-packages", "dist-packages"} & {*Path(file).parts}
    return bool(installed) or module.partition(".")[0] in (*sys.stdlib_module_names, "dpjax")
