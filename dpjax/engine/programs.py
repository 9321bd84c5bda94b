"""Traces games at every call of a sweep, and compiles a program once for each size of a block.

What a game does can change while its function stays the same, since it may read a helper, a global
or an array that changes. So a compiled program is kept under the program that was traced, with all
its arrays, and is compiled from that trace.
"""

import hashlib
import re
import sys
import warnings
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr
from jax.extend.core import ClosedJaxpr, Literal, Var

from dpjax.core import _check
from dpjax.engine import closure_digest, devices, executables, settings
from dpjax.engine.compile import compile_block
from dpjax.engine.evaluate import equations

# A sweep warns when it compiles this many programs that differ in nothing but numbers.
_ALIKE = 5
# Compiled programs are kept up to this many bytes, as far as their bytes are known. A program of
# XLA for CPU holds some eighteen for each character of its text (tests/attack/test_memory.py).
_BYTES = 2**28
_BYTES_OF_A_CHARACTER = 18
_kept: dict = {}  # (Traced, size, mesh) -> Program, in the order in which they were last used
_lock = Lock()


@dataclass(frozen=True)
class Traced:
    """One trajectory of a game as a program; equal ones compute the same bits."""

    digest: str  # a digest of the program, all arrays in it, and what else decides on numbers
    text: str  # a digest of the program without its numbers
    callbacks: tuple  # the functions of Python that it calls as it runs
    numeric: tuple  # the settings of JAX that decide on numbers
    settings: tuple  # all settings of JAX
    rounds: tuple  # the checkpoints
    point: tuple = field(compare=False)  # the shapes of the leaves of a point
    output: Any = field(compare=False)  # the shapes of a Result but for its rounds
    program: Any = field(compare=False)  # the ClosedJaxpr, of (*leaves of the point, seed, key)


def trace(game, play, rounds, points, key_dtype) -> Traced:
    """Traces the program of a cell of a sweep, as the game is now.

    Args:
      game, play: those of :func:`dpjax.sweep`.
      rounds: (n,) the checkpoints.
      points: pytree of (P, ...) arrays.
      key_dtype: the dtype of the key.

    Raises:
      TypeError: the game looks at a number of a point, which is traced; or it draws from keys
        whose numbers depend on the batch; or it reads a value that a caller of the sweep traces.
    """
    rounds = tuple(rounds.tolist())

    def cell(point, seed, key):
        result = play(*game(point), jr.fold_in(key, seed), checkpoints=rounds)
        return tuple(result[1:])

    point = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], jnp.float32), points)
    seed, key = jax.ShapeDtypeStruct((), jnp.int32), jax.ShapeDtypeStruct((), key_dtype)
    with closure_digest.as_now(game, play), _check.traceable("game"):
        program, output = jax.make_jaxpr(cell, return_shape=True)(point, seed, key)
    _check.untraced("sweep", program.consts)
    for dtype in _key_types(program.jaxpr):
        _check.of_threefry("game", dtype)
    # Constants are copied, because arrays of NumPy may be changed in place, and with them those of
    # JAX that share their memory.
    program = ClosedJaxpr(program.jaxpr, [_own(constant) for constant in program.consts])
    digest, text, callbacks = digests(program)
    digest = hashlib.sha256(f"{digest} {_numeric()}".encode()).hexdigest()[:16]
    shapes = tuple(leaf.shape for leaf in jax.tree.leaves(point))
    return Traced(digest, text, callbacks, _numeric(), _settings(), rounds, shapes, output, program)


def _key_types(jaxpr) -> set:
    """The dtypes of all keys in a program."""
    avals = {atom.aval for eqn in equations(jaxpr) for atom in (*eqn.invars, *eqn.outvars)}
    dtypes = {getattr(aval, "dtype", None) for aval in avals}
    return {dtype for dtype in dtypes if dtype and jnp.issubdtype(dtype, jax.dtypes.prng_key)}


def _own(constant):
    if isinstance(constant, np.ndarray | jax.Array):
        return constant.copy()
    return constant


def _numeric() -> tuple:
    """The settings of jax that decide on numbers and that no traced program shows."""
    names = "jax_threefry_partitionable", "jax_default_matmul_precision"
    return tuple(getattr(jax.config, name) for name in names)


def _settings() -> tuple:
    """All settings of jax, those that contexts have changed among them."""
    held = jax.config.values.items()
    return tuple(repr(getattr(jax.config, name, value)) for name, value in held)


class Program(NamedTuple):
    """A compiled program of a block."""

    run: Any  # (leaves of points, seeds (S,), key) -> leaves of what a cell returns, (..., P, S)
    bytes_needed: int  # on each device, beside its code; 0 where nobody knows
    bytes_held: int  # by the program itself and the arrays in it, as long as it is kept


def compiled(traced, size, mesh) -> Program:
    """The program of a block of ``size`` points and seeds, compiled unless it was kept.

    With a mesh, each of its devices computes such a block. The program is kept in memory and on
    disk. If all programs in memory hold more than ``_BYTES`` together, those that have not been
    used for longest are dropped.
    """
    place = traced, size, mesh
    with _lock:
        program = _kept.pop(place, None)
    if program is None:
        with settings.of_program(*traced.numeric):
            path = executables.path_of(traced, size, mesh)
            found = executables.load(path) if path else None
            if found is None:
                run, was_read = executables.watched(compile_block, traced, size, mesh)
                found = run, devices.bytes_needed(run), _bytes_held(run, traced)
                if path and not was_read:
                    executables.save(path, *found)
            program = Program(*found)
    with _lock:
        _kept[place] = program
        held = sum(each.bytes_held for each in _kept.values())
        while held > _BYTES and len(_kept) > 1:
            held -= _kept.pop(next(iter(_kept))).bytes_held
    return program


def clear_caches() -> None:
    """Drops what dpjax and JAX keep between calls, compiled programs above all.

    Programs are compiled again when they are needed, and no number changes. ``jax.clear_caches()``
    is called too, because dpjax remembers what functions read when JAX traced them.

    Examples:
      >>> dpjax.clear_caches()
    """
    with _lock:
        _kept.clear()
    closure_digest.forget()
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "dpjax":
            for value in list(vars(module).values()):
                if getattr(value, "__module__", None) == name and hasattr(value, "cache_clear"):
                    value.cache_clear()


def _bytes_held(run, traced) -> int:
    """The bytes that a compiled program and the arrays in it take."""
    arrays = sum(np.asarray(x).nbytes for x in map(_words, traced.program.consts))
    return _BYTES_OF_A_CHARACTER * len(run.as_text() or "") + 2 * arrays


def _words(array):
    """An array as it is; keys as their words."""
    is_key = jnp.issubdtype(jnp.result_type(array), jax.dtypes.prng_key)
    return jr.key_data(array) if is_key else array


def count(traced, size, mesh) -> None:
    """Warns once when several programs are compiled that differ in nothing but numbers."""
    alike = _alike(traced.text, traced.rounds, traced.settings, size, mesh)
    if traced.digest not in alike and len(alike) < _ALIKE:
        alike.add(traced.digest)
        if len(alike) == _ALIKE:
            warnings.warn(
                f"game: it is compiled for the {_ALIKE}th time for other numbers, of the same "
                "shapes; put what changes into points, which compiles once for all of them",
                RuntimeWarning,
                stacklevel=7,  # the line that called sweep, or ran a study
            )


@lru_cache(maxsize=1024)
def _alike(*what) -> set:
    """The digests of the programs that were compiled and agree in all of this."""
    del what
    return set()


def digests(program) -> tuple[str, str, tuple]:
    """(digest of a traced program, digest of it without its numbers, its callbacks).

    The digests do not depend on where the code is, on the names of its variables, or on the
    process. No digest sees what a callback does, which is a function of Python; so the functions
    themselves are returned.
    """
    known: dict[int, tuple[bytes, bytes]] = {}
    callbacks: list = []

    def visit(program) -> tuple[bytes, bytes]:
        """Digests of the text and of the numbers of a program, open or closed."""
        if id(program) in known:
            return known[id(program)]
        text, numbers = [], hashlib.sha256()
        places: dict[Any, int] = {}

        def feed(array):
            array = np.ascontiguousarray(_words(array))
            text.append(f"{array.dtype}{array.shape}")
            numbers.update(array)

        def describe(value):
            if isinstance(value, Var):
                text.append(f"{places.setdefault(value, len(places))}:{_type(value.aval)}")
            elif isinstance(value, Literal):
                if type(value.val) in _PLAIN:
                    numbers.update(f"{value.val!r},".encode())
                else:
                    feed(value.val)
                text.append(_type(value.aval))
            elif type(value) in _PLAIN:
                text.append(repr(value))
            elif hasattr(value, "eqns"):
                inner, numbers_of_inner = visit(value)
                text.append(inner.hex())
                numbers.update(numbers_of_inner)
            elif hasattr(value, "__array__"):
                feed(value)
            elif isinstance(value, tuple | list):
                text.append(f"{type(value).__name__}{len(value)}")
                each(value)
            elif isinstance(value, dict):
                for name in sorted(value):
                    text.append(name)
                    describe(value[name])
            elif isinstance(value, set | frozenset):
                text.extend(sorted(map(repr, value)))
            else:
                text.append(re.sub("0x[0-9a-f]+", "", repr(value)))

        def each(values):
            for value in values:
                describe(value)

        jaxpr = getattr(program, "jaxpr", program)
        for constant in getattr(program, "consts", ()):
            feed(constant)
        each((*jaxpr.constvars, *jaxpr.invars))
        for equation in jaxpr.eqns:
            text.append(equation.primitive.name)
            each((*equation.invars, *equation.outvars, equation.params))
            if "callback" in equation.params:
                callbacks.append(equation.params["callback"])
        each(jaxpr.outvars)
        known[id(program)] = hashlib.sha256("\n".join(text).encode()).digest(), numbers.digest()
        return known[id(program)]

    text, numbers = visit(program)
    return hashlib.sha256(text + numbers).hexdigest()[:16], text.hex()[:16], tuple(callbacks)


_PLAIN = {bool, float, int, str, type(None)}


@lru_cache(maxsize=4096)
def _type(aval) -> str:
    return str(aval)
