"""Shared by the speed benchmarks: C loops, alternating timings, and data on compiled programs."""

import ctypes
import math
import resource
import subprocess
import tempfile
import time
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

FLAGS = ("-O3", "-march=native", "-ffast-math", "-Wno-psabi")


@lru_cache
def c_library(name, *defines):
    """Compiles benchmarks/NAME.c with FLAGS and definitions such as ``LANES=8``, and loads it."""
    source = Path(__file__).with_name(f"{name}.c")
    library = Path(tempfile.mkdtemp()) / f"{name}.so"
    definitions = [f"-D{define}" for define in defines]
    subprocess.run(
        ["gcc", *FLAGS, *definitions, "-shared", "-fPIC", source, "-o", library, "-lm"],
        check=True,
    )
    return ctypes.CDLL(str(library))


def call_c(function, *arguments):
    """Calls a C function with ints as int, floats as float, and arrays by their address."""

    def convert(argument):
        if argument is None or isinstance(argument, np.ndarray):
            return ctypes.c_void_p(None if argument is None else argument.ctypes.data)
        if isinstance(argument, np.uint64):
            return ctypes.c_uint64(int(argument))
        whole = isinstance(argument, int | np.integer)
        return ctypes.c_int(int(argument)) if whole else ctypes.c_float(float(argument))

    return function(*map(convert, arguments))


@contextmanager
def compiled_programs():
    """Collects the programs compiled ahead of time within the block, such as those of sweep."""
    compile_, found = jax.stages.Lowered.compile, []

    def record(lowered, *arguments, **options):
        found.append(compile_(lowered, *arguments, **options))
        return found[-1]

    jax.stages.Lowered.compile = record
    try:
        yield found
    finally:
        jax.stages.Lowered.compile = compile_


@contextmanager
def compile_times():
    """Collects the seconds that jax took to trace, lower and compile within the block.

    Only the longest trace counts, because a function's trace contains those of its callees.
    """
    found, traces = [], []

    def listen(event, duration, **_):
        if event == "/jax/core/compile/jaxpr_trace_duration":
            traces.append(duration)
        elif event.startswith("/jax/core/compile/"):
            found.append(duration)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield found
        found.append(max(traces, default=0.0))
    finally:
        # jax 0.7 cannot remove a listener.
        getattr(jax.monitoring, "unregister_event_duration_listener", id)(listen)


def temporary_bytes(compiled) -> int:
    """The bytes that a compiled program allocates beside its arguments and results."""
    return compiled.memory_analysis().temp_size_in_bytes


def peak_memory() -> float:
    """The peak memory of the whole process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Implementation(NamedTuple):
    """One way to compute a workload."""

    name: str
    trials: int
    play: object  # seed -> array with the value of each trial


class Measured(NamedTuple):
    """The measurements of one implementation."""

    name: str
    trials: int
    compile: float  # s; reported by jax, or the extra time of the first call
    nanoseconds: np.ndarray  # (repeats,) per round and trial
    values: np.ndarray  # of all trials
    temporary: int | None  # bytes that the XLA program allocates


def seconds(function, *arguments):
    """The seconds of a call, and its result."""
    start = time.perf_counter()
    result = function(*arguments)
    return time.perf_counter() - start, result


def side_by_side(implementations, rounds, repeats) -> list[Measured]:
    """Measures implementations in turn, ``repeats`` times; ``rounds`` are those of one trial."""
    first, compiling, temporary = [], [], []
    for one in implementations:
        with compiled_programs() as programs, compile_times() as times:
            first.append(seconds(one.play, 0)[0])
        compiling.append(sum(times))
        temporary.append(max(map(temporary_bytes, programs), default=None))
    times = np.zeros((len(implementations), repeats))
    values = [[] for _ in implementations]
    for repeat in range(repeats):
        for i, one in enumerate(implementations):
            times[i, repeat], value = seconds(one.play, 1 + repeat)
            values[i].append(np.asarray(value, np.float64).ravel())
    return [
        Measured(
            one.name,
            one.trials,
            compiling[i] or max(first[i] - float(np.median(times[i])), 0.0),
            times[i] / rounds / one.trials * 1e9,
            np.concatenate(values[i]),
            temporary[i],
        )
        for i, one in enumerate(implementations)
    ]


def mean_and_error(values):
    """The mean and its standard error."""
    return values.mean(), values.std() / math.sqrt(len(values))


def agree(ours, theirs) -> bool:
    """Whether two means differ by at most four standard errors, up to rounding."""
    (a, s), (b, t) = mean_and_error(ours), mean_and_error(theirs)
    return abs(a - b) <= 4.0 * math.hypot(s, t) + 1e-4 * abs(a)


def short(number) -> str:
    """Formats a number with three digits, or as an integer from 1000 on."""
    return f"{number:.0f}" if number >= 1000 else f"{number:.3g}"


def spread(values) -> str:
    """Formats "median (least..largest)"."""
    return f"{short(np.median(values))} ({short(values.min())}..{short(values.max())})"


COMPILED = ("dpjax", "Numba")
COLUMNS = (
    "workload", "by", "T", "trials", "ns", "dpjax takes, times", "compile s", "MiB", "value",
    "error", "agrees",
)  # fmt: skip


def rows(workload, rounds, measured) -> list[dict]:
    """One row per implementation; the first one is compared with the others."""
    ours = measured[0]
    table = []
    for one in measured:
        mean, error = mean_and_error(one.values)
        played = not np.isnan(mean)
        verdict = "yes" if agree(ours.values, one.values) else "NO"
        table.append(
            {
                "workload": workload,
                "by": one.name,
                "T": rounds,
                "trials": one.trials,
                "ns": spread(one.nanoseconds),
                "dpjax takes, times": "1"
                if one is ours
                else spread(ours.nanoseconds / one.nanoseconds),
                "compile s": f"{one.compile:.1f}" if one.name in COMPILED else "",
                "MiB": "" if one.temporary is None else f"{one.temporary / 2**20:.2g}",
                "value": f"{mean:.5g}" if played else "",
                "error": f"{error:.2g}" if played else "",
                "agrees": verdict if played and one is not ours else "",
            }
        )
    return table


def markdown(row=None) -> str:
    """A row of the table, or its header if there is no row."""
    if row is None:
        return f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}"
    return f"| {' | '.join(str(row[column]) for column in COLUMNS)} |"
