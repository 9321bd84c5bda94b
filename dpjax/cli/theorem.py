"""Theorems on regret, measured: the bound and the worst regret that was found."""

import hashlib
import json
from pathlib import Path

import numpy as np

from dpjax.cli.learner_files import find_environment
from dpjax.core import _check
from dpjax.report.output import add_to, output_folder, shown, versions, write_json
from dpjax.report.tables import columns, format_markdown, format_table, merged, write_csv

SHOWN = "theorem bound epsilon horizon worst regret value verdict from_horizon"
FOUND = "theorem bound epsilon family regret searched value verdict"
VERDICTS = ("held", "open", "violated", "exceeded", "vacuous")

ABOUT = """# Theorems on regret, measured

`{command}` played the learner of each theorem against {against}, with {trials}
trials each and at three horizons, up to T = {horizon}. {more} \
The command also wrote the tables below, [verdicts.csv](verdicts.csv),
[exponents.csv](exponents.csv) and [parameters.json](parameters.json).

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
bound covers adversaries that react to the learner, the search includes them. The command also wrote
the table and the figure below, [searches.csv](searches.csv) and [parameters.json](parameters.json).

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


# The environments of a page: the theorem's own, and those of a user.
OWN = (
    "all environments of the theorem",
    """For theorems on
arms, the environments include one best arm at each of 16 gaps from 0.01 to 1, with drawn and with
constant losses.""",
)
GIVEN = (
    "environments of {files}",
    """A bound holds for
the environments that its source describes. The command does not check whether yours is one of
them.""",
)


def run(
    words, out, *, epsilons=None, horizon=2**14, trials=200, search=False, merge=False, files=(),
    progress=True,
) -> str:  # fmt: skip
    """Measure theorems, and write verdicts and exponents into the folder ``out``.

    The files are verdicts.csv (a row for each reading of a bound, epsilon and horizon),
    exponents.csv (a row for each fit), README.md (both as tables) and parameters.json. A search
    writes searches.csv (a row for each reading, epsilon and family), worst_case.png and .pdf,
    README.md and parameters.json instead.

    Args:
      words: names of theorems, learners or papers (:func:`dpjax.study.theorems.named`); None for
        all theorems, except the slow ones in a search.
      out: a folder.
      epsilons, horizon, trials, progress: as in :func:`dpjax.study.theorems.measure`.
      search: whether to search for the worst environments instead of playing fixed ones. Then
        ``trials`` is the number of fresh trials in each environment found.
      files: a user's environments, as in :func:`dpjax.cli.learner_files.find_environment`, that
        are played instead of the theorem's own.
      merge: whether rows of other theorems in ``out`` are kept.

    Returns:
      The new rows, as text.

    Raises:
      ValueError: there is no such theorem, or a number is out of range; or with ``merge``, the rows
        in ``out`` have other parameters.
    """
    import pandas  # here, because other commands should not wait for these libraries

    from dpjax.study import theorems

    epsilons = [float(e) for e in (theorems.EPSILONS if epsilons is None else epsilons)]
    for epsilon in epsilons:
        _check.epsilon(epsilon)
    sizes = {"epsilons": epsilons, "horizon": horizon, "trials": trials}
    if files and search:
        raise ValueError("environment: a search uses its own families; leave out --environment")
    names = list(theorems.THEOREMS) if words is None else theorems.named(words)
    parameters = {
        "theorems": "all" if words is None else list(words), **sizes,
        "key": "jax.random.key(0)", "versions": versions(),
    }  # fmt: skip
    given = {}
    for text in files:
        path, name, made = find_environment(text)
        if name in given:
            raise ValueError(f"environment: two are called {name}")
        given[name] = made
        digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        parameters.setdefault("environments", {})[shown(text)] = digest
    if merge:
        parameters = add_to(out, parameters, "theorems")
    if search:
        names = [name for name in names if words or not theorems.find(name).slow]
        return _run_search(names, out, parameters, merge, progress)
    with output_folder(out) as folder:
        found = [
            theorems.measure(name, environments=given or None, **sizes, progress=progress)
            for name in names
        ]
        verdicts, exponents = (
            pandas.concat([each[i].astype(object) for each in found]) for i in (0, 1)
        )
        exponents = exponents.where(exponents.notnull(), None)
        for name, table in {"verdicts.csv": verdicts, "exponents.csv": exponents}.items():
            write_csv(folder / name, _whole(Path(out) / name, table, merge))
        write_json(folder / "parameters.json", parameters)
        (folder / "README.md").write_text(readme(folder), encoding="utf-8")
    tables = columns(verdicts.to_dict("records"), SHOWN), exponents.to_dict("records")
    said = [f"Source of the bound of {name}: {theorems.find(name).source}. The bound covers only "
            "the environments that this source describes." for name in names if given]  # fmt: skip
    return "\n\n".join([*map(format_table, tables), *said])


def _whole(path, table, merge):
    """A table, with the rows of other theorems in a file if ``merge`` is true."""
    from dpjax.study.theorems import THEOREMS

    return merged(path, table, "theorem", list(THEOREMS)) if merge else table


def _run_search(names, out, parameters, merge, progress) -> str:
    import pandas

    from dpjax.engine.progress import Bar
    from dpjax.report import worst_cases
    from dpjax.report.plot import save
    from dpjax.study import theorems

    sizes = {"horizon": parameters["horizon"], "final": parameters["trials"]}
    with output_folder(out) as folder:
        each = []
        with Bar(len(names), progress, "searches") as bar:
            for name in names:
                theorem = theorems.find(name)
                each.append(
                    theorems.search(name, theorem, epsilons=parameters["epsilons"], **sizes)
                )
                bar.update()
        found = pandas.concat(each)
        if found.empty:
            raise ValueError(f"theorem: there is nothing to search for {', '.join(names)}")
        write_csv(folder / "searches.csv", _whole(Path(out) / "searches.csv", found, merge))
        write_json(folder / "parameters.json", parameters)
        save(worst_cases.draw(pandas.read_csv(folder / "searches.csv")), folder, "worst_case")
        (folder / "README.md").write_text(searched_page(folder), encoding="utf-8")
    return format_table(columns(found.to_dict("records"), FOUND))


def listing() -> str:
    """The known theorems with their papers and sources, and learners without a theorem."""
    from dpjax.study.theorems import THEOREMS, WITHOUT

    rows = [(name, each.paper, each.source) for name, each in THEOREMS.items()]
    rows += [(name, "none", reason) for name, reason in WITHOUT.items()]
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    return "\n".join(f"{name:{first}}  {paper:{second}}  {text}" for name, paper, text in rows)


def _command(folder, option="") -> dict:
    """The command that made a folder, its horizon and its trials."""
    parameters = json.loads((folder / "parameters.json").read_text(encoding="utf-8"))
    horizon, trials, asked = (parameters[name] for name in ("horizon", "trials", "theorems"))
    words = "--all" if asked == "all" else " ".join(asked)
    epsilons = ",".join(f"{float(epsilon):g}" for epsilon in parameters["epsilons"])
    files = parameters.get("environments", ())
    option += "".join(f" --environment {file}" for file in files)
    command = f"dpjax theorem {words}{option} --epsilon {epsilons} --horizon {horizon}"
    against, more = GIVEN if files else OWN
    return {
        "command": f"{command} --trials {trials}", "horizon": horizon, "trials": trials,
        "against": against.format(files=", ".join(files)), "more": more,
    }  # fmt: skip


def searched_page(folder) -> str:
    """A page with the table of a folder of searches."""
    import pandas

    from dpjax.report.worst_cases import LOOSE, TIGHT, worst_of

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


def readme(folder) -> str:
    """A page with the tables of a folder."""
    import pandas

    folder = Path(folder)
    verdicts, exponents = (pandas.read_csv(folder / f"{n}.csv") for n in ("verdicts", "exponents"))
    about = _command(folder)
    horizon = about["horizon"]
    last = verdicts[verdicts["horizon"] == horizon]
    counts = last["verdict"].value_counts()
    said = ", ".join(f"{counts[each]} {each}" for each in VERDICTS if each in counts)
    pages = [
        ABOUT.format(**about),
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
