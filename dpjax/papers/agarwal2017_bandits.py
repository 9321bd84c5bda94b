"""Agarwal & Singh 2017, section 4: private bandits, beside the rates of Asi et al. 2025.

The papers have no experiment. This file measures the regret of the private reduction and of noisy
batches against T, N and epsilon, over arms and over the ball.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from jax import random as jr

from dpjax import domains, environments, learners
from dpjax.analysis import bounds, plot, statistics
from dpjax.analysis.output import format_table, output_folder, write_csv, write_figure, write_json
from dpjax.papers._shared import computed_with
from dpjax.papers.sweeps import sweep

HORIZON, QUICK_HORIZON = 2**14, 2**10
TRIALS, QUICK_TRIALS = 48, 24
EPSILONS = (*(10.0 ** np.arange(-3.0, 2.01, 0.5)), np.inf)
# The epsilons of the curves against T and N.
FEW_EPSILONS = (0.1, 1.0, 10.0, np.inf)
SIZE = 8
SIZES = (4, 8, 16)
# How far the best arm (gap) or direction (bias) stands out. The theorems bound the worst case, and
# which one that is depends on T, N and epsilon: the worst of these is shown.
GAPS = (0.02, 0.05, 0.1, 0.2, 0.4)
BIASES = (0.1, 0.3, 1.0, 3.0)
KINDS = ("iid", "drifting", "switching", "alternating", "adaptive")
SEED = 2017


class Contender(NamedTuple):
    """A learner, and the model in which it is private."""

    make: Callable  # (horizon, size, epsilon) -> learner
    model: str  # "local", "central", or "" without privacy


def _over_arms(factory, model, **keywords) -> Contender:
    def make(horizon, arms, epsilon):
        return factory(horizon, arms, epsilon=epsilon, **keywords)

    return Contender(make, model)


def _over_ball(**keywords) -> Contender:
    def make(horizon, dim, epsilon):
        return learners.scrible(horizon, domains.ball(dim), epsilon=epsilon, **keywords)

    return Contender(make, "local")


CONTENDERS = {
    "arms": {
        "DP-EXP2": _over_arms(learners.exp2, "local"),
        "DP-EXP2, printed": _over_arms(learners.exp2, "local", calibration="printed"),
        "DP-EXP3-Lap": _over_arms(learners.dp_exp3_lap, "local"),
        "batches, HTINF": _over_arms(learners.batched_bandit, "central"),
        "batches, EXP2": _over_arms(learners.batched_bandit, "central", base="exp2"),
        "Tsallis-INF": Contender(lambda horizon, arms, _: learners.tsallis_inf(horizon, arms), ""),
    },
    "ball": {
        "SCRiBLE, scalar noise": _over_ball(),
        "SCRiBLE, vector noise": _over_ball(noise="vector"),
        "SCRiBLE, vector noise, printed": _over_ball(noise="vector", calibration="printed"),
    },
}
COLORS = {
    name: color
    for group in CONTENDERS.values()
    for name, color in zip(group, plot.categorical(len(group)), strict=True)
}
COLORS["Tsallis-INF"] = "black"


class Run(NamedTuple):
    """A learner at all epsilons, each against instances of several difficulties."""

    instance: str  # "arms" or "ball"
    learner: str
    horizon: int
    size: int  # K or N
    epsilons: tuple[float, ...]
    difficulties: tuple[float, ...]  # gaps, or biases
    regret: np.ndarray  # (epsilons, difficulties, trials), final
    nothing: np.ndarray  # (difficulties,), mean regret of playing uniformly, or the centre


def play(instance, name, horizon, size, epsilons, trials, *, progress=True) -> Run:
    """Sweeps a learner over (epsilon, difficulty)."""
    contender = CONTENDERS[instance][name]
    difficulties = GAPS if instance == "arms" else BIASES
    if not contender.model:
        epsilons = (np.inf,)

    def game(point):
        learner = contender.make(horizon, size, point["epsilon"])
        difficulty = point["difficulty"]
        if instance == "ball":
            return learner, environments.linear_losses(domains.ball(size), "iid", bias=difficulty)
        means = 0.5 + difficulty * np.where(np.arange(size) == 0, -0.5, 0.5).astype(np.float32)
        return learner, environments.bernoulli(means, regret="pseudo")

    grid = [(epsilon, difficulty) for epsilon in epsilons for difficulty in difficulties]
    points = {
        "epsilon": np.array([epsilon for epsilon, _ in grid], np.float32),
        "difficulty": np.array([difficulty for _, difficulty in grid], np.float32),
    }
    result = sweep(game, points, trials, jr.key(SEED), checkpoints=1, progress=progress)
    shape = (len(epsilons), len(difficulties), trials)
    regret = result.regret[..., -1].reshape(shape).astype(np.float64)
    if instance == "arms":
        nothing = horizon * np.array(difficulties) * (1.0 - 1.0 / size)
    else:
        # The centre of the ball has loss 0, so its regret is the length of the summed losses.
        lengths = np.linalg.norm(np.asarray(result.tally.loss, np.float64), axis=-1)
        nothing = lengths.reshape(shape)[0].mean(axis=-1)
    return Run(instance, name, horizon, size, tuple(epsilons), difficulties, regret, nothing)


def worst(regret, trials=slice(None)):
    """The largest mean regret over the difficulties, (..., difficulties, n) -> (...)."""
    return regret[..., trials].mean(axis=-1).max(axis=-1)


def rows_of(run) -> list[dict]:
    """Final regret at each epsilon and difficulty."""
    return [
        {
            "instance": run.instance,
            "learner": run.learner,
            "model": CONTENDERS[run.instance][run.learner].model,
            "horizon": run.horizon,
            "size": run.size,
            "epsilon": epsilon,
            "difficulty": difficulty,
            "regret": float(run.regret[i, j].mean()),
            "standard_error": float(statistics.standard_error(run.regret[i, j])),
            "nothing": float(run.nothing[j]),
            "bound": _bound(run, epsilon),
            "trials": run.regret.shape[-1],
        }
        for i, epsilon in enumerate(run.epsilons)
        for j, difficulty in enumerate(run.difficulties)
    ]


def _bound(run, epsilon):
    """The theorem's bound with our constants, where there is one."""
    bound = {
        "DP-EXP2": bounds.exp2,
        "DP-EXP3-Lap": bounds.dp_exp3_lap,
        "batches, HTINF": bounds.batched_bandit,
        "SCRiBLE, scalar noise": lambda t, n, e: bounds.scrible(t, n, e, domain="ball"),
        "SCRiBLE, vector noise": lambda t, n, e: bounds.scrible(
            t, n, e, domain="ball", noise="vector"
        ),
    }.get(run.learner)
    if bound is None or not np.isfinite(epsilon):
        return None
    return float(bound(run.horizon, run.size, epsilon))


# Exponents of T, N and 1 / epsilon, without logarithms: Table 2's, and the newer ones for batches.
RATES = {
    "arms": {"T": 0.5, "N": 0.5, "1/epsilon": 1.0},
    "batches": {"T": 0.5, "N": 0.5, "1/epsilon": 0.5},
    "ball": {"T": 0.5, "N": 1.5, "1/epsilon": 1.0},
}


def slope(x, regrets, ceilings):
    """Slope of the log of the worst mean regret over log x with its 95 % interval.

    A point is used where its regret is below half of what doing nothing loses in the worst case.
    With fewer than two such points the slope is nan. The last value is the number of points.

    Args:
      x: (n,).
      regrets: n arrays (difficulties, trials).
      ceilings: (n,), the largest regret of doing nothing.
    """
    usable = [i for i, r in enumerate(regrets) if worst(r) < 0.5 * ceilings[i]]
    if len(usable) < 2:
        return float("nan"), float("nan"), float("nan"), len(usable)
    logs = np.log(np.asarray(x, np.float64)[usable])

    def fit(trials):
        values = [np.log(worst(regrets[i], trials)) for i in usable]
        return np.polyfit(logs, values, 1)[0]

    return *statistics.resampled(regrets[0].shape[-1], fit), len(usable)


def slope_table(by_epsilon, by_horizon, by_size) -> list[dict]:
    """Fitted exponents beside those of Table 2."""
    rows = []

    def add(instance, name, epsilon, variable, x, runs, pick):
        regrets = [run.regret[pick(run)] for run in runs]
        ceilings = [run.nothing.max() for run in runs]
        value, low, high, count = slope(x, regrets, ceilings)
        group = "batches" if name.startswith("batches") else instance
        rows.append(
            {
                "instance": instance,
                "learner": name,
                "epsilon": epsilon,
                "variable": variable,
                "slope": value,
                "low": low,
                "high": high,
                "rate": RATES[group][variable],
                "points": count,
            }
        )

    for instance, contenders in CONTENDERS.items():
        for name in contenders:
            for epsilon in by_horizon[instance, name][0].epsilons:
                lengths, sizes = by_horizon[instance, name], by_size[instance, name]
                for variable, runs in (("T", lengths), ("N", sizes)):
                    x = [run.horizon if variable == "T" else run.size for run in runs]
                    add(instance, name, epsilon, variable, x, runs,
                        lambda run, e=epsilon: run.epsilons.index(e))  # fmt: skip
            whole = by_epsilon[instance, name]
            # Noise counts as costly where regret is above 1.5 times that without privacy.
            regrets = worst(whole.regret)
            costly = [i for i in range(len(regrets) - 1) if regrets[i] > 1.5 * regrets[-1]]
            if costly:
                inverse = [1.0 / whole.epsilons[i] for i in costly]
                places = iter(costly)
                add(instance, name, None, "1/epsilon", inverse, [whole] * len(costly),
                    lambda run, places=places: next(places))  # fmt: skip
    return rows


def crossing(epsilons, batched, local):
    """The largest epsilon below which noisy batches have less regret than noise on each loss.

    The worst mean regrets (P,) are interpolated on the logarithm of epsilon, where their ratio
    crosses 1. The result is inf where batches have less regret at the largest epsilon, and 0 where
    they never have.
    """
    ratio = np.log(np.asarray(batched) / np.asarray(local))
    wins = np.flatnonzero(ratio < 0.0)
    if not len(wins):
        return 0.0
    last = wins[-1]
    if last + 1 == len(epsilons):
        return float("inf")
    share = ratio[last] / (ratio[last] - ratio[last + 1])
    logs = np.log(np.asarray(epsilons)[[last, last + 1]])
    return float(np.exp(logs[0] + share * (logs[1] - logs[0])))


def crossing_table(by_epsilon) -> list[dict]:
    """The epsilon below which batches have less regret than local noise, for pairs of learners."""
    rows = []
    for name in ("batches, HTINF", "batches, EXP2"):
        for other in ("DP-EXP2", "DP-EXP3-Lap"):
            batched, local = by_epsilon["arms", name], by_epsilon["arms", other]
            finite = [i for i, epsilon in enumerate(batched.epsilons) if np.isfinite(epsilon)]
            epsilons = [batched.epsilons[i] for i in finite]

            def cross(trials, batched=batched, local=local, finite=finite, epsilons=epsilons):
                return crossing(
                    epsilons,
                    worst(batched.regret[finite], trials),
                    worst(local.regret[finite], trials),
                )

            value, low, high = statistics.resampled(batched.regret.shape[-1], cross)
            rows.append(
                {
                    "batched (central)": name,
                    "local": other,
                    "epsilon": value,
                    "low": low,
                    "high": high,
                    "trials": batched.regret.shape[-1],
                }
            )
    return rows


def play_adversaries(horizon, dim, trials, *, progress=True) -> list[dict]:
    """Plays SCRiBLE against losses whose best point moves, and against an adaptive adversary."""
    epsilons = (1.0, 10.0, np.inf)
    rows = []
    for kind in KINDS:
        for name in CONTENDERS["ball"]:

            def game(epsilon, kind=kind, name=name):
                ball = domains.ball(dim)
                learner = CONTENDERS["ball"][name].make(horizon, dim, epsilon)
                return learner, environments.linear_losses(
                    ball, kind, bias=1.0, period=max(horizon // 8, 1)
                )

            game.__name__ = name
            result = sweep(
                game, np.array(epsilons, np.float32), trials, jr.key(SEED),
                checkpoints=1, progress=progress,
            )  # fmt: skip
            for index, epsilon in enumerate(epsilons):
                final = result.regret[index, :, -1].astype(np.float64)
                lengths = np.linalg.norm(result.tally.loss[index].astype(np.float64), axis=-1)
                rows.append(
                    {
                        "losses": kind,
                        "learner": name,
                        "epsilon": epsilon,
                        "regret": float(final.mean()),
                        "standard_error": float(statistics.standard_error(final)),
                        "centre": float(lengths.mean()),
                        "violations": float(result.report.base.violations[index].mean()),
                        "trials": len(final),
                    }
                )
    return rows


def _draw_against(panel, runs, variable, style) -> None:
    """Worst mean regret against the horizon or size, at epsilon = 1 and without privacy."""
    for epsilon, line in ((1.0, "-"), (np.inf, ":")):
        if epsilon in runs[0].epsilons:
            index = runs[0].epsilons.index(epsilon)
            x = [getattr(run, variable) for run in runs]
            panel.plot(x, [worst(run.regret)[index] for run in runs], line, **style)


def figure(by_epsilon, by_horizon, by_size):
    """Worst mean regret against epsilon, T and N; arms above, the ball below."""
    drawn, panels = plot.panels(2, 3, size=(14.0, 8.4))
    for row, instance in enumerate(CONTENDERS):
        first, second, third = panels[3 * row : 3 * row + 3]
        for name in CONTENDERS[instance]:
            run = by_epsilon[instance, name]
            style = {"color": COLORS[name], "linewidth": 1.4}
            # A batch of one round is the base algorithm; crosses over its dots show both.
            marker, markersize = ("x", 6) if name == "batches, EXP2" else ("o", 3)
            mark = {"marker": marker, "markersize": markersize}
            if run.epsilons == (np.inf,):
                first.axhline(worst(run.regret)[0], label=name, linestyle=":", **style)
            else:
                finite = np.isfinite(run.epsilons)
                x, y = np.array(run.epsilons)[finite], worst(run.regret)
                model = CONTENDERS[instance][name].model
                first.plot(x, y[finite], label=f"{name} ({model})", **mark, **style)
                first.axhline(y[-1], linestyle=":", linewidth=0.8, color=COLORS[name])
            for panel, runs, variable in (
                (second, by_horizon[instance, name], "horizon"),
                (third, by_size[instance, name], "size"),
            ):
                _draw_against(panel, runs, variable, mark | style)
        lengths = np.array([run.horizon for run in next(iter(by_horizon.values()))])
        arms = SIZE if instance == "arms" else None
        second.plot(
            lengths, bounds.before_bandits(lengths, 1.0, arms=arms), color="0.6", linestyle="--",
            label="known before: $T^{2/3}/\\epsilon$" + (" N" if arms else ""),
        )  # fmt: skip
        ceiling = max(run.nothing.max() for run in by_epsilon.values() if run.instance == instance)
        first.axhline(ceiling, color="0.6", linewidth=1.0, label="doing nothing")
        second.legend(fontsize=7, frameon=False, handlelength=3.5)
        first.legend(fontsize=7, frameon=False)
        horizon = by_epsilon[instance, next(iter(CONTENDERS[instance]))].horizon
        name = "N" if instance == "ball" else "K"
        plot.label_axes(first, f"{instance}, T = {horizon}, {name} = {SIZE}",
                        xlabel="$\\epsilon$", ylabel="worst mean regret")  # fmt: skip
        shown = "$\\epsilon$ = 1; dotted: without privacy"
        for panel, fixed, label in (
            (second, f"{name} = {SIZE}", "T"),
            (third, f"T = {horizon}", name),
        ):
            title = f"{instance}, {fixed}, {shown}"
            plot.label_axes(panel, title, xlabel=label, ylabel="worst mean regret")
        for panel in (first, second, third):
            panel.set_xscale("log")
            panel.set_yscale("log")
        plot.ticks_at(third.xaxis, [run.size for run in next(iter(by_size.values()))])
    trials = next(iter(by_epsilon.values())).regret.shape[-1]
    drawn.supxlabel(
        f"{trials} trials; worst of {len(GAPS)} gaps, or of {len(BIASES)} biases of the losses. "
        "Local and central privacy are not the same promise. Calibrations as we read them.\n"
        "From epsilon = 1 on a batch is one round: batches of EXP2 lie on DP-EXP2, of which only "
        "the dots show. Without privacy the three kinds of SCRiBLE are one.",
        fontsize=8,
    )
    return drawn


def parameters(horizon, trials) -> dict:
    """Everything that the tables and figures depend on."""
    return {
        "horizon": horizon,
        "horizons": horizons(horizon),
        "trials": trials,
        "size": SIZE,
        "sizes": list(SIZES),
        "epsilons": list(EPSILONS),
        "gaps": list(GAPS),
        "biases": list(BIASES),
        "key": f"jax.random.key({SEED})",
        "resamples": 400,
        **computed_with(),
    }


def horizons(horizon) -> list[int]:
    """T / 16, T / 4, T and 4T."""
    return [max(horizon // 16, 16), max(horizon // 4, 32), horizon, 4 * horizon]


def reproduce(
    out="results/agarwal2017-bandits", *, horizon=HORIZON, trials=TRIALS, progress=True
) -> str:
    """Runs everything and writes figures, tables and parameters into the folder ``out``.

    Files: agarwal2017_bandits.png and .pdf (regret against epsilon, T and N),
    agarwal2017_bandits.csv (all final regrets), agarwal2017_bandits_slopes.csv (fitted exponents),
    agarwal2017_bandits_crossing.csv (where batches win), agarwal2017_bandits_adversaries.csv
    (losses whose best point moves); parameters.json.

    Args:
      out: folder, created if missing.
      horizon: T, rounds; horizons from T / 16 to 4 T are played too.
      trials: at least 4.
      progress: whether to show progress bars.

    Returns:
      The printed summary.

    Raises:
      OSError: the folder cannot be written to.
      ValueError: too few trials.
    """
    if trials < 4:
        raise ValueError(f"trials must be at least 4, got {trials}")
    fewer = max(4, trials // 2)
    with output_folder(out) as folder:
        # The curves against T and N share a run, which is played once.
        @cache
        def few(instance, name, length, size):
            return play(instance, name, length, size, FEW_EPSILONS, fewer, progress=progress)

        by_epsilon, by_horizon, by_size = {}, {}, {}
        for instance, contenders in CONTENDERS.items():
            for name in contenders:
                key = instance, name
                by_epsilon[key] = play(
                    instance, name, horizon, SIZE, EPSILONS, trials, progress=progress
                )
                by_horizon[key] = [few(*key, length, SIZE) for length in horizons(horizon)]
                by_size[key] = [few(*key, horizon, size) for size in SIZES]
        adversaries = play_adversaries(horizon, SIZE, fewer, progress=progress)
        runs = [*by_epsilon.values()]
        runs += [run for group in by_horizon.values() for run in group]
        runs += [run for group in by_size.values() for run in group if run.size != SIZE]
        slopes, crossings = slope_table(by_epsilon, by_horizon, by_size), crossing_table(by_epsilon)
        write_csv(folder / "agarwal2017_bandits.csv", [row for run in runs for row in rows_of(run)])
        write_csv(folder / "agarwal2017_bandits_slopes.csv", slopes)
        write_csv(folder / "agarwal2017_bandits_crossing.csv", crossings)
        write_csv(folder / "agarwal2017_bandits_adversaries.csv", adversaries)
        write_json(folder / "parameters.json", parameters(horizon, trials))
    write_figure(out, "agarwal2017_bandits", figure, by_epsilon, by_horizon, by_size)
    return "\n\n".join(format_table(rows) for rows in (slopes, crossings, adversaries))
