"""dpjax beside plain JAX, NumPy and SMPyBandits: time to compile, and to play.

    python benchmarks/peers.py              # all sizes, one core, a table in Markdown
    python benchmarks/peers.py exp3 --turns 3
    python benchmarks/peers.py --packages   # SMPyBandits on all cores (the extra "referees")

Plain JAX is ``jit(vmap(scan))`` as in in_jax.py. Seconds to compile are those of the first call,
without those to play. Nothing is read from a cache. Then all play once in each turn. Seconds to
play and ratios are medians over the turns. The mean results must agree.
"""

import argparse
import contextlib
import io
import os
import sys
import time
from functools import partial
from multiprocessing import get_context
from pathlib import Path

os.environ["DPJAX_CACHE"] = "off"
# This must happen before jax counts the cores.
if hasattr(os, "sched_setaffinity") and "--packages" not in sys.argv:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])

import in_jax
import in_numpy
import jax
import measure
import numpy as np
import workloads
from jax import random as jr

from dpjax import domains, environments, learners, sweep
from dpjax.learners._exp3 import default_mixing
from dpjax.learners._ftrl import default_rate

HORIZONS, TRIALS = (256, 4096, 65536), (64, 4096)
# The most rounds of all trials, so that plain JAX takes at most half a minute.
MOST = {"exp3": 3e8, "ftrl": 2e7, "linucb": 5e6, "successive_elimination": 3e8}


def of_exp3(horizon):
    """The workload's name, the trial in plain JAX, and the call of NumPy."""
    given = horizon, float(default_mixing(horizon, 4)), workloads.W1_MEANS
    return "W1", in_jax.exp3(*given), partial(in_numpy.exp3, *given)


def of_ftrl(horizon):
    """As :func:`of_exp3`."""
    dim, domain = workloads.EXPERTS, domains.simplex(workloads.EXPERTS)
    rate = float(default_rate(horizon, domain.regularizer, domain.losses))
    scale = float((horizon - 1).bit_length() * domain.losses.diameters[0])
    given = horizon, rate, scale, dim, workloads.BIAS
    return "W5", in_jax.ftrl(*given), partial(in_numpy.ftrl, *given, None)


def of_linucb(horizon):
    """As :func:`of_exp3`."""
    dim, arms, gap = workloads.CONTEXT
    confidence = 0.0, 1.0, 1.0, float(np.log(horizon)), 1.0
    numpy = partial(in_numpy.linucb, horizon, workloads.CONTEXT, *confidence)
    return "W3", in_jax.linucb(horizon, dim, arms, gap), numpy


def of_successive_elimination(horizon):
    """As :func:`of_exp3`; NumPy plays it by batches."""
    given = horizon, 1.0, workloads.ARMS_MEANS
    return "W2-rounds", in_jax.successive_elimination(*given), None


PEERS = {"exp3": of_exp3, "ftrl": of_ftrl, "linucb": of_linucb,
         "successive_elimination": of_successive_elimination}  # fmt: skip


def implementations(name, horizon, trials) -> list[measure.Implementation]:
    """dpjax, plain JAX, and NumPy with at most 512 trials."""
    workload, trial, numpy = PEERS[name](horizon)
    compiled = jax.jit(jax.vmap(trial))

    def plain(seed):
        return np.asarray(compiled(jr.split(jr.key(seed), trials)))

    found = [
        measure.Implementation("dpjax", trials, partial(workloads.play, workload, horizon, trials)),
        measure.Implementation("plain JAX", trials, plain),
    ]
    if numpy is not None and horizon <= 4096:
        few = min(trials, 512)
        found.append(measure.Implementation("NumPy", few, partial(numpy, few)))
    return found


def rows(name, horizon, trials, turns):
    """One row of the table: dpjax beside the others."""
    ones = implementations(name, horizon, trials)
    first = [measure.seconds(one.play, 0)[0] for one in ones]
    times, values = np.zeros((turns, len(ones))), [[] for _ in ones]
    for turn in range(turns):
        for i, one in enumerate(ones):
            times[turn, i], value = measure.seconds(one.play, 1 + turn)
            values[i].append(value)
    played = np.median(times, axis=0)
    ours, *theirs = map(np.concatenate, values)
    agrees = all(measure.agree(ours, value) for value in theirs)
    compiling = np.maximum(first - played, 0.0)
    ratio = times[:, 0] / times[:, 1]
    whole = (compiling + played)[0] / (compiling + played)[1]
    numbers = *compiling[:2], *played[:2], np.median(ratio), whole
    per_trial = times / [one.trials for one in ones]
    beside = measure.short(np.median(per_trial[:, 0] / per_trial[:, 2])) if len(ones) > 2 else ""
    return [name, horizon, trials, *map(measure.short, numbers), beside, "yes" if agrees else "NO"]


def _of_package(policy, horizon, means, seeds):
    """The seconds of SMPyBandits for the trials of some seeds."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        from benchmarks.referees.smpybandits import policies

        module = policies()
    for seed in seeds:
        np.random.seed(seed)
        made = getattr(module, policy)(len(means))
        made.startGame()
        for _ in range(horizon):
            arm = made.choice()
            made.getReward(arm, float(np.random.random() >= means[arm]))


def packages(horizon=4096, trials=64):
    """SMPyBandits in one process for each core, beside a sweep on all cores."""
    means, cores = workloads.W1_MEANS, os.cpu_count() or 1
    print(
        "| learner | T | trials | SMPyBandits, us | dpjax, us | ratio |\n|---|---|---|---|---|---|"
    )
    for policy, learner in (
        ("UCB", learners.ucb1),
        ("klUCB", learners.kl_ucb),
        ("Exp3", learners.exp3),
    ):
        with get_context("spawn").Pool(cores) as pool:
            pool.starmap(_of_package, [(policy, 8, means, [0])] * cores)  # imports
            begin = time.perf_counter()
            parts = [range(i, trials, cores) for i in range(cores)]
            pool.starmap(_of_package, [(policy, horizon, means, part) for part in parts])
            theirs = (time.perf_counter() - begin) / horizon / trials * 1e6

        def game(point, learner=learner):
            return learner(horizon, len(means)), environments.bernoulli(means)

        def play(seed, game=game):
            many = 64 * trials
            sweep(game, np.ones(1), many, jr.key(seed), checkpoints=1, progress=False)
            return many

        play(0)
        took, many = measure.seconds(play, 1)
        ours = took / horizon / many * 1e6
        numbers = " | ".join(map(measure.short, (theirs, ours, ours / theirs)))
        print(f"| {learner.__name__} | {horizon} | {trials} | {numbers} |", flush=True)


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("learners", nargs="*", metavar="LEARNER", help=f"of {', '.join(PEERS)}")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, as a check that it runs")
    parser.add_argument("--packages", action="store_true", help="SMPyBandits on all cores")
    options = parser.parse_args()
    if unknown := {*options.learners} - {*PEERS}:
        parser.error(f"unknown learners: {', '.join(sorted(unknown))}")
    if options.packages:
        packages(*((64, 8) if options.quick else ()))
        return
    columns = (
        "learner", "T", "trials", "dpjax compiles, s", "plain JAX, s", "dpjax plays, s",
        "plain JAX, s", "ratio, play", "ratio, in all", "dpjax / NumPy", "agree",
    )  # fmt: skip
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    agreed = True
    for name in options.learners or PEERS:
        for horizon in HORIZONS[:1] if options.quick else HORIZONS:
            for trials in TRIALS[:1] if options.quick else TRIALS:
                if horizon * trials > MOST[name]:
                    continue
                row = rows(name, horizon, trials, options.turns)
                agreed &= row[-1] == "yes"
                print(f"| {' | '.join(map(str, row))} |", flush=True)
    if not agreed:
        raise SystemExit("Two implementations differ by more than four standard errors.")


if __name__ == "__main__":
    main()
