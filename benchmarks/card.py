"""Measure dpjax on a GPU or TPU within six minutes, and write the results as Markdown.

    PYTHONPATH=. python benchmarks/card.py

It needs no network, and no package beyond the dependencies of dpjax. ``results/card`` contains the
page (``card.md``) and all measurements (``card.jsonl``), both written after each process. There are
three parts, the most important first:

1. Agreement: every learner plays the same trials on the CPU and on the device. The table has the
   largest differences of the final regret, and the seconds of compilation.
2. Speed: nanoseconds per round and trial of W1 to W5 (benchmarks/workloads.py), for 10^3 to 10^7
   trials, beside two floors. The memory floor is the time to read and write the state of a trial
   once. The launch floor is the time per iteration of an empty loop, divided by the trials.
3. Memory: the trials of W1 are doubled until they do not fit.

A game is played in several ways: in each layout of the engine, which are kernels and "trials last",
and in plain XLA, which is ``jit(vmap(scan))`` of ``dpjax.simulate``.

Each process computes one or a few rows, and ends at its time limit. So a crash or an endless loop
costs no other rows. The time limits of the parts add up to less than six minutes. While one process
measures its speed, others may compile, but they play no game on the device.

Without a GPU or TPU the sizes are tiny, and Pallas's interpreter runs the kernels. This only shows
that the script runs.
"""

import argparse
import atexit
import fcntl
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import workloads
from jax import lax
from jax import random as jr
from measure import compile_times, seconds, short

from dpjax import domains, learners, simulate, sweep
from dpjax.combinators import as_learner
from dpjax.engine import compile, devices, programs
from dpjax.kernels import one_kernel
from dpjax.learners import entrants, factories
from dpjax.study import standard
from dpjax.study.sweep import planned

ROOT = Path(__file__).parents[1]
CPU, LAST, PLAIN = "CPU", "trials last", "plain XLA"
LIMITS = {"device": 35, "agreement": 140, "speed": 120, "memory": 60}  # seconds of each part
CLOSE = 1e-3  # regrets of a trial differ if |a - b| > CLOSE (1 + |b|)


class Sizes(NamedTuple):
    """The sizes of all parts."""

    learners: tuple
    agreement: tuple  # trials and rounds
    workloads: tuple
    speed: tuple  # the numbers of trials, the most important first
    rounds: int  # of speed, at most
    memory: int  # the first number of trials


ON_CPU = Sizes(("dp_exp3_lap", "exp3", "successive_elimination"), (40, 12), ("W1",), (64,), 16, 64)
ON_CARD = Sizes(
    tuple(learners.__all__), (200, 256), ("W1", "W2-rounds", "W3", "W4", "W5"),
    (10**5, 10**3, 10**7, 10**6, 10**4), 1024, 2**22,
)  # fmt: skip


class Task(NamedTuple):
    """The work of one process."""

    part: str
    way: str = ""
    names: tuple = ("",)
    trials: int = 0
    rounds: int = 0

    def row(self, name, **found) -> dict:
        """A row of measurements, or of the reason why there are none."""
        return {"part": self.part, "way": self.way, "name": name, "trials": self.trials} | found


def tasks_of(part, ways, sizes) -> list[Task]:
    """The tasks of a part, the most important first."""
    *kernels, last = ways
    if part == "agreement":
        groups = [sizes.learners[i : i + 3] for i in range(0, len(sizes.learners), 3)]
        alone = [(name,) for name in sizes.learners]
        order = [*product([CPU], groups), *product(kernels, alone), *product([PLAIN, last], groups)]
        return [Task(part, *each, *sizes.agreement) for each in order]
    if part == "speed":
        first = product(sizes.speed, sizes.workloads, [*kernels, PLAIN])
        order = [*first, *product(sizes.speed, sizes.workloads, [last])]
        rounds = {trials: min(sizes.rounds, 10**9 // trials) for trials in sizes.speed}
        return [Task(part, way, (name,), trials, rounds[trials]) for trials, name, way in order]
    every = (*kernels, PLAIN, last)
    return [Task(part, way, sizes.workloads[:1], sizes.memory, 16) for way in every]


# Ways to play a game


def card() -> compile.Platform:
    """The engine's platform of the device. On a CPU it has a kernel for Pallas's interpreter."""
    if jax.default_backend() != "cpu":
        return compile.platform_of(None)
    kernel = partial(one_kernel, target="interpret")
    return compile.ACCELERATOR._replace(layouts=(kernel, compile.trials_last))


def layouts() -> dict:
    """The layouts of the device by the names of their ways. Only the last one is no kernel."""
    *kernels, last = card().layouts
    return {f"{kernel.keywords['target']} kernel": kernel for kernel in kernels} | {LAST: last}


def only(way):
    """A context in which the engine compiles in one way, and never falls back to another."""
    if way in (CPU, PLAIN):
        return nullcontext()
    here = card()._replace(layouts=(layouts()[way],))
    return patch.dict(compile.PLATFORMS, dict.fromkeys(("cpu", "cuda", "gpu", "tpu"), here))


def program(game, way, trials):
    """(a function that plays a game and returns regrets (S,), bytes that its program needs)."""
    seeds, point, key = np.arange(trials, dtype=np.int32), np.ones(1, np.float32), jr.key(0)
    if way == PLAIN:

        def play(point, seeds, key):
            def one(seed):
                return simulate(*game(point), jr.fold_in(key, seed), checkpoints=1)[1:]

            return jax.vmap(one)(seeds)

        arguments = point[0], seeds, key
        run = jax.jit(play).lower(*arguments).compile()
        needed = devices.bytes_needed(run)
    else:
        with only(way):
            traced = planned(game, point, trials, key, simulate, 1, None, None).traced
            run, needed, _ = programs.compiled(traced, (1, trials), None)
        arguments = [point], seeds, (jr.key_data(key), traced.lifted.vectors)
    arguments = jax.device_put(arguments)
    return lambda: jax.block_until_ready(run(*arguments)[0]).ravel(), needed


# Measurements: each yields the rows of one name of a task. ``alone`` waits for the other processes.


def device(task, name, alone):
    """The device, its software, and the floors."""
    first, bytes_copied = jax.devices()[0], 2**25 if jax.default_backend() == "cpu" else 2**31
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=9).stdout.split()
        driver = ", ".join(dict.fromkeys(found)) or "unknown"
    except (OSError, subprocess.TimeoutExpired):
        driver = "unknown"

    @jax.jit
    def loop(length, x):
        return lax.fori_loop(0, length, lambda t, x: x * 0.5 + t.astype(jnp.float32), x)

    array, length = jnp.zeros(bytes_copied // 4, jnp.float32), jnp.int32(4096)
    yield {
        "kind": first.device_kind, "platform": first.platform, "driver": driver,
        "runtime": " ".join(first.client.platform_version.split()), "ways": list(layouts()),
        "software": f"jax {jax.__version__}, jaxlib {jaxlib.__version__}, NumPy {np.__version__}, "
        f"Python {platform.python_version()}, {devices.cores()} cores",
        "launch": least_seconds(partial(loop, length, array[:32])) / 4096,
        "bandwidth": 2 * bytes_copied / least_seconds(partial(jax.jit(lambda x: x + 1.0), array)),
    }  # fmt: skip


def least_seconds(function) -> float:
    """Seconds of the fastest of up to five calls in two seconds, after a first call."""
    jax.block_until_ready(function())
    times, end = [], time.perf_counter() + 2.0
    while not times or (len(times) < 5 and time.perf_counter() < end):
        times.append(seconds(lambda: jax.block_until_ready(function()))[0])
    return min(times)


def agreement(task, name, alone):
    """The final regrets of a learner, by ``sweep`` unless the way is plain XLA."""
    sizes = entrants.sizes(task.rounds) | {"dim": 3, "domain": domains.simplex(entrants.ARMS)}

    def game(epsilon):
        learner = factories.build(name, task.rounds, sizes, epsilon=epsilon)
        return learner, standard.drawn(learner.action_set)

    with compile_times() as times, only(task.way):
        if task.way == PLAIN:
            regret = program(game, PLAIN, task.trials)[0]()
        else:
            key = jr.key(0)
            played = sweep(game, [1.0], task.trials, key, checkpoints=1, progress=False)
            regret = played.regret.ravel()
    yield {"regret": regret.tolist(), "compile": sum(times)}


def speed(task, name, alone):
    """The time of a round of a trial, and the bytes that a trial carries from round to round."""
    game = workloads.game_of(name, task.rounds)
    compiling, (play, needed) = seconds(program, game, task.way, task.trials)
    alone()
    ns = least_seconds(play) * 1e9 / task.rounds / task.trials
    state = state_bytes(game)
    yield {"T": task.rounds, "ns": ns, "compile": compiling, "bytes": needed, "state": state}


def state_bytes(game) -> int:
    """Bytes that one trial carries from round to round: states, action and tally."""

    def start(point, key):
        learner, environment = game(point)
        learner_state, action = as_learner(learner).init(key)
        state = environment.init(key)
        return learner_state, action, state, environment.step(state, key, action)[1].tally

    shapes = jax.eval_shape(start, jnp.float32(1.0), jr.key(0))
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))


def memory(task, name, alone):
    """The memory of a game, whose trials are doubled until it fails.

    After the first size, those that need less than a quarter of the memory are left out.
    """
    game, trials = workloads.game_of(name, task.rounds), task.trials
    while True:
        mean = float(np.mean(program(game, task.way, trials)[0]()))
        used = jax.devices()[0].memory_stats()
        if not used:
            raise NotImplementedError("this device does not count its memory")
        peak = used["peak_bytes_in_use"]
        yield {"trials": trials, "peak": peak, "mean": mean}
        a_trial, trials = peak / trials, 2 * trials
        while a_trial * trials < 0.25 * used.get("bytes_limit", 0):
            trials *= 2


# Processes


def work(task, folder, limit):
    """Compute the rows of a task in this process, which ends at its time limit."""
    signal.alarm(limit)

    def alone():
        """Wait until no other process measures; this time does not count. Then hold the lock."""
        signal.alarm(0)
        fcntl.flock(os.open(folder / "card.lock", os.O_CREAT | os.O_RDWR), fcntl.LOCK_EX)
        signal.alarm(limit)

    measure = {each.__name__: each for each in (device, agreement, speed, memory)}[task.part]
    for name in task.names:
        try:
            for row in measure(task, name, alone):
                write(folder, task.row(name, **row))
        except Exception as error:  # compilers refuse a game with many kinds of error
            text = (str(error).strip() or "no message").splitlines()[0]
            write(folder, task.row(name, why=f"{type(error).__name__}: {text}"))


def write(folder, row):
    """Append a row, at once because several processes append."""
    with open(folder / "card.jsonl", "ab", buffering=0) as file:
        file.write(json.dumps(row).encode() + b"\n")


def read(folder) -> list[dict]:
    """All rows that have been written completely."""
    text = (folder / "card.jsonl").read_text()
    return [json.loads(line) for line in text.rpartition("\n")[0].splitlines()]


def begin(task, folder, limit):
    """(the process of a task, the file of its messages)."""
    settings = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "DPJAX_CACHE": "off", "JAX_ENABLE_COMPILATION_CACHE": "false",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # since processes share the device
    }  # fmt: skip
    if task.way == CPU:
        settings["JAX_PLATFORMS"] = "cpu"
    command = [sys.executable, __file__, "--out", folder, "--limit", str(limit), "--task"]
    messages = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - read at the end
    process = subprocess.Popen(
        [*command, json.dumps(task)], env=settings, stdout=messages, stderr=messages
    )
    return process, messages


def stop(running):
    """End processes, and wait until they have left the device."""
    for process, _ in running.values():
        process.kill()
        process.wait()


def run(tasks, end, at_once, folder, limit):
    """Run tasks in order, ``at_once`` of them at a time, until a time of ``time.monotonic``."""
    waiting, running = list(tasks), {}
    atexit.register(stop, running)
    while (waiting or running) and time.monotonic() < end:
        while waiting and len(running) < at_once:
            task = waiting.pop(0)
            running[task] = begin(task, folder, limit)
        time.sleep(0.1)
        for task, (process, messages) in list(running.items()):
            if process.poll() is not None:
                del running[task]
                if process.returncode == -signal.SIGALRM:
                    failed(task, f"stopped after {limit} seconds", folder)
                elif process.returncode:
                    messages.seek(0)
                    last = (messages.read().strip() or "no message").splitlines()[-1]
                    failed(task, f"exit code {process.returncode}: {last}", folder)
                show(folder)
    stop(running)
    for task in running:
        failed(task, "stopped when the time of this part was over", folder)
    for task in waiting:
        failed(task, "not started: the time of this part was over", folder)
    show(folder)


def failed(task, why, folder):
    """Write the reason for each name without a row, or for the last name if all have one."""
    known = {row["name"] for row in read(folder) if task.row(row["name"]).items() <= row.items()}
    for name in [name for name in task.names if name not in known] or task.names[-1:]:
        write(folder, task.row(name, why=why))


# The page


def show(folder):
    """Write the page of all rows. A killed run leaves the old or the new page."""
    new = folder / "card.md.new"
    new.write_text(page(read(folder)))
    new.replace(folder / "card.md")


def page(rows) -> str:
    """The Markdown page of all rows."""
    about = next((row for row in rows if "kind" in row), None)
    if about is None:
        return f"No device: {rows[-1]['why']}\n"
    ways = [*about["ways"][:-1], PLAIN, LAST]
    lines = [
        f"### {about['kind']} ({about['platform']})",
        "",
        f"Driver {about['driver']}; {about['runtime']}; {about['software']}. A copy reads and "
        f"writes {about['bandwidth'] / 1e9:.0f} GB/s. An iteration of an empty loop takes "
        f"{about['launch'] * 1e6:.3g} us.",
    ]
    for part, lines_of in (("agreement", agreements), ("speed", speeds), ("memory", memories)):
        lines += ["", *lines_of(ways, [row for row in rows if row["part"] == part], about)]
    return "\n".join(lines) + "\n"


def table(columns, rows) -> list[str]:
    """The lines of a Markdown table."""
    return [f"| {' | '.join(row)} |" for row in (columns, ["---"] * len(columns), *rows)]


def of(rows, key, **given):
    """The entry of the row with these entries, else the reason why there is none, else None."""
    found = [row for row in rows if given.items() <= row.items()]
    reasons = [row["why"].replace("|", "/")[:80] for row in found if "why" in row]
    return next((row[key] for row in found if key in row), reasons[0] if reasons else None)


def text(entry, unit=1) -> str:
    """A number in a unit, with three digits; a reason; or nothing."""
    return entry or "" if isinstance(entry, str | None) else short(entry / unit)


def agreements(ways, rows, about) -> list[str]:
    """A table of learners, and how many agree with the CPU in each way."""
    lines, agree = [], dict.fromkeys(ways, 0)
    for name in dict.fromkeys(row["name"] for row in rows):
        cells, regrets = [name], {}
        for way in (CPU, *ways):
            found = of(rows, "regret", name=name, way=way)
            if isinstance(found, list):
                regrets[way] = np.array(found)
            if way != CPU and way in regrets and CPU in regrets:
                cell, far = difference(regrets[way], regrets[CPU])
                agree[way] += far == 0
                cells += [cell, text(of(rows, "compile", name=name, way=way))]
            elif way != CPU:
                cells += [found if isinstance(found, str) else "", ""]
        pairs = combinations([regrets[way] for way in ways if way in regrets], 2)
        differences = [difference(*pair)[::-1] for pair in pairs]
        lines.append([*cells, max(differences)[1] if differences else ""])
    columns = [column for way in ways for column in (way, "compile s")]
    counts = ", ".join(f"{agree[way]} ({way})" for way in ways)
    return [
        "The largest difference of the final regret from that on the CPU, with equal keys. In "
        f"brackets: trials that differ by more than {CLOSE:g} (1 + regret). The last column "
        "compares the ways on the device with each other.",
        "",
        *table(["learner", *columns, "between ways"], lines),
        "",
        f"Of {len(lines)} learners, these agree with the CPU in all trials: {counts}.",
    ]


def difference(found, expected) -> tuple[str, int]:
    """(the largest difference and the trials that differ as text, the number of these trials)."""
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    distance = np.where(same, 0.0, np.abs(found - expected))
    far = int(np.sum(~(same | (distance <= CLOSE * (1.0 + np.abs(expected))))))
    return f"{np.max(distance):.1g}" + (f" ({far} of {len(found)})" if far else ""), far


def speeds(ways, rows, about) -> list[str]:
    """A table of workloads and trials."""
    lines = []
    for name, trials in sorted({(row["name"], row["trials"]) for row in rows}):
        here = [row for row in rows if (row["name"], row["trials"]) == (name, trials)]
        ns = {way: of(here, "ns", way=way) for way in ways}
        ratios = [
            text(ns[PLAIN] / ns[way]) if {type(ns[PLAIN]), type(ns[way])} == {float} else ""
            for way in ways[:-2]
        ]
        state = next((row["state"] for row in here if "state" in row), None)
        memory = state and 2e9 * state / about["bandwidth"]
        others = [
            text(of(here, key, way=way), unit) if isinstance(ns[way], float) else ""
            for key, unit in (("compile", 1), ("bytes", 2**20))
            for way in ways
        ]
        launch = 1e9 * about["launch"] / trials
        rounds = next((row["T"] for row in here if "T" in row), "")
        times = map(text, (*ns.values(), memory, launch))
        lines.append([name, f"{trials:,}", str(rounds), *times, *ratios, *others])
    columns = [
        "workload", "trials", "T", *(f"{way} ns" for way in ways), "memory floor ns",
        "launch floor ns", *(f"{PLAIN} / {way}" for way in ways[:-2]),
        *(f"{way} {unit}" for unit in ("compile s", "MiB") for way in ways),
    ]  # fmt: skip
    return ["Time per round and trial.", "", *table(columns, lines)]


def memories(ways, rows, about) -> list[str]:
    """A table of the largest numbers of trials that fit."""
    lines = []
    for way in ways:
        here = [row for row in rows if row["way"] == way]
        last = next((row for row in reversed(here) if "peak" in row), {})
        peak, trials = last.get("peak"), last.get("trials")
        a_trial = peak and peak / trials
        why = of(here, "why")
        cells = text(trials), text(peak, 2**30), text(a_trial), text(last.get("mean"))
        lines.append([way, *cells, why or ""])
    columns = ["way", "trials", "peak GiB", "bytes a trial", "mean regret", "why no more"]
    return ["The largest number of trials of W1 that fits.", "", *table(columns, lines)]


def main():
    """Run all parts, and print the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, default=Path("results/card"), metavar="FOLDER", help="of all files"
    )
    parser.add_argument("--learners", nargs="+", help="by default all, or three on a CPU")
    parser.add_argument(
        "--limit", type=int, default=60, help="seconds of each process, 60 by default"
    )
    parser.add_argument("--task", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    folder, limit = arguments.out, arguments.limit
    if arguments.task:
        work(Task(*arguments.task), folder, limit)
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # ends its processes, too
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "card.jsonl").write_text("")
    cores, end = devices.cores(), time.monotonic() + LIMITS["device"]
    run([Task("device")], end, 1, folder, limit)
    found = next(row for row in read(folder) if row["part"] == "device")
    if "kind" not in found:
        sys.exit(page([found]))
    sizes = ON_CPU if found["platform"] == "cpu" else ON_CARD
    if arguments.learners:
        sizes = sizes._replace(learners=tuple(arguments.learners))
    for part, share in (("agreement", 0.75), ("speed", 0.25), ("memory", 0.0)):
        end += LIMITS[part]
        at_once = max(1, int(share * cores))
        run(tasks_of(part, found["ways"], sizes), end, at_once, folder, limit)
        print(f"{part}: done", file=sys.stderr)
    print((folder / "card.md").read_text())


if __name__ == "__main__":
    main()
