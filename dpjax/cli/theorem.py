"""Theorems on regret, measured: the bound beside the worst regret that was found."""

import numpy as np

from dpjax import _check
from dpjax.analysis.output import format_table, output_folder, versions, write_csv, write_json

SHOWN = ("theorem", "bound", "epsilon", "horizon", "worst", "regret", "value", "verdict",
         "from_horizon")  # fmt: skip


def run(names, out, *, epsilons=None, horizon=2**14, trials=200, progress=True) -> str:
    """Measures theorems and writes verdicts and exponents into the folder ``out``.

    The files are verdicts.csv (a row for each reading of a bound, epsilon and horizon),
    exponents.csv (a row for each fit) and parameters.json.

    Args:
      names: of theorems; an empty list lists them instead.
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
    for name in names:
        theorems.find(name)
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
        write_csv(folder / "verdicts.csv", verdicts)
        write_csv(folder / "exponents.csv", exponents)
        parameters = {
            "epsilons": [float(epsilon) for epsilon in epsilons],
            "horizon": horizon,
            "trials": trials,
            "key": "jax.random.key(0)",
            "versions": versions(),
        }
        write_json(folder / "parameters.json", parameters)
    shown = [{name: row[name] for name in SHOWN} for row in verdicts]
    return "\n\n".join([format_table(shown), format_table(exponents)])


def listing() -> str:
    """The theorems that are known, with their sources."""
    from dpjax.study.theorems import THEOREMS

    width = max(map(len, THEOREMS))
    return "\n".join(f"{name:{width}}  {each.source}" for name, each in THEOREMS.items())
