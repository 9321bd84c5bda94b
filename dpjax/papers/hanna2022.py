"""Hanna et al. 2022: the cost of privacy for linear elimination, up to 1e9 rounds.

We know the algorithm from Chari's survey, which has no experiment. Here, actions are vectors on the
unit sphere, rewards <theta, a> in [-1, 1] become losses (1 - <theta, a>) / 2, and T = 1e8
rounds are played in batches.
"""

from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np
import xarray

from dpjax import bounds
from dpjax.core import Model
from dpjax.papers import _shared as shared
from dpjax.papers import hanna2022_games as games
from dpjax.papers import hanna2022_horizons as horizons
from dpjax.papers.sweeps import play
from dpjax.report import estimates
from dpjax.study import Study

HORIZON, QUICK_HORIZON = 10**8, 10**5
TRIALS, QUICK_TRIALS = 400, 32
EPSILONS = (0.1, 0.25, 1.0, 10.0, np.inf)
# Stronger privacy levels in the figure against epsilon.
MORE_EPSILONS = (0.003, 0.01, 0.03)
ZETA_EPSILON = 1.0
ROUNDS = 2**17  # the largest horizon of the games that are played round by round


def play_batches(horizon: int, trials: int, short: bool) -> xarray.Dataset:
    """Play all learners with batches on their instances, at all epsilons."""
    epsilons = sorted({*MORE_EPSILONS, *EPSILONS})
    grid = {"horizon": horizon, "instance": games.instances(short), "epsilon": epsilons}
    shown = shared.log_checkpoints(horizon, 60)
    study = Study(
        games.by_batches(short), {"vectors": games.as_arms}, grid, trials, games.SEED, shown
    )
    return play(study).squeeze("environment", drop=True)


def play_rounds(horizon: int, trials: int) -> xarray.Dataset:
    """Play learners round by round, and elimination and DP-SE at the same horizon."""
    instance = {games.MAIN: games.INSTANCES[games.MAIN]}
    grid = {"horizon": horizon, "instance": instance, "epsilon": list(EPSILONS)}
    beside = {n: games.BY_BATCHES[n] for n in games.BESIDE if n in games.BY_BATCHES}
    shown = shared.log_checkpoints(horizon, 60)

    def study(learners, environment):
        return Study(learners, {"vectors": environment}, grid, trials, games.SEED, shown)

    on_arms = study({**games.BY_ROUNDS, **beside}, games.as_arms)
    played = play(study(games.ON_FEATURES, games.as_features) + on_arms)
    return played.squeeze("environment", drop=True)


def play_nets(horizon: int, trials: int, short: bool) -> xarray.Dataset:
    """Play elimination with exact radii on nets of the circle, from coarse to fine."""
    zetas = list(games.zetas(short))
    nets = {f"{zeta}": games.on_net(zeta) for zeta in zetas}
    grid = {"horizon": horizon, "instance": nets, "epsilon": ZETA_EPSILON}
    exact = {"exact": games.BY_BATCHES["exact"]}
    study = Study(exact, {"vectors": games.as_arms}, grid, trials, games.SEED, checkpoints=1)
    data = play(study, chunk=64).squeeze(["learner", "environment"])
    return data.assign_coords(instance=zetas).rename(instance="zeta")


def table(data: xarray.Dataset) -> list[dict]:
    """Final regret with its quantiles and the theorem's bound, one row for each epsilon."""
    cells = shared.summary(data.final_regret.astype(np.float64))
    # DP-SE has epochs; elimination has phases.
    phases = data.report_phases.fillna(data.report_epochs)
    cells["all_phases"], cells["left"] = phases.mean("trial"), data.report_active.mean("trial")

    def more(row):
        extra = {"phases": row["all_phases"], "active": row["left"], "upper": _upper_bound(row)}
        return {name: None if np.isnan(item) else item for name, item in extra.items()}

    return shared.table(
        cells, "instance learner epsilon",
        "instance learner epsilon horizon mean standard_error q5 q25 q50 q75 q95 phases active "
        "upper trials", more,
    )  # fmt: skip


def _upper_bound(row) -> float:
    """The theorem's bound; nan if there is none, because the printed radius is not proven."""
    if "exact" not in row["learner"] and "Chernoff" not in row["learner"]:
        return np.nan
    arms, dim = games.INSTANCES[row["instance"]].actions.shape
    model: Model = "local" if "local" in row["learner"] else "central"
    return float(bounds.linear_elimination(row["horizon"], arms, dim, row["epsilon"], model=model))


def net_table(data: xarray.Dataset) -> list[dict]:
    """Regret against the best point of the circle, as the sum of two parts."""

    def more(row):
        instance = games.on_net(row["zeta"])
        missed = row["horizon"] * instance.missed()
        return {"arms": len(instance.actions), "net_to_circle": missed,
                "total": row["to_the_net"] + missed}  # fmt: skip

    names = "zeta arms epsilon to_the_net standard_error net_to_circle total trials"
    return shared.table(estimates.mean(data.final_regret), "zeta", names, more, to_the_net="mean")


def overtaking(data: xarray.Dataset) -> list[dict]:
    """The first round from which elimination (exact) has less mean regret than another learner.

    There is one row per epsilon and learner that plays round by round. The round is empty if
    elimination does not overtake it.
    """
    data = data.squeeze("instance")
    means = data.regret.mean("trial", dtype=np.float64)
    final = estimates.mean(data.final_regret)
    rows = []
    for epsilon, name in product(EPSILONS, [*games.ON_FEATURES, *games.BY_ROUNDS]):
        ours, other = ({"learner": item, "epsilon": epsilon} for item in ("exact", name))
        behind = np.flatnonzero(means.sel(ours) >= means.sel(other))
        ahead = data["round"].values[behind[-1] + 1 if len(behind) else 0 :]
        row = {"learner": name, "epsilon": epsilon,
               "from_round": int(ahead[0]) if len(ahead) else None}  # fmt: skip
        for item, place in (("elimination", ours), ("other", other)):
            row[item] = float(final["mean"].sel(place))
            row[f"{item}_error"] = float(final.standard_error.sel(place))
        rows.append(row | {"horizon": int(data.horizon)})
    return rows


def curves_figure(data: xarray.Dataset, note: str):
    """Regret against the round, a panel for each of three levels of privacy."""
    shown = data.sel(instance=games.MAIN, epsilon=[0.1, 1.0, np.inf])
    return shared.figure(shown, "round", color="learner", panel="epsilon", note=note)


@shared.published(HORIZON, TRIALS, games.SEED, horizons=(10**4, 2**31 - 1), fewest=8)
def reproduce(horizon: int, trials: int, short: bool) -> Iterator[shared.Report]:
    """Play elimination by batches, at several horizons, on nets, and against other learners.

    Tables: "" final regrets with quantiles and bounds, "_horizon", "_exponents", "_nets", and
    "_rounds", the round from which elimination is ahead. Figures: "" against epsilon, "_horizon",
    and curves by batches, "_curves", and round by round, "_rounds".

    The horizon is at least 10^4, and games round by round have at most 2^17 rounds. At least 8
    trials are needed. A short run plays three learners by batches, on one instance, and two nets.
    """
    batches = play_batches(horizon, trials, short)
    yield shared.Report(
        {"": table(batches)},
        {"": partial(
            shared.figure, batches, "epsilon", ticks=[0.01, 0.1, 1.0, 10.0],
            color="learner", panel="instance",
            note="Variants of linear elimination are named after their confidence radius. At "
            "large epsilon, Chernoff and printed coincide.",
        )},
        {
            "epsilons": EPSILONS, "more_epsilons": MORE_EPSILONS,
            "instances": {
                name: {"actions": item.actions.tolist(), "theta": item.theta.tolist()}
                for name, item in games.instances(short).items()
            },
        },
    )  # fmt: skip
    longest, few = horizon if short else 10 * horizon, max(trials // 4, 8)
    longer = horizons.play_horizons(longest, few, short)
    yield shared.Report(
        {"_horizon": horizons.table(longer), "_exponents": horizons.exponents(longer)},
        {"_horizon": partial(horizons.figure, longer)},
        {"horizons": longer.horizon.values.tolist(), "horizon_trials": few,
         "lengths": horizons.LENGTHS},
    )  # fmt: skip
    nets = play_nets(horizon, trials, short)
    yield shared.Report({"_nets": net_table(nets)}, parameters={"zetas": games.zetas(short)})
    rounds, fewer = min(horizon, ROUNDS), max(trials // 8, 8)
    by_rounds = play_rounds(rounds, fewer)
    yield shared.Report(
        {"": table(by_rounds), "_rounds": overtaking(by_rounds)},
        {"_curves": partial(curves_figure, batches, "The curve of printed hides that of "
                            "Chernoff. Without privacy, local curves hide central ones."),
         "_rounds": partial(curves_figure, by_rounds, "UCB1 is not private. LinUCB is jointly "
                            "private with delta = T^-2.")},
        {"round_horizon": rounds, "round_trials": fewer},
    )  # fmt: skip
