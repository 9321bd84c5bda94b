"""Mechanisms of noisy prefix sums at equal privacy: their errors, and the regret of FTRL with them.

This is a part of the reproduction of Agarwal & Singh 2017.
"""

import numpy as np

from dpjax import domains, learners, mechanisms
from dpjax.privacy import default_delta
from dpjax.report import estimates, plot
from dpjax.report.tables import columns, rows
from dpjax.study import Study

EPSILONS = (1.0, 10.0, 100.0, np.inf)


def names(noise="gaussian") -> list[str]:
    """The mechanisms for the central model that are played with a law of noise."""
    unfit = ["exact", "per_item"]
    if noise == "laplace":
        # With these factorizations Laplace noise grows with the square root of T.
        unfit += ["square_root", "stationary", "buffered"]
    return [name for name in mechanisms.__all__ if name not in unfit]


def study(horizon, dim, instance, losses, trials, seed) -> Study:
    """FTRL with each mechanism.

    Args:
      horizon, dim: T and N.
      instance: the instance that is played, by its name.
      losses: its environment.
      trials, seed: of all cells.
    """

    def ftrl(horizon, dim, instance, epsilon, noise, mechanism):
        domain, loss_set = instance.make(dim)
        delta = default_delta(horizon) if noise == "gaussian" else None
        return learners.ftrl(
            horizon, domain._replace(losses=loss_set), epsilon=epsilon, delta=delta, noise=noise,
            mechanism=mechanism,
        )  # fmt: skip

    def of(noise):
        makers = {name: getattr(mechanisms, name) for name in names(noise)}
        grid = {"horizon": horizon, "dim": dim, "instance": instance, "epsilon": EPSILONS,
                "noise": [noise], "mechanism": makers}  # fmt: skip
        return Study({"FTRL": ftrl}, {"iid": losses}, grid, trials, seed, checkpoints=1)

    return of("laplace") + of("gaussian")


def error(mechanism, horizon, noise):
    """The standard deviation of the prefix sums after 1 .. T - 1 rounds.

    It is that at epsilon = 1 and unit L1 sensitivity (Laplace), or mu = 1 and unit L2 sensitivity.
    """
    built = getattr(mechanisms, mechanism)(horizon, noise=noise)
    draws = 2.0 if noise == "laplace" else 1.0
    return built.sensitivity[noise == "gaussian"] * np.sqrt(draws * built.variance()[1:])


def table(data, loss_set) -> list[dict]:
    """Errors of the sums of losses, and final regret; one row per mechanism and epsilon."""
    cells = estimates.mean(data.final_regret)[["mean", "standard_error"]].rename(mean="regret")
    cells["without_privacy"] = cells.regret.sel(epsilon=np.inf, drop=True)
    cells = cells.isel(epsilon=np.isfinite(data.epsilon.values)).squeeze()
    found = rows(cells, ("noise", "mechanism", "epsilon"), delta="privacy_delta")
    for row in found:
        change = domains.sensitivity(loss_set, "replace", "round")[row["noise"] == "gaussian"]
        errors = change * error(row["mechanism"], row["horizon"], row["noise"])
        row["root_mean_square_error_at_1"] = float(np.sqrt(np.mean(errors**2)))
        row["largest_error_at_1"] = float(errors.max())
        row["trials"] = data.sizes["trial"]
    return columns(found, "mechanism noise epsilon delta root_mean_square_error_at_1 "
                   "largest_error_at_1 regret standard_error without_privacy trials")  # fmt: skip


def figure(data):
    """Regret of FTRL with each mechanism."""
    drawn = data.squeeze(["learner", "environment", "instance"]).dpjax.figure(
        "epsilon", color="mechanism", panel="noise",
        note="Laplace noise: pure; Gaussian noise: delta = T^-2.",
    )  # fmt: skip
    for axes in drawn.axes:
        axes.set_yscale("log")
    low, high = zip(*(axes.get_ylim() for axes in drawn.axes), strict=True)
    for axes in drawn.axes:
        axes.set_ylim(min(low), max(high))
    return drawn


def error_figure(horizon):
    """The error of each mechanism over the rounds."""
    drawn, panels = plot.panels(1, 2, size=(11.0, 4.2))
    colors = dict(zip(names(), plot.categorical(len(names())), strict=True))
    rounds = np.unique(np.geomspace(1, horizon - 1, 400).astype(int))
    units = {"laplace": "$\\epsilon$ = 1, unit L1", "gaussian": "$\\mu$ = 1, unit L2"}
    for axes, (noise, unit) in zip(panels, units.items(), strict=True):
        for name in names(noise):
            # Buffered lies within 1 % of square_root, which would hide a thin line.
            width = 3.0 if name == "buffered" else 1.0
            errors = error(name, horizon, noise)[rounds - 1]
            axes.loglog(rounds, errors, color=colors[name], linewidth=width, label=name)
        plot.label_axes(axes, f"{noise.title()} noise, {unit} sensitivity",
                        ylabel="standard deviation of a prefix sum")  # fmt: skip
        axes.set_xscale("log", base=2)
    # Gaussian noise has all mechanisms.
    handles, labels = panels[-1].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside right upper", fontsize=8, frameon=False)
    drawn.supxlabel(f"T = {horizon}. buffered lies within 1 % of square_root.", fontsize=8,
                    x=0.01, horizontalalignment="left")  # fmt: skip
    return drawn
