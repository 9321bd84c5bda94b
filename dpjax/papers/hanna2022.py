"""Hanna et al. 2022: the cost of privacy for linear elimination, up to 1e9 rounds.

We know the algorithm from Chari's survey, which has no experiment. Here, actions are vectors on the
unit sphere, rewards <theta, a> in [-1, 1] become losses (1 - <theta, a>) / 2, and T = 1e8
rounds are played in batches.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import xarray

from dpjax import bounds, environments, learners
from dpjax.core import Model
from dpjax.maths import designs
from dpjax.papers import _shared as shared
from dpjax.papers.sweeps import play
from dpjax.privacy import default_delta
from dpjax.report import estimates
from dpjax.study import Study

HORIZON, QUICK_HORIZON = 10**8, 10**5
TRIALS, QUICK_TRIALS = 400, 32
EPSILONS = (0.1, 0.25, 1.0, 10.0, np.inf)
# Stronger privacy levels in the figure against epsilon.
MORE_EPSILONS = (0.003, 0.01, 0.03)
ZETA_EPSILON = 1.0
ROUNDS = 2**17  # the largest horizon of the games that are played round by round
HORIZONS = tuple(10**k for k in range(4, 10))
HORIZON_EPSILONS = (0.1, 1.0, np.inf)
LENGTHS = tuple(10.0 ** -np.arange(0.0, 4.6, 0.5))


class Instance(NamedTuple):
    """Actions of length 1, and theta."""

    actions: np.ndarray  # (K, d) NumPy
    theta: Any  # (d,)

    def means(self, length=1.0) -> np.ndarray:
        """Mean losses (K,) if theta has this length."""
        return 0.5 - 0.5 * length * self.actions @ self.theta

    def missed(self) -> float:
        """The regret per round of the best action against the best point of the sphere."""
        return float(0.5 - 0.5 * np.max(self.actions @ self.theta))


def on_sphere(arms: int, dim: int, seed: int) -> Instance:
    """Actions and theta drawn uniformly from the unit sphere."""
    random = np.random.default_rng(seed)
    actions, theta = random.normal(size=(arms, dim)), random.normal(size=dim)
    actions /= np.linalg.norm(actions, axis=1, keepdims=True)
    return Instance(actions, theta / np.linalg.norm(theta))


def on_net(zeta: float) -> Instance:
    """A zeta-net of the circle; theta is at the worst place, half-way between two points."""
    actions = designs.circle_net(zeta)
    angle = np.pi / len(actions)
    return Instance(actions, np.array([np.cos(angle), np.sin(angle)]))


INSTANCES = {
    "K = 20, d = 2": on_sphere(20, 2, 1),
    "K = 20, d = 5": on_sphere(20, 5, 1),
    "net, zeta = 0.05": on_net(0.05),
}
MAIN = "K = 20, d = 5"  # the instance of the experiments that have only one
ZETAS = (0.3, 0.1, 0.03, 0.01)  # how fine the nets are
SEED = 2022


def elimination(horizon: int, instance: Instance, epsilon: float, **options: Any):
    """Linear elimination, with the radius and the model of the options."""
    return learners.linear_elimination(horizon, instance.actions, epsilon=epsilon, **options)


BY_BATCHES = {
    "exact": elimination,
    "Chernoff": partial(elimination, radius="chernoff"),
    "printed": partial(elimination, radius="printed"),
    "local, exact": partial(elimination, noise="local_laplace"),
    "local, Chernoff": partial(elimination, noise="local_laplace", radius="chernoff"),
    "DP-SE": lambda horizon, instance, epsilon: learners.successive_elimination(
        horizon, len(instance.actions), epsilon=epsilon
    ),
}
# These are compared with learners that choose in each round.
BESIDE = ("exact", "local, exact", "DP-SE")
# Learners that choose in each round. LinUCB takes the actions as features, in the joint model.
ON_FEATURES = {
    "LinUCB": lambda horizon, instance, epsilon: learners.linucb(
        horizon, instance.actions.shape[1], epsilon=epsilon, delta=default_delta(horizon)
    ),
}
BY_ROUNDS = {
    "Lazy-UCB": lambda horizon, instance, epsilon: learners.lazy_ucb(
        horizon, len(instance.actions), epsilon=epsilon
    ),
    "UCB1": lambda horizon, instance: learners.ucb1(horizon, len(instance.actions)),
}


def as_arms(instance: Instance):
    """The losses of the actions, for learners that choose an arm."""
    return shared.bernoulli(instance.means())


def as_features(instance: Instance):
    """The actions as features, with regret in units of losses in [0, 1]."""
    environment = environments.fixed_actions(instance.actions, -instance.theta)
    # Its losses lie in [-1, 1], so its regret is halved for comparison with losses in [0, 1].
    return environment._replace(regret=lambda state, tally: 0.5 * environment.regret(state, tally))


def play_horizons(longest: int, trials: int, short: bool = False) -> xarray.Dataset:
    """Play a separate game for each power of ten, because all these learners know the horizon."""
    instance = INSTANCES[MAIN]
    grid = {
        "horizon": [h for h in HORIZONS if h <= longest], "instance": {MAIN: instance},
        "means": {f"{length}": instance.means(length) for length in LENGTHS},
        "epsilon": HORIZON_EPSILONS,
    }  # fmt: skip
    makers = shared.chosen(BY_BATCHES, BESIDE, short)
    study = Study(makers, {"vectors": shared.bernoulli}, grid, trials, SEED, checkpoints=1)
    data = play(study).squeeze("environment", drop=True).squeeze("instance")
    return data.assign_coords(means=list(LENGTHS)).rename(means="length")


def worst_length(final: xarray.DataArray) -> xarray.DataArray:
    """Final regrets at the length of theta with the largest mean, for each cell."""
    return final.isel(length=estimates.mean(final)["mean"].argmax("length"))


def horizon_table(data: xarray.Dataset) -> list[dict]:
    """Final regret at the length 1 of theta, and at the worst length."""
    cells = estimates.mean(data.final_regret.isel(length=0, drop=True))
    worst = estimates.mean(worst_length(data.final_regret))
    cells["worst"], cells["worst_error"] = worst["mean"], worst["standard_error"]
    return shared.table(
        cells, "learner epsilon horizon",
        "learner epsilon horizon mean standard_error worst_length worst worst_error trials",
        worst_length="length",
    )  # fmt: skip


def exponents(data: xarray.Dataset) -> list[dict]:
    """Exponents of T in the regret at the worst length of theta, with 95 % intervals."""
    late = data.sel(horizon=data.horizon[data.horizon >= data.horizon[-1] / 10**4])
    everywhere = xarray.ones_like(late.horizon, bool)
    estimate = shared.exponents(late.final_regret, late.horizon, everywhere,
                             lambda means: means.max("length"))  # fmt: skip
    return shared.table(
        estimate, "learner epsilon", "learner epsilon from to exponent low high trials",
        lambda row: {"from": int(row["from"]), "to": int(row["to"])}, exponent="slope",
    )  # fmt: skip


def horizon_figure(data: xarray.Dataset, epsilon: float = 1.0):
    """Final regret against the horizon at the length 1 of theta and at the worst, and bounds."""
    final = data.final_regret.sel(epsilon=epsilon)
    parts = [item.drop_vars("length") for item in (final.isel(length=0), worst_length(final))]
    lengths = xarray.Variable("theta", ["|theta| = 1", "worst |theta|"])
    both = xarray.concat(parts, lengths).assign_coords(theta=lengths).to_dataset()
    arms, dim = INSTANCES[MAIN].actions.shape
    t = both.horizon.astype(np.float64)
    upper = t.copy(data=bounds.linear_elimination(t.values, arms, dim, epsilon))
    lower = t.copy(data=0.5 * bounds.azize_basu_linear(t.values, dim, epsilon))
    nowhere = xarray.DataArray([np.nan, 1.0], {"theta": lengths})  # bounds are for the worst case
    lines = [(nowhere * upper, {"label": "upper bound, central"}),
             (nowhere * lower, {"label": "lower bound", "linestyle": "--"})]  # fmt: skip
    return shared.figure(
        both, "horizon", lines, color="learner", panel="theta",
        note="Learners know the horizon, so each point is a game of its own. The lower bound, "
        "Theorem 4 of Azize & Basu 2022, is for actions in a cube and rewards of variance 1, such "
        "as fair coins in {-1, 1}. It is halved here, since losses are half as large as rewards.",
    )  # fmt: skip


def play_batches(horizon: int, trials: int, short: bool) -> xarray.Dataset:
    """Play all learners with batches on their instances, at all epsilons."""
    epsilons = sorted({*MORE_EPSILONS, *EPSILONS})
    instances = shared.chosen(INSTANCES, [MAIN], short)  # each one is compiled separately
    grid = {"horizon": horizon, "instance": instances, "epsilon": epsilons}
    shown, makers = shared.log_checkpoints(horizon, 60), shared.chosen(BY_BATCHES, BESIDE, short)
    study = Study(makers, {"vectors": as_arms}, grid, trials, SEED, shown)
    return play(study).squeeze("environment", drop=True)


def play_rounds(horizon: int, trials: int) -> xarray.Dataset:
    """Play learners round by round, and elimination and DP-SE at the same horizon."""
    instance = {MAIN: INSTANCES[MAIN]}
    grid = {"horizon": horizon, "instance": instance, "epsilon": list(EPSILONS)}
    beside = shared.chosen(BY_BATCHES, BESIDE, True)
    shown = shared.log_checkpoints(horizon, 60)

    def study(makers, environment):
        return Study(makers, {"vectors": environment}, grid, trials, SEED, shown)

    on_arms = study({**BY_ROUNDS, **beside}, as_arms)
    played = play(study(ON_FEATURES, as_features) + on_arms)
    return played.squeeze("environment", drop=True)


def play_nets(horizon: int, trials: int, zetas: Sequence[float]) -> xarray.Dataset:
    """Play elimination with exact radii on nets of the circle, from coarse to fine."""
    nets = {f"{zeta}": on_net(zeta) for zeta in zetas}
    grid = {"horizon": horizon, "instance": nets, "epsilon": ZETA_EPSILON}
    exact = {"exact": BY_BATCHES["exact"]}
    study = Study(exact, {"vectors": as_arms}, grid, trials, SEED, checkpoints=1)
    data = play(study, chunk=64).squeeze(["learner", "environment"])
    return data.assign_coords(instance=list(zetas)).rename(instance="zeta")


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
    arms, dim = INSTANCES[row["instance"]].actions.shape
    model: Model = "local" if "local" in row["learner"] else "central"
    return float(bounds.linear_elimination(row["horizon"], arms, dim, row["epsilon"], model=model))


def net_table(data: xarray.Dataset) -> list[dict]:
    """Regret against the best point of the circle, as the sum of two parts."""

    def more(row):
        instance = on_net(row["zeta"])
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
    for epsilon, name in product(EPSILONS, [*ON_FEATURES, *BY_ROUNDS]):
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
    shown = data.sel(instance=MAIN, epsilon=[0.1, 1.0, np.inf])
    return shared.figure(shown, "round", color="learner", panel="epsilon", note=note)


@shared.published(HORIZON, TRIALS, SEED, horizons=(10**4, 2**31 - 1), fewest=8)
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
                for name, item in shared.chosen(INSTANCES, [MAIN], short).items()
            },
        },
    )  # fmt: skip
    longest, few = horizon if short else 10 * horizon, max(trials // 4, 8)
    longer = play_horizons(longest, few, short)
    yield shared.Report(
        {"_horizon": horizon_table(longer), "_exponents": exponents(longer)},
        {"_horizon": partial(horizon_figure, longer)},
        {"horizons": longer.horizon.values.tolist(), "horizon_trials": few,
         "lengths": LENGTHS},
    )  # fmt: skip
    zetas = ZETAS[:2] if short else ZETAS
    nets = play_nets(horizon, trials, zetas)
    yield shared.Report({"_nets": net_table(nets)}, parameters={"zetas": zetas})
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
