"""Sajed & Sheffet 2019: DP successive elimination, and earlier and later learners.

The four instances have five Bernoulli arms each, and T = 5e7. Learners that play in batches play
all T rounds; learners that choose in each round play a 400th of them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray

from dpjax import bounds, learners
from dpjax.papers import _shared as shared
from dpjax.papers import sajed2019_stopping as stopping
from dpjax.papers.sweeps import play
from dpjax.report import estimates
from dpjax.study import Study

HORIZON, QUICK_HORIZON = 50_000_000, 1_000_000
TRIALS, QUICK_TRIALS = 1000, 64
EPSILONS = (0.1, 0.25, 0.5, 1.0)
# The figure against epsilon adds two decades on each side of the paper's range.
MORE_EPSILONS = tuple(10.0 ** np.arange(-3.0, 2.01, 0.25))
MORE_ROUND_EPSILONS = (0.03, 3.0, 10.0, 30.0)
SEED = 2019
ARMS = 5
HORIZONS = tuple(10**k for k in range(4, 10))
HORIZON_EPSILONS = (0.1, 1.0)
HORIZON_INSTANCE = "C2"

# These are mean rewards, as later papers print them; a loss is 1 - reward.
REWARDS = {
    "C1": (0.75, 0.70, 0.70, 0.70, 0.70),
    "C2": (0.75, 0.625, 0.5, 0.375, 0.25),
    "C3": (0.75, 0.53125, 0.375, 0.28125, 0.25),
    "C4": (0.75, 0.71875, 0.625, 0.46875, 0.25),
}
BY_BATCHES: dict[str, Callable] = {
    "DP-SE": learners.successive_elimination,
    "AdaP-UCB": learners.adap_ucb,
    "AdaP-KLUCB": learners.adap_klucb,
    # DP-KLUCB weighs ln t by 1; AdaP-KLUCB by 3.1, because its analysis needs more than 3.
    "AdaP-KLUCB, constant 1": partial(learners.adap_klucb, exploration=1.0),
    "DP-KLUCB": learners.dp_klucb,
    "DP-IMED": learners.dp_imed,
}
# The learners with batches of a short run, because each one is compiled.
QUICK_BATCHES = ("DP-SE", "AdaP-KLUCB", "DP-IMED")
BY_ROUNDS: dict[str, Callable] = {
    "DP-UCB": learners.dp_ucb,
    "DP-UCB, split": partial(learners.dp_ucb, split="paper"),
    "DP-UCB-Bound": learners.dp_ucb_bound,
    "DP-UCB-Int": learners.dp_ucb_int,
    "DP-UCB-Int, printed": partial(learners.dp_ucb_int, calibration="printed"),
    "Lazy-UCB": learners.lazy_ucb,
    "Lazy-DP-TS": learners.lazy_thompson,
}
NOT_PRIVATE: dict[str, Callable] = {
    "UCB1": learners.ucb1,
    "KL-UCB": learners.kl_ucb,
    "Thompson": learners.thompson,
}


def means(instance: str) -> np.ndarray:
    """Mean losses of the arms, (5,)."""
    return 1.0 - np.array(REWARDS[instance])


def study(learners: Mapping[str, Callable], horizon: int | Sequence[int], trials: int,
          checkpoints: int | Sequence[int], instances: Sequence[str] = tuple(REWARDS),
          **axes: Any) -> Study:  # fmt: skip
    """The study of learners on some of the instances."""
    losses = {name: means(name) for name in instances}
    grid = {"horizon": horizon, "arms": ARMS, "means": losses, **axes}
    return Study(learners, {"Bernoulli": shared.bernoulli}, grid, trials, SEED, checkpoints)


def _play(study) -> xarray.Dataset:
    return play(study).squeeze("environment").rename(means="instance")


def instances(short: bool) -> tuple:
    """The instances of a run; two in a short run."""
    return tuple(REWARDS)[: 2 if short else None]


def epsilons(short: bool) -> tuple:
    """The paper's epsilons in a run; two in a short run."""
    return EPSILONS[::3] if short else EPSILONS


def play_batches(horizon: int, trials: int, short: bool = False) -> xarray.Dataset:
    """Play learners with batches on instances, at all epsilons and without privacy."""
    more = () if short else MORE_EPSILONS
    grid = {"epsilon": [*sorted({*epsilons(short), *more}), np.inf]}
    makers, shown = (
        shared.chosen(BY_BATCHES, QUICK_BATCHES, short),
        shared.log_checkpoints(horizon, 80),
    )
    return _play(study(makers, horizon, trials, shown, instances(short), **grid))


def rounds_study(horizon: int, trials: int, short: bool = False) -> Study:
    """All other learners round by round, at the paper's epsilons, and at a few more on C2."""
    on = partial(study, horizon=horizon, trials=trials, instances=instances(short),
                 checkpoints=shared.log_checkpoints(horizon, 80))  # fmt: skip
    more = [*MORE_ROUND_EPSILONS, np.inf]
    private = on(BY_ROUNDS, epsilon=epsilons(short))
    private += on(BY_ROUNDS, instances=[HORIZON_INSTANCE], epsilon=more)
    return private + on(NOT_PRIVATE)


def play_horizons(longest: int, trials: int, short: bool = False) -> xarray.Dataset:
    """Play instance C2 at each power of ten up to the longest horizon.

    DP-SE is tuned to its horizon, so each horizon is a separate game. The others do not know the
    horizon, so one long game contains all shorter ones.
    """
    horizons = tuple(h for h in HORIZONS if h <= longest)
    where, epsilons = [HORIZON_INSTANCE], HORIZON_EPSILONS
    others = shared.chosen(BY_BATCHES, QUICK_BATCHES, short)
    tuned = {"DP-SE": others.pop("DP-SE")}
    separate = _play(study(tuned, horizons, trials, 1, where, epsilon=epsilons))
    once = _play(study(others, horizons[-1], trials, horizons, where, epsilon=epsilons))
    regrets = [
        separate.final_regret.drop_vars("takes_horizon"),
        once.regret.drop_vars("horizon").rename(round="horizon"),
    ]
    return xarray.concat(regrets, "learner").to_dataset(name="final_regret")


def table(data: xarray.Dataset) -> list[dict]:
    """Final regret with its quantiles and bounds, one row for each epsilon of a learner.

    The private lower bounds are for the declared epsilon. They are empty for (epsilon, delta)
    privacy, to which they do not apply.
    """
    uppers = {"DP-SE": bounds.successive_elimination, "AdaP-UCB": bounds.adap_ucb}

    def more(row):
        horizon, epsilon, losses = row["horizon"], row["epsilon"], means(row["instance"])
        limits = {"lower_lai_robbins": bounds.lai_robbins(horizon, losses)}
        if row["delta"] == 0.0:
            limits["lower_d_epsilon"] = bounds.d_epsilon(horizon, losses, epsilon)
            limits["lower_shariff_sheffet"] = bounds.shariff_sheffet(horizon, ARMS, epsilon)
        if row["learner"] in uppers:
            limits["upper"] = uppers[row["learner"]](horizon, losses, row["asked"])
        empty = dict.fromkeys(("lower_d_epsilon", "lower_shariff_sheffet", "upper"))
        return empty | {name: float(item) for name, item in limits.items()}

    return shared.table(
        shared.summary(data.final_regret.astype(np.float64)), "learner instance epsilon",
        "instance learner asked epsilon delta horizon mean standard_error q5 q25 q50 q75 q95 "
        "lower_d_epsilon lower_lai_robbins lower_shariff_sheffet upper trials",
        more, asked="epsilon", epsilon="privacy_epsilon", delta="privacy_delta",
    )  # fmt: skip


def papers_first(rows: list[dict]) -> list[dict]:
    """The rows of each learner, those at the paper's epsilons first."""
    names = list(dict.fromkeys(row["learner"] for row in rows))
    return sorted(rows, key=lambda row: (names.index(row["learner"]), row["asked"] not in EPSILONS))


def knees(data: xarray.Dataset) -> list[dict]:
    """The epsilon from which privacy costs less than 10 %, one row per learner and instance."""
    estimate = data.dpjax.crossing(1.1).reset_coords(drop=True)
    estimate["without_privacy"] = estimates.mean(data.final_regret.sel(epsilon=np.inf))["mean"]
    names = "instance learner without_privacy epsilon low high trials"
    return shared.table(
        estimate.drop_vars("epsilon"), "learner instance", names, epsilon="crossing"
    )


def horizon_table(data: xarray.Dataset) -> list[dict]:
    """Final regret against the horizon."""

    def more(row):
        bound = bounds.d_epsilon(float(row["horizon"]), means(row["instance"]), row["epsilon"])
        return {"lower_d_epsilon": float(bound)}

    names = "learner instance epsilon horizon mean standard_error lower_d_epsilon trials"
    return shared.table(
        estimates.mean(data.final_regret), "learner instance epsilon horizon", names, more
    )


def at_papers(data: xarray.Dataset):
    """The results at the paper's epsilons."""
    return data.sel(epsilon=data.epsilon.isin(EPSILONS))


def curves_figure(data: xarray.Dataset):
    """Regret of batches against the round, with bounds: a row for each instance."""
    shown = at_papers(data)
    axes = {name: shown[name].values.tolist() for name in ("instance", "epsilon")}
    rounds = shown["round"].values.astype(np.float64)

    def line(bound, style, label):
        over = shared.labelled(lambda i, e: bound(rounds, means(i), e), {"round": rounds}, **axes)
        return over, {"linestyle": style, "label": label}

    failure = 1.0 / data["round"].values[-1]
    lines = [
        line(bounds.d_epsilon, ":", "lower bound, d_epsilon"),
        line(partial(bounds.successive_elimination, failure=failure), "-.", "DP-SE, bound"),
        line(bounds.adap_ucb, "--", "AdaP-UCB, bound"),
    ]
    return shared.figure(
        shown, "round", lines, low=2.0, color="learner", panel=("instance", "epsilon"),
        note="AdaP has the constant 3.1 unless its name says otherwise. Calibrations as we read "
        "them.",
    )  # fmt: skip


def rounds_figure(data: xarray.Dataset, batches: xarray.Dataset):
    """Regret of learners that choose in each round, and of three learners with batches."""
    shown = [name for name in data.learner.values if "printed" not in name]
    names = [name for name in ("DP-SE", "AdaP-KLUCB", "DP-KLUCB") if name in batches.learner]
    early = batches["round"] <= data["round"][-1]
    both = [data.sel(learner=shown), batches.sel(learner=names, round=early, trial=data.trial)]
    both = [at_papers(item).regret for item in both]
    regret = xarray.concat(both, "learner", join="outer", coords="minimal", compat="override")

    def means(array):
        """Means without bands, which would overlap."""
        mean = array.mean("trial", skipna=False)
        return xarray.Dataset({"mean": mean, "low": mean, "high": mean}, attrs={"estimate": "mean"})

    return shared.figure(
        regret.to_dataset(name="regret"), "round", low=2.0, color="learner",
        panel=("instance", "epsilon"), estimate=means,
        note="All learners are given the same epsilon and declare it, with two exceptions: "
        "\"DP-UCB, split\" declares a fifth of it, and DP-UCB-Int declares at most epsilon with "
        "delta = T^-2. All others are pure. DP-SE is tuned to a longer horizon.",
    )  # fmt: skip


def laws_figure(data: xarray.Dataset):
    """Quantile functions of the final regret, whose distributions have several modes."""
    final = at_papers(data).final_regret.reset_coords(drop=True)
    trials = data.sizes["trial"]
    ordered = final.copy(data=np.sort(final.values, axis=final.get_axis_num("trial")))
    shares = ordered.rename(trial="share").assign_coords(share=np.arange(1, trials + 1) / trials)
    drawn = shared.lines_figure(
        shares, "share", "learner", ("instance", "epsilon"), ylabel="regret at T",
        note=f"Quantiles of the final regret of {trials} trials. T = {int(data.horizon)}. Later "
        "learners in the legend are drawn on top.",
    )  # fmt: skip
    for panel in drawn.axes:
        panel.set_xscale("linear")
        panel.set_ylim(0.8 * float(final.min()), 1.25 * float(final.max()))
    return drawn


def epsilon_figure(data: xarray.Dataset, knees: list[dict]):
    """Final regret against epsilon, with the epsilon from which privacy costs less than 10 %."""
    horizon, epsilons = float(data.horizon), np.array(MORE_EPSILONS)
    lower = shared.labelled(lambda i: bounds.d_epsilon(horizon, means(i), epsilons),
                            {"epsilon": epsilons}, instance=data.instance.values)  # fmt: skip
    drawn = shared.figure(
        data, "epsilon", [(lower, {})], color="learner", panel="instance",
        note="Circles: the smallest epsilon from which mean regret stays within 10 % of the same "
        "learner's without privacy. Dotted: the lower bound with d_epsilon.",
    )  # fmt: skip
    for panel, instance in zip(drawn.axes, data.instance.values, strict=False):
        mine = [row for row in knees if row["instance"] == instance and 0 < row["epsilon"] < np.inf]
        heights = [1.1 * row["without_privacy"] for row in mine]
        panel.plot([row["epsilon"] for row in mine], heights, "o", color="0.3", markersize=9,
                   fillstyle="none")  # fmt: skip
    return drawn


def horizon_figure(data: xarray.Dataset):
    """Final regret against the horizon, to a billion rounds."""
    losses, horizons = means(HORIZON_INSTANCE), data.horizon.values.astype(np.float64)
    lower = shared.labelled(lambda e: bounds.d_epsilon(horizons, losses, e),
                            {"horizon": horizons}, epsilon=data.epsilon.values)  # fmt: skip
    return shared.figure(data, "horizon", [(lower, {})], color="learner", panel="epsilon",
                         note="Dotted: the lower bound with d_epsilon.")  # fmt: skip


@shared.published(HORIZON, TRIALS, SEED, horizons=(10**4, 2**31 - 1), fewest=8)
def reproduce(horizon: int, trials: int, short: bool) -> Iterator[shared.Report]:
    """Play learners with batches, all others round by round, and the stopping rule in DP-SE.

    The table "" has final regrets with quantiles and bounds; further tables are "_knee",
    "_horizon", "_stopping" and "_pairwise". Figures show curves by batches ("") and round by round
    ("_rounds"), "_laws", "_epsilon" and "_horizon".

    The horizon is at least 10^4, and at least 8 trials are needed. Learners that choose in each
    round play a 400th of the horizon, in a 32nd of the trials, but at least 8. A short run plays
    three learners with batches, on two instances at two epsilons and without privacy.
    """
    batches = play_batches(horizon, trials, short)
    yield shared.Report(
        {"": table(batches)}, {"": partial(curves_figure, batches)},
        {"rewards": REWARDS, "epsilons": EPSILONS,
         "more_epsilons": MORE_EPSILONS, "failure": 1.0 / horizon, "ratio": 2.0,
         "log_base": 2.0, "exploration": {"AdaP": 3.1, "AdaP-KLUCB, constant 1": 1.0}},
    )  # fmt: skip
    free = knees(batches)
    longer = play_horizons(horizon if short else 20 * horizon, trials, short)
    yield shared.Report(
        {"_knee": free, "_horizon": horizon_table(longer)},
        {"_laws": partial(laws_figure, batches), "_horizon": partial(horizon_figure, longer),
         "_epsilon": partial(epsilon_figure, batches, free)},
    )  # fmt: skip
    few, shorter = max(trials // 32, 8), max(horizon // 400, 2 * ARMS)
    counts = stopping.ARM_COUNTS[:2] if short else stopping.ARM_COUNTS
    pairs = stopping.play_pairs(horizon, trials, counts)
    by_rounds = _play(rounds_study(shorter, few, short))
    yield shared.Report(
        {"": papers_first(table(by_rounds))},
        {"_rounds": partial(rounds_figure, by_rounds, batches)},
        {"round_horizon": shorter, "round_trials": few},
    )
    rules = stopping.play_stopping(min(horizon, 2**18), few)
    yield shared.Report({"_stopping": stopping.stopping_table(rules),
                         "_pairwise": stopping.pairs_table(pairs)})  # fmt: skip
