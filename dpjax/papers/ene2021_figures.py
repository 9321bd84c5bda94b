"""Ene, Nguyen & Vladu 2021: figures of the runs of its experiment, each a Dataset of settings."""

import numpy as np
import xarray

from dpjax.papers.ene2021_learners import RATES
from dpjax.report.plot import ticks_at


def regret_of(run, calibration, epsilon=None, rate=1.0) -> np.ndarray:
    """The final regrets (trials,) of a setting; the first epsilon where none is given."""
    fits = (run.calibration == calibration) & (run.rate == rate)
    if epsilon is not None and calibration != "none":
        fits &= np.isclose(run.epsilon, epsilon)
    if not fits.any():
        raise ValueError(f"calibration: {calibration}, {epsilon}, {rate} was not played")
    return run.final_regret.values[np.argmax(fits.values)].astype(np.float64)


def best_rate(run, calibration) -> float:
    """The rate with the least mean regret in hindsight, of those that were played."""
    return min(RATES, key=lambda rate: regret_of(run, calibration, None, rate).mean())


def _at_default(run) -> xarray.Dataset:
    """A run at the default rate, with the axes calibration and epsilon."""
    kept = run.isel(setting=(run.rate == 1.0).values)
    kept = kept.drop_vars(["setting", "rate", "scale", "gradient", "certified_distance"])
    return kept.set_index(setting=["calibration", "epsilon"]).unstack("setting")


def _joined(runs, axis, labels) -> xarray.Dataset:
    """Runs along an axis, in whose coordinate each has a label."""
    runs = [run.drop_vars(axis) for run in runs]
    return xarray.concat(runs, xarray.Variable(axis, labels), coords="all", compat="equals")


def _at_one(runs, axis) -> xarray.Dataset:
    """Runs at epsilon = 1 and without noise along an axis."""
    return _joined([_at_default(run).max("epsilon") for run in runs], axis,
                   [int(run[axis]) for run in runs])  # fmt: skip


def _finish(drawn, x, centres):
    """Draws the regret of the centre in each panel, at all x, and makes both axes logarithmic."""
    for axes, centre in zip(drawn.axes, centres, strict=False):
        if np.ndim(centre):
            axes.plot(x, centre, color="0.6", zorder=0)
        else:
            axes.axhline(centre, color="0.6", zorder=0)
        axes.loglog()
        ticks_at(axes.xaxis, x)
    return drawn


def horizon_figure(by_horizon):
    """Regret against T, with the best rate in hindsight and a guide."""
    instances = {name: runs for (name, noise), runs in by_horizon.items() if noise == "gaussian"}
    data = _joined([_at_one(runs, "horizon") for runs in instances.values()], "instance",
                   list(instances))  # fmt: skip
    drawn = data.dpjax.figure(
        "horizon", color="calibration", panel="instance",
        note="PRIVATEBANDIT at epsilon = 1, Gaussian noise, delta = T^-2. Dashed: the best of "
        "three rates in hindsight. Grey: the centre; where nothing is learned, a line lies on it. "
        "Dotted: T^(3/4).",
    )  # fmt: skip
    x = data.horizon.values
    for axes, runs in zip(drawn.axes, instances.values(), strict=False):
        for name, line in zip(data.calibration.values, axes.get_lines(), strict=True):
            if name != "none":
                best = [regret_of(run, name, None, best_rate(run, name)).mean() for run in runs]
                axes.plot(x, best, "--", color=line.get_color(), linewidth=0.9)
        guide = regret_of(runs[-1], "none").mean() * (x / x[-1]) ** 0.75
        axes.plot(x, guide, ":", color="0.4")
    return _finish(drawn, x, data.centre.transpose("instance", "horizon").values)


def epsilon_figure(by_epsilon):
    """Regret against epsilon."""
    instances = [str(run.instance.values) for run in by_epsilon]
    data = _joined([_at_default(run) for run in by_epsilon], "instance", instances)
    drawn = data.dpjax.figure("epsilon", color="calibration", panel="instance",
                              note="PRIVATEBANDIT, Gaussian noise. Grey: the centre.")  # fmt: skip
    return _finish(drawn, [0.01, 0.1, 1, 10, 100, 1000], data.centre.values)


def dim_figure(by_dim):
    """Regret on the ball against the dimension."""
    data = _at_one(by_dim, "dim")
    drawn = data.dpjax.figure(
        "dim",
        color="calibration",
        note="PRIVATEBANDIT on the ball at epsilon = 1. Grey: the centre.",
    )
    return _finish(drawn, data.dim.values, [data.centre.values])


def cost_figure(by_horizon):
    """Regret with noise for a single change over that without noise, against T."""
    ratios = []
    for runs in by_horizon.values():
        regret = _at_one(runs, "horizon").final_regret
        plain = regret.sel(calibration="none", drop=True).mean("trial")
        ratio = regret.sel(calibration="single_change", drop=True) / plain
        ratios.append(ratio.reset_coords(drop=True).rename("ratio"))
    kinds = xarray.Variable("instance", [", ".join(kind) for kind in by_horizon])
    data = xarray.concat(ratios, kinds)
    drawn = data.to_dataset().dpjax.figure(
        "horizon", y="ratio", color="instance",
        note="Regret of PRIVATEBANDIT at epsilon = 1, with noise for a single change, over its "
        "mean regret without noise.",
    )  # fmt: skip
    drawn.axes[0].axhline(1.0, color="0.5", linewidth=0.8)
    return drawn
