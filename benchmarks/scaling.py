"""Run time by horizon, number of arms or entries, number of trials, and number of points.

    python benchmarks/scaling.py            # writes benchmarks/scaling/scaling.{csv,png}

``sweep`` plays EXP3 on Bernoulli arms and entropic FTRL with the tree on given losses, on one core.
The figure shows the seconds of a call without compilation. A dashed line shows linear
growth through the point of the largest size. The legend has the slope over the last two doublings.
"""

import argparse
import os
from functools import lru_cache
from pathlib import Path

# This must happen before jax counts the cores.
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import numpy as np
from jax import random as jr
from measure import seconds

from dpjax import domains, environments, learners, sweep
from dpjax.report import plot
from dpjax.report.output import output_folder
from dpjax.report.tables import write_csv

BASE = {"horizon": 2048, "size": 4, "trials": 1024, "points": 1}
AXES = {
    "horizon": ("horizon T", [2**i for i in range(9, 15)]),
    "size": ("arms K, or entries N", [2**i for i in range(1, 7)]),
    "trials": ("trials", [2**i for i in range(6, 14)]),
    "points": ("points", [2**i for i in range(6)]),
}
REPEATS = 3


@lru_cache
def exp3(horizon, arms):
    """A game of EXP3. A point is its mixing."""

    def game(mixing):
        means = (0.45, *[0.5] * (arms - 1))
        learner = learners.exp3(horizon, arms, mixing=mixing)
        return learner, environments.bernoulli(means, regret="pseudo")

    return game


@lru_cache
def ftrl(horizon, dim):
    """A game of FTRL. A point is its epsilon."""
    losses = np.random.default_rng(0).integers(0, 2, size=(horizon, dim))

    def game(epsilon):
        domain = domains.simplex(dim)
        learner = learners.ftrl(horizon, domain, epsilon=epsilon)
        return learner, environments.linear_losses(domain, losses)

    return game


GAMES = {"exp3": exp3, "ftrl": ftrl}


def play(name, horizon, size, trials, points, seed):
    """Plays one call."""
    return sweep(
        GAMES[name](horizon, size), np.linspace(0.1, 0.9, points), trials, jr.key(seed),
        checkpoints=1, progress=False,
    )  # fmt: skip


def measure(quick):
    """One row per learner, axis and size. They are called in turn, to be under the same load."""
    rows = [
        {"learner": name, "axis": axis, **BASE, axis: size}
        for name in GAMES
        for axis, (_, sizes) in AXES.items()
        for size in (sizes[:2] if quick else sizes)
    ]
    for row in rows:
        row["calls"] = []
    for seed in range(1 + (1 if quick else REPEATS)):
        for row in rows:
            given = {name: row[name] for name in BASE}
            row["calls"].append(
                seconds(lambda g=given, r=row, s=seed: play(r["learner"], **g, seed=s))[0]
            )
    for row in rows:
        calls = np.array(row.pop("calls")[1:])  # the first call compiles
        cells = row["horizon"] * row["trials"] * row["points"]
        row["seconds"], row["least"] = float(np.median(calls)), float(calls.min())
        row["ns"] = row["least"] / cells * 1e9
    return rows


def draw(rows):
    """Draws one panel per axis, with a curve per learner."""
    figure, panels = plot.panels(1, len(AXES), size=(3.2 * len(AXES), 3.2))
    for axes, (axis, (label, _)) in zip(panels, AXES.items(), strict=True):
        for name, colour in zip(GAMES, plot.categorical(len(GAMES)), strict=True):
            mine = [row for row in rows if (row["learner"], row["axis"]) == (name, axis)]
            x = np.array([row[axis] for row in mine], float)
            y = np.array([row["least"] for row in mine])
            back = max(len(x) - 3, 0)
            slope = np.log(y[-1] / y[back]) / np.log(x[-1] / x[back])
            axes.loglog(x, y, "o-", color=colour, markersize=3, label=f"{name}, slope {slope:.2f}")
            axes.loglog(x, y[-1] * x / x[-1], "--", color=colour, linewidth=0.8, alpha=0.6)
        axes.plot([], [], "--", color="0.5", linewidth=0.8, label="linear growth")
        axes.set_xscale("log", base=2)
        plot.label_axes(axes, f"against {label}", xlabel=label, ylabel="time of a call, s")
        axes.legend(fontsize=7, frameon=False, handlelength=3)
    figure.supxlabel(
        f"Least of {REPEATS} calls on one core, without compilation. Sizes if not on the axis: "
        "T = {horizon}, K or N = {size}, {trials} trials, {points} point. Slopes: of the last two "
        "doublings.".format(**BASE),
        fontsize=8, x=0.01, horizontalalignment="left",
    )  # fmt: skip
    return figure


def main():
    """Writes the table and the figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", default=Path(__file__).with_name("scaling"), metavar="FOLDER")
    parser.add_argument("--quick", action="store_true", help="two sizes per axis, one call each")
    arguments = parser.parse_args()
    rows = measure(arguments.quick)
    with output_folder(arguments.out) as folder:
        write_csv(folder / "scaling.csv", rows)
        draw(rows).savefig(folder / "scaling.png", dpi=150)
    print(f"{arguments.out}: {len(rows)} sizes")


if __name__ == "__main__":
    main()
