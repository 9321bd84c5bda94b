"""Cost of LinUCB, beside a plain C loop, on one core.

    python benchmarks/linear.py

Prints ns per (round x trial) through ``sweep`` with d = 5, 10 fresh arms a round, gap 0.1, T = 2048
and 2048 trials: without privacy (exact sums), and with Gaussian noise on the tree, epsilon = 1 and
delta = 0.1. The C loop (benchmarks/linear.c, gcc -O3 -march=native, one trial after another) plays
the same law in between, three times; the table has the medians, and the mean regret of both.
"""

import ctypes
import os
import subprocess
import tempfile
import time
from pathlib import Path

# Before jax counts the cores.
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import jax
import numpy as np
from jax import random as jr

from dpjax import environments, gram_sums, learners, mechanisms, privacy, sweep

HORIZON, TRIALS, ARMS, DIM, GAP = 2048, 2048, 10, 5, 0.1
REPEATS = 3


def compile_loop():
    """The function ``play`` of linear.c."""
    source = Path(__file__).with_name("linear.c")
    library = Path(tempfile.mkdtemp()) / "linear.so"
    subprocess.run(
        ["gcc", "-O3", "-march=native", "-ffast-math", "-shared", "-fPIC", source, "-o", library,
         "-lm"],
        check=True,
    )  # fmt: skip
    play = ctypes.CDLL(str(library)).play
    play.restype = ctypes.c_double
    play.argtypes = [*[ctypes.c_int] * 3, *[ctypes.c_float] * 6, ctypes.c_uint64]
    return play


def learner_of(mechanism):
    """The learner whose noise is on that mechanism."""
    return learners.linucb(HORIZON, DIM, epsilon=1.0, delta=0.1, mechanism=mechanism)


def numbers(private):
    """Scale, offset, smallest eigenvalue, ln(1 / failure) and bias, as the C loop takes them."""
    if not private:
        return 0.0, 1.0, 1.0, np.log(HORIZON), 1.0
    levels = (HORIZON - 1).bit_length()
    scale = float(privacy.gaussian_scale(2.0 * levels**0.5, 1.0, 0.1))
    made = gram_sums.gaussian_regularizer(
        scale * levels**0.5, DIM, 0.5 / HORIZON**2, norm_bound="tight"
    )
    bias = float(np.sqrt(made.largest) + made.tilt)
    return scale, float(made.offset), float(made.smallest), np.log(2.0 * HORIZON), bias


def seconds(function):
    """How long it took, and what it returned."""
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def main():
    """One line a learner."""
    loop, few = compile_loop(), TRIALS // 16
    print(
        f"{'learner':<24}{'compile s':>10}{'ns':>8}{'C ns':>8}{'ratio':>7}{'regret':>9}{'in C':>9}"
    )
    for name, mechanism in (("linucb, no noise", mechanisms.exact), ("linucb", mechanisms.tree)):

        def game(point, mechanism=mechanism):
            del point
            return learner_of(mechanism), environments.gap_arms(DIM, gap=GAP, arms=ARMS)

        def ours(seed, game=game):
            return sweep(
                game, np.ones(1), TRIALS, jr.key(seed), checkpoints=1, progress=False
            ).regret.mean()

        given = numbers(mechanism is mechanisms.tree)

        def in_c(seed, given=given):
            return loop(HORIZON, ARMS, few, GAP, *given, seed)

        first, _ = seconds(lambda ours=ours: ours(0))
        times, others, regrets, plain = [], [], [], []
        for repeat in range(REPEATS):
            took, regret = seconds(lambda r=repeat, ours=ours: ours(r))
            times.append(took / HORIZON / TRIALS * 1e9)
            regrets.append(regret)
            took, regret = seconds(lambda r=repeat, in_c=in_c: in_c(r))
            others.append(took / HORIZON / few * 1e9)
            plain.append(regret)
        mine, other = np.median(times), np.median(others)
        compiled = first - mine * HORIZON * TRIALS * 1e-9
        print(f"{name:<24}{compiled:10.1f}{mine:8.0f}{other:8.0f}{mine / other:7.2g}"
              f"{np.mean(regrets):9.1f}{np.mean(plain):9.1f}", flush=True)  # fmt: skip
    print(f"jax {jax.__version__}, {jax.default_backend()}, one core")


if __name__ == "__main__":
    main()
