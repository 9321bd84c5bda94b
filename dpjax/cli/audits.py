"""Audits of every learner: the declared privacy, and the privacy loss that was found."""

import json
import re
import textwrap
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import random as jr

from dpjax import audit, domains, learners
from dpjax.audit import audited
from dpjax.audit.audited import MINUTES, PAIRS, RUNS, UNDECIDED, VIOLATED
from dpjax.audit.limits import watched
from dpjax.cli.learner_files import find_factory
from dpjax.combinators import as_learner
from dpjax.core import Learner, _check
from dpjax.engine.devices import cores
from dpjax.engine.progress import Bar
from dpjax.feedback import semi_bandit
from dpjax.learners import factories
from dpjax.learners.entrants import name_of, prepared
from dpjax.learners.parts import gram
from dpjax.report import plot
from dpjax.report.output import add_to, output_folder, versions, write_figure, write_json
from dpjax.report.tables import format_markdown, format_table, merged, read_rows, write_csv

HORIZON = 16
# Longer horizons for learners that release nothing within HORIZON rounds.
HORIZONS = {"dp_ucb_int": 2048}
# Learners that stop need a large error probability to decide anything within HORIZON rounds.
OPTIONS = {name: {"failure": 0.9} for name in ("adap_tt", "ctb_tt", "dp_tt")}
# Phases of a few duels.
OPTIONS["dueling_elimination"] = {"failure": 0.9, "exploration": 0.01}
# By default no threshold is exceeded within HORIZON rounds.
OPTIONS["sparse_vector_experts"] = {"threshold": 1.0}
# Arguments that a printed calibration needs in addition to ``calibration="printed"``.
PRINTED: dict[str, dict[str, Any]] = {
    "limited_updates": {"selector": "laplace"}, "scrible": {"noise": "vector"},
    "linucb": {"gram": gram.gaussian(calibration="printed")},
}  # fmt: skip
ARMS = 3
ACTIONS = np.array([[1.0, 0.0], [-1.0, 0.5], [-1.0, -0.5]])
DELTA = 1e-3
SEED = 2026


# The label and the colour of each status of an audit.
VERDICTS = {0: ("no violation found", "#0072B2"), VIOLATED: ("violation found", "#D55E00"),
            UNDECIDED: ("the audit cannot decide", "#E69F00")}  # fmt: skip
TICKS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
# A user's learner: mine.py, or mine.py:name.
FILE = re.compile(r"\.py(:\w+)?$")

# The domains for audits of learners of points.
DOMAINS = {
    "simplex": domains.simplex,
    "ball": domains.ball,
    "2-sets": lambda dim: domains.capped_simplex(dim, 2),
}


@cache
def domain_of(name):
    """The domain of that name; made late, because JAX fixes devices at its first computation."""
    return DOMAINS[name](ARMS)


def domains_of(name) -> list[str]:
    """The domains on which a learner is audited; one empty name if its factory takes none."""
    if not factories.takes(name, "domain"):
        return [""]
    # Semi-bandit feedback needs vertices of ones and zeros.
    of_vertices = build(name, "simplex", HORIZON, 1.0).feedback is semi_bandit
    return ["simplex", "2-sets" if of_vertices else "ball"]


def build(name, domain, horizon, epsilon, **options) -> Learner:
    """The learner of that name in the size of all audits, with the options that it takes."""
    sizes = {
        "arms": ARMS, "actions": ACTIONS, "dim": ARMS, "delta": DELTA, "epsilon": epsilon,
        "domain": domain_of(domain) if domain else None,
    }  # fmt: skip
    return as_learner(factories.build(name, horizon, sizes, **OPTIONS.get(name, {}) | options))


def keys():
    """The PRNG keys of the pairs, of the replays, of the attack and of its choice of a pair."""
    return (*[jr.key(SEED, impl="threefry2x32")] * 3, jr.key(SEED + 1, impl="threefry2x32"))


def subject(name, domain, epsilon, *, count=PAIRS, changed=1, **options):
    """A learner, and pairs of loss sequences that its declaration covers, with axes (count, T).

    If more than one round is changed, the declaration is the one for a group of this many rounds.
    """
    learner = build(name, domain, HORIZONS.get(name, HORIZON), epsilon, **options)
    return audited.subject(learner, count, keys()[0], changed)


def replays(learner, pairs) -> audit.Verdict:
    """Replay a learner on every pair, with the key of all audits."""
    return audit.verdict(learner, pairs, keys()[1])


def audit_one(
    name, domain, epsilon, *, horizon=None, runs=RUNS, minutes=MINUTES, count=PAIRS, changed=1
) -> tuple[dict, list[dict]]:
    """A row of the table for one learner, and one for each of its mutants.

    For a printed calibration, the column ``paper`` has the epsilon that the paper states, and
    ``printed`` the epsilon that is declared.
    """
    horizon = horizon or HORIZONS.get(name, HORIZON)

    def examined(options, **what):
        return audited.examined(
            lambda horizon: build(name, domain, horizon, epsilon, **options),
            [horizon], keys(), {"learner": name, "domain": domain},
            minutes=minutes, count=count, changed=changed, **what,
        )  # fmt: skip

    row, mutants = _whole(*examined({}, runs=None if name in HORIZONS else runs))
    if row["checks"] == audited.NOTHING:
        return row, mutants
    options = {"calibration": "printed", **PRINTED.get(name, {})}
    stated = build(name, domain, row["horizon"], epsilon, **options).privacy
    if stated.calibration == "printed":
        printed, _ = examined(options, with_mutants=False)
        row |= {
            "paper": changed * float(stated.paper_epsilon),
            "printed": printed["declared"],
            "printed_replay": printed["replay"],
        }
        if printed["checks"] != "pass":
            row["checks"] += f"; printed: {printed['checks']}"
    return row, mutants


def _whole(row, mutants) -> tuple[dict, list[dict]]:
    """A row with empty columns for a printed calibration, and the number of mutants caught."""
    caught = sum(each["caught"] for each in mutants)
    words = f"{caught} of {len(mutants)} caught" if mutants else ""
    printed = dict.fromkeys(("paper", "printed", "printed_replay"))
    return row | printed | {"mutants": words}, mutants


def audit_own(factory, label, epsilon, *, horizon, **options) -> tuple[dict, list[dict]]:
    """:func:`audit_one` for the factory of a user's learner, which the table calls ``label``."""
    entrant = prepared(factory, horizon or HORIZON)
    horizons = [horizon] if horizon else audited.HORIZONS
    return _whole(*audited.examined(
        lambda horizon: as_learner(entrant.build(horizon, epsilon)), horizons, keys(),
        {"learner": label, "domain": ""}, **options,
    ))  # fmt: skip


def labels_of(own) -> dict[str, str]:
    """The names of users' learners in tables, with their files if a name repeats.

    Args:
      own: (path, factory) for each argument of the command.
    """
    names = {text: name_of(factory) for text, (_, factory) in own.items()}
    labels = {}
    for text, name in names.items():
        path, _ = own[text]
        full = f"{path}:{name}" if text == path else text
        labels[text] = full if [*names.values()].count(name) > 1 else name
    return labels


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


def closing(rows) -> str:
    """The sentence on the learners of a table if all of them passed."""
    horizons = sorted({row["horizon"] for row in rows if row["horizon"]})
    if not horizons:
        return "nothing was audited, since no privacy is declared"
    rounds = " or ".join(map(str, horizons))
    (pairs,) = {row["pairs"] for row in rows if row["horizon"]}
    return (f"no violation was found on {pairs} pairs of {rounds} rounds; later rounds are not "
            "audited (--horizon)")  # fmt: skip


def figure(rows):
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
            handles.append(plot.mark(label, "0.3", marker))
        for place, row in own:
            _, color = VERDICTS[audited.status(row["checks"])]
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
    handles += [plot.mark(*each, "s") for at, each in VERDICTS.items() if at in statuses]
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


ABOUT = """# Audits of {of}

![What learners spent, and what attacks found](audit.png)

*Drawn by `{command}`.*

{outcome}{mutants}
An audit that finds no violation is evidence, not a proof.

The table is from `{command}`: [audit.csv](audit.csv),
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


def page(folder) -> str:
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
    text = ABOUT.format(
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


def run(
    names=None,
    out="results/audit",
    *,
    epsilon=1.0,
    horizon=None,
    runs=RUNS,
    minutes=MINUTES,
    count=PAIRS,
    changed=1,
    merge=False,
    progress=True,
) -> tuple[str, int, str]:
    """Audit learners at one epsilon, and write tables and a figure into the folder ``out``.

    The files are audit.csv (a row for each learner and domain), audit_mutants.csv (a row for each
    of their mutants), README.md (the table as a page), audit.png, audit.pdf and parameters.json.

    Args:
      names: names of learners, or files with a user's learner, as for
        :func:`dpjax.cli.learner_files.find_factory`; by default all learners of the package.
      out: a folder, created if necessary.
      epsilon: the epsilon requested of every learner.
      horizon: the number of rounds; None for 16, or for more if a learner releases nothing in 16.
      runs: counted runs of each sequence in the attack; None for no attack.
      minutes: after which the attack of a learner is stopped.
      count: number of replayed pairs.
      changed: number of rounds that differ between the sequences of a pair, below the horizon. The
        table then shows the declared and the replayed privacy loss of a group of this many rounds.
      merge: whether rows of other learners in ``out`` are kept.
      progress: whether to show a progress bar.

    Returns:
      The new rows, as text; an exit status: 0, or 1 if a violation of a declaration was found, or
      3 if some audit could not decide; and the sentence of the first such audit, or of all that
      passed.

    Raises:
      ValueError: there is no such learner, a file has no learner, or a number is out of range; or
        with ``merge``, the rows in ``out`` have other parameters.
      OSError: the folder cannot be written to.
    """
    names = list(learners.__all__ if names is None else names)
    own = {name: find_factory(name) for name in names if FILE.search(name)}
    labels = labels_of(own)
    for name in names:
        if name not in own:
            factories.check_name(name)
    if len(set(names)) < len(names) or len({*labels.values()}) < len(own):
        raise ValueError(f"learner: one is named twice in {', '.join(names)}")
    if epsilon == np.inf:
        raise ValueError("epsilon must be finite, since at inf nothing is declared")
    _check.epsilon(epsilon)
    runs = None if runs is None else _check.size(1, runs=runs)
    changed = _check.size(1, changed=changed)
    horizon = None if horizon is None else _check.size(2, horizon=horizon)
    _check.positive_or_inf(minutes=minutes)
    if changed >= (horizon or HORIZON):
        raise ValueError(f"changed must be below the horizon {horizon or HORIZON}, got {changed}")
    parameters = {
        "learners": "all" if names == learners.__all__ else names,
        "epsilon": epsilon, "horizon": horizon or HORIZON,
        "horizons": {} if horizon else HORIZONS, "options": OPTIONS,
        "arms": ARMS, "delta": DELTA, "pairs": count, "changed rounds": changed,
        "runs": runs, "confidence": 0.95,
        "training runs": audit.TRAINING, "selection runs": audit.SELECTION,
        "key": f"jax.random.key({SEED})",
        "versions": versions(),
        "backend": jax.default_backend(),
    }  # fmt: skip
    if merge:
        parameters = add_to(out, parameters, "learners")
    with output_folder(out) as folder:
        cases = [
            (
                name,
                partial(audit_own, own[name][1], labels[name])
                if name in own
                else partial(audit_one, name, domain),
            )
            for name in names
            for domain in ([""] if name in own else domains_of(name))
        ]
        options = {"horizon": horizon, "runs": runs, "minutes": minutes}
        with Bar(len(cases), progress, "learners") as bar:

            def one(name, case):
                try:
                    with watched(lambda words: bar.say(f"{name}: {words}")):
                        return case(epsilon, count=count, changed=changed, **options)
                except ValueError as error:
                    raise ValueError(f"{name}: {error}") from error

            # Compilation takes nearly all of the time; threads spread it over the cores.
            with ThreadPoolExecutor(cores()) as pool:
                done = []
                for each in pool.map(one, *zip(*cases, strict=True)):
                    done.append(each)
                    bar.update()
        rows, of_mutants = zip(*done, strict=True)
        mutants = [row for rows_of_one in of_mutants for row in rows_of_one]
        for name, table in {"audit.csv": rows, "audit_mutants.csv": mutants}.items():
            if merge:
                write_csv(
                    folder / name, merged(Path(out) / name, table, "learner", learners.__all__)
                )
            elif table:
                write_csv(folder / name, table)
        write_json(folder / "parameters.json", parameters)
        (folder / "README.md").write_text(page(folder), encoding="utf-8")
    if not (mutants or merge):
        # A table of mutants from an earlier audit does not belong to this one.
        (Path(out) / "audit_mutants.csv").unlink(missing_ok=True)
    write_figure(out, "audit", figure, read_rows(Path(out) / "audit.csv"))
    # Violations first, then audits that could not decide.
    for status in (VIOLATED, UNDECIDED):
        for row in rows:
            if audited.status(row["checks"]) == status:
                said = audited.finding({**row, "epsilon": epsilon, "flagged": True})
                return format_table(rows), status, f"{row['learner']}: {said}"
    return format_table(rows), 0, closing(rows)
