"""Cost of the learners over stochastic arms, beside plain C loops, on one core.

    python benchmarks/stochastic.py

Prints ns per (round x trial) through ``sweep``: round by round with T = 4096 and 2048 trials, five
arms, epsilon = 1; and what plays in batches also a batch at a time, with T = 5e7 and 1000 trials.
The C loops (benchmarks/stochastic.c, gcc -O3 -march=native, one trial after another) run in
between, three times; the table has the medians, and the mean regret of both as a check.
"""

import ctypes
import inspect
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Before jax counts the cores.
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import jax
import numpy as np
from jax import random as jr
from scipy.special import zeta

from dpjax import environments, learners, privacy, simulate, simulate_batches, sweep

MEANS = (0.25, 0.375, 0.5, 0.625, 0.75)
# Linear around 1/2: of theta = (1/4, 0).
ACTIONS = ((-1.0, 0.3), (-0.5, -0.6), (0.0, 0.9), (0.5, -0.6), (1.0, 0.3))
HORIZON, TRIALS = 4096, 2048
LONG, LONG_TRIALS = 50_000_000, 1000
REPEATS = 3
# In the order of the enumeration in stochastic.c.
IN_C = (
    "ucb1", "kl_ucb", "thompson", "lazy_ucb", "lazy_thompson", "dp_ucb", "dp_ucb_bound",
    "dp_ucb_int", "successive_elimination",
)  # fmt: skip
BY_BATCHES = (
    "successive_elimination", "adap_ucb", "adap_klucb", "dp_klucb", "dp_imed",
    "linear_elimination",
)  # fmt: skip


def compile_loops():
    """The function ``play`` of stochastic.c."""
    source = Path(__file__).with_name("stochastic.c")
    library = Path(tempfile.mkdtemp()) / "stochastic.so"
    subprocess.run(
        ["gcc", "-O3", "-march=native", "-shared", "-fPIC", source, "-o", library, "-lm"],
        check=True,
    )
    play = ctypes.CDLL(str(library)).play
    play.restype = ctypes.c_double
    play.argtypes = [
        *[ctypes.c_int] * 4, ctypes.c_float, ctypes.c_int,
        ctypes.POINTER(ctypes.c_float), ctypes.c_uint64,
    ]  # fmt: skip
    return play


def game_of(name, horizon):
    """A function of epsilon; learners without one ignore it."""
    factory = getattr(learners, name)
    parameters = inspect.signature(factory).parameters
    private = "epsilon" in parameters
    arms = ACTIONS if "actions" in parameters else len(MEANS)

    def game(epsilon):
        arguments = {"epsilon": epsilon} if private else {}
        learner = factory(horizon, arms, **arguments)
        return learner, environments.bernoulli(MEANS, regret="pseudo")

    return game


def dp_ucb_int_interval():
    """f of dp_ucb_int at epsilon = 1 and delta = T^-2."""
    root = float(privacy.zcdp_inverse_root(1.0, HORIZON**-2.0))
    return int(np.ceil((0.5 * zeta(1.1) * root**2) ** (1 / 1.1)))


def seconds(function):
    """How long it took, and what it returned."""
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def main():
    """One line a learner and engine."""
    loops = compile_loops()
    means = (ctypes.c_float * len(MEANS))(*MEANS)
    interval = dp_ucb_int_interval()
    one = np.ones(1, np.float32)
    print(f"{'learner':<24}{'engine':<9}{'compile s':>10}{'ns':>10}{'C ns':>9}{'ratio':>8}"
          f"{'regret':>10}{'in C':>10}")  # fmt: skip
    chosen = sys.argv[1:] or [*IN_C, *BY_BATCHES[1:]]
    for name in chosen:
        engines = [("rounds", simulate, HORIZON, TRIALS)]
        if name in BY_BATCHES:
            engines.append(("batches", simulate_batches, LONG, LONG_TRIALS))
        for engine, play, horizon, trials in engines:
            game = game_of(name, horizon)

            def ours(seed, game=game, play=play, trials=trials):
                return sweep(
                    game, one, trials, jr.key(seed), play=play, checkpoints=1, progress=False
                ).regret.mean()

            def in_c(seed, name=name):
                return loops(
                    IN_C.index(name), HORIZON, len(MEANS), TRIALS // 16, 1.0, interval, means, seed
                )

            first, _ = seconds(lambda ours=ours: ours(0))
            times, others = [], []
            for repeat in range(REPEATS):
                took, regret = seconds(lambda r=repeat, ours=ours: ours(r))
                times.append(took / horizon / trials * 1e9)
                if name in IN_C:
                    took, plain = seconds(lambda r=repeat, in_c=in_c: in_c(r))
                    others.append(took / HORIZON / (TRIALS // 16) * 1e9)
            mine = np.median(times)
            compiled = first - mine * horizon * trials * 1e-9
            line = f"{name:<24}{engine:<9}{compiled:10.1f}{mine:10.3g}"
            if others:
                other = np.median(others)
                line += f"{other:9.3g}{mine / other:8.2g}"
            else:
                line += " " * 17
            line += f"{regret:10.1f}"
            if others and engine == "rounds":
                line += f"{plain:10.1f}"
            print(line, flush=True)
    print(f"jax {jax.__version__}, {jax.default_backend()}, one core")


if __name__ == "__main__":
    main()
