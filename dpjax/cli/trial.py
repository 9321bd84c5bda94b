"""The length of a private trial: learners with a stopping time, on a user's resampled outcomes."""

import hashlib
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import xarray

from dpjax import bounds, environments, learners
from dpjax.cli.arguments import PRIVATE_EPSILONS
from dpjax.cli.case_files import read_columns
from dpjax.core import _check
from dpjax.report.figures import Captioned
from dpjax.report.output import output_folder, shown, versions, write_figure, write_json
from dpjax.report.tables import format_table, write_csv
from dpjax.study import Study

GIVEN = ("treatment", "outcome")  # columns of a file
COLUMNS = ["learner", "model", "epsilon", "patients", "patients_low", "patients_high", "median",
           "q90", "lower_bound", "error", "error_low", "error_high", "stopped"]  # fmt: skip
# The learners that identify the best treatment, by trust model.
LEARNERS = {
    "central": {
        "DP-TT": learners.dp_tt,
        "AdaP-TT": learners.adap_tt,
        "DP-SE": learners.successive_elimination,
    },
    "local": {"CTB-TT": learners.ctb_tt},
}
PLAIN = {"TTUCB": learners.ttucb, "Track-and-Stop": learners.track_and_stop, "LUCB": learners.lucb}
SEED = 0
POINTS = 60  # of each curve


class Outcomes(NamedTuple):
    """The outcomes of each treatment."""

    treatments: tuple[str, ...]
    patients: np.ndarray  # (K,) int64, number of patients with each treatment
    rates: np.ndarray  # (K,) float64, share of successes among them


def read_outcomes(path) -> Outcomes:
    """Read a CSV file with the columns treatment and outcome, a row for each patient.

    Args:
      path: a file with a header. An outcome is 1 for a success and 0 for a failure.

    Raises:
      ValueError: the header lacks a column; an entry is missing; two treatments are the same number
        (1 and 1.0); an outcome is neither 0 nor 1; there are fewer than two treatments; or the file
        is not CSV in UTF-8. The message names the file and, if possible, the line and the
        column of the first fault of each column.
      OSError: the file cannot be read, or is not a regular file.
    """
    read, faults = read_columns(path)
    named = {name: [read[title] for title in read if title.lower() == name] for name in GIVEN}
    for name, found in named.items():
        if len(found) != 1:
            raise ValueError(f"{path}: the first row must name one column treatment and one column "
                             f"outcome, but names {len(found)} columns {name}")  # fmt: skip
    treatments, outcomes = (found[0] for found in named.values())
    treatments.words()
    values = outcomes.values()
    for i in np.flatnonzero(np.isfinite(values) & (values != 0.0) & (values != 1.0)).tolist():
        outcomes.add(i, f"is {outcomes.cells[i][:40]!r}; an outcome is 0 or 1")
    faults.refuse()
    counts: dict[str, list[int]] = {}
    for treatment, outcome in zip(treatments.cells, values, strict=True):
        counts.setdefault(treatment, [0, 0])[int(outcome)] += 1
    if len(counts) < 2:
        raise ValueError(f"{path}: at least two treatments are needed, got {len(counts)}")
    table_of_counts = np.array(list(counts.values()))
    patients = table_of_counts.sum(axis=1)
    return Outcomes(tuple(counts), patients, table_of_counts[:, 1] / patients)


def play(
    outcomes, *, delta=0.01, epsilons=PRIVATE_EPSILONS, model="central", horizon=10**8, trials=1000,
    progress=True,
) -> xarray.Dataset:  # fmt: skip
    """Play learners with a stopping time on patients drawn from the given outcomes.

    Each patient is drawn with replacement from the patients with the same treatment. So a treatment
    is a Bernoulli arm with the share of successes as its mean.

    Args:
      outcomes: as :func:`read_outcomes` returns them.
      delta: the allowed probability of a wrong recommendation, in (0, 1/2).
      epsilons: privacy levels, inf for no privacy.
      model: "central" if the organiser of the trial sees the outcomes, or "local" if patients
        randomize their own.
      horizon: number of patients after which a trial is cut off.
      trials: number of trials per learner.
      progress: whether to show progress bars.

    Returns:
      The data of a study. Learners without privacy take no epsilon.

    Raises:
      ValueError: two treatments have the largest share of successes, so that no learner stops; or
        an argument is out of range.
    """
    _check.one_of(*LEARNERS, model=model)
    _check.inside(0.0, 0.5, delta=delta)
    for epsilon in epsilons:
        _check.epsilon(epsilon)
    means = 1.0 - outcomes.rates
    best = np.flatnonzero(means == means.min())
    if len(best) > 1:
        tied = " and ".join(outcomes.treatments[i] for i in best)
        raise ValueError(
            f"data: {tied} have the same share of successes, {outcomes.rates[best[0]]:g}, so no "
            "learner can stop"
        )
    grid = {"horizon": horizon, "arms": len(means), "failure": float(delta)}
    adversary = {"outcomes": partial(environments.bernoulli, means, regret="pseudo")}
    levels = [float(epsilon) for epsilon in sorted(epsilons)]
    private = Study(LEARNERS[model], adversary, {**grid, "epsilon": levels}, trials, SEED, POINTS)
    plain = Study(PLAIN, adversary, grid, trials, SEED, POINTS)
    data: Any = (private + plain).run(progress=progress)
    return data.squeeze("environment")


def table(data, outcomes, delta, model) -> list[dict]:
    """Stopping times and errors, a row for each learner and privacy level.

    Args:
      data: as :func:`play` returns them.
      outcomes, delta, model: as in :func:`play`.

    Returns:
      Rows with the number of patients (mean with 95 % interval, median and 90 % quantile), the
      share of wrong recommendations with Clopper-Pearson interval, the share of stopped trials, and
      the lower bound on the mean for all learners of this trust model.
    """
    means, takes = 1.0 - outcomes.rates, data["takes_epsilon"]
    private = data.sel(learner=takes)
    plain = data.sel(learner=~takes).isel(epsilon=[0]).assign_coords(epsilon=[np.inf])
    return _rows(private, means, delta, model) + _rows(plain, means, delta, "none")


def _rows(data, means, delta, model) -> list[dict]:
    """The rows of the private or of the other learners."""
    late = data["report_stopping_time"].quantile(0.9, "trial")
    found = data.dpjax.identification().assign(q90=late).reset_coords(drop=True)
    lower = bounds.stopping_time_lower_local if model == "local" else bounds.stopping_time_lower
    bound = [float(lower(means, epsilon, delta)) for epsilon in found["epsilon"].values]
    found = found.assign(lower_bound=("epsilon", bound), model=model)
    found = found.rename(time="patients", time_low="patients_low", time_high="patients_high")
    frame = found.to_dataframe(dim_order=["learner", "epsilon"]).reset_index()
    return frame[COLUMNS].to_dict("records")


def figure(data) -> Captioned:
    """Excess failures over the best treatment, against the number of patients.

    The axis of patients ends when all trials of all learners have stopped.
    """
    data = data.drop_vars(["environment", "horizon", "arms"])
    data["round"].attrs["long_name"] = "patients"
    data["regret"].attrs["long_name"] = "failures beyond the best treatment's"
    last = float(data["report_stopping_time"].max())
    end = int(np.searchsorted(data["round"].values, last)) + 1
    drawn = data.isel(round=slice(end)).dpjax.figure(
        "round", color="learner", panel="epsilon",
        note="Each patient is drawn with replacement from those with the same treatment. When a "
        "learner has stopped, all further patients receive the treatment that it recommends. "
        "Learners without privacy are the same in all panels.",
    )  # fmt: skip
    for axes in drawn.axes:
        axes.set_yscale("linear")
        axes.set_ylim(bottom=0.0)
        axes.xaxis.set_major_formatter(lambda value, place: f"{value:,.0f}")
    return drawn


def run(
    path, out="results/trial", *, delta=0.01, epsilons=PRIVATE_EPSILONS, model="central",
    horizon=10**8, trials=1000, progress=True,
) -> str:  # fmt: skip
    """Compare learners on the outcomes of a file, and write the results to ``out``.

    The files are table.csv, parameters.json, and patients.png and patients.pdf with the figure.
    Arguments and errors are those of :func:`read_outcomes` and :func:`play`. An OSError is raised
    if ``out`` cannot be written to. If the figure cannot be drawn, there is a FigureWarning.

    Returns:
      The treatments and the table, as text.
    """
    outcomes = read_outcomes(path)
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    treatments = [
        {"treatment": shown(name), "patients": int(count), "successes": float(rate)}
        for name, count, rate in zip(*outcomes, strict=True)
    ]
    with output_folder(out) as folder:
        data = play(
            outcomes, delta=delta, epsilons=epsilons, model=model, horizon=horizon, trials=trials,
            progress=progress,
        )  # fmt: skip
        found = table(data, outcomes, delta, model)
        write_csv(folder / "table.csv", found)
        write_json(folder / "parameters.json", {
            "data": shown(path), "data_sha256": digest, "treatments": treatments, "delta": delta,
            "epsilons": [float(epsilon) for epsilon in epsilons], "model": model,
            "horizon": horizon, "trials": trials, "key": f"jax.random.key({SEED})",
            "versions": versions(), "backend": jax.default_backend(),
        })  # fmt: skip
    write_figure(out, "patients", figure, data)
    return f"{format_table(treatments)}\n\n{format_table(found)}"
