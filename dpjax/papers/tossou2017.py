"""Tossou & Dimitrakakis 2017, "Achieving privacy in the adversarial multi-armed bandit".

The paper's experiment plays EXP3, DP-EXP3-Lap and EXP3_tau against five adversaries, at the privacy
level of its corollary. Here levels that its figures leave out are played too.

Formulas are masked in the text that we could read. Horizon, arms, trials, groups and constants
are reconstructed; they agree with each other and with everything that the text states.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jax import random as jr

from dpjax import environments
from dpjax.analysis import bounds, plot, statistics
from dpjax.analysis.output import format_table, output_folder, write_csv, write_figure, write_json
from dpjax.combinators import count_switches
from dpjax.learners import dp_exp3_lap, exp3, exp3_minibatch
from dpjax.learners.exp3 import default_mixing
from dpjax.learners.exp3_minibatch import printed_epsilon, switching_cost_tau
from dpjax.papers._shared import computed_with
from dpjax.papers.sweeps import sweep
from dpjax.privacy import default_delta

HORIZON, QUICK_HORIZON = 2**18, 2**14
TRIALS, QUICK_TRIALS = 720, 120
GROUPS = 24
ARMS = 4
EPSILONS = (10.0, 1.0, 0.1)
SEED = 2017
PRINTED = (
    "adversary", "learner", "model", "epsilon", "printed_epsilon", "tau",
    "regret", "gini_below", "gini_above", "switches", "bound",
)  # fmt: skip

ADVERSARIES: dict[str, Callable] = {
    "deterministic": lambda horizon: environments.deterministic(ARMS),
    "stochastic": lambda horizon: environments.bernoulli([0.45] + [0.5] * (ARMS - 1)),
    "fully oblivious": lambda horizon: environments.fully_oblivious(ARMS),
    "oblivious": lambda horizon: environments.oblivious(ARMS, 200),
    "switching cost": lambda horizon: environments.switching_cost(horizon, ARMS),
}


class Run(NamedTuple):
    """One learner at one privacy level against one adversary."""

    adversary: str
    learner: str
    level: str  # "paper", "accounted", or "" for an epsilon of our own
    model: str
    epsilon: float  # declared, derived
    delta: float
    printed_epsilon: float  # declared by the paper's theorem for the same algorithm
    tau: int | None
    rounds: np.ndarray  # (n,)
    regret: np.ndarray  # (trials, n)
    switches: np.ndarray  # (trials,)
    bound: float | None  # the paper's, full form, where it covers the adversary
    printed_bound: float | None


class Levels(NamedTuple):
    """Privacy levels of the experiment, in the order in which they are shown."""

    paper: float  # the corollary's: 28 K ln K + sqrt(112 K ln K ln T), as reconstructed
    accounted: float  # what we account for the same EXP3_tau at delta = T^-2
    tau: int  # the corollary's batch, rounded up
    taus: tuple[int, ...]  # the batches of EPSILONS


def levels(horizon) -> Levels:
    """The paper's level, what we account for its EXP3_tau, and the batches of our own levels."""
    delta = default_delta(horizon)
    exact = switching_cost_tau(horizon, ARMS)
    tau = int(np.ceil(exact))
    accounted = exp3_minibatch(horizon, ARMS, tau=tau).privacy.epsilon
    taus = (_tau(exp3_minibatch(horizon, ARMS, epsilon=epsilon)) for epsilon in EPSILONS)
    return Levels(float(printed_epsilon(horizon, exact, delta)), float(accounted), tau, tuple(taus))


def _tau(batch_learner) -> int:
    return int(batch_learner.init(jr.key(0))[1].rounds)


def play(adversary, *, horizon=HORIZON, trials=TRIALS, progress=True) -> list[Run]:
    """Plays all learners at all levels against one adversary; a trial is the same game for all."""
    shown = levels(horizon)

    def environment():
        return count_switches(ADVERSARIES[adversary](horizon))

    def play_minibatch(tau):
        return exp3_minibatch(horizon, ARMS, tau=tau), environment()

    def play_lap(epsilon):
        return dp_exp3_lap(horizon, ARMS, epsilon=epsilon), environment()

    # EXP3_tau with tau = 1 is EXP3 (tests/learners/test_exp3_minibatch.py): one program for both.
    taus: list[tuple[str, str, float]] = [("EXP3", "", 1), ("EXP3_tau", "paper", shown.tau)]
    taus += [("EXP3_tau", "", tau) for tau in shown.taus]
    epsilons = [
        ("DP-EXP3-Lap", "paper", shown.paper),
        ("DP-EXP3-Lap", "accounted", shown.accounted),
    ]
    epsilons += [("DP-EXP3-Lap", "", epsilon) for epsilon in EPSILONS]
    runs = []
    played: list[tuple[Any, list]] = [(play_minibatch, taus), (play_lap, epsilons)]
    for game, points in played:
        values = np.array([value for _, _, value in points], np.float32)
        result = sweep(game, values, trials, jr.key(SEED), progress=progress)
        for index, (name, level, value) in enumerate(points):
            privacy = game(value)[0].privacy
            epsilon = float(privacy.epsilon)
            tau = value if name == "EXP3_tau" else None
            full, printed = _bounds(adversary, name, horizon, epsilon, tau)
            runs.append(
                Run(
                    adversary=adversary,
                    learner=name,
                    level=level,
                    model=privacy.model,
                    epsilon=epsilon,
                    delta=float(privacy.delta),
                    printed_epsilon=_as_printed(name, horizon, epsilon, tau),
                    tau=tau,
                    rounds=result.rounds,
                    regret=result.regret[index],
                    switches=result.tally.switches[index],
                    bound=full,
                    printed_bound=printed,
                )
            )
    return sorted(runs, key=lambda run: ("EXP3", "DP-EXP3-Lap", "EXP3_tau").index(run.learner))


def _as_printed(learner, horizon, epsilon, tau) -> float:
    if learner == "DP-EXP3-Lap":
        return epsilon
    if learner == "EXP3":
        return float(exp3(horizon, ARMS, calibration="printed").privacy.paper_epsilon)
    return float(printed_epsilon(horizon, tau, default_delta(horizon)))


def _bounds(adversary, learner, horizon, epsilon, tau):
    if learner == "EXP3_tau":
        memory = 1 if adversary == "switching cost" else 0
        return float(bounds.exp3_minibatch(horizon, ARMS, tau, memory)), None
    if adversary == "switching cost":
        return None, None
    if learner == "EXP3":
        return float(bounds.exp3(horizon, ARMS)), None
    printed = float(bounds.dp_exp3_lap_printed(horizon, ARMS, epsilon))
    return float(bounds.dp_exp3_lap(horizon, ARMS, epsilon)), printed


def _estimate(trials):
    """The paper's centre and spread of (trials, ...): median of means, Gini below and above."""
    centre = statistics.median_of_means(trials, GROUPS, axis=0)
    return centre, statistics.gini_spread(trials, centre, axis=0)


def table(runs) -> list[dict]:
    """Final regret with its spread, switches and bounds, one row per run."""
    rows = []
    for run in runs:
        final = run.regret[:, -1]
        centre, spread = _estimate(final)
        rows.append(
            {
                "adversary": run.adversary,
                "learner": run.learner,
                "level": run.level,
                "model": run.model,
                "epsilon": run.epsilon,
                "delta": run.delta,
                "printed_epsilon": run.printed_epsilon,
                "tau": run.tau,
                "regret": float(centre),
                "gini_below": float(spread.below),
                "gini_above": float(spread.above),
                "mean": float(final.mean(dtype=np.float64)),
                "standard_error": float(statistics.standard_error(final)),
                "switches": float(run.switches.mean(dtype=np.float64)),
                "bound": run.bound,
                "printed_bound": run.printed_bound,
                "trials": len(final),
            }
        )
    return rows


def corollary_sentence(rows) -> str:
    """Whether the printed corollary, as reconstructed, held where the paper ran DP-EXP3-Lap."""
    paper = [row for row in rows if row["level"] == "paper" and row["printed_bound"] is not None]
    worst = max(paper, key=lambda row: row["mean"])
    held = worst["mean"] <= worst["printed_bound"]
    return (
        f"The corollary of DP-EXP3-Lap, as reconstructed, gives {worst['printed_bound']:.0f} at "
        f"epsilon = {worst['epsilon']:.1f} (with the interval's full length: "
        f"{worst['bound']:.0f}). Largest mean regret against an oblivious adversary there: "
        f"{worst['mean']:.0f} +- {worst['standard_error']:.1f} ({worst['adversary']}). "
        f"The printed form {'held' if held else 'was violated'}."
    )


def _label(run) -> str:
    if run.learner == "EXP3":
        return "EXP3, no noise"
    level = f"$\\epsilon$ = {run.epsilon:.3g}"
    if run.learner == "DP-EXP3-Lap":
        note = {"paper": ", the paper's", "accounted": ", as EXP3$_\\tau$'s"}.get(run.level, "")
        return f"DP-EXP3-Lap (local), {level}{note}"
    note = f",\nthe paper's ({run.printed_epsilon:.0f} by its theorem, as reconstructed)"
    note = note if run.level == "paper" else ""
    return f"EXP3$_\\tau$ (central), $\\tau$ = {run.tau}, {level}{note}"


def _color(epsilon, shown):
    """Dark for strong privacy, bright for weak, in equal steps from level to level."""
    if np.isinf(epsilon):
        return "black"
    all_levels = np.sort([*EPSILONS, shown.accounted, shown.paper])
    place = np.argmin(np.abs(np.log(all_levels / epsilon)))
    return plot.STEPS(0.9 * place / (len(all_levels) - 1))


def _curve(run, shown) -> plot.Curve:
    centre, spread = _estimate(run.regret)
    paper = run.level == "paper" or run.learner == "EXP3"
    style = {
        "color": _color(np.inf if run.learner == "EXP3" else run.epsilon, shown),
        "linestyle": "--" if run.learner == "EXP3_tau" else "-",
        "linewidth": 2.0 if paper else 1.0,
    }
    # The paper's three curves get its error bars; bars on the others would hide the rest.
    low, high = (centre - spread.below, centre + spread.above) if paper else (None, None)
    return plot.Curve(_label(run), run.rounds, centre, low, high, style)


def figure(runs, horizon):
    """One panel per adversary, and a sixth with the legend and a note."""
    drawn, panels = plot.panels(2, 3, size=(13.0, 7.6))
    shown = levels(horizon)
    for axes, letter, adversary in zip(panels[:5], "abcde", ADVERSARIES, strict=True):
        mine = [run for run in runs if run.adversary == adversary]
        plot.draw_curves(axes, [_curve(run, shown) for run in mine], bars=8)
        axes.locator_params(axis="x", nbins=3)
        policy = adversary == "switching cost"
        plot.label_axes(
            axes,
            f"({letter}) {adversary} adversary",
            ylabel="policy regret" if policy else "regret",
        )
    legend = panels[5]
    legend.axis("off")
    handles, labels = panels[0].get_legend_handles_labels()
    legend.legend(
        handles, labels, loc="upper left", fontsize=8, frameon=False, handlelength=3.5,
        labelspacing=0.25, borderaxespad=0.0,
    )  # fmt: skip
    trials = len(runs[0].regret)
    legend.text(
        0.0,
        0.0,
        f"Privacy looks free at the paper's own level, $\\epsilon$ $\\approx$ {shown.paper:.0f}:\n"
        "no one would call that private. Accounted by zCDP at\n"
        f"$\\delta$ = $T^{{-2}}$, the same EXP3$_\\tau$ has $\\epsilon$ = {shown.accounted:.1f}. "
        "DP-EXP3-Lap is\nprivate in the stronger, local model; EXP3$_\\tau$ in the central.\n"
        f"T = {horizon}, K = {ARMS}, {trials} trials; median of means over\n"
        f"{GROUPS} groups, bars: Gini mean difference below and above.\n"
        "Reconstructed constants; calibrations as we read them.\n"
        "In (e) EXP3$_\\tau$ at $\\epsilon$ = 1 and 0.1 lies on the axis.",
        transform=legend.transAxes,
        fontsize=8.5,
        verticalalignment="bottom",
    )
    return drawn


class MemoryRun(NamedTuple):
    """One learner against adversaries of growing memory."""

    learner: str
    tau: int
    memory: np.ndarray  # (m,)
    regret: np.ndarray  # (m, trials), final policy regret


def play_memory(*, horizon=HORIZON, trials=QUICK_TRIALS, progress=True) -> list[MemoryRun]:
    """Plays EXP3 and EXP3_tau against adversaries with memory m = 0, 1, 2, 4, ... < tau."""
    tau = levels(horizon).tau
    memory = np.array([0] + [2**i for i in range(31) if 2**i < tau], np.float32)
    means = [0.45] + [0.5] * (ARMS - 1)

    taus = np.repeat(np.array([1, tau], np.float32), len(memory))

    def game(point):
        learner = exp3_minibatch(horizon, ARMS, tau=point["tau"])
        return learner, environments.memory(means, rounds=point["memory"])

    points = {"tau": taus, "memory": np.tile(memory, 2)}
    regret = sweep(game, points, trials, jr.key(SEED), checkpoints=1, progress=progress).regret
    by_learner = regret[..., -1].reshape(2, len(memory), trials)
    return [
        MemoryRun("EXP3", 1, memory, by_learner[0]),
        MemoryRun("EXP3_tau", tau, memory, by_learner[1]),
    ]


def memory_table(runs, horizon) -> list[dict]:
    """Final policy regret and the bound of the mini-batch theorem, one row per memory."""
    return [
        {
            "learner": run.learner,
            "tau": run.tau,
            "memory": int(m),
            "mean": float(regret.mean(dtype=np.float64)),
            "standard_error": float(statistics.standard_error(regret)),
            "bound": float(bounds.exp3_minibatch(horizon, ARMS, run.tau, m)),
            "trials": len(regret),
        }
        for run in runs
        for m, regret in zip(run.memory, run.regret, strict=True)
    ]


def memory_figure(runs, horizon):
    """Policy regret against the adversary's memory, and the theorem's bound."""
    curves = []
    for run, color in zip(runs, ("black", "tab:blue"), strict=True):
        band = statistics.mean_band(run.regret, axis=1)
        label = "EXP3" if run.learner == "EXP3" else f"EXP3$_\\tau$, $\\tau$ = {run.tau}"
        style = {"color": color, "marker": "o", "markersize": 3}
        curves.append(plot.Curve(label, run.memory, band.mean, band.low, band.high, style))
    bound = bounds.exp3_minibatch(horizon, ARMS, runs[1].tau, runs[1].memory)
    style = {"color": "tab:blue", "linestyle": ":"}
    curves.append(plot.Curve("bound for EXP3$_\\tau$", runs[1].memory, bound, None, None, style))
    title = (
        f"An arm pays off after m rounds of warming up\nT = {horizon}, K = {ARMS}, "
        f"{runs[0].regret.shape[1]} trials, mean with 95 % bands"
    )
    drawn = plot.regret_figure(curves, title, ylabel="policy regret at T")
    drawn.axes[0].set_xlabel("memory m of the adversary, rounds")
    return drawn


def parameters(horizon, trials) -> dict:
    """Everything that the tables and figures depend on."""
    shown = levels(horizon)
    mixing = default_mixing(horizon, ARMS)
    inner = {
        str(tau): float(default_mixing(np.ceil(horizon / tau), ARMS))
        for tau in (shown.tau, *shown.taus)
    }
    epsilons = (shown.paper, shown.accounted, *EPSILONS)
    return {
        "horizon": horizon,
        "arms": ARMS,
        "trials": trials,
        "groups": GROUPS,
        "key": f"jax.random.key({SEED})",
        "delta": default_delta(horizon),
        "paper_epsilon": shown.paper,
        "accounted_epsilon": shown.accounted,
        "tau": shown.tau,
        "taus": dict(zip(map(str, EPSILONS), shown.taus, strict=True)),
        "exp3_mixing": float(mixing),
        "exp3_tau_mixing": inner,
        "thresholds": {f"{e:.6g}": float(np.log(horizon) / e) for e in epsilons},
        **computed_with(),
    }


def reproduce(out="results/tossou2017", *, horizon=HORIZON, trials=TRIALS, progress=True) -> str:
    """Runs everything and writes figures, tables and parameters into the folder ``out``.

    Files: tossou2017.png and .pdf (five adversaries), tossou2017.csv (final regrets),
    tossou2017_curves.csv (what the figure draws), tossou2017_memory.png, .pdf and .csv
    (adversaries with memory), parameters.json.

    Args:
      out: folder, created if missing.
      horizon: T, rounds.
      trials: a multiple of 24.
      progress: whether to show progress bars.

    Returns:
      The printed summary: both tables and the sentence on the corollary.

    Raises:
      OSError: the folder cannot be written to.
      ValueError: trials do not divide into groups.
    """
    if trials < GROUPS or trials % GROUPS:
        raise ValueError(f"trials must be a multiple of {GROUPS}, got {trials}")
    with output_folder(out) as folder:
        runs = [
            run
            for adversary in ADVERSARIES
            for run in play(adversary, horizon=horizon, trials=trials, progress=progress)
        ]
        memory_runs = play_memory(
            horizon=horizon, trials=min(trials, QUICK_TRIALS), progress=progress
        )
        rows, memory_rows = table(runs), memory_table(memory_runs, horizon)
        write_csv(folder / "tossou2017.csv", rows)
        write_csv(folder / "tossou2017_curves.csv", _curve_rows(runs))
        write_csv(folder / "tossou2017_memory.csv", memory_rows)
        write_json(folder / "parameters.json", parameters(horizon, trials))
    write_figure(out, "tossou2017", figure, runs, horizon)
    write_figure(out, "tossou2017_memory", memory_figure, memory_runs, horizon)
    shown = [{name: row[name] for name in PRINTED} for row in rows]
    return "\n\n".join([format_table(shown), format_table(memory_rows), corollary_sentence(rows)])


def _curve_rows(runs) -> list[dict]:
    rows = []
    for run in runs:
        centre, spread = _estimate(run.regret)
        for t, value, below, above in zip(
            run.rounds, centre, spread.below, spread.above, strict=True
        ):
            rows.append(
                {
                    "adversary": run.adversary,
                    "learner": run.learner,
                    "epsilon": run.epsilon,
                    "tau": run.tau,
                    "round": int(t),
                    "regret": float(value),
                    "gini_below": float(below),
                    "gini_above": float(above),
                }
            )
    return rows
