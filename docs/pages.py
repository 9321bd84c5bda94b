"""Write the pages of audits, theorems and worst cases from the tables beside them.

    python docs/pages.py                           # all pages
    python docs/pages.py results/audit docs/audit  # first add the rows of new results to the tables

The second command replaces the rows of the same learners or theorems, and keeps all others.
"""

import json
import sys
import textwrap
from pathlib import Path

import numpy as np
import pandas
from matplotlib.lines import Line2D

from dpjax import learners
from dpjax.audit import audited
from dpjax.audit.reasons import UNDECIDED, VIOLATED
from dpjax.report import plot, worst_cases
from dpjax.report.output import write_json
from dpjax.report.tables import format_markdown, read_rows, write_csv
from dpjax.report.worst_cases import LOOSE, TIGHT, worst_of
from dpjax.study.theorems import THEOREMS as CATALOGUE

DOCS = Path(__file__).parent
VERDICTS = ("held", "open", "violated", "exceeded", "vacuous")
# The label and the colour of each status of an audit.
STATUSES = {0: ("no violation found", "#0072B2"), VIOLATED: ("violation found", "#D55E00"),
            UNDECIDED: ("the audit cannot decide", "#E69F00")}  # fmt: skip
TICKS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)

AUDIT = """# Audits of {of}

![What learners spent, and what attacks found](audit.png)

*Drawn by `python docs/pages.py`.*

{outcome}{mutants}
An audit that finds no violation is evidence, not a proof.

The numbers are from `{command}`: [audit.csv](audit.csv),
[audit_mutants.csv](audit_mutants.csv), [parameters.json](parameters.json)
([figure as PDF](audit.pdf)). T = {horizon}{longer}, {arms} arms or dimensions,
epsilon = {epsilon:g}, {pairs} pairs, {counted}.

- *Replay*: the largest privacy loss over the pairs, at the declared delta.
- *Checks*: `pass`, or the checks that failed.
- *Printed*: for a printed calibration, the paper's epsilon, the one that we declare for its noise,
  and the one that a replay spent.
- Some learners would release nothing in so short a game by default. Their options are in
  parameters.json.
"""
REVEALED = """The last three columns are from `python benchmarks/revealed.py --out docs/audit`:
[what actions reveal](revealed.md) at epsilon = 1 on the pair that reveals most. Each column
has two numbers: for T = 8 with two arms, and for T = 16 with three.

- *Actions reveal*: for T = 8 the exact epsilon at the declared delta; for T = 16 an upper bound on
  epsilon, at delta = 0.01 or the declared delta if that is larger.
- *Likelihood attack*: the lower bound from 131072 runs of each sequence for T = 8, and from 8192
  for T = 16.
- *Worst history*: |ln P'/P| of the history with the largest ratio.
"""


THEOREMS = """# Theorems on regret, measured

`{command}` played the learner of each theorem against all environments of the theorem,
with {trials} trials each and at three horizons, up to T = {horizon}. For theorems on
arms, the environments include one best arm at each of 16 gaps from 0.01 to 1, with drawn and with
constant losses. The command wrote [verdicts.csv](verdicts.csv), [exponents.csv](exponents.csv) and
[parameters.json](parameters.json), and `python docs/pages.py` made the tables below.

In the columns *printed* and *derived*, a cell begins with the verdict on the bound at
T = {horizon}. The number in brackets is the worst mean regret divided by the bound. The number
after *from* is the shortest horizon at which the bound is below the largest possible regret.

A bound above the largest possible regret is *vacuous*. Any other bound is *held* if the interval of
the worst mean regret lies below it, *violated* if the interval lies above it, and *open* if the
interval contains it. The intervals of all environments of a theorem are simultaneous at level 95 %.
A *rate* is a bound that the paper states up to constants; here its constant is 1. If the interval
lies above a rate, the rate is *exceeded*, which contradicts no theorem.

Exponents ignore logarithms. The fitted exponent is the slope of log mean regret, in the worst
environment at each horizon and epsilon. Its 95 % interval is a bootstrap over trials. [Worst
cases](../worst_case/README.md) searches for worse environments.
"""
SEARCHED = """# The worst case of every learner

`{command}` searched for the environment in which the learner of each theorem has the largest
regret, at T = {horizon}. The environments are Bernoulli arms of any means, arms whose means change
once, deterministic sequences of any period, linear losses of any direction, contexts of any gap,
direction and distribution, logistic losses of any scale, and expert advice of any quality. If a
bound covers adversaries that react to the learner, the search includes them. The command
also wrote the figure below, [searches.csv](searches.csv) and [parameters.json](parameters.json).

The regret is the mean over {trials} fresh trials in the environment found. Its 95 % interval is for
this environment alone. The column *in the search* has the largest mean during the search. It is
usually larger than the regret, because a search also selects lucky trials. The regret is a lower
bound on the worst-case regret: a search can refute a bound, but cannot show that it holds. If a
bound on stochastic arms depends on the means, the search maximizes the ratio of regret to bound.
Theorems without a family to search are not in the table. Slow theorems are searched only if the
command names them.

![Regret over the upper bound at the worst environment found](worst_case.png)

*Made by `{command}`.*

A dot is the regret in the worst environment found, divided by the upper bound. A tick is a known
lower bound on the worst-case regret of every learner, private or not, divided by the upper bound.
If a dot is left of its tick, the search has not found the worst case. Orange dots are within a
factor of {tight:g} of the upper bound (dashed line). Blue dots are more than {loose:g} times below
it (dotted line). If a dot is hollow, the upper bound is above the largest possible regret.
"""


def mark(label, color, marker):
    """A mark with its label, for a legend."""
    return Line2D([], [], color=color, linestyle="", marker=marker, label=label)


def label_of(row) -> str:
    """A learner of a table, with its domain if it has one."""
    return f"{row['learner']}, {row['domain']}" if row["domain"] else row["learner"]


def outcome(rows) -> str:
    """Which audits found a violation or could not decide, or a sentence that none did."""
    found = []
    for status, words in (
        (VIOLATED, "A violation was found"), (UNDECIDED, "The audit cannot decide"),
    ):  # fmt: skip
        named = [f"{label_of(row)} ({row['checks']})" for row in rows
                 if audited.status(row["checks"]) == status]  # fmt: skip
        if named:
            found.append(f"{words}: {'; '.join(named)}.")
    return " ".join(found) or "No violation was found on the pairs that were run."


def audit_figure(rows):
    """The declared epsilon of each learner, with the results of replay and attack.

    Colours are verdicts. Infinite values are at the upper edge.
    """
    shown = [row for row in rows if row["replay"] is not None]
    width = np.clip(2.0 + 0.12 * len(shown), 5.0, 9.0)
    drawn, (panel,) = plot.panels(1, 1, size=(width, 6.0))
    edge, handles, values = panel.get_xaxis_transform(), [], [0.0]
    for key, label, marker, size in (
        ("declared", "declared", "_", 14),
        ("replay", "spent on the worst pair replayed", "o", 7),
        ("attack", "lower bound of the attack, 95 %", "^", 7),
    ):
        own = [(i, row) for i, row in enumerate(shown) if row[key] is not None]
        if own:
            handles.append(mark(label, "0.3", marker))
        for place, row in own:
            _, color = STATUSES[audited.status(row["checks"])]
            look = {"color": "0.3" if key == "declared" else color, "marker": marker,
                    "markersize": size, "clip_on": False}  # fmt: skip
            values.append(row[key])
            if np.isfinite(row[key]):
                panel.plot([place], [row[key]], **look)
                continue
            panel.plot([place], [1.0], transform=edge, **look)
            panel.annotate("infinite", (place, 1.0), (0, -8), xycoords=edge, fontsize=8,
                           textcoords="offset points", rotation=90,
                           ha="center", va="top")  # fmt: skip
    statuses = {audited.status(row["checks"]) for row in shown}
    handles += [mark(*each, "s") for at, each in STATUSES.items() if at in statuses]
    panel.set_xticks(
        range(len(shown)), list(map(label_of, shown)), rotation=75, ha="right", fontsize=8
    )
    top = max(x for x in values if np.isfinite(x)) or 1.0
    least = 10.0 ** (np.floor(np.log10(top)) - 2)  # linear below, so that 0 has a place
    panel.set_yscale("symlog", linthresh=least, linscale=0.5)
    plot.ticks_at(panel.yaxis, [0.0, *(least * x for x in TICKS if least * x <= 1.5 * top)])
    panel.set_ylim(-0.3 * least, top * (1.5 if np.isfinite(values).all() else 8.0))
    plot.label_axes(panel, "", xlabel="", ylabel="$\\epsilon$ at the declared $\\delta$")
    if shown:
        drawn.legend(handles=handles, loc="outside upper center", ncols=3 if width > 7 else 1,
                     fontsize=8, frameon=False)  # fmt: skip
    caption = ("No violation was found above the circles on the pairs that were run. This says "
               "nothing about other pairs.")  # fmt: skip
    if any(statuses):
        caption = outcome(shown)
    drawn.supxlabel(textwrap.fill(caption, int(14 * width)), fontsize=8)
    return drawn


def audit_page(folder) -> str:
    """A page with the table of a folder, and columns of what actions reveal if it has them.

    Learners that declare no privacy are left out.
    """
    folder = Path(folder)
    rows, mutants = (
        read_rows(path) if path.exists() else []
        for path in (folder / "audit.csv", folder / "audit_mutants.csv")
    )
    rows = [row for row in rows if row["replay"] is not None]
    about = json.loads((folder / "parameters.json").read_text(encoding="utf-8"))
    names = about.get("learners", "all")
    words, runs = "--all" if names == "all" else " ".join(names), about["runs"]
    longer = [f"{name}: {rounds}" for name, rounds in about["horizons"].items()
              if name in {row["learner"] for row in rows}]  # fmt: skip
    caught = sum(bool(row["caught"]) for row in mutants)
    text = AUDIT.format(
        **about, of="all learners" if names == "all" else ", ".join(f"`{name}`" for name in names),
        command=f"dpjax audit {words} --epsilon {about['epsilon']:g}",
        longer=f" ({', '.join(longer)})" if longer else "", outcome=outcome(rows),
        mutants=f" The replay caught {caught} of {len(mutants)} mutants." if mutants else "",
        counted="no attack" if runs is None else
        f"{runs} counted runs of each sequence, confidence {100.0 * about['confidence']:g} %",
    )  # fmt: skip
    header = ["learner", "checks", "declared", "delta", "model", "replay", "attack, at least",
              "printed: paper, declared, replayed"]  # fmt: skip
    lines = [
        [f"`{row['learner']}`" + (f", {row['domain']}" if row["domain"] else ""),
         row["checks"], *(_digits(row[name]) for name in ("declared", "delta")), row["model"],
         *(_digits(row[name]) for name in ("replay", "attack")),
         _digits(row["paper"], row["printed"], row["printed_replay"])]
        for row in rows
    ]  # fmt: skip
    shown = _revealed(folder)
    if shown:
        header += ["actions reveal", "likelihood attack", "worst history"]
        lines = [[*line, *shown.get(row["learner"], [""] * 3)]
                 for line, row in zip(lines, rows, strict=True)]  # fmt: skip
    parts = [text, format_markdown(header, lines), *([REVEALED] if shown else [])]
    return "\n".join(parts)


def _digits(*numbers) -> str:
    """Three digits of each number; empty if there is none."""
    return ", ".join(f"{x:.3g}" for x in numbers if x is not None)


def _revealed(folder) -> dict[str, list[str]]:
    """For each learner, the last three columns of the table, for short and for long games."""
    paths = folder / "revealed.csv", folder / "revealed_16.csv"
    if not all(path.exists() for path in paths):
        return {}
    short, long = ({row["learner"]: row for row in read_rows(path) if row["epsilon"] == 1.0}
                   for path in paths)  # fmt: skip

    def of(row):
        if row["level"] is None:
            return _digits(row["worst"])
        over = f"over {1.5 * row['declared']:.3g}"
        return over if row["above"] is None else _digits(row["above"])

    return {
        name: [f"{of(row)}, {of(long[name])}",
               *(_digits(row[column], long[name][column]) for column in ("attack", "worst"))]
        for name, row in short.items()
        if name in long
    }  # fmt: skip


def _command(folder, option="") -> dict:
    """The command that made a folder, its horizon and its trials."""
    parameters = json.loads((folder / "parameters.json").read_text(encoding="utf-8"))
    horizon, trials, asked = (parameters[name] for name in ("horizon", "trials", "theorems"))
    words = "--all" if asked == "all" else " ".join(asked)
    epsilons = ",".join(f"{float(epsilon):g}" for epsilon in parameters["epsilons"])
    command = f"dpjax theorem {words}{option} --epsilon {epsilons} --horizon {horizon}"
    return {"command": f"{command} --trials {trials}", "horizon": horizon, "trials": trials}


def searches_page(folder) -> str:
    """A page with the table of a folder of searches."""
    folder = Path(folder)
    found = worst_of(pandas.read_csv(folder / "searches.csv"))
    text = SEARCHED.format(**_command(folder, " --search"), tight=TIGHT, loose=LOOSE)
    real = found[found["bound"] != "rate"].drop_duplicates(["theorem", "epsilon"], keep="last")
    real = real[real["verdict"] != "vacuous"]
    lines = [
        (f"`{row['theorem']}`", f"{row['epsilon']:g}", row["family"],
         f"{row['regret']:.4g} ({row['low']:.4g} to {row['high']:.4g})", f"{row['searched']:.4g}",
         "" if np.isnan(row["lower"]) else f"{row['lower']:.3g}",
         f"{row['bound']}: {row['value']:.4g}", f"{row['verdict']} ({row['ratio']:.2g})")
        for row in found.to_dict("records")
    ]  # fmt: skip
    header = ["theorem", "epsilon", "worst family", "regret", "in the search", "lower bound",
              "upper bound", "verdict (regret / upper bound)"]  # fmt: skip
    said = [
        f"Each bound is of one theorem at one epsilon. {len(real)} bounds are below the largest "
        f"possible regret. Bounds within a factor of {TIGHT:g} of the regret found: "
        f"{_named(real[real['ratio'] * TIGHT >= 1.0])}.\n",
        f"Bounds more than {LOOSE:g} times the regret found: "
        f"{_named(real[real['ratio'] * LOOSE < 1.0])}.\n",
    ]  # fmt: skip
    if real.empty:
        said = [
            "Every bound here is above the largest possible regret at this horizon, so none can be "
            "tight or loose.\n"
        ]
    return "\n".join([text, *said, format_markdown(header, lines)])


def _named(rows) -> str:
    """The theorems of rows, each with its epsilons."""
    groups = rows.groupby("theorem", sort=False)["epsilon"]
    each = [f"`{name}` ({', '.join(f'{e:g}' for e in own)})" for name, own in groups]
    return ", ".join(each) or "none"


def theorems_page(folder) -> str:
    """A page with the tables of a folder."""
    folder = Path(folder)
    verdicts, exponents = (pandas.read_csv(folder / f"{n}.csv") for n in ("verdicts", "exponents"))
    about = _command(folder)
    horizon = about["horizon"]
    last = verdicts[verdicts["horizon"] == horizon]
    counts = last["verdict"].value_counts()
    said = ", ".join(f"{counts[each]} {each}" for each in VERDICTS if each in counts)
    pages = [
        THEOREMS.format(**about),
        f"At T = {horizon}, the verdicts on all bounds at all epsilons are: {said}.\n",
    ]
    fits = exponents[exponents["over"] == "horizon"].set_index(["theorem", "epsilon"])
    lines = []
    for (name, epsilon), own in last.groupby(["theorem", "epsilon"], sort=False):
        bounds = {row["bound"]: _verdict(row) for row in own.to_dict("records")}
        printed = f"rate: {bounds['rate']}" if "rate" in bounds else bounds.get("printed", "")
        fit = fits.loc[(name, epsilon)]
        lines.append((f"`{name}`", fit["paper"], f"{epsilon:g}", _exponent(fit["printed"]),
                      _fitted(fit), printed, bounds.get("derived", "")))  # fmt: skip
    header = ["theorem", "paper", "epsilon", "exponent of T", "fitted", "printed", "derived"]
    pages.append(format_markdown(header, lines))
    over = [
        (f"`{row['theorem']}`", row["worst"], f"{row['first']:g}", f"{row['last']:g}",
         _exponent(row["printed"]), _fitted(row))
        for row in exponents[exponents["over"] == "epsilon"].to_dict("records")
    ]  # fmt: skip
    if over:
        header = ["theorem", "worst", "from", "to", "exponent of epsilon", "fitted"]
        pages += [f"Exponents of epsilon, at T = {horizon}:\n", format_markdown(header, over)]
    return "\n".join(pages)


def _verdict(row) -> str:
    ratio = "" if row["verdict"] == "vacuous" else f" ({row['ratio']:.2g})"
    first = row["from_horizon"]
    digits, _, power = f"{first:.1e}".partition("e+")
    since = f"{first:.0f}" if first < 1e6 else f"{digits}e{int(power or 0)}"
    return f"{row['verdict']}{ratio}, " + ("never" if np.isinf(first) else f"from {since}")


def _exponent(number) -> str:
    """An exponent with at most two digits after the point."""
    return f"{round(number, 2):g}"


def _fitted(row) -> str:
    if np.isnan(row["fitted"] + row["low"] + row["high"]):
        return "not positive"
    return f"{row['fitted']:.2f} ({row['low']:.2f} to {row['high']:.2f})"


def add(new, folder) -> None:
    """Add the rows of new results to the tables of a folder, which must have the same parameters.

    Rows of learners or theorems that the new results also have are replaced.
    """
    old, mine = (json.loads((each / "parameters.json").read_text()) for each in (folder, new))
    kind, order = ("learners", learners.__all__) if "learners" in mine else (
        "theorems", list(CATALOGUE))  # fmt: skip
    places = {name: i for i, name in enumerate(order)}

    def place(names):
        return names.map(places).fillna(len(places))

    aside = (kind, "options", "horizons", "versions", "backend")
    for name in [name for name in mine if name not in aside and mine[name] != old.get(name)]:
        sys.exit(f"{folder} has {name} = {old.get(name)}, and {new} has {mine[name]}")
    for path in new.glob("*.csv"):
        tables = [pandas.read_csv(each / path.name, dtype=str, keep_default_na=False)
                  for each in (folder, new)]  # fmt: skip
        by = kind.removesuffix("s")
        kept = tables[0][~tables[0][by].isin(tables[1][by])]
        both = pandas.concat([kept, tables[1]]).fillna("")
        write_csv(folder / path.name, both.sort_values(by, key=place, kind="stable"))
    if "all" not in (old[kind], mine[kind]):
        write_json(folder / "parameters.json",
                   old | {kind: list(dict.fromkeys([*old[kind], *mine[kind]]))})  # fmt: skip


PAGES = {"audit.csv": audit_page, "verdicts.csv": theorems_page, "searches.csv": searches_page}


def write(folder) -> None:
    """Write the page of a folder, and its figure."""
    (page,) = (page for name, page in PAGES.items() if (folder / name).exists())
    (folder / "README.md").write_text(page(folder), encoding="utf-8")
    if page is audit_page:
        plot.save(audit_figure(read_rows(folder / "audit.csv")), folder, "audit")
    if page is searches_page:
        plot.save(worst_cases.draw(pandas.read_csv(folder / "searches.csv")), folder, "worst_case")


def main(*paths) -> None:
    """Add the rows of the first folder to the second one, if there are two; write the pages."""
    if paths:
        new, folder = map(Path, paths)
        add(new, folder)
    folders = ["audit", "theorems", "worst_case", "worst_case/slow"]
    for each in [folder] if paths else [DOCS / name for name in folders]:
        write(each)


if __name__ == "__main__":
    main(*sys.argv[1:])
