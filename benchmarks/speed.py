"""Speed on one core: dpjax beside NumPy, Numba and C, in turn within one run.

    python benchmarks/speed.py                # all workloads, a table in Markdown
    python benchmarks/speed.py W1 W4 --json speed.json
    python benchmarks/speed.py --list

Times are ns per round and trial (and point): the median of --repeats turns, least and largest.
Each implementation is called once to compile, then all of them in turn; ratios are taken within a
turn. All compute the same thing in law: the last columns compare what the trials came to on
average, by four standard errors. MiB is what the compiled program allocates beside its arguments.

Needs gcc; Numba where the extra "bench" is installed.
"""

import argparse
import json
import os
import platform
from functools import partial
from importlib.util import find_spec

# Before jax counts the cores.
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import in_numpy
import jax
import measure
import numpy as np
import workloads
from measure import Implementation, c_library, call_c

from dpjax import domains
from dpjax.learners.exp3 import default_mixing
from dpjax.learners.ftrl import default_rate

if find_spec("numba"):
    import in_numba
else:
    in_numba = None

LANES = (8, 16)
BLOCK = 128  # trials by which a C loop may exceed what it was asked for
QUICK = {"horizon": 128, "trials": 256, "repeats": 2}


def python_pair(name, trials, *arguments):
    """NumPy with these trials, and Numba with fewer, whose trials do not help each other."""
    pair = [Implementation("NumPy", trials, partial(getattr(in_numpy, name), *arguments, trials))]
    if hasattr(in_numba, name):
        few = max(trials // 8, 1)
        pair.append(Implementation("Numba", few, partial(getattr(in_numba, name), *arguments, few)))
    return pair


def in_c(name, trials, function, *arguments):
    """A C loop by its library and the arguments between the trials and the seed."""

    def play(seed):
        value = np.zeros(trials + BLOCK)
        call_c(function, arguments[0], trials, *arguments[1:], np.uint64(seed), value)
        return value[:trials]

    return Implementation(name, trials, play)


def in_lanes(name, trials, *arguments):
    """A loop of lanes.c, for each number of lanes."""
    return [
        in_c(f"C, {lanes} lanes", trials, getattr(c_library("lanes", f"LANES={lanes}"), name),
             *arguments)
        for lanes in LANES
    ]  # fmt: skip


def w1(horizon, trials):
    mixing, means = float(default_mixing(horizon, 4)), np.float32(workloads.W1_MEANS)
    return [
        *python_pair("exp3", trials, horizon, mixing, means),
        *in_lanes("exp3", 8 * trials, horizon, mixing, means),
    ]


def w4(horizon, trials):
    dim = workloads.EXPERTS
    return [
        *python_pair("tree", trials, horizon, 1.0, dim),
        *in_lanes("tree", 4 * trials, horizon, 1.0, np.zeros(dim, np.float32)),
    ]


def w5(horizon, trials, rows=None):
    dim, domain = workloads.EXPERTS, domains.simplex(workloads.EXPERTS)
    rate = default_rate(horizon, domain.regularizer, domain.losses)
    scale = (horizon - 1).bit_length() * domain.losses.diameters[0]
    return [
        *python_pair("ftrl", trials, horizon, rate, scale, dim, workloads.BIAS, rows),
        *in_lanes("ftrl", 2 * trials, horizon, rate, scale, workloads.BIAS, rows),
    ]


REFERENCES = {
    "W1": w1,
    "W4": w4,
    "W5": w5,
    "W5-given": lambda horizon, trials: w5(horizon, trials, workloads.expert_losses(horizon)),
}


def implementations(name, horizon, trials):
    """dpjax first, then what it is compared with."""
    cells = trials * len(workloads.WORKLOADS[name].points)
    ours = Implementation("dpjax", cells, partial(workloads.play, name, horizon, trials))
    return [ours, *REFERENCES.get(name, lambda *_: [])(horizon, trials)]


def machine() -> str:
    """What ran it."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as lines:
            model = next(line.split(":")[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        pass
    versions = [f"jax {jax.__version__}", f"NumPy {np.__version__}"]
    if in_numba:
        import numba

        versions.append(f"Numba {numba.__version__}")
    return f"{model}, one core, Python {platform.python_version()}, {', '.join(versions)}"


def main():
    """The table, workload by workload as they are measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help="by default all")
    parser.add_argument("--list", action="store_true", help="names of the workloads, and no more")
    parser.add_argument("--full", action="store_true", help="horizons as the workloads define them")
    parser.add_argument("--quick", action="store_true", help="tiny, to see that all runs")
    parser.add_argument("--repeats", type=int, default=5, help="turns (default 5)")
    parser.add_argument("--json", metavar="FILE", help="writes the rows there too")
    arguments = parser.parse_args()
    unknown = set(arguments.workloads) - set(workloads.WORKLOADS)
    if unknown:
        parser.error(f"no workload {', '.join(sorted(unknown))}; see --list")
    if arguments.list:
        for name, workload in workloads.WORKLOADS.items():
            print(f"{name:<18}{workload.title}, T = {workload.horizon}")
        return
    print(measure.markdown(), flush=True)
    rows = []
    for name in arguments.workloads or workloads.WORKLOADS:
        workload = workloads.WORKLOADS[name]
        horizon = workload.horizon if arguments.full else workload.short
        trials, repeats = workload.trials, arguments.repeats
        if arguments.quick:
            horizon, trials, repeats = QUICK["horizon"], QUICK["trials"], QUICK["repeats"]
        found = measure.side_by_side(implementations(name, horizon, trials), horizon, repeats)
        for row in measure.rows(workload.title, horizon, found):
            print(measure.markdown(row), flush=True)
            rows.append(row)
    print(f"\n{machine()}. gcc {' '.join(measure.FLAGS)}. "
          f"Largest memory in use: {measure.peak_memory():.0f} MiB.")  # fmt: skip
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"machine": machine(), "rows": rows}, file, indent=1)
    if any(row["agrees"] == "NO" for row in rows):
        raise SystemExit("Two implementations differ by more than four standard errors.")


if __name__ == "__main__":
    main()
