"""Speed on one core: dpjax, NumPy, Numba and C, called in turn within one run.

    python benchmarks/speed.py                # all workloads, a table in Markdown
    python benchmarks/speed.py W1 W4 --json speed.json
    python benchmarks/speed.py arms           # more learners over stochastic arms
    python benchmarks/speed.py --list

Times are ns per round, trial and point: the median of --repeats turns, with the least and the
largest. Each implementation is called once to compile. Then all are called in turn, and ratios are
taken within a turn. The values of all implementations have the same distribution. The last columns
compare their means, which agree if they differ by at most four standard errors. MiB is the memory
that the compiled program allocates beside its arguments.

It needs gcc, and uses Numba if the extra "bench" is installed.
"""

import argparse
import json
import os
import platform
import sys

# This must happen before jax counts the cores.
if hasattr(os, "sched_setaffinity"):
    wanted = int(sys.argv[sys.argv.index("--cores") + 1]) if "--cores" in sys.argv else 1
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-wanted:])

import jax
import measure
import numpy as np
import workloads
from references import implementations, in_numba

from dpjax.engine.devices import cores


def machine() -> str:
    """Describes the processor and the versions of packages."""
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
    python = f"Python {platform.python_version()}"
    return f"{model}, cores: {cores()}, {python}, {', '.join(versions)}"


def main():
    """Prints the table, workload by workload."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help="default: all but arms")
    parser.add_argument("--list", action="store_true", help="only list the workloads")
    parser.add_argument("--full", action="store_true", help="use the workloads' full horizons")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, as a check that it runs")
    parser.add_argument("--repeats", type=int, default=5, help="turns (default 5)")
    parser.add_argument("--cores", type=int, default=1, help="for dpjax; the others use one")
    parser.add_argument("--json", metavar="FILE", help="also write the rows to FILE")
    arguments = parser.parse_args()
    names = [
        name
        for word in arguments.workloads or workloads.WORKLOADS
        for name in (workloads.MORE if word == "arms" else [word])
    ]
    unknown = set(names) - set(workloads.WORKLOADS) - set(workloads.MORE)
    if unknown:
        parser.error(f"no workload {', '.join(sorted(unknown))}; see --list")
    if arguments.list:
        for name, workload in {**workloads.WORKLOADS, **workloads.MORE}.items():
            print(f"{name:<20}{workload.title}, T = {workload.horizon}")
        return
    print(measure.markdown(), flush=True)
    rows = []
    for name in names:
        workload = workloads.workload_of(name)
        horizon = workload.horizon if arguments.full else workload.short
        trials, repeats = workload.trials, arguments.repeats
        if arguments.quick:
            horizon, trials, repeats = min(horizon, 125), min(trials, 256), 2
        found = measure.side_by_side(implementations(name, horizon, trials), horizon, repeats)
        for row in measure.rows(workload.title, horizon, found):
            print(measure.markdown(row), flush=True)
            rows.append(row)
    print(f"\n{machine()}. gcc {' '.join(measure.FLAGS[:3])}. "
          f"Largest memory in use: {measure.peak_memory():.0f} MiB.")  # fmt: skip
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"machine": machine(), "rows": rows}, file, indent=1)
    if any(row["agrees"] == "NO" for row in rows):
        raise SystemExit("Two implementations differ by more than four standard errors.")


if __name__ == "__main__":
    main()
