"""Ene, Nguyen & Vladu 2021: how well PRIVATEBANDIT learns, and what its privacy costs.

The paper has no experiment. This file measures its regret under three calibrations of the noise
against T, the dimension and epsilon, on a ball, a matroid base polytope and the paths of a graph.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax import random as jr

from dpjax import domains, environments, learners, mechanisms
from dpjax.analysis import plot, statistics
from dpjax.analysis.output import format_table, output_folder, write_csv, write_figure, write_json
from dpjax.core import Learner, Privacy
from dpjax.feedback import value
from dpjax.learners.parts.one_point import directions
from dpjax.learners.projection_free import printed_scale, smoothing_radius, step_size
from dpjax.papers._shared import computed_with
from dpjax.papers.sweeps import sweep
from dpjax.privacy import default_delta
from dpjax.simulate import one_round, start

HORIZON, QUICK_HORIZON = 2**14, 2**10
TRIALS, QUICK_TRIALS = 48, 8
EPSILONS = tuple(10.0 ** np.arange(-2.0, 3.01, 0.5))
DIMS, QUICK_DIMS = (2, 4, 8, 16, 32), (2, 8)
RATES = (1.0, 1 / 64, 1 / 4096)  # times the default rate
CALIBRATIONS = ("single_change", "batch_norm", "printed")
BIAS = 2.0
SEED = 2021


def grid_graph(side) -> list[tuple[int, int]]:
    """Edges to the right and down of a square grid of nodes."""
    right = [(side * i + j, side * i + j + 1) for i in range(side) for j in range(side - 1)]
    down = [(side * i + j, side * i + j + side) for i in range(side - 1) for j in range(side)]
    return right + down


class Instance(NamedTuple):
    """A decision set; losses are unit vectors in R^d, so that L = 1."""

    make: Callable  # dim -> Domain
    title: str


INSTANCES = {
    "ball": Instance(lambda dim: domains.ball(5 if dim is None else dim), "ball, n = 5"),
    "matroid": Instance(lambda _: domains.capped_simplex(8, 3), "3 of 8 (matroid bases), n = 7"),
    "paths": Instance(lambda _: domains.paths(grid_graph(3), 0, 8), "paths, 3 x 3 grid, n = 4"),
}
COLORS = {
    "none": "black",
    **dict(zip(CALIBRATIONS, plot.categorical(3), strict=True)),
    "centre": "0.6",
}
LABELS = {
    "none": "no noise",
    "single_change": "single change (ours)",
    "batch_norm": "whole batch",
    "printed": "as printed",
}


class Point(NamedTuple):
    """What is played: a calibration at an epsilon, and a multiple of the default rate."""

    calibration: str  # "none", or as of the learner
    epsilon: float
    rate: float = 1.0


class Run(NamedTuple):
    """One instance and horizon at several points, all against the same losses."""

    instance: str
    noise: str
    horizon: int
    dim: int  # n
    points: tuple[Point, ...]
    scales: tuple[float, ...]  # of the noise of a node
    regret: np.ndarray | None  # (points, trials), final; None where nothing was played
    centre: float  # mean regret of the centre, the best point without data
    gradient: float  # mean length of the mean loss vector in the hull
    distance: float  # largest certified distance of a base from its minimizer


def delta_of(horizon, noise):
    """T^-2 for Gaussian noise, None for Laplace noise."""
    return default_delta(horizon) if noise == "gaussian" else None


def noise_scale(domain, horizon, noise, calibration, epsilon) -> float:
    """The scale of a node's noise on the tree."""
    if calibration == "none":
        return 0.0
    delta = delta_of(horizon, noise)
    if calibration == "printed":
        return float(printed_scale(horizon, directions(domain).dim, 1.0, epsilon, delta))
    asked = []

    def spy(length, *, noise):
        tree = mechanisms.tree(length, noise=noise)

        def stream(shape, *, scale):
            asked.append(float(scale))
            return tree.stream(shape, scale=scale)

        return tree._replace(stream=stream)

    learners.projection_free(
        horizon, domain, epsilon=epsilon, delta=delta, noise=noise, lipschitz=1.0,
        mechanism=spy, calibration=calibration,
    )  # fmt: skip
    return asked[0]


def scaled(horizon, domain, noise, scale, rate) -> Learner:
    """PRIVATEBANDIT with noise of a given scale, so that one program plays all calibrations."""

    def mechanism(length, *, noise):
        # The given scale replaces the one that the learner asks for.
        tree = mechanisms.tree(length, noise=noise)
        return tree._replace(stream=lambda shape, **_: tree.stream(shape, scale=scale))

    make = partial(
        learners.projection_free, horizon, domain, epsilon=1.0, delta=delta_of(horizon, noise),
        noise=noise, lipschitz=1.0, mechanism=mechanism,
    )  # fmt: skip
    return make(rate=rate * default_rate(horizon, domain))


def default_rate(horizon, domain) -> float:
    """The learner's default rate for signed losses with L = 1."""
    n, batch = directions(domain).dim, int(horizon**0.5)
    zeta = smoothing_radius(horizon, domain.diameter, n)
    bound = domain.diameter + zeta
    return step_size(-(-horizon // batch), batch, domain.diameter, n, zeta, bound, 1.0)


def play(instance, noise, horizon, points, trials, *, dim=None, progress=True) -> Run:
    """Sweeps over points; losses are unit vectors that lean to a direction drawn for each trial."""
    domain = INSTANCES[instance].make(dim)
    scales = tuple(
        noise_scale(domain, horizon, noise, point.calibration, point.epsilon) for point in points
    )

    def game(point):
        learner = scaled(horizon, domain, noise, point["scale"], point["rate"])
        return learner, environments.linear_losses(
            domain, "iid", loss_set=domains.ball_losses(domain.dim), bias=BIAS
        )

    swept = {
        "scale": np.array(scales, np.float32),
        "rate": np.array([point.rate for point in points], np.float32),
    }
    result = sweep(game, swept, trials, jr.key(SEED), checkpoints=1, progress=progress)
    assert not result.report.clipped.any()
    total = np.asarray(result.tally.loss[0], np.float64)
    best = np.asarray(jax.jit(jax.vmap(domain.minimizer))(total.astype(np.float32)), np.float64)
    hull = np.eye(domain.dim) if domain.tangent is None else domain.tangent
    return Run(
        instance, noise, horizon, hull.shape[1], tuple(points), scales,
        result.regret[..., -1].astype(np.float64),
        float(np.sum(total * (domain.centre - best), axis=1).mean()),
        float(np.linalg.norm(total @ hull, axis=1).mean() / horizon),
        float(result.report.distance.max()),
    )  # fmt: skip


def index_of(run, calibration, epsilon=None, rate=1.0) -> int:
    """The place of a point in a run."""
    for i, point in enumerate(run.points):
        same = epsilon is None or calibration == "none" or np.isclose(point.epsilon, epsilon)
        if point.calibration == calibration and point.rate == rate and same:
            return i
    raise ValueError(f"calibration: {calibration}, {epsilon}, {rate} was not played")


def regret_of(run, calibration, epsilon=None, rate=1.0) -> np.ndarray:
    """The final regrets (trials,) of a point in a run."""
    return run.regret[index_of(run, calibration, epsilon, rate)]


def best_rate(run, calibration) -> float:
    """The rate with the least mean regret in hindsight, of those that were played."""
    return min(RATES, key=lambda rate: regret_of(run, calibration, None, rate).mean())


def rows_of(run) -> list[dict]:
    """Final regrets, one row per point."""
    plain = regret_of(run, "none")
    return [
        {
            "instance": run.instance,
            "noise": run.noise,
            "calibration": point.calibration,
            "epsilon": float("inf") if point.calibration == "none" else point.epsilon,
            "rate": point.rate,
            "horizon": run.horizon,
            "dim": run.dim,
            "scale": scale,
            "regret": float(regret.mean()),
            "standard_error": float(statistics.standard_error(regret)),
            "centre": run.centre,
            "over_no_noise": float(regret.mean() / plain.mean()),
            "signal_to_noise": signal_to_noise(run, scale),
            "certified_distance": run.distance,
            "trials": len(regret),
        }
        for point, scale, regret in zip(run.points, run.scales, run.regret, strict=True)
    ]


def signal_to_noise(run, scale) -> float:
    """The length of the summed gradients at the end over that of their noise, by formula."""
    if scale == 0.0:
        return float("inf")
    nodes = np.log2(run.horizon) / 4  # half of the levels of sqrt T leaves, on average
    variance = (2.0 if run.noise == "laplace" else 1.0) * nodes * run.dim
    return float(run.horizon * run.gradient / (scale * np.sqrt(variance)))


def break_even(instance, noise, calibration, gradient, epsilon=1.0) -> float:
    """The least T, up to a factor of 4, at which :func:`signal_to_noise` is above 1.

    It is nan where there is none up to 2^60 for the printed noise, or up to 2^30 for the others.
    """
    domain = INSTANCES[instance].make(None)
    n = directions(domain).dim
    for power in range(4, 62, 2):
        horizon = 2**power
        if calibration == "printed":
            scale = noise_scale(domain, horizon, noise, "printed", epsilon)
        elif power <= 30:
            scale = noise_scale(domain, horizon, noise, calibration, epsilon)
        else:
            return float("nan")
        run = Run(instance, noise, horizon, n, (), (), None, 0.0, gradient, 0.0)
        if signal_to_noise(run, scale) > 1.0:
            return float(horizon)
    return float("nan")


# --- exponents ---


def slope(x, regrets):
    """Slope of log mean regret over log x, with its 95 % interval over resampled trials."""
    logs = np.log(np.asarray(x, np.float64))

    def fit(trials):
        means = np.array([regret[trials].mean() for regret in regrets])
        if (means <= 0).any():
            return float("nan")
        return np.polyfit(logs, np.log(means), 1)[0]

    return statistics.resampled(len(regrets[0]), fit)


def slope_rows(by_horizon, by_dim, by_epsilon) -> list[dict]:
    """Fitted exponents beside those of the paper, and those of what the noise costs."""
    rows = []

    def add(instance, noise, what, variable, x, regrets, paper, usable):
        chosen = [i for i in range(len(x)) if usable[i]]
        enough = len(chosen) >= 2
        value_, low, high = (
            slope([x[i] for i in chosen], [regrets[i] for i in chosen])
            if enough
            else (float("nan"),) * 3
        )
        rows.append(
            {
                "instance": instance,
                "noise": noise,
                "calibration": what,
                "variable": variable,
                "slope": value_,
                "low": low,
                "high": high,
                "paper": paper,
                "points": len(chosen),
            }
        )

    for (instance, noise), runs in by_horizon.items():
        x = [run.horizon for run in runs]
        for name in ("none", *CALIBRATIONS):
            regrets = [regret_of(run, name) for run in runs]
            # Where nothing is learned, every algorithm has the exponent 1.
            usable = [r.mean() < 0.5 * run.centre for r, run in zip(regrets, runs, strict=True)]
            add(instance, noise, name, "T", x, regrets, 0.75, usable)
        cost = [regret_of(run, "single_change") - regret_of(run, "none") for run in runs]
        usable = [
            regret_of(run, "single_change").mean() < 0.5 * run.centre
            and c.mean() > 4 * statistics.standard_error(c)
            for c, run in zip(cost, runs, strict=True)
        ]
        add(instance, noise, "single_change less none", "T", x, cost, 0.5, usable)
    for name in ("none", "single_change"):
        regrets = [regret_of(run, name) for run in by_dim]
        usable = [r.mean() < 0.5 * run.centre for r, run in zip(regrets, by_dim, strict=True)]
        add("ball", "gaussian", name, "n", [run.dim for run in by_dim], regrets, 0.5, usable)
    for run in by_epsilon:
        levels = [e for e in EPSILONS if e <= 10.0]
        plain = regret_of(run, "none")
        cost = [regret_of(run, "single_change", e) - plain for e in levels]
        usable = [
            regret_of(run, "single_change", e).mean() < 0.5 * run.centre
            and c.mean() > 4 * statistics.standard_error(c)
            for c, e in zip(cost, levels, strict=True)
        ]
        inverse = [1 / e for e in levels]
        add(run.instance, run.noise, "single_change less none", "1/epsilon", inverse, cost, 1.0,
            usable)  # fmt: skip
    return rows


# --- baselines ---


def resting(horizon, domain) -> Learner:
    """A learner that always plays the centre, the best point without data."""
    centre, nothing = jnp.asarray(domain.centre, jnp.float32), jnp.zeros((), jnp.float32)
    return Learner(
        init=lambda key: (nothing, centre),
        step=lambda state, key, seen: (state, centre),
        feedback=value,
        action_set=domain,
        horizon=horizon,
        privacy=Privacy(),
    )


def _private(factory, **keywords):
    """A function (horizon, domain, epsilon) that makes a learner with Gaussian noise."""

    def make(horizon, domain, epsilon):
        return factory(
            horizon, domain, epsilon=epsilon, noise="gaussian",
            delta=delta_of(horizon, "gaussian"), lipschitz=1.0, **keywords,
        )  # fmt: skip

    return make


# Each has a function (horizon, domain, epsilon) -> Learner, and the epsilons that it plays at.
BASELINES = {
    "the centre": (lambda horizon, domain, _: resting(horizon, domain), (np.inf,)),
    "Flaxman et al., projected": (
        lambda horizon, domain, _: learners.one_point_gradient(horizon, domain, lipschitz=1.0),
        (np.inf,),
    ),
    "PRIVATEBANDIT": (_private(learners.projection_free), (1.0, np.inf)),
    "PRIVATEBANDIT, buffered": (
        _private(learners.projection_free, mechanism=mechanisms.buffered), (1.0,),
    ),
    "ST13-style, projected": (_private(learners.private_one_point), (1.0, np.inf)),
}  # fmt: skip


def play_baselines(instances, horizon, trials, *, progress=True) -> list[dict]:
    """Plays learners with and without projections, with and without privacy, at one horizon."""
    rows = []
    for instance in instances:
        domain = INSTANCES[instance].make(None)
        for name, (make, epsilons) in BASELINES.items():

            def game(epsilon, make=make, domain=domain):
                return make(horizon, domain, epsilon), environments.linear_losses(
                    domain, "iid", loss_set=domains.ball_losses(domain.dim), bias=BIAS
                )

            game.__name__ = name
            result = sweep(
                game, np.array(epsilons), trials, jr.key(SEED), checkpoints=1, progress=progress
            )
            for epsilon, regret in zip(epsilons, result.regret[..., -1], strict=True):
                final = regret.astype(np.float64)
                rows.append(
                    {
                        "instance": instance,
                        "learner": name,
                        "epsilon": epsilon,
                        "horizon": horizon,
                        "regret": float(final.mean()),
                        "standard_error": float(statistics.standard_error(final)),
                        "trials": trials,
                    }
                )
    return rows


# --- private routes ---

SIDE = 4
WIDTH = 8  # of the line of a flow of 1, in points


def routes(horizon, epsilon=1.0):
    """The mean flow around which a learner plays, in four windows, for each calibration.

    Returns:
      {calibration: flows (4, d)}, and the best route in hindsight (d,).
    """
    domain = domains.paths(grid_graph(SIDE), 0, SIDE * SIDE - 1)
    delays = environments.linear_losses(
        domain, "iid", loss_set=domains.ball_losses(domain.dim), bias=BIAS
    )
    names = ("none", "single_change", "printed")
    scales = jnp.array([noise_scale(domain, horizon, "gaussian", n, epsilon) for n in names])
    window = horizon // 4

    @jax.jit
    @jax.vmap
    def run(scale):
        learner = scaled(horizon, domain, "gaussian", scale, 1.0)
        keys, states = start(learner, delays, jr.key(SEED))

        def summed(t, carry):
            states, flow, loss = carry
            flow = flow + states[0].base
            states, played = one_round(learner, delays, keys, t, states)
            return states, flow, loss + played.outcome.loss

        def one_window(carry, first):
            states, loss = carry
            carry = (states, jnp.zeros(domain.dim), loss)
            states, flow, loss = lax.fori_loop(first, first + window, summed, carry)
            return (states, loss), flow / window

        carry = (states, jnp.zeros(domain.dim))
        (_, loss), flows = lax.scan(one_window, carry, 1 + window * jnp.arange(4))
        return flows, domain.minimizer(loss)

    flows, best = jax.device_get(run(scales))
    return dict(zip(names, flows, strict=True)), best[0]


def routes_figure(horizon, epsilon=1.0):
    """Draws the graph for each calibration and window, and marks the best route in hindsight."""
    flows, best = routes(horizon, epsilon)
    edges = np.array(grid_graph(SIDE))
    drawn, panels = plot.panels(len(flows), 4, size=(11.0, 8.2))
    for row, (name, windows) in enumerate(flows.items()):
        for column in range(4):
            axes = panels[4 * row + column]
            for e, (a, b) in enumerate(edges):
                x, y = [a % SIDE, b % SIDE], [-(a // SIDE), -(b // SIDE)]
                if best[e] > 0.5:
                    axes.plot(x, y, color="tab:orange", linewidth=13, alpha=0.35, zorder=0)
                axes.plot(x, y, color="0.85", linewidth=0.8, zorder=1)
                width = float(windows[column][e])
                axes.plot(x, y, color=COLORS[name], linewidth=WIDTH * width, alpha=0.8, zorder=2)
            nodes = np.arange(SIDE * SIDE)
            axes.plot(nodes % SIDE, -(nodes // SIDE), "o", color="white", markersize=5, zorder=3,
                      markeredgecolor="0.3")  # fmt: skip
            axes.set_aspect("equal")
            axes.axis("off")
            part = f"rounds {column * horizon // 4 + 1} to {(column + 1) * horizon // 4}"
            level = LABELS[name] + ("" if name == "none" else f", $\\epsilon$ = {epsilon:g}")
            axes.set_title(f"{level}\n{part}", fontsize=8)
            for word, corner, shift in (("from", 0, 9), ("to", SIDE - 1, -15)):
                axes.annotate(
                    word, (corner, -corner), xytext=(0, shift), textcoords="offset points",
                    fontsize=7, horizontalalignment="center",
                )  # fmt: skip
    drawn.suptitle(
        "Mean flow, the share of each road in what is played around, in four windows of one trial\n"
        f"Gaussian noise, T = {horizon}, delta = T$^{{-2}}$; the vector of all roads' delays has "
        "length 1 in each round", fontsize=9,
    )  # fmt: skip
    for flow in (0.25, 0.5, 1.0):
        panels[0].plot([], [], color="0.3", linewidth=WIDTH * flow, label=f"flow {flow:g}")
    best_style = {"color": "tab:orange", "linewidth": 13, "alpha": 0.35}
    panels[0].plot([], [], **best_style, label="  best route in hindsight")
    drawn.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8,
        frameon=False, handlelength=3,
    )  # fmt: skip
    return drawn


# --- the figure ---


def _curve(name, x, regrets) -> plot.Curve:
    """Mean regret of a calibration with its 95 % band, from one (trials,) at each x."""
    bands = [statistics.mean_band(regret) for regret in regrets]
    mean, low, high = (np.array([band[i] for band in bands]) for i in range(3))
    style = {"color": COLORS[name], "marker": "o", "markersize": 3}
    return plot.Curve(LABELS[name], x, mean, low, high, style)


def _cost_panel(axes, by_horizon) -> None:
    """Regret with noise for a single change over that without noise, against T."""
    for (instance, noise), runs in by_horizon.items():
        x, ratio = [], []
        for run in runs:
            x.append(run.horizon)
            private, plain = regret_of(run, "single_change"), regret_of(run, "none")
            ratio.append(private.mean() / plain.mean())
        style = "-" if noise == "gaussian" else "--"
        axes.plot(x, ratio, style, marker="o", markersize=3, label=f"{instance}, {noise.title()}")
    axes.axhline(1.0, color="0.5", linewidth=0.8)
    plot.label_axes(
        axes, "single change at $\\epsilon$ = 1", xlabel="horizon T",
        ylabel="regret over that without noise",
    )  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.legend(fontsize=7, frameon=False, handlelength=4)


def figure(by_horizon, by_dim, by_epsilon, horizon):
    """Regret against T (above) and epsilon (below); what noise costs, and dimension (right)."""
    drawn, panels = plot.panels(2, 4, size=(17.0, 8.4))
    for column, instance in enumerate(INSTANCES):
        runs = by_horizon[instance, "gaussian"]
        x = np.array([run.horizon for run in runs])
        axes = panels[column]
        for name in ("none", *CALIBRATIONS):
            plot.draw_curves(axes, [_curve(name, x, [regret_of(run, name) for run in runs])])
            if name != "none":
                best = [regret_of(run, name, None, best_rate(run, name)).mean() for run in runs]
                axes.plot(x, best, color=COLORS[name], linestyle="--", linewidth=0.9)
        axes.plot(x, [run.centre for run in runs], color=COLORS["centre"], label="centre")
        guide = regret_of(runs[-1], "none").mean() * (x / x[-1]) ** 0.75
        axes.plot(x, guide, color="0.4", linestyle=":", label="$T^{3/4}$")
        plot.label_axes(axes, f"{INSTANCES[instance].title}, $\\epsilon$ = 1", xlabel="horizon T")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes = panels[4 + column]
        (run,) = [run for run in by_epsilon if run.instance == instance]
        for name in CALIBRATIONS:
            regrets = [regret_of(run, name, e) for e in EPSILONS]
            plot.draw_curves(axes, [_curve(name, EPSILONS, regrets)])
        axes.axhline(regret_of(run, "none").mean(), color=COLORS["none"])
        axes.axhline(run.centre, color=COLORS["centre"])
        title = f"{INSTANCES[instance].title}, T = {horizon}"
        plot.label_axes(axes, title, xlabel="$\\epsilon$")
        axes.set_xscale("log")
        axes.set_yscale("log")
    panels[0].legend(fontsize=7, frameon=False, handlelength=3)
    _cost_panel(panels[3], by_horizon)
    axes = panels[7]
    for name in ("none", *CALIBRATIONS):
        mean = [regret_of(run, name).mean() for run in by_dim]
        axes.plot([run.dim for run in by_dim], mean, color=COLORS[name], marker="o", markersize=3)
    axes.plot([run.dim for run in by_dim], [run.centre for run in by_dim], color=COLORS["centre"])
    plot.label_axes(axes, f"ball, $\\epsilon$ = 1, T = {by_dim[0].horizon}", xlabel="dimension n")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    trials = by_epsilon[0].regret.shape[1]
    drawn.suptitle(
        "Final regret, mean with 95 % bands, of PRIVATEBANDIT, Gaussian noise, delta = T$^{-2}$,"
        f" signed losses, {trials} trials below and {len(runs[0].regret[0])} above. Dashed above: "
        "the best of three rates in hindsight.\nWhere a calibration learns nothing its line lies "
        "on that of the centre.", fontsize=9,
    )  # fmt: skip
    return drawn


# --- everything ---


def horizons(horizon) -> list[int]:
    """2^8, 2^10, ... up to 16 T."""
    return [2**i for i in range(8, 31, 2) if 2**i <= 16 * horizon]


def verdict(by_horizon) -> str:
    """Says in numbers whether it learns and what privacy costs, per instance and noise."""
    lines = []
    for (instance, noise), runs in by_horizon.items():
        largest = runs[-1]
        rate = best_rate(largest, "printed")
        printed = regret_of(largest, "printed", None, rate).mean() / largest.centre
        first, last = (
            regret_of(run, "single_change").mean() / regret_of(run, "none").mean()
            for run in (runs[len(runs) // 2], largest)
        )
        start = break_even(instance, noise, "printed", largest.gradient)
        lines.append(
            f"{instance}, {noise}: with the printed noise regret at T = {largest.horizon} is "
            f"{printed:.3g} of the centre's (best of {len(RATES)} rates); by formula its signal "
            f"passes its noise near T = {start:.1e}. With single_change regret over that without "
            f"noise is {first:.3g} at T = {runs[len(runs) // 2].horizon} and {last:.3g} at "
            f"T = {largest.horizon}."
        )
    return "\n".join(lines)


def parameters(horizon, trials) -> dict:
    """Everything that the tables and figures depend on."""
    return {
        "horizon": horizon,
        "trials": trials,
        "epsilons": list(EPSILONS),
        "rates": list(RATES),
        "delta": "T^-2 for Gaussian noise",
        "bias": BIAS,
        "key": f"jax.random.key({SEED})",
        "resamples": 400,
        "neighbours": "replace",
        **computed_with(),
    }


def reproduce(out="results/ene2021", *, horizon=HORIZON, trials=TRIALS, progress=True) -> str:
    """Runs everything and writes figures, tables and parameters into the folder ``out``.

    Files: ene2021.png and .pdf, ene2021_routes.png and .pdf, ene2021.csv (all final regrets),
    ene2021_slopes.csv, ene2021_baselines.csv, parameters.json.

    Args:
      out: folder, created if missing.
      horizon: T, rounds; horizons up to 16 T are played too.
      trials: at least 4; half as many for the curves against T and n.
      progress: whether to show progress bars.

    Returns:
      The printed summary: the answers, the slopes and the baselines.

    Raises:
      OSError: the folder cannot be written to.
      ValueError: too few trials.
    """
    if trials < 4:
        raise ValueError(f"trials must be at least 4, got {trials}")
    fewer = max(4, trials // 2)
    quick = horizon < HORIZON
    at_one = [Point("none", np.inf), *(Point(c, 1.0, r) for c in CALIBRATIONS for r in RATES)]
    at_all = [Point("none", np.inf), *(Point(c, e) for c in CALIBRATIONS for e in EPSILONS)]
    lengths = horizons(horizon)[-3:-1] if quick else horizons(horizon)
    with output_folder(out) as folder:
        by_horizon: dict[tuple[str, str], Any] = {}
        kinds = [(name, "gaussian") for name in INSTANCES]
        for instance, noise in kinds if quick else [*kinds, ("ball", "laplace")]:
            by_horizon[instance, noise] = [
                play(instance, noise, length, at_one, fewer, progress=progress)
                for length in lengths
            ]
        by_epsilon = [
            play(instance, "gaussian", horizon, at_all, trials, progress=progress)
            for instance in INSTANCES
        ]
        by_dim = [
            play("ball", "gaussian", horizon, at_one, fewer, dim=dim, progress=progress)
            for dim in (QUICK_DIMS if quick else DIMS)
        ]
        # Projections onto paths are too slow for the learners that project.
        projected = ("ball",) if quick else ("ball", "matroid")
        baselines = play_baselines(projected, horizon, trials, progress=progress)
        everything = [*by_epsilon, *by_dim, *(run for runs in by_horizon.values() for run in runs)]
        slopes = slope_rows(by_horizon, by_dim, by_epsilon)
        write_csv(folder / "ene2021.csv", [row for run in everything for row in rows_of(run)])
        write_csv(folder / "ene2021_slopes.csv", slopes)
        write_csv(folder / "ene2021_baselines.csv", baselines)
        write_json(folder / "parameters.json", parameters(horizon, trials))
    write_figure(out, "ene2021", figure, by_horizon, by_dim, by_epsilon, horizon)
    write_figure(out, "ene2021_routes", routes_figure, horizon)
    tables = "\n\n".join(format_table(rows) for rows in (slopes, baselines))
    return f"{tables}\n\n{verdict(by_horizon)}"
