"""Agarwal & Singh 2017, section 4: private bandits, and the rates of Asi et al. 2025.

The papers have no experiment. This module measures the regret of the private reduction and of noisy
batches against T, N and epsilon, over arms and over the ball.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial

import numpy as np
import xarray

from dpjax import bounds, domains, environments, learners
from dpjax.game.play import simulate
from dpjax.papers import _shared as shared
from dpjax.papers.sweeps import play
from dpjax.report import arrays, choice, estimates
from dpjax.study import Study

HORIZON, QUICK_HORIZON = 2**14, 2**10
TRIALS, QUICK_TRIALS = 48, 24
PARTS = (1 / 16, 1 / 4, 1, 4)  # multiples of the horizon
SIZES = (4, 8, 16)
KINDS = ("iid", "drifting", "switching", "alternating", "adaptive")
# The learners of a short run.
QUICK = ("DP-EXP2", "DP-EXP3-Lap", "Tsallis-INF", "SCRiBLE, scalar noise")
# Exponents of T, N and 1 / epsilon, without logarithms: Table 2's, and the newer ones for batches.
RATES = {
    "arms": {"T": 0.5, "N": 0.5, "1/epsilon": 1.0},
    "batches": {"T": 0.5, "N": 0.5, "1/epsilon": 0.5},
    "ball": {"T": 0.5, "N": 1.5, "1/epsilon": 1.0},
}
EPSILONS = (*(10.0 ** np.arange(-3.0, 2.01, 0.5)), np.inf)
# The epsilons of the curves against T and N.
FEW_EPSILONS = (0.1, 1.0, 10.0, np.inf)
SIZE = 8  # K arms, or N dimensions
# The advantage of the best arm (gap) or direction (bias). The theorems bound the worst case, which
# depends on T, N and epsilon: the worst of these values is shown.
GAPS = (0.02, 0.05, 0.1, 0.2, 0.4)
BIASES = (0.1, 0.3, 1.0, 3.0)
SEED = 2017

ball = cache(domains.ball)


def _over_arms(factory, **options) -> Callable:
    return lambda horizon, size, epsilon: factory(horizon, size, epsilon=epsilon, **options)


def _over_ball(**options) -> Callable:
    return lambda horizon, size, epsilon: learners.scrible(
        horizon, ball(size), epsilon=epsilon, **options
    )


CONTENDERS: dict[str, dict[str, Callable]] = {
    "arms": {
        "DP-EXP2": _over_arms(learners.exp2),
        "DP-EXP2, printed": _over_arms(learners.exp2, calibration="printed"),
        "DP-EXP3-Lap": _over_arms(learners.dp_exp3_lap),
        "batches, HTINF": _over_arms(learners.batched_bandit),
        "batches, EXP2": _over_arms(learners.batched_bandit, base="exp2"),
        "Tsallis-INF": lambda horizon, size: learners.tsallis_inf(horizon, size),
    },
    "ball": {
        "SCRiBLE, scalar noise": _over_ball(),
        "SCRiBLE, vector noise": _over_ball(noise="vector"),
        "SCRiBLE, vector noise, printed": _over_ball(noise="vector", calibration="printed"),
    },
}


def _arms(size, difficulty):
    means = 0.5 + difficulty * np.where(np.arange(size) == 0, -0.5, 0.5).astype(np.float32)
    return shared.bernoulli(means)


def _ball(size, difficulty):
    return environments.linear_losses(ball(size), "iid", bias=difficulty)


def contest(contenders: Mapping[str, Mapping[str, Callable]], epsilons: Sequence[float],
            horizons: Sequence[int], sizes: Sequence[int], trials: int) -> Study:  # fmt: skip
    """Learners at all difficulties; the environment is "arms" or "ball"."""

    def study(name, environment, difficulties):
        grid = {"horizon": horizons, "size": sizes, "epsilon": epsilons, "difficulty": difficulties}
        return Study(contenders[name], {name: environment}, grid, trials, SEED, 1, simulate)

    return study("arms", _arms, GAPS) + study("ball", _ball, BIASES)


def play_contest(study: Study) -> xarray.Dataset:
    """Play a contest. ``nothing`` is the mean regret of uniform play, or of the ball's centre."""
    data = play(study)
    regret = data.final_regret.astype(np.float64)
    uniform = data.horizon * data.difficulty * (1.0 - 1.0 / data["size"])
    # The centre of the ball has loss 0, so its regret is the norm of the summed losses.
    centre = norms(data).isel(epsilon=0).mean("trial")
    nothing = xarray.where(data.environment == "arms", uniform, centre)
    played = regret.isel(epsilon=0, trial=0, drop=True).notnull()
    return data.assign(final_regret=regret, nothing=nothing.where(played))


def norms(data: xarray.Dataset):
    """The norm of the summed losses of each trial."""
    return np.sqrt((data.tally_loss.astype(np.float64) ** 2).sum("tally_loss_0"))


def play_adversaries(
    scribles: Mapping[str, Callable], kinds: Sequence[str], horizon: int, trials: int
) -> xarray.Dataset:
    """Play SCRiBLE against losses whose best point moves, or that react to its actions."""

    def against(kind):
        return lambda horizon, size: environments.linear_losses(
            ball(size), kind, bias=1.0, period=max(horizon // 8, 1)
        )

    grid = {"horizon": horizon, "size": SIZE, "epsilon": (1.0, 10.0, np.inf)}
    adversaries = {kind: against(kind) for kind in kinds}
    return play(Study(scribles, adversaries, grid, trials, SEED, checkpoints=1))


def table(data: xarray.Dataset) -> list[dict]:
    """Final regret at each epsilon and difficulty."""
    estimate = estimates.mean(data.final_regret).assign(nothing=data.nothing)
    estimate["model"] = data.privacy_model.where(data.takes_epsilon, "")
    return shared.table(
        estimate, "environment learner horizon size epsilon difficulty",
        "instance learner model horizon size epsilon difficulty regret standard_error nothing "
        "bound trials",
        lambda row: {"bound": _bound(row)}, instance="environment", regret="mean",
    )  # fmt: skip


def _bound(row):
    """The theorem's bound with our constants, if there is one."""
    bound: Callable | None = {
        "DP-EXP2": bounds.exp2,
        "DP-EXP3-Lap": bounds.dp_exp3_lap,
        "batches, HTINF": bounds.batched_bandit,
        "SCRiBLE, scalar noise": partial(bounds.scrible, domain="ball"),
        "SCRiBLE, vector noise": partial(bounds.scrible, domain="ball", noise="vector"),
    }.get(row["learner"])
    if bound is None or not np.isfinite(row["epsilon"]):
        return None
    return float(bound(row["horizon"], row["size"], row["epsilon"]))


def adversary_table(data: xarray.Dataset) -> list[dict]:
    """Final regret, the centre's regret, and how often the proof's condition failed."""
    estimate = estimates.mean(data.final_regret)
    estimate["centre"] = norms(data).mean("trial")
    estimate["violations"] = data.report_violations.astype(np.float64).mean("trial")
    names = "losses learner epsilon regret standard_error centre violations trials"
    return shared.table(estimate, "environment learner epsilon", names,
                        losses="environment", regret="mean")  # fmt: skip


def worst(means: xarray.DataArray):
    """The largest mean regret over the difficulties."""
    return means.max("difficulty")


def slope_table(
    whole: xarray.Dataset, lengths: xarray.Dataset, sizes: xarray.Dataset
) -> list[dict]:
    """Fitted exponents with those of Table 2, from data of all epsilons, horizons and sizes.

    A point is used if its regret is below half of the worst-case regret of learning nothing. For
    1 / epsilon it must also be above 1.5 times the regret without privacy.
    """

    def fitted(data, variable, x, order, usable=True):
        regret = worst(data.final_regret.mean("trial"))
        usable = usable & (regret < 0.5 * worst(data.nothing))
        fits = shared.exponents(data.final_regret, x, usable, worst)

        def more(row):
            kind = "batches" if row["learner"].startswith("batches") else row["instance"]
            rate = RATES[kind][variable]
            return {"variable": variable, "rate": rate, "epsilon": row.get("epsilon")}

        names = "instance learner epsilon variable slope low high rate points"
        return shared.table(fits, order, names, more, instance="environment")

    order = "environment learner epsilon"
    fits = fitted(lengths.squeeze("size"), "T", lengths.horizon, order)
    fits += fitted(sizes.squeeze("horizon"), "N", sizes["size"], order)
    whole = whole.squeeze(["horizon", "size"])
    regret = worst(whole.final_regret.mean("trial"))
    costly = regret > 1.5 * regret.sel(epsilon=np.inf)
    # Only learners whose noise is costly at some epsilon have a fit.
    whole = whole.assign(final_regret=whole.final_regret.where(costly.any("epsilon")))
    finite = whole.isel(epsilon=slice(-1))
    fits += fitted(
        finite, "1/epsilon", 1.0 / finite.epsilon, order.removesuffix(" epsilon"), costly
    )
    names = [name for group in CONTENDERS.values() for name in group]
    return sorted(fits, key=lambda row: (names.index(row["learner"]), row["epsilon"] is None,
                                          row["epsilon"]))  # fmt: skip


def figure(data: xarray.Dataset, x: str, note: str = ""):
    """Worst mean regret against epsilon, T or N, over arms and over the ball."""
    data, lines = data.squeeze([name for name in ("horizon", "size") if name != x]), []
    if x == "epsilon":
        nothing = data.nothing.max(["difficulty", "learner"]) * xarray.ones_like(data.epsilon)
        lines = [(nothing, {"label": "doing nothing"})]
    if x == "horizon":
        curves = [bounds.before_bandits(data[x].values, 1.0, arms=arms)
                  for arms in (SIZE, None)]  # fmt: skip
        known = xarray.DataArray(curves, {"environment": ["arms", "ball"], x: data[x].values})
        label = "known before: $T^{2/3} K / \\epsilon$ (arms), $T^{2/3} / \\epsilon$ (ball)"
        lines = [(known, {"label": label})]
    return shared.figure(
        data, x, lines, ticks=data["size"].values.tolist() if x == "size" else None,
        color="learner", line=None if x == "epsilon" else "epsilon", panel="environment",
        estimate=partial(choice.worst, over="difficulty"),
        note=f"Each point is the worst of {len(GAPS)} gaps (arms) or of {len(BIASES)} "
        "biases of the losses (ball). The size is K for arms and N for the ball. Local privacy is "
        f"a stronger promise than central privacy. Calibrations as we read them. {note}",
    )  # fmt: skip


@shared.published(HORIZON, TRIALS, SEED, horizons=(64, 2**29 - 1))
def reproduce(horizon: int, trials: int, short: bool) -> Iterator[shared.Report]:
    """Play all learners over epsilon, T and N, and SCRiBLE against losses that move.

    The table "" has all final regrets, "_slopes" fitted exponents, "_adversaries" losses whose best
    point moves. Figures show regret against epsilon (""), T ("_horizon") and N ("_size").

    A short run plays three learners over arms and one over the ball, at one horizon. The horizon is
    at least 64, and games of up to four times this length are played. At least 4 trials are needed.
    """
    contenders = {name: shared.chosen(group, QUICK, short) for name, group in CONTENDERS.items()}
    parts, sizes, kinds = ((1,), SIZES[:2], KINDS[-1:]) if short else (PARTS, SIZES, KINDS)
    horizons = [int(part * horizon) for part in parts]
    epsilons = FEW_EPSILONS if short else EPSILONS
    whole = play_contest(contest(contenders, epsilons, [horizon], [SIZE], trials))
    note = (
        "From epsilon = 1 on, a batch is one round, so EXP2 with batches and DP-EXP2 coincide. "
        "Without privacy the three versions of SCRiBLE coincide."
    )
    yield shared.Report(
        {"": table(whole)},
        {"": partial(figure, whole, "epsilon", "" if short else note)},
        {"horizons": horizons, "size": SIZE, "sizes": sizes, "epsilons": epsilons,
         "gaps": GAPS, "biases": BIASES, "resamples": arrays.DRAWS},
    )  # fmt: skip
    at_few, fewer = partial(contest, contenders, FEW_EPSILONS), max(4, trials // 2)
    other_sizes = [size for size in sizes if size != SIZE]
    few = play_contest(at_few(horizons, [SIZE], fewer) + at_few([horizon], other_sizes, fewer))
    moving = play_adversaries(contenders["ball"], kinds, horizon, fewer)
    lengths, by_size = few.sel(size=[SIZE]), few.sel(horizon=[horizon])
    others = by_size.sel(size=by_size["size"] != SIZE)
    lines = {"epsilon": [1.0, np.inf]}
    yield shared.Report(
        {"": table(lengths) + table(others), "_slopes": slope_table(whole, lengths, by_size),
         "_adversaries": adversary_table(moving)},
        {"_horizon": partial(figure, lengths.sel(lines), "horizon"),
         "_size": partial(figure, by_size.sel(lines), "size")},
    )  # fmt: skip
