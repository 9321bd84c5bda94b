"""Epsilon revealed by every private learner's actions, beside the epsilon that a replay computes.

    python benchmarks/revealed.py --out docs/audit    # 40 minutes on two cores with other work
    python benchmarks/revealed.py --quick --out results/revealed

It writes revealed.csv, revealed_16.csv, revealed.png and revealed.pdf. With --draw it only draws
the figure from revealed.csv. With --speed it only prints the speed of filters.
"""

import argparse
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
import pandas
from jax import random as jr

from dpjax import audit, learners
from dpjax.audit._revealed import (
    attacked,
    curve,
    enumerated,
    exact_curve,
    filters_for,
    is_enumerable,
    worst,
)
from dpjax.cli import audits
from dpjax.combinators import as_learner
from dpjax.core import Arms
from dpjax.engine.devices import cores
from dpjax.learners import factories
from dpjax.report import plot
from dpjax.report.tables import format_markdown, write_csv

EPSILONS = (0.1, 1.0, 10.0)
SHORT, LONG = (8, 2), (16, 3)  # rounds and arms
DELTA = 0.01  # the least delta at which long games are bounded
FILTERS = 16  # filters per history, if all are enumerated
KNOWN = 0.003  # the sum of all estimated probabilities may differ from 1 by this much
REACH = 1.5  # largest epsilon tried, relative to the declared one
LEAST = 1e-3  # the figure draws smaller ratios at this height


def build(name, horizon, arms, epsilon):
    """A learner as in its audit, with this many arms, that releases only its actions."""
    sizes = {"arms": arms, "actions": audits.ACTIONS[:arms], "dim": 2, "epsilon": epsilon}
    options = audits.OPTIONS.get(name, {})
    learner = as_learner(factories.build(name, horizon, sizes, **options))
    return learner._replace(privacy=learner.privacy._replace(reported=()))


def names():
    """Names of private learners over arms that release something in a short game."""
    for name in learners.__all__:
        if name in audits.HORIZONS or audits.domains_of(name) != [""]:
            continue
        learner = audits.build(name, "", SHORT[0], 1.0)
        if isinstance(learner.action_set, Arms) and np.isfinite(float(learner.privacy.epsilon)):
            yield name


def paid(learner, pair, delta):
    """The largest epsilon at this delta over replays of 64 runs on a pair."""
    keys = jr.split(jr.key(0), 64)
    replayed = jax.jit(jax.vmap(lambda key: audit.replay(learner, pair, key)))(keys)
    return float(np.max(audit.spent(jax.tree.map(np.asarray, replayed), delta)))


def reached(p, q, runs, delta):
    """The largest bound that counting can give: the best event, with all counts at their means."""
    if max(abs(p.sum() - 1.0), abs(q.sum() - 1.0)) > KNOWN:
        return np.nan
    with np.errstate(invalid="ignore"):
        order, best = np.argsort(q / p), 0.0
    for places, ours, theirs in ((order, p, q), (order[::-1], q, p)):
        hits, misses = (np.minimum(runs * np.cumsum(side[places]), runs) for side in (ours, theirs))
        best = max(best, float(audit.bound_from_counts(hits, misses, runs, delta=delta).max()))
    return best


def exact(filters, pair, key, runs, delta, declared):
    """The revealed epsilon of a game whose histories can all be enumerated."""
    p, q = enumerated(filters, pair, key, FILTERS)
    found = {"reach": reached(p, q, runs, delta)}
    if delta > 0.0:
        grid = np.linspace(0.0, REACH * declared, 1501)
        epsilon = float(grid[np.argmax(exact_curve(p, q, grid) <= delta)])
        found |= {"level": delta, "below": epsilon, "above": epsilon}
    return found | {"sum_p": p.sum(), "sum_q": q.sum()}


def bounded(filters, pair, key, runs, delta, declared):
    """An interval for the epsilon revealed by the actions, at max(delta, DELTA)."""
    grid, level = np.linspace(0.0, REACH * declared, 61), max(delta, DELTA)
    found = curve(filters, pair, key, grid, runs, 0.95)
    seen, hidden = found.below > level, found.above <= level
    return {
        "level": level, "below": float(grid[seen.sum() - 1]) if seen[0] else 0.0,
        "above": float(grid[np.argmax(hidden)]) if hidden[-1] else np.nan,
    }  # fmt: skip


def measure(name, epsilon, horizon, arms, particles, runs):
    """A row of the table: the most revealing pair and all measurements of it."""
    began, learner = time.time(), build(name, horizon, arms, epsilon)
    keys, pairs = jr.split(jr.key(audits.SEED), 4), audit.worst_rounds(learner)
    filters = filters_for(learner, pairs, particles)
    most = filters.most_revealing(pairs, keys[0], 16)
    pair = jax.tree.map(lambda leaf: leaf[most], pairs)
    delta, declared = float(learner.privacy.delta), float(learner.privacy.epsilon)
    bound = attacked(filters, pair, keys[1], runs, delta, 0.95, False)
    history = worst(filters, pair, keys[2], runs // 4, 64, 0.95)
    row = {
        "learner": name, "horizon": horizon, "arms": arms, "epsilon": epsilon,
        "declared": declared, "delta": delta,
        "round": int(np.argmax((pair.losses != pair.others).any(axis=1))) + 1,
        "paid": paid(learner, pair, delta), "attack": bound.epsilon, "runs": runs,
        "worst": abs(history.log_ratio), "low": history.epsilon[0], "high": history.epsilon[1],
        "particles": particles,
    }  # fmt: skip
    if is_enumerable(learner):
        row |= exact(filters, pair, keys[3], runs, delta, declared)
    else:
        row |= bounded(filters, pair, keys[3], runs // 2, delta, declared)
    return row | {"seconds": round(time.time() - began)}


def measured(function, cases, path):
    """One row per case. Rows that the file already has are not measured again."""
    rows = read(path) if path.exists() else []
    done = {(row["learner"], row["epsilon"]) for row in rows}

    def one(case):
        row = function(*case)
        rows.append(row)
        write_csv(path, rows)
        print(*row.values(), flush=True)

    with ThreadPoolExecutor(cores()) as pool:
        list(pool.map(one, [case for case in cases if case not in done]))
    rows.sort(key=lambda row: (row["epsilon"], row["learner"]))
    write_csv(path, rows)
    return rows


def read(path):
    """Reads the rows of a written table, with numbers as floats."""
    return pandas.read_csv(path).to_dict("records")


def revealed(row):
    """The epsilon revealed at the declared delta; if delta is 0, that of the worst history."""
    return row["above"] if row["delta"] > 0.0 else row["worst"]


def upper(row):
    """The upper end of an interval, or "over" the largest epsilon tried."""
    return (
        f"{row['above']:.3g}"
        if np.isfinite(row["above"])
        else f"over {REACH * row['declared']:.3g}"
    )


def digits(*values):
    return ", ".join(f"{value:.3g}" for value in values)


def short_lines(rows):
    """The table of short games, and each learner's cells in the table of audits."""
    lines, cells = [], {}
    for name in dict.fromkeys(row["learner"] for row in rows):
        at = {row["epsilon"]: row for row in rows if row["learner"] == name}
        one = at[1.0]
        both = [digits(at[e]["paid"], revealed(at[e])) if e in at else "" for e in EPSILONS]
        history = f"{one['low']:.3g} to {one['high']:.3g}"
        lines.append(
            [
                f"`{name}`",
                digits(one["delta"]),
                *both,
                history,
                digits(*(one[k] for k in ("attack", "reach") if np.isfinite(one[k]))),
            ]
        )
        cells[name] = [digits(value) for value in (revealed(one), one["attack"], one["worst"])]
    header = ["learner", "delta", *(f"at epsilon = {e:g}: paid, revealed" for e in EPSILONS)]
    header += ["worst history at 1, 95 %", "attack at 1, at best"]
    return header, lines, cells


def long_lines(rows):
    """The table and cells of ``short_lines``, for long games."""
    lines = [
        [f"`{row['learner']}`", digits(row["delta"]), digits(row["paid"]), digits(row["attack"]),
         f"{row['low']:.3g} to {row['high']:.3g}", digits(row["level"]),
         f"{row['below']:.3g} and {upper(row)}"]
        for row in rows
    ]  # fmt: skip
    header = ["learner", "delta", "paid", "attack, at least", "worst history, 95 %", "level"]
    cells = {
        row["learner"]: [upper(row), digits(row["attack"]), digits(row["worst"])] for row in rows
    }
    return [*header, "epsilon at the level, between"], lines, cells


def figure(rows):
    """Draws the ratio of revealed to paid for each learner and epsilon."""
    drawn, (panel,) = plot.panels(1, 1, size=(9.0, 5.0))
    shown = list(dict.fromkeys(row["learner"] for row in rows))
    for epsilon, marker in zip(EPSILONS, "os^", strict=True):
        some = [row for row in rows if row["epsilon"] == epsilon and row["paid"] > 0.0]
        places = [shown.index(row["learner"]) for row in some]
        shares = [max(revealed(row) / row["paid"], LEAST) for row in some]
        color = plot.epsilon_color(epsilon)
        panel.plot(
            places, shares, marker, color=color, label=f"$\\epsilon$ = {epsilon:g}", alpha=0.8
        )
    panel.axhline(1.0, color="grey", linewidth=0.8)
    panel.set_yscale("log")
    panel.set_xticks(range(len(shown)), shown, rotation=70, ha="right", fontsize=8)
    panel.legend(fontsize=8, frameon=False, loc="lower left")
    plot.label_axes(panel, "", xlabel="", ylabel="revealed by the actions / paid")
    return drawn


def speeds():
    """Particle steps per second of compiled filters over all histories of a short game."""
    for name in ("hedge", "dp_exp3_lap", "adap_ucb"):
        learner = build(name, *SHORT, 1.0)
        pairs = audit.worst_rounds(learner)
        pair = jax.tree.map(lambda leaf: leaf[0], pairs)
        for particles, count in ((1, 16), (128, 16), (4096, 1)):
            filters = filters_for(learner, pairs, particles)
            for seed in range(2):
                began = time.perf_counter()
                enumerated(filters, pair, jr.key(seed), count)
            steps = count * particles * SHORT[0] * SHORT[1] ** SHORT[0]
            print(name, particles, f"{steps / (time.perf_counter() - began):.2g}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="default: all private learners")
    parser.add_argument("--out", type=Path, default=Path("results/revealed"))
    parser.add_argument("--only", choices=("short", "long"), help="measure only one table")
    parser.add_argument("--quick", action="store_true", help="measure only one learner")
    parser.add_argument("--speed", action="store_true", help="print the speed of filters")
    parser.add_argument("--draw", action="store_true", help="draw the figure from revealed.csv")
    options = parser.parse_args()
    # With all optimizations, compilation would take most of the time.
    jax.config.update("jax_disable_most_optimizations", True)
    if options.speed:
        return speeds()
    options.out.mkdir(parents=True, exist_ok=True)
    chosen = options.names or (["hedge"] if options.quick else list(names()))
    path, long = options.out / "revealed.csv", options.out / "revealed_16.csv"
    cases = [
        (name, epsilon) for epsilon in (1.0, 10.0, 0.1) for name in chosen
        if epsilon == 1.0 or factories.takes(name, "epsilon")
    ]  # fmt: skip
    if not options.draw and options.only != "long":
        few = (16, 2**10) if options.quick else (128, 2**17)
        measured(lambda *case: measure(*case, *SHORT, *few), cases, path)
    if not options.draw and options.only != "short":
        few = (4, 2**8) if options.quick else (64, 2**13)
        cases = [(name, 1.0) for name in chosen]
        measured(lambda *case: measure(*case, *LONG, *few), cases, long)
    if path.exists():
        plot.save(figure(read(path)), options.out, "revealed")
        print(format_markdown(*short_lines(read(path))[:2]))
    if long.exists():
        print(format_markdown(*long_lines(read(long))[:2]))


if __name__ == "__main__":
    main()
