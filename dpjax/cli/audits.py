"""Audits every learner of dpjax: what it declares, beside what it was found to spend."""

import re
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import random as jr

from dpjax import audit, domains, learners
from dpjax.audit import audited
from dpjax.audit.audited import PAIRS, RUNS
from dpjax.cli.learner_files import find_factory
from dpjax.combinators import as_learner
from dpjax.core import Learner, _check
from dpjax.engine.devices import cores
from dpjax.engine.progress import Bar
from dpjax.feedback import semi_bandit
from dpjax.learners import factories
from dpjax.learners.parts import gram
from dpjax.report import plot
from dpjax.report.output import output_folder, versions, write_figure, write_json
from dpjax.report.tables import format_table, write_csv
from dpjax.study.compare import name_of, prepared

HORIZON = 16
# Learners that release nothing within HORIZON rounds have a longer one.
HORIZONS = {"dp_ucb_int": 2048}
# Learners that stop need a large failure to decide anything from losses within HORIZON rounds.
OPTIONS = {name: {"failure": 0.9} for name in ("adap_tt", "ctb_tt", "dp_tt")}
# Phases of a few duels.
OPTIONS["dueling_elimination"] = {"failure": 0.9, "exploration": 0.01}
# By default no threshold is exceeded within HORIZON rounds.
OPTIONS["sparse_vector_experts"] = {"threshold": 1.0}
# Further arguments that a printed calibration requires, or the one that has it.
PRINTED: dict[str, dict[str, Any]] = {
    "limited_updates": {"selector": "laplace"}, "scrible": {"noise": "vector"},
    "linucb": {"gram": gram.gaussian(calibration="printed")},
}  # fmt: skip
ARMS = 3
ACTIONS = np.array([[1.0, 0.0], [-1.0, 0.5], [-1.0, -0.5]])
DELTA = 1e-3
SEED = 2026


# An own learner: mine.py, or mine.py:name.
FILE = re.compile(r"\.py(:\w+)?$")

# The domains on each of which learners of points are audited.
DOMAINS = {
    "simplex": domains.simplex,
    "ball": domains.ball,
    "2-sets": lambda dim: domains.capped_simplex(dim, 2),
}


@cache
def domain_of(name):
    """The domain of that name. It is made late, since JAX settles its devices when it computes."""
    return DOMAINS[name](ARMS)


def domains_of(name) -> list[str]:
    """The domains on which a learner is audited; one empty name where its factory takes none."""
    if not factories.takes(name, "domain"):
        return [""]
    # Semi-bandit feedback is of vertices of ones and zeros.
    of_vertices = build(name, "simplex", HORIZON, 1.0).feedback is semi_bandit
    return ["simplex", "2-sets" if of_vertices else "ball"]


def build(name, domain, horizon, epsilon, **options) -> Learner:
    """The learner of that name, of the size of all audits, with those options that it takes."""
    sizes = {
        "arms": ARMS, "actions": ACTIONS, "dim": ARMS, "delta": DELTA, "epsilon": epsilon,
        "domain": domain_of(domain) if domain else None,
    }  # fmt: skip
    return as_learner(factories.build(name, horizon, sizes, **OPTIONS.get(name, {}) | options))


def keys():
    """The PRNG keys of the pairs, of the replays, of the attack and of its choice of a pair."""
    return (*[jr.key(SEED)] * 3, jr.key(SEED + 1))


def subject(name, domain, epsilon, *, count=PAIRS, changed=1, **options):
    """A learner, and pairs of the losses that its declaration is about, with axes (count, T).

    If more than one round is changed, the declaration is that of such a group.
    """
    learner = build(name, domain, HORIZONS.get(name, HORIZON), epsilon, **options)
    return audited.subject(learner, count, keys()[0], changed)


def replays(learner, pairs) -> audit.Verdict:
    """Replays a learner on every pair, with the key of all audits."""
    return audit.verdict(learner, pairs, keys()[1])


def audit_one(
    name, domain, epsilon, *, runs=RUNS, count=PAIRS, changed=1
) -> tuple[dict, list[dict]]:
    """A row of the table for one learner, and one for each of its mutants.

    Of the printed calibration, the column ``paper`` is the epsilon that the paper states, and
    ``printed`` the one that is declared.
    """

    def examined(options, **what):
        return audited.examined(
            lambda horizon: build(name, domain, horizon, epsilon, **options),
            [HORIZONS.get(name, HORIZON)], keys(), {"learner": name, "domain": domain},
            count=count, changed=changed, **what,
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
    """A row without what is printed, and with the mutants that were caught."""
    caught = sum(each["caught"] for each in mutants)
    words = "" if row["checks"] == audited.NOTHING else f"{caught} of {len(mutants)} caught"
    printed = dict.fromkeys(("paper", "printed", "printed_replay"))
    return row | printed | {"mutants": words}, mutants


def audit_own(factory, epsilon, *, runs, count, changed) -> tuple[dict, list[dict]]:
    """As :func:`audit_one`, of the factory of a user's learner."""
    entrant = prepared(factory, HORIZON)
    return _whole(*audited.examined(
        lambda horizon: as_learner(entrant.build(horizon, epsilon)), audited.HORIZONS, keys(),
        {"learner": name_of(factory), "domain": ""}, runs=runs, count=count, changed=changed,
    ))  # fmt: skip


def figure(rows):
    """The declared epsilon of each learner, beside what replay and attack found."""
    drawn, (panel,) = plot.panels(1, 1, size=(9.0, 6.0))
    shown = [row for row in rows if row["replay"] is not None]
    places = np.arange(len(shown))
    for key, label, marker, size in (
        ("declared", "declared", "_", 14),
        ("replay", "spent on the worst pair replayed", "o", 7),
        ("attack", "lower bound of the attack, 95 %", "^", 7),
    ):
        values = [np.nan if row[key] is None else row[key] for row in shown]
        panel.plot(places, values, marker, label=label, markersize=size)
    panel.set_xticks(
        places,
        [f"{row['learner']} {row['domain']}" for row in shown],
        rotation=75,
        ha="right",
        fontsize=8,
    )
    panel.set_yscale("symlog", linthresh=1.0)
    heights = [row[key] for row in shown for key in ("declared", "replay")]
    panel.set_ylim(
        -0.1, 1.5 * max((x for x in heights if x is not None and np.isfinite(x)), default=1)
    )
    panel.legend(fontsize=8, frameon=False)
    plot.label_axes(panel, "", xlabel="", ylabel="$\\epsilon$ at the declared $\\delta$")
    drawn.supxlabel(
        "No violation was found above the circles on the pairs that were run. Nothing is shown "
        "beyond these pairs.", fontsize=8,
    )  # fmt: skip
    return drawn


def run(
    names=None,
    out="results/audit",
    *,
    epsilon=1.0,
    runs=RUNS,
    count=PAIRS,
    changed=1,
    progress=True,
) -> tuple[str, str]:
    """Audits learners at one epsilon and writes tables and a figure into the folder ``out``.

    The files are audit.csv (a row for each learner and domain), audit_mutants.csv (a row for each
    of their mutants), audit.png, audit.pdf and parameters.json.

    Args:
      names: names of learners, or files of own ones as for
        :func:`dpjax.cli.learner_files.find_factory`; by default all of the package.
      out: a folder, which is made if there is none.
      epsilon: the epsilon that every learner is asked for.
      runs: how many runs of each sequence the empirical bound counts; None for no attack.
      count: how many pairs are replayed.
      changed: how many rounds differ between the sequences of a pair, below the horizon. The table
        then shows what a group of so many rounds is declared to spend, and what it spends.
      progress: whether to show a progress bar.

    Returns:
      The table, as text, and the first violation of a declaration; empty if there is none.

    Raises:
      ValueError: there is no such learner, a file has no learner, or a number is out of range.
      OSError: the folder cannot be written to.
    """
    names = list(learners.__all__ if names is None else names)
    own = {name: find_factory(name)[1] for name in names if FILE.search(name)}
    for name in names:
        if name not in own:
            factories.check_name(name)
    if len(set(names)) < len(names):
        raise ValueError(f"learner: one is named twice in {', '.join(names)}")
    if epsilon == np.inf:
        raise ValueError("epsilon must be finite, since at inf nothing is declared")
    _check.epsilon(epsilon)
    runs = None if runs is None else _check.size(1, runs=runs)
    changed = _check.size(1, changed=changed)
    if changed >= HORIZON:
        raise ValueError(f"changed must be below the horizon {HORIZON}, got {changed}")
    with output_folder(out) as folder:
        cases = [
            partial(audit_own, own[name]) if name in own else partial(audit_one, name, domain)
            for name in names
            for domain in ([""] if name in own else domains_of(name))
        ]
        # Nearly all of the time goes into compilation, which threads spread over the cores.
        with ThreadPoolExecutor(cores()) as pool:
            found = pool.map(
                lambda case: case(epsilon, runs=runs, count=count, changed=changed), cases
            )
            done = []
            with Bar(len(cases), progress, "learners") as bar:
                for each in found:
                    done.append(each)
                    bar.update()
            rows, of_mutants = zip(*done, strict=True)
        mutants = [row for rows_of_one in of_mutants for row in rows_of_one]
        write_csv(folder / "audit.csv", rows)
        if mutants:
            write_csv(folder / "audit_mutants.csv", mutants)
        write_json(
            folder / "parameters.json",
            {
                "epsilon": epsilon, "horizon": HORIZON, "horizons": HORIZONS, "options": OPTIONS,
                "arms": ARMS, "delta": DELTA, "pairs": count, "runs": runs, "confidence": 0.95,
                "changed rounds": changed,
                "training runs": audit.TRAINING, "selection runs": audit.SELECTION,
                "key": f"jax.random.key({SEED})",
                "versions": versions(),
                "backend": jax.default_backend(),
            },
        )  # fmt: skip
    if not mutants:
        # A table of mutants that an earlier audit left does not belong to this one.
        (Path(out) / "audit_mutants.csv").unlink(missing_ok=True)
    write_figure(out, "audit", figure, rows)
    violations = [
        f"{row['learner']}: {audited.finding({**row, 'epsilon': epsilon, 'flagged': True})}"
        for row in rows
        if row["checks"] not in ("pass", audited.NOTHING)
    ]
    return format_table(rows), next(iter(violations), "")
