"""Digests of the values that Python functions read, so that JAX traces current behaviour.

JAX caches traces of functions that are passed to ``jit``, ``cond``, ``switch``, ``scan``,
``while_loop``, ``fori_loop`` or ``checkpoint``. A cached trace is reused even if the globals,
closures, arrays or objects that the function reads have changed. If one of them has changed since
the function was first traced, the game is traced in a separate context. Tracing every game in a
separate context would take four times as long.

The digest is computed from a pickle that is never loaded. Pickling visits containers, objects and
arrays; functions and classes are pickled by content. A value that cannot be pickled is identified
by its ``id`` and the values that it refers to, a library function by its name and closure.
"""

import gc
import hashlib
import pickle
import sys
import sysconfig
import types
import uuid
import weakref
from typing import Any

import jax

_LIBRARIES = tuple(map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib")))
# callable -> the callable's digest when it was first traced
_first: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
_context = jax.make_user_context("")
# After this many contexts all of JAX's traces are cleared. JAX cannot clear those of one context.
_CONTEXTS = 64
_entered: set[str] = set()


def as_now(*functions):
    """A context in which JAX traces the current behaviour of these functions and their callees."""
    known: dict[Any, str] = {}
    try:
        digest = _Pickler(functions, known, None).digest.hexdigest()
        changed = any(_first.setdefault(each, now) != now for each, now in known.items())
    except Exception:  # a value cannot be read, or is nested too deeply
        digest, changed = uuid.uuid4().hex, True
    if not changed:
        return _context("")
    if digest not in _entered and len(_entered) == _CONTEXTS:
        forget()
    _entered.add(digest)
    return _context(digest)


def forget() -> None:
    """Clear all of JAX's traces and the digests of traced functions."""
    jax.clear_caches()
    _first.clear()
    _entered.clear()


class _Pickler(pickle.Pickler):
    """The digest of a value. The digests of callables within it are added to ``known``.

    Only the attributes in ``names`` are read from a module; all are read if ``names`` is None.
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
            pickler = _Pickler(_content(value, names), self.known, names)
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
        if not _is_library(space.get("__name__") or value.__module__ or ""):
            parts += ["__code__", "__bases__"]
            read = {name: x for name, x in space.items() if names is None or name in names}
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
    """All names of globals and attributes in a code object and in the functions it defines."""
    inner = [_names(x) for x in code.co_consts if isinstance(x, types.CodeType)]
    return {*code.co_names}.union(*inner)


def _is_library(module) -> bool:
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    names = *sys.builtin_module_names, "dpjax"
    return module.partition(".")[0] in names or file.startswith(_LIBRARIES)
