"""What it costs not to trust the server: the same games under every trust model.

Arms, linear arms and identification are played by one learner each, with noise of eight laws and
one formula for all of their widths. Contexts and points of a ball are played by LinUCB and FTRL on
a mechanism for each model. Within a game all models declare the same epsilon, and the same delta
where they need one. The predictions are those of Chernoff's bounds.
"""

import os
from functools import partial

import numpy as np
import xarray

from dpjax.learners.parts.sum_noise import sum_noise
from dpjax.papers import trust_games as games
from dpjax.papers._shared import Report, check_size, publish
from dpjax.papers.sweeps import play
from dpjax.report import arrays, estimates
from dpjax.report.tables import columns, format_table, rows

HORIZON, QUICK_HORIZON = 10**7, 10**5
TRIALS, QUICK_TRIALS = 1000, 40
# The precision and the exponent of the predictions.
PRECISION, EXPONENT = 0.05, 20.0


def at_worst(data, axis) -> xarray.Dataset:
    """Each cell at the value of an axis of instances at which its mean regret is largest."""
    worst = data.final_regret.mean("trial").argmax(axis)
    return data[["final_regret"]].isel({axis: worst}).rename({axis: f"worst_{axis}"})


def factors(array) -> xarray.Dataset:
    """Means over those without privacy, with intervals over resampled trials, paired."""

    def ratio(means):
        return means / means.sel(epsilon=np.inf)

    centre = ratio(arrays.bare(array).mean("trial", skipna=False))
    low, high = arrays.interval(ratio(arrays.resampled_means(array)), 0.95)
    return xarray.Dataset({"factor": centre, "factor_low": low, "factor_high": high})


def cost_rows(data, of) -> list[dict]:
    """Mean, factor over no privacy, and what is declared, by learner and epsilon."""
    array = data[of]
    found = estimates.mean(array)[["mean", "standard_error"]].reset_coords(drop=True)
    found = found.merge(factors(array))
    for name in ("privacy_model", "privacy_delta"):
        found[name] = array.coords[name].variable
    found = found.squeeze("environment", drop=True)
    made = rows(found, ("learner", "epsilon"), model="privacy_model", delta="privacy_delta")
    for row in made:
        row["trials"] = data.sizes["trial"]
    return columns(made, "learner model epsilon delta mean standard_error factor factor_low "
                         "factor_high trials")  # fmt: skip


def onset_rows(studies) -> list[dict]:
    """From which epsilon on a mean is within twice that without privacy, in each game."""
    made = []
    for game, (data, of) in studies.items():
        found = data.dpjax.crossing(2.0, of=np.inf, value=of).reset_coords(drop=True)
        for row in rows(found.squeeze("environment", drop=True), ("learner",)):
            made.append({"game": game} | row)
    return columns(made, "game learner crossing low high")


def slope_rows(studies) -> list[dict]:
    """The fitted exponents of regret in the horizon, beside those of the theorems.

    The mean and its factor over no privacy are those at the largest horizon.
    """
    known = {"joint, tree": 1 / 2, "shuffle, batches": 3 / 5, "local, each user": 3 / 4,
             "central, tree of degree k": 1 / 2, "local, each message": 1 / 2}  # fmt: skip
    made = []
    for game, data in studies.items():
        last = data.isel(horizon=-1).reset_coords(drop=True)
        found = data.dpjax.slope().merge(factors(last.final_regret))
        mean = estimates.mean(last.final_regret)[["mean", "standard_error"]]
        found = found.reset_coords(drop=True).merge(mean.reset_coords(drop=True))
        for row in rows(found.squeeze(drop=True), ("learner", "epsilon")):
            made.append({"game": game, "known": known[row["learner"]],
                         "trials": data.sizes["trial"]} | row)  # fmt: skip
    return columns(made, "game learner epsilon known slope low high mean standard_error factor "
                         "factor_low factor_high trials")  # fmt: skip


def prediction_rows() -> list[dict]:
    """Rounds until a mean is known to 0.05 but for probability e^-20, for each law."""
    made = []
    for epsilon in games.EPSILONS:
        row = {"epsilon": epsilon}
        for name, law in games.LAWS.items():
            noise = sum_noise(law, epsilon, games.delta_of(law))
            row[name] = float(np.ceil(noise.least_rounds(PRECISION, EXPONENT)))
        made.append(row)
    return made


def cost_figure(data, of, label, note):
    """A mean against epsilon, a curve for each law."""
    drawn = data.dpjax.figure("epsilon", y=of, color="learner", note=note)
    drawn.axes[0].set_yscale("log")
    drawn.axes[0].set_ylabel(label)
    return drawn


def horizon_figure(data, note):
    """Regret against the horizon."""
    drawn = data.dpjax.figure("horizon", color="learner", line="epsilon", note=note)
    axes = drawn.axes[0]
    axes.set(xscale="log", yscale="log")
    axes.set_xticks(data.horizon.values, [f"{rounds:,}" for rounds in data.horizon.values])
    axes.set_xticks([], minor=True)
    return drawn


def reproduce(
    out: str | os.PathLike = "results/trust",
    *,
    horizon: int = HORIZON,
    trials: int = TRIALS,
    progress: bool = True,
) -> str:
    """Plays everything, writes the files of a :class:`Report`, and returns the printed summary.

    The table "" is of successive elimination on five arms, "_linear" of linear elimination, and
    "_identification" of mean stopping times. "_onset" says from which epsilon on these are within
    twice what they are without privacy. "_slopes" has the exponents of LinUCB and FTRL in the
    horizon, and "_predictions" the rounds that Chernoff's bounds ask for.

    Arguments and errors are as :mod:`dpjax.papers` says. The horizon is at least 10 000. LinUCB and
    FTRL last up to a fortieth of it, in at most 64 trials. Linear arms have a fifth of the trials.
    """
    check_size(horizon, trials, 10_000)
    short = horizon < HORIZON

    def experiment():
        arms = play(games.arms_study(horizon, trials, short), progress)
        linear = play(games.linear_study(horizon, trials, short), progress)
        stopped = play(games.identification_study(10 * horizon, trials, short), progress)
        contexts = play(games.contexts_study(horizon, trials, short), progress)
        points = play(games.points_study(horizon, trials, short), progress)
        contexts, points = at_worst(contexts, "environment"), at_worst(points, "bias")
        time = "report_stopping_time"
        tables = {
            "": cost_rows(arms, "final_regret"),
            "_linear": cost_rows(linear, "final_regret"),
            "_identification": cost_rows(stopped, time),
            "_onset": onset_rows({"arms": (arms, "final_regret"), "linear arms":
                                  (linear, "final_regret"), "three arms": (stopped, time)}),
            "_slopes": slope_rows({"contexts": contexts, "points": points}),
            "_predictions": prediction_rows(),
        }  # fmt: skip
        bits = ("Bernoulli losses. One bound for the widths of all laws. delta = 1e-6, "
                "or 0 where noise is pure. ")  # fmt: skip
        figures = {
            "": partial(cost_figure, arms, "final_regret", "regret",
                        bits + "Successive elimination of five arms."),
            "_linear": partial(cost_figure, linear, "final_regret", "regret",
                               bits + "Linear elimination of 20 vectors in five dimensions."),
            "_identification": partial(cost_figure, stopped, time, "mean stopping time",
                                       bits + "AdaP-TT on three arms, failure 0.01; trials are "
                                       "censored at the horizon."),
            "_contexts": partial(horizon_figure, contexts, "LinUCB, delta = 1e-6, 25 arms in five "
                                 "dimensions, at the worst of the gaps. Noise of a shuffled "
                                 "batch is the Gaussian limit of binomial noise."),
            "_points": partial(horizon_figure, points, "FTRL on the unit ball in five dimensions, "
                               "against the worst of six drifts of the losses. Local: at the rate "
                               "of its own bound."),
        }  # fmt: skip
        return Report(
            tables=tables,
            figures=figures,
            parameters={"delta": games.DELTA, "epsilons": games.EPSILONS, "laws": games.laws(short),
                        "means": games.MEANS, "three": games.THREE, "failure": games.FAILURE,
                        "contexts_epsilon": games.CONTEXTS, "points_epsilon": games.POINTS,
                        "gaps": games.gaps(short), "biases": games.BIASES,
                        "precision": PRECISION, "exponent": EXPONENT},
            text="\n\n".join(map(format_table, tables.values())),
        )  # fmt: skip

    return publish(out, "trust", experiment, horizon=horizon, trials=trials, seed=games.SEED)
