"""What several papers share: checkpoints, rows of tables, and pieces of figures."""

import platform
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import xarray

from dpjax.report import arrays, estimates
from dpjax.report.output import output_folder, write_figure, write_json
from dpjax.report.tables import write_csv

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


class Report(NamedTuple):
    """What a paper's experiment found, by the endings of file names; "" is the main one."""

    tables: dict[str, list[dict]]
    figures: dict[str, Callable]  # functions without arguments that draw
    parameters: dict  # what tables and figures depend on beside horizon, trials and key
    text: str  # what is printed


def publish(out, name, experiment, *, horizon, trials, seed) -> str:
    """Writes tables, figures and parameters of an experiment into a folder.

    Args:
      out: folder, created if missing; it is refused before the experiment if it cannot be.
      name: with which the names of all tables and figures begin.
      experiment: a function without arguments that returns a Report.
      horizon, trials, seed: what was asked for, which parameters.json says first.

    Returns:
      The text of the report.

    Raises:
      OSError: the folder cannot be written to.
    """
    with output_folder(out) as folder:
        report = experiment()
        for ending, table in report.tables.items():
            write_csv(folder / f"{name}{ending}.csv", table)
        asked = {"horizon": horizon, "trials": trials, "key": f"jax.random.key({seed})"}
        write_json(folder / "parameters.json", asked | report.parameters | computed_with())
    for ending, draw in report.figures.items():
        write_figure(out, f"{name}{ending}", draw)
    return report.text


def log_checkpoints(horizon, count) -> tuple[int, ...]:
    """Up to ``count`` rounds, evenly spaced on a logarithmic axis; the last one is the horizon."""
    return tuple(np.unique(np.geomspace(min(100, horizon), horizon, count).astype(int)).tolist())


def check_size(horizon, trials, least_horizon) -> None:
    """Raises ValueError for fewer than 8 trials, or fewer rounds than ``least_horizon``."""
    if trials < 8 or horizon < least_horizon:
        raise ValueError(
            f"trials must be at least 8 and horizon at least {least_horizon}, "
            f"got {trials} and {horizon}"
        )


def final_summary(array) -> xarray.Dataset:
    """The columns mean, standard_error and q5 to q95 of an array with the dimension trial."""
    found = estimates.mean(array)[["mean", "standard_error"]]
    for q in QUANTILES:
        found[f"q{round(100 * q)}"] = _quantile(array.astype(np.float64), q)
    return found


def curve_summary(array) -> xarray.Dataset:
    """The columns mean, q10 and q90 of an array with the dimension trial."""
    mean = array.mean("trial", dtype=np.float64, skipna=False)
    return xarray.Dataset(
        {"mean": mean, "q10": _quantile(array, 0.1), "q90": _quantile(array, 0.9)}
    )


def _quantile(array, q):
    # A list of levels keeps NumPy from rounding the level to the precision of the array.
    return array.quantile([q], "trial", skipna=False).isel(quantile=0, drop=True)


def exponent(x, values, usable, trials) -> tuple:
    """The slope of log values over log x with its 95 % interval over resampled trials.

    Args:
      x: (n,).
      values: a function of an array of indices of trials that returns (n,) positive numbers.
      usable: (n,) bool, which points the slope is fitted through.
      trials: how many there are.

    Returns:
      (slope, low, high), all nan where fewer than two points are usable.
    """
    if np.sum(usable) < 2:
        return float("nan"), float("nan"), float("nan")
    logs = np.log(np.asarray(x, np.float64)[usable])
    return arrays.resampled(
        trials, lambda drawn: np.polyfit(logs, np.log(values(drawn)[usable]), 1)[0]
    )


def computed_with() -> dict:
    """The versions and the backend that a run used, for its parameters.json."""
    return {
        "versions": {"jax": jax.__version__, "python": platform.python_version()},
        "backend": jax.default_backend(),
    }


def name_lines(figure) -> None:
    """A legend to the right of a figure for all lines that have a label, each once."""
    entries: dict[str, Any] = {}
    for panel in figure.axes:
        entries |= dict(zip(*reversed(panel.get_legend_handles_labels()), strict=True))
    figure.legend(entries.values(), entries.keys(), loc="outside right center", fontsize=8,
                  frameon=False, handlelength=3.0)  # fmt: skip


def logarithmic(figure, *, low=None) -> None:
    """Logarithmic axes in all panels of a figure, with values from ``low`` on."""
    for panel in figure.axes:
        panel.set_xscale("log")
        panel.set_yscale("log")
        if low is not None:
            panel.set_ylim(bottom=low)
