"""Audits of every learner: the declared privacy, and the privacy loss that was found."""

import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import random as jr

from dpjax import audit, domains, learners
from dpjax.audit import audited
from dpjax.audit.audited import MINUTES, PAIRS, RUNS
from dpjax.audit.limits import watched
from dpjax.audit.reasons import UNDECIDED, VIOLATED
from dpjax.cli.learner_files import find_factory, line_of
from dpjax.combinators import as_learner
from dpjax.core import Learner, _check
from dpjax.engine.devices import cores
from dpjax.engine.progress import Bar
from dpjax.feedback import semi_bandit
from dpjax.learners import factories
from dpjax.learners.entrants import name_of, prepared
from dpjax.learners.parts import gram
from dpjax.report.output import output_folder, versions, write_json
from dpjax.report.tables import format_table, write_csv

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


# A user's learner: mine.py, or mine.py:name.
FILE = re.compile(r"\.py(:\w+)?$")

# The domains for audits of learners of points.
DOMAINS = {
    "simplex": domains.simplex,
    "ball": domains.ball,
    "2-sets": lambda dim: domains.capped_simplex(dim, 2),
}


@cache
def domain_of(name: str) -> domains.Domain:
    """The domain of that name; made late, because JAX fixes devices at its first computation."""
    return DOMAINS[name](ARMS)


def domains_of(name: str) -> list[str]:
    """The domains on which a learner is audited; one empty name if its factory takes none."""
    if not factories.takes(name, "domain"):
        return [""]
    # Semi-bandit feedback needs vertices of ones and zeros.
    of_vertices = build(name, "simplex", HORIZON, 1.0).feedback is semi_bandit
    return ["simplex", "2-sets" if of_vertices else "ball"]


def build(name: str, domain: str, horizon: int, epsilon: float, **options: Any) -> Learner:
    """The learner of that name in the size of all audits, with the options that it takes."""
    sizes = {
        "arms": ARMS, "actions": ACTIONS, "dim": ARMS, "delta": DELTA, "epsilon": epsilon,
        "domain": domain_of(domain) if domain else None,
    }  # fmt: skip
    return as_learner(factories.build(name, horizon, sizes, **OPTIONS.get(name, {}) | options))


def keys() -> tuple[jax.Array, ...]:
    """The PRNG keys of the pairs, of the replays, of the attack and of its choice of a pair."""
    return (*[jr.key(SEED, impl="threefry2x32")] * 3, jr.key(SEED + 1, impl="threefry2x32"))


def subject(
    name: str, domain: str, epsilon: float, *, count: int = PAIRS, changed: int = 1, **options: Any
) -> tuple[Learner, audit.Pair]:
    """A learner, and pairs of loss sequences that its declaration covers, with axes (count, T).

    If more than one round is changed, the declaration is the one for a group of this many rounds.
    """
    learner = build(name, domain, HORIZONS.get(name, HORIZON), epsilon, **options)
    return audited.subject(learner, count, keys()[0], changed)


def replays(learner: Learner, pairs: audit.Pair) -> audit.Verdict:
    """Replay a learner on every pair, with the key of all audits."""
    return audit.verdict(learner, pairs, keys()[1])


def audit_one(
    name: str, domain: str, epsilon: float, *, horizon: int | None = None,
    runs: int | None = RUNS, minutes: float = MINUTES, count: int = PAIRS, changed: int = 1,
) -> tuple[dict, list[dict]]:  # fmt: skip
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
    caught = sum(mutant["caught"] for mutant in mutants)
    words = f"{caught} of {len(mutants)} caught" if mutants else ""
    printed = dict.fromkeys(("paper", "printed", "printed_replay"))
    return row | printed | {"mutants": words}, mutants


def audit_file(
    factory: Callable, label: str, epsilon: float, *, horizon: int | None, **options: Any
) -> tuple[dict, list[dict]]:
    """:func:`audit_one` for the factory of a user's learner, which the table calls ``label``."""
    entrant = prepared(factory, horizon or HORIZON)
    horizons = [horizon] if horizon else audited.HORIZONS
    return _whole(*audited.examined(
        lambda horizon: as_learner(entrant.build(horizon, epsilon)), horizons, keys(),
        {"learner": label, "domain": ""}, **options,
    ))  # fmt: skip


def closing(rows: Sequence[dict]) -> str:
    """The sentence on the learners of a table if all of them passed."""
    horizons = sorted({row["horizon"] for row in rows if row["horizon"]})
    if not horizons:
        return "nothing was audited, since no privacy is declared"
    rounds = " or ".join(map(str, horizons))
    (pairs,) = {row["pairs"] for row in rows if row["horizon"]}
    return (f"no violation was found on {pairs} pairs of {rounds} rounds; later rounds are not "
            "audited (--horizon)")  # fmt: skip


def run(
    names: Sequence[str] | None = None, out: str | os.PathLike = "results/audit", *,
    epsilon: float = 1.0, horizon: int | None = None, runs: int | None = RUNS,
    minutes: float = MINUTES, count: int = PAIRS, changed: int = 1, progress: bool = True,
) -> tuple[str, int, str]:  # fmt: skip
    """Audit learners at one epsilon, and write tables into the folder ``out``.

    The files are audit.csv (a row for each learner and domain), audit_mutants.csv (a row for each
    of their mutants) and parameters.json.

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
      progress: whether to show a progress bar.

    Returns:
      The new rows, as text; an exit status: 0, or 1 if a violation of a declaration was found, or
      3 if some audit could not decide; and the sentence of the first such audit, or of all that
      passed.

    Raises:
      ValueError: there is no such learner, a file has no learner, or a number is out of range.
      OSError: the folder cannot be written to.
    """
    names = list(learners.__all__ if names is None else names)
    files = {name: find_factory(name) for name in names if FILE.search(name)}
    labels = {name: f"{path}:{name_of(factory)}" for name, (path, factory) in files.items()}
    for name in names:
        if name not in files:
            factories.check_name(name)
    if len(set(names)) < len(names) or len({*labels.values()}) < len(files):
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
    with output_folder(out) as folder:
        cases = [
            (
                name,
                partial(audit_file, files[name][1], labels[name])
                if name in files
                else partial(audit_one, name, domain),
            )
            for name in names
            for domain in ([""] if name in files else domains_of(name))
        ]
        options = {"horizon": horizon, "runs": runs, "minutes": minutes}
        with Bar(len(cases), progress, "learners") as bar:

            def one(name, case):
                try:
                    with watched(lambda words: bar.say(f"{name}: {words}")):
                        return case(epsilon, count=count, changed=changed, **options)
                except ValueError as error:
                    path, _ = files.get(name, (name, None))
                    line = line_of(path, error.__cause__)
                    raise ValueError(f"{name}: {line}{error}") from error

            # Compilation takes nearly all of the time; threads spread it over the cores.
            with ThreadPoolExecutor(cores()) as pool:
                done = []
                for result in pool.map(one, *zip(*cases, strict=True)):
                    done.append(result)
                    bar.update()
        rows, of_mutants = zip(*done, strict=True)
        mutants = [row for rows_of_one in of_mutants for row in rows_of_one]
        write_csv(folder / "audit.csv", rows)
        if mutants:
            write_csv(folder / "audit_mutants.csv", mutants)
        write_json(folder / "parameters.json", parameters)
    if not mutants:  # A table of mutants from an earlier audit does not belong to this one.
        (Path(out) / "audit_mutants.csv").unlink(missing_ok=True)
    # Violations first, then audits that could not decide.
    for status in (VIOLATED, UNDECIDED):
        for row in rows:
            if audited.status(row["checks"]) == status:
                said = audited.finding({**row, "epsilon": epsilon, "flagged": True})
                return format_table(rows), status, f"{row['learner']}: {said}"
    return format_table(rows), 0, closing(rows)
