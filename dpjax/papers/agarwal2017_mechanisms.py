"""Mechanisms of noisy prefix sums at equal privacy: their errors, and the regret of FTRL with them.

This is a part of the reproduction of Agarwal & Singh 2017.
"""

import numpy as np
import xarray

from dpjax import domains, learners, mechanisms
from dpjax.papers import _shared as shared
from dpjax.privacy import default_delta
from dpjax.report import estimates
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

    def errors(row):
        change = domains.sensitivity(loss_set, "replace", "round")[row["noise"] == "gaussian"]
        found = change * error(row["mechanism"], row["horizon"], row["noise"])
        return {"root_mean_square_error_at_1": float(np.sqrt(np.mean(found**2))),
                "largest_error_at_1": float(found.max())}  # fmt: skip

    cells = estimates.mean(data.final_regret)
    cells["without_privacy"] = cells["mean"].sel(epsilon=np.inf, drop=True)
    return shared.table(
        cells.isel(epsilon=slice(-1)), "noise mechanism epsilon",
        "mechanism noise epsilon delta root_mean_square_error_at_1 largest_error_at_1 regret "
        "standard_error without_privacy trials",
        errors, delta="privacy_delta", regret="mean",
    )  # fmt: skip


def figure(data):
    """Regret of FTRL with each mechanism."""
    drawn = shared.figure(
        data.squeeze(["learner", "environment", "instance"]), "epsilon", color="mechanism",
        panel="noise", note="Laplace noise: pure; Gaussian noise: delta = T^-2.",
    )  # fmt: skip
    first, second = drawn.axes
    second.sharey(first)
    return drawn


def error_figure(horizon):
    """The error of each mechanism over the rounds."""
    rounds = np.unique(np.geomspace(1, horizon - 1, 400).astype(int))
    units = {"laplace": "$\\epsilon$ = 1, unit L1", "gaussian": "$\\mu$ = 1, unit L2"}
    errors = [
        xarray.DataArray([error(name, horizon, noise)[rounds - 1] for name in names(noise)],
                         {"mechanism": names(noise), "round": rounds})
        for noise in units
    ]  # fmt: skip
    titles = [f"{noise.title()} noise, {unit} sensitivity" for noise, unit in units.items()]
    laws = xarray.Variable("noise", titles)
    return shared.logarithmic(shared.lines_figure(
        xarray.concat(errors, laws, join="outer").assign_coords(noise=laws), "round", "mechanism",
        "noise", ylabel="standard deviation of a prefix sum",
        note=f"T = {horizon}. buffered lies within 1 % of square_root.",
    ), base=2)  # fmt: skip
