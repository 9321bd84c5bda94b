"""Agarwal & Singh 2017, section 4: private bandits, beside the rates of Asi et al. 2025.

The papers have no experiment. This file measures the regret of the private reduction and of noisy
batches against T, N and epsilon, over arms and over the ball.
"""

import os
from collections.abc import Callable
from functools import partial

import numpy as np
import xarray

from dpjax import bounds, domains, environments, learners
from dpjax.papers import agarwal2017_bandits_rates as rates
from dpjax.papers._shared import Report, publish
from dpjax.papers.sweeps import play
from dpjax.report import choice, estimates, plot
from dpjax.report.tables import columns, format_table, rows
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


def play_contest(horizon=HORIZON, trials=TRIALS, *, progress=True) -> tuple:
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
    whole = play(contest(EPSILONS, [horizon], [SIZE], trials), progress)
    return _with_nothing(whole), _with_nothing(play(few, progress))


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


def play_adversaries(horizon=HORIZON, trials=TRIALS // 2, *, progress=True) -> xarray.Dataset:
    """Plays SCRiBLE against losses whose best point moves, and against an adaptive adversary."""

    def against(kind):
        return lambda horizon, size: environments.linear_losses(
            domains.ball(size), kind, bias=1.0, period=max(horizon // 8, 1)
        )

    kinds = {kind: against(kind) for kind in (KINDS if horizon >= HORIZON else QUICK_KINDS)}
    grid = {"horizon": horizon, "size": SIZE, "epsilon": (1.0, 10.0, np.inf)}
    return play(Study(CONTENDERS["ball"], kinds, grid, trials, SEED, checkpoints=1), progress)


def table(data) -> list[dict]:
    """Final regret at each epsilon and difficulty."""
    mean, private = estimates.mean(data.final_regret), data.takes_epsilon
    cells = mean[["mean", "standard_error"]].rename(mean="regret").assign(nothing=data.nothing)
    cells = cells.where(private | np.isinf(data.epsilon))
    cells["model"] = data.privacy_model.where(private, "")
    order = ("environment", "learner", "horizon", "size", "epsilon", "difficulty")
    found = rows(cells, order, instance="environment")
    for row in found:
        row["bound"], row["trials"] = _bound(row), data.sizes["trial"]
    return columns(found, "instance learner model horizon size epsilon difficulty regret "
                   "standard_error nothing bound trials")  # fmt: skip


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
    cells = estimates.mean(data.final_regret).rename(mean="regret").assign(
        centre=_lengths(data).mean("trial"),
        violations=data.report_violations.astype(np.float64).mean("trial"),
        trials=data.sizes["trial"],
    )  # fmt: skip
    found = rows(cells, ("environment", "learner", "epsilon"), losses="environment")
    return columns(found, "losses learner epsilon regret standard_error centre violations trials")


def figure(data, x, note=""):
    """Worst mean regret against epsilon, T or N, over arms and over the ball."""
    data = data.squeeze([name for name in ("horizon", "size") if name != x])
    drawn = data.dpjax.figure(
        x, color="learner", line=None if x == "epsilon" else "epsilon", panel="environment",
        estimate=partial(choice.worst, over="difficulty"),
        note=f"The worst of {len(GAPS)} gaps, or of {len(BIASES)} biases of the losses; "
        "the size is K of arms, or N of the ball. Local and central privacy are not the same "
        f"promise. Calibrations as we read them. {note}",
    )  # fmt: skip
    for axes, name in zip(drawn.axes, data.environment.values, strict=True):
        axes.set_yscale("log")
        if x == "size":
            axes.set_xscale("log")
            plot.ticks_at(axes.xaxis, data["size"].values.tolist())
            continue
        if x == "epsilon":
            ceiling = data.nothing.sel(environment=name).max()
            axes.axhline(ceiling, color="0.2", linestyle=":", label="doing nothing")
        else:
            known = bounds.before_bandits(data[x], 1.0, arms=SIZE if name == "arms" else None)
            label = "$T^{2/3} K / \\epsilon$" if name == "arms" else "$T^{2/3} / \\epsilon$"
            axes.plot(data[x], known, ":", color="0.2", label=f"known before: {label}")
        axes.legend(fontsize=8, frameon=False)
    return drawn


def reproduce(
    out: str | os.PathLike = "results/agarwal2017-bandits",
    *,
    horizon: int = HORIZON,
    trials: int = TRIALS,
    progress: bool = True,
) -> str:
    """Plays everything, writes the files of a :class:`Report`, and returns the printed summary.

    The table "" has all final regrets, "_slopes" fitted exponents, "_crossing" where batches win,
    "_adversaries" losses whose best point moves. Figures are of regret against epsilon (""), T
    ("_horizon") and N ("_size").

    Arguments and errors are as :mod:`dpjax.papers` says; trials are at least 4.
    """
    if trials < 4:
        raise ValueError(f"trials must be at least 4, got {trials}")

    def experiment():
        whole, few = play_contest(horizon, trials, progress=progress)
        moving = play_adversaries(horizon, max(4, trials // 2), progress=progress)
        lengths, sizes = few.sel(size=[SIZE]), few.sel(horizon=[horizon])
        others = sizes.sel(size=sizes["size"] != SIZE)
        tables = {
            "": [row for data in (whole, lengths, others) for row in table(data)],
            "_slopes": rates.slope_table(whole, lengths, sizes),
            "_crossing": rates.crossing_table(whole),
            "_adversaries": adversary_table(moving),
        }
        lines = {"epsilon": [1.0, np.inf]}
        note = (
            "From epsilon = 1 on a batch is one round: batches of EXP2 lie on DP-EXP2. Without "
            "privacy the three kinds of SCRiBLE are one."
        )
        return Report(
            tables=tables,
            figures={
                "": partial(figure, whole, "epsilon", note),
                "_horizon": partial(figure, lengths.sel(lines), "horizon"),
                "_size": partial(figure, sizes.sel(lines), "size"),
            },
            parameters={"horizons": horizons(horizon), "size": SIZE, "sizes": sizes_of(horizon),
                        "epsilons": EPSILONS, "gaps": GAPS, "biases": BIASES, "resamples": 400},
            text="\n\n".join(format_table(found) for name, found in tables.items() if name),
        )  # fmt: skip

    name = "agarwal2017_bandits"
    return publish(out, name, experiment, horizon=horizon, trials=trials, seed=SEED)
