"""The figures of Sajed & Sheffet 2019."""

from itertools import product

import numpy as np
import xarray

from dpjax import bounds
from dpjax.papers import sajed2019_games as games
from dpjax.papers._shared import logarithmic, name_lines
from dpjax.report import plot


def curves_figure(data):
    """Regret of batches against the round, with bounds: a row for each instance."""
    shown = data.sel(epsilon=list(games.EPSILONS))
    drawn = shown.dpjax.figure(
        "round", color="learner", panel=("instance", "epsilon"),
        note="AdaP's constant is 3.1 where no other is named. Calibrations as we read them.",
    )  # fmt: skip
    t = data["round"].values.astype(np.float64)
    cells = product(games.REWARDS, games.EPSILONS)
    for panel, (instance, epsilon) in zip(drawn.axes, cells, strict=True):
        losses = games.means(instance)
        lower = [games.lower_bound(x, instance, epsilon) for x in t]
        upper = bounds.successive_elimination(t, losses, epsilon, 1.0 / t[-1])
        panel.plot(t, lower, ":", color="0.3", label="lower bound, d_epsilon")
        panel.plot(t, upper, "-.", color="0.3", linewidth=0.8, label="DP-SE, bound")
        panel.plot(t, bounds.adap_ucb(t, losses, epsilon), "--", color="0.3", linewidth=0.8,
                   label="AdaP-UCB, bound")  # fmt: skip
    name_lines(drawn)
    logarithmic(drawn, low=2.0)
    return drawn


def rounds_figure(data, batches):
    """Regret of what chooses anew each round, beside three learners of batches up to there."""
    shown = [name for name in data.learner.values if "printed" not in name]
    names = [name for name in ("DP-SE", "AdaP-KLUCB", "DP-KLUCB") if name in games.BY_BATCHES]
    early = batches["round"] <= data["round"][-1]
    beside = batches.sel(learner=names, round=early, trial=data.trial)
    both = [data.sel(learner=shown), beside]
    both = [each.regret.sel(epsilon=list(games.EPSILONS)) for each in both]
    drawn = xarray.concat(both, "learner", join="outer", coords="minimal", compat="override")
    drawn = drawn.to_dataset(name="regret").dpjax.figure(
        "round", color="learner", panel=("instance", "epsilon"), estimate=_means,
        note="Epsilon is the one that learners are given. All declare it, but DP-UCB, split, which "
        "declares a fifth of it. DP-UCB-Int declares it, or a little less, at delta = T^-2. All "
        "others are pure. DP-SE is tuned to a longer horizon.",
    )  # fmt: skip
    logarithmic(drawn, low=2.0)
    return drawn


def _means(array) -> xarray.Dataset:
    """Means without bands, which would hide each other."""
    mean = array.mean("trial", skipna=False)
    return xarray.Dataset({"mean": mean, "low": mean, "high": mean}, attrs={"estimate": "mean"})


def laws_figure(data):
    """Distribution functions of the final regret, whose laws have several modes."""
    final = data.final_regret.sel(epsilon=list(games.EPSILONS))
    limits = 0.8 * float(final.min()), 1.25 * float(final.max())
    names, trials = data.learner.values, data.sizes["trial"]
    drawn, axes = plot.panels(len(games.REWARDS), len(games.EPSILONS), size=(15.0, 12.0))
    cells = product(games.REWARDS, games.EPSILONS)
    for panel, (instance, epsilon) in zip(axes, cells, strict=True):
        for color, name in zip(plot.categorical(len(names)), names, strict=True):
            x = np.sort(final.sel(instance=instance, epsilon=epsilon, learner=name))
            share = np.arange(1, trials + 1) / trials
            panel.step(x, share, where="post", color=color, linewidth=1.4, label=name)
        panel.set_xscale("log")
        panel.set_xlim(limits)
        plot.label_axes(panel, f"{instance}, epsilon = {epsilon:g}", "regret at T", "trials below")
    name_lines(drawn)
    note = f"Share of {trials} trials. T = {int(data.horizon)}."
    drawn.supxlabel(f"{note} Lines later in the legend are on top.", x=0.01, ha="left", fontsize=8)
    return drawn


def epsilon_figure(data, knees):
    """Final regret against epsilon, with the knee from which on privacy costs under 10 %."""
    drawn = data.dpjax.figure(
        "epsilon", color="learner", panel="instance",
        note="Circles: the smallest epsilon from which on mean regret is within 10 % of that of "
        "the same learner without privacy. Dotted: lower bound in d_epsilon.",
    )  # fmt: skip
    grid = np.array(games.MORE_EPSILONS)
    for panel, instance in zip(drawn.axes, games.REWARDS, strict=False):
        bound = games.lower_bound(float(data.horizon), instance, grid)
        panel.plot(grid, bound, ":", color="0.3")
        mine = [row for row in knees if row["instance"] == instance and 0 < row["epsilon"] < np.inf]
        heights = [1.1 * row["without_privacy"] for row in mine]
        panel.plot([row["epsilon"] for row in mine], heights, "o", color="0.3", markersize=9,
                   fillstyle="none")  # fmt: skip
    logarithmic(drawn)
    return drawn


def at_declared(data) -> xarray.Dataset:
    """Learners that choose anew each round, on instance C2, at the epsilons that they declare.

    Zero and infinity are left out, which have no place on a logarithmic axis. Where a learner that
    is asked for more declares the same, it plays the same game.
    """
    parts = []
    for name in games.BY_ROUNDS:
        mine = data[["final_regret"]].sel(learner=[name], instance=games.HORIZON_INSTANCE)
        mine = mine.assign_coords(epsilon=mine.privacy_epsilon.values[0])
        shown = np.flatnonzero((mine.epsilon > 0) & np.isfinite(mine.epsilon))
        parts.append(mine.isel(epsilon=shown).drop_duplicates("epsilon"))
    return xarray.concat(parts, "learner", join="outer")


def declared_figure(data):
    """Final regret of what chooses anew each round, against the epsilon that it declares."""
    drawn = at_declared(data).dpjax.figure(
        "epsilon", color="learner",
        note="Round by round, a learner stands at the epsilon that it declares, not at the one "
        "that it is given: DP-UCB, split at a fifth of that one, DP-UCB-Int at what it has at "
        "delta = T^-2, which for its printed noise, as reconstructed, is more than it is given.",
    )  # fmt: skip
    logarithmic(drawn)
    drawn.axes[0].set_xlabel("declared epsilon")
    return drawn


def horizon_figure(data):
    """Final regret against the horizon, to a billion rounds."""
    drawn = data.dpjax.figure(
        "horizon", color="learner", panel="epsilon", note="Dotted: lower bound in d_epsilon."
    )
    t = data.horizon.values.astype(np.float64)
    for panel, epsilon in zip(drawn.axes, data.epsilon.values, strict=True):
        bound = [games.lower_bound(x, games.HORIZON_INSTANCE, epsilon) for x in t]
        panel.plot(t, bound, ":", color="0.3")
    logarithmic(drawn)
    return drawn
