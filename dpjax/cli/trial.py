"""How long a private trial takes: learners that stop, on resampled outcomes of a user's own."""

import csv
import hashlib
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from dpjax import bounds, environments, learners
from dpjax.cli.arguments import PRIVATE_EPSILONS
from dpjax.core import _check
from dpjax.report.output import output_folder, shown, versions, write_json
from dpjax.report.tables import format_table, write_csv
from dpjax.study import Study

GIVEN = ("treatment", "outcome")  # columns of a file
COLUMNS = ["learner", "model", "epsilon", "patients", "patients_low", "patients_high", "median",
           "q90", "lower_bound", "error", "error_low", "error_high", "stopped"]  # fmt: skip
# What identifies the best treatment, by who is trusted with the outcomes.
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


class Outcomes(NamedTuple):
    """What came of each treatment."""

    treatments: tuple[str, ...]
    patients: np.ndarray  # (K,) int64, how many had each treatment
    rates: np.ndarray  # (K,) float64, the share of successes among them


def read_outcomes(path) -> Outcomes:
    """Reads a CSV file with the columns treatment and outcome, a row for each patient.

    Args:
      path: a file with a header. An outcome is 1 for a success and 0 for a failure.

    Raises:
      ValueError: the header lacks a column; a treatment has no name; an outcome is neither 0 nor 1;
        or there are fewer than two treatments. The message names the file and the row, as an editor
        counts lines.
      OSError: the file cannot be read.
    """
    counts: dict[str, list[int]] = {}
    with open(path, newline="", encoding="utf-8-sig", errors="replace") as file:
        table = csv.DictReader(file, restkey="more")
        header = [name.strip().lower() for name in table.fieldnames or ()]
        missing = [name for name in GIVEN if name not in header]
        if missing:
            raise ValueError(
                f"{shown(path)}: the first row must name the columns treatment and outcome, and "
                f"lacks {' and '.join(missing)}"
            )
        table.fieldnames = header
        for row in table:
            treatment, outcome = ((row[name] or "").strip() for name in GIVEN)
            if not treatment:
                raise ValueError(f"{shown(path)}: row {table.line_num} has no treatment")
            if outcome not in ("0", "1"):
                raise ValueError(
                    f"{shown(path)}: row {table.line_num} has the outcome {outcome[:40]!r}, "
                    "which is neither 0 nor 1"
                )
            counts.setdefault(treatment, [0, 0])[int(outcome)] += 1
    if len(counts) < 2:
        raise ValueError(f"{shown(path)}: at least two treatments are needed, got {len(counts)}")
    table_of_counts = np.array(list(counts.values()))
    patients = table_of_counts.sum(axis=1)
    return Outcomes(tuple(counts), patients, table_of_counts[:, 1] / patients)


def compare(
    outcomes, *, delta=0.01, epsilons=PRIVATE_EPSILONS, model="central", horizon=10**8, trials=1000,
    progress=True,
) -> list[dict]:  # fmt: skip
    """Stopping times and errors of learners on patients who are drawn from the given outcomes.

    Each patient is a draw, with replacement, from the patients who had the same treatment. So a
    treatment is a Bernoulli arm, whose mean is the share of successes.

    Args:
      outcomes: as :func:`read_outcomes` returns them.
      delta: the probability of a wrong recommendation that is allowed, in (0, 1/2).
      epsilons: privacy levels, inf for none.
      model: "central", where whoever runs the trial sees outcomes, or "local", where each patient
        randomizes their own.
      horizon: patients after which a trial is cut off.
      trials: how many trials each learner runs.
      progress: whether to show progress bars.

    Returns:
      A row for each learner and privacy level: how many patients it takes (the mean with its 95 %
      interval, median and 90 % quantile), how often it was wrong (with the interval of Clopper and
      Pearson), how often it had stopped, and the lower bound on the mean for every learner of this
      model of privacy.

    Raises:
      ValueError: two treatments have the largest share of successes, which no learner tells apart;
        or an argument is out of its range.
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
            f"data: {tied} have the same share of successes, {outcomes.rates[best[0]]:g}, so that "
            "no learner can stop on them"
        )
    grid = {"horizon": horizon, "arms": len(means), "failure": float(delta)}
    adversary = {"outcomes": partial(environments.bernoulli, means, regret="pseudo")}
    levels = [float(epsilon) for epsilon in sorted(epsilons)]
    private = Study(LEARNERS[model], adversary, {**grid, "epsilon": levels}, trials, SEED, 1)
    plain = Study(PLAIN, adversary, grid, trials, SEED, 1)
    return _rows(private.run(progress=progress), means, delta, model) + _rows(
        plain.run(progress=progress), means, delta, "none"
    )


def _rows(data, means, delta, model) -> list[dict]:
    """The rows of one study."""
    late = data["report_stopping_time"].quantile(0.9, "trial")
    found = data.dpjax.identification().assign(q90=late)
    found = found.squeeze("environment", drop=True).reset_coords(drop=True)
    if "epsilon" not in found.dims:
        found = found.expand_dims(epsilon=[np.inf])
    lower = bounds.stopping_time_lower_local if model == "local" else bounds.stopping_time_lower
    bound = [float(lower(means, epsilon, delta)) for epsilon in found["epsilon"].values]
    found = found.assign(lower_bound=("epsilon", bound), model=model)
    found = found.rename(time="patients", time_low="patients_low", time_high="patients_high")
    frame = found.to_dataframe(dim_order=["learner", "epsilon"]).reset_index()
    return frame[COLUMNS].to_dict("records")


def run(
    path, out="results/trial", *, delta=0.01, epsilons=PRIVATE_EPSILONS, model="central",
    horizon=10**8, trials=1000, progress=True,
) -> str:  # fmt: skip
    """Compares learners on the outcomes of a file; writes table.csv and parameters.json to ``out``.

    Arguments and errors are those of :func:`read_outcomes` and :func:`compare`. Besides, an OSError
    is raised where ``out`` cannot be written to.

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
        found = compare(
            outcomes, delta=delta, epsilons=epsilons, model=model, horizon=horizon, trials=trials,
            progress=progress,
        )  # fmt: skip
        write_csv(folder / "table.csv", found)
        write_json(folder / "parameters.json", {
            "data": shown(path), "data_sha256": digest, "treatments": treatments, "delta": delta,
            "epsilons": [float(epsilon) for epsilon in epsilons], "model": model,
            "horizon": horizon, "trials": trials, "key": f"jax.random.key({SEED})",
            "versions": versions(), "backend": jax.default_backend(),
        })  # fmt: skip
    return f"{format_table(treatments)}\n\n{format_table(found)}"
