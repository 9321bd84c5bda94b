"""Theorems on regret, measured: the bound and the worst regret that was found."""

import os
from collections.abc import Sequence
from typing import Any

from dpjax.cli.learner_files import digest, find_environment
from dpjax.core import _check
from dpjax.report.output import output_folder, shown, versions, write_json
from dpjax.report.tables import columns, format_table, write_csv

SHOWN = "theorem bound epsilon horizon worst regret value verdict from_horizon"
SEARCHED = "theorem bound epsilon family regret searched value verdict"


def run(
    words: Sequence[str] | None, out: str | os.PathLike, *, epsilons: Sequence[float] | None = None,
    horizon: int = 2**14, trials: int = 200, search: bool = False, files: Sequence[str] = (),
    progress: bool = True,
) -> str:  # fmt: skip
    """Measure theorems, and write verdicts and exponents into the folder ``out``.

    The files are verdicts.csv (a row for each reading of a bound, epsilon and horizon),
    exponents.csv (a row for each fit) and parameters.json. A search writes searches.csv (a row for
    each reading, epsilon and family), worst_case.png and .pdf and parameters.json instead.

    Args:
      words: names of theorems, learners or papers (:func:`dpjax.study.theorems.named`); None for
        all theorems, except the slow ones in a search.
      out: a folder.
      epsilons, horizon, trials, progress: as in :func:`dpjax.study.theorems.measure`.
      search: whether to search for the worst environments instead of playing fixed ones. Then
        ``trials`` is the number of fresh trials in each environment found.
      files: a user's environments, as in :func:`dpjax.cli.learner_files.find_environment`, that
        are played instead of the theorem's own.

    Returns:
      The new rows, as text.

    Raises:
      ValueError: there is no such theorem, or a number is out of range.
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
    parameters: dict[str, Any] = {
        "theorems": "all" if words is None else list(words), **sizes,
        "key": "jax.random.key(0)", "versions": versions(),
    }  # fmt: skip
    environments = {}
    for text in files:
        path, name, environment = find_environment(text)
        if name in environments:
            raise ValueError(f"environment: two are called {name}")
        environments[name] = environment
        parameters.setdefault("environments", {})[shown(text)] = digest(path)
    if search:
        names = [name for name in names if words or not theorems.find(name).slow]
        return _run_search(names, out, parameters, progress)
    with output_folder(out) as folder:
        measured = [
            theorems.measure(name, environments=environments or None, **sizes, progress=progress)
            for name in names
        ]
        verdicts, exponents = (
            pandas.concat([tables[i].astype(object) for tables in measured]) for i in (0, 1)
        )
        exponents = exponents.where(exponents.notnull(), None)
        for name, table in {"verdicts.csv": verdicts, "exponents.csv": exponents}.items():
            write_csv(folder / name, table)
        write_json(folder / "parameters.json", parameters)
    tables = columns(verdicts.to_dict("records"), SHOWN), exponents.to_dict("records")
    said = [f"Source of the bound of {name}: {theorems.find(name).source}. The bound covers only "
            "the environments that this source describes." for name in names if files]  # fmt: skip
    return "\n\n".join([*map(format_table, tables), *said])


def _run_search(names, out, parameters, progress) -> str:
    import pandas

    from dpjax.engine.progress import Bar
    from dpjax.report import worst_cases
    from dpjax.report.plot import save
    from dpjax.study import theorems

    sizes = {"horizon": parameters["horizon"], "final": parameters["trials"]}
    with output_folder(out) as folder:
        parts = []
        with Bar(len(names), progress, "searches") as bar:
            for name in names:
                theorem = theorems.find(name)
                parts.append(
                    theorems.search(name, theorem, epsilons=parameters["epsilons"], **sizes)
                )
                bar.update()
        searches = pandas.concat(parts, ignore_index=True)
        if searches.empty:
            raise ValueError(f"theorem: there is nothing to search for {', '.join(names)}")
        write_csv(folder / "searches.csv", searches)
        write_json(folder / "parameters.json", parameters)
        save(worst_cases.draw(searches), folder, "worst_case")
    return format_table(columns(searches.to_dict("records"), SEARCHED))


def listing() -> str:
    """The known theorems with their papers and sources, and learners without a theorem."""
    from dpjax.study.theorems import THEOREMS, WITHOUT

    rows = [(name, theorem.paper, theorem.source) for name, theorem in THEOREMS.items()]
    rows += [(name, "none", reason) for name, reason in WITHOUT.items()]
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    return "\n".join(f"{name:{first}}  {paper:{second}}  {text}" for name, paper, text in rows)
