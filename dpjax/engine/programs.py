"""Identifies the traced programs of sweeps, and compiles one program for each block size.

A game can change while its function stays the same, since the function may read a helper, a global
or an array that changes. So every call traces the game. The traced program, with all its arrays, is
the key in the cache of compiled programs.
"""

import hashlib
import re
import sys
from dataclasses import dataclass, field, replace
from functools import lru_cache
from threading import Lock
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr
from jax.extend.core import ClosedJaxpr, Literal, Var
from jax.sharding import Mesh

from dpjax._garbage import rarely_collected
from dpjax.core import _check
from dpjax.engine import closure_digest, devices, executables, settings
from dpjax.engine.compile import compile_block
from dpjax.engine.evaluate import CALLED, CONTROL, equations
from dpjax.engine.lift import Lifted, Number, lifted, with_arguments

# The limit of the cache of compiled programs in bytes, as far as their sizes are known. An XLA
# program for CPU has about eighteen bytes for each character of its text
# (tests/attack/test_memory.py).
_BYTES = 2**28
_BYTES_OF_A_CHARACTER = 18
_kept: dict = {}  # (Traced, size, mesh) -> Program, in the order in which they were last used
_compiling: WeakValueDictionary = WeakValueDictionary()  # (Traced, size, mesh) -> Lock
_lock = Lock()


@dataclass(frozen=True)
class Traced:
    """One trajectory of a game as a program; equal programs are compiled once."""

    compiled_as: str  # a digest of the program without the numbers that are arguments
    callbacks: tuple  # the Python functions that it calls when it runs
    key_types: frozenset  # the names of the dtypes of its keys
    numeric: tuple  # the JAX settings that affect numbers
    settings: tuple  # all JAX settings
    digest: str = field(compare=False)  # a digest of the program with all numbers and ``numeric``
    text: str = field(compare=False)  # a digest of the program without its numbers
    rounds: tuple = field(compare=False)  # the checkpoints
    point: tuple = field(compare=False)  # the shapes of the leaves of a point
    output: Any = field(compare=False)  # the shapes of a Result without its rounds
    program: ClosedJaxpr = field(compare=False)  # of (*leaves of the point, seed, key)
    numbers: list[Number] = field(compare=False)  # all numbers in the program
    lifted: Lifted = field(compare=False)  # the numbers that are arguments

    def differences(self, other: "Traced") -> dict[int, np.ndarray]:
        """The numbers of a program of the same text that differ from this one's, by position."""
        pairs = enumerate(zip(self.numbers, other.numbers, strict=True))
        return {
            i: number.value
            for i, (mine, number) in pairs
            if mine.place is not None and mine.value.tobytes() != number.value.tobytes()
        }

    def compared(self, differences: dict[int, np.ndarray]) -> "Traced":
        """This program with some numbers lifted, given other values of them by position."""
        others = [number._replace(value=differences.get(i, number.value))
                  for i, number in enumerate(self.numbers)]  # fmt: skip
        rest, places = lifted(self.numbers, others)
        if not places.places:
            return self
        compiled_as = _hashed(f"{self.text} {rest} {self.numeric}")
        return replace(self, compiled_as=compiled_as, lifted=places)

    def to_compile(self) -> ClosedJaxpr:
        """The program of (*leaves of the point, seed, key, *vectors of lifted numbers)."""
        return with_arguments(self.program, self.lifted)


def traced(program: ClosedJaxpr, output: Any, point: list, rounds: tuple) -> Traced:
    """A program that was traced from the cell of a sweep.

    Args:
      program: of (*leaves of the point, seed, key).
      output: the shapes of its results.
      point: the shapes of the leaves of a point.
      rounds: (n,) the checkpoints.

    Raises:
      TypeError: it uses keys of a generator that is not in dpjax.generators, or reads a value that
        is traced by a caller of the sweep.
    """
    _check.untraced("sweep", program.consts)
    key_types = _key_types(program.jaxpr)
    for dtype in key_types:
        _check.of_threefry("game", dtype)
    program = _with_copied_constants(program)
    digest, text, callbacks, numbers = digests(program)
    digest = _hashed(f"{digest} {_numeric()}")
    return Traced(
        digest, callbacks, frozenset(map(str, key_types)), _numeric(), _settings(), digest, text,
        rounds, tuple(point), output, program, numbers, Lifted({}, {}),
    )  # fmt: skip


def _hashed(text) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _key_types(jaxpr) -> set:
    """The dtypes of all keys in a program."""
    avals = {atom.aval for eqn in equations(jaxpr) for atom in (*eqn.invars, *eqn.outvars)}
    dtypes = {getattr(aval, "dtype", None) for aval in avals}
    return {dtype for dtype in dtypes if dtype and jnp.issubdtype(dtype, jax.dtypes.prng_key)}


def _with_copied_constants(program) -> ClosedJaxpr:
    """A program with copies of the constants that it reads.

    NumPy arrays may be changed in place, and this changes JAX arrays that share their memory.
    Unused constants are dropped, since whether JAX keeps them depends on Python's garbage
    collection. Otherwise digests could differ between processes.
    """
    jaxpr = program.jaxpr
    read = {atom for eqn in jaxpr.eqns for atom in eqn.invars if isinstance(atom, Var)}
    read |= {atom for atom in jaxpr.outvars if isinstance(atom, Var)}
    pairs = zip(jaxpr.constvars, program.consts, strict=True)
    kept = [(var, _copied(constant)) for var, constant in pairs if var in read]
    variables = [var for var, _ in kept]
    return ClosedJaxpr(jaxpr.replace(constvars=variables), [constant for _, constant in kept])


def _copied(constant):
    if _is_key(constant):
        return constant.copy()
    # jax 0.7 wraps arrays of NumPy in a class of its own.
    is_array = isinstance(constant, np.ndarray | jax.Array)
    return np.array(constant) if is_array or np.ndim(constant) else constant


def _is_key(value) -> bool:
    return isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)


def _numeric() -> tuple:
    """The JAX settings that affect numbers and are not part of a traced program."""
    names = "jax_threefry_partitionable", "jax_default_matmul_precision"
    return tuple(getattr(jax.config, name) for name in names)


def _settings() -> tuple:
    """All JAX settings, including those changed by contexts."""
    held = jax.config.values.items()
    return tuple(repr(getattr(jax.config, name, value)) for name, value in held)


class Program(NamedTuple):
    """A compiled program of a block."""

    run: Any  # as returned by dpjax.engine.compile.compile_block
    bytes_needed: int  # on each device, besides its code; 0 if unknown
    bytes_held: int  # by the program itself and its arrays while it is cached


@rarely_collected()
def compiled(traced: Traced, size: tuple[int, int], mesh: Mesh | None) -> Program:
    """The program of a block of ``size`` points and seeds, compiled unless it is cached.

    With a mesh, each device computes a block of this size. The program is cached in memory and on
    disk. If the programs in memory hold more than ``_BYTES`` together, the least recently used are
    dropped. Threads that need the same program wait for the first one.
    """
    place = traced, size, mesh
    with _lock:
        compiling = _compiling.setdefault(place, Lock())
    with compiling:
        with _lock:
            program = _kept.pop(place, None)
        if program is None:
            program = _from_disk_or_compiled(place)
        with _lock:
            _kept[place] = program
            held = sum(kept_program.bytes_held for kept_program in _kept.values())
            while held > _BYTES and len(_kept) > 1:
                held -= _kept.pop(next(iter(_kept))).bytes_held
    return program


def _from_disk_or_compiled(place) -> Program:
    """A block's program, from its file if there is one. A new program is kept if possible."""
    traced, path = place[0], executables.path_of(*place)
    loaded = executables.load(path) if path else None
    if loaded is not None:
        return Program(*loaded)
    with settings.of_program(*traced.numeric):
        run, was_read = executables.watched(compile_block, *place)
    program = Program(run, devices.bytes_needed(run), _bytes_held(run, traced))
    if path and not was_read:
        executables.save(path, *program)
    return program


def clear_caches() -> None:
    """Clear the caches of dpjax, mainly compiled programs, and trace all games anew.

    Programs are compiled again when they are needed. Results change only if a game reads a value
    whose change dpjax cannot see: a file, a clock, or a setting that is read by a function of an
    installed package. Call this function after such a change. Programs of other code stay cached;
    ``jax.clear_caches()`` clears JAX's own caches.

    Examples:
      >>> dpjax.clear_caches()
    """
    with _lock:
        _kept.clear()
    closure_digest.forget()
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "dpjax" and module is not None:
            for value in list(vars(module).values()):
                if getattr(value, "__module__", None) == name and hasattr(value, "cache_clear"):
                    value.cache_clear()


def _bytes_held(run, traced) -> int:
    """The bytes of a compiled program and its arrays."""
    arrays = sum(np.asarray(x).nbytes for x in map(_words, traced.program.consts))
    return _BYTES_OF_A_CHARACTER * len(run.as_text() or "") + 2 * arrays


def _words(array):
    """An array unchanged; keys as their words."""
    return jr.key_data(array) if _is_key(array) else array


def digests(program: ClosedJaxpr) -> tuple[str, str, tuple, list[Number]]:
    """(digest of a traced program, digest of it without its numbers, its callbacks, its numbers).

    The digests do not depend on the location of the code, the names of its variables, or the
    process. They do not cover callbacks, which are Python functions. So these functions are
    returned too.
    """
    known: dict[int, tuple[bytes, bytes, list[Number]]] = {}
    callbacks: list = []

    def visit(program) -> tuple[bytes, bytes, list[Number]]:
        """Digests of the text and the numbers of a program, open or closed, and the numbers."""
        if id(program) in known:
            return known[id(program)]
        text, numbers, leaves = [], hashlib.sha256(), []
        places: dict[Any, int] = {}

        def feed(array, place=None, dtype=None):
            words = np.asarray(_words(array))
            if words.shape != np.shape(array):  # Keys are not numbers.
                place, dtype = None, None
            leaves.append(Number(place, np.asarray(words, dtype)))
            words = np.ascontiguousarray(words)
            text.append(f"{words.dtype}{words.shape}")
            numbers.update(words)

        def describe(value):
            if isinstance(value, Var):
                text.append(f"{places.setdefault(value, len(places))}:{_type(value.aval)}")
            elif isinstance(value, Literal):
                if type(value.val) in _PLAIN:
                    numbers.update(f"{value.val!r},".encode())
                    leaves.append(Number(value, np.asarray(value.val, value.aval.dtype)))
                else:
                    feed(value.val, value, value.aval.dtype)
                text.append(_type(value.aval))
            elif type(value) in _PLAIN:
                text.append(repr(value))
            elif hasattr(value, "eqns"):
                text_of_inner, numbers_of_inner, leaves_of_inner = visit(value)
                text.append(text_of_inner.hex())
                numbers.update(numbers_of_inner)
                leaves.extend(leaves_of_inner)
            elif hasattr(value, "__array__"):
                feed(value)
            elif isinstance(value, tuple | list):
                text.append(f"{type(value).__name__}{len(value)}")
                every(value)
            elif isinstance(value, dict):
                for name in sorted(value):
                    text.append(name)
                    describe(value[name])
            elif isinstance(value, set | frozenset):
                text.extend(sorted(map(repr, value)))
            else:
                text.append(re.sub("0x[0-9a-f]+", "", repr(value)))

        def every(values):
            for value in values:
                describe(value)

        jaxpr = getattr(program, "jaxpr", program)
        constants = getattr(program, "consts", ())
        for var, constant in zip(jaxpr.constvars, constants, strict=False):
            feed(constant, constant, var.aval.dtype)
        every((*jaxpr.constvars, *jaxpr.invars))
        for equation in jaxpr.eqns:
            text.append(equation.primitive.name)
            every((*equation.invars, *equation.outvars))
            before, params = len(leaves), equation.params
            if equation.primitive.name == "release":
                # Replays read the mechanism's sensitivity, but the compiled code does not.
                site = params["site"]
                numbers.update(repr(site.sensitivity).encode())
                params = {**params, "site": site._replace(sensitivity=None)}
            describe(params)
            if equation.primitive.name not in (*CALLED, *CONTROL):
                leaves[before:] = [Number(None, value) for _, value in leaves[before:]]
            if "callback" in equation.params:
                callbacks.append(equation.params["callback"])
        every(jaxpr.outvars)
        digest = hashlib.sha256("\n".join(text).encode()).digest()
        known[id(program)] = digest, numbers.digest(), leaves
        return known[id(program)]

    text, numbers, leaves = visit(program)
    digest = hashlib.sha256(text + numbers).hexdigest()[:16]
    return digest, text.hex()[:16], tuple(callbacks), leaves


_PLAIN = {bool, float, int, str, type(None)}


@lru_cache(maxsize=4096)
def _type(aval) -> str:
    return str(aval)
