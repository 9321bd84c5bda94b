"""Sajed & Sheffet 2019: DP successive elimination beside earlier and later learners.

Four instances have five Bernoulli arms each, and T = 5e7. Learners that play in batches play all T
rounds; learners that choose anew each round play a 400th of them.
"""

import os
from functools import partial
from itertools import product

import numpy as np

from dpjax import bounds
from dpjax.papers import sajed2019_figures as figures
from dpjax.papers import sajed2019_games as games
from dpjax.papers import sajed2019_stopping as stopping
from dpjax.papers._shared import Report, check_size, curve_summary, final_summary, publish
from dpjax.report import arrays, estimates, statistics
from dpjax.report.tables import columns, format_table, rows

HORIZON, QUICK_HORIZON = 50_000_000, 1_000_000
TRIALS, QUICK_TRIALS = 1000, 64


def table(data) -> list[dict]:
    """Final regret with its quantiles and bounds, one row for each epsilon of a learner.

    The private lower bounds are taken at the declared epsilon. They are empty for (epsilon, delta)
    privacy, for which they do not hold.
    """
    uppers = {"DP-SE": bounds.successive_elimination, "AdaP-UCB": bounds.adap_ucb}
    found = _rows(final_summary(data.final_regret), "learner", "instance", "epsilon")
    for row in found:
        horizon, losses, epsilon = row["horizon"], games.means(row["instance"]), row["epsilon"]
        row["lower_d_epsilon"] = row["lower_shariff_sheffet"] = row["upper"] = None
        if row["delta"] == 0.0:
            row["lower_d_epsilon"] = float(games.lower_bound(horizon, row["instance"], epsilon))
            row["lower_shariff_sheffet"] = float(
                bounds.shariff_sheffet(horizon, games.ARMS, epsilon)
            )
        row["lower_lai_robbins"] = float(bounds.lai_robbins(horizon, losses))
        if row["learner"] in uppers:
            row["upper"] = float(uppers[row["learner"]](horizon, losses, row["asked"]))
        row["trials"] = data.sizes["trial"]
    return columns(
        found, "instance learner asked epsilon delta horizon mean standard_error q5 q25 q50 q75 "
        "q95 lower_d_epsilon lower_lai_robbins lower_shariff_sheffet upper trials",
    )  # fmt: skip


def curves(data) -> list[dict]:
    """Mean, 10 % and 90 % quantile at each checkpoint, at the paper's epsilons and without."""
    shown = data.regret.sel(epsilon=[*games.EPSILONS, np.inf])
    found = _rows(curve_summary(shown), "learner", "instance", "epsilon", "round")
    return columns(found, "instance learner asked round mean q10 q90")


def _rows(cells, *order) -> list[dict]:
    """Rows of cells, with the epsilon asked for and what is declared. Without one it is inf."""
    found = rows(cells, order, asked="epsilon", epsilon="privacy_epsilon", delta="privacy_delta")
    return [row for row in found if row["takes_epsilon"] or row["asked"] == np.inf]


def papers_first(rows) -> list[dict]:
    """The rows of each learner with those at the paper's epsilons before the others."""
    names = list(dict.fromkeys(row["learner"] for row in rows))
    return sorted(
        rows, key=lambda row: (names.index(row["learner"]), row["asked"] not in games.EPSILONS)
    )


def knees(data) -> list[dict]:
    """The epsilon from which on privacy costs under 10 %, one row per learner and instance."""
    found, trials, epsilons = [], data.sizes["trial"], data.epsilon.values
    for name, instance in product(data.learner.values, data.instance.values):
        cells = data.final_regret.sel(learner=name, instance=instance)
        finals = cells.transpose("epsilon", "trial").values.astype(np.float64)

        def knee(seeds, finals=finals):
            return statistics.free_epsilon(epsilons, finals[:, seeds])

        point, low, high = arrays.resampled(trials, knee)
        found.append({
            "instance": instance, "learner": name, "without_privacy": float(finals[-1].mean()),
            "epsilon": point, "low": low, "high": high, "trials": trials,
        })  # fmt: skip
    return found


def horizon_table(data) -> list[dict]:
    """Final regret against the horizon."""
    found = rows(estimates.mean(data.final_regret), ("learner", "instance", "epsilon", "horizon"))
    for row in found:
        bound = games.lower_bound(float(row["horizon"]), row["instance"], row["epsilon"])
        row["lower_d_epsilon"], row["trials"] = float(bound), data.sizes["trial"]
    return columns(
        found, "learner instance epsilon horizon mean standard_error lower_d_epsilon trials"
    )


def reproduce(
    out: str | os.PathLike = "results/sajed2019",
    *,
    horizon: int = HORIZON,
    trials: int = TRIALS,
    progress: bool = True,
) -> str:
    """Plays everything, writes the files of a :class:`Report`, and returns the printed summary.

    Tables: "" final regrets with quantiles and bounds, "_curves", "_knee", "_horizon", "_stopping"
    and "_pairwise". Figures: curves by batches, "", and round by round, "_rounds"; "_laws";
    "_epsilon", and round by round "_declared"; "_horizon", "_stopping" and "_pairwise".

    Arguments and errors are as :mod:`dpjax.papers` says. The horizon is at least 10^4; learners
    that choose anew each round play a 400th of it. There are at least 8 trials; these learners
    have a 32nd of them, and at least 8.
    """
    check_size(horizon, trials, games.HORIZONS[0])

    def experiment():
        few, shorter = games.round_trials(trials), games.round_horizon(horizon)
        short = horizon < HORIZON
        lengths = games.horizons(horizon if short else 20 * horizon)
        batches = games.play_batches(horizon, trials, progress=progress)
        longer = games.play_horizons(lengths, trials, progress=progress)
        counts = stopping.QUICK_ARM_COUNTS if short else stopping.ARM_COUNTS
        pairs = stopping.play_pairs(horizon, trials, counts, progress=progress)
        by_rounds = games.play_rounds(shorter, few, short, progress=progress)
        rules = stopping.play_stopping(min(horizon, 2**18), few)
        found, free = table(batches) + papers_first(table(by_rounds)), knees(batches)
        of_rules, of_pairs = stopping.stopping_table(rules), stopping.pairs_table(pairs)
        shown = columns(
            [row for row in found if row["asked"] in games.EPSILONS],
            "instance learner asked epsilon horizon mean standard_error q5 q50 q95 "
            "lower_d_epsilon upper trials",
        )  # fmt: skip
        return Report(
            tables={
                "": found, "_curves": curves(batches) + papers_first(curves(by_rounds)),
                "_knee": free,
                "_horizon": horizon_table(longer), "_stopping": of_rules, "_pairwise": of_pairs,
            },
            figures={
                "": partial(figures.curves_figure, batches),
                "_rounds": partial(figures.rounds_figure, by_rounds, batches),
                "_laws": partial(figures.laws_figure, batches),
                "_epsilon": partial(figures.epsilon_figure, batches, free),
                "_declared": partial(figures.declared_figure, by_rounds),
                "_horizon": partial(figures.horizon_figure, longer),
                "_stopping": partial(stopping.stopping_figure, rules),
                "_pairwise": partial(stopping.pairs_figure, pairs),
            },
            parameters={
                "round_horizon": shorter, "round_trials": few, "rewards": games.REWARDS,
                "epsilons": games.EPSILONS, "more_epsilons": games.MORE_EPSILONS,
                "failure": 1.0 / horizon, "ratio": 2.0, "log_base": 2.0,
                "exploration": {"AdaP": 3.1, "AdaP-KLUCB, constant 1": 1.0},
            },
            text="\n\n".join(map(format_table, (shown, free, of_rules, of_pairs))),
        )  # fmt: skip

    return publish(out, "sajed2019", experiment, horizon=horizon, trials=trials, seed=games.SEED)
