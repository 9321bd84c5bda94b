"""Theorems on regret, measured: the bound beside the worst regret that was found."""

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np

from dpjax.core import _check
from dpjax.report.output import output_folder, versions, write_json
from dpjax.report.tables import format_markdown, format_table, write_csv

SHOWN = ("theorem", "bound", "epsilon", "horizon", "worst", "regret", "value", "verdict",
         "from_horizon")  # fmt: skip
VERDICTS = ("held", "open", "violated", "exceeded", "vacuous")

ABOUT = """# Theorems on regret, measured

`{command}` played the learner of each theorem against all of its environments, {trials}
trials each, to three horizons of which T = {horizon} is the longest. The tables below were written
by that command, as were [verdicts.csv](verdicts.csv), [exponents.csv](exponents.csv) and
[parameters.json](parameters.json).

A cell of a bound is the verdict at T = {horizon}, the worst mean regret over the bound in brackets,
and the smallest horizon from which on the bound is below the largest regret that there is. A bound
is *held* or *violated* where the whole interval of the worst mean lies below or above it, *open*
where it lies on both sides, and *vacuous* where no play can exceed it. The intervals have a level
of 95 % for all environments of a theorem at once. A *rate* is printed up to constants and stands
here with constant 1: it can be *exceeded*, which contradicts no theorem. Exponents leave out
logarithms. The fitted ones are of mean regret against the worst environment, with 95 % intervals
over resampled trials.
"""


def run(words, out, *, epsilons=None, horizon=2**14, trials=200, progress=True) -> str:
    """Measures theorems and writes verdicts and exponents into the folder ``out``.

    The files are verdicts.csv (a row for each reading of a bound, epsilon and horizon),
    exponents.csv (a row for each fit), README.md (both as tables) and parameters.json.

    Args:
      words: names of theorems, learners or papers (:func:`dpjax.study.theorems.named`); None for
        all theorems.
      out: a folder.
      epsilons, horizon, trials, progress: as of :func:`dpjax.study.theorems.measure`.

    Returns:
      Both tables, as text.

    Raises:
      ValueError: there is no such theorem, or a number is out of range.
    """
    from dpjax.study import theorems  # not above: other commands should not wait for its libraries

    epsilons = theorems.EPSILONS if epsilons is None else epsilons
    for epsilon in epsilons:
        _check.epsilon(epsilon)
    names = list(theorems.THEOREMS) if words is None else theorems.named(words)
    with output_folder(out) as folder:
        found = [
            theorems.measure(
                name, epsilons=epsilons, horizon=horizon, trials=trials, progress=progress
            )
            for name in names
        ]
        verdicts = [row for each in found for row in each.verdicts.to_dict("records")]
        exponents = [row for each in found for row in each.exponents.to_dict("records")]
        exponents = [
            {k: None if isinstance(v, float) and np.isnan(v) else v for k, v in row.items()}
            for row in exponents
        ]
        parameters = {
            "theorems": "all" if words is None else list(words),
            "epsilons": [float(epsilon) for epsilon in epsilons],
            "horizon": horizon,
            "trials": trials,
            "key": "jax.random.key(0)",
            "versions": versions(),
        }
        write_csv(folder / "verdicts.csv", verdicts)
        write_csv(folder / "exponents.csv", exponents)
        write_json(folder / "parameters.json", parameters)
        (folder / "README.md").write_text(readme(folder), encoding="utf-8")
    shown = [{name: row[name] for name in SHOWN} for row in verdicts]
    return "\n\n".join([format_table(shown), format_table(exponents)])


def listing() -> str:
    """The theorems that are known, with their papers and sources, and learners without one."""
    from dpjax.study.theorems import THEOREMS, WITHOUT

    rows = [(name, each.paper, each.source) for name, each in THEOREMS.items()]
    rows += [(name, "none", reason) for name, reason in WITHOUT.items()]
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    return "\n".join(f"{name:{first}}  {paper:{second}}  {text}" for name, paper, text in rows)


def readme(folder) -> str:
    """What the tables of a folder say, as a page."""
    import pandas

    folder = Path(folder)
    parameters = json.loads((folder / "parameters.json").read_text(encoding="utf-8"))
    verdicts, exponents = (
        pandas.read_csv(folder / f"{name}.csv").to_dict("records")
        for name in ("verdicts", "exponents")
    )
    horizon = parameters["horizon"]
    last = [row for row in verdicts if row["horizon"] == horizon]
    counts = Counter(row["verdict"] for row in last)
    said = ", ".join(f"{counts[each]} {each}" for each in VERDICTS if counts[each])
    about = ABOUT.format(command=_command(parameters), trials=parameters["trials"], horizon=horizon)
    header = ("theorem", "paper", "epsilon", "exponent of T", "fitted", "printed", "derived")
    pages = [
        about,
        f"At T = {horizon}, over all theorems, readings and epsilons: {said}.\n",
        format_markdown(header, _rows(last, exponents)),
    ]
    over = [row for row in exponents if row["over"] == "epsilon"]
    if over:
        of_fits = ("theorem", "worst", "from", "to", "exponent of epsilon", "fitted")
        pages += [
            f"Exponents of epsilon, at T = {horizon}:\n",
            format_markdown(of_fits, _over(over)),
        ]
    return "\n".join(pages)


def _command(parameters) -> str:
    asked = parameters["theorems"]
    words = ["--all"] if asked == "all" else asked
    epsilons = ",".join(f"{float(epsilon):g}" for epsilon in parameters["epsilons"])
    sizes = f"--epsilon {epsilons} --horizon {parameters['horizon']}"
    return f"dpjax theorem {' '.join(words)} {sizes} --trials {parameters['trials']}"


def _over(exponents) -> list[tuple]:
    """A row for each fit over epsilon."""
    return [
        (
            f"`{row['theorem']}`",
            row["worst"],
            f"{row['first']:g}",
            f"{row['last']:g}",
            _exponent(row["printed"]),
            _fitted(row),
        )
        for row in exponents
    ]


def _rows(verdicts, exponents) -> list[tuple]:
    """A row for each theorem and epsilon, with its printed and its derived bound."""
    fits = {(row["theorem"], row["epsilon"]): row for row in exponents if row["over"] == "horizon"}
    rows = []
    for name, epsilon in dict.fromkeys((row["theorem"], row["epsilon"]) for row in verdicts):
        mine = [row for row in verdicts if (row["theorem"], row["epsilon"]) == (name, epsilon)]
        cells = {row["bound"]: _cell(row) for row in mine}
        if "rate" in cells:
            cells["printed"] = f"rate: {cells['rate']}"
        fit = fits[name, epsilon]
        rows.append(
            (f"`{name}`", mine[0]["paper"], f"{epsilon:g}", _exponent(fit["printed"]), _fitted(fit),
             cells.get("printed", ""), cells.get("derived", ""))
        )  # fmt: skip
    return rows


def _cell(row) -> str:
    ratio = "" if row["verdict"] == "vacuous" else f" ({row['ratio']:.2g})"
    first = row["from_horizon"]
    since = "never" if math.isinf(first) else f"from {_whole(first)}"
    return f"{row['verdict']}{ratio}, {since}"


def _whole(number) -> str:
    if number < 1e6:
        return f"{number:.0f}"
    digits, _, power = f"{number:.1e}".partition("e+")
    return f"{digits}e{int(power)}"


def _exponent(number) -> str:
    """An exponent with at most two digits after the point."""
    return f"{round(number, 2):g}"


def _fitted(row) -> str:
    if any(row[name] is None or math.isnan(row[name]) for name in ("fitted", "low", "high")):
        return "not positive"
    return f"{row['fitted']:.2f} ({row['low']:.2f} to {row['high']:.2f})"
