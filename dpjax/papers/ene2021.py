"""Ene, Nguyen & Vladu 2021: how well PRIVATEBANDIT learns, and what its privacy costs.

The paper has no experiment. This file measures its regret under three calibrations of the noise
against T, the dimension and epsilon, on a ball, a matroid base polytope and the paths of a graph.
"""

import os
from functools import partial
from typing import Any

import jax
import numpy as np

from dpjax.papers import ene2021_figures as figures
from dpjax.papers._shared import Report, publish
from dpjax.papers.ene2021_learners import (
    BASELINES,
    CALIBRATIONS,
    INSTANCES,
    RATES,
    break_even,
    losses,
    noise_scale,
    scaled,
    signal_to_noise,
)
from dpjax.papers.ene2021_routes import routes_figure
from dpjax.papers.sweeps import play
from dpjax.report import arrays, estimates, statistics
from dpjax.report.tables import columns, format_table, rows
from dpjax.study import Study

regret_of = figures.regret_of
HORIZON, QUICK_HORIZON = 2**14, 2**10
TRIALS, QUICK_TRIALS = 48, 8
EPSILONS = tuple(10.0 ** np.arange(-2.0, 3.01, 0.5))
DIMS, QUICK_DIMS = (2, 4, 8, 16, 32), (2, 8)
SEED = 2021


def play_settings(instance, noise, horizon, epsilons, rates, trials, *, dim=None, progress=True):
    """Plays each calibration at all epsilons and rates, and no noise, against the same losses.

    Returns:
      A Dataset of final_regret (setting, trial), where a setting has the coordinates calibration,
      epsilon, rate (times the default one) and scale (of the noise of a node). Scalar coordinates
      are dim, n; centre, the mean regret of the best point without data; gradient, the mean length
      of the mean loss vector in the hull; and certified_distance, the largest one of a base from
      its minimizer.
    """
    domain = INSTANCES[instance].make(dim)
    settings = [("none", np.inf, 1.0)]
    settings += [(name, e, rate) for name in CALIBRATIONS for e in epsilons for rate in rates]
    scales = [noise_scale(domain, horizon, noise, name, e) for name, e, _ in settings]
    labels = [f"{name}, epsilon = {e:g}, rate = {rate:g}" for name, e, rate in settings]
    axis = {
        label: np.array([scale, rate])
        for label, scale, (_, _, rate) in zip(labels, scales, settings, strict=True)
    }

    def learner(horizon, setting):
        return scaled(horizon, domain, noise, setting[0], setting[1])

    study = Study({"PRIVATEBANDIT": learner}, {"iid": losses(domain)},
                  {"horizon": horizon, "setting": axis}, trials, SEED, checkpoints=1)  # fmt: skip
    data = play(study, progress).squeeze(["learner", "environment"], drop=True)
    assert not data.clipped.any()
    total = data.tally_loss.values[0].astype(np.float64)
    best = np.asarray(jax.jit(jax.vmap(domain.minimizer))(total.astype(np.float32)), np.float64)
    hull = np.eye(domain.dim) if domain.tangent is None else domain.tangent
    calibration, epsilon, rate = zip(*settings, strict=True)
    return data[["final_regret"]].reset_coords(drop=True).assign_coords(
        horizon=horizon,
        calibration=("setting", list(calibration)), epsilon=("setting", list(epsilon)),
        rate=("setting", list(rate)), scale=("setting", scales), instance=instance, noise=noise,
        dim=hull.shape[1], centre=np.sum(total * (domain.centre - best), axis=1).mean(),
        gradient=np.linalg.norm(total @ hull, axis=1).mean() / horizon,
        certified_distance=float(data.report_distance.max()),
    )  # fmt: skip


def rows_of(run) -> list[dict]:
    """Final regrets, one row per setting."""
    found = rows(estimates.mean(run.final_regret), ["setting"], regret="mean")
    for row in found:
        row["over_no_noise"] = row["regret"] / float(regret_of(run, "none").mean())
        places = ("scale", "horizon", "noise", "dim", "gradient")
        row["signal_to_noise"] = signal_to_noise(*(row[name] for name in places))
        row["trials"] = run.sizes["trial"]
    return columns(
        found, "instance noise calibration epsilon rate horizon dim scale regret standard_error "
        "centre over_no_noise signal_to_noise certified_distance trials",
    )  # fmt: skip


def slope(x, regrets):
    """Slope of log mean regret over log x, with its 95 % interval over resampled trials."""
    logs = np.log(np.asarray(x, np.float64))

    def fit(trials):
        means = np.array([regret[trials].mean() for regret in regrets])
        if (means <= 0).any():
            return float("nan")
        return np.polyfit(logs, np.log(means), 1)[0]

    return arrays.resampled(len(regrets[0]), fit)


def slope_rows(by_horizon, by_dim, by_epsilon) -> list[dict]:
    """Fitted exponents beside those of the paper, and those of what the noise costs.

    A point counts where regret is below half of the centre's, since where nothing is learned every
    algorithm has the exponent 1. A cost counts where it is above 4 of its standard errors too.
    """
    found = []

    def add(runs, name, variable, x, paper, *, epsilons=None, all_count=False):
        """A row for a calibration, or what it costs; at one epsilon of each run where given."""
        cost = name == "cost"
        levels = [None] * len(runs) if epsilons is None else epsilons
        regrets, usable = [], []
        for run, epsilon in zip(runs, levels, strict=True):
            private = regret_of(run, "single_change" if cost else name, epsilon)
            regrets.append(private - regret_of(run, "none") if cost else private)
            learns = private.mean() < 0.5 * float(run.centre)
            error = statistics.standard_error(regrets[-1])
            usable.append(learns and (not cost or regrets[-1].mean() > 4 * error))
        chosen = [i for i, counts in enumerate(usable) if counts]
        fitted = (float("nan"),) * 3
        if len(chosen) >= 2:
            fitted = slope([x[i] for i in chosen], [regrets[i] for i in chosen])
        what = "single_change less none" if cost else name
        place = str(runs[0].instance.values), str(runs[0].noise.values), what, variable
        names = "instance noise calibration variable slope low high paper points"
        values = (*place, *fitted, paper, len(chosen))
        found.append(dict(zip(names.split(), values, strict=True)))

    for runs in by_horizon.values():
        x = [int(run.horizon) for run in runs]
        for name in ("none", *CALIBRATIONS):
            add(runs, name, "T", x, 0.75)
        add(runs, "cost", "T", x, 0.5)
    for name in ("none", "single_change"):
        add(by_dim, name, "n", [int(run.dim) for run in by_dim], 0.5)
    levels = [e for e in EPSILONS if e <= 10.0]
    for run in by_epsilon:
        add([run] * len(levels), "cost", "1/epsilon", [1 / e for e in levels], 1.0, epsilons=levels)
    return found


def play_baselines(instances, horizon, trials, *, progress=True) -> list[dict]:
    """Plays learners with and without projections, with and without privacy, at one horizon."""
    domains = {name: INSTANCES[name].make(None) for name in instances}
    studies = []
    for buffered, epsilons in ((False, [1.0, np.inf]), (True, [1.0])):
        mine = {name: make for name, make in BASELINES.items() if ("buffered" in name) == buffered}
        if mine:
            grid = {"horizon": horizon, "domain": domains, "epsilon": epsilons}
            studies.append(Study(mine, {"iid": losses}, grid, trials, SEED, checkpoints=1))
    data = play(sum(studies[1:], studies[0]), progress).sel(
        learner=list(BASELINES), environment="iid"
    )
    order = ("domain", "learner", "epsilon")
    found = rows(estimates.mean(data.final_regret), order, instance="domain", regret="mean")
    # A learner without noise stands at infinity.
    found = [row for row in found if row["takes_epsilon"] or row["epsilon"] == np.inf]
    for row in found:
        row["trials"] = trials
    return columns(found, "instance learner epsilon horizon regret standard_error trials")


def horizons(horizon) -> list[int]:
    """2^8, 2^10, ... up to 16 T."""
    return [2**i for i in range(8, 31, 2) if 2**i <= 16 * horizon]


def verdict(by_horizon) -> str:
    """Says in numbers whether it learns and what privacy costs, per instance and noise."""
    lines = []
    for (instance, noise), runs in by_horizon.items():
        middle, last = runs[len(runs) // 2], runs[-1]
        best = regret_of(last, "printed", None, figures.best_rate(last, "printed")).mean()
        first, second = (
            regret_of(run, "single_change").mean() / regret_of(run, "none").mean()
            for run in (middle, last)
        )
        start = break_even(instance, noise, "printed", float(last.gradient))
        lines.append(
            f"{instance}, {noise}: with the printed noise regret at T = {int(last.horizon)} is "
            f"{best / float(last.centre):.3g} of the centre's (best of {len(RATES)} rates); by "
            f"formula its signal passes its noise near T = {start:.1e}. With single_change regret "
            f"over that without noise is {first:.3g} at T = {int(middle.horizon)} and "
            f"{second:.3g} at T = {int(last.horizon)}."
        )
    return "\n".join(lines)


def reproduce(
    out: str | os.PathLike = "results/ene2021",
    *,
    horizon: int = HORIZON,
    trials: int = TRIALS,
    progress: bool = True,
) -> str:
    """Plays everything, writes the files of a :class:`Report`, and returns the printed summary.

    The table "" has all final regrets, "_slopes" fitted exponents, "_baselines" other learners.
    Figures are against T (""), epsilon and the dimension, of the cost of noise, and of routes.

    Arguments and errors are as :mod:`dpjax.papers` says. Horizons up to 16 T are played too. There
    are at least 4 trials, and half as many for what is drawn against T and n.
    """
    if trials < 4:
        raise ValueError(f"trials must be at least 4, got {trials}")
    fewer, quick = max(4, trials // 2), horizon < HORIZON

    def experiment():
        lengths = horizons(horizon)[-3:-1] if quick else horizons(horizon)
        kinds = [(name, "gaussian") for name in INSTANCES]
        kinds += [] if quick else [("ball", "laplace")]
        at_one = {"epsilons": (1.0,), "rates": RATES, "trials": fewer, "progress": progress}
        by_horizon: dict[tuple[str, str], Any] = {
            kind: [play_settings(*kind, length, **at_one) for length in lengths] for kind in kinds
        }
        by_epsilon = [
            play_settings(name, "gaussian", horizon, EPSILONS, (1.0,), trials, progress=progress)
            for name in INSTANCES
        ]
        by_dim = [
            play_settings("ball", "gaussian", horizon, dim=dim, **at_one)
            for dim in (QUICK_DIMS if quick else DIMS)
        ]
        # Projections onto paths are too slow for the learners that project.
        projected = ("ball",) if quick else ("ball", "matroid")
        baselines = play_baselines(projected, horizon, trials, progress=progress)
        everything = [*by_epsilon, *by_dim, *(run for runs in by_horizon.values() for run in runs)]
        slopes = slope_rows(by_horizon, by_dim, by_epsilon)
        tables = map(format_table, (slopes, baselines))
        return Report(
            tables={
                "": [row for run in everything for row in rows_of(run)],
                "_slopes": slopes,
                "_baselines": baselines,
            },
            figures={
                "": partial(figures.horizon_figure, by_horizon),
                "_epsilon": partial(figures.epsilon_figure, by_epsilon),
                "_dim": partial(figures.dim_figure, by_dim),
                "_cost": partial(figures.cost_figure, by_horizon),
                "_routes": partial(routes_figure, horizon),
            },
            parameters={"epsilons": EPSILONS, "rates": RATES, "delta": "T^-2 for Gaussian noise"},
            text="\n\n".join([*tables, verdict(by_horizon)]),
        )

    return publish(out, "ene2021", experiment, horizon=horizon, trials=trials, seed=SEED)
