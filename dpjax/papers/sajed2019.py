"""Sajed & Sheffet 2019: DP successive elimination beside earlier and later learners.

Four instances have five Bernoulli arms each, and T = 5e7. Learners that play in batches play all T
rounds; learners that choose anew each round play a 400th of them.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import numpy as np
from jax import random as jr

from dpjax import environments, learners, stopping
from dpjax.analysis import bounds, plot, statistics
from dpjax.analysis.output import format_table, output_folder, write_csv, write_figure, write_json
from dpjax.core import Learner
from dpjax.maths import exact_sums
from dpjax.papers._shared import (
    check_size,
    computed_with,
    fill_log_band,
    log_checkpoints,
    one_legend,
    quantile_curve,
    summary,
)
from dpjax.papers.sweeps import sweep
from dpjax.simulate import simulate, simulate_batches

HORIZON, QUICK_HORIZON = 50_000_000, 1_000_000
TRIALS, QUICK_TRIALS = 1000, 64
EPSILONS = (0.1, 0.25, 0.5, 1.0)
# The figure against epsilon adds two decades on each side of the paper's range.
MORE_EPSILONS = tuple(10.0 ** np.arange(-3.0, 2.01, 0.25))
MORE_ROUND_EPSILONS = (0.03, 3.0, 10.0, 30.0)
SEED = 2019
ARMS = 5
ARM_COUNTS = (2, 5, 10)  # in the comparison with the stopping rule on each pair
HORIZONS = tuple(10**k for k in range(4, 10))
HORIZON_INSTANCE = "C2"

# These are mean rewards, as later papers print them; a loss is 1 - reward.
REWARDS = {
    "C1": (0.75, 0.70, 0.70, 0.70, 0.70),
    "C2": (0.75, 0.625, 0.5, 0.375, 0.25),
    "C3": (0.75, 0.53125, 0.375, 0.28125, 0.25),
    "C4": (0.75, 0.71875, 0.625, 0.46875, 0.25),
}
BY_BATCHES = {
    "DP-SE": learners.successive_elimination,
    "AdaP-UCB": learners.adap_ucb,
    "AdaP-KLUCB": learners.adap_klucb,
    # DP-KLUCB weighs ln t by 1; AdaP-KLUCB weighs it by 3.1, for its analysis needs more than 3.
    "AdaP-KLUCB, constant 1": partial(learners.adap_klucb, exploration=1.0),
    "DP-KLUCB": learners.dp_klucb,
    "DP-IMED": learners.dp_imed,
}
BY_ROUNDS = {
    "DP-UCB": learners.dp_ucb,
    "DP-UCB, split": partial(learners.dp_ucb, split="paper"),
    "DP-UCB-Bound": learners.dp_ucb_bound,
    "DP-UCB-Int": learners.dp_ucb_int,
    "DP-UCB-Int, printed": partial(learners.dp_ucb_int, calibration="printed"),
    "Lazy-UCB": learners.lazy_ucb,
    "Lazy-DP-TS": learners.lazy_thompson,
}
NOT_PRIVATE: dict[str, Callable[..., Learner]] = {
    "UCB1": learners.ucb1,
    "KL-UCB": learners.kl_ucb,
    "Thompson": learners.thompson,
}
_ROUND_COLORS = (
    "tab:brown", "tab:pink", "goldenrod", "tab:olive", "tab:cyan", "navy", "crimson",
)  # fmt: skip
_BATCH_COLORS = ("tab:blue", "tab:orange", "tab:green", "tab:green", "tab:red", "tab:purple")
COLORS = dict(zip(BY_BATCHES, _BATCH_COLORS, strict=True))
COLORS |= dict(zip(BY_ROUNDS, _ROUND_COLORS, strict=True))


def means(instance) -> np.ndarray:
    """Mean losses of the arms, (5,)."""
    return 1.0 - np.array(REWARDS[instance])


def round_horizon(horizon) -> int:
    """The horizon of learners that choose anew each round."""
    return max(horizon // 400, 2 * ARMS)


def round_trials(trials) -> int:
    """The trials of learners that choose anew each round."""
    return max(trials // 32, 8)


class Run(NamedTuple):
    """One learner at one epsilon on one instance."""

    learner: str
    instance: str
    asked: float  # the epsilon that the learner was given, inf for none
    epsilon: float  # the epsilon that it declares
    delta: float
    rounds: np.ndarray  # (n,)
    regret: np.ndarray  # (trials, n), pseudo-regret


def _play(name, factory, points, horizon, trials, play, rounds, progress) -> list[Run]:
    """Sweeps a learner over (instance, epsilon) points; regret is recorded at the given rounds."""

    def game(point):
        arguments = {} if name in NOT_PRIVATE else {"epsilon": point["epsilon"]}
        learner = factory(horizon, ARMS, **arguments)
        return learner, environments.bernoulli(point["means"], regret="pseudo")

    game.__name__ = name
    swept = {
        "means": np.array([means(instance) for instance, _ in points], np.float32),
        "epsilon": np.array([epsilon for _, epsilon in points], np.float32),
    }
    result = sweep(
        game, swept, trials, jr.key(SEED),
        play=play, checkpoints=rounds, progress=progress,
    )  # fmt: skip
    runs = []
    for index, (instance, epsilon) in enumerate(points):
        point = {"means": means(instance), "epsilon": epsilon}
        privacy = game(point)[0].privacy
        runs.append(
            Run(
                name,
                instance,
                epsilon,
                float(privacy.epsilon),
                float(privacy.delta),
                result.rounds,
                result.regret[index],
            )
        )
    return runs


def play_batches(horizon=HORIZON, trials=TRIALS, *, progress=True) -> list[Run]:
    """Plays all learners of batches on all instances, at all epsilons and without privacy."""
    epsilons = [*sorted({*EPSILONS, *MORE_EPSILONS}), np.inf]
    points = [(instance, epsilon) for instance in REWARDS for epsilon in epsilons]
    shown, runs = log_checkpoints(horizon, 80), []
    for name, factory in BY_BATCHES.items():
        runs += _play(name, factory, points, horizon, trials, simulate_batches, shown, progress)
    return runs


def play_rounds(horizon, trials, *, progress=True) -> list[Run]:
    """Plays all others round by round at the paper's epsilons, and on instance C2 at a few more."""
    points = [(instance, epsilon) for instance in REWARDS for epsilon in EPSILONS]
    points += [(HORIZON_INSTANCE, epsilon) for epsilon in (*MORE_ROUND_EPSILONS, np.inf)]
    plain = [(instance, np.inf) for instance in REWARDS]
    shown, runs = log_checkpoints(horizon, 80), []
    for name, factory in BY_ROUNDS.items():
        runs += _play(name, factory, points, horizon, trials, simulate, shown, progress)
    for name, factory in NOT_PRIVATE.items():
        runs += _play(name, factory, plain, horizon, trials, simulate, shown, progress)
    return runs


class HorizonRun(NamedTuple):
    """The final regret of one learner at each horizon."""

    learner: str
    epsilon: float
    horizons: np.ndarray  # (n,)
    regret: np.ndarray  # (trials, n)


def play_horizons(horizons, trials, *, epsilons=(0.1, 1.0), progress=True) -> list[HorizonRun]:
    """Plays instance C2 up to each horizon.

    DP-SE is tuned to its horizon, so each horizon is a game of its own. The others do not know
    theirs, so one long game contains all shorter ones.
    """
    points = [(HORIZON_INSTANCE, epsilon) for epsilon in epsilons]
    runs = []
    for name, factory in BY_BATCHES.items():
        games = {
            horizon: _play(
                name, factory, points, horizon, trials, simulate_batches,
                tuple(h for h in horizons if h <= horizon), progress,
            )
            for horizon in (horizons if name == "DP-SE" else horizons[-1:])
        }  # fmt: skip
        finals = [
            np.stack(
                [games.get(h, games[horizons[-1]])[i].regret[:, j] for j, h in enumerate(horizons)],
                1,
            )
            for i in range(len(points))
        ]
        for (_, epsilon), final in zip(points, finals, strict=True):
            runs.append(HorizonRun(name, epsilon, np.array(horizons), final))
    return runs


class StoppingRow(NamedTuple):
    """How many values of +-1 were read until their mean was known to a relative error of 1/2."""

    mean: float
    epsilon: float
    every_round: np.ndarray  # (trials,)
    powers_of_two: np.ndarray  # (trials,)
    wrong: float  # share of all trials whose estimate had a larger error


def play_stopping(limit, trials, *, epsilons=(0.1, 1.0, np.inf)) -> list[StoppingRow]:
    """Plays the stopping rule with a query each round, and with queries at powers of two only."""
    rows = []
    for mean in (0.5, 0.2, 0.1):
        for epsilon in epsilons:
            stopped = {}
            for queries in ("every_round", "powers_of_two"):

                def one(key, mean=mean, epsilon=epsilon, queries=queries):
                    stream = stopping.two_valued((1.0 + mean) / 2.0)
                    return stopping.private_mean(
                        key, stream, limit,
                        epsilon=epsilon, accuracy=0.5, failure=0.05, queries=queries,
                    )  # fmt: skip

                keys = jr.split(jr.key(SEED), trials)
                stopped[queries] = jax.tree.map(np.asarray, jax.jit(jax.vmap(one))(keys))
            off = [np.abs(kind.mean - mean) > 0.5 * mean for kind in stopped.values()]
            rows.append(
                StoppingRow(
                    mean,
                    epsilon,
                    stopped["every_round"].rounds,
                    stopped["powers_of_two"].rounds,
                    float(np.mean(off)),
                )
            )
    return rows


class PairwiseRow(NamedTuple):
    """How often a suboptimal arm is pulled until it is given up."""

    arms: int
    epsilon: float
    pairwise: np.ndarray  # (trials,)
    epochs: np.ndarray  # (trials,)


def play_pairwise(horizon, trials, *, gap=0.25, progress=True) -> list[PairwiseRow]:
    """Plays the stopping rule on each pair of arms, with epsilon / K for each, beside DP-SE.

    One arm has mean loss 0.25, the others have ``gap`` more. The rule looks at powers of two, and
    an arm is given up when the sign of its difference to the best arm is known. DP-SE's pulls are
    its regret over the sum of the gaps. Both fail with probability at most 1 / T.
    """
    better, worse = stopping.two_valued(0.75, 0.0), stopping.two_valued(0.75 - gap, 0.0)

    def difference(key, start, count):
        one, other = jr.split(key)
        smaller = exact_sums.negative(worse(other, start, count))
        return exact_sums.add(better(one, start, count), smaller)

    def pair(key, epsilon, failure):
        return stopping.private_mean(
            key, difference, horizon,
            epsilon=epsilon, accuracy=1.0, failure=failure, queries="powers_of_two",
        ).rounds  # fmt: skip

    cases = [(arms, epsilon) for arms in ARM_COUNTS for epsilon in EPSILONS]
    epsilons = np.array([epsilon / arms for arms, epsilon in cases], np.float32)
    failures = np.array([2.0 / (horizon * k * (k - 1)) for k, _ in cases], np.float32)
    each = jax.jit(jax.vmap(jax.vmap(pair, (0, None, None)), (None, 0, 0)))
    rounds = np.asarray(each(jr.split(jr.key(SEED), trials), epsilons, failures))

    rows = []
    for arms in ARM_COUNTS:
        values = np.full(arms, 0.25 + gap, np.float32)
        values[0] = 0.25

        def game(epsilon, arms=arms, values=values):
            learner = learners.successive_elimination(horizon, arms, epsilon=epsilon)
            return learner, environments.bernoulli(values, regret="pseudo")

        final = sweep(
            game, np.array(EPSILONS, np.float32), trials, jr.key(SEED),
            play=simulate_batches, checkpoints=1, progress=progress,
        ).regret[..., -1]  # fmt: skip
        for epsilon, regret in zip(EPSILONS, final, strict=True):
            pulls = regret / (gap * (arms - 1))
            rows.append(PairwiseRow(arms, epsilon, rounds[cases.index((arms, epsilon))], pulls))
    return rows


def lower_bound(horizon, instance, epsilon):
    """The bound in d_epsilon, the largest of the lower bounds for consistent private learners."""
    return bounds.d_epsilon(horizon, means(instance), epsilon)


def table(runs) -> list[dict]:
    """Final regret with its quantiles and bounds, one row per run.

    The private lower bounds are taken at the declared epsilon. They are empty for (epsilon, delta)
    privacy, for which they do not hold.
    """
    rows = []
    for run in runs:
        final, horizon = run.regret[:, -1], float(run.rounds[-1])
        pure = run.delta == 0.0
        upper = {
            "DP-SE": bounds.successive_elimination,
            "AdaP-UCB": bounds.adap_ucb,
        }.get(run.learner)
        losses = means(run.instance)
        rows.append(
            {
                "instance": run.instance,
                "learner": run.learner,
                "asked": run.asked,
                "epsilon": run.epsilon,
                "delta": run.delta,
                "horizon": int(horizon),
                **summary(final),
                "lower_d_epsilon": (
                    float(lower_bound(horizon, run.instance, run.epsilon)) if pure else None
                ),
                "lower_lai_robbins": float(bounds.lai_robbins(horizon, losses)),
                "lower_shariff_sheffet": (
                    float(bounds.shariff_sheffet(horizon, ARMS, run.epsilon)) if pure else None
                ),
                "upper": None if upper is None else float(upper(horizon, losses, run.asked)),
                "trials": len(final),
            }
        )  # fmt: skip
    return rows


def curve_rows(runs) -> list[dict]:
    """The means that the first figure draws, with their 10 % and 90 % quantiles."""
    return [
        row
        for run in runs
        if run.asked in EPSILONS or not np.isfinite(run.asked)
        for row in quantile_curve(
            run.rounds, run.regret, instance=run.instance, learner=run.learner, asked=run.asked
        )
    ]


def knee_table(runs) -> list[dict]:
    """The epsilon from which on privacy costs under 10 %, one row per learner and instance."""
    rows = []
    for name in BY_BATCHES:
        for instance in REWARDS:
            mine = [run for run in runs if run.learner == name and run.instance == instance]
            epsilons = np.array([run.asked for run in mine])
            finals = np.stack([run.regret[:, -1] for run in mine]).astype(np.float64)
            point, low, high = statistics.resampled(
                finals.shape[1],
                lambda seeds, e=epsilons, r=finals: statistics.free_epsilon(e, r[:, seeds]),
            )
            rows.append(
                {
                    "instance": instance,
                    "learner": name,
                    "without_privacy": float(finals[-1].mean()),
                    "epsilon": point,
                    "low": low,
                    "high": high,
                    "trials": finals.shape[1],
                }
            )
    return rows


def stopping_rows(rows) -> list[dict]:
    """Stopping times with both kinds of queries, and their ratio."""
    return [
        {
            "mean": row.mean,
            "epsilon": row.epsilon,
            "every_round": float(row.every_round.mean()),
            "every_round_error": float(statistics.standard_error(row.every_round)),
            "powers_of_two": float(row.powers_of_two.mean()),
            "powers_of_two_error": float(statistics.standard_error(row.powers_of_two)),
            "ratio": float(row.powers_of_two.mean() / row.every_round.mean()),
            "wrong": row.wrong,
            "trials": len(row.every_round),
        }
        for row in rows
    ]


def pairwise_rows(rows) -> list[dict]:
    """Pulls of a suboptimal arm by the rule on pairs and by DP-SE, and their ratio."""
    return [
        {
            "arms": row.arms,
            "epsilon": row.epsilon,
            "pairwise": float(row.pairwise.mean()),
            "pairwise_error": float(statistics.standard_error(row.pairwise)),
            "epochs": float(row.epochs.mean(dtype=np.float64)),
            "epochs_error": float(statistics.standard_error(row.epochs)),
            "ratio": float(row.pairwise.mean() / row.epochs.mean(dtype=np.float64)),
            "trials": len(row.epochs),
        }
        for row in rows
    ]


def horizon_rows(runs) -> list[dict]:
    """Final regret against the horizon."""
    return [
        {
            "learner": run.learner,
            "instance": HORIZON_INSTANCE,
            "epsilon": run.epsilon,
            "horizon": int(horizon),
            "mean": float(run.regret[:, i].mean(dtype=np.float64)),
            "standard_error": float(statistics.standard_error(run.regret[:, i])),
            "lower_d_epsilon": float(lower_bound(float(horizon), HORIZON_INSTANCE, run.epsilon)),
            "trials": len(run.regret),
        }
        for run in runs
        for i, horizon in enumerate(run.horizons)
    ]


def curves_figure(by_batches, by_rounds):
    """Regret against the round, one row per instance and one column per epsilon."""
    figure, axes = plot.panels(4, 4, size=(15.0, 13.0))
    shown = [run for run in by_batches if run.asked in EPSILONS]
    shown += [run for run in by_rounds if run.asked in EPSILONS and "printed" not in run.learner]
    for panel, (instance, epsilon) in zip(
        axes, [(i, e) for i in REWARDS for e in EPSILONS], strict=True
    ):
        for run in shown:
            if (run.instance, run.asked) == (instance, epsilon):
                panel.plot(run.rounds, run.regret.mean(axis=0), **_style(run.learner))
        for run in by_rounds:
            if run.instance == instance and run.learner in NOT_PRIVATE:
                panel.plot(run.rounds, run.regret.mean(axis=0), **_style(run.learner))
        t = np.array(by_batches[0].rounds, np.float64)
        losses, last = means(instance), t[-1]
        panel.plot(
            t, [lower_bound(x, instance, epsilon) for x in t],
            color="black", linestyle=":", label="lower bound, $d_\\epsilon$",
        )  # fmt: skip
        for label, curve, color in [
            (
                "DP-SE, bound",
                bounds.successive_elimination(t, losses, epsilon, 1.0 / last),
                "DP-SE",
            ),
            ("AdaP-UCB, bound", bounds.adap_ucb(t, losses, epsilon), "AdaP-UCB"),
        ]:
            panel.plot(t, curve, color=COLORS[color], linestyle=(0, (1, 3)), label=label)
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_ylim(2.0, 6e5)
        plot.label_axes(
            panel, f"{instance}, $\\epsilon$ = {epsilon:g}", ylabel="mean pseudo-regret"
        )
    note = (
        f"Lines: in batches, {len(by_batches[0].regret)} trials; dashed: round by round, "
        f"{len(by_rounds[0].regret)} trials; grey: without privacy. A panel's epsilon is the one "
        "that learners are given; all declare it, but\nDP-UCB, split, which declares a fifth of "
        "it, and DP-UCB-Int, which declares less than it, at delta = T^-2. All others are pure. "
        "Calibrations as we read them.\nLines later in the legend are on top. "
        "AdaP's constant is 3.1 where no other is named."
    )
    one_legend(figure, axes, note)
    return figure


def _style(learner) -> dict:
    if learner in NOT_PRIVATE:
        line = ("-", "--", ":")[list(NOT_PRIVATE).index(learner)]
        return {"color": "0.5", "linestyle": line, "linewidth": 1.0, "label": learner}
    line = "-" if learner in BY_BATCHES else "--"
    line = "-." if "constant" in learner else line
    return {"color": COLORS[learner], "linestyle": line, "linewidth": 1.4, "label": learner}


def laws_figure(runs):
    """Distribution functions of the final regret, whose laws have several modes."""
    figure, axes = plot.panels(4, 4, size=(15.0, 12.0))
    for panel, (instance, epsilon) in zip(
        axes, [(i, e) for i in REWARDS for e in EPSILONS], strict=True
    ):
        for run in runs:
            if (run.instance, run.asked) == (instance, epsilon):
                final = np.sort(run.regret[:, -1])
                share = np.arange(1, len(final) + 1) / len(final)
                panel.step(final, share, where="post", **_style(run.learner))
        panel.set_xscale("log")
        plot.label_axes(
            panel, f"{instance}, $\\epsilon$ = {epsilon:g}",
            xlabel="pseudo-regret at T", ylabel="share of trials below",
        )  # fmt: skip
    note = f"T = {runs[0].rounds[-1]}, {len(runs[0].regret)} trials. "
    one_legend(figure, axes, note + "Lines later in the legend are on top.")
    return figure


def epsilon_figure(by_batches, by_rounds, knees):
    """Final regret against epsilon, with the knee from which on privacy costs under 10 %."""
    figure, axes = plot.panels(2, 3, size=(15.0, 8.5))
    for panel, instance in zip(axes, REWARDS, strict=False):
        for name in BY_BATCHES:
            mine = [r for r in by_batches if (r.learner, r.instance) == (name, instance)]
            _against_epsilon(panel, mine, [run.asked for run in mine])
            (knee,) = [k for k in knees if (k["learner"], k["instance"]) == (name, instance)]
            if 0.0 < knee["epsilon"] < np.inf:
                height = 1.1 * knee["without_privacy"]
                panel.plot(knee["epsilon"], height, "o", color=COLORS[name], markersize=5)
        grid = np.array(MORE_EPSILONS)
        horizon = float(by_batches[0].rounds[-1])
        panel.plot(
            grid, lower_bound(horizon, instance, grid),
            color="black", linestyle=":", label="lower bound, $d_\\epsilon$",
        )  # fmt: skip
        plot.label_axes(
            panel, f"{instance}, T = {horizon:g}", xlabel="$\\epsilon$", ylabel="mean regret at T"
        )
    panel = axes[4]
    for name in BY_ROUNDS:
        mine = [r for r in by_rounds if (r.learner, r.instance) == (name, HORIZON_INSTANCE)]
        mine = sorted(mine, key=lambda run: run.asked)
        _against_epsilon(panel, mine, [run.epsilon for run in mine])
    plot.label_axes(
        panel, f"{HORIZON_INSTANCE}, round by round, T = {by_rounds[0].rounds[-1]}",
        xlabel="declared $\\epsilon$", ylabel="mean regret at T",
    )  # fmt: skip
    axes[5].axis("off")
    note = (
        "Dots: the smallest epsilon from which on mean regret is within 10 % of that of the same "
        "learner without privacy.\nRound by round, a learner stands at the epsilon that it "
        "declares, not at the one that it is given: DP-UCB, split at a fifth of that one, "
        "DP-UCB-Int at what it has\nat delta = T^-2, which for its printed noise, as "
        "reconstructed, is more than it is given. Bands: 95 %."
    )
    one_legend(figure, axes, note)
    return figure


def _against_epsilon(panel, runs, epsilons) -> None:
    # A declared epsilon of 0 has no place on a logarithmic axis.
    shown = np.isfinite(epsilons) & (np.array(epsilons) > 0.0)
    band = statistics.mean_band(np.stack([run.regret[:, -1] for run in runs]), axis=1)
    x = np.array(epsilons)[shown]
    style = _style(runs[0].learner)
    panel.plot(x, band.mean[shown], **style)
    fill_log_band(panel, x, band.mean[shown], band.low[shown], band.high[shown], style["color"])
    panel.set_xscale("log")
    panel.set_yscale("log")


def horizon_figure(runs):
    """Final regret against the horizon, to a billion rounds."""
    epsilons = sorted({run.epsilon for run in runs})
    figure, axes = plot.panels(1, len(epsilons), size=(12.0, 5.0))
    for panel, epsilon in zip(axes, epsilons, strict=True):
        for run in runs:
            if run.epsilon == epsilon:
                band = statistics.mean_band(run.regret, axis=0)
                style = _style(run.learner) | {"marker": "o", "markersize": 3}
                panel.plot(run.horizons, band.mean, **style)
                fill_log_band(panel, run.horizons, band.mean, band.low, band.high, style["color"])
        lengths = runs[0].horizons.astype(np.float64)
        bound = [lower_bound(x, HORIZON_INSTANCE, epsilon) for x in lengths]
        label = "lower bound, $d_\\epsilon$"
        panel.plot(lengths, bound, color="black", linestyle=":", label=label)
        panel.set_xscale("log")
        panel.set_yscale("log")
        plot.label_axes(
            panel, f"{HORIZON_INSTANCE}, $\\epsilon$ = {epsilon:g}", xlabel="horizon T",
            ylabel="mean pseudo-regret at T",
        )  # fmt: skip
    one_legend(figure, axes, f"{len(runs[0].regret)} trials, 95 % bands.")
    return figure


def stopping_figure(stopping_runs, pairwise_runs):
    """Stopping times by kind of query (left), and pulls by pairs or epochs (right)."""
    figure, axes = plot.panels(1, 2, size=(12.0, 4.6))
    left, right = axes
    epsilons = sorted({row.epsilon for row in stopping_runs})
    for color, epsilon in zip(plot.categorical(len(epsilons)), epsilons, strict=True):
        mine = [row for row in stopping_runs if row.epsilon == epsilon]
        x = [row.mean for row in mine]
        label = "without privacy" if np.isinf(epsilon) else f"$\\epsilon$ = {epsilon:g}"
        for queries, line in (("every_round", "-"), ("powers_of_two", "--")):
            y = [getattr(row, queries).mean() for row in mine]
            left.plot(
                x, y, line, color=color, marker="o", markersize=3,
                label=f"{label}, {queries.replace('_', ' ')}",
            )  # fmt: skip
    left.set_xscale("log")
    left.set_yscale("log")
    plot.ticks_at(left.xaxis, [row.mean for row in stopping_runs])
    plot.label_axes(left, "DP-NAS, relative error 1/2", xlabel="mean", ylabel="mean stopping time")
    left.legend(fontsize=7, frameon=False, handlelength=4)
    for color, arms in zip(plot.categorical(len(ARM_COUNTS)), ARM_COUNTS, strict=True):
        mine = [row for row in pairwise_runs if row.arms == arms]
        x = [row.epsilon for row in mine]
        for kind, line, name in (("pairwise", "--", "every pair"), ("epochs", "-", "DP-SE")):
            y = [getattr(row, kind).mean() for row in mine]
            right.plot(
                x, y, line, color=color, marker="o", markersize=3, label=f"K = {arms}, {name}"
            )
    right.set_xscale("log")
    right.set_yscale("log")
    plot.ticks_at(right.xaxis, [row.epsilon for row in pairwise_runs])
    plot.label_axes(
        right, "Until an arm of gap 1/4 is given up", xlabel="$\\epsilon$", ylabel="mean pulls"
    )
    right.legend(fontsize=7, frameon=False, handlelength=4)
    return figure


def parameters(horizon, trials) -> dict:
    """Everything that the tables and figures depend on."""
    return {
        "horizon": horizon,
        "trials": trials,
        "round_horizon": round_horizon(horizon),
        "round_trials": round_trials(trials),
        "rewards": {name: list(values) for name, values in REWARDS.items()},
        "epsilons": list(EPSILONS),
        "more_epsilons": list(MORE_EPSILONS),
        "key": f"jax.random.key({SEED})",
        "failure": 1.0 / horizon,
        "exploration": {"AdaP": 3.1, "AdaP-KLUCB, constant 1": 1.0},
        "ratio": 2.0,
        "log_base": 2.0,
        **computed_with(),
    }


def horizons(horizon) -> tuple[int, ...]:
    """Powers of ten up to twenty times ``horizon``, for the figure against the horizon."""
    return tuple(h for h in HORIZONS if h <= 20 * horizon)


def reproduce(out="results/sajed2019", *, horizon=HORIZON, trials=TRIALS, progress=True) -> str:
    """Runs everything and writes figures, tables and parameters into the folder ``out``.

    Files: sajed2019.png and .pdf (regret curves), sajed2019_laws, sajed2019_epsilon,
    sajed2019_horizon and sajed2019_stopping likewise; sajed2019.csv (final regrets with quantiles
    and bounds), sajed2019_curves.csv, sajed2019_knee.csv, sajed2019_horizon.csv,
    sajed2019_stopping.csv, sajed2019_pairwise.csv; parameters.json.

    Args:
      out: folder, created if missing.
      horizon: T for learners of batches, at least 10^4; the others play a 400th of it.
      trials: for learners of batches, at least 8; the others have a 32nd of them, and at least 8.
      progress: whether to show progress bars.

    Returns:
      The printed summary.

    Raises:
      OSError: the folder cannot be written to.
      ValueError: too few trials or rounds.
    """
    check_size(horizon, trials, HORIZONS[0])
    few = round_trials(trials)
    with output_folder(out) as folder:
        by_batches = play_batches(horizon, trials, progress=progress)
        longer = play_horizons(horizons(horizon), trials, progress=progress)
        pairs = play_pairwise(horizon, trials, progress=progress)
        by_rounds = play_rounds(round_horizon(horizon), few, progress=progress)
        rules = play_stopping(min(horizon, 2**18), few)
        rows, knees = table([*by_batches, *by_rounds]), knee_table(by_batches)
        stopping_table, pairwise_table = stopping_rows(rules), pairwise_rows(pairs)
        write_csv(folder / "sajed2019.csv", rows)
        write_csv(folder / "sajed2019_curves.csv", curve_rows([*by_batches, *by_rounds]))
        write_csv(folder / "sajed2019_knee.csv", knees)
        write_csv(folder / "sajed2019_horizon.csv", horizon_rows(longer))
        write_csv(folder / "sajed2019_stopping.csv", stopping_table)
        write_csv(folder / "sajed2019_pairwise.csv", pairwise_table)
        write_json(folder / "parameters.json", parameters(horizon, trials))
    write_figure(out, "sajed2019", curves_figure, by_batches, by_rounds)
    write_figure(out, "sajed2019_laws", laws_figure, by_batches)
    write_figure(out, "sajed2019_epsilon", epsilon_figure, by_batches, by_rounds, knees)
    write_figure(out, "sajed2019_horizon", horizon_figure, longer)
    write_figure(out, "sajed2019_stopping", stopping_figure, rules, pairs)
    printed = ["instance", "learner", "asked", "epsilon", "horizon", "mean", "standard_error"]
    printed += ["q5", "q50", "q95", "lower_d_epsilon", "upper", "trials"]
    shown = [row for row in rows if row["asked"] in EPSILONS]
    shown = [{name: row[name] for name in printed} for row in shown]
    return "\n\n".join(map(format_table, (shown, knees, stopping_table, pairwise_table)))
