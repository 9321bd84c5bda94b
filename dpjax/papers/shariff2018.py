"""Shariff & Sheffet 2018: the authors' three experiments on private contextual LinUCB.

All learners are calibrated for n = 5e7 rounds, as in the paper, and play the first 10^6 of them. By
then the Gaussian curves level off, but learners with Wishart noise still learn. Regret is
pseudo-regret in units of rewards -1 and 1.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial

import numpy as np
import xarray

from dpjax import environments, learners
from dpjax.core._versions import enable_x64
from dpjax.learners.parts import gram
from dpjax.learners.parts.gram_calibration import Regularizer
from dpjax.papers import _shared as shared
from dpjax.papers.sweeps import play
from dpjax.report import estimates
from dpjax.study import Study

HORIZON, QUICK_HORIZON = 1_000_000, 4000
TRIALS, QUICK_TRIALS = 8, 4
GAPS = (0.0, 0.1)
QUICK_NOISES = ("plain", "gaussian", "wishart")
SEED = 2018
DIMS = (4, 5, 6, 7, 8, 10, 11, 13, 16)

# These values are printed in the authors' notebook or read off its figures.
PUBLISHED_ROUND = 20_000_000
PUBLISHED_REGRET = {
    ("Gaussian", 0.0): 1.4e4, ("Wishart", 0.0): 9.7e4, ("Wishart, unshifted", 0.0): 2.47e5,
    ("Gaussian", 0.1): 1.2e4, ("Wishart", 0.1): 8.1e4, ("Wishart, unshifted", 0.1): 8.7e4,
}  # fmt: skip
LOWEST, HIGHEST = 71629.3, 1.28101e7
FLOORS = tuple(LOWEST ** (1 - c) * HIGHEST**c for c in np.arange(-1, 7) / 5)
PUBLISHED_SWEEP = {
    ("wishart", 0.0): (1.87e5, 1.3e5, 1.0e5, 8.6e4, 1.0e5, 1.33e5, 2.2e5, 3.9e5),
    ("wishart", 0.1): (1.7e5, 1.22e5, 8.8e4, 7.8e4, 7.2e4, 9.0e4, 7.8e4, 9.4e4),
    ("gaussian", 0.0): (1.7e4, 1.5e4, 1.6e4, 2.0e4, 3.2e4, 6.1e4, 1.3e5, 3.05e5),
    ("gaussian", 0.1): (1.6e4, 1.4e4, 1.3e4, 1.3e4, 1.3e4, 1.5e4, 1.9e4, 1.7e4),
}
# The published fit of regret at n = 1e5 without privacy: factor and exponent of d.
PUBLISHED_SCALING = {"gaussian": (4.704, 1.85), "bernoulli": (2.437, 1.988)}
CALIBRATED = 50_000_000  # rounds n
DIM, EPSILON, DELTA = 5, 1.0, 0.1


# "tight" is derived, with the tight norm bound; the others are those of the authors' program.
LAWS: dict[str, Callable] = {
    "tight": gram.gaussian,
    "gaussian": partial(gram.gaussian, calibration="code", norm_bound="paper"),
    "wishart": partial(gram.wishart, calibration="code"),
}


def regularizer(law: str, *, floor: float | None = None, shifted: bool = True) -> Regularizer:
    """The regularizer of a law of LAWS, in float64."""
    with enable_x64(True):
        drawn = LAWS[law](shifted=shifted, floor=floor).noise(
            CALIBRATED, DIM, gram.Bounds(1.0, 1.0, 1.0), epsilon=EPSILON, delta=DELTA,
            failure=1.0 / CALIBRATED,
        )  # fmt: skip
    return Regularizer(*map(float, drawn.regularizer))


def linucb(horizon: int, floor: float, *, epsilon: float = EPSILON, law: Callable = gram.gaussian):
    """LinUCB calibrated for n rounds; it plays the first ``horizon`` of them."""
    learner = learners.linucb(CALIBRATED, DIM, epsilon=epsilon, delta=DELTA, gram=law(floor=floor))
    return learner._replace(horizon=horizon)


LEARNERS = {
    "plain": partial(linucb, epsilon=np.inf),
    **{name: partial(linucb, law=law) for name, law in LAWS.items()},
}


@cache
def compared() -> dict[str, tuple[str, float]]:
    """The learners of the second experiment, each with its noise and its floor.

    The floor is the smallest eigenvalue of the regularizer. The shift changes only the floor:
    unshifted Wishart noise is Wishart noise with another floor.
    """
    return {
        "LinUCB": ("plain", 1.0),
        "Gaussian, tight": ("tight", regularizer("tight").smallest),
        "Gaussian": ("gaussian", regularizer("gaussian").smallest),
        "Wishart": ("wishart", regularizer("wishart").smallest),
        "Wishart, unshifted": ("wishart", regularizer("wishart", shifted=False).smallest),
    }


def play_floors(
    noises: Sequence[str], gaps: Sequence[float], floors: Sequence[float], horizon: int, trials: int
) -> xarray.Dataset:
    """Play the learners of the second and third experiment, each kind of noise over its floors."""
    adversaries = {f"gap {gap:g}": partial(environments.gap_arms, DIM, gap=gap) for gap in gaps}
    studies = []
    for noise in noises:
        levels = [floor for kind, floor in compared().values() if kind == noise]
        levels += floors if noise in ("gaussian", "wishart") else ()
        grid = {"horizon": horizon, "floor": levels}
        studies.append(Study({noise: LEARNERS[noise]}, adversaries, grid, trials, SEED,
                             shared.log_checkpoints(horizon, 60)))  # fmt: skip
    data = play(sum(studies[1:], studies[0]))
    return data.assign_coords(gap=("environment", list(gaps)))


def named(data: xarray.Dataset) -> xarray.Dataset:
    """The learners of the second experiment by name, each at its floor."""
    parts = [
        data.sel(learner=noise, floor=floor).assign_coords(learner=name)
        for name, (noise, floor) in compared().items()
        if noise in data.learner
    ]
    return xarray.concat(parts, "learner", coords="different", compat="equals", join="exact")


def play_scaling(dims: Sequence[int], horizon: int, trials: int) -> xarray.Dataset:
    """Play the first experiment: LinUCB without privacy, in each dimension with both losses."""

    def learner(horizon, dim, epsilon, losses):
        bound = {"loss_bound": 10.0, "deviation": 1.0} if losses == "gaussian" else {}
        return learners.linucb(horizon, dim, epsilon=epsilon, delta=DELTA, **bound)

    adversary = partial(environments.gap_arms, gap=0.1)
    grid = {"horizon": horizon, "dim": dims, "losses": [*PUBLISHED_SCALING], "epsilon": [np.inf]}
    study = Study({"LinUCB": learner}, {"gap 0.1": adversary}, grid, trials, SEED, checkpoints=1)
    return play(study).squeeze(["learner", "environment", "epsilon"])


COLUMNS = "learner gap floor round mean standard_error published ratio indefinite trials"


def _table(data, order, published, names=COLUMNS) -> list[dict]:
    """Rows of final and published regret; ``published`` is a function of a row."""
    cells = estimates.mean(data.final_regret)
    if "report_indefinite" in data:
        cells["indefinite"] = data.report_indefinite.sum("trial", skipna=False)

    def beside(row):
        value = published(row)
        ratio = None if value is None else row["mean"] / value
        return {"published": value, "published_fit": value, "ratio": ratio}

    return shared.table(cells, order, names, beside)


def comparison_rows(data: xarray.Dataset) -> list[dict]:
    """Rows of the second experiment: regret, and published regret at round 2e7."""
    return _table(named(data).isel(round=-1), "environment learner",
                  lambda row: PUBLISHED_REGRET.get((row["learner"], row["gap"])))  # fmt: skip


def swept(data: xarray.Dataset) -> xarray.Dataset:
    """The learners of the third experiment."""
    return data.sel(learner=["gaussian", "wishart"], floor=data.floor.isin(FLOORS))


def floor_rows(data: xarray.Dataset) -> list[dict]:
    """Rows of the third experiment: regret per floor, and published regret at round 5e7."""

    def published(row):
        return PUBLISHED_SWEEP[row["learner"], row["gap"]][FLOORS.index(row["floor"])]

    return _table(swept(data).isel(round=-1), "learner environment floor", published)


def curve_rows(data: xarray.Dataset) -> list[dict]:
    """The means and standard errors of all learners at each round."""
    names = "learner gap floor round mean standard_error"
    places = {"environment learner round": named(data), "environment learner floor round":
              swept(data)}  # fmt: skip
    return [row for order, item in places.items()
            for row in shared.table(estimates.mean(item.regret), order, names)]  # fmt: skip


def scaling_rows(data: xarray.Dataset) -> list[dict]:
    """Rows of the first experiment: regret and the published fit."""

    def published(row):
        factor, exponent = PUBLISHED_SCALING[row["losses"]]
        return factor * row["dim"] ** exponent

    names = "losses dim horizon mean standard_error published_fit ratio trials"
    return _table(data, "losses dim", published, names)


def comparison_figure(data: xarray.Dataset):
    """Regret curves, a panel for each gap."""
    drawn = named(data).dpjax.figure(
        "round", color="learner", panel="environment", estimate=estimates.mean,
        note=f"Learners are calibrated for n = 5e7 rounds, epsilon = {EPSILON:g} and delta = "
        f"{DELTA:g}. Crosses: values read off the published figure at round 2e7, in the "
        "learner's colour.",
    )  # fmt: skip
    for axes, gap in zip(drawn.axes, data.gap.values, strict=False):
        for name, line in zip(named(data).learner.values, axes.get_lines(), strict=True):
            if value := PUBLISHED_REGRET.get((name, gap)):
                axes.plot(PUBLISHED_ROUND, value, "x", color=line.get_color(), clip_on=False)
        axes.set_xlim(right=1.5 * PUBLISHED_ROUND)
    return drawn


def floor_figure(data: xarray.Dataset):
    """Regret against the floor of the eigenvalues, measured and published."""
    published = [shared.labelled(lambda gap, noise=noise: PUBLISHED_SWEEP[noise, gap],
                                 {"floor": FLOORS}, gap=data.gap.values)
                 for noise in ("gaussian", "wishart")]  # fmt: skip
    look = {"marker": "x", "linestyle": "--", "linewidth": 0.8}
    return shared.figure(
        swept(data).isel(round=-1, drop=True), "floor",
        [(array, {"like": i} | look) for i, array in enumerate(published)],
        color="learner", panel="environment",
        note="The floor is the smallest eigenvalue of the regularizer. Dashed, with crosses: the "
        "published values at round 5e7.",
    )  # fmt: skip


def scaling_figure(data: xarray.Dataset):
    """Regret without privacy against the dimension."""
    dims = data.dim.astype(float)
    lines = [(factor * dims**exponent, {"linestyle": "--", "like": i})
             for i, (factor, exponent) in enumerate(PUBLISHED_SCALING.values())]  # fmt: skip
    return shared.figure(data, "dim", lines, ticks=data.dim.values, color="losses",
                         note="Dashed: the published fits.")  # fmt: skip


@shared.published(HORIZON, TRIALS, SEED, horizons=(1000, CALIBRATED), fewest=2)
def reproduce(horizon: int, trials: int, short: bool) -> Iterator[shared.Report]:
    """Play LinUCB in each dimension, with each kind of noise, and with each floor.

    The table "" compares measured with published regret, "_curves" has the curves of the first
    figure, "_floor" and "_scaling" the other experiments.

    The horizon is from 1000 to the 5e7 for which learners are calibrated. At least 2 trials are
    needed. A short run plays only gap 0.1, the authors' noise, two floors and two dimensions.
    """
    noises, gaps, floors, dims = (
        (QUICK_NOISES, GAPS[1:], FLOORS[2:4], DIMS[:2]) if short
        else (tuple(LEARNERS), GAPS, FLOORS, DIMS)
    )  # fmt: skip
    data = play_floors(noises, gaps, floors, horizon, trials)
    yield shared.Report(
        {"": comparison_rows(data)}, {"": partial(comparison_figure, data)},
        {"calibrated_for": CALIBRATED, "dim": DIM, "epsilon": EPSILON,
         "delta": DELTA, "gaps": gaps, "floors": floors},
    )  # fmt: skip
    # A tenth of the rounds, which is 1e5 at full size, as published.
    scaling = play_scaling(dims, max(horizon // 10, 100), trials)
    yield shared.Report(
        {"_floor": floor_rows(data), "_scaling": scaling_rows(scaling),
         "_curves": curve_rows(data)},
        {"_floor": partial(floor_figure, data), "_scaling": partial(scaling_figure, scaling)},
        {"dims": dims},
    )  # fmt: skip
