"""Hanna et al. 2022: what privacy costs linear elimination, up to 1e9 rounds.

We know the algorithm from Chari's survey, which has no experiment; this file makes one. Actions are
vectors on the unit sphere, rewards <theta, a> in [-1, 1] become losses (1 - <theta, a>) / 2, and
T = 1e8 rounds are played in batches.
"""

import os
from functools import partial
from itertools import product

import numpy as np
import xarray

from dpjax import bounds
from dpjax.papers import hanna2022_games as games
from dpjax.papers import hanna2022_horizons as horizons
from dpjax.papers._shared import (
    Report,
    check_size,
    curve_summary,
    final_summary,
    log_checkpoints,
    logarithmic,
    publish,
)  # fmt: skip
from dpjax.papers.sweeps import play
from dpjax.report import estimates
from dpjax.report.plot import ticks_at
from dpjax.report.tables import columns, format_table, rows
from dpjax.study import Study

HORIZON, QUICK_HORIZON = 10**8, 10**5
TRIALS, QUICK_TRIALS = 400, 32
EPSILONS = (0.1, 0.25, 1.0, 10.0, np.inf)
# Stronger privacy, which the figure against epsilon shows too.
MORE_EPSILONS = (0.003, 0.01, 0.03)
ZETA_EPSILON = 1.0


def round_horizon(horizon) -> int:
    """The horizon of the games that are played round by round."""
    return min(horizon, 2**17)


def round_trials(trials) -> int:
    """The trials of the games that are played round by round."""
    return max(trials // 8, 8)


def play_batches(horizon, trials, *, progress=True) -> xarray.Dataset:
    """Plays all learners of batches on their instances, at all epsilons."""
    epsilons = sorted({*MORE_EPSILONS, *EPSILONS})
    grid = {"horizon": horizon, "instance": games.instances(horizon < HORIZON), "epsilon": epsilons}
    shown = log_checkpoints(horizon, 60)
    by_batches = games.by_batches(horizon < HORIZON)
    study = Study(by_batches, {"vectors": games.as_arms}, grid, trials, games.SEED, shown)
    return play(study, progress).squeeze("environment")


def play_rounds(horizon, trials, *, progress=True) -> xarray.Dataset:
    """Plays games round by round, and elimination and DP-SE beside them at the same horizon."""
    instance = {games.MAIN: games.INSTANCES[games.MAIN]}
    grid = {"horizon": horizon, "instance": instance, "epsilon": list(EPSILONS)}
    beside = {n: games.BY_BATCHES[n] for n in games.BESIDE if n in games.BY_BATCHES}
    shown = log_checkpoints(horizon, 60)

    def study(learners, environment):
        return Study(learners, {"vectors": environment}, grid, trials, games.SEED, shown)

    on_arms = study({**games.BY_ROUNDS, **beside}, games.as_arms)
    both = study(games.ON_FEATURES, games.as_features) + on_arms
    return play(both, progress).squeeze("environment")


def play_nets(horizon, trials, *, progress=True) -> xarray.Dataset:
    """Plays elimination with exact radii on nets of the circle, from coarse to fine."""
    nets = {f"{zeta}": games.on_net(zeta) for zeta in games.zetas(horizon < HORIZON)}
    grid = {"horizon": horizon, "instance": nets, "epsilon": ZETA_EPSILON}
    exact = {"exact": games.BY_BATCHES["exact"]}
    study = Study(exact, {"vectors": games.as_arms}, grid, trials, games.SEED, checkpoints=1)
    data = play(study, progress, chunk=64).squeeze(["learner", "environment"])
    return data.assign_coords(instance=list(games.zetas(horizon < HORIZON))).rename(instance="zeta")


def table(data) -> list[dict]:
    """Final regret with its quantiles and the theorem's bound, one row for each epsilon."""
    cells = final_summary(data.final_regret)
    # DP-SE has epochs where elimination has phases.
    phases = data.report_phases.fillna(data.report_epochs)
    cells["phases"], cells["active"] = phases.mean("trial"), data.report_active.mean("trial")
    found = rows(cells, ("instance", "learner", "epsilon"))
    # UCB1 takes no epsilon and stands at each; it is kept once.
    found = [row for row in found if row["takes_epsilon"] or row["epsilon"] == np.inf]
    for row in found:
        for name in ("phases", "active"):
            row[name] = None if np.isnan(row[name]) else row[name]
        row["upper"], row["trials"] = _upper_bound(row), data.sizes["trial"]
    return columns(
        found, "instance learner epsilon horizon mean standard_error q5 q25 q50 q75 q95 phases "
        "active upper trials",
    )  # fmt: skip


def _upper_bound(row):
    """The theorem's bound, or None where there is none: the printed radius is not proven."""
    if "exact" not in row["learner"] and "Chernoff" not in row["learner"]:
        return None
    sizes = games.INSTANCES[row["instance"]].actions.shape
    model = "local" if "local" in row["learner"] else "central"
    return float(bounds.linear_elimination(row["horizon"], *sizes, row["epsilon"], model=model))


def curves(data) -> list[dict]:
    """Mean, 10 % and 90 % quantile at each checkpoint."""
    found = rows(curve_summary(data.regret), ("instance", "learner", "epsilon", "round"))
    return columns(found, "instance learner epsilon horizon round mean q10 q90")


def net_table(data) -> list[dict]:
    """Regret against the best point of the circle, in its two parts."""
    found = rows(estimates.mean(data.final_regret), ("zeta",))
    for row in found:
        instance = games.on_net(row["zeta"])
        row["arms"], row["to_the_net"] = len(instance.actions), row["mean"]
        row["net_to_circle"] = row["horizon"] * instance.missed()
        row["total"] = row["to_the_net"] + row["net_to_circle"]
        row["trials"] = data.sizes["trial"]
    return columns(found, "zeta arms epsilon to_the_net standard_error net_to_circle total trials")


def overtaking(data) -> list[dict]:
    """The first round from which on elimination (exact) has less mean regret than another learner.

    There is one row per epsilon and learner that plays round by round. The round is empty where
    elimination stays behind.
    """
    data = data.squeeze("instance")
    means = data.regret.mean("trial", dtype=np.float64)
    final = estimates.mean(data.final_regret)
    found = []
    for epsilon, name in product(EPSILONS, [*games.ON_FEATURES, *games.BY_ROUNDS]):
        ours, other = ({"learner": each, "epsilon": epsilon} for each in ("exact", name))
        behind = np.flatnonzero(means.sel(ours) >= means.sel(other))
        ahead = data["round"].values[behind[-1] + 1 if len(behind) else 0 :]
        found.append({
            "learner": name, "epsilon": epsilon,
            "from_round": int(ahead[0]) if len(ahead) else None,
            "elimination": float(final["mean"].sel(ours)),
            "elimination_error": float(final.standard_error.sel(ours)),
            "other": float(final["mean"].sel(other)),
            "other_error": float(final.standard_error.sel(other)),
            "horizon": int(data.horizon),
        })  # fmt: skip
    return found


def figure(data):
    """Final regret against epsilon, a panel for each instance."""
    drawn = data.dpjax.figure(
        "epsilon", color="learner", panel="instance",
        note="Names are radii of elimination. Chernoff and printed are one line where epsilon is "
        "large.",
    )  # fmt: skip
    logarithmic(drawn)
    for panel in drawn.axes:
        ticks_at(panel.xaxis, [0.01, 0.1, 1.0, 10.0])  # infinity stands at 100
    return drawn


def net_figure(data):
    """Regret against the best point of the circle, in its two parts, against the net."""
    missed = [float(data.horizon) * games.on_net(zeta).missed() for zeta in data.zeta.values]
    missed = xarray.zeros_like(data.final_regret) + xarray.DataArray(missed, dims="zeta")
    regrets = [data.final_regret, missed, data.final_regret + missed]
    part = xarray.Variable("part", ["to the best of the net", "of the net to the circle", "sum"])
    both = xarray.concat(regrets, part).assign_coords(part=part)
    drawn = both.to_dataset(name="final_regret").dpjax.figure("zeta", color="part")
    logarithmic(drawn)
    return drawn


def curves_figure(data, note):
    """Regret against the round, a panel for each of three levels of privacy."""
    shown = data.sel(instance=games.MAIN, epsilon=[0.1, 1.0, np.inf])
    drawn = shown.dpjax.figure("round", color="learner", panel="epsilon", note=note)
    logarithmic(drawn)
    return drawn


def _parameters(horizon, trials) -> dict:
    return {
        "horizons": horizons.up_to(horizon), "horizon_trials": horizons.few(trials),
        "round_horizon": round_horizon(horizon), "round_trials": round_trials(trials),
        "epsilons": EPSILONS, "more_epsilons": MORE_EPSILONS, "lengths": horizons.LENGTHS,
        "zetas": games.zetas(horizon < HORIZON),
        "instances": {
            name: {"actions": each.actions.tolist(), "theta": each.theta.tolist()}
            for name, each in games.instances(horizon < HORIZON).items()
        },
    }  # fmt: skip


def reproduce(
    out: str | os.PathLike = "results/hanna2022",
    *,
    horizon: int = HORIZON,
    trials: int = TRIALS,
    progress: bool = True,
) -> str:
    """Plays everything, writes the files of a :class:`Report`, and returns the printed summary.

    Tables: "" final regrets with quantiles and bounds, "_curves", "_horizon", "_exponents",
    "_nets", and "_rounds", from which round on elimination overtakes. Figures: "" against epsilon,
    "_horizon", "_nets", and curves by batches, "_curves", and round by round, "_rounds".

    Arguments and errors are as :mod:`dpjax.papers` says. The horizon is at least 10^4, and games
    round by round have at most 2^17 rounds; there are at least 8 trials.
    """
    check_size(horizon, trials, horizons.HORIZONS[0])

    def experiment():
        batches = play_batches(horizon, trials, progress=progress)
        longer = horizons.play_horizons(horizon, trials, horizon < HORIZON, progress=progress)
        nets = play_nets(horizon, trials, progress=progress)
        by_rounds = play_rounds(round_horizon(horizon), round_trials(trials), progress=progress)
        found = table(batches) + table(by_rounds)
        fits, of_nets = horizons.exponents(longer), net_table(nets)
        overtaken = overtaking(by_rounds)
        shown = columns(
            [r for r in found if r["epsilon"] in EPSILONS and r["horizon"] == horizon],
            "instance learner epsilon horizon mean standard_error q5 q50 q95 phases active upper "
            "trials",
        )  # fmt: skip
        return Report(
            tables={
                "": found, "_curves": curves(batches) + curves(by_rounds),
                "_horizon": horizons.table(longer), "_exponents": fits, "_nets": of_nets,
                "_rounds": overtaken,
            },
            figures={
                "": partial(figure, batches), "_horizon": partial(horizons.figure, longer),
                "_nets": partial(net_figure, nets),
                "_curves": partial(curves_figure, batches, "Chernoff lies under printed, and "
                                   "without privacy central under local."),
                "_rounds": partial(curves_figure, by_rounds, "UCB1 is not private. LinUCB is "
                                   "jointly private at delta = T^-2."),
            },
            parameters=_parameters(horizon, trials),
            text="\n\n".join(map(format_table, (shown, fits, of_nets, overtaken))),
        )  # fmt: skip

    return publish(out, "hanna2022", experiment, horizon=horizon, trials=trials, seed=games.SEED)
