"""Hanna et al. 2022: what privacy costs linear elimination, up to 1e9 rounds.

We know the algorithm from Chari's survey, which has no experiment; this file makes one. Actions are
vectors on the unit sphere, rewards <theta, a> in [-1, 1] become losses (1 - <theta, a>) / 2, and
T = 1e8 rounds are played in batches.
"""

from typing import Any, NamedTuple

import numpy as np
from jax import random as jr

from dpjax import environments, learners
from dpjax.analysis import bounds, plot, statistics
from dpjax.analysis.output import format_table, output_folder, write_csv, write_figure, write_json
from dpjax.maths import designs
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
from dpjax.privacy import default_delta
from dpjax.simulate import simulate, simulate_batches

HORIZON, QUICK_HORIZON = 10**8, 10**5
TRIALS, QUICK_TRIALS = 400, 32
EPSILONS = (0.1, 0.25, 1.0, 10.0, np.inf)
# Stronger privacy, which the figure against epsilon shows too.
MORE_EPSILONS = (0.003, 0.01, 0.03)
SEED = 2022
HORIZONS = tuple(10**k for k in range(4, 10))
HORIZON_EPSILONS = (0.1, 1.0, np.inf)
# Lengths of theta, which scale all gaps: at each horizon, the worst-case regret is the largest over
# them.
LENGTHS = tuple(10.0 ** -np.arange(0.0, 4.6, 0.5))
ZETAS = (0.3, 0.1, 0.03, 0.01)
ZETA_EPSILON = 1.0


class Instance(NamedTuple):
    """Actions of length 1, and theta."""

    actions: Any  # (K, d) NumPy
    theta: Any  # (d,)

    def means(self, length=1.0) -> np.ndarray:
        """Mean losses (K,), where theta has this length."""
        return 0.5 - 0.5 * length * self.actions @ self.theta

    def missed(self) -> float:
        """The regret per round of the best action against the best point of the sphere."""
        return float(0.5 - 0.5 * np.max(self.actions @ self.theta))


def on_sphere(arms, dim, seed) -> Instance:
    """Actions and theta drawn uniformly from the unit sphere."""
    random = np.random.default_rng(seed)
    actions, theta = random.normal(size=(arms, dim)), random.normal(size=dim)
    actions /= np.linalg.norm(actions, axis=1, keepdims=True)
    return Instance(actions, theta / np.linalg.norm(theta))


def on_net(zeta) -> Instance:
    """A zeta-net of the circle; theta lies in the worst place, half-way between two points."""
    actions = designs.circle_net(zeta)
    angle = np.pi / len(actions)
    return Instance(actions, np.array([np.cos(angle), np.sin(angle)]))


INSTANCES = {
    "K = 20, d = 2": on_sphere(20, 2, 1),
    "K = 20, d = 5": on_sphere(20, 5, 1),
    "net, zeta = 0.05": on_net(0.05),
}
HORIZON_INSTANCE = "K = 20, d = 5"


def elimination(**options):
    """Linear elimination as a function of (horizon, actions, epsilon)."""
    return lambda horizon, actions, epsilon: learners.linear_elimination(
        horizon, actions, epsilon=epsilon, **options
    )


def over_arms(factory):
    """A learner over arms, which does not see the actions, as the same kind of function."""
    return lambda horizon, actions, epsilon: factory(horizon, len(actions), epsilon=epsilon)


BY_BATCHES = {
    "exact": elimination(),
    "Chernoff": elimination(radius="chernoff"),
    "printed": elimination(radius="printed"),
    "local, exact": elimination(model="local"),
    "local, Chernoff": elimination(model="local", radius="chernoff"),
    "DP-SE": over_arms(learners.successive_elimination),
}


def on_arms(factory):
    """A game (horizon, instance, epsilon) -> (learner, environment) of a learner over arms."""
    return lambda horizon, instance, epsilon: (
        factory(horizon, instance.actions, epsilon),
        environments.bernoulli(instance.means(), regret="pseudo"),
    )


def on_features(horizon, instance, epsilon):
    """Private LinUCB with the same actions as features, jointly private at delta = T^-2."""
    dim = instance.actions.shape[1]
    learner = learners.linucb(horizon, dim, epsilon=epsilon, delta=default_delta(horizon))
    environment = environments.fixed_actions(instance.actions, -instance.theta)
    # Its losses lie in [-1, 1], so half of its regret compares with losses in [0, 1].
    return learner, environment._replace(
        regret=lambda state, tally: 0.5 * environment.regret(state, tally)
    )


# Games of learners that choose anew each round, with regret in units of losses in [0, 1].
BY_ROUNDS = {
    "LinUCB": on_features,
    "Lazy-UCB": on_arms(over_arms(learners.lazy_ucb)),
    "UCB1": on_arms(lambda horizon, actions, epsilon: learners.ucb1(horizon, len(actions))),
}
COLORS = dict(
    zip(BY_BATCHES, ("tab:blue", "tab:orange", "tab:green", "tab:blue", "tab:orange", "0.3"),
        strict=True)
) | {"LinUCB": "tab:purple", "Lazy-UCB": "tab:red", "UCB1": "0.6"}  # fmt: skip


def round_horizon(horizon) -> int:
    """The horizon of the games that are played round by round."""
    return min(horizon, 2**17)


def round_trials(trials) -> int:
    """The trials of the games that are played round by round."""
    return max(trials // 8, 8)


class Run(NamedTuple):
    """One learner at one epsilon on one instance."""

    learner: str
    instance: str
    epsilon: float  # asked for and declared; inf for none
    rounds: np.ndarray  # (n,)
    regret: np.ndarray  # (trials, n), pseudo-regret in losses
    phases: Any  # (trials,) completed phases or epochs, None for a learner without them
    active: Any  # (trials,) arms that are left


def _play(name, game, instance, epsilons, horizon, trials, play, progress) -> list[Run]:
    """Sweeps a learner over epsilon on one instance."""

    def at(epsilon):
        return game(horizon, INSTANCES[instance], epsilon)

    at.__name__ = name
    result = sweep(
        at, np.array(epsilons, np.float32), trials, jr.key(SEED),
        play=play, checkpoints=log_checkpoints(horizon, 60), progress=progress,
    )  # fmt: skip
    report = result.report if hasattr(result.report, "active") else None
    runs = []
    for i, epsilon in enumerate(epsilons):
        counts = (None, None) if report is None else (report[0][i], report.active[i])
        runs.append(Run(name, instance, epsilon, result.rounds, result.regret[i], *counts))
    return runs


def play_batches(horizon, trials, *, progress=True) -> list[Run]:
    """Plays all learners of batches on all instances, at all epsilons."""
    epsilons = sorted({*MORE_EPSILONS, *EPSILONS})
    return [
        run
        for instance in INSTANCES
        for name, factory in BY_BATCHES.items()
        for run in _play(
            name, on_arms(factory), instance, epsilons, horizon, trials, simulate_batches, progress
        )
    ]


def play_rounds(horizon, trials, *, progress=True) -> list[Run]:
    """Plays games round by round, and elimination and DP-SE beside them at the same horizon."""
    games = [(name, game, simulate) for name, game in BY_ROUNDS.items()]
    beside = [name for name in ("exact", "local, exact", "DP-SE") if name in BY_BATCHES]
    games += [(name, on_arms(BY_BATCHES[name]), simulate_batches) for name in beside]
    return [
        run
        for name, game, play in games
        for run in _play(
            name, game, HORIZON_INSTANCE, EPSILONS, horizon, trials, play, progress
        )
    ]  # fmt: skip


class HorizonRun(NamedTuple):
    """The final regret of one learner at each horizon, for each length of theta."""

    learner: str
    epsilon: float
    horizons: np.ndarray  # (n,)
    regret: np.ndarray  # (lengths, trials, n)


def play_horizons(horizons, trials, *, progress=True) -> list[HorizonRun]:
    """Plays each horizon as a game of its own, for all of these learners know their horizon."""
    instance = INSTANCES[HORIZON_INSTANCE]
    cases = [(length, epsilon) for length in LENGTHS for epsilon in HORIZON_EPSILONS]
    points = {
        "means": np.array([instance.means(length) for length, _ in cases], np.float32),
        "epsilon": np.array([epsilon for _, epsilon in cases], np.float32),
    }
    runs = []
    for name, factory in BY_BATCHES.items():
        finals = []
        for horizon in horizons:

            def game(point, factory=factory, horizon=horizon):
                learner = factory(horizon, instance.actions, point["epsilon"])
                return learner, environments.bernoulli(point["means"], regret="pseudo")

            game.__name__ = name
            result = sweep(
                game, points, trials, jr.key(SEED),
                play=simulate_batches, checkpoints=1, progress=progress,
            )  # fmt: skip
            finals.append(result.regret[..., 0].reshape(len(LENGTHS), len(HORIZON_EPSILONS), -1))
        stacked = np.stack(finals, axis=-1).astype(np.float64)
        for i, epsilon in enumerate(HORIZON_EPSILONS):
            runs.append(HorizonRun(name, epsilon, np.array(horizons), stacked[:, i]))
    return runs


class NetRun(NamedTuple):
    """Final regret against the best point of the circle, for one net."""

    zeta: float
    arms: int
    regret: np.ndarray  # (trials,) to the best point of the net
    missed: float  # regret of that point


def play_nets(horizon, trials, *, progress=True) -> list[NetRun]:
    """Plays elimination with exact radii on nets of the circle, from coarse to fine."""
    runs = []
    for zeta in ZETAS:
        instance = on_net(zeta)

        def game(epsilon, instance=instance):
            return on_arms(BY_BATCHES["exact"])(horizon, instance, epsilon)

        final = sweep(
            game, np.array([ZETA_EPSILON], np.float32), trials, jr.key(SEED),
            play=simulate_batches, checkpoints=1, chunk=64, progress=progress,
        ).regret[0, :, 0]  # fmt: skip
        runs.append(NetRun(zeta, len(instance.actions), final, horizon * instance.missed()))
    return runs


def upper_bound(run):
    """The theorem's bound, or None where there is none: the printed radius is not proven."""
    if "exact" not in run.learner and "Chernoff" not in run.learner:
        return None
    arms, dim = INSTANCES[run.instance].actions.shape
    model = "local" if "local" in run.learner else "central"
    bound = bounds.linear_elimination(
        float(run.rounds[-1]), arms, dim, run.epsilon, model=model
    )  # fmt: skip
    return float(bound)


def table(runs) -> list[dict]:
    """Final regret with its quantiles, one row per run."""
    rows = []
    for run in runs:
        final = run.regret[:, -1]
        none = run.active is None
        rows.append(
            {
                "instance": run.instance,
                "learner": run.learner,
                "epsilon": float("inf") if run.learner == "UCB1" else run.epsilon,
                "horizon": int(run.rounds[-1]),
                **summary(final),
                "phases": None if none else float(run.phases.mean()),
                "active": None if none else float(run.active.mean()),
                "upper": upper_bound(run),
                "trials": len(final),
            }
        )
    # UCB1 takes no epsilon but was played at each: of its equal rows one is kept.
    return list({tuple(row.items()): row for row in rows}.values())


def curve_rows(runs) -> list[dict]:
    """Mean, 10 % and 90 % quantile at each checkpoint."""
    return [
        row
        for run in runs
        for row in quantile_curve(
            run.rounds, run.regret, instance=run.instance, learner=run.learner,
            epsilon=run.epsilon, horizon=int(run.rounds[-1]),
        )
    ]  # fmt: skip


def horizon_rows(runs) -> list[dict]:
    """Final regret at the length 1 of theta, and at the worst length."""
    rows = []
    for run in runs:
        means = run.regret.mean(axis=1)
        worst = means.argmax(axis=0)
        for i, horizon in enumerate(run.horizons):
            rows.append(
                {
                    "learner": run.learner,
                    "epsilon": run.epsilon,
                    "horizon": int(horizon),
                    "mean": float(means[0, i]),
                    "standard_error": float(statistics.standard_error(run.regret[0, :, i])),
                    "worst_length": LENGTHS[worst[i]],
                    "worst": float(means[worst[i], i]),
                    "worst_error": float(statistics.standard_error(run.regret[worst[i], :, i])),
                    "trials": run.regret.shape[1],
                }
            )
    return rows


def slope(horizons, regret) -> float:
    """Exponent b of a regret (n,) fitted as T^b."""
    return float(np.polyfit(np.log(horizons), np.log(np.maximum(regret, 1e-9)), 1)[0])


def exponent_rows(runs) -> list[dict]:
    """Exponents of T in the regret at the worst length of theta, with 95 % intervals."""
    rows = []
    for run in runs:
        late = run.horizons >= run.horizons[-1] / 10**4

        def exponent(seeds, run=run, late=late):
            means = run.regret[:, seeds][:, :, late].mean(axis=1)
            return slope(run.horizons[late], means.max(axis=0))

        value, low, high = statistics.resampled(run.regret.shape[1], exponent)
        rows.append(
            {
                "learner": run.learner,
                "epsilon": run.epsilon,
                "from": int(run.horizons[late][0]),
                "to": int(run.horizons[-1]),
                "exponent": value,
                "low": low,
                "high": high,
                "trials": run.regret.shape[1],
            }
        )
    return rows


def net_rows(runs) -> list[dict]:
    """Regret against the best point of the circle, in its two parts."""
    return [
        {
            "zeta": run.zeta,
            "arms": run.arms,
            "epsilon": ZETA_EPSILON,
            "to_the_net": float(run.regret.mean(dtype=np.float64)),
            "standard_error": float(statistics.standard_error(run.regret)),
            "net_to_circle": run.missed,
            "total": float(run.regret.mean(dtype=np.float64)) + run.missed,
            "trials": len(run.regret),
        }
        for run in runs
    ]


def overtaking_rows(runs) -> list[dict]:
    """The first round from which on elimination (exact) has less mean regret than another learner.

    There is one row per epsilon and learner that plays round by round. The round is empty where
    elimination stays behind.
    """
    rows = []
    for epsilon in EPSILONS:
        mine = {run.learner: run for run in runs if run.epsilon == epsilon}
        ours = mine["exact"].regret.mean(axis=0, dtype=np.float64)
        for name in BY_ROUNDS:
            other = mine[name].regret.mean(axis=0, dtype=np.float64)
            behind = np.flatnonzero(ours >= other)
            first = 0 if len(behind) == 0 else behind[-1] + 1
            rows.append(
                {
                    "learner": name,
                    "epsilon": epsilon,
                    "from_round": int(mine[name].rounds[first]) if first < len(ours) else None,
                    "elimination": float(ours[-1]),
                    "elimination_error": float(
                        statistics.standard_error(mine["exact"].regret[:, -1])
                    ),
                    "other": float(other[-1]),
                    "other_error": float(statistics.standard_error(mine[name].regret[:, -1])),
                    "horizon": int(mine[name].rounds[-1]),
                }
            )
    return rows


def _style(learner) -> dict:
    line = "--" if "local" in learner else "-." if learner in BY_ROUNDS else "-"
    return {"color": COLORS[learner], "linestyle": line, "linewidth": 1.4, "label": learner}


def main_figure(runs, longer, nets):
    """Final regret against epsilon, the horizon and the net."""
    figure, axes = plot.panels(2, 3, size=(15.0, 8.5))
    for panel, instance in zip(axes, INSTANCES, strict=False):
        for name in BY_BATCHES:
            mine = [run for run in runs if (run.learner, run.instance) == (name, instance)]
            finite = np.isfinite([run.epsilon for run in mine])
            band = statistics.mean_band(np.stack([run.regret[:, -1] for run in mine]), axis=1)
            x = np.array([run.epsilon for run in mine])[finite]
            style = _style(name)
            panel.plot(x, band.mean[finite], **style, marker="o", markersize=3)
            mean, low, high = (values[finite] for values in band)
            fill_log_band(panel, x, mean, low, high, style["color"])
            panel.axhline(band.mean[-1], color=style["color"], linewidth=0.6, alpha=0.6)
        panel.set_xscale("log")
        panel.set_yscale("log")
        plot.label_axes(
            panel, f"{instance}, T = {mine[0].rounds[-1]:g}",
            xlabel="$\\epsilon$", ylabel="mean regret at T",
        )  # fmt: skip
    _horizon_panel(axes[3], longer, 1.0, worst=False)
    _horizon_panel(axes[4], longer, 1.0, worst=True)
    panel, x = axes[5], [run.zeta for run in nets]
    inside = np.array([run.regret.mean() for run in nets])
    missed = np.array([run.missed for run in nets])
    for y, line, label in [
        (inside, ":", "to the best of the net"),
        (missed, "--", "of the net to the circle"),
        (inside + missed, "-", "sum"),
    ]:
        panel.plot(x, y, line, color="black", marker="o", markersize=3, label=label)
    panel.set_xscale("log")
    panel.set_yscale("log")
    plot.label_axes(
        panel, f"nets of the circle, exact, $\\epsilon$ = {ZETA_EPSILON:g}", xlabel="$\\zeta$",
        ylabel="mean regret at T",
    )  # fmt: skip
    one_legend(
        figure, axes,
        f"{len(runs[0].regret)} trials (against T: {longer[0].regret.shape[1]}), bands 95 %. Thin "
        "lines: the same learner without privacy. Names are radii of elimination; dashed: noise on "
        "each loss.\nLines later in the legend are on top: Chernoff lies under printed where it is "
        "not seen.",
    )  # fmt: skip
    return figure


def _horizon_panel(panel, runs, epsilon, *, worst) -> None:
    for run in runs:
        if run.epsilon == epsilon:
            means = run.regret.mean(axis=1)
            panel.plot(
                run.horizons, means.max(axis=0) if worst else means[0],
                **_style(run.learner), marker="o", markersize=3,
            )  # fmt: skip
    arms, dim = INSTANCES[HORIZON_INSTANCE].actions.shape
    t = runs[0].horizons.astype(np.float64)
    if worst:
        panel.plot(
            t, bounds.linear_elimination(t, arms, dim, epsilon), color="tab:blue",
            linestyle=(0, (1, 3)), label="upper bound, central",
        )  # fmt: skip
        # It is stated for rewards of variance 1, as a fair one in {-1, 1} has; losses are half.
        panel.plot(
            t, 0.5 * bounds.azize_basu_linear(t, dim, epsilon), color="black", linestyle=":",
            label="lower bound on a cube",
        )  # fmt: skip
    panel.set_xscale("log")
    panel.set_yscale("log")
    kind = "worst |theta|" if worst else "|theta| = 1"
    plot.label_axes(
        panel, f"{HORIZON_INSTANCE}, $\\epsilon$ = {epsilon:g}, {kind}", xlabel="horizon T",
        ylabel="mean regret at T",
    )  # fmt: skip


def curves_figure(runs, by_rounds):
    """Regret against the round, for batches up to T (above) and round by round (below)."""
    shown = (0.1, 1.0, np.inf)
    figure, axes = plot.panels(2, len(shown), size=(15.0, 8.5))
    for row, these in enumerate((runs, by_rounds)):
        for column, epsilon in enumerate(shown):
            panel = axes[row * len(shown) + column]
            for run in these:
                if (run.instance, run.epsilon) == (HORIZON_INSTANCE, epsilon):
                    panel.plot(run.rounds, run.regret.mean(axis=0), **_style(run.learner))
            panel.set_xscale("log")
            panel.set_yscale("log")
            title = f"{HORIZON_INSTANCE}, $\\epsilon$ = {epsilon:g}, T = {these[0].rounds[-1]:g}"
            plot.label_axes(panel, title, ylabel="mean pseudo-regret")
    one_legend(
        figure, axes,
        f"Above: {len(runs[0].regret)} trials; below: {len(by_rounds[0].regret)}, dash-dotted: "
        "round by round. UCB1 is not private.\nLines later in the legend are on top: Chernoff lies "
        "under printed, and without privacy central under local.",
    )  # fmt: skip
    return figure


def parameters(horizon, trials) -> dict:
    """Everything that the tables and figures depend on."""
    return {
        "horizon": horizon,
        "trials": trials,
        "horizons": list(horizons(horizon)),
        "horizon_trials": horizon_trials(trials),
        "round_horizon": round_horizon(horizon),
        "round_trials": round_trials(trials),
        "epsilons": list(EPSILONS),
        "more_epsilons": list(MORE_EPSILONS),
        "lengths": list(LENGTHS),
        "zetas": list(ZETAS),
        "instances": {
            name: {
                "actions": instance.actions.tolist(),
                "theta": instance.theta.tolist(),
                "gaps": np.sort(instance.means() - instance.means().min())[:5].tolist(),
            }
            for name, instance in INSTANCES.items()
        },
        "key": f"jax.random.key({SEED})",
        **computed_with(),
    }


def horizons(horizon) -> tuple[int, ...]:
    """Powers of ten up to ``horizon``, and at full size up to ten times it."""
    return tuple(h for h in HORIZONS if h <= (10 * horizon if horizon >= HORIZON else horizon))


def horizon_trials(trials) -> int:
    """The trials for each length of theta at each horizon."""
    return max(trials // 4, 8)


def reproduce(out="results/hanna2022", *, horizon=HORIZON, trials=TRIALS, progress=True) -> str:
    """Runs everything and writes figures, tables and parameters into the folder ``out``.

    Files: hanna2022.png and .pdf (regret against epsilon, the horizon and the net),
    hanna2022_curves likewise; hanna2022.csv (final regrets with quantiles and bounds),
    hanna2022_curves.csv, hanna2022_horizon.csv, hanna2022_exponents.csv, hanna2022_nets.csv,
    hanna2022_rounds.csv (from which round on elimination overtakes); parameters.json.

    Args:
      out: folder, created if missing.
      horizon: T for learners of batches, at least 10^4; games round by round have at most 2^17.
      trials: for learners of batches, at least 8.
      progress: whether to show progress bars.

    Returns:
      The printed summary.

    Raises:
      OSError: the folder cannot be written to.
      ValueError: too few trials or rounds.
    """
    check_size(horizon, trials, HORIZONS[0])
    with output_folder(out) as folder:
        runs = play_batches(horizon, trials, progress=progress)
        longer = play_horizons(horizons(horizon), horizon_trials(trials), progress=progress)
        nets = play_nets(horizon, trials, progress=progress)
        by_rounds = play_rounds(round_horizon(horizon), round_trials(trials), progress=progress)
        rows, exponents = table([*runs, *by_rounds]), exponent_rows(longer)
        net_table, overtaking = net_rows(nets), overtaking_rows(by_rounds)
        write_csv(folder / "hanna2022.csv", rows)
        write_csv(folder / "hanna2022_curves.csv", curve_rows([*runs, *by_rounds]))
        write_csv(folder / "hanna2022_horizon.csv", horizon_rows(longer))
        write_csv(folder / "hanna2022_exponents.csv", exponents)
        write_csv(folder / "hanna2022_nets.csv", net_table)
        write_csv(folder / "hanna2022_rounds.csv", overtaking)
        write_json(folder / "parameters.json", parameters(horizon, trials))
    write_figure(out, "hanna2022", main_figure, runs, longer, nets)
    write_figure(out, "hanna2022_curves", curves_figure, runs, by_rounds)
    printed = ["instance", "learner", "epsilon", "horizon", "mean", "standard_error"]
    printed += ["q5", "q50", "q95", "phases", "active", "upper", "trials"]
    shown = [
        {name: row[name] for name in printed}
        for row in rows
        if row["epsilon"] in EPSILONS and row["horizon"] == horizon
    ]
    return "\n\n".join(map(format_table, (shown, exponents, net_table, overtaking)))
