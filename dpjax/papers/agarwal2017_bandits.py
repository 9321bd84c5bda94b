"""Agarwal & Singh 2017, section 4: private bandits, beside the rates of Asi et al. 2025.

The papers have no experiment. This file measures the regret of the private reduction and of noisy
batches against T, N and epsilon, over arms and over the ball.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import xarray

from dpjax import bounds, domains, environments, learners
from dpjax.papers import _shared as shared
from dpjax.papers.sweeps import play
from dpjax.report import arrays, choice, estimates
from dpjax.report.tables import format_table
from dpjax.study import Study
from dpjax.study.simulate import simulate

HORIZON, QUICK_HORIZON = 2**14, 2**10
TRIALS, QUICK_TRIALS = 48, 24
EPSILONS = (*(10.0 ** np.arange(-3.0, 2.01, 0.5)), np.inf)
# The epsilons of the curves against T and N.
FEW_EPSILONS = (0.1, 1.0, 10.0, np.inf)
SIZE = 8  # K arms, or N dimensions
SIZES, QUICK_SIZES = (4, 8, 16), (4, 8)
# How far the best arm (gap) or direction (bias) stands out. The theorems bound the worst case, and
# which one that is depends on T, N and epsilon: the worst of these is shown.
GAPS = (0.02, 0.05, 0.1, 0.2, 0.4)
BIASES = (0.1, 0.3, 1.0, 3.0)
KINDS = ("iid", "drifting", "switching", "alternating", "adaptive")
QUICK_KINDS = ("iid", "adaptive")
# Exponents of T, N and 1 / epsilon, without logarithms: Table 2's, and the newer ones for batches.
RATES = {
    "arms": {"T": 0.5, "N": 0.5, "1/epsilon": 1.0},
    "batches": {"T": 0.5, "N": 0.5, "1/epsilon": 0.5},
    "ball": {"T": 0.5, "N": 1.5, "1/epsilon": 1.0},
}
SEED = 2017


def _over_arms(factory, **options) -> Callable:
    return lambda horizon, size, epsilon: factory(horizon, size, epsilon=epsilon, **options)


def _over_ball(**options) -> Callable:
    return lambda horizon, size, epsilon: learners.scrible(
        horizon, domains.ball(size), epsilon=epsilon, **options
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
    return environments.bernoulli(means, regret="pseudo")


def _ball(size, difficulty):
    return environments.linear_losses(domains.ball(size), "iid", bias=difficulty)


def contest(epsilons, horizons, sizes, trials) -> Study:
    """All contenders at all difficulties; the environment is "arms" or "ball"."""

    def study(name, environment, difficulties):
        grid = {"horizon": horizons, "size": sizes, "epsilon": epsilons, "difficulty": difficulties}
        return Study(CONTENDERS[name], {name: environment}, grid, trials, SEED, 1, simulate)

    return study("arms", _arms, GAPS) + study("ball", _ball, BIASES)


def horizons(horizon) -> list[int]:
    """T / 16, T / 4, T and 4T; in a short run T / 4 and T, since each compiles anew."""
    if horizon < HORIZON:
        return [max(horizon // 4, 16), horizon]
    return [horizon // 16, horizon // 4, horizon, 4 * horizon]


def sizes_of(horizon) -> tuple[int, ...]:
    """The sizes at which regret is followed, of which a short run has fewer."""
    return SIZES if horizon >= HORIZON else QUICK_SIZES


def play_contest(horizon=HORIZON, trials=TRIALS) -> tuple:
    """All contenders at all epsilons, and at a few of them over horizons and over sizes.

    Returns:
      The data of two studies. In the second, with half of the trials, horizons other than T are
      played with SIZE only. Both have ``nothing``, the mean regret of playing uniformly, or the
      centre of the ball.
    """
    fewer = max(4, trials // 2)
    others = [size for size in sizes_of(horizon) if size != SIZE]
    few = contest(FEW_EPSILONS, horizons(horizon), [SIZE], fewer)
    few += contest(FEW_EPSILONS, [horizon], others, fewer)
    whole = play(contest(EPSILONS, [horizon], [SIZE], trials))
    return _with_nothing(whole), _with_nothing(play(few))


def _with_nothing(data) -> xarray.Dataset:
    """The data in float64, with what is lost where nothing is learned."""
    regret = data.final_regret.astype(np.float64)
    uniform = data.horizon * data.difficulty * (1.0 - 1.0 / data["size"])
    # The centre of the ball has loss 0, so its regret is the length of the summed losses.
    centre = _lengths(data).isel(epsilon=0).mean("trial")
    nothing = xarray.where(data.environment == "arms", uniform, centre)
    played = regret.isel(epsilon=0, trial=0, drop=True).notnull()
    return data.assign(final_regret=regret, nothing=nothing.where(played))


def _lengths(data):
    """The length of the summed losses of each trial."""
    return np.sqrt((data.tally_loss.astype(np.float64) ** 2).sum("tally_loss_0"))


def play_adversaries(horizon=HORIZON, trials=TRIALS // 2) -> xarray.Dataset:
    """Plays SCRiBLE against losses whose best point moves, and against an adaptive adversary."""

    def against(kind):
        return lambda horizon, size: environments.linear_losses(
            domains.ball(size), kind, bias=1.0, period=max(horizon // 8, 1)
        )

    kinds = {kind: against(kind) for kind in (KINDS if horizon >= HORIZON else QUICK_KINDS)}
    grid = {"horizon": horizon, "size": SIZE, "epsilon": (1.0, 10.0, np.inf)}
    return play(Study(CONTENDERS["ball"], kinds, grid, trials, SEED, checkpoints=1))


def table(data) -> list[dict]:
    """Final regret at each epsilon and difficulty."""
    found = estimates.mean(data.final_regret).assign(nothing=data.nothing)
    found["model"] = data.privacy_model.where(data.takes_epsilon, "")
    return shared.table(
        found, "environment learner horizon size epsilon difficulty",
        "instance learner model horizon size epsilon difficulty regret standard_error nothing "
        "bound trials",
        lambda row: {"bound": _bound(row)}, instance="environment", regret="mean",
    )  # fmt: skip


def _bound(row):
    """The theorem's bound with our constants, where there is one."""
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


def adversary_table(data) -> list[dict]:
    """Final regret beside that of the centre, and how often the proof's condition failed."""
    found = estimates.mean(data.final_regret)
    found["centre"] = _lengths(data).mean("trial")
    found["violations"] = data.report_violations.astype(np.float64).mean("trial")
    names = "losses learner epsilon regret standard_error centre violations trials"
    return shared.table(found, "environment learner epsilon", names,
                        losses="environment", regret="mean")  # fmt: skip


def worst(means):
    """The largest mean regret over the difficulties."""
    return means.max("difficulty")


def slope_table(whole, lengths, sizes) -> list[dict]:
    """Fitted exponents beside those of Table 2, from data of all epsilons, horizons and sizes.

    A point is used if its regret is below half of what doing nothing loses in the worst case. In
    1 / epsilon it must be above 1.5 times that without privacy, too.
    """

    def fitted(data, variable, x, order, usable=True):
        regret = worst(data.final_regret.mean("trial"))
        usable = usable & (regret < 0.5 * worst(data.nothing))
        found = shared.exponents(data.final_regret, x, usable, worst)

        def more(row):
            kind = "batches" if row["learner"].startswith("batches") else row["instance"]
            rate = RATES[kind][variable]
            return {"variable": variable, "rate": rate, "epsilon": row.get("epsilon")}

        names = "instance learner epsilon variable slope low high rate points"
        return shared.table(found, order, names, more, instance="environment")

    order = "environment learner epsilon"
    found = fitted(lengths.squeeze("size"), "T", lengths.horizon, order)
    found += fitted(sizes.squeeze("horizon"), "N", sizes["size"], order)
    whole = whole.squeeze(["horizon", "size"])
    regret = worst(whole.final_regret.mean("trial"))
    costly = regret > 1.5 * regret.sel(epsilon=np.inf)
    # Only the learners whose noise is costly at some epsilon have a fit.
    whole = whole.assign(final_regret=whole.final_regret.where(costly.any("epsilon")))
    finite = whole.isel(epsilon=slice(-1))
    found += fitted(
        finite, "1/epsilon", 1.0 / finite.epsilon, order.removesuffix(" epsilon"), costly
    )
    names = [name for group in CONTENDERS.values() for name in group]
    return sorted(found, key=lambda row: (names.index(row["learner"]), row["epsilon"] is None,
                                          row["epsilon"]))  # fmt: skip


def crossing(means) -> xarray.DataArray:
    """The largest epsilon below which noisy batches have less regret than noise on each loss.

    Args:
      means: of learners over difficulties and finite epsilons.

    Returns:
      An array over the batches and the learners with local noise.
    """
    regret = worst(means)
    batched = regret.sel(learner=["batches, HTINF", "batches, EXP2"])
    local = regret.sel(learner=["DP-EXP2", "DP-EXP3-Lap"]).rename(learner="local")
    return shared.first_within(np.log(local / batched), 0.0)


def crossing_table(whole) -> list[dict]:
    """The epsilon below which batches have less regret than local noise, for pairs of learners."""
    data = whole.final_regret.sel(environment="arms", epsilon=np.isfinite(whole.epsilon))
    data = data.squeeze(["horizon", "size"]).reset_coords(drop=True)
    cells = shared.of_means(data.dropna("difficulty", how="all"), crossing, "epsilon")
    found = shared.table(cells, "learner local", "learner local epsilon low high trials")
    return [{"batched (central)": row.pop("learner")} | row for row in found]


def figure(data, x, note=""):
    """Worst mean regret against epsilon, T or N, over arms and over the ball."""
    data, lines = data.squeeze([name for name in ("horizon", "size") if name != x]), []
    if x == "epsilon":
        nothing = data.nothing.max(["difficulty", "learner"]) * xarray.ones_like(data.epsilon)
        lines = [(nothing, {"label": "doing nothing"})]
    if x == "horizon":
        known = [bounds.before_bandits(data[x].values, 1.0, arms=arms) for arms in (SIZE, None)]
        known = xarray.DataArray(known, {"environment": ["arms", "ball"], x: data[x].values})
        label = "known before: $T^{2/3} K / \\epsilon$ (arms), $T^{2/3} / \\epsilon$ (ball)"
        lines = [(known, {"label": label})]
    return shared.figure(
        data, x, lines, ticks=data["size"].values.tolist() if x == "size" else None,
        color="learner", line=None if x == "epsilon" else "epsilon", panel="environment",
        estimate=partial(choice.worst, over="difficulty"),
        note=f"The worst of {len(GAPS)} gaps, or of {len(BIASES)} biases of the losses; "
        "the size is K of arms, or N of the ball. Local and central privacy are not the same "
        f"promise. Calibrations as we read them. {note}",
    )  # fmt: skip


@shared.published(HORIZON, TRIALS, SEED)
def reproduce(horizon: int, trials: int) -> shared.Report:
    """Plays contenders over epsilon, over T and N, and SCRiBLE against losses that move.

    The table "" has all final regrets, "_slopes" fitted exponents, "_crossing" where batches win,
    "_adversaries" losses whose best point moves. Figures are of regret against epsilon (""), T
    ("_horizon") and N ("_size").

    There are at least 4 trials.
    """
    whole, few = play_contest(horizon, trials)
    moving = play_adversaries(horizon, max(4, trials // 2))
    lengths, sizes = few.sel(size=[SIZE]), few.sel(horizon=[horizon])
    others = sizes.sel(size=sizes["size"] != SIZE)
    tables = {
        "": [row for data in (whole, lengths, others) for row in table(data)],
        "_slopes": slope_table(whole, lengths, sizes),
        "_crossing": crossing_table(whole),
        "_adversaries": adversary_table(moving),
    }
    lines = {"epsilon": [1.0, np.inf]}
    note = (
        "From epsilon = 1 on a batch is one round: batches of EXP2 lie on DP-EXP2. Without "
        "privacy the three kinds of SCRiBLE are one."
    )
    return shared.Report(
        tables=tables,
        figures={
            "": partial(figure, whole, "epsilon", note),
            "_horizon": partial(figure, lengths.sel(lines), "horizon"),
            "_size": partial(figure, sizes.sel(lines), "size"),
        },
        parameters={"horizons": horizons(horizon), "size": SIZE, "sizes": sizes_of(horizon),
                    "epsilons": EPSILONS, "gaps": GAPS, "biases": BIASES,
                    "resamples": arrays.DRAWS},
        text="\n\n".join(format_table(found) for name, found in tables.items() if name),
    )  # fmt: skip
