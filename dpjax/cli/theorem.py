"""Theorems on regret, measured: the bound beside the worst regret that was found."""

import json
from pathlib import Path

import numpy as np

from dpjax.core import _check
from dpjax.report.output import output_folder, versions, write_json
from dpjax.report.tables import columns, format_markdown, format_table, write_csv

SHOWN = "theorem bound epsilon horizon worst regret value verdict from_horizon"
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
    import pandas  # not above: other commands should not wait for these libraries

    from dpjax.study import theorems

    epsilons = [float(e) for e in (theorems.EPSILONS if epsilons is None else epsilons)]
    for epsilon in epsilons:
        _check.epsilon(epsilon)
    sizes = {"epsilons": epsilons, "horizon": horizon, "trials": trials}
    names = list(theorems.THEOREMS) if words is None else theorems.named(words)
    with output_folder(out) as folder:
        found = [theorems.measure(name, **sizes, progress=progress) for name in names]
        verdicts, exponents = (
            pandas.concat([each[i].astype(object) for each in found]) for i in (0, 1)
        )
        exponents = exponents.where(exponents.notnull(), None)
        write_csv(folder / "verdicts.csv", verdicts)
        write_csv(folder / "exponents.csv", exponents)
        parameters = {
            "theorems": "all" if words is None else list(words), **sizes,
            "key": "jax.random.key(0)", "versions": versions(),
        }  # fmt: skip
        write_json(folder / "parameters.json", parameters)
        (folder / "README.md").write_text(readme(folder), encoding="utf-8")
    tables = columns(verdicts.to_dict("records"), SHOWN), exponents.to_dict("records")
    return "\n\n".join(map(format_table, tables))


def listing() -> str:
    """The theorems that are known, with their papers and sources, and learners without one."""
    from dpjax.study.theorems import THEOREMS, WITHOUT

    rows = [(name, each.paper, each.source) for name, each in THEOREMS.items()]
    rows += [(name, "none", reason) for name, reason in WITHOUT.items()]
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    return "\n".join(f"{name:{first}}  {paper:{second}}  {text}" for name, paper, text in rows)


def readme(folder) -> str:
    """A page with the tables of a folder."""
    import pandas

    folder = Path(folder)
    parameters = json.loads((folder / "parameters.json").read_text(encoding="utf-8"))
    verdicts, exponents = (pandas.read_csv(folder / f"{n}.csv") for n in ("verdicts", "exponents"))
    horizon, trials, asked = (parameters[name] for name in ("horizon", "trials", "theorems"))
    words = "--all" if asked == "all" else " ".join(asked)
    epsilons = ",".join(f"{float(epsilon):g}" for epsilon in parameters["epsilons"])
    command = f"dpjax theorem {words} --epsilon {epsilons} --horizon {horizon} --trials {trials}"
    last = verdicts[verdicts["horizon"] == horizon]
    counts = last["verdict"].value_counts()
    said = ", ".join(f"{counts[each]} {each}" for each in VERDICTS if each in counts)
    pages = [
        ABOUT.format(command=command, trials=trials, horizon=horizon),
        f"At T = {horizon}, over all theorems, readings and epsilons: {said}.\n",
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
