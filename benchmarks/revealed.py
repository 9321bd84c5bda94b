"""What the actions of every private learner reveal, beside what a replay says it pays.

    python benchmarks/revealed.py --out docs/audit            # half an hour on two cores
    python benchmarks/revealed.py --quick --out results/revealed

It writes revealed.csv, revealed_16.csv, revealed.png and revealed.pdf. With --draw it only draws
the figure from revealed.csv.
"""

import argparse
import csv
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
from jax import random as jr

from dpjax import audit, learners
from dpjax.audit.revealed import attacked, curve, filters_for, worst
from dpjax.cli import audits
from dpjax.combinators import as_learner
from dpjax.core import Arms
from dpjax.engine.devices import cores
from dpjax.learners import factories
from dpjax.report import plot
from dpjax.report.tables import write_csv

EPSILONS = (0.1, 1.0, 10.0)
SHORT, LONG = 8, 16  # rounds; of two and of three arms
DELTA = 0.01  # of the bounds of long games
LEAST = 1e-3  # smaller shares are drawn here


def build(name, horizon, arms, epsilon):
    """The learner of an audit with so many arms, of which the actions alone are released."""
    sizes = {"arms": arms, "actions": audits.ACTIONS[:arms], "dim": 2, "epsilon": epsilon}
    options = audits.OPTIONS.get(name, {})
    learner = as_learner(factories.build(name, horizon, sizes, **options))
    return learner._replace(privacy=learner.privacy._replace(reported=()))


def names():
    """Private learners over arms that release something in a short game."""
    for name in learners.__all__:
        if name in audits.HORIZONS or audits.domains_of(name) != [""]:
            continue
        learner = audits.build(name, "", SHORT, 1.0)
        if isinstance(learner.action_set, Arms) and np.isfinite(float(learner.privacy.epsilon)):
            yield name


def paid(learner, pair, delta):
    """The largest epsilon at delta that replays of 64 runs spend on a pair."""
    keys = jr.split(jr.key(0), 64)
    replayed = jax.jit(jax.vmap(lambda key: audit.replay(learner, pair, key)))(keys)
    return float(np.max(audit.spent(jax.tree.map(np.asarray, replayed), delta)))


def row_of(learner, name, epsilon, pair, found):
    delta = float(learner.privacy.delta)
    declared = float(learner.privacy.epsilon)
    changed = int(np.argmax((pair.losses != pair.others).any(axis=1))) + 1
    return {
        "learner": name, "horizon": learner.horizon, "arms": learner.action_set.count,
        "epsilon": epsilon, "declared": declared, "delta": delta, "round": changed,
        "paid": paid(learner, pair, delta), **found,
    }  # fmt: skip


def short(name, epsilon, particles):
    """The exact curve of a game of SHORT rounds and two arms."""
    began, learner = time.time(), build(name, SHORT, 2, epsilon)
    keys, pairs = jr.split(jr.key(audits.SEED), 3), audit.worst_rounds(learner)
    filters = filters_for(learner, pairs, particles)
    most = filters.most_revealing(pairs, keys[0], 16)
    pair = jax.tree.map(lambda leaf: leaf[most], pairs)
    delta, declared = float(learner.privacy.delta), float(learner.privacy.epsilon)
    grid = np.linspace(0.0, 1.5 * declared, 1501)
    exact = curve(filters, pair, keys[1], grid, 2, 0.95)
    history = worst(filters, pair, keys[2], 2, 64, 0.95)
    at_delta = float(grid[np.argmax(exact.above <= delta)]) if delta > 0.0 else None
    found = {
        "revealed": abs(history.log_ratio) if at_delta is None else at_delta,
        "pure": abs(history.log_ratio), "low": history.epsilon[0], "high": history.epsilon[1],
        "sum_p": exact.chances[0], "sum_q": exact.chances[1], "particles": particles,
    }  # fmt: skip
    row = row_of(learner, name, epsilon, pair, found)
    return row | {"seconds": round(time.time() - began)}


def long(name, epsilon, particles, runs):
    """Attack, worst history and bounds on the curve in a game of LONG rounds and three arms."""
    began, learner = time.time(), build(name, LONG, 3, epsilon)
    keys, pairs = jr.split(jr.key(audits.SEED), 4), audit.worst_rounds(learner)
    filters = filters_for(learner, pairs, particles)
    most = filters.most_revealing(pairs, keys[0], 16)
    pair = jax.tree.map(lambda leaf: leaf[most], pairs)
    delta, declared = float(learner.privacy.delta), float(learner.privacy.epsilon)
    bound = attacked(filters, pair, keys[1], runs, delta, 0.95, False)
    history = worst(filters, pair, keys[2], runs // 4, 32, 0.95)
    grid = np.linspace(0.0, 1.5 * declared, 31)
    between = curve(filters, pair, keys[3], grid, runs // 2, 0.95)
    seen, hidden = between.below > DELTA, between.above <= DELTA
    found = {
        "attack": bound.epsilon, "runs": runs, "worst": abs(history.log_ratio),
        "worst_low": history.epsilon[0], "worst_high": history.epsilon[1],
        "below": float(grid[seen.sum() - 1]) if seen[0] else 0.0,
        "above": float(grid[np.argmax(hidden)]) if hidden[-1] else np.nan,
        "particles": particles,
    }  # fmt: skip
    row = row_of(learner, name, epsilon, pair, found)
    return row | {"seconds": round(time.time() - began)}


def measured(function, cases, path):
    """A row of each case. Rows that the file has already are not measured again."""
    rows = []
    if path.exists():
        with open(path, newline="") as file:
            rows = list(csv.DictReader(file))
    done = {(row["learner"], float(row["epsilon"])) for row in rows}

    def one(case):
        row = function(*case)
        rows.append(row)
        write_csv(path, rows)
        print(*row.values(), flush=True)

    with ThreadPoolExecutor(cores()) as pool:
        list(pool.map(one, [case for case in cases if case not in done]))
    rows.sort(key=lambda row: (float(row["epsilon"]), row["learner"]))
    write_csv(path, rows)
    return rows


def figure(rows):
    """Revealed over paid, for each learner and epsilon."""
    drawn, (panel,) = plot.panels(1, 1, size=(9.0, 5.0))
    shown = list(dict.fromkeys(row["learner"] for row in rows))
    for epsilon, marker in zip(EPSILONS, "os^", strict=True):
        some = [row for row in rows if float(row["epsilon"]) == epsilon and float(row["paid"]) > 0]
        places = [shown.index(row["learner"]) for row in some]
        shares = [max(float(row["revealed"]) / float(row["paid"]), LEAST) for row in some]
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="learners, by default all that are private")
    parser.add_argument("--out", type=Path, default=Path("results/revealed"))
    parser.add_argument("--only", choices=("short", "long"), help="one of the two tables")
    parser.add_argument("--quick", action="store_true", help="one learner, to try it out")
    parser.add_argument("--draw", action="store_true", help="draw what was measured before")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    chosen = options.names or (["hedge"] if options.quick else list(names()))
    # Compilation would take most of the time.
    jax.config.update("jax_disable_most_optimizations", True)
    path = options.out / "revealed.csv"
    cases = [
        (name, epsilon) for epsilon in (1.0, 10.0, 0.1) for name in chosen
        if epsilon == 1.0 or factories.takes(name, "epsilon")
    ]  # fmt: skip
    few = 16 if options.quick else 128
    if not options.draw and options.only != "long":
        measured(lambda name, epsilon: short(name, epsilon, few), cases, path)
    if not options.draw and options.only != "short":
        runs = 2**8 if options.quick else 2**11
        measured(
            lambda name, epsilon: long(name, epsilon, few // 4, runs),
            [(name, 1.0) for name in chosen], options.out / "revealed_16.csv",
        )  # fmt: skip
    if path.exists():
        with open(path, newline="") as file:
            plot.save(figure(list(csv.DictReader(file))), options.out, "revealed")


if __name__ == "__main__":
    main()
