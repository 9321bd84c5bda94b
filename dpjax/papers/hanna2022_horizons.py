"""The growth of linear elimination's regret with the horizon, at the worst length of theta.

The length of theta scales all gaps. Worst-case regret is the largest over lengths at each horizon.
"""

import numpy as np
import xarray

from dpjax import bounds, environments
from dpjax.papers import _shared as shared
from dpjax.papers import hanna2022_games as games
from dpjax.papers.sweeps import play
from dpjax.report import estimates
from dpjax.study import Study

HORIZONS = tuple(10**k for k in range(4, 10))
EPSILONS = (0.1, 1.0, np.inf)
LENGTHS = tuple(10.0 ** -np.arange(0.0, 4.6, 0.5))


def play_horizons(longest: int, trials: int, short: bool = False) -> xarray.Dataset:
    """Play a separate game for each power of ten, because all these learners know the horizon."""
    instance = games.INSTANCES[games.MAIN]
    environment = {"vectors": lambda means: environments.bernoulli(means, regret="pseudo")}
    grid = {
        "horizon": [h for h in HORIZONS if h <= longest], "instance": {games.MAIN: instance},
        "means": {f"{length}": instance.means(length) for length in LENGTHS},
        "epsilon": EPSILONS,
    }  # fmt: skip
    learners = games.by_batches(short)
    study = Study(learners, environment, grid, trials, games.SEED, checkpoints=1)
    data = play(study).squeeze("environment", drop=True).squeeze("instance")
    return data.assign_coords(means=list(LENGTHS)).rename(means="length")


def worst_length(final: xarray.DataArray) -> xarray.DataArray:
    """Final regrets at the length of theta with the largest mean, for each cell."""
    return final.isel(length=estimates.mean(final)["mean"].argmax("length"))


def table(data: xarray.Dataset) -> list[dict]:
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


def figure(data: xarray.Dataset, epsilon: float = 1.0):
    """Final regret against the horizon at the length 1 of theta and at the worst, and bounds."""
    final = data.final_regret.sel(epsilon=epsilon)
    parts = [item.drop_vars("length") for item in (final.isel(length=0), worst_length(final))]
    lengths = xarray.Variable("theta", ["|theta| = 1", "worst |theta|"])
    both = xarray.concat(parts, lengths).assign_coords(theta=lengths).to_dataset()
    arms, dim = games.INSTANCES[games.MAIN].actions.shape
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
