"""Agarwal & Singh 2017, sections 1-3: when privacy is free with full information.

The paper has no experiment. This file asks what the title asks: for which epsilon is privacy free?
It plays experts, the sphere and the cube with the paper's calibration and ours, beside the paper's
baselines and later learners.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr

from dpjax import domains, environments, learners, mechanisms
from dpjax.analysis import bounds, plot, statistics
from dpjax.analysis.output import format_table, output_folder, write_csv, write_figure, write_json
from dpjax.combinators import arms_as_points
from dpjax.learners.hedge import plain_rate
from dpjax.papers._shared import computed_with
from dpjax.papers.sweeps import sweep
from dpjax.privacy import default_delta

HORIZON, QUICK_HORIZON = 2**14, 2**10
TRIALS, QUICK_TRIALS = 120, 24
DIM = 10
DIMS, QUICK_DIMS = (4, 8, 16, 32, 64), (4, 16)
EPSILONS = tuple(10.0 ** np.arange(-1.0, 3.01, 0.25))
BIAS = 0.2
SEED = 2017
MECHANISM_EPSILONS = (1.0, 10.0, 100.0)


class Instance(NamedTuple):
    """A decision set and its losses, as the paper pairs them."""

    domain: str  # name in dpjax.analysis.bounds
    make: Callable  # dim -> (Domain, LossSet)


INSTANCES = {
    "experts": Instance("simplex", lambda d: (domains.simplex(d), domains.box_losses(d))),
    "sphere": Instance("ball", lambda d: (domains.ball(d), domains.ball_losses(d))),
    "cube": Instance("cube", lambda d: (domains.cube(d), domains.l1_losses(d))),
}


def _ftrl(horizon, domain, losses, epsilon, identical_law=False, calibration="derived"):
    tree = partial(mechanisms.tree, identical_law=identical_law)
    return learners.ftrl(
        horizon, domain, losses=losses, epsilon=epsilon, mechanism=tree, calibration=calibration
    )


def _gaussian_ftrl(horizon, domain, losses, epsilon, mechanism=mechanisms.buffered):
    return learners.ftrl(
        horizon, domain, losses=losses, epsilon=epsilon, delta=default_delta(horizon),
        noise="gaussian", mechanism=mechanism,
    )  # fmt: skip


def _with_delta(factory):
    return lambda horizon, domain, losses, epsilon: factory(
        horizon, domain, losses=losses, epsilon=epsilon, delta=default_delta(horizon)
    )


def _private_ftal(horizon, domain, losses, epsilon):
    return learners.private_ftal(horizon, domain, losses=losses, epsilon=epsilon)


# (T, Domain, LossSet, epsilon) -> Learner
LEARNERS: dict[str, Callable] = {
    "FTRL": _ftrl,
    "FTRL, identical law": partial(_ftrl, identical_law=True),
    "FTRL, identical law, printed": partial(_ftrl, identical_law=True, calibration="printed"),
    "FTPL, Gaussian": _with_delta(learners.ftpl),
    "FTRL, Gaussian, buffered": _gaussian_ftrl,
    "private FTAL": _private_ftal,
    "noisy output gradient, Gaussian": _with_delta(learners.private_giga),
}


def _on_unit_losses(learner):
    """Shows the learner losses moved from [-1, 1] into [0, 1], where its calibration holds."""
    return learner._replace(feedback=lambda loss, action: (loss + 1.0) / 2.0)


def _dartboard(horizon, arms, epsilon):
    """The shrinking dartboard at the rate that gives it Hedge's law: (1 - eta)^L = exp(-eta' L)."""
    rate = -jnp.expm1(-plain_rate(horizon, arms))
    learner = learners.shrinking_dartboard(
        horizon, arms, epsilon=epsilon, delta=default_delta(horizon), rate=rate
    )
    return _on_unit_losses(learner)


# These play arms, so only the experts have them.
ARM_LEARNERS: dict[str, Callable] = {
    "Hedge, sampled": lambda horizon, arms, epsilon: _on_unit_losses(
        learners.hedge(horizon, arms, epsilon=epsilon, delta=default_delta(horizon))
    ),
    "shrinking dartboard": _dartboard,
}


# The paper's algorithm and the one that it improves on are played at several horizons.
HORIZON_LEARNERS = ("FTRL", "private FTAL")


class Run(NamedTuple):
    """One learner on one instance, at all privacy levels."""

    instance: str
    learner: str
    horizon: int
    dim: int
    epsilons: np.ndarray  # (P,), the last one inf
    privacy: list  # (P,) declarations
    regret: np.ndarray  # (P, trials), final
    nothing: np.ndarray  # (trials,), regret of always playing the centre


def play(
    instance, learner, horizon, trials, *, dim=DIM, epsilons=EPSILONS, make=None, chunk=None,
    progress=True,
) -> Run:  # fmt: skip
    """Plays a learner against i.i.d. losses at every epsilon and without privacy."""
    domain, losses = INSTANCES[instance].make(dim)
    environment = environments.linear_losses(domain, "iid", loss_set=losses, bias=BIAS)
    make = make or LEARNERS.get(learner)

    def game(epsilon):
        if make is not None:
            return make(horizon, domain, losses, epsilon), environment
        return ARM_LEARNERS[learner](horizon, dim, epsilon), arms_as_points(environment, dim)

    game.__name__ = learner
    points = np.array([*epsilons, np.inf], np.float32)
    result = sweep(
        game, points, trials, jr.key(SEED), checkpoints=1, chunk=chunk, progress=progress
    )
    # All points of a seed face the same losses.
    total = np.asarray(result.tally.loss[0], np.float64)
    best = np.asarray(jax.vmap(domain.minimizer)(total.astype(np.float32)), np.float64)
    nothing = total @ domain.centre - np.sum(total * best, axis=1)
    privacy = [game(point)[0].privacy for point in points]
    regret = np.asarray(result.regret[..., -1], np.float64)
    return Run(instance, learner, horizon, dim, points, privacy, regret, nothing)


def levels(run) -> list[dict]:
    """Final regret and what privacy costs, one row per privacy level."""
    rows = []
    for epsilon, privacy, regret in zip(run.epsilons, run.privacy, run.regret, strict=True):
        cost = statistics.paired_difference(regret, run.regret[-1])
        bound = None
        if run.learner == "FTRL, identical law":
            domain = INSTANCES[run.instance].domain
            bound = float(bounds.ftrl(run.horizon, run.dim, epsilon, domain=domain))
        rows.append(
            {
                "instance": run.instance,
                "learner": run.learner,
                "horizon": run.horizon,
                "dim": run.dim,
                "epsilon": float(epsilon),
                "delta": float(privacy.delta),
                "calibration": privacy.calibration,
                "regret": float(regret.mean()),
                "standard_error": float(statistics.standard_error(regret)),
                "cost": float(cost.mean),
                "cost_low": float(cost.low),
                "cost_high": float(cost.high),
                "centre": float(run.nothing.mean()),
                "bound": bound,
                "trials": len(regret),
            }
        )
    return rows


def free_table(runs) -> list[dict]:
    """The epsilon from which on privacy is free, one row per learner and instance."""
    rows = []
    for run in runs:
        point, low, high = statistics.resampled(
            run.regret.shape[1],
            lambda seeds, run=run: statistics.free_epsilon(run.epsilons, run.regret[:, seeds]),
        )
        rows.append(
            {
                "instance": run.instance,
                "learner": run.learner,
                "delta": float(run.privacy[0].delta),
                "without_privacy": float(run.regret[-1].mean()),
                "epsilon": point,
                "low": low,
                "high": high,
                "trials": run.regret.shape[1],
            }
        )
    return rows


def slope(x, cost, usable):
    """The slope of log mean cost over log x with its 95 % interval; nan below two usable points.

    Args:
      x: (n,).
      cost: (n, trials), what privacy cost.
      usable: (n,) bool, where the cost is above its noise and below all that can be lost.
    """
    if usable.sum() < 2:
        return float("nan"), float("nan"), float("nan")
    logs = np.log(np.asarray(x, np.float64)[usable])

    def fit(seeds):
        means = np.maximum(cost[usable][:, seeds].mean(axis=1), 1e-12)
        return np.polyfit(logs, np.log(means), 1)[0]

    return statistics.resampled(cost.shape[1], fit)


def _usable(cost, nothing):
    """Where the mean cost is above 4 standard errors and below a third of the centre's regret."""
    mean = cost.mean(axis=1)
    return (mean > 4 * statistics.standard_error(cost, axis=1)) & (mean < nothing / 3)


def readable(costs, nothing) -> int:
    """The index of the epsilon at which the costs of all learners are usable at most sizes.

    Of several such epsilons the first is taken.

    Args:
      costs: an array (sizes, P, trials) for each learner.
      nothing: an array (sizes,) for each learner, the centre's regret.
    """
    counts = np.array(
        [
            [_usable(cost[:, p], most).sum() for p in range(cost.shape[1])]
            for cost, most in zip(costs, nothing, strict=True)
        ]
    )
    return max(range(counts.shape[1]), key=lambda p: (counts[:, p].min(), counts[:, p].sum()))


def slopes(runs, by_horizon, by_dim) -> list[dict]:
    """Fitted exponents of what privacy costs, beside Table 1 of the paper.

    In 1 / epsilon each learner has its own range, where its cost can be read; in T and N all
    learners of an instance are compared at one epsilon.
    """
    printed = {"1/epsilon": "1", "N": "1 (experts: and ln N)", "T": "0 (and log^2 T)"}
    rows = []

    def add(instance, learner, variable, x, cost, nothing):
        usable = _usable(cost, nothing)
        point, low, high = slope(x, cost, usable)
        rows.append(
            {
                "instance": instance,
                "learner": learner,
                "variable": variable,
                "slope": float(point),
                "low": low,
                "high": high,
                "points": int(usable.sum()),
                "from": float(np.min(np.asarray(x, float)[usable], initial=np.inf)),
                "to": float(np.max(np.asarray(x, float)[usable], initial=-np.inf)),
                "printed": printed[variable] if learner.startswith("FTRL") else "",
            }
        )

    for run in runs:
        cost = run.regret[:-1] - run.regret[-1]
        nothing = np.full(len(cost), run.nothing.mean())
        add(run.instance, run.learner, "1/epsilon", 1 / run.epsilons[:-1], cost, nothing)
    for variable, groups in [("T", by_horizon), ("N", by_dim)]:
        for instance in dict.fromkeys(where for where, _ in groups):
            mine = {name: group for (where, name), group in groups.items() if where == instance}
            costs = [
                np.stack([run.regret[:-1] - run.regret[-1] for run in group])
                for group in mine.values()
            ]
            of_nothing = [
                np.array([run.nothing.mean() for run in group]) for group in mine.values()
            ]
            best = readable(costs, of_nothing)
            for (learner, group), cost, most in zip(mine.items(), costs, of_nothing, strict=True):
                x = [run.horizon if variable == "T" else run.dim for run in group]
                add(instance, learner, variable, x, cost[:, best], most)
                rows[-1]["epsilon"] = float(group[0].epsilons[best])
    for row in rows:
        row.setdefault("epsilon", None)
    return rows


def mechanism_runs(horizon, trials, *, progress=True) -> list[dict]:
    """Plays FTRL on the sphere with each mechanism: errors of sums and regret at equal privacy."""
    rows = []
    _, losses = INSTANCES["sphere"].make(DIM)
    for noise in ("laplace", "gaussian"):
        delta = default_delta(horizon) if noise == "gaussian" else None
        for name in mechanisms.__all__:
            mechanism = getattr(mechanisms, name)
            # With a Toeplitz factorization, Laplace noise grows with the square root of T.
            if name == "exact" or (noise == "laplace" and name in ("square_root", "buffered")):
                continue

            def make(
                horizon, domain, losses, epsilon, mechanism=mechanism, noise=noise, delta=delta
            ):
                return learners.ftrl(
                    horizon, domain, losses=losses, epsilon=epsilon, delta=delta, noise=noise,
                    mechanism=mechanism,
                )  # fmt: skip

            run = play(
                "sphere", f"FTRL, {name}", horizon, trials, epsilons=MECHANISM_EPSILONS, make=make,
                chunk=128, progress=progress,
            )  # fmt: skip
            built = mechanism(horizon, noise=noise)
            change = domains.sensitivity(losses, "replace", "round")[noise == "gaussian"]
            # Squared error of a coordinate at epsilon = 1 (Laplace) or mu = 1 (Gaussian).
            draws = 2.0 if noise == "laplace" else 1.0
            unit = (built.sensitivity[noise == "gaussian"] * change) ** 2 * draws
            variance = unit * built.variance()[1:]
            for row in levels(run)[:-1]:
                rows.append(
                    {
                        "mechanism": name,
                        "noise": noise,
                        "epsilon": row["epsilon"],
                        "delta": row["delta"],
                        "root_mean_square_error_at_1": float(np.sqrt(variance.mean())),
                        "largest_error_at_1": float(np.sqrt(variance.max())),
                        "regret": row["regret"],
                        "standard_error": row["standard_error"],
                        "without_privacy": float(run.regret[-1].mean()),
                        "trials": trials,
                    }
                )
    return rows


# Figures --------------------------------------------------------------------------------------

STYLES = {
    "FTRL": {"color": "tab:blue"},
    "FTRL, identical law": {"color": "tab:blue", "linestyle": "--"},
    "FTRL, identical law, printed": {"color": "tab:cyan", "linestyle": "--"},
    "FTPL, Gaussian": {"color": "tab:orange"},
    "FTRL, Gaussian, buffered": {"color": "tab:green"},
    "private FTAL": {"color": "tab:red"},
    "noisy output gradient, Gaussian": {"color": "tab:brown"},
    "Hedge, sampled": {"color": "tab:purple"},
    "shrinking dartboard": {"color": "tab:pink"},
}


def _bands(run):
    return [statistics.mean_band(regret) for regret in run.regret]


def figure(runs, by_horizon, horizon):
    """Regret against epsilon (above) and against T (below) on the three instances."""
    drawn, panels = plot.panels(2, 4, size=(16.0, 7.6))
    for column, (instance, about) in enumerate(INSTANCES.items()):
        axes = panels[column]
        mine = [run for run in runs if run.instance == instance]
        curves = []
        for run in mine:
            bands = _bands(run)[:-1]
            mean, low, high = (np.array([band[i] for band in bands]) for i in range(3))
            style = {**STYLES[run.learner], "marker": "o", "markersize": 2.5}
            curves.append(plot.Curve(run.learner, run.epsilons[:-1], mean, low, high, style))
        plain = mine[0].regret[-1].mean()
        curves += [
            _line("FTRL without privacy", mine[0].epsilons[:-1], plain, "black", "-"),
            _line("within 10 % of it", mine[0].epsilons[:-1], 1.1 * plain, "black", ":"),
            _line("always the centre", mine[0].epsilons[:-1], mine[0].nothing.mean(), "gray", "-."),
        ]
        epsilons = mine[0].epsilons[:-1].astype(np.float64)
        bound = bounds.ftrl(horizon, DIM, epsilons, domain=about.domain)
        style = {"color": "tab:blue", "linestyle": ":"}
        curves.append(
            plot.Curve("theorem's bound, our constants", epsilons, bound, None, None, style)
        )
        plot.draw_curves(axes, curves)
        plot.label_axes(axes, f"{instance}, T = {horizon}, N = {DIM}", xlabel="epsilon")
        axes.set_xscale("log")
        axes.set_yscale("log")
        least = min(run.regret.mean(axis=1).min() for run in mine)
        axes.set_ylim(0.7 * least, 2 * mine[0].nothing.mean())
        _draw_horizons(panels[4 + column], instance, by_horizon)
    for legend, source, note in [
        (panels[3], panels[0], _free_note(runs)),
        (panels[7], panels[4], "Above: final regret against i.i.d. losses, mean with 95 %\nbands. "
         f"{runs[0].regret.shape[1]} trials above, {_trials(by_horizon)} below. Gaussian noise: "
         "delta = T$^{-2}$;\nLaplace noise: pure. Neighbours: one round's losses replaced.\n"
         "Calibrations as we read them: the printed scale is half\nours under this reading, and "
         "right where a round is\nzeroed out or experts' losses lie in [0, 1]. Lines later in\n"
         "the legend are on top: FTRL at $\\epsilon$ = 100 lies under\nFTRL without privacy."),
    ]:  # fmt: skip
        legend.axis("off")
        handles, labels = source.get_legend_handles_labels()
        legend.legend(handles, labels, loc="upper left", fontsize=8, frameon=False, handlelength=4)
        legend.text(
            0.0, 0.0, note, transform=legend.transAxes, fontsize=8.5, verticalalignment="bottom"
        )
    return drawn


def _trials(by_horizon):
    return next(iter(by_horizon.values()))[0].regret.shape[1]


def _line(label, x, value, color, linestyle):
    style = {"color": color, "linestyle": linestyle, "linewidth": 1.0}
    return plot.Curve(label, x, np.full(len(x), value), None, None, style)


def _draw_horizons(axes, instance, by_horizon):
    curves = []
    for learner, linestyle in zip(HORIZON_LEARNERS, ("-", "--"), strict=False):
        group = by_horizon[instance, learner]
        horizons = [run.horizon for run in group]
        for epsilon in (1.0, 10.0, 100.0, np.inf):
            index = int(np.argmin(np.abs(1 / group[0].epsilons - 1 / epsilon)))
            bands = [statistics.mean_band(run.regret[index]) for run in group]
            mean, low, high = (np.array([band[i] for band in bands]) for i in range(3))
            level = "no privacy" if np.isinf(epsilon) else f"$\\epsilon$ = {epsilon:g}"
            style = {"color": plot.epsilon_color(epsilon), "linestyle": linestyle}
            curves.append(plot.Curve(f"{learner}, {level}", horizons, mean, low, high, style))
    plot.draw_curves(axes, curves)
    plot.label_axes(axes, f"{instance}, N = {DIM}", xlabel="horizon T")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")


def _free_note(runs):
    lines = [
        "Privacy is free (regret within 10 % of the same learner's",
        "without it) from epsilon =",
    ]
    for instance in INSTANCES:
        shown = []
        for name in ("FTRL", "FTRL, Gaussian, buffered"):
            (run,) = [run for run in runs if (run.instance, run.learner) == (instance, name)]
            value = statistics.free_epsilon(run.epsilons, run.regret)
            text = "beyond 1000" if np.isinf(value) else f"{value:.3g}"
            shown.append(f"{text} ({'Laplace tree' if name == 'FTRL' else 'Gaussian, buffered'})")
        lines.append(f"  {instance}: " + ", ".join(shown))
    return "\n".join(lines)


def frontier(group, share=0.5):
    """The epsilon at which mean regret is ``share`` of the centre's, one per horizon."""
    values = []
    for run in group:
        ratio = run.regret[:-1].mean(axis=1) / run.nothing.mean()
        above = np.flatnonzero(ratio > share)
        if not len(above) or above[-1] == len(ratio) - 1:
            values.append(np.nan)
            continue
        last = above[-1]
        part = (ratio[last] - share) / (ratio[last] - ratio[last + 1])
        logs = np.log(run.epsilons[[last, last + 1]].astype(np.float64))
        values.append(np.exp(logs[0] + part * (logs[1] - logs[0])))
    return np.array(values)


def map_figure(by_horizon):
    """A map of the (T, epsilon) where bounds on the cube are below T, with what was measured."""
    drawn, (axes,) = plot.panels(1, 1, size=(7.6, 5.2))
    horizons = 2.0 ** np.arange(6, 41)
    nodes = np.log2(horizons)
    before = np.sqrt(DIM / horizons)
    printed = DIM * nodes**2 / (horizons - np.sqrt(DIM * horizons))
    ours = 4 * np.sqrt(2) * DIM * np.ceil(nodes) ** 1.5 / (horizons - np.sqrt(DIM * horizons))
    curves = [
        plot.Curve("earlier bound, $\\sqrt{NT}/\\epsilon = T$", horizons, before, None, None,
                   {"color": "tab:red"}),
        plot.Curve("paper's bound, $\\sqrt{NT} + N \\log_2^2 T/\\epsilon = T$", horizons, printed,
                   None, None, {"color": "tab:blue"}),
        plot.Curve("the same with our constants", horizons, ours, None, None,
                   {"color": "tab:blue", "linestyle": ":"}),
    ]  # fmt: skip
    for learner in HORIZON_LEARNERS:
        group = by_horizon["cube", learner]
        style = {**STYLES[learner], "linestyle": "none", "marker": "o", "markersize": 4}
        label = f"{learner}: measured regret = half of the centre's"
        x = [run.horizon for run in group]
        curves.append(plot.Curve(label, x, frontier(group), None, None, style))
    plot.draw_curves(axes, curves)
    axes.fill_between(
        horizons, printed, before, where=before > printed, color="tab:blue", alpha=0.15
    )
    crossing = horizons[np.argmax(before > printed)]
    plot.label_axes(
        axes,
        f"Above its line a bound says something; cube, N = {DIM}, constants 1\n"
        f"Shaded: only the paper's does, from $T = 2^{{{int(np.log2(crossing))}}}$ on",
        xlabel="horizon T",
        ylabel="epsilon",
    )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.legend(fontsize=8, frameon=False)
    return drawn


def mechanism_figure(rows, horizon):
    """Error of each mechanism over the rounds, and the regret of FTRL with it."""
    drawn, panels = plot.panels(1, 3, size=(15.0, 4.6))
    colors = dict(zip(mechanisms.__all__, plot.categorical(len(mechanisms.__all__)), strict=True))
    for axes, noise, unit in [
        (panels[0], "laplace", "$\\epsilon$ = 1, unit L1 sensitivity"),
        (panels[1], "gaussian", "$\\mu$ = 1, unit L2 sensitivity"),
    ]:
        curves = []
        for name in mechanisms.__all__:
            if not any(row["mechanism"] == name and row["noise"] == noise for row in rows):
                continue
            built = getattr(mechanisms, name)(horizon, noise=noise)
            factor = (2**0.5 if noise == "laplace" else 1.0) * built.sensitivity[
                noise == "gaussian"
            ]
            t = np.unique(np.geomspace(1, horizon - 1, 400).astype(int))
            error = factor * np.sqrt(built.variance()[t])
            # It lies within 1 % of square_root, which would hide a thin line.
            width = 3.0 if name == "buffered" else 1.0
            style = {"color": colors[name], "linewidth": width}
            curves.append(plot.Curve(name, t, error, None, None, style))
        plot.draw_curves(axes, curves)
        title = f"{noise.title()} noise, {unit}"
        plot.label_axes(axes, title, ylabel="standard deviation of a prefix sum")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.legend(fontsize=7, frameon=False)
    axes = panels[2]
    for noise, linestyle in [("laplace", "-"), ("gaussian", "--")]:
        for name in mechanisms.__all__:
            mine = [row for row in rows if (row["mechanism"], row["noise"]) == (name, noise)]
            if not mine:
                continue
            mean = np.array([row["regret"] for row in mine])
            error = 1.96 * np.array([row["standard_error"] for row in mine])
            style = {"color": colors[name], "linestyle": linestyle, "marker": "o", "markersize": 3}
            style["linewidth"] = 3.0 if name == "buffered" else 1.4
            curve = plot.Curve(
                f"{name}, {noise.title()}", [row["epsilon"] for row in mine], mean, mean - error,
                mean + error, style,
            )  # fmt: skip
            plot.draw_curves(axes, [curve])
    plot.label_axes(
        axes,
        f"FTRL on the sphere, T = {horizon}, N = {DIM}\n"
        f"{rows[0]['trials']} trials; Gaussian: delta = T$^{{-2}}$",
        xlabel="epsilon",
    )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.legend(fontsize=7, frameon=False, ncols=2, handlelength=4)
    return drawn


def parameters(horizon, trials) -> dict:
    """Everything that the tables and figures depend on."""
    return {
        "horizon": horizon,
        "dim": DIM,
        "trials": trials,
        "epsilons": list(EPSILONS),
        "delta": default_delta(horizon),
        "bias": BIAS,
        "key": f"jax.random.key({SEED})",
        "resamples": 400,
        "neighbours": "replace",
        **computed_with(),
    }


def horizons(horizon) -> list[int]:
    """The horizons at which regret is followed: 2^8, 2^10, ... up to 4 T."""
    return [2**i for i in range(8, 31, 2) if 2**i <= 4 * horizon]


def reproduce(out="results/agarwal2017", *, horizon=HORIZON, trials=TRIALS, progress=True) -> str:
    """Runs everything and writes figures, tables and parameters into the folder ``out``.

    Files: agarwal2017.png and .pdf (regret against epsilon and T), agarwal2017_map.png and .pdf,
    agarwal2017_mechanisms.png, .pdf and .csv; agarwal2017.csv (all final regrets),
    agarwal2017_free.csv (the epsilon from which privacy is free), agarwal2017_slopes.csv;
    parameters.json.

    Args:
      out: folder, created if missing.
      horizon: T, rounds; horizons up to 4 T are played too.
      trials: at least 4.
      progress: whether to show progress bars.

    Returns:
      The printed summary: the table of free epsilons, the slopes and the mechanisms.

    Raises:
      OSError: the folder cannot be written to.
      ValueError: too few trials.
    """
    if trials < 4:
        raise ValueError(f"trials must be at least 4, got {trials}")
    fewer = max(4, trials // 2)
    dims = DIMS if horizon >= HORIZON else QUICK_DIMS
    with output_folder(out) as folder:
        runs, by_horizon, by_dim = [], {}, {}
        for instance in INSTANCES:
            names = [*LEARNERS, *(ARM_LEARNERS if instance == "experts" else [])]
            for name in names:
                runs.append(play(instance, name, horizon, trials, progress=progress))
            for name in HORIZON_LEARNERS:
                by_horizon[instance, name] = [
                    play(instance, name, length, fewer, progress=progress)
                    for length in horizons(horizon)
                ]
            by_dim[instance, "FTRL"] = [
                play(instance, "FTRL", horizon, fewer, dim=dim, progress=progress) for dim in dims
            ]
        mechanism_rows = mechanism_runs(horizon, fewer, progress=progress)
        everything = [*runs, *(run for group in by_horizon.values() for run in group),
                      *(run for group in by_dim.values() for run in group)]  # fmt: skip
        free_rows, slope_rows = free_table(runs), slopes(runs, by_horizon, by_dim)
        write_csv(folder / "agarwal2017.csv", [row for run in everything for row in levels(run)])
        write_csv(folder / "agarwal2017_free.csv", free_rows)
        write_csv(folder / "agarwal2017_slopes.csv", slope_rows)
        write_csv(folder / "agarwal2017_mechanisms.csv", mechanism_rows)
        write_json(folder / "parameters.json", parameters(horizon, trials))
    write_figure(out, "agarwal2017", figure, runs, by_horizon, horizon)
    write_figure(out, "agarwal2017_map", map_figure, by_horizon)
    write_figure(out, "agarwal2017_mechanisms", mechanism_figure, mechanism_rows, horizon)
    return "\n\n".join(format_table(rows) for rows in (free_rows, slope_rows, mechanism_rows))
