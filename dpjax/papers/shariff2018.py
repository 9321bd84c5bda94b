"""Shariff & Sheffet 2018: the authors' three experiments on private contextual LinUCB.

All learners are calibrated for n = 5e7 rounds, as in the paper, and play the first 10^6 of them.
Within these the Gaussian curves level off, while learners with Wishart noise still learn. Regret is
pseudo-regret in units of rewards -1 and 1.
"""

from typing import NamedTuple

import jax
import numpy as np
from jax import random as jr

from dpjax import environments, learners
from dpjax.analysis import bounds, plot, statistics
from dpjax.analysis.output import format_table, output_folder, write_csv, write_figure, write_json
from dpjax.learners.parts import gram_calibration, gram_noise
from dpjax.learners.parts.gram_calibration import Regularizer
from dpjax.papers._shared import computed_with, fill_log_band, log_checkpoints
from dpjax.papers.sweeps import sweep

HORIZON, QUICK_HORIZON = 1_000_000, 4000
TRIALS, QUICK_TRIALS = 8, 4
CALIBRATED = 50_000_000
DIM, EPSILON, DELTA = 5, 1.0, 0.1
GAPS = (0.0, 0.1)
SEED = 2018
DIMS = (4, 5, 6, 7, 8, 10, 11, 13, 16)

# These are read off the figures of the authors' notebook, or printed there.
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
COLORS = dict(
    zip(
        ("LinUCB", "Gaussian", "Wishart", "Wishart, unshifted", "Gaussian, tight"),
        plot.categorical(5),
        strict=True,
    )
)


class Run(NamedTuple):
    """One learner at one gap."""

    name: str
    gap: float
    floor: float  # rho_min
    rounds: np.ndarray  # (n,)
    regret: np.ndarray  # (trials, n)
    indefinite: int  # rounds of all trials whose matrix was not positive definite


def regularizer(noise, *, floor=None, shifted=True, tight=False) -> gram_calibration.Regularizer:
    """The regularizer of the experiment's calibration, in float64.

    With ``tight`` the noise is derived, and the norm bound is the tight one.
    """
    calibration = "derived" if tight else "code"
    given = {
        "epsilon": EPSILON, "delta": DELTA, "failure": 1.0 / CALIBRATED, "calibration": calibration,
        "shifted": shifted, "floor": floor,
    }  # fmt: skip
    with jax.enable_x64(True):
        bounds = gram_noise.Bounds(1.0, 1.0, 1.0)
        if noise == "wishart":
            drawn = gram_noise.wishart(CALIBRATED, DIM, bounds, **given)
        else:
            given["norm_bound"] = "tight" if tight else "paper"
            drawn = gram_noise.symmetric(CALIBRATED, DIM, bounds, **given)
    return Regularizer(*map(float, drawn.regularizer))


def _play(make, floors, gap, horizon, trials, progress):
    """Sweeps a learner over floors, and returns the Result."""

    def game(floor):
        learner = make(floor)._replace(horizon=horizon)
        return learner, environments.gap_arms(DIM, gap=gap)

    return sweep(
        game, np.array(floors, np.float32), trials, jr.key(SEED),
        checkpoints=log_checkpoints(horizon, 60), progress=progress,
    )  # fmt: skip


def play(gap, horizon, trials, *, progress=True) -> list[Run]:
    """Plays all learners of the second and third experiment at one gap.

    The shift changes nothing but the floor: unshifted Wishart noise is Wishart noise with a floor
    of its own. So each kind of noise is one sweep over floors.
    """

    def printed(noise):
        return lambda floor: learners.linucb(
            CALIBRATED, DIM, epsilon=EPSILON, delta=DELTA, noise=noise, floor=floor,
            calibration="code", norm_bound="paper",
        )  # fmt: skip

    def tight(floor):
        return learners.linucb(CALIBRATED, DIM, epsilon=EPSILON, delta=DELTA, floor=floor)

    def plain(floor):
        return learners.linucb(CALIBRATED, DIM, epsilon=np.inf, delta=DELTA, floor=floor)

    def named(noise, title):
        special = {title: regularizer(noise).smallest}
        if noise == "wishart":
            special["Wishart, unshifted"] = regularizer(noise, shifted=False).smallest
        return special

    jobs = [
        (plain, {"LinUCB": 1.0}, ()),
        (tight, {"Gaussian, tight": regularizer("gaussian", tight=True).smallest}, ()),
        (printed("gaussian"), named("gaussian", "Gaussian"), FLOORS),
        (printed("wishart"), named("wishart", "Wishart"), FLOORS),
    ]
    runs = []
    for (make, special, swept), noise in zip(jobs, ("", "", "gaussian", "wishart"), strict=True):
        floors = [*special.values(), *swept]
        result = _play(make, floors, gap, horizon, trials, progress)
        names = [*special, *[noise] * len(swept)]
        for i, (name, floor) in enumerate(zip(names, floors, strict=True)):
            bad = int(result.report.indefinite[i].sum())
            runs.append(Run(name, gap, floor, result.rounds, result.regret[i], bad))
    return runs


def play_scaling(dims, horizon, trials, *, progress=True) -> list[dict]:
    """Plays the first experiment: LinUCB without privacy, one row per dimension and loss."""
    rows = []
    for losses in PUBLISHED_SCALING:
        for dim in dims:

            def game(epsilon, dim=dim, losses=losses):
                bound = {"loss_bound": 10.0, "deviation": 1.0} if losses == "gaussian" else {}
                learner = learners.linucb(horizon, dim, epsilon=epsilon, delta=DELTA, **bound)
                return learner, environments.gap_arms(dim, gap=0.1, losses=losses)

            final = sweep(
                game, np.array([np.inf]), trials, jr.key(SEED), checkpoints=1, progress=progress
            ).regret[0, :, -1]
            factor, exponent = PUBLISHED_SCALING[losses]
            published = factor * dim**exponent
            rows.append(
                {
                    "losses": losses,
                    "dim": dim,
                    "horizon": horizon,
                    "mean": float(final.mean()),
                    "standard_error": float(statistics.standard_error(final)),
                    "published_fit": published,
                    "ratio": float(final.mean() / published),
                    "trials": trials,
                }
            )
    return rows


def _row(run, published) -> dict:
    final = run.regret[:, -1].astype(np.float64)
    return {
        "learner": run.name,
        "gap": run.gap,
        "floor": run.floor,
        "round": int(run.rounds[-1]),
        "mean": float(final.mean()),
        "standard_error": float(statistics.standard_error(final)),
        "published": published,
        "ratio": None if published is None else float(final.mean() / published),
        "indefinite": run.indefinite,
        "trials": len(final),
    }


def comparison_rows(runs) -> list[dict]:
    """Rows of the second experiment: regret beside the published regret at round 2e7."""
    return [
        _row(run, PUBLISHED_REGRET.get((run.name, run.gap))) for run in runs if run.name in COLORS
    ]


def floor_rows(runs) -> list[dict]:
    """Rows of the third experiment: regret per floor beside the published regret at round 5e7."""
    rows = []
    for noise in ("gaussian", "wishart"):
        for gap in sorted({run.gap for run in runs}):
            mine = [run for run in runs if (run.name, run.gap) == (noise, gap)]
            pairs = zip(mine, PUBLISHED_SWEEP[noise, gap], strict=True)
            rows += [_row(run, published) for run, published in pairs]
    return rows


def curve_rows(runs) -> list[dict]:
    """The means and standard errors that the first figure draws."""
    return [
        {"learner": run.name, "gap": run.gap, "floor": run.floor, "round": int(t),
         "mean": float(column.mean()), "standard_error": float(statistics.standard_error(column))}
        for run in runs
        for t, column in zip(run.rounds, run.regret.T, strict=True)
    ]  # fmt: skip


def _style(name) -> dict:
    """Both kinds of Wishart noise have nearly the same regret; dashes show the line beneath."""
    line = (0, (4, 3)) if name == "Wishart, unshifted" else "-"
    return {"color": COLORS[name], "linestyle": line, "label": name}


def comparison_figure(rows, trials):
    """Regret curves, one panel per gap, and the theorem's bounds in a panel of their own.

    Args:
      rows: of :func:`curve_rows`.
      trials: the number of trials behind each mean.
    """
    gaps = sorted({row["gap"] for row in rows})
    figure, axes = plot.panels(1, len(gaps) + 1, size=(5.0 * (len(gaps) + 1), 4.4))
    for panel, gap in zip(axes, gaps, strict=False):
        for name in dict.fromkeys(row["learner"] for row in rows if row["learner"] in COLORS):
            mine = [row for row in rows if (row["learner"], row["gap"]) == (name, gap)]
            t, mean, error = (
                np.array([row[key] for row in mine]) for key in ("round", "mean", "standard_error")
            )
            panel.plot(t, mean, **_style(name))
            low, high = mean - 1.96 * error, mean + 1.96 * error
            fill_log_band(panel, t, mean, low, high, COLORS[name])
        for (name, at), value in PUBLISHED_REGRET.items():
            if at == gap:
                mark = "+" if name == "Wishart, unshifted" else "x"
                panel.plot(
                    PUBLISHED_ROUND, value, mark, color=COLORS[name], markersize=7, clip_on=False
                )
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_xlim(right=1.5 * PUBLISHED_ROUND)
        plot.label_axes(panel, f"gap {gap:g}", ylabel="mean pseudo-regret")
    axes[0].legend(fontsize=8, frameon=False, handlelength=3)
    panel, t = axes[-1], np.geomspace(100, CALIBRATED, 100)
    cases = {
        "LinUCB": gram_calibration.Regularizer(1.0, 1.0, 1.0, 0.0),
        "Gaussian, tight": regularizer("gaussian", tight=True),
        "Gaussian": regularizer("gaussian"),
        "Wishart": regularizer("wishart"),
        "Wishart, unshifted": regularizer("wishart", shifted=False),
    }
    for name, made in cases.items():
        curve = bounds.linucb(t, DIM, *made[1:], mean_bound=0.75, failure=1.0 / CALIBRATED)
        panel.plot(t, curve, **_style(name))
    panel.plot(t, 1.5 * t, color="black", linestyle=":", label="1.5 t, the most there is")
    panel.set_xscale("log")
    panel.set_yscale("log")
    plot.label_axes(panel, "Theorem 5's upper bounds", ylabel="bound")
    panel.legend(fontsize=8, frameon=False, handlelength=3)
    figure.supxlabel(
        f"$\\epsilon$ = {EPSILON:g}, $\\delta$ = {DELTA:g}, calibrated for n = 5e7; "
        f"{trials} trials, 95 % bands. Crosses (upright: Wishart, unshifted): read off the "
        "published figure at round 2e7.",
        fontsize=8, x=0.01, horizontalalignment="left",
    )  # fmt: skip
    return figure


def floor_figure(rows):
    """Regret against the floor of the eigenvalues, measured and published."""
    gaps = sorted({row["gap"] for row in rows})
    figure, axes = plot.panels(1, len(gaps), size=(5.5 * len(gaps), 4.8))
    for panel, gap in zip(axes, gaps, strict=True):
        for noise, name in (("gaussian", "Gaussian"), ("wishart", "Wishart")):
            mine = [row for row in rows if (row["learner"], row["gap"]) == (noise, gap)]
            x, last = [row["floor"] for row in mine], mine[0]["round"]
            panel.errorbar(
                x, [row["mean"] for row in mine],
                yerr=[2.0 * row["standard_error"] for row in mine],
                color=COLORS[name], marker="o", markersize=3, label=f"{name}, round {last:g}",
            )  # fmt: skip
            published = [row["published"] for row in mine]
            panel.plot(
                x, published, "x--", color=COLORS[name], linewidth=0.8,
                label=f"{name}, published, round {CALIBRATED:g}",
            )  # fmt: skip
        panel.set_xscale("log")
        panel.set_yscale("log")
        plot.label_axes(panel, f"gap {gap:g}", xlabel="$\\rho_{min}$", ylabel="mean pseudo-regret")
    # The legend stands below both panels; inside one, it would cover the bars.
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=8,
        frameon=False, handlelength=4, title="Bars: two standard errors", title_fontsize=8,
    )  # fmt: skip
    return figure


def fits(rows) -> list[dict]:
    """Factor and exponent of regret in the dimension, by least squares of the logarithms."""
    made = []
    for losses, (factor, exponent) in PUBLISHED_SCALING.items():
        mine = [row for row in rows if row["losses"] == losses]
        x, y = np.log([row["dim"] for row in mine]), np.log([row["mean"] for row in mine])
        slope, start = np.polyfit(x, y, 1)
        made.append(
            {
                "losses": losses,
                "largest_dim": mine[-1]["dim"],
                "factor": float(np.exp(start)),
                "exponent": float(slope),
                "published_factor": factor,
                "published_exponent": exponent,
            }
        )
    return made


def scaling_figure(rows):
    """Regret without privacy against the dimension."""
    figure, (panel,) = plot.panels(1, 1, size=(5.5, 4.4))
    for losses, color in zip(
        PUBLISHED_SCALING, plot.categorical(len(PUBLISHED_SCALING)), strict=True
    ):
        mine = [row for row in rows if row["losses"] == losses]
        x = [row["dim"] for row in mine]
        panel.errorbar(
            x, [row["mean"] for row in mine], yerr=[2.0 * row["standard_error"] for row in mine],
            fmt="o", color=color, markersize=4, label=f"{losses} losses",
        )  # fmt: skip
        factor, exponent = PUBLISHED_SCALING[losses]
        grid = np.array([min(x), max(x)], np.float64)
        panel.plot(
            grid, factor * grid**exponent, "--", color=color,
            label=f"published fit {factor} $d^{{{exponent}}}$",
        )  # fmt: skip
    panel.set_xscale("log")
    panel.set_yscale("log")
    plot.ticks_at(panel.xaxis, [row["dim"] for row in rows])
    title = f"LinUCB without privacy, n = {rows[0]['horizon']:g}, gap 0.1; bars: 2 standard errors"
    plot.label_axes(panel, title, xlabel="dimension d", ylabel="mean pseudo-regret")
    panel.legend(fontsize=8, frameon=False)
    return figure


def parameters(horizon, trials, gaps, dims) -> dict:
    """Everything that the tables and figures depend on."""
    return {
        "horizon": horizon,
        "calibrated_for": CALIBRATED,
        "trials": trials,
        "dim": DIM,
        "epsilon": EPSILON,
        "delta": DELTA,
        "gaps": list(gaps),
        "floors": list(FLOORS),
        "scaling_horizon": scaling_horizon(horizon),
        "scaling_dims": list(dims),
        "key": f"jax.random.key({SEED})",
        **computed_with(),
    }


def scaling_horizon(horizon) -> int:
    """The horizon of the first experiment: a tenth, and so 1e5 at full size, as published."""
    return max(horizon // 10, 100)


def reproduce(out="results/shariff2018", *, horizon=HORIZON, trials=TRIALS, progress=True) -> str:
    """Runs the three experiments and writes figures, tables and parameters into ``out``.

    Files: shariff2018.png and .pdf (regret curves and bounds), shariff2018_floor and
    shariff2018_scaling likewise; shariff2018.csv (measured over published), shariff2018_curves.csv,
    shariff2018_floor.csv, shariff2018_scaling.csv, shariff2018_fits.csv; parameters.json.

    Args:
      out: folder, created if missing.
      horizon: rounds that are played, at least 1000, of the 5e7 that are calibrated for. Below
        100 000 only gap 0.1 and the two smallest dimensions are played.
      trials: at least 2.
      progress: whether to show progress bars.

    Returns:
      The printed summary.

    Raises:
      OSError: the folder cannot be written to.
      ValueError: too few trials, or too few or too many rounds.
    """
    if trials < 2 or not 1000 <= horizon <= CALIBRATED:
        raise ValueError(
            f"trials must be at least 2 and horizon from 1000 to {CALIBRATED}, "
            f"got {trials} and {horizon}"
        )
    short = horizon < 100_000
    gaps, dims = (GAPS[1:], DIMS[:2]) if short else (GAPS, DIMS)
    with output_folder(out) as folder:
        runs = [run for gap in gaps for run in play(gap, horizon, trials, progress=progress)]
        scaling = play_scaling(dims, scaling_horizon(horizon), trials, progress=progress)
        compared, swept, fitted = comparison_rows(runs), floor_rows(runs), fits(scaling)
        curves = curve_rows(runs)
        write_csv(folder / "shariff2018.csv", compared)
        write_csv(folder / "shariff2018_curves.csv", curves)
        write_csv(folder / "shariff2018_floor.csv", swept)
        write_csv(folder / "shariff2018_scaling.csv", scaling)
        write_csv(folder / "shariff2018_fits.csv", fitted)
        write_json(folder / "parameters.json", parameters(horizon, trials, gaps, dims))
    write_figure(out, "shariff2018", comparison_figure, curves, trials)
    write_figure(out, "shariff2018_floor", floor_figure, swept)
    write_figure(out, "shariff2018_scaling", scaling_figure, scaling)
    return "\n\n".join(map(format_table, (compared, swept, scaling, fitted)))
